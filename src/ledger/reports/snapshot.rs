//! The figures of the program while it runs.

use crate::ledger::Snapshot;
use crate::ledger::entry::on_helper_thread;
use crate::ledger::recording;
use crate::ledger::reports::report::ReportOutput;
use crate::trace::write::{state, untracked};

/// As of now; `None` if the events are not analyzed.
pub(in crate::ledger) fn snapshot() -> Option<Snapshot> {
    if state::is_forked() {
        return None;
    }
    let report = untracked(|| {
        on_helper_thread(|| {
            recording::collect(true);
            let (analyzer, largest_live) = {
                let recording = recording::current();
                let recording = recording.as_ref()?;
                let largest_live = recording.report.as_ref().and_then(ReportOutput::largest_live);
                (recording.analyzer.clone()?, largest_live)
            };
            // Boxed, because the thread that asks may have little stack.
            Some(Box::new(analyzer.report(largest_live)))
        })
    });
    report.map(Snapshot::new)
}
