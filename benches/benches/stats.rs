//! What `Ledger::stats` costs, which collects the events of all threads, and `Ledger::recent_stats`, which
//! does not; what a measurement costs, with the tracker's own table of descriptors and without.

use memledger::{Ledger, TrackingAllocator, Worker, measure};
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

const CALLS: usize = 500;

/// The median time of a call after `allocations` pairs of an allocation and a free, in microseconds.
fn median_us(ledger: &Ledger, allocations: usize, call: fn(&Ledger)) -> f64 {
    let mut times: Vec<_> = (0..CALLS)
        .map(|_| {
            (0..allocations).for_each(|_| drop(black_box(Box::new(0_u64))));
            let start = Instant::now();
            call(ledger);
            start.elapsed()
        })
        .collect();
    times.sort();
    times[CALLS / 2].as_secs_f64() * 1e6
}

/// The same of a measurement.
fn measured_us(ledger: &Ledger) -> f64 {
    median_us(ledger, 0, |_| assert!(measure(|| black_box(Box::new(0))).1.is_ok()))
}

fn main() {
    let ledger = Ledger::builder().analyze_in_process(true).start().expect("a ledger starts");
    for allocations in [0, 1_000, 10_000] {
        let us = median_us(&ledger, allocations, |ledger| _ = black_box(ledger.stats()));
        println!("stats/after {allocations} pairs: {us:.1} us");
    }
    let us = median_us(&ledger, 0, |ledger| _ = black_box(ledger.recent_stats()));
    println!("stats/recent_stats: {us:.2} us");
    assert_eq!(ledger.stats().lost_events, 0);
    let with_table = measured_us(&ledger);
    drop(ledger);
    let manual = Ledger::builder().analyze_in_process(true).worker(Worker::Manual).start();
    let without = measured_us(&manual.expect("a ledger starts"));
    println!("stats/measure: {with_table:.1} us");
    println!(
        "stats/measure without a table: {without:.1} us, so the table costs {:.2}x",
        with_table / without
    );
}
