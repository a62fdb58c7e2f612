//! The report of a snapshot, in the tracker's own memory.
#![expect(unsafe_code, reason = "a field that is dropped under the guard")]

use super::in_process::InProcessAnalyzer;
use super::{Figures, Snapshot};
use crate::trace::write::{ReentrancyGuard, state};
use memledger_analysis::Report;
use std::mem::ManuallyDrop;

#[derive(Debug)]
pub(super) struct OwnReport(ManuallyDrop<Box<Report>>);

impl OwnReport {
    pub(super) fn figures(&self) -> Figures {
        let totals = &self.0.totals;
        Figures {
            allocations: totals.allocations,
            frees: totals.frees,
            reallocations: totals.reallocations,
            allocated_bytes: totals.allocated_bytes,
            live_blocks: totals.live_blocks,
            live_bytes: totals.live_bytes,
            peak_bytes: totals.peak_bytes,
            ..Figures::default()
        }
    }
}

impl Snapshot {
    /// As of the last collection. Boxed, because the thread that asks may have little stack.
    pub(crate) fn of(analyzer: &InProcessAnalyzer, largest_live: Option<usize>) -> Self {
        let report = Box::new(analyzer.report(largest_live));
        Self { report: OwnReport(ManuallyDrop::new(report)) }
    }

    /// All figures, as in the report at the end.
    ///
    /// ```
    /// use memledger::Ledger;
    ///
    /// let ledger = Ledger::builder().analyze_in_process(true).start()?;
    /// let snapshot = ledger.snapshot().expect("the events are analyzed here");
    /// for row in &snapshot.report().by_group {
    ///     println!("{row:?}");
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn report(&self) -> &Report {
        &self.report.0
    }
}

impl Drop for OwnReport {
    fn drop(&mut self) {
        // The tracker has made the report, so the report's memory is the tracker's.
        let _untracked = ReentrancyGuard::enter();
        let _active = state::hook_active();
        // SAFETY: dropped here and nowhere else.
        unsafe {
            ManuallyDrop::drop(&mut self.0);
        }
    }
}
