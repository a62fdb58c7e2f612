//! The programs under `stats_alloc`, which counts every call: what the others must have seen.

use programs::Seen;
use stats_alloc::StatsAlloc;
use std::alloc::System;
use std::process::ExitCode;

#[global_allocator]
static ALLOC: StatsAlloc<System> = StatsAlloc::system();

fn main() -> ExitCode {
    programs::main(|| {
        let stats = ALLOC.stats();
        Seen {
            allocations: Some(stats.allocations as u64),
            frees: Some(stats.deallocations as u64),
            reallocations: Some(stats.reallocations as u64),
            ..Seen::default()
        }
    })
}
