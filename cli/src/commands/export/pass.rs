//! One pass over a trace for an export that sees each block.

use crate::commands::completeness::incomplete;
use crate::commands::input::{open_watched, unreadable};
use crate::error::{CliError, Outcome};
use crate::symbols::{self, SymbolArgs};
use memledger_analysis::read::{Reader, Summary};
use memledger_analysis::{Analyzer, BlockObserver, Report};
use std::path::Path;

/// Reads the trace for a report with all buckets.
///
/// An observer cannot return an error. It keeps its first one, and says in `has_failed` that the rest of
/// the trace need not be read.
pub fn pass<O: BlockObserver>(
    trace: &Path,
    observer: O,
    has_failed: impl Fn(&O) -> bool,
) -> Result<(Analyzer<O>, Summary), CliError> {
    let mut analyzer = Analyzer::observing(observer).largest_live(0).by_bucket();
    let source = open_watched(trace)?;
    let mut reader = Reader::open(source).map_err(|error| unreadable(trace, error))?;
    while reader.packet(&mut analyzer) {
        if has_failed(analyzer.observer()) {
            break;
        }
    }
    let summary = reader.finish(&mut analyzer);
    Ok((analyzer, summary))
}

/// The report with symbols, and the observer.
pub fn symbolized<O: BlockObserver>(
    mut analyzer: Analyzer<O>,
    symbols: &SymbolArgs,
) -> (Report, O) {
    let mut report = analyzer.take_report();
    symbols::symbolize(&mut report, symbols);
    (report, analyzer.into_observer())
}

/// The outcome of an export of all that could be read.
pub fn outcome(trace: &Path, report: &Report, summary: &Summary) -> Outcome {
    incomplete(trace, report, summary).map_or(Outcome::Done, Outcome::Incomplete)
}
