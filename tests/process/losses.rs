//! What happens when buffers are full, and that every loss is counted.

use crate::allocator::held_up;
use crate::harness::{Case, REPORT, TRACE, builder, case, churn, leave, left, start};
use memledger::{Ledger, OnFull, ProblemKind, Worker};
use std::hint::black_box;
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    case("a flood into a small buffer is dropped and every event counted", flood, |run| {
        let outcome = run.run();
        outcome.quiet();
        let report = outcome.same(TRACE, REPORT);
        assert!(report.losses.lost_events > 0, "the flood was not large enough");
        assert!(!report.trace.complete);
        // A dropped event takes no serial, so a reader waits for none.
        assert_eq!(report.losses.serial_holes, 0);
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        assert_eq!(memory_events(&outcome) + report.losses.lost_events, emitted);
    }),
    case("code limits the buffers of a recording of the environment", flood_joining, |run| {
        let outcome = run.tracked().run();
        let report = outcome.quiet().same(TRACE, REPORT);
        assert!(report.losses.lost_events > 0, "events were not dropped");
        assert_eq!(report.losses.serial_holes, 0);
    }),
    case("the end of a recording that has lost events is an error", finish_with_losses, |run| {
        assert!(run.run().quiet().same(TRACE, REPORT).losses.lost_events > 0);
    }),
    case("a flood into a small buffer waits and loses nothing", flood_waiting, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        assert_eq!(memory_events(&outcome), emitted);
    }),
    case("a manual worker that is driven often enough loses nothing", manual, |run| {
        let report = run.run().quiet().whole();
        assert!(report.totals.allocations >= 200_000);
    }),
    case("a manual worker that is never driven loses what does not fit", manual_idle, |run| {
        let outcome = run.run();
        let report = outcome.quiet();
        let report = report.same(TRACE, REPORT);
        assert!(report.losses.lost_events > 0);
        assert_eq!(report.losses.serial_holes, 0);
        assert_eq!(left(&report, 1_000_003), 1, "from before the buffers were full");
    }),
    case("a manual worker that fits is whole without an update", manual_small, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 1_000_003), 1);
    }),
    case("an allocator that takes its time over a reallocation holds up nobody", slow, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 1_000_003), 1);
        assert_eq!(left(&report, 2_000_003), 1, "what was reallocated meanwhile");
    }),
    case("a thread that stays inside its allocator cannot hold up the end", endless, |run| {
        let outcome = run.run();
        outcome.quiet();
        let report = outcome.same(TRACE, REPORT);
        assert_eq!(left(&report, 1_000_003), 1);
        // Its old block is gone, its new one not there yet.
        assert!(report.trace.complete, "{:?}", report.losses);
        assert_eq!(left(&report, 2_000_003), 0);
        let after = outcome.whole_as("2.utrace", "2.json");
        assert_eq!(left(&after, 1_000_033), 1);
    }),
    case("a start waits for a thread that is inside its allocator", patient, |run| {
        let outcome = run.run();
        outcome.quiet().same(TRACE, REPORT);
        assert_eq!(left(&outcome.whole_as("2.utrace", "2.json"), 1_000_033), 1);
    }),
    case("a snapshot is exact and later ones see more", snapshots, |run| {
        run.run().quiet().whole();
    }),
    case("stats count events", stats, |run| {
        run.run().quiet().whole();
    }),
];

/// Allocations and frees in the trace, both halves of a reallocation counting as one each.
pub(crate) fn memory_events(outcome: &crate::harness::Outcome) -> u64 {
    let (_, summary) = outcome.trace(TRACE);
    let types = summary.types.iter().filter(|count| {
        let name = count.event_type.name();
        ["Memory.AllocSystem", "Memory.FreeSystem", "Memory.ReallocFreeSystem"].contains(&&*name)
    });
    types.map(|count| count.events).sum()
}

/// Prints how many events were emitted, as an allocator outside the tracker has counted them.
fn flood_with(on_full: OnFull) {
    let exact = crate::exactness::Exact::start(Ledger::builder().buffer_limit(1).on_full(on_full));
    allocate_much();
    println!("{}", crate::exactness::events(exact.finish()));
}

fn allocate_much() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..100_000 {
                    black_box(Box::new(1_u8));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The environment has started the recording.
fn flood_joining() {
    let _ledger = Ledger::builder().buffer_limit(1).on_full(OnFull::Drop).start().unwrap();
    allocate_much();
}

fn finish_with_losses() {
    let ledger = builder().buffer_limit(1).on_full(OnFull::Drop).start().unwrap();
    allocate_much();
    let error = ledger.finish().unwrap_err();
    assert!(error.stats.lost_events > 0);
    assert_eq!(error.problems.len(), 1, "{error}");
    assert_eq!(error.problems[0].kind(), ProblemKind::Incomplete);
    assert!(error.to_string().starts_with(&format!("{} events are lost", error.stats.lost_events)));
}

fn flood() {
    flood_with(OnFull::Drop);
}

fn flood_waiting() {
    flood_with(OnFull::Wait);
}

fn manual() {
    let ledger = crate::harness::builder().worker(Worker::Manual).start().unwrap();
    for _ in 0..200 {
        churn(1000);
        ledger.collect();
    }
}

fn manual_idle() {
    let ledger = crate::harness::builder().worker(Worker::Manual).start().unwrap();
    leave(1_000_003);
    churn(400_000);
    drop(ledger);
}

fn manual_small() {
    let _ledger = crate::harness::builder().worker(Worker::Manual).start().unwrap();
    leave(1_000_003);
    churn(10_000);
}

fn grow() {
    let mut bytes = black_box(Vec::<u8>::with_capacity(500));
    bytes.reserve_exact(black_box(2_000_003));
    std::mem::forget(black_box(bytes));
}

fn slow() {
    let ledger = start();
    held_up(grow, || {
        for _ in 0..100 {
            churn(100);
            ledger.flush();
        }
        leave(1_000_003);
        assert!(
            ledger.snapshot().unwrap().figures().live_bytes > 1_000_003,
            "it waits for the slow one"
        );
    });
    assert!(ledger.snapshot().unwrap().figures().live_bytes > 3_000_006);
}

fn endless() {
    let ledger = start();
    held_up(grow, || {
        churn(1000);
        leave(1_000_003);
        let _ = ledger.finish();
    });
    second();
}

/// Another recording, to other files.
fn second() {
    let report = memledger::ReportTo::file("2.json");
    let ledger = Ledger::builder().trace_to_file("2.utrace").report_on_exit(report);
    let ledger = ledger.start().unwrap();
    churn(1000);
    leave(1_000_033);
    drop(ledger);
}

fn patient() {
    let ledger = start();
    let mut starting = None;
    held_up(grow, || {
        let _ = ledger.finish();
        starting = Some(std::thread::spawn(second));
        // Longer than an end waits for such a thread.
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            churn(1000);
        }
    });
    starting.unwrap().join().unwrap();
}

fn snapshots() {
    let ledger = start();
    let before = ledger.snapshot().unwrap();
    let block = black_box(vec![0_u8; 12_345_678]);
    let with = ledger.snapshot().unwrap();
    drop(block);
    let after = ledger.snapshot().unwrap();
    assert_eq!(with.figures().live_bytes - before.figures().live_bytes, 12_345_678);
    assert_eq!(with.figures().live_blocks - before.figures().live_blocks, 1);
    assert_eq!(after.figures().live_bytes, before.figures().live_bytes);
    assert_eq!(after.figures().live_blocks, before.figures().live_blocks);
    assert!(after.figures().peak_bytes >= with.figures().live_bytes);
    drop((with, ledger));
    assert_eq!(before.report().losses.lost_events, 0);
    // Without a report there is no analyzer in the process.
    let ledger = Ledger::builder().start().unwrap();
    assert!(ledger.snapshot().is_none());
}

fn stats() {
    let ledger = start();
    let before = ledger.stats();
    assert!(before.recording && before.overhead_bytes > 0 && before.buffer_bytes > 0);
    churn(1000);
    let after = ledger.stats();
    assert!(after.events >= before.events + 2000);
    assert_eq!((after.lost_events, after.failed_allocations, after.scope_misuses), (0, 0, 0));
    let handle = Ledger::current().unwrap();
    let ended = ledger.finish().unwrap();
    assert!(ended.events >= after.events && ended.lost_events == 0);
    assert!(!handle.stats().recording);
}
