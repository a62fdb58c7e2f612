//! The tracker linked, and nothing started: what a program pays that is not being watched.
//! A process of its own, since starting cannot be undone for a measurement.

mod support;

use criterion::{Criterion, Throughput, criterion_group};
use memledger::{Ledger, Report, TrackingAllocator};
use std::alloc::System;
use std::hint::black_box;
use std::time::Duration;
use support::{Pair, Workload, compare, in_bursts};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

/// Uses the early buffer up: with 1 MiB of events and nobody who starts, recording ends.
fn use_up_early_buffer() {
    for _ in 0..200_000 {
        drop(black_box(Box::new([0_u64; 8])));
    }
}

fn off(c: &mut Criterion) {
    let mut group = c.benchmark_group("off");
    group.throughput(Throughput::Elements(1));
    group.bench_function("pair/System", |b| {
        b.iter_custom(|pairs| in_bursts(None, pairs, |n| Pair.run(&System, n)));
    });
    group.bench_function("pair/memledger", |b| {
        b.iter_custom(|pairs| in_bursts(None, pairs, |n| Pair.run(&ALLOC, n)));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = off
}

fn main() {
    use_up_early_buffer();
    benches();
    for _ in 0..3 {
        compare("off/pair", None, |n| Pair.run(&System, n), |n| Pair.run(&ALLOC, n));
    }
    // What was measured was indeed off: a ledger that starts now comes too late for the beginning.
    let path = std::env::temp_dir().join("memledger-bench-off-%p.json");
    let ledger = Ledger::builder().report_on_exit(Report::file(path)).start();
    let ledger = ledger.expect("a ledger starts");
    let snapshot = ledger.snapshot().expect("a report was asked for");
    assert_eq!(snapshot.report().trace.from_process_start, Some(false), "recording had not ended");
    drop((snapshot, ledger));
    let name = format!("memledger-bench-off-{}.json", std::process::id());
    std::fs::remove_file(std::env::temp_dir().join(name)).expect("a report was written");
    Criterion::default().configure_from_args().final_summary();
}
