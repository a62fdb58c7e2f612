//! A tracker around a tracker counts each block once.

use memledger::{TrackingAllocator, measure};
use std::hint::black_box;

#[global_allocator]
static ALLOC: TrackingAllocator<TrackingAllocator<TrackingAllocator>> =
    TrackingAllocator::new(TrackingAllocator::new(TrackingAllocator::system()));

#[test]
fn each_block_is_counted_once() {
    let (kept, figures) = measure(|| {
        let mut grown = black_box(vec![0_u8; 100]);
        grown.reserve_exact(200);
        drop(black_box(Box::new(7_u64)));
        grown
    });
    let figures = figures.unwrap();
    assert_eq!((figures.allocations, figures.reallocations, figures.frees), (2, 1, 1));
    assert_eq!(figures.live_bytes, kept.capacity() as u64);
    // It is where calls go in the end.
    let _: &std::alloc::System = ALLOC.inner().inner().inner();
}
