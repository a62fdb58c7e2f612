//! The report as text, to be read in a terminal: what matters first, within its width.
//!
//! ```text
//! screen.rs    the headline and the lines below it: peak, end, allocated, what is missing
//! sections.rs  which tables there are, and their rows
//! tree.rs      the largest rows of a tree and the rows around them
//! column.rs    what a column shows
//! table.rs     one table within a width: names whole, figures to the right
//! ```

mod column;
#[cfg(feature = "enable")]
mod holders;
mod screen;
mod sections;
mod table;
mod tree;
mod units;

pub use crate::words::{escape, nearest};
#[cfg(feature = "enable")]
pub(crate) use holders::{Column, holders};
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

/// The key by which rows are sorted, the largest first. Equal rows are sorted by their own peak,
/// then by allocated bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// Bytes live when the total was at its peak.
    #[default]
    AtPeak,
    /// Bytes still live.
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
    /// Columns of a line. Tables leave figures out rather than cut names.
    pub width: usize,
    /// How many rows a table has at most; of those below the first one, half as many.
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
    /// Whether to show threads, sizes, the largest blocks, the tracker's own bytes, bookmarks and
    /// the accuracy of times as well.
    pub verbose: bool,
    /// Whether the text may name flags of the `memledger` command; set when that command makes the
    /// text.
    pub flags: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
            top: 10,
            by: None,
            sort: Sort::AtPeak,
            inclusive: true,
            filter: None,
            moment: None,
            verbose: false,
            flags: false,
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
/// assert!(String::from_utf8_lossy(&text).contains("live at end"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let style = Style { color: options.color };
    let tables = sections::tables(report, options);
    screen::write(report, options, style, out)?;
    // NOTE: the command itself says that on stderr, with the rows that there are.
    if let Some(filter) = options.filter.as_ref().filter(|_| tables.is_empty() && !options.flags) {
        writeln!(out, "\nno row has {} in its name", escape(filter))?;
    }
    for table in tables {
        table.write(style, options.width, out)?;
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
