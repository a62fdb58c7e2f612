//! The handle of a destination that was added while the recording runs.

#[cfg(tracking)]
use crate::ledger::entry::on_helper_thread;
#[cfg(tracking)]
use crate::ledger::recording::WORKER_TIMEOUT;
#[cfg(tracking)]
use crate::ledger::stats::trailer;
#[cfg(all(tracking, feature = "perfetto"))]
use crate::platform::os::BlockedSignals;
#[cfg(tracking)]
use crate::trace::sink::queue::{self, Stage};
#[cfg(tracking)]
use crate::trace::worker;
#[cfg(tracking)]
use crate::trace::write::quiesce::HOOK_TIMEOUT;
#[cfg(tracking)]
use crate::trace::write::{state, untracked};
#[cfg(tracking)]
use std::time::{Duration, Instant};

/// How long the end of a stream waits until everything is written or sent.
#[cfg(tracking)]
pub(in crate::ledger) const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

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
    #[cfg(tracking)]
    number: u64,
}

/// The state of a destination.
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
}

impl DestinationHandle {
    #[cfg(tracking)]
    pub(in crate::ledger) fn new(number: u64) -> Self {
        Self { number }
    }

    #[cfg(tracking)]
    pub(in crate::ledger) fn number(self) -> u64 {
        self.number
    }

    /// Its state and figures; cheap. Of the destinations that have ended, the last 64 are
    /// remembered.
    pub fn status(&self) -> DestinationStatus {
        #[cfg(tracking)]
        return status_of(self.number);
        #[cfg(not(tracking))]
        DestinationStatus::default()
    }

    /// Writes everything recorded so far; waits at most 3 s.
    #[cfg(all(tracking, feature = "perfetto"))]
    pub(in crate::ledger) fn flush(self) {
        untracked(|| {
            if state::is_forked() {
                return;
            }
            let _signals = BlockedSignals::new();
            if let Some(mut session) = worker::session_within(WORKER_TIMEOUT)
                && let Some(session) = session.as_mut()
            {
                worker::cycle(session, HOOK_TIMEOUT);
            }
            if let Some(queue) = queue::by_number(self.number) {
                queue.wait_until_written(Instant::now() + DRAIN_TIMEOUT);
            }
        });
    }

    /// Ends its stream after everything recorded so far, as the end of a recording would, and waits
    /// at most 3 s until all of it is written. The other destinations continue.
    pub fn stop(&self) {
        #[cfg(tracking)]
        stop(self.number);
    }
}

#[cfg(tracking)]
fn status_of(number: u64) -> DestinationStatus {
    // NOTE: the lock is taken only with the guard set, and not in the child of a fork, which may
    // have inherited it locked. The texts are copied without the guard, because the program drops
    // them.
    let ours = untracked(|| {
        let queue = if state::is_forked() { None } else { queue::by_number(number) }?;
        let status = queue.status();
        Some((queue, status))
    });
    let Some((queue, status)) = &ours else { return DestinationStatus::default() };
    let copy = DestinationStatus {
        name: queue.name.clone(),
        state: match (status.stage, &status.why) {
            (Stage::Opening, _) => DestinationState::Opening,
            (Stage::Sending, _) => DestinationState::Sending,
            (Stage::Ended, None) => DestinationState::Ended,
            (Stage::Ended, Some(_)) => DestinationState::Failed,
        },
        written_bytes: status.written,
        waiting_bytes: status.waiting as u64,
        problem: status.why.clone(),
    };
    untracked(move || drop(ours));
    copy
}

/// Ends the stream of one destination, and waits until all of it is written.
#[cfg(tracking)]
fn stop(number: u64) {
    if state::is_forked() {
        return;
    }
    untracked(|| {
        on_helper_thread(|| {
            if let Some(mut session) = worker::session_within(WORKER_TIMEOUT)
                && let Some(session) = session.as_mut()
            {
                session.want_figures();
                worker::cycle(session, HOOK_TIMEOUT);
                session.end_one(number, &trailer());
            }
        });
        if let Some(queue) = queue::by_number(number) {
            queue.wait_for_end(Instant::now() + DRAIN_TIMEOUT);
        }
    });
}

/// The handles of all destinations, in memory of the program.
#[cfg(tracking)]
pub(in crate::ledger) fn all() -> Vec<DestinationHandle> {
    let numbers =
        || queue::all().iter().map(|queue| DestinationHandle::new(queue.number)).collect();
    let ours: Vec<_> = if state::is_forked() { Vec::new() } else { untracked(numbers) };
    let copy = ours.clone();
    untracked(move || drop(ours));
    copy
}
