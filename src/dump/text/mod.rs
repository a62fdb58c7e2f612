//! The report as text, to be read in a terminal: 80 columns, what matters first.

#[cfg(feature = "enable")]
mod holders;
mod sections;
mod summary;
mod table;
mod units;

pub use crate::words::{escape, nearest};
#[cfg(feature = "enable")]
pub(crate) use holders::holders;
#[cfg(feature = "enable")]
pub(crate) use sections::tag;
pub use units::{bytes, count, counted, duration, share};

use crate::analysis::Report;
use std::io::{self, Write};

/// What the tables divide the memory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// Scope stacks, as a tree.
    Scope,
    /// Groups, as a tree.
    Group,
    /// Names within their groups.
    Name,
    /// Threads.
    Thread,
    /// Sizes of the first allocation.
    Size,
}

/// What the rows are sorted by, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// Bytes still live.
    #[default]
    Live,
    /// The row's own largest live bytes.
    Peak,
    /// All bytes ever allocated.
    Allocated,
    /// The number of allocations.
    Count,
}

/// How the text is shaped. None of it changes a figure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether to use colours.
    pub color: bool,
    /// How many rows a table has at most.
    pub top: usize,
    /// One table only, instead of the short ones.
    pub by: Option<By>,
    /// The order of rows.
    pub sort: Sort,
    /// Whether the rows of scopes and groups hold what is inside them.
    pub inclusive: bool,
    /// Only rows with this text in their name, in upper or lower case.
    pub filter: Option<String>,
    /// Which moment the report is of, if not of the end: `50%`, `1.5s`.
    pub moment: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            color: false,
            top: 10,
            by: None,
            sort: Sort::Live,
            inclusive: false,
            filter: None,
            moment: None,
        }
    }
}

/// Writes `report` as text.
///
/// # Examples
/// ```
/// use memledger::analysis::Analyzer;
/// use memledger::dump::text::{self, Options};
///
/// let report = Analyzer::new().report();
/// let mut text = Vec::new();
/// text::write(&report, &Options::default(), &mut text)?;
/// assert!(String::from_utf8_lossy(&text).contains("still live at the end"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let style = Style { color: options.color };
    summary::write(report, options, style, out)?;
    for table in sections::tables(report, options) {
        table.write(style, out)?;
    }
    Ok(())
}

/// The few colours there are.
#[derive(Clone, Copy)]
struct Style {
    color: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn alarm(self, text: &str) -> String {
        self.paint("1;31", text)
    }
}
