//! The memory tracker a Rust program can leave on.

#![warn(missing_docs)]

#[cfg(feature = "analysis")]
pub mod analysis;
#[cfg(feature = "analysis")]
pub mod dump;
mod error;
pub mod trace;

pub use error::Error;
