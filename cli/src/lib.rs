//! The `memledger` command in all but its main function, so that what it parses can be fuzzed and
//! tested from outside. No interface: anything here may change.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod serve;
