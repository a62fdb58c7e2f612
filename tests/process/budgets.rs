//! Budgets and measurements: what they do to the process, and every way of being unable to measure.

use crate::allocator::held_up;
#[cfg(unix)]
use crate::fork::{exit_now, fork, fork_through, wait};
use crate::harness::{Case, TRACE, builder, case, churn, leave, left, scope, start};
use memledger::control::{Client, Command};
use memledger::{
    BudgetError, Figures, Ledger, Name, OnFull, ScopeContext, Unmeasured, Worker, alloc_scope,
    budget, measure,
};
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::{Barrier, Mutex, mpsc};

pub(crate) const CASES: &[Case] = &[
    case("a measurement leaves nothing behind", nothing_left, |run| {
        let outcome = run.run();
        outcome.exited(0);
        assert_eq!(outcome.stderr, "");
        assert_eq!(outcome.files(), [""; 0]);
    }),
    case("a measurement beside a ledger is a scope of its report", beside, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        // Two measurements of one name at once, and a third later, are one row.
        let row = scope(&report, &["GlobalScope", "outer", "measured"]).unwrap();
        assert_eq!(row.figures.allocated_bytes, 3 * 1_000_003);
        assert_eq!(row.figures.live_blocks, 1);
        assert_eq!(row.figures.peak_bytes, 2 * 1_000_003);
        let inner = scope(&report, &["GlobalScope", "outer", "measured", "inner"]).unwrap();
        assert_eq!(inner.figures.allocated_bytes, 3 * 500);
        assert_eq!(row.inclusive.allocations, 6);
    }),
    case("the environment's recording is measured in", environment, |run| {
        let outcome = run.tracked().run();
        let report = outcome.quiet().whole();
        assert!(scope(&report, &["GlobalScope", "small"]).is_some());
    }),
    case("a ledger without an analyzer gets one", trace_only, |run| {
        let outcome = run.run();
        outcome.quiet();
        let (report, _) = outcome.trace(TRACE);
        assert!(report.trace.complete);
        assert_eq!(left(&report, 1_000_003), 1);
    }),
    case("a lost event fails the measurement", lost, |run| {
        run.run().quiet();
    }),
    case("a ledger that ends meanwhile fails the measurement", ended, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 1_000_003), 1);
    }),
    case("a ledger without the channels fails the measurement", channels, |run| {
        run.run().quiet();
    }),
    case("a channel that is turned off meanwhile fails the measurement", turned_off, |run| {
        run.run().quiet();
    }),
    case("a ledger does not start while something is measured", no_ledger, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(left(&report, 1_000_003), 1);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("a ledger cannot start while"), "{}", outcome.stderr);
    }),
    case("a full table fails the measurement, but not one that has begun", full, |run| {
        let outcome = run.deadline(60).run();
        let problem = "memledger: the table of names is full: all 262142 entries are used up";
        assert!(outcome.exited(0).stderr.starts_with(problem), "{}", outcome.stderr);
    }),
    #[cfg(unix)]
    case("a forked child fails the measurement", forked, |run| {
        run.run().quiet();
    }),
    #[cfg(unix)]
    case("a forked child that follows fails the measurement it was born in", following, |run| {
        run.run().exited(0);
    }),
    case("a repeated measurement takes one node", repeated, |run| {
        let full = "memledger: the table of names is full: all 262142 entries are used up";
        let outcome = run.run();
        assert!(outcome.exited(0).stderr.starts_with(full), "{}", outcome.stderr);
    }),
    case("a destructor of a thread's own storage can measure", thread_local, |run| {
        run.run().quiet();
    }),
    case("a block that another thread is reallocating is live", reallocating, |run| {
        run.run().quiet();
    }),
    case("a budget that is exceeded shows the stacks", over_budget, |run| {
        let outcome = run.env("MEMLEDGER_STACKS", "on").run();
        outcome.quiet();
        let (_, table) = outcome.stdout.split_once("\nBy stack ").expect(&outcome.stdout);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[1].contains("keeps_a_block < "), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(" 5,000 "), "{}", outcome.stdout);
        // Without stacks there is no such table.
        let outcome = outcome.again().run();
        assert!(!outcome.quiet().stdout.contains("By stack"), "{}", outcome.stdout);
        // What the names take is not the program's.
        let run = outcome.again().tracked().env("MEMLEDGER_STACKS", "on");
        let with = run.run();
        let with = with.quiet().whole().totals;
        let without = outcome.again().tracked().run();
        let without = without.quiet().whole().totals;
        // The text itself is the program's, and is longer by some hundred bytes.
        assert_eq!(with.allocations, without.allocations);
        assert!(with.allocated_bytes < without.allocated_bytes + 2000, "{with:?} {without:?}");
    }),
    case("exit within a measurement is an exit", exits, |run| {
        run.run().quiet();
    }),
];

const SIZE: usize = 1_000_003;

#[inline(never)]
fn keeps_a_block() -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(5000)))
}

fn over_budget() {
    let error = budget("small").live_bytes(100).try_run(keeps_a_block).1.unwrap_err();
    println!("{error}");
}

/// The sentence of a measurement that must not succeed.
#[track_caller]
fn refused<R>((_, measured): (R, Result<Figures, Unmeasured>)) -> String {
    measured.unwrap_err().to_string()
}

#[track_caller]
fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

fn nothing_left() {
    for _ in 0..3 {
        assert_eq!(measure(|| leave(SIZE)).1.unwrap().live_bytes, SIZE as u64);
        let stats = Ledger::builder().start().unwrap().stats();
        assert!(stats.recording, "a ledger can start, and ends at once");
    }
    let started = Ledger::builder().analyze_in_process(true).start().unwrap();
    let ledger = Ledger::current().unwrap();
    let stats = started.finish().unwrap();
    assert_eq!((stats.scope_misuses, stats.refused_contexts), (0, 0));
    assert!(Ledger::current().is_none());
    assert!(!ledger.stats().recording);
    measure(|| churn(1000)).1.unwrap();
    assert!(!ledger.stats().recording, "what a measurement has started ends with it");
    let before = ledger.stats().overhead_bytes;
    (0..100).for_each(|_| _ = measure(|| churn(10)).1.unwrap());
    let after = ledger.stats().overhead_bytes;
    assert!(after < before + (256 << 10), "{before} bytes before 100 measurements, {after} after");
}

fn beside() {
    let _ledger = start();
    alloc_scope!("outer");
    let work = || {
        alloc_scope!("inner", { drop(black_box(Vec::<u8>::with_capacity(black_box(500)))) });
        black_box(Vec::<u8>::with_capacity(black_box(SIZE)))
    };
    let both = Barrier::new(2);
    let measured = || {
        let (value, measured) = measure(|| {
            let block = work();
            both.wait();
            block
        });
        let measured = measured.unwrap();
        assert_eq!((measured.allocations, measured.frees), (2, 1));
        assert_eq!((measured.live_bytes, measured.peak_bytes), (SIZE as u64, SIZE as u64));
        drop(value);
    };
    let context = ScopeContext::current();
    std::thread::scope(|threads| {
        threads.spawn(|| context.run(measured));
        measured();
    });
    let (value, third) = measure(work);
    let third = third.unwrap();
    assert_eq!((third.allocations, third.live_bytes), (2, SIZE as u64));
    std::mem::forget(value);
}

fn environment() {
    budget("small").peak_bytes(SIZE as u64).live_bytes(0).run(|| drop(black_box(vec![0_u8; SIZE])));
    let error =
        budget("small").peak_bytes(SIZE as u64 - 1).try_run(|| drop(black_box(vec![0_u8; SIZE])));
    assert!(matches!(error.1, Err(BudgetError::Over { .. })));
}

fn trace_only() {
    let mut grown = black_box(Vec::<u8>::with_capacity(100));
    let ledger = Ledger::builder().trace_to_file(TRACE).start().unwrap();
    let known = black_box(vec![0_u8; 100]);
    for round in 0..3 {
        let measured = measure(|| {
            grown.reserve_exact(1000 * (round + 1));
            churn(1000);
            black_box(vec![0_u8; SIZE])
        });
        let measured = measured.1.unwrap();
        assert_eq!((measured.live_blocks, measured.live_bytes), (1, SIZE as u64));
        assert_eq!(measured.foreign_reallocations, 1);
    }
    drop(known);
    leave(SIZE);
    assert!(ledger.snapshot().is_none(), "it is the analyzer of measurements only");
}

fn lost() {
    let builder = Ledger::builder().analyze_in_process(true).worker(Worker::Manual).buffer_limit(1);
    let _ledger = builder.on_full(OnFull::Drop).start().unwrap();
    contains(&refused(measure(|| churn(100_000))), "events were lost meanwhile");
    // What was lost before does not matter.
    assert_eq!(measure(|| churn(100)).1.unwrap().live_bytes, 0);
    let error = budget("lossy").live_bytes(0).try_run(|| churn(100_000)).1.unwrap_err();
    contains(&error.to_string(), "events were lost meanwhile");
}

fn ended() {
    let ledger = start();
    leave(SIZE);
    contains(&refused(measure(|| drop(ledger))), "the recording ended meanwhile");
    let ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    let mut second = None;
    let error = refused(measure(|| {
        let _ = ledger.finish();
        second = Some(Ledger::builder().analyze_in_process(true).start().unwrap());
    }));
    contains(&error, "the recording ended meanwhile");
    measure(|| churn(100)).1.unwrap();
}

fn channels() {
    for (channels, missing) in [("scope", "\"memory\""), ("memory", "\"scope\"")] {
        let _ledger =
            Ledger::builder().analyze_in_process(true).channels([channels]).start().unwrap();
        contains(&refused(measure(|| churn(100))), missing);
    }
    measure(|| churn(100)).1.unwrap();
}

fn turned_off() {
    let ledger = Ledger::builder().analyze_in_process(true).control("0").start().unwrap();
    let address = format!("127.0.0.1:{}", ledger.control_address().unwrap().port());
    let mut client = Client::connect(&address).unwrap();
    let mut scopes = |enable| drop(client.send(&Command::channels(["scope"], enable)).unwrap());
    let measured = measure(|| {
        scopes(false);
        churn(100);
        scopes(true);
    });
    contains(&refused(measured), "\"scope\" was turned off meanwhile");
    measure(|| churn(100)).1.unwrap();
    scopes(false);
    contains(&refused(measure(|| churn(100))), "does not record the channel \"scope\"");
}

fn no_ledger() {
    let measured = measure(|| {
        let Err(error) = Ledger::builder().start() else { panic!("two at once") };
        contains(&error.to_string(), "a ledger cannot start while memledger::measure");
        drop(Ledger::from_env());
        drop(error);
    });
    assert_eq!(measured.1.unwrap().live_blocks, 0, "the problem that is kept is the tracker's");
    let _ledger = start();
    leave(SIZE);
}

fn full() {
    let kept = measure(|| {
        (0..230_000).for_each(|number| _ = Name::intern(&format!("{number}")));
        assert_eq!(Name::intern("late").as_str(), "(other)");
        // Only scopes inside scopes still get places.
        let names: Vec<_> = (0..200).map(|number| Name::intern(&format!("{number}"))).collect();
        'fill: for &outer in &names {
            alloc_scope!(outer);
            for &inner in &names {
                alloc_scope!(inner, {});
                if budget("one").live_bytes(0).try_run(|| ()).1.is_err() {
                    break 'fill;
                }
            }
        }
        // There is no place for these, so they count where they are entered.
        alloc_scope!("new", {
            alloc_scope!(Name::intern("another"));
            leave(SIZE);
        });
    });
    let kept = kept.1.unwrap();
    assert_eq!((kept.live_blocks, kept.live_bytes), (1, SIZE as u64));
    let mut has_run = false;
    let error = alloc_scope!("never seen", { refused(measure(|| has_run = true)) });
    contains(&error, "the table of scopes and names is full: all 262142 are used up");
    assert!(has_run);
    // What was measured before can be again.
    measure(|| churn(100)).1.unwrap();
}

#[cfg(unix)]
fn forked() {
    let child = fork(|| {
        measure(|| churn(100)).1.unwrap();
    });
    assert_eq!(wait(child), 0, "before anything is recorded, a child is as any process");
    measure(|| {
        let child = fork(|| {
            contains(&refused(measure(|| churn(100))), "forked");
        });
        assert_eq!(wait(child), 0);
    })
    .1
    .unwrap();
    let _ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    let mut child = 0;
    let measured = measure(|| child = fork_through());
    if child == 0 {
        contains(&refused(measured), "the process was forked meanwhile");
        exit_now();
    }
    measured.1.unwrap();
    assert_eq!(wait(child), 0);
}

#[cfg(unix)]
fn following() {
    let _ledger = builder().follow_forks(true).start().unwrap();
    let mut child = 0;
    let measured = measure(|| child = fork_through());
    if child == 0 {
        contains(&refused(measured), "the process was forked meanwhile");
        assert_eq!(measure(|| leave(SIZE)).1.unwrap().live_bytes, SIZE as u64);
        exit_now();
    }
    measured.1.unwrap();
    assert_eq!(wait(child), 0);
}

fn repeated() {
    /// There are 262,144 nodes.
    const LEFT: u32 = 500;
    let ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    assert_eq!(new_stacks(17, 262_144 - LEFT), 0);
    let mut kept = Vec::with_capacity(8);
    for round in 0..2 * LEFT {
        let (value, measured) = measure(|| alloc_scope!("inner", { black_box(Box::new(round)) }));
        let measured = measured.unwrap();
        assert_eq!((measured.allocations, measured.live_bytes), (1, 4));
        kept.push(value);
        // Some are freed late.
        if kept.len() == 8 {
            kept.clear();
        }
    }
    assert_eq!(ledger.stats().refused_contexts, 0);
    alloc_scope!("more", { new_stacks(17, LEFT) });
    assert_ne!(ledger.stats().refused_contexts, 0, "fewer were left");
}

/// Enters that many new scope stacks, each of which takes a node; returns how many do not fit into `depth`.
fn new_stacks(depth: u32, mut count: u32) -> u32 {
    if depth > 0 && count > 0 {
        count = alloc_scope!("left", { new_stacks(depth - 1, count - 1) });
    }
    if depth > 0 && count > 0 {
        count = alloc_scope!("right", { new_stacks(depth - 1, count - 1) });
    }
    count
}

fn thread_local() {
    struct Measures(mpsc::Sender<Result<Figures, Unmeasured>>);
    impl Drop for Measures {
        fn drop(&mut self) {
            let _ = self.0.send(measure(|| leave(SIZE)).1);
        }
    }
    std::thread_local! {
        static MEASURES: RefCell<Option<Measures>> = const { RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || MEASURES.set(Some(Measures(sender)))).join().unwrap();
    assert_eq!(receiver.recv().unwrap().unwrap().live_bytes, SIZE as u64);
}

fn reallocating() {
    let _ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    let slot = Mutex::new(None);
    let [allocated, end, begun, end_of_next] = std::array::from_fn(|_| Barrier::new(2));
    std::thread::scope(|threads| {
        let measured = threads.spawn(|| {
            measure(|| {
                *slot.lock().unwrap() = Some(black_box(Vec::<u8>::with_capacity(SIZE)));
                allocated.wait();
                end.wait();
            })
        });
        allocated.wait();
        let mut block: Vec<u8> = slot.lock().unwrap().take().unwrap();
        held_up(
            || block.reserve_exact(2 * SIZE),
            || {
                end.wait();
                let measured = measured.join().unwrap().1.unwrap();
                assert_eq!((measured.allocations, measured.frees), (1, 0));
                assert_eq!((measured.live_blocks, measured.live_bytes), (1, SIZE as u64));
                threads.spawn(|| {
                    let next = measure(|| {
                        begun.wait();
                        end_of_next.wait();
                    });
                    assert_eq!(next.1.unwrap(), Figures::default(), "it is none of the next one's");
                });
                begun.wait();
            },
        );
        end_of_next.wait();
    });
}

fn exits() {
    let _: ((), _) = measure(|| {
        leave(SIZE);
        std::process::exit(0);
    });
}
