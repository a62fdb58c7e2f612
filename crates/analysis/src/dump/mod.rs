//! Writes a report for people or for programs. Each format has a file of its own here.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | what a format is |
//! | `options.rs` | how a report is shaped |
//! | `json.rs`, `json_stacks.rs`, `json_findings.rs`, `pretty.rs` | JSON |
//! | `figures.rs` | the figures of all rows, for a reader that asks each second |
//! | `findings.rs` | findings as sentences, for all formats |
//! | `buckets.rs` | what formats by stack make of buckets |
//! | `interner.rs` | numbers in place of values |
//! | `html/` | a page for a browser |
//! | `pprof/` | a heap profile for pprof |
//! | `diff.rs`, `diff/` | what has changed between two reports |
//! | `query.rs` | the answer of a query, as JSON and as text |
//! | `text/` | text for a terminal |
#![forbid(unsafe_code)]

pub(crate) mod buckets;
pub mod diff;
#[doc(hidden)]
pub mod figures;
mod findings;
mod format;
#[cfg(feature = "html")]
pub mod html;
pub(crate) mod interner;
pub mod json;
mod json_findings;
mod json_stacks;
mod missing;
mod options;
#[cfg(feature = "pprof")]
pub mod pprof;
#[doc(hidden)]
pub mod pretty;
pub mod query;
pub mod text;

pub use format::ReportFormat;
