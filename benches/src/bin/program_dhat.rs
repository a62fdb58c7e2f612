//! The programs under `dhat`, as its documentation sets it up.

use programs::Seen;
use std::process::ExitCode;

#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc;

fn main() -> ExitCode {
    let _profiler = dhat::Profiler::new_heap();
    programs::main(|| {
        let stats = dhat::HeapStats::get();
        Seen { allocations: Some(stats.total_blocks), ..Seen::default() }
    })
}
