//! In which scopes blocks are freed, as the trace of a whole process has it.

use crate::harness::{Case, Outcome, REPORT, Run, TRACE, builder, case};
use memledger::alloc_scope;
use memledger::events::Channel;
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, FindingsObserver, FreedIn};
use std::fs::File;
use std::hint::black_box;
use std::sync::mpsc;

const CHANNELS: &str = "memory,scope,freescope";
const COMPACT: &str = "trace.memledger";

pub(crate) const CASES: &[Case] = &[
    case("with its channel a free is in its own scope", moved, |run| {
        let without = Run::of(&run).tracked().run();
        assert!(freed_in(&without, TRACE).is_empty());
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", CHANNELS).run();
        check_moved(&outcome, TRACE);
        // All else is as without the channel.
        let [with, without] = [&outcome, &without].map(|outcome| outcome.quiet().whole());
        for path in [&["GlobalScope", "load"][..], &["GlobalScope", "shutdown"]] {
            let [with, without] = [&with, &without]
                .map(|report| report.by_scope.iter().find(|row| row.path == path).cloned());
            assert_eq!(with, without, "{path:?}");
        }
        let compact =
            outcome.again().env("MEMLEDGER_TRACE", COMPACT).env("MEMLEDGER_REPORT", REPORT);
        let compact = compact.env("MEMLEDGER_CHANNELS", CHANNELS).run();
        compact.quiet().whole_as(COMPACT, REPORT);
        check_moved(&compact, COMPACT);
    }),
    case("so it is before a recording starts in code, and where a stream joins", in_code, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        assert_eq!(rows_of(&outcome, TRACE, "early"), [("late", 1), ("main", 1)]);
        assert_eq!(rows_of(&outcome, TRACE, "second"), [("main", 1)]);
        assert_eq!(rows_of(&outcome, "late.utrace", "early"), [("late", 1)]);
        // Of these parts, it is not known, or there are no scopes.
        outcome.export_channels(TRACE, "memory,scope", "scopes.utrace");
        outcome.export_channels("late.utrace", "memory,freescope", "no scopes.utrace");
        for name in ["scopes.utrace", "no scopes.utrace"] {
            assert!(freed_in(&outcome, name).is_empty(), "{name}");
        }
    }),
    case("the channel of the scopes of frees is not switched in a recording", in_code, |run| {
        let outcome = run.tracked().run();
        outcome.exited(0);
        let says = "freescope is not recorded: the environment started recording before main";
        assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
        assert!(freed_in(&outcome, TRACE).is_empty());
    }),
];

fn freed_in(outcome: &Outcome, name: &str) -> Vec<FreedIn> {
    let mut analyzer = Analyzer::observing(FindingsObserver::default()).by_bucket();
    read(File::open(outcome.path(name)).unwrap(), &mut analyzer).unwrap();
    analyzer.freed_in(&analyzer.report(), None)
}

/// In which scopes blocks of the scope were freed, and how many.
fn rows_of(outcome: &Outcome, name: &str, scope: &str) -> Vec<(&'static str, u64)> {
    let names = ["GlobalScope", "load", "shutdown", "work", "early", "main", "late"];
    let rows = freed_in(outcome, name).into_iter();
    let rows = rows.filter(|row| row.allocated_in.last().unwrap() == scope);
    let mut rows: Vec<_> = rows
        .map(|row| {
            let of = row.freed_in.last().unwrap();
            (names.into_iter().find(|name| name == of).unwrap_or("another"), row.blocks)
        })
        .collect();
    rows.sort_unstable();
    rows
}

fn check_moved(outcome: &Outcome, name: &str) {
    let rows = rows_of(outcome, name, "load");
    assert_eq!(rows, [("GlobalScope", 30), ("load", 1_000), ("shutdown", 59), ("work", 10)]);
    let rows = freed_in(outcome, name);
    let shut = |row: &&FreedIn| row.freed_in.last().unwrap() == "shutdown";
    assert_eq!(rows.iter().find(shut).unwrap().bytes, 59 * 1_000);
    assert_eq!(rows_of(outcome, name, "shutdown"), [("shutdown", 5)]);
}

/// Blocks are freed in a scope in which nothing is allocated, in none, and on another thread.
fn moved() {
    let (sender, receiver) = mpsc::sync_channel::<Vec<Box<[u8; 1_000]>>>(1);
    let worker = std::thread::spawn(move || {
        let blocks = receiver.recv().unwrap();
        alloc_scope!("work", { blocks.into_iter().for_each(drop) });
    });
    let mut all: Vec<Box<[u8; 1_000]>> = Vec::with_capacity(100);
    let mut some = Vec::with_capacity(10);
    alloc_scope!("load", {
        for _ in 0..1_000 {
            drop(black_box(Box::new([1_u8; 300])));
        }
        for _ in 0..99 {
            all.push(black_box(Box::new([1; 1_000])));
        }
    });
    some.extend(all.drain(..10));
    sender.send(some).unwrap();
    worker.join().unwrap();
    alloc_scope!("shutdown", { all.drain(..59).for_each(drop) });
    all.drain(..15).for_each(drop);
    alloc_scope!("shutdown", {
        for _ in 0..5 {
            drop(black_box(Box::new([1_u8; 100])));
        }
    });
    all.drain(..15).for_each(drop);
}

/// Some of it is before the recording starts, unless the environment has started one.
fn in_code() {
    let keep = || black_box(Box::new([1_u8; 5_000]));
    let [one, two] = alloc_scope!("early", { [keep(), keep()] });
    alloc_scope!("main", { drop(one) });
    let ledger = builder().channels([CHANNELS]).start().unwrap();
    assert!(Channel::set_enabled_by_name("freescope", true).is_err());
    ledger.trace_to_file("late.utrace").unwrap();
    let second = alloc_scope!("second", { keep() });
    alloc_scope!("late", { drop(two) });
    alloc_scope!("main", { drop(second) });
}
