//! The report on exit as a page: it is that of the trace.

use crate::harness::{Case, case, churn};
use memledger::{Ledger, ReportTo, alloc_scope, bookmark};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Binaries};
use memledger_export::{html, json, text};
use memledger_test_support::page::Page;
use std::fs;
use std::hint::black_box;

const FILE: &str = "report.html";
const TRACE: &str = "trace.memledger";

pub(crate) const CASES: &[Case] = &[
    case("the page on exit is that of the trace", allocates, |run| {
        // The debug information of this program is read twice.
        let outcome = run
            .deadline(240)
            .env("MEMLEDGER_REPORT", FILE)
            .env("MEMLEDGER_TRACE", TRACE)
            .env("MEMLEDGER_STACKS", "on")
            .run();
        outcome.quiet();
        let in_process = Page::of_html(&fs::read(outcome.path(FILE)).unwrap());

        let mut analyzer = Analyzer::new().by_bucket();
        read(fs::File::open(outcome.path(TRACE)).unwrap(), &mut analyzer).unwrap();
        let mut report = analyzer.report();
        report.symbolize(&mut Binaries::new(&[]));
        let (mut of_file, mut of_report) = (Vec::new(), Vec::new());
        html::Page::new(&report, &text::Options::default()).write_json(&mut of_file).unwrap();
        json::write(&report, &mut of_report).unwrap();
        let of_file = Page::of_json(&of_file);
        in_process.is_of(&serde_json::from_slice(&of_report).unwrap());
        for (key, value) in of_file.0.as_object().unwrap() {
            assert_eq!(in_process.0[key], *value, "{key}");
        }
        assert_eq!(in_process.0, of_file.0);
        let stacks = in_process.stacks("live_bytes", false);
        let of_block = |(stack, bytes): (&Option<String>, &u64)| {
            stack.as_ref().is_some_and(|stack| stack.contains("keeps_a_block")) && *bytes == SIZE
        };
        assert!(stacks.iter().any(of_block), "{stacks:?}");
        let points = in_process.numbers(&in_process.0["timeline"]["at_ns"]);
        assert!(points.len() > 500, "{} points", points.len());
    }),
    case("a snapshot has a timeline", snapshots, |run| {
        run.run().quiet();
    }),
];

/// A size that nothing else has.
const SIZE: u64 = 1_000_003;

#[inline(never)]
fn keeps_a_block() {
    std::mem::forget(black_box(vec![1_u8; SIZE as usize]));
}

fn allocates() {
    let _ledger = Ledger::from_env();
    alloc_scope!("work");
    bookmark!("before");
    let threads: Vec<_> =
        (0..3).map(|_| std::thread::spawn(|| (0..20).for_each(|_| churn(1_000)))).collect();
    keeps_a_block();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    bookmark!("after");
}

fn snapshots() {
    let ledger = Ledger::builder().report_on_exit(ReportTo::file(FILE)).start().unwrap();
    churn(1_000);
    let snapshot = ledger.snapshot().unwrap();
    let points = &snapshot.report().timeline.points;
    let (last, totals) = (points.last().unwrap(), snapshot.report().totals);
    assert_eq!((last.live_bytes, last.allocations), (totals.live_bytes, totals.allocations));
    assert_eq!(points.iter().map(|point| point.peak_bytes).max(), Some(totals.peak_bytes));
    assert!(points.len() > 100, "{} points", points.len());
}
