//! A report as something to read or to store, one file per format.
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
