//! What is compared, and how that is shown.

use crate::options::Sort;
use memledger_analysis::Compare;
use memledger_document::{DiffBy, DiffRow, Frames, Report};

/// Two reports, and what they are compared by.
///
/// ```
/// use memledger_analysis::{DiffBy, Frames, Report};
/// use memledger_export::diff::{Diff, DiffOptions};
///
/// let (old, new) = (Report::default(), Report::default());
/// let diff = Diff::new(&old, &new, &[DiffBy::Scope], Frames::Folded);
/// let mut text = Vec::new();
/// diff.write_markdown(&DiffOptions::default(), &mut text)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Diff<'a> {
    pub(crate) old: &'a Report,
    pub(crate) new: &'a Report,
    pub(crate) tables: Vec<(DiffBy, Vec<DiffRow>)>,
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
    /// Compares `old` with `new` by each of these.
    pub fn new(old: &'a Report, new: &'a Report, by: &[DiffBy], frames: Frames) -> Self {
        let table = |&by: &DiffBy| (by, old.diff(new, by, frames));
        Self { old, new, tables: by.iter().map(table).collect() }
    }
}

/// What is compared, in words.
pub(crate) fn column(sort: Sort, by: DiffBy) -> &'static str {
    match sort {
        // A sum over stacks has no peak of its own.
        Sort::Peak if !by.is_of_calls() => "own peak",
        Sort::AtPeak | Sort::Peak => "at peak",
        Sort::Live => "live",
        Sort::Allocated => "allocated",
        Sort::Count => "count",
    }
}
