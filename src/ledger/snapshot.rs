//! The figures of the program and of the recording at one moment.

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

/// Figures of the program's heap and of the recording itself: [`Ledger::stats`](crate::Ledger::stats), and
/// [`Ledger::recent_stats`](crate::Ledger::recent_stats) as of the worker's last cycle.
///
/// [`Ledger::stats`](crate::Ledger::stats) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "HeapStats")]
#[non_exhaustive]
pub struct Stats {
    /// Whether events are being recorded.
    pub recording: bool,
    /// Recorded events that have a serial, since the start of the process.
    pub events: u64,
    /// Events lost since recording started, as far as the worker has seen.
    pub lost_events: u64,
    /// Bytes of event buffers in use.
    pub buffer_bytes: u64,
    /// Bytes the tracker itself takes, buffers included.
    pub overhead_bytes: u64,
    /// How often the allocator returned null to the program since recording started.
    pub failed_allocations: u64,
    /// Scopes misused: left out of order, or never.
    pub scope_misuses: u64,
    /// Destinations of the trace, beside its first file, that could not be reached, were lost or
    /// were too slow, since the start of the process.
    pub lost_destinations: u64,
    /// Bytes in live blocks that were allocated since recording began. `None` if the events are not
    /// analyzed in the process: without a report, a host, a control server,
    /// [`LedgerBuilder::follow_forks`](crate::LedgerBuilder::follow_forks) and
    /// [`LedgerBuilder::analyze_in_process`](crate::LedgerBuilder::analyze_in_process).
    pub live_bytes: Option<u64>,
    /// The most bytes that were live at once, in the same way.
    pub peak_bytes: Option<u64>,
    /// The blocks of `live_bytes`.
    pub live_blocks: Option<u64>,
    /// The blocks that were live at the moment of `peak_bytes`, as in the report.
    pub blocks_at_peak: Option<u64>,
    /// Scopes and tags that did not fit into the table, and are shown as `(other)`.
    pub refused_contexts: u64,
}
