//! Budgets and measurements as tests use them: in one binary, all at once.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod exact;
mod many;
mod texts;

use memledger::TrackingAllocator;
use std::hint::black_box;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

/// A block that the compiler does not do without.
fn block(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(bytes)))
}
