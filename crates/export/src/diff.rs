//! Writes what has changed between two reports: as text, as Markdown for a pull request, as JSON.

mod compared;
mod json;
mod markdown;
mod rows;
mod text;

pub(crate) use compared::column;
pub use compared::{Diff, DiffOptions};
#[cfg(feature = "html")]
pub(crate) use json::Document;
pub(crate) use rows::{Changed, Total, counts, signed, totals};
use std::io::{self, Write};

impl Diff<'_> {
    /// Writes tables for a terminal.
    ///
    /// # Errors
    /// Those of `out`; the same holds for the other formats.
    pub fn write_text(&self, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
        text::write(self, options, out)
    }

    /// Writes a table of the totals, and one for each dimension that opens on a click.
    pub fn write_markdown(&self, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
        markdown::write(self, options, out)
    }

    /// Writes one JSON document with the schema `memledger.diff/1`: all rows that differ in any figure,
    /// whatever `top` and `filter` are.
    pub fn write_json(&self, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
        json::write(self, options, out)
    }
}
