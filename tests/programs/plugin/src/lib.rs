//! A library with the tracker, for a host without it: `scripts/check_libraries.sh` loads it 1,200 times.
use std::hint::black_box;

#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

/// Allocates; returns a block for the host to free.
///
/// NOTE: nothing of std's that has a destructor per thread: that alone would keep a library loaded.
#[unsafe(no_mangle)]
pub extern "C" fn work(round: usize) -> *mut u8 {
    memledger::alloc_scope!("work");
    black_box(vec![round as u8; 1000]);
    Box::into_raw(vec![1_u8; 64].into_boxed_slice()).cast()
}
