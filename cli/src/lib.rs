//! The whole `memledger` command but its main function, so that its parsers can be fuzzed and
//! tested from outside. This is not a public interface: anything here may change.
#![deny(unsafe_code)]

mod cache;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod error;
#[cfg(target_os = "linux")]
mod inherited;
#[doc(hidden)]
mod progress;
#[doc(hidden)]
pub mod quantity;
mod stop_signal;
#[doc(hidden)]
pub mod symbols;
#[doc(hidden)]
pub mod terminal;
mod token;
