// Blocks of Rust's allocator, as often as the argument says. Prints its own count: allocations, frees,
// reallocations, bytes and blocks at the end.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

fn main() {
    let times: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let (mut allocations, mut frees, mut reallocations, mut bytes, mut blocks) = (0, 0, 0, 0, 0);
    for round in 0..times {
        for align in [1, 8, 16, 64, 4096] {
            let size = 100 + round % 50;
            let layout = Layout::from_size_align(size, align).unwrap();
            let large = Layout::from_size_align(200_000 + round, align).unwrap();
            // SAFETY: each layout has bytes, and each block is used and freed with its own.
            unsafe {
                black_box(alloc(layout));
                let zeroed = black_box(alloc_zeroed(layout));
                assert!(*zeroed.add(size - 1) == 0);
                let grown = black_box(realloc(zeroed, layout, 5000));
                assert!(grown.addr() % align == 0);
                // From large to small and back, which moves.
                let block = black_box(realloc(black_box(alloc(large)), large, 64));
                let small = Layout::from_size_align(64, align).unwrap();
                dealloc(black_box(realloc(block, small, large.size())), large);
                dealloc(black_box(alloc(large)), large);
            }
            allocations += 4;
            frees += 2;
            reallocations += 3;
            bytes += size + 5000;
            blocks += 2;
        }
    }
    // What is printed has a buffer, in each run.
    println!("{allocations} {frees} {reallocations} {bytes} {blocks}");
}
