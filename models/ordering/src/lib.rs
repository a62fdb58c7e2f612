//! The order of memledger's events, checked in every interleaving that the C11 memory model allows
//! (by loom), at small size.
//!
//! The rules themselves are the real ones: [`rules`] includes `src/trace/write/order.rs`. What
//! surrounds them in memledger (the hook, the worker's tick, the blocks of events) works on real
//! threads and memory, so it is written down here once more, step by step; the tests of
//! [`mirrored`] fail when the original changes.
//!
//! `scripts/model_check.sh` runs it all; `README.md` says what is covered.

#![cfg(test)]

mod blocks;
mod handover;
mod mirrored;
mod rules;
mod tick;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Whether every interleaving is wanted, whatever it takes.
fn is_full() -> bool {
    std::env::var_os("MODEL_FULL").is_some()
}

/// No bound.
const ALL: usize = usize::MAX;

/// Runs `body` in every interleaving in which threads are interrupted at most so many times where
/// they could go on: in the short form and in the full one.
fn explore(name: &str, interruptions: [usize; 2], body: impl Fn() + Send + Sync + 'static) {
    let bound = interruptions[usize::from(is_full())];
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = if bound == ALL { None } else { Some(bound) };
    builder.max_branches = 10_000;
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    let start = Instant::now();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let bound = if bound == ALL { "all".to_owned() } else { bound.to_string() };
    println!(
        "| {name} | {bound} | {} | {:.1} s |",
        executions.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64()
    );
}
