//! The programs with the allocator they would have anyway.

use memledger_benches::programs::{self, Seen};
use std::process::ExitCode;

fn main() -> ExitCode {
    programs::main(Seen::default)
}
