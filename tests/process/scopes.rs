//! Scopes and tags, as the report of a whole process shows them.

use crate::harness::{Case, case, churn, leave, left, scope, start};
use memledger::{Name, ScopeGuard, Tag, alloc_scope, group, tag, tagged};
use std::sync::{Arc, Barrier};

group! {
    RENDERING = "Rendering";
    TEXTURES = "Textures" in RENDERING;
    AUDIO = "Audio";
}

const MESHES: Tag = tag!(RENDERING, "meshes");
const PIXELS: Tag = tag!(TEXTURES, "pixels");

pub(crate) const CASES: &[Case] = &[
    case("without its channel no scope is in the trace", without_channel, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 1_000_003), 3);
        assert_eq!(
            scope(&report, &["GlobalScope"]).unwrap().figures.live_blocks,
            report.totals.live_blocks - 1
        );
        // What was recorded before the start had its scope.
        assert_eq!(scope(&report, &["GlobalScope", "early"]).unwrap().figures.live_blocks, 1);
    }),
    case("without the memory channel nothing is recorded", without_memory, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.totals.allocations, 0);
        assert_eq!(report.totals.live_blocks, 0);
        assert_eq!(report.trace.from_process_start, Some(false));
    }),
    case("names come from any kind of text", any_text, |run| {
        let report = run.run().quiet().whole();
        let blocks = |name: &str| {
            let row = scope(&report, &["GlobalScope", name]);
            row.unwrap_or_else(|| panic!("no scope {name:?}")).figures.live_blocks
        };
        assert_eq!(["level 7", "Ü€𝄞", "a\u{fffd}b"].map(blocks), [2, 2, 1]);
        let tagged = report.by_name.iter().filter(|row| row.group == ["Rendering"]);
        let mut names: Vec<_> =
            tagged.map(|row| (row.name.as_ref(), row.figures.live_blocks)).collect();
        names.sort();
        assert_eq!(names, [("mesh 8", 2), ("Ü€𝄞", 1)]);
    }),
    case("nested scopes have exact paths and figures", nested, |run| {
        let report = run.run().quiet().whole();
        for (path, blocks) in [
            (&["GlobalScope", "load level"][..], 1),
            (&["GlobalScope", "load level", "parse"], 2),
            (&["GlobalScope", "load level", "parse", "number"], 30),
            (&["GlobalScope", "parse"], 4),
        ] {
            let row = scope(&report, path).unwrap();
            assert_eq!(row.figures.live_blocks, blocks, "{path:?}");
            assert_eq!(row.figures.live_bytes, blocks * 1_000_003);
            assert_eq!(row.figures.allocations, blocks);
        }
        let outer = scope(&report, &["GlobalScope", "load level"]).unwrap();
        assert_eq!(outer.inclusive.live_blocks, 33);
        assert_eq!(scope(&report, &["GlobalScope"]).unwrap().inclusive, sum(&report));
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("frees and reallocations belong to the scope of the allocation", elsewhere, |run| {
        let report = run.run().quiet().whole();
        let owner = &scope(&report, &["GlobalScope", "owner"]).unwrap().figures;
        assert_eq!((owner.allocations, owner.reallocations, owner.frees), (2, 1, 2));
        assert_eq!(owner.allocated_bytes, 100 + 200 + 400);
        assert!(scope(&report, &["GlobalScope", "other"]).is_none_or(|row| row.figures.frees == 0));
    }),
    case("groups and tags own memory beside scopes", owners, |run| {
        let report = run.run().quiet().whole();
        let name = |group: &[&str], name: &str| {
            let mut rows = report.by_name.iter();
            rows.find(|row| row.group == group && row.name == name).unwrap().figures.live_blocks
        };
        assert_eq!(name(&["Rendering"], "meshes"), 1 + 2 + 8);
        assert_eq!(name(&["Rendering", "Textures"], "pixels"), 4);
        assert_eq!(name(&["Audio"], "Unnamed"), 16 + 32);
        let groups =
            |group: &[&str]| report.by_group.iter().find(|row| row.group == group).unwrap();
        assert_eq!(groups(&["Rendering"]).inclusive.live_blocks, 15);
        let path = |path: &[&str]| scope(&report, path).unwrap().figures.live_blocks;
        assert_eq!(path(&["GlobalScope", "draw"]), 2 + 4 + 8);
        assert_eq!(path(&["GlobalScope", "mix"]), 16);
        assert_eq!(path(&["GlobalScope", "mix", "decode"]), 32);
    }),
    case("a forgotten guard is put right and counted", forgotten, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("tests/process/scopes.rs"), "{}", outcome.stderr);
        assert_eq!(report.losses.scope_misuses, 1);
        assert_eq!(
            scope(&report, &["GlobalScope", "a", "forgotten"]).unwrap().figures.live_blocks,
            1
        );
        assert_eq!(scope(&report, &["GlobalScope", "after"]).unwrap().figures.live_blocks, 1);
    }),
    case("guards that a loop forgets are put right and counted", forgotten_in_a_loop, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("tests/process/scopes.rs"), "{}", outcome.stderr);
        // All scopes but those entered since the thread was last put right, and the guard around
        // them.
        assert_eq!(report.losses.scope_misuses, ROUNDS / FOUND_AFTER * FOUND_AFTER + 1);
        let mut blocks = report.largest_live.iter().filter(|block| block.bytes == SIZE as u64);
        let after = blocks.find(|block| block.path.last().unwrap() == "after").unwrap();
        assert_eq!(after.path[1], "server", "{:?}", after.path);
        assert_eq!(scope(&report, &["GlobalScope", "end"]).unwrap().figures.live_blocks, 1);
    }),
    case(
        "guards with names of their own that a loop forgets are put right",
        forgotten_names,
        |run| {
            let report = run.run().exited(0).whole();
            assert!(report.losses.scope_misuses >= 511, "{}", report.losses.scope_misuses);
            assert_eq!(
                scope(&report, &["GlobalScope", "name 511"]).unwrap().figures.live_blocks,
                1
            );
        },
    ),
    case("functions a thousand deep are no misuse", recursive, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.losses.scope_misuses, 0);
        assert_eq!(scope(&report, &["GlobalScope", "after"]).unwrap().figures.live_blocks, 1);
        let other =
            report.by_scope.iter().find(|row| row.path.last().unwrap() == "(other)").unwrap();
        assert_eq!(other.figures.live_blocks, 1000);
    }),
    case("guards dropped out of order are put right and counted", out_of_order, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert!(report.losses.scope_misuses > 0);
        assert!(outcome.stderr.contains("out of order"), "{}", outcome.stderr);
        assert_eq!(scope(&report, &["GlobalScope", "after"]).unwrap().figures.live_blocks, 1);
    }),
    case("scopes three hundred deep are kept to the limit and recover", deep, |run| {
        let report = run.run().quiet().whole();
        let deepest = report.by_scope.iter().map(|row| row.path.len()).max().unwrap();
        assert_eq!(deepest, 256, "GlobalScope and 255 more");
        let other =
            report.by_scope.iter().find(|row| row.path.last().unwrap() == "(other)").unwrap();
        assert_eq!(other.figures.live_blocks, 45);
        assert_eq!(scope(&report, &["GlobalScope", "after"]).unwrap().figures.live_blocks, 1);
    }),
    case("dynamic names are text like any other", dynamic, |run| {
        let report = run.run().quiet().whole();
        for number in 0..500 {
            let row = scope(&report, &["GlobalScope", &format!("level {number}")]).unwrap();
            assert_eq!(row.figures.allocations, 3, "two threads and a literal of the same text");
        }
        assert!(scope(&report, &["GlobalScope", "a/b \"quoted\" \u{1f980} \n"]).is_some());
        assert!(scope(&report, &["GlobalScope", ""]).is_some());
    }),
    case("names without end are bounded and counted", endless, |run| {
        let outcome = run.deadline(60).run();
        let report = outcome.exited(0).whole();
        let other =
            report.by_scope.iter().find(|row| row.path.last().unwrap() == "(other)").unwrap();
        assert!(other.figures.allocations >= 10_000);
        assert!(report.by_scope.len() > 100_000);
        assert!(outcome.stdout.trim().parse::<u64>().unwrap() > 0);
        // There is room for a literal.
        assert!(scope(&report, &["GlobalScope", "important"]).is_some());
        let line = "the table of names is full: 35";
        assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("left to literals"), "{}", outcome.stderr);
    }),
    case("a panic leaves the scopes it passes", panicking, |run| {
        let report = run.run().exited(0).whole();
        assert_eq!(report.losses.scope_misuses, 0);
        assert_eq!(left(&report, 1_000_003), 1);
        let after = report.largest_live.iter().find(|block| block.bytes == 1_000_003).unwrap();
        assert_eq!(after.path, ["GlobalScope"]);
        assert_eq!(after.name, "Unnamed");
        let inner = scope(&report, &["GlobalScope", "outer", "inner"]).unwrap();
        assert_eq!(inner.figures.live_blocks, 1);
    }),
    case("a scope left by return, break and question mark is left", early_ways_out, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(scope(&report, &["GlobalScope", "after"]).unwrap().figures.live_blocks, 1);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case(
        "a scope that is open at the end of everything is closed in the trace",
        open_at_end,
        |run| {
            let report = run.run().quiet().whole();
            assert_eq!(scope(&report, &["GlobalScope", "forever"]).unwrap().figures.live_blocks, 2);
        },
    ),
    case("contexts are exact across many blocks", across_blocks, |run| {
        let report = run.run().quiet().whole();
        for path in [&["GlobalScope", "in"][..], &["GlobalScope", "in", "nested"]] {
            assert_eq!(scope(&report, path).unwrap().figures.allocations, 50_000, "{path:?}");
        }
        let outside = scope(&report, &["GlobalScope"]).unwrap().figures.allocations;
        assert!((50_000..50_100).contains(&outside), "{outside}");
    }),
    case("scopes of eight threads do not mix", many_threads, |run| {
        let report = run.run().quiet().whole();
        for thread in 0..8 {
            let own = scope(&report, &["GlobalScope", &format!("thread {thread}")]).unwrap();
            assert!(own.figures.allocations >= 20_000, "{thread}");
            let shared = scope(&report, &["GlobalScope", &format!("thread {thread}"), "shared"]);
            assert_eq!(shared.unwrap().figures.live_blocks, 1);
        }
        assert_eq!(report.losses.scope_misuses, 0);
    }),
];

fn sum(report: &memledger_analysis::Report) -> memledger_analysis::Figures {
    // The outermost scope holds all; its peaks are those of the whole.
    let all = scope(report, &["GlobalScope"]).unwrap().inclusive;
    assert_eq!(all.live_bytes, report.totals.live_bytes);
    assert_eq!(all.allocations, report.totals.allocations);
    assert_eq!(all.peak_bytes, report.totals.peak_bytes);
    all
}

const SIZE: usize = 1_000_003;

fn nested() {
    fn parse(blocks: usize) {
        alloc_scope!("parse");
        (0..blocks).for_each(|_| leave(SIZE));
    }
    let _ledger = start();
    alloc_scope!("load level", {
        leave(SIZE);
        parse(1);
        alloc_scope!("parse", {
            for _ in 0..30 {
                alloc_scope!("number", { leave(SIZE) });
            }
        });
        parse(1);
    });
    parse(4);
    // A scope without allocations leaves no row.
    alloc_scope!("empty", {});
}

fn elsewhere() {
    let _ledger = start();
    let (grown, freed) = alloc_scope!("owner", {
        (std::hint::black_box(Vec::<u8>::with_capacity(100)), std::hint::black_box(vec![1_u8; 200]))
    });
    let freeing = move || {
        alloc_scope!("other");
        let mut grown = grown;
        grown.reserve_exact(std::hint::black_box(400));
        drop(std::hint::black_box(grown));
        drop(freed);
    };
    std::thread::spawn(freeing).join().unwrap();
}

fn owners() {
    let leave = |blocks: usize| (0..blocks).for_each(|_| leave(SIZE));
    let _ledger = start();
    tagged(MESHES, || leave(1));
    alloc_scope!("draw", {
        tagged(MESHES, || {
            leave(2);
            tagged(PIXELS, || leave(4));
            leave(8);
        });
    });
    alloc_scope!(group: AUDIO, "mix", {
        leave(16);
        alloc_scope!("decode", { leave(32) });
    });
}

fn forgotten() {
    let _ledger = start();
    {
        alloc_scope!("a");
        std::mem::forget(ScopeGuard::enter("forgotten"));
        leave(SIZE);
    }
    alloc_scope!("after");
    leave(SIZE);
}

/// 254 scopes inside the outer one have nodes; after 256 more, the next one detects the misuse.
const FOUND_AFTER: u64 = 510;
/// A number of rounds after which the last scopes have nodes.
const ROUNDS: u64 = 19 * FOUND_AFTER + 100;

fn forgotten_in_a_loop() {
    let _ledger = start();
    {
        alloc_scope!("server");
        for _ in 0..ROUNDS {
            std::mem::forget(ScopeGuard::enter_group(&AUDIO, "job"));
            leave(8);
        }
        alloc_scope!("after", { leave(SIZE) });
    }
    alloc_scope!("end", { leave(SIZE) });
}

fn forgotten_names() {
    let _ledger = start();
    let names: Vec<_> = (0..600).map(|number| Name::intern(&format!("name {number}"))).collect();
    for name in names {
        std::mem::forget(ScopeGuard::enter(name));
        leave(8);
    }
}

fn recursive() {
    fn deeper(levels: usize) {
        alloc_scope!("deeper");
        if levels > 0 {
            deeper(std::hint::black_box(levels) - 1);
        } else {
            for _ in 0..1000 {
                alloc_scope!("leaf", { leave(8) });
            }
        }
    }
    let _ledger = start();
    deeper(1000);
    alloc_scope!("after", { leave(SIZE) });
}

fn out_of_order() {
    let _ledger = start();
    let first = ScopeGuard::enter("first");
    let second = ScopeGuard::enter("second");
    leave(SIZE);
    drop(first);
    leave(SIZE);
    drop(second);
    alloc_scope!("after");
    leave(SIZE);
}

fn deep() {
    let _ledger = start();
    let mut guards = Vec::with_capacity(300);
    for _ in 0..300 {
        guards.push(ScopeGuard::enter("deeper"));
        leave(SIZE);
    }
    while guards.pop().is_some() {}
    alloc_scope!("after");
    leave(SIZE);
}

fn any_text() {
    let _ledger = start();
    let text = String::from("Ü€𝄞");
    let units: Vec<u16> = text.encode_utf16().collect();
    alloc_scope!(Name::intern(&format!("level {}", 7)), { leave(8) });
    alloc_scope!(Name::intern("level 7"), { leave(8) });
    alloc_scope!(Name::intern(&text), { leave(8) });
    alloc_scope!(Name::intern_utf16(&units), { leave(8) });
    alloc_scope!(Name::intern_utf16(&[0x61, 0xd834, 0x62]), { leave(8) });
    let mesh = Name::intern(&format!("mesh {}", 8));
    tagged(tag!(RENDERING, mesh), || leave(8));
    tagged(tag!(RENDERING, mesh.as_str()), || leave(8));
    tagged(tag!(RENDERING, Name::intern_utf16(&units)), || leave(8));
}

fn dynamic() {
    let _ledger = start();
    let work = || {
        for number in 0..500 {
            let name = Name::intern(&format!("level {number}"));
            alloc_scope!(name, { leave(8) });
        }
    };
    work();
    std::thread::spawn(work).join().unwrap();
    for number in 0..500 {
        let literal: &'static str = format!("level {number}").leak();
        alloc_scope!(literal, { leave(8) });
    }
    alloc_scope!("a/b \"quoted\" \u{1f980} \n", { leave(8) });
    alloc_scope!("", { leave(8) });
}

fn endless() {
    let ledger = start();
    for number in 0..150_000 {
        let name = Name::intern(&format!("{number}"));
        alloc_scope!(name, { leave(8) });
        if number % 2000 == 0 {
            // So many names at once are more than a worker without optimisation digests in time.
            ledger.flush();
        }
    }
    alloc_scope!("important", { leave(8) });
    println!("{}", ledger.stats().refused_contexts);
}

fn panicking() {
    let _ledger = start();
    let caught = std::panic::catch_unwind(|| {
        alloc_scope!("outer");
        tagged(MESHES, || {
            alloc_scope!("inner");
            leave(SIZE + 30);
            panic!("through two scopes and a tag");
        })
    });
    caught.unwrap_err();
    leave(SIZE);
}

fn early_ways_out() {
    fn returns() -> Option<u32> {
        alloc_scope!("returns", {
            leave(8);
            None?
        })
    }
    let _ledger = start();
    assert_eq!(returns(), None);
    for number in 0..3 {
        alloc_scope!("breaks", {
            leave(8);
            if number == 1 {
                break;
            }
        });
    }
    alloc_scope!("after");
    leave(SIZE);
}

fn open_at_end() {
    std::mem::forget(start());
    let ready = Arc::new(Barrier::new(2));
    let other = ready.clone();
    std::thread::spawn(move || {
        let _scope = ScopeGuard::enter("forever");
        leave(SIZE);
        other.wait();
        loop {
            std::thread::park();
        }
    });
    ready.wait();
    alloc_scope!("forever");
    leave(SIZE);
    std::process::exit(0);
}

fn across_blocks() {
    let allocate = || drop(std::hint::black_box(Box::new(1_u64)));
    let _ledger = start();
    for _ in 0..50_000 {
        allocate();
        alloc_scope!("in", {
            allocate();
            alloc_scope!("nested", { allocate() });
        });
    }
}

fn many_threads() {
    let _ledger = start();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            std::thread::spawn(move || {
                let name = Name::intern(&format!("thread {number}"));
                for _ in 0..20 {
                    alloc_scope!(name, {
                        churn(1000);
                        alloc_scope!("shared", { churn(100) });
                    });
                }
                alloc_scope!(name, { alloc_scope!("shared", { leave(SIZE) }) });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn without_channel() {
    alloc_scope!("early");
    leave(1_000_003);
    let _ledger = crate::harness::builder().channels(["memory"]).start().unwrap();
    alloc_scope!("late");
    leave(1_000_003);
    std::thread::spawn(|| alloc_scope!("elsewhere", { leave(1_000_003) })).join().unwrap();
}

fn without_memory() {
    leave(1_000_003);
    let _ledger = crate::harness::builder().channels(["scope"]).start().unwrap();
    leave(1_000_003);
}
