//! The `memledger` command.
#![forbid(unsafe_code)]
fn main() {}
