//! The whole `memledger` command but its main function, so that its parsers can be fuzzed and
//! tested from outside. This is not a public interface: anything here may change.
#![deny(unsafe_code)]

mod cache_folder;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod error;
#[cfg(target_os = "linux")]
mod inherited;
#[doc(hidden)]
mod progress;
mod stop_signal;
#[doc(hidden)]
pub mod symbols;
#[doc(hidden)]
pub mod terminal;
mod token;
