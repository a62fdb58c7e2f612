//! The programs with the allocator they would have anyway.

use programs::Seen;
use std::process::ExitCode;

fn main() -> ExitCode {
    programs::main(Seen::default)
}
