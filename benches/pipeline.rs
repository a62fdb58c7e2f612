//! The way of an event behind the hook: collected by the worker, written, kept account of, read.

mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use memledger::analysis::Analyzer;
use memledger::trace::read::{self, Event, Visitor};
use memledger::{Ledger, LedgerBuilder, Report, TrackingAllocator, Worker, alloc_scope};
use std::alloc::System;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::{BURST, Churn, Pair, Workload, is_selected, is_test, process_time, thread_time};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}-{name}", std::process::id()))
}

fn finish(mut ledger: Ledger) {
    ledger.flush();
    assert_eq!(ledger.stats().lost_events, 0, "the figures are of something else");
    ledger.finish();
}

/// Where events go.
#[derive(Clone, Copy, PartialEq)]
enum Destination {
    File,
    Report,
    Both,
}

impl Destination {
    const ALL: [(Self, &str); 3] =
        [(Self::File, "file"), (Self::Report, "report"), (Self::Both, "file and report")];

    fn start(self, builder: LedgerBuilder, trace: PathBuf) -> Ledger {
        let mut builder = builder;
        if self != Self::Report {
            builder = builder.trace_to_file(trace);
        }
        if self != Self::File {
            builder = builder.report_on_exit(Report::file(file("report.json")));
        }
        builder.start().expect("a ledger starts")
    }
}

/// Wall and CPU of all threads over many events, waits for the worker and the last flush included.
fn sustained() {
    if !is_selected("sustained") {
        return;
    }
    let pairs = if is_test() { 100_000 } else { 25_000_000 };
    let per_event = |time: Duration| time.as_nanos() as f64 / (2 * pairs) as f64;
    let start = Instant::now();
    Pair.run(&System, pairs);
    let plain = per_event(start.elapsed());
    println!("sustained/pair/System: {plain:.2} ns of wall an event ({} events)", 2 * pairs);
    for (destination, name) in Destination::ALL {
        let trace = file("sustained.utrace");
        let ledger = destination.start(Ledger::builder(), trace.clone());
        let (start, cpu) = (Instant::now(), process_time());
        Pair.run(&ALLOC, pairs);
        ledger.flush();
        let (wall, cpu) = (per_event(start.elapsed()), per_event(process_time() - cpu));
        finish(ledger);
        print!("sustained/pair/{name}: {:.2} ns of wall added an event, ", wall - plain);
        print!("{:.2} ns of CPU on all threads", cpu - plain);
        if let Ok(file) = std::fs::metadata(&trace) {
            print!(", {:.2} bytes of file", file.len() as f64 / (2 * pairs) as f64);
        }
        println!();
        let _ = (std::fs::remove_file(trace), std::fs::remove_file(file("report.json")));
    }
}

/// The worker's tick, by hand, over a burst that waits in the buffers.
fn worker(c: &mut Criterion) {
    let mut group = c.benchmark_group("worker");
    group.throughput(Throughput::Elements(2 * BURST));
    for (destination, name) in Destination::ALL {
        let builder = Ledger::builder().worker(Worker::Manual);
        let ledger = destination.start(builder, PathBuf::from("/dev/null"));
        let mut churn = Churn::default();
        churn.fill_in_parts(&ALLOC, || ledger.update());
        group.bench_function(format!("churn/{name}"), |b| {
            b.iter_custom(|bursts| {
                // Between two calls criterion's own events may be lost: nobody collects them.
                ledger.update();
                let lost = ledger.stats().lost_events;
                let time = (0..bursts).fold(Duration::ZERO, |total, _| {
                    churn.run(&ALLOC, BURST);
                    let start = thread_time();
                    ledger.update();
                    total + (thread_time() - start)
                });
                assert_eq!(ledger.stats().lost_events, lost, "the figures are of something else");
                time
            });
        });
        churn.clear_in_parts(&ALLOC, || ledger.update());
        drop(ledger);
        let _ = std::fs::remove_file(file("report.json"));
    }
    group.finish();
}

/// A trace of two threads that churn, in and out of scopes.
fn a_trace() -> Vec<u8> {
    let path = file("read.utrace");
    let ledger = Destination::File.start(Ledger::builder(), path.clone());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut churn = Churn::default();
                alloc_scope!("fill", { churn.fill(&ALLOC) });
                for _ in 0..if is_test() { 100 } else { 5_000 } {
                    alloc_scope!("churn", { churn.run(&ALLOC, 50) });
                    alloc_scope!("churn more", { churn.run(&ALLOC, 50) });
                }
                churn.clear(&ALLOC);
            });
        }
    });
    finish(ledger);
    let bytes = std::fs::read(&path).expect("a trace was written");
    std::fs::remove_file(path).expect("it can be removed");
    bytes
}

struct Nothing;

impl Visitor for Nothing {
    fn event(&mut self, event: &Event<'_>) {
        black_box(event.fixed.len());
    }
}

fn reading(c: &mut Criterion) {
    let trace = a_trace();
    let summary = read::read(&trace[..], &mut Nothing).expect("a trace");
    let events = summary.counts.events;
    for (part, with_report) in [("reader", false), ("analyzer", true)] {
        let mut group = c.benchmark_group(part);
        group.throughput(Throughput::Elements(events));
        group.sample_size(10);
        if with_report {
            group.bench_function("trace to report", |b| {
                b.iter_batched_ref(
                    Analyzer::new,
                    |analyzer| {
                        read::read(&trace[..], analyzer).expect("a trace");
                        black_box(analyzer.report())
                    },
                    BatchSize::PerIteration,
                );
            });
        } else {
            group.bench_function("trace to nothing", |b| {
                b.iter(|| read::read(black_box(&trace[..]), &mut Nothing).expect("a trace"));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = worker, reading
}

fn main() {
    sustained();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
