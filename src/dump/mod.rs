//! Writes a report for people or for programs. Each format has a file of its own here.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | what a format is |
//! | `formats.rs` | the table of all formats |
//! | `options.rs` | how a report is shaped |
//! | `json.rs`, `json_stacks.rs`, `pretty.rs` | JSON |
//! | `folded.rs` | stacks for flame graphs, one line each |
//! | `diff.rs`, `diff/` | what has changed between two reports |
//! | `text/` | text for a terminal |
#![forbid(unsafe_code)]

pub mod diff;
mod folded;
mod format;
mod formats;
pub mod json;
mod json_stacks;
mod options;
mod pretty;
pub mod text;

pub use format::ReportFormat;
pub use formats::{FORMATS, Formats};
