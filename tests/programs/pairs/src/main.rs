//! Pairs of an allocation and its free: `scripts/hook_instructions.sh` counts their instructions.
use memledger::{Ledger, Stacks, TrackingAllocator, Worker};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

// Out of line, as the calls of a program are.
#[inline(never)]
fn allocate(allocator: &impl GlobalAlloc, layout: Layout) -> *mut u8 {
    // SAFETY: the layout has bytes.
    unsafe { allocator.alloc(layout) }
}

#[inline(never)]
fn free(allocator: &impl GlobalAlloc, block: *mut u8, layout: Layout) {
    // SAFETY: the block is of `allocate`, with this layout.
    unsafe { allocator.dealloc(block, layout) }
}

unsafe extern "C" {
    safe fn getsid(process: i32) -> i32;
}

// The plugin of qemu counts between the two calls.
fn count_pairs(allocator: &impl GlobalAlloc) {
    getsid(0);
    counted_pairs(allocator);
    getsid(0);
}

#[inline(never)]
fn counted_pairs(allocator: &impl GlobalAlloc) {
    let layout = black_box(Layout::new::<[u64; 8]>());
    for _ in 0..10_000 {
        free(allocator, black_box(allocate(allocator, layout)), layout);
    }
}

fn main() {
    let mode = std::env::args().nth(1).unwrap();
    // What comes before a recording is recorded, too, until the buffer for that is full.
    (0..100_000).for_each(|number| drop(black_box(Box::new(number))));
    let builder = Ledger::builder().worker(Worker::Manual);
    let ledger = match &*mode {
        "system" => return count_pairs(&System),
        "off" => return count_pairs(&ALLOC),
        "recorded" => builder.stacks(Stacks::Off),
        _ => builder.stacks(Stacks::On),
    };
    let ledger = ledger.trace_to_file("/dev/null").start().unwrap();
    count_pairs(&ALLOC);
    ledger.collect();
    assert_eq!(ledger.stats().lost_events, 0);
}
