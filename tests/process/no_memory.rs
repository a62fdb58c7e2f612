//! The system has no memory left, for the program or for the tracker's own threads.
#![cfg_attr(unix, expect(unsafe_code, reason = "calls the allocator directly"))]

use crate::allocator::{trackers_fail_after, uncounted};
use crate::harness::{Case, Outcome, REPORT, Run, TRACE, builder, case, churn, leave, left};
#[cfg(unix)]
use crate::limits::limit_addresses;
use memledger_analysis::Analyzer;
use memledger_analysis::read;
use std::alloc::{Layout, alloc, dealloc};
use std::fs::File;
use std::hint::black_box;

pub(crate) const CASES: &[Case] = &[
    #[cfg(unix)]
    case("half a million nulls with a file are survived", nulls, |run| {
        let outcome = limited(run).env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off");
        let outcome = outcome.run();
        check_nulls(&outcome);
        let (read, _) = outcome.trace(TRACE);
        assert_eq!(read.trace.complete, outcome.stderr.is_empty());
    }),
    #[cfg(unix)]
    case("half a million nulls with a report are survived", nulls, |run| {
        let outcome = limited(run).env("MEMLEDGER_REPORT", REPORT).run();
        check_nulls(&outcome);
        let complete = outcome.report(REPORT).contains("\"complete\": true");
        assert_eq!(complete, outcome.stderr.is_empty());
    }),
    #[cfg(unix)]
    case("half a million nulls with both are survived", nulls, |run| {
        let outcome = limited(run).tracked().run();
        check_nulls(&outcome);
        let read = outcome.same(TRACE, REPORT);
        assert_eq!(read.trace.complete, outcome.stderr.is_empty());
        assert!(left(&read, 1_000_003) == 1, "what was there before: {:?}", read.largest_live);
    }),
    // 2.6 s of processor time: a minute beside 40 busy loops on two processors.
    case("each allocation of the tracker in turn fails", each_alone, |run| {
        check_turns(&run.deadline(600).run());
    }),
    case("from each allocation of the tracker on all fail", each_and_all, |run| {
        check_turns(&run.deadline(600).run());
    }),
];

/// The message when the tracker has no memory.
const SENTENCE: &str = "the system has no memory left for the tracker";

#[cfg(unix)]
fn limited(run: Run) -> Run {
    run.env("MALLOC_ARENA_MAX", "1")
}

#[cfg(unix)]
#[track_caller]
fn check_nulls(outcome: &Outcome) {
    outcome.exited(0);
    assert_eq!(outcome.stdout, "500000 nulls\n");
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert!(lines.len() <= 1, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(SENTENCE)), "{lines:?}");
}

/// Allocates until no memory is left, again and again.
#[cfg(unix)]
fn nulls() {
    let layout = |size| Layout::from_size_align(size, 8).unwrap();
    leave(1_000_003);
    // Flushed, so that the trace has the block whenever the tracker runs out of memory.
    let ledger = memledger::Ledger::from_env();
    ledger.flush();
    let mut blocks = Vec::<(*mut u8, usize)>::with_capacity(1 << 20);
    limit_addresses(40 << 20);
    let (mut nulls, mut seed) = (0, 1_u64);
    while nulls < 500_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let size = 16 << (seed >> 60) | (seed >> 40) as usize & 0xff;
        // SAFETY: the size is not 0.
        let block = black_box(unsafe { alloc(layout(size)) });
        if !block.is_null() {
            blocks.push((block, size));
            continue;
        }
        nulls += 1;
        if nulls % 1000 == 0 {
            for (block, size) in blocks.drain(blocks.len() / 2..) {
                // SAFETY: allocated above with this layout.
                unsafe { dealloc(block, layout(size)) };
            }
        }
    }
    for (block, size) in blocks {
        // SAFETY: as above.
        unsafe { dealloc(block, layout(size)) };
    }
    drop(ledger);
    println!("{nulls} nulls");
}

#[track_caller]
fn check_turns(outcome: &Outcome) {
    outcome.exited(0);
    let turns = outcome.stdout.trim().parse::<u64>().unwrap();
    assert!(turns > 100, "{turns} turns");
    let told = outcome.stderr.lines().filter(|line| line.contains(SENTENCE)).count();
    assert!(told as u64 > turns / 2, "{told} sentences in {turns} turns: {}", outcome.stderr);
}

/// Only the n-th allocation of the tracker's own threads fails, for every n.
fn each_alone() {
    in_turn(1);
}

/// All allocations of the tracker's own threads fail from the n-th on, for every n.
fn each_and_all() {
    in_turn(u64::MAX);
}

fn in_turn(failures: u64) {
    let (mut after, mut turns) = (0, 0);
    loop {
        let failed = trackers_fail_after(after, failures, recording);
        let (complete, lost) = uncounted(read_back);
        assert!(!complete || lost == 0);
        if failed == 0 {
            assert!(complete, "nothing failed after {after}");
            break;
        }
        turns += 1;
        // The first hundreds are the start; what comes later repeats itself.
        after += 1 + after / 200;
    }
    println!("{turns}");
}

/// One recording with everything the tracker has threads for.
fn recording() {
    let Ok(ledger) = builder().control("0").start() else { return };
    churn(200);
    ledger.flush();
    let late = ledger.trace_to_file("late.memledger");
    churn(200);
    let _ = ledger.snapshot();
    if let Ok(late) = late {
        late.stop();
    }
    churn(200);
}

/// Returns whether the trace is whole, and how many events it reports as lost; panics if it is
/// damaged.
pub(crate) fn read_back() -> (bool, u64) {
    let mut analyzer = Analyzer::new();
    let Ok(summary) = read::read(File::open(TRACE).unwrap(), &mut analyzer) else {
        // Not even the start of the trace could be written.
        return (false, 0);
    };
    assert_eq!((summary.skipped_bytes, summary.counts.damages), (0, 0));
    assert_eq!(summary.truncated_bytes, 0);
    let report = analyzer.report();
    assert_eq!(report.losses.serial_holes, 0, "{:?}", report.losses);
    (report.trace.complete, report.losses.lost_events)
}
