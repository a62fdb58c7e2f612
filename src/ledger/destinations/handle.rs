//! The handle of a destination that was added while the recording runs.

use super::running;
use crate::error::Error;
use std::path::Path;

/// One more destination of the trace, started with [`Ledger::trace_to`](crate::Ledger::trace_to).
///
/// Its stream is complete in itself: it begins with everything a reader needs to know and with the
/// live blocks, and ends as the trace of a program ends. It has a queue of at most 64 MiB and a
/// thread of its own, so that it delays neither the program nor the other destinations; if the
/// queue is full, the stream ends with a message; it never continues after a gap.
///
/// A handle is the number of a destination: copies are equal, and dropping one ends nothing.
///
/// ```
/// # use memledger::{DestinationState, Ledger};
/// # let path = std::env::temp_dir().join(format!("memledger-destination-{}.utrace", std::process::id()));
/// let ledger = Ledger::builder().analyze_in_process(true).start()?;
/// let warm = vec![0_u8; 100_000];
/// // Later: the blocks that are live now, and all that follows.
/// let destination = ledger.trace_to_file(&path)?;
/// // ...
/// destination.stop();
/// # #[cfg(tracking)]
/// assert_eq!(destination.status().state, DestinationState::Ended);
/// # drop(warm);
/// # let _ = std::fs::remove_file(path);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DestinationHandle {
    pub(crate) number: u64,
}

/// The state of a destination.
///
/// [`DestinationHandle::status`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestinationState {
    /// It is being connected to; events are queued meanwhile.
    Opening,
    /// It gets the trace.
    Sending,
    /// It has the whole trace up to the point at which the destination or the recording was
    /// stopped.
    #[default]
    Ended,
    /// It could not be reached, was lost, or was too slow: [`DestinationStatus::problem`] says why.
    Failed,
}

/// The figures of a destination at one moment.
///
/// [`DestinationHandle::status`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestinationStatus {
    /// The file, or the address with its port.
    pub name: String,
    /// Whether it is being opened, gets the trace, or has ended.
    pub state: DestinationState,
    /// Bytes that have been written or sent.
    pub written_bytes: u64,
    /// Bytes of events that wait for it, before they are compressed; at most 64 MiB.
    pub waiting_bytes: u64,
    /// Why it failed.
    pub problem: Option<String>,
    /// The track events that it has; 0 if it is the whole trace.
    pub events: u64,
    /// The events of the program, memory events among them, that are missing in its track events, because a
    /// buffer or its queue was full; 0 if it is the whole trace.
    pub lost_events: u64,
}

impl DestinationHandle {
    pub(crate) fn new(number: u64) -> Self {
        Self { number }
    }

    /// Returns its state and figures; cheap. The last 64 ended destinations are remembered.
    ///
    /// ```
    /// use memledger::{DestinationState, Ledger};
    ///
    /// # let ledger = Ledger::builder().start()?;
    /// for destination in ledger.destinations() {
    ///     let status = destination.status();
    ///     if status.state == DestinationState::Failed {
    ///         eprintln!("{}: {}", status.name, status.problem.unwrap_or_default());
    ///     }
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn status(&self) -> DestinationStatus {
        running::status(self.number)
    }

    /// Writes or sends everything that was recorded before this call; waits at most 3 s.
    ///
    /// ```
    /// # use memledger::Ledger;
    /// # let path = std::env::temp_dir().join(format!("memledger-flushed-{}.utrace", std::process::id()));
    /// let ledger = Ledger::builder().start()?;
    /// let file = ledger.trace_to_file(&path)?;
    /// // ...
    /// file.flush();
    /// # #[cfg(tracking)]
    /// assert!(file.status().written_bytes > 0);
    /// # file.stop();
    /// # let _ = std::fs::remove_file(path);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn flush(&self) {
        running::flush(self.number);
    }

    /// Writes the ring (`Destination::track_event_ring`) of track events to a file, with everything that was
    /// emitted before this call; returns how many bytes that is.
    /// `Destination::track_events` has an example.
    ///
    /// # Errors
    /// `ErrorKind::File`; `ErrorKind::InvalidSession` if the destination has no ring;
    /// `ErrorKind::ForkedChild`.
    pub fn dump(&self, path: impl AsRef<Path>) -> Result<u64, Error> {
        running::dump(self.number, path.as_ref())
    }

    /// Ends its stream after everything recorded so far, as the end of a recording would, and waits
    /// at most 3 s until all of it is written. The other destinations continue.
    /// [`DestinationHandle`] has an example.
    pub fn stop(&self) {
        running::stop(self.number);
    }
}
