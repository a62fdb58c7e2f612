//! What a format of a report is.

use crate::options::Options;
use memledger_document::Report;
use std::io::{self, Write};

/// Seals [`ReportFormat`].
pub trait Sealed {}

/// A form in which a report is written. Sealed: the formats are those of the crates of memledger.
pub trait ReportFormat: Sync + Sealed {
    /// Its name, for `--format`.
    fn name(&self) -> &'static str;

    /// What it is for, in a few words for a list of all formats.
    fn about(&self) -> &'static str;

    /// The endings of the names of its files, without the dot; at least one.
    fn endings(&self) -> &'static [&'static str];

    /// Whether the options choose rows, tables and columns. If not, a report is always written as a
    /// whole.
    fn has_options(&self) -> bool {
        false
    }

    /// Whether what it writes has functions of call stacks, or static variables: if not, a report need not be
    /// [symbolized](Report::symbolize) first.
    fn shows_functions(&self, report: &Report, _options: &Options) -> bool {
        report.has_names()
    }

    /// Whether what it writes has rows of [`Report::by_stack`], or what is made from them; otherwise, the
    /// analyzer need not [make them](memledger_analysis::Analyzer::without_stacks).
    fn shows_stacks(&self, _options: &Options) -> bool {
        true
    }

    /// Whether it is made from [`Report::by_bucket`], which the analyzer has to be asked for. Without
    /// it, the profile is empty.
    fn needs_buckets(&self) -> bool {
        false
    }

    /// Whether it shows [findings](Report::findings) without being asked for them. A report that does not
    /// have them is written without.
    fn shows_findings(&self, _options: &Options) -> bool {
        false
    }

    /// Whether what it writes is no text for a terminal.
    fn is_binary(&self) -> bool {
        false
    }

    /// The memory that it takes to write any report, beside what it takes for each row.
    fn bytes(&self) -> usize {
        0
    }

    /// Writes `report`.
    ///
    /// # Errors
    /// Those of `out`.
    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()>;
}
