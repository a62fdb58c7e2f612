//! The figures of a recording, and what its end returns.

use crate::error::Problem;
use std::error::Error;
use std::fmt::{Display, Formatter, Result};

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
    /// The most blocks that were live at once, at whatever moment.
    pub peak_blocks: Option<u64>,
    /// Scopes and tags that did not fit into the table, and are shown as `(other)`.
    pub refused_contexts: u64,
}

/// Why [`Ledger::finish`](crate::Ledger::finish) fails: the recording has ended, with problems.
///
/// ```
/// use memledger::Ledger;
///
/// let ledger = Ledger::builder().analyze_in_process(true).start()?;
/// match ledger.finish() {
///     Ok(stats) => println!("{} events", stats.events),
///     Err(error) => eprintln!("{error}; {} events", error.stats.events),
/// }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishError {
    /// Those that no earlier call has returned, oldest first.
    pub problems: Vec<Problem>,
    /// The last figures.
    pub stats: Box<Stats>,
}

impl Display for FinishError {
    /// All sentences.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (number, problem) in self.problems.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "; " })?;
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for FinishError {}
