//! The library that `memledger run` loads into a program that has no tracker of its own.
//!
//! It is the tracker as any Rust program has it, but the program's calls of `malloc` are what it
//! records, and the memory of its own code is in an arena of its own.

use dlmalloc::GlobalDlmalloc;
use memledger::TrackingAllocator;

#[global_allocator]
static ALLOC: TrackingAllocator<GlobalDlmalloc> = TrackingAllocator::new(GlobalDlmalloc);
memledger::track_c_malloc!();

/// C's `_exit`, which runs no handler: without this, the trace of a forked child that ends so would lack its last events. (The program
/// itself has a watcher.)
#[unsafe(no_mangle)]
extern "C" fn _exit(status: i32) -> ! {
    memledger::__exit_after_report(status)
}

/// The same with another name.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: i32) -> ! {
    memledger::__exit_after_report(status)
}
