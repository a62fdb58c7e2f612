//! The library that `memledger run` loads into a program that has no tracker of its own.
//!
//! It is the tracker as any Rust program has it, but the program's calls of `malloc` are what it records, and
//! the memory of its own code is in an arena of its own. On Linux it also defines the functions of C that
//! would show the program that it is tracked, or end it without its report.

use dlmalloc::GlobalDlmalloc;
use memledger::TrackingAllocator;

#[cfg(target_os = "linux")]
mod linux;

#[global_allocator]
static ALLOC: TrackingAllocator<GlobalDlmalloc> = TrackingAllocator::new(GlobalDlmalloc);
memledger::track_c_malloc!();
