//! The programs with an allocator that only has the processor pass as many instructions as the
//! hook: what any tracker of that length costs them.

#[path = "../nops.rs"]
mod nops;

use programs::Seen;
use std::process::ExitCode;

#[global_allocator]
static ALLOC: nops::Nops = nops::Nops;

fn main() -> ExitCode {
    programs::main(Seen::default)
}
