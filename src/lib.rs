//! The memory tracker a Rust program can leave on.

#![warn(missing_docs)]

mod error;
pub mod trace;

pub use error::Error;
