//! The programs under `tracking-allocator`, with a tracker that counts.

use memledger_benches::peers::Counter;
use memledger_benches::programs::{self, Seen};
use std::process::ExitCode;
use tracking_allocator::Allocator;

#[global_allocator]
static ALLOC: Allocator<std::alloc::System> = Allocator::system();

fn main() -> ExitCode {
    Counter::start();
    programs::main(|| {
        let calls = Counter::calls();
        Seen { allocations: Some(calls.allocations), frees: Some(calls.frees), ..Seen::default() }
    })
}
