//! Writes what a trace says in the formats of other tools. Each format has a file of its own here.
//!
//! | file | what |
//! |---|---|
//! | `formats.rs` | the table of all formats of a report |
//! | `callgrind.rs` | what functions and calls allocate |
//! | `dhat.rs` | stacks for DHAT's viewer |
//! | `folded.rs` | stacks for flame graphs, one line each |
//! | `frames.rs` | call stacks of buckets, function by function |
//! | `heaptrack.rs` | for heaptrack_print and heaptrack_gui |
//! | `perfetto/` | a trace for Perfetto, by event |
//! | `speedscope.rs` | stacks for speedscope |
//! | `stacks.rs` | the stacks of a report, as formats of other tools have them |
//!
//! Some are made from a [`Report`](memledger_analysis::Report) alone: [`FORMATS`] lists them, beside text, JSON, the
//! page and pprof. The others see each block as well.
#![warn(missing_docs, clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod callgrind;
pub mod dhat;
mod folded;
mod formats;
pub mod frames;
#[cfg(feature = "heaptrack")]
pub mod heaptrack;
pub mod perfetto;
mod speedscope;
mod stacks;

pub use formats::{FORMATS, Formats};
