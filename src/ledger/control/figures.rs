//! The figures of all rows of a report, for a client that asks for them each second.

use crate::error::{self, Error};
use crate::ledger::entry::refuse_forked;
use crate::ledger::recording;
use memledger_export::json;

/// With `stacks`, those too: modules and offsets, whose functions the client finds. Only with the guard set.
pub(super) fn of_rows(stacks: bool) -> Result<Vec<u8>, String> {
    make(stacks).map_err(|error| format!("{error:#}"))
}

/// The analyzer is locked only while the report is made, and neither it nor the recording is while the report
/// is written. PERF: the time is in proportion to rows, not to live blocks.
fn make(stacks: bool) -> Result<Vec<u8>, Error> {
    refuse_forked()?;
    recording::collect(true);
    let analyzer = recording::current().as_ref().and_then(|recording| recording.analyzer.clone());
    let analyzer = analyzer.ok_or(error::not_analyzed())?;
    let report =
        analyzer.report_of("a list of figures", |analyzer| analyzer.report_of_rows(stacks))?;
    let mut document = Vec::new();
    // Writing to memory does not fail.
    let _ = json::write_rows(&report, &mut document);
    Ok(document)
}
