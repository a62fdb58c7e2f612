//! Writes what has changed between two reports: as text, as Markdown for a pull request, as JSON.
//!
//! | file | what |
//! |---|---|
//! | `diff/rows.rs` | which rows have changed, and how they are called |
//! | `diff/markdown.rs` | tables that GitHub and others render |
//! | `diff/json.rs` | schema `memledger.diff/1` |
//! | `text/diff.rs` | tables for a terminal |

mod json;
mod markdown;
mod rows;

use super::options::Sort;
use super::text;
use crate::analysis::{DiffBy, DiffRow, Report};
#[cfg(feature = "html")]
pub(super) use json::Document;
pub(super) use rows::{Changed, Total, counts, signed, totals};
use std::io::{self, Write};

/// Two reports, and what they are compared by.
///
/// ```
/// use memledger::analysis::{DiffBy, Report};
/// use memledger::dump::diff::{Diff, DiffOptions};
///
/// let (old, new) = (Report::default(), Report::default());
/// let diff = Diff::new(&old, &new, &[DiffBy::Scope], false);
/// let mut text = Vec::new();
/// diff.write_markdown(&DiffOptions::default(), &mut text)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Diff<'a> {
    pub(super) old: &'a Report,
    pub(super) new: &'a Report,
    pub(super) tables: Vec<(DiffBy, Vec<DiffRow>)>,
}

/// How a difference is shown. No option changes a figure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Whether to use colours.
    pub color: bool,
    /// Columns of a line of text.
    pub width: usize,
    /// The maximum number of rows in a table.
    pub top: usize,
    /// The column whose changes are shown, the largest first.
    pub sort: Sort,
    /// Whether the figures of scopes, groups and functions include those inside them.
    pub inclusive: bool,
    /// Only rows with this text in their name, in upper or lower case.
    pub filter: Option<String>,
    /// What the two are called.
    pub names: [String; 2],
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
            top: 10,
            sort: Sort::AtPeak,
            inclusive: false,
            filter: None,
            names: ["old".to_owned(), "new".to_owned()],
        }
    }
}

impl<'a> Diff<'a> {
    /// Compares `old` with `new` by each of these. Stacks are folded as in [`Report::diff`].
    pub fn new(old: &'a Report, new: &'a Report, by: &[DiffBy], all_frames: bool) -> Self {
        let table = |&by: &DiffBy| (by, old.diff(new, by, all_frames));
        Self { old, new, tables: by.iter().map(table).collect() }
    }

    /// Writes tables for a terminal.
    ///
    /// # Errors
    /// Those of `out`; the same holds for the other formats.
    pub fn write_text(&self, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
        text::diff(self, options, out)
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

/// What is compared, in words.
pub(super) fn column(sort: Sort, by: DiffBy) -> &'static str {
    match sort {
        // A sum over stacks has no peak of its own.
        Sort::Peak if !by.is_of_calls() => "own peak",
        Sort::AtPeak | Sort::Peak => "at peak",
        Sort::Live => "live",
        Sort::Allocated => "allocated",
        Sort::Count => "count",
    }
}
