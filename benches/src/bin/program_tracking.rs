//! The programs under `tracking-allocator`, with a tracker that counts.

#[path = "../counter.rs"]
mod counter;

use counter::Counter;
use programs::Seen;
use std::process::ExitCode;
use tracking_allocator::Allocator;

#[global_allocator]
static ALLOC: Allocator<std::alloc::System> = Allocator::system();

fn main() -> ExitCode {
    Counter::start();
    programs::main(|| {
        let (allocations, frees) = Counter::calls();
        Seen { allocations: Some(allocations), frees: Some(frees), ..Seen::default() }
    })
}
