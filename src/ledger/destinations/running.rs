//! What handles do to destinations while the recording runs.

use super::{DestinationHandle, DestinationState, DestinationStatus};
use crate::error::{Error, ErrorKind};
use crate::ledger::recording::stats::trailer;
use crate::platform::os::{self, BlockedSignals, Instant};
use crate::problems;
use crate::trace::entry::{on_helper_thread, refuse_forked, request};
use crate::trace::sink::queue::{self, Queue, Stage};
use crate::trace::worker::{self, WORKER_TIMEOUT};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::{state, untracked};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a stream waits until everything is written or sent.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The queue of a destination. Not in the child of a fork, which may have inherited the lock of all queues
/// locked.
fn queue(number: u64) -> Option<Arc<Queue>> {
    if state::is_forked() { None } else { untracked(|| queue::by_number(number)) }
}

pub(super) fn status(number: u64) -> DestinationStatus {
    // NOTE: the texts are copied without the guard, because the program drops them.
    let ours = queue(number).map(|queue| untracked(|| (queue.status(), queue)));
    let Some((status, queue)) = &ours else { return DestinationStatus::default() };
    let (events, lost_events) = queue.shared().map_or((0, 0), |shared| shared.events());
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
        events,
        lost_events,
    };
    untracked(move || drop(ours));
    copy
}

pub(super) fn flush(number: u64) {
    let Some(queue) = queue(number) else { return };
    untracked(|| {
        let _signals = BlockedSignals::new();
        if let Some(mut session) = worker::session_within(WORKER_TIMEOUT)
            && let Some(session) = session.as_mut()
        {
            worker::cycle(session, HOOK_TIMEOUT);
        }
        queue.wait_until_written(Instant::now() + DRAIN_TIMEOUT);
        drop(queue);
    });
}

pub(super) fn dump(number: u64, path: &Path) -> Result<u64, Error> {
    flush(number);
    request(|| {
        refuse_forked()?;
        let queue = queue::by_number(number);
        let shared = queue.as_ref().and_then(|queue| queue.shared());
        let refused =
            || Error::new(ErrorKind::InvalidSession, "only track events in a ring can be dumped");
        shared.ok_or_else(refused)?.dump(path)
    })
}

/// Ends the stream of one destination, and waits until all of it is written.
pub(super) fn stop(number: u64) {
    if state::is_forked() {
        return;
    }
    // The first file has no queue.
    let queue = queue(number);
    let shared = queue.as_ref().and_then(|queue| queue.shared());
    shared.inspect(|shared| shared.disable());
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
        if let Some(queue) = &queue {
            queue.wait_for_end(Instant::now() + DRAIN_TIMEOUT);
        }
        if let Some(shared) = shared {
            os::run_in_own_table(|| untracked(|| shared.end().unwrap_or_else(problems::report)));
            shared.forget();
        }
    });
    untracked(move || drop(queue));
}

/// The recording has ended: waits until all that its destinations have is written.
pub(crate) fn wait_for_all() {
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let queues = queue::all();
    queues.iter().for_each(|queue| queue.wait_for_end(deadline));
    let shared = queues.iter().filter_map(|queue| queue.shared());
    shared.for_each(|shared| shared.end().unwrap_or_else(problems::report));
}

/// Makes the program emit no more events for destinations: the recording has ended. Without the guard and a
/// lock, because callbacks of the program run.
pub(crate) fn disable_all() {
    let queues = untracked(queue::all);
    queues.iter().filter_map(|queue| queue.shared()).for_each(|shared| shared.disable());
    untracked(move || drop(queues));
}

/// The handles of all destinations, in memory of the program.
pub(crate) fn all() -> Vec<DestinationHandle> {
    let numbers =
        || queue::all().iter().map(|queue| DestinationHandle::new(queue.number)).collect();
    let ours: Vec<_> = if state::is_forked() { Vec::new() } else { untracked(numbers) };
    let copy = ours.clone();
    untracked(move || drop(ours));
    copy
}
