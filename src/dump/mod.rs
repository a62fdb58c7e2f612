//! Writes a report for people or for programs. Each format has a file of its own here.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | what a format is |
//! | `formats.rs` | the table of all formats |
//! | `options.rs` | how a report is shaped |
//! | `json.rs`, `pretty.rs` | JSON |
//! | `text/` | text for a terminal |
#![forbid(unsafe_code)]

mod format;
mod formats;
pub mod json;
mod options;
mod pretty;
pub mod text;

pub use format::ReportFormat;
pub use formats::{FORMATS, Formats};
