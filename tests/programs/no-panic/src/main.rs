//! Calls each method of the allocator: `scripts/hook_has_no_panic.sh` reads its machine code.
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

fn main() {
    let layout = black_box(Layout::new::<[u64; 8]>());
    // SAFETY: each block is freed once, with its own layout; the program is not run.
    unsafe {
        let block = black_box(realloc(black_box(alloc(layout)), layout, black_box(128)));
        dealloc(block, Layout::new::<[u64; 16]>());
        dealloc(black_box(alloc_zeroed(layout)), layout);
    }
}
