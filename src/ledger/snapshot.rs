//! The live blocks and their history at one moment.

use super::own_report::OwnReport;

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
    pub(super) report: OwnReport,
}

impl Snapshot {
    /// Bytes in live blocks, as the program asked for them.
    pub fn live_bytes(&self) -> u64 {
        self.report.totals().0
    }

    /// Live blocks.
    pub fn live_blocks(&self) -> u64 {
        self.report.totals().1
    }

    /// The most bytes that were ever live at once.
    pub fn peak_bytes(&self) -> u64 {
        self.report.totals().2
    }
}
