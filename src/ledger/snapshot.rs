//! The live blocks and their history at one moment.
#![cfg_attr(tracking, expect(unsafe_code, reason = "a field that is dropped under the guard"))]

/// The figures of the program's memory at one moment.
///
/// ```
/// # use memledger::{Ledger, ReportTo};
/// let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).start()?;
/// if let Some(snapshot) = ledger.snapshot() {
///     println!("{} bytes in {} blocks", snapshot.live_bytes(), snapshot.live_blocks());
/// }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    #[cfg(tracking)]
    report: std::mem::ManuallyDrop<memledger_analysis::Report>,
}

#[cfg(tracking)]
impl Snapshot {
    pub(super) fn new(report: memledger_analysis::Report) -> Self {
        Self { report: std::mem::ManuallyDrop::new(report) }
    }

    /// All figures, as in the report at the end.
    pub fn report(&self) -> &memledger_analysis::Report {
        &self.report
    }
}

#[cfg(tracking)]
impl Drop for Snapshot {
    fn drop(&mut self) {
        // The tracker has made the report, so the report's memory is the tracker's.
        let _untracked = crate::trace::write::ReentrancyGuard::enter();
        let _active = crate::trace::write::state::hook_active();
        // SAFETY: dropped here and nowhere else.
        unsafe {
            std::mem::ManuallyDrop::drop(&mut self.report);
        }
    }
}

impl Snapshot {
    /// Bytes in live blocks, as the program asked for them.
    pub fn live_bytes(&self) -> u64 {
        self.totals(|totals| totals.0)
    }

    /// Live blocks.
    pub fn live_blocks(&self) -> u64 {
        self.totals(|totals| totals.1)
    }

    /// The most bytes that were ever live at once.
    pub fn peak_bytes(&self) -> u64 {
        self.totals(|totals| totals.2)
    }

    fn totals(&self, pick: impl Fn((u64, u64, u64)) -> u64) -> u64 {
        #[cfg(tracking)]
        let totals = {
            let totals = &self.report.totals;
            (totals.live_bytes, totals.live_blocks, totals.peak_bytes)
        };
        #[cfg(not(tracking))]
        let totals = (0, 0, 0);
        pick(totals)
    }
}
