//! The figures of the program's memory at one moment.

use super::own_report::OwnReport;

/// The figures of the program's memory at one moment.
///
/// ```
/// # use memledger::{Ledger, ReportTo};
/// let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).start()?;
/// if let Some(snapshot) = ledger.snapshot() {
///     let figures = snapshot.figures();
///     println!("{} bytes in {} blocks", figures.live_bytes, figures.live_blocks);
/// }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    pub(super) report: OwnReport,
}

impl Snapshot {
    /// The sums over all blocks that were allocated since recording began. [`Snapshot`] has an example.
    pub fn figures(&self) -> Figures {
        self.report.figures()
    }
}

/// What a piece of the program did with memory, exact to the byte: [`measure`](crate::measure),
/// [`Budget::try_run`](crate::Budget::try_run) and [`Snapshot::figures`](crate::Snapshot::figures) return it.
/// The names are those of a report in JSON.
///
/// In a measurement, all figures count blocks that were allocated within the measured code, on whichever
/// thread they are reallocated or freed. [`measure`](crate::measure) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Blocks allocated; a reallocation is not one.
    pub allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Reallocations of these blocks.
    pub reallocations: u64,
    /// Reallocations by the measured code of blocks from outside it: a `Vec` from before that
    /// grows. Their bytes count where they were allocated.
    pub foreign_reallocations: u64,
    /// Bytes of all allocations, and the new sizes of all reallocations.
    pub allocated_bytes: u64,
    /// Blocks that are live at the end.
    pub live_blocks: u64,
    /// Bytes that are live at the end, as the program asked for them.
    pub live_bytes: u64,
    /// The most bytes that were live at once. A reallocation frees the old block before it
    /// allocates the new one.
    pub peak_bytes: u64,
}
