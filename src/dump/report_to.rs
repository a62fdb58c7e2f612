//! Where a report goes.

use std::path::PathBuf;

/// Where the report goes when recording ends.
///
/// ```
/// use memledger::{Ledger, ReportTo};
///
/// let text = Ledger::builder().report_on_exit(ReportTo::stderr().verbose(true));
/// let page = Ledger::builder().report_on_exit(ReportTo::file("report-%p.html").largest_live(20));
/// # drop((text, page));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it says nothing until a builder takes it"]
pub struct ReportTo {
    /// `None` is standard error.
    pub(crate) path: Option<PathBuf>,
    pub(crate) verbose: bool,
    /// `None` is the default of each format.
    pub(crate) largest_live: Option<usize>,
}

impl ReportTo {
    /// As text, on standard error; in colour and as wide as the terminal, if that is one.
    /// [`ReportTo`] has an example.
    pub const fn stderr() -> Self {
        Self { path: None, verbose: false, largest_live: None }
    }

    /// To a file: JSON (`memledger.report/1`) if its name ends in `.json`, text if in `.txt`, a page for
    /// a browser if in `.html`. They are those of `memledger_export::OWN_FORMATS`.
    ///
    /// The name may contain `%p`, `%t`, `%e` as in
    /// [`trace_to_file`](crate::LedgerBuilder::trace_to_file). A path that cannot be written is an
    /// error at the start. The file is created, or replaces an earlier one, only when the report is
    /// written: a killed program leaves no report file, or the earlier one.
    ///
    /// ```
    /// use memledger::ReportTo;
    ///
    /// // Each process, and each run of it, writes a file of its own.
    /// let report = ReportTo::file("reports/%e-%p-%t.json").largest_live(500);
    /// # drop(report);
    /// ```
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), verbose: false, largest_live: None }
    }

    /// Makes the text also show threads, sizes, the largest blocks, the tracker's own bytes,
    /// bookmarks and the accuracy of times, as `MEMLEDGER_REPORT_VERBOSE=1` does. JSON always has
    /// everything. [`ReportTo`] has an example.
    pub const fn verbose(mut self, enabled: bool) -> Self {
        self.verbose = enabled;
        self
    }

    /// How many of the largest live blocks the report lists, as `MEMLEDGER_REPORT_LARGEST_LIVE`
    /// does. Default: 100 in JSON, and in the text 10 if it is [`verbose`](Self::verbose), else
    /// none. Each takes about 2 KiB while the report is written. [`ReportTo`] has an example.
    pub const fn largest_live(mut self, blocks: usize) -> Self {
        self.largest_live = Some(blocks);
        self
    }
}
