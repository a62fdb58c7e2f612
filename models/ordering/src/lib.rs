//! Checks the order of memledger's events in every interleaving that the C11 memory model allows,
//! with loom, for few threads and events.
//!
//! [`rules`] includes the real rules of `src/trace/write/order.rs`. The code around them (the hook,
//! the worker's cycle, the buffers) uses real threads and memory, so this model has a copy of it,
//! step by step; the test of [`mirrored`] fails when the original changes.
//!
//! `MODEL_FULL=1 cargo test --lib` runs it all; `README.md` says what is covered.

#![cfg(test)]

mod bucket;
mod buffers;
mod cycle;
mod handover;
mod mirrored;
mod rules;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Whether to run the full form, which takes minutes.
fn is_full() -> bool {
    std::env::var_os("MODEL_FULL").is_some()
}

/// No bound on preemptions.
const ALL: usize = usize::MAX;

/// Runs `body` in every interleaving with at most this many preemptions: the first number in the
/// short form, the second in the full form.
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
