//! Writes what a trace says in the formats of other tools.
//!
//! Some are made from a [`Report`](memledger_analysis::Report) alone: [`FORMATS`] lists them, beside text,
//! JSON, the page and pprof. The others see each block as well.
#![warn(missing_debug_implementations, missing_docs, clippy::unwrap_used)]
#![forbid(unsafe_code)]

pub mod dhat;
mod folded;
mod formats;
#[doc(hidden)]
pub mod frames;
#[cfg(feature = "heaptrack")]
pub mod heaptrack;
mod speedscope;
mod stacks;

pub use formats::FORMATS;
