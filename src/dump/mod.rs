//! Writes a report for people or for programs. Each format has a file of its own here.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | what a format is |
//! | `formats.rs` | the table of all formats |
//! | `options.rs` | how a report is shaped |
//! | `json.rs`, `json_stacks.rs`, `json_findings.rs`, `pretty.rs` | JSON |
//! | `figures.rs` | the figures of all rows, for a reader that asks each second |
//! | `findings.rs` | findings as sentences, for all formats |
//! | `stacks.rs` | the stacks of a report, as formats of other tools have them |
//! | `buckets.rs` | what formats by stack make of buckets |
//! | `interner.rs` | numbers in place of values |
//! | `callgrind.rs` | what functions and calls allocate |
//! | `folded.rs` | stacks for flame graphs, one line each |
//! | `speedscope.rs` | stacks for speedscope |
//! | `dhat.rs` | stacks for DHAT's viewer |
//! | `html/` | a page for a browser |
//! | `perfetto/` | a trace for Perfetto, by event |
//! | `pprof/` | a heap profile for pprof |
//! | `diff.rs`, `diff/` | what has changed between two reports |
//! | `query.rs` | the answer of a query, as JSON and as text |
//! | `text/` | text for a terminal |
#![forbid(unsafe_code)]

mod buckets;
mod callgrind;
pub mod dhat;
pub mod diff;
#[cfg(tracking)]
pub(crate) mod figures;
mod findings;
mod folded;
mod format;
mod formats;
#[cfg(feature = "html")]
pub mod html;
mod interner;
pub mod json;
mod json_findings;
mod json_stacks;
mod missing;
mod options;
pub mod perfetto;
#[cfg(feature = "pprof")]
pub(crate) mod pprof;
mod pretty;
pub mod query;
mod speedscope;
mod stacks;
pub mod text;

pub use format::ReportFormat;
pub use formats::{FORMATS, Formats};
