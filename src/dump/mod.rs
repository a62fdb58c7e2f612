//! A report as something to read or to store, one file per format.
//!
//! | file | what |
//! |---|---|
//! | `formats.rs` | what a format is, and the table of all |
//! | `options.rs` | how a report is shaped |
//! | `json.rs`, `pretty.rs` | JSON |
//! | `text/` | text for a terminal |
#![forbid(unsafe_code)]

mod formats;
pub mod json;
mod options;
mod pretty;
pub mod text;

pub use formats::{FORMATS, Formats, ReportFormat};
