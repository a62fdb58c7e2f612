//! The report as text for a terminal: the most important figures first, within the terminal's
//! width.
//!
//! ```text
//! screen.rs    the headline and the lines below it: peak, end, allocated, what is missing
//! sections.rs  which tables there are, and their rows
//! over_time.rs how live bytes went
//! findings.rs  what to look at first
//! calls.rs     tables of functions, lines and crates, and the tree of stacks
//! llm.rs       the values of Unreal's memory tags
//! rss.rs       what the resident memory is
//! query.rs     the answer of a query
//! tree.rs      the largest rows of a tree and the rows around them
//! table.rs     one table within a width: names whole, figures to the right
//! style.rs     colours
//! ```

mod calls;
mod findings;
mod holders;
pub(crate) mod llm;
mod over_time;
#[cfg(feature = "query")]
pub(crate) mod query;
mod rss;
mod screen;
mod sections;
pub(crate) mod style;
pub(crate) mod table;
mod tree;

pub use crate::missing::{contradictions, lacks, untracked};
pub use crate::names::{apart, fit, fit_ends, shown_heap, shown_scope, tag};
pub use crate::options::{By, Options, Sort};
pub use crate::units::{bytes, bytes_briefly, count, counted, duration};
pub use holders::{HolderColumn, functions, holders};
pub use memledger_format::words::{escape, instead, instead_as, nearest};
pub use table::wrapped;

use crate::format::{ReportFormat, Sealed};
use memledger_document::Report;
use std::io::{self, Write};
use style::Style;

/// Writes `report` as text.
///
/// # Examples
/// ```
/// use memledger_analysis::Analyzer;
/// use memledger_export::text::{self, Options};
///
/// let report = Analyzer::new().report();
/// let mut text = Vec::new();
/// text::write(&report, &Options::default(), &mut text)?;
/// assert!(String::from_utf8_lossy(&text).contains("live at end"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let style = Style { color: options.color };
    screen::head(report, options, style, out)?;
    let has_findings =
        (options.findings || options.by.is_none()) && findings::write(report, options, style, out)?;
    let mut rest = Vec::new();
    screen::rest(report, options, &mut rest)?;
    if has_findings && !rest.is_empty() {
        writeln!(out)?;
    }
    out.write_all(&rest)?;
    if options.findings {
        let matrix = findings::matrix(&report.freed_in, options);
        if !matrix.rows.is_empty() {
            matrix.write(style, options.width, out)?;
        }
        // The tables say something else, and are there only if one is asked for.
        if options.by.is_none() {
            return Ok(());
        }
    }
    let tables = sections::tables(report, options);
    // NOTE: the command itself reports that on stderr, and lists the existing rows.
    if let Some(filter) = options.filter.as_ref().filter(|_| tables.is_empty() && !options.flags) {
        writeln!(out, "\nno row has {} in its name", escape(filter))?;
    }
    tables.iter().try_for_each(|table| table.write(style, options.width, out))
}

/// Writes `report` as one sentence: the program, what is missing, the peak, and what became of the program.
pub fn write_line(
    report: &Report,
    options: &Options,
    end: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (headline, peak) = (screen::headline(report, options), bytes(report.totals.peak_bytes));
    let text = format!("{headline}; peak {peak}; {end}");
    let mut lines = wrapped(&text, options.width, options.width).into_iter();
    lines.try_for_each(|line| writeln!(out, "{line}"))
}

/// As text.
#[derive(Debug)]
pub struct Format;

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "text"
    }

    fn about(&self) -> &'static str {
        "For people"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["txt"]
    }

    fn has_options(&self) -> bool {
        true
    }

    fn shows_functions(&self, report: &Report, options: &Options) -> bool {
        sections::shows_functions(report, options)
    }

    fn shows_stacks(&self, options: &Options) -> bool {
        options.by.is_none_or(By::is_of_calls) || options.findings
    }

    fn shows_findings(&self, options: &Options) -> bool {
        options.findings || options.by.is_none()
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        write(report, options, out)
    }
}

/// What the page also says.
#[cfg(feature = "html")]
pub(crate) mod page {
    pub(crate) use super::calls::unnamed;
    pub(crate) use super::findings::NONE_FOUND;
    pub(crate) use super::rss::{Resident, resident};
}
