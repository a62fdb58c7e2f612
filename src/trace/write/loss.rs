//! Events that could not be recorded: threads count them, and the worker reports them in the
//! stream.

use super::slot::ThreadSlot;
use std::sync::atomic::{AtomicU64, Ordering};

static WITHOUT_SLOT: AtomicU64 = AtomicU64::new(0);
/// Reported in the stream of the present recording.
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// Counts one lost event of this thread.
#[cold]
pub(crate) fn event(slot: &ThreadSlot) {
    slot.lost.fetch_add(1, Ordering::Relaxed);
}

/// Counts one lost event without a slot: its thread could not be registered (too many threads, or
/// no memory), or a signal handler logged it within the tracker's own code.
#[cold]
pub(crate) fn event_without_slot() {
    WITHOUT_SLOT.fetch_add(1, Ordering::Relaxed);
}

/// Takes the number of events lost without a slot since the last call.
pub(crate) fn take_without_slot() -> u64 {
    WITHOUT_SLOT.swap(0, Ordering::Relaxed)
}

/// The number of events lost without a slot that are not reported yet.
pub(crate) fn without_slot() -> u64 {
    WITHOUT_SLOT.load(Ordering::Relaxed)
}

/// Counts lost events that the worker has reported.
pub(crate) fn reported(events: u64) {
    REPORTED.fetch_add(events, Ordering::Relaxed);
}

/// How many lost events were reported since [`reset`].
pub(crate) fn total() -> u64 {
    REPORTED.load(Ordering::Relaxed)
}

/// Resets the counts for a new recording.
pub(crate) fn reset() {
    WITHOUT_SLOT.store(0, Ordering::Relaxed);
    REPORTED.store(0, Ordering::Relaxed);
}
