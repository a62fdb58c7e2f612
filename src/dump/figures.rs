//! The figures of all rows of a report, for a client that asks for them each second.

use crate::dump::InProcessAnalyzer;
use crate::error::Error;
use memledger_export::json;

/// Makes the list; `analyzed` collects, and returns the analyzer. It is locked only while the report is made,
/// and neither it nor the recording is while the report is written. PERF: the time is in proportion to rows,
/// not to live blocks.
pub(crate) fn make_figures(
    analyzed: impl FnOnce() -> Result<InProcessAnalyzer, Error>,
    stacks: bool,
) -> Result<Vec<u8>, Error> {
    let report =
        analyzed()?.report_of("a list of figures", |analyzer| analyzer.report_of_rows(stacks))?;
    let mut document = Vec::new();
    // Writing to memory does not fail.
    let _ = json::write_rows(&report, &mut document);
    Ok(document)
}
