//! Events that could not be recorded: counted where they happen, told in the stream by the worker.

use super::registry::{self, Slot};
use std::sync::atomic::{AtomicU64, Ordering};

static WITHOUT_SLOT: AtomicU64 = AtomicU64::new(0);
/// Told in the stream of the present recording.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// One event of this thread is lost.
#[cold]
pub(crate) fn event(slot: &Slot) {
    slot.lost.fetch_add(1, Ordering::Relaxed);
}

/// One event is lost of a thread that could not be registered: too many threads, or no memory.
#[cold]
pub(crate) fn event_without_slot() {
    WITHOUT_SLOT.fetch_add(1, Ordering::Relaxed);
}

/// Takes the number of events lost without a slot since last asked.
pub(crate) fn take_without_slot() -> u64 {
    WITHOUT_SLOT.swap(0, Ordering::Relaxed)
}

/// The worker has told of this many lost events.
pub(crate) fn told(events: u64) {
    TOLD.fetch_add(events, Ordering::Relaxed);
}

/// How many lost events have been told of since [`forget`].
pub(crate) fn total() -> u64 {
    TOLD.load(Ordering::Relaxed)
}

/// How many were lost since [`forget`], told of or not. Exact while nobody collects.
pub(crate) fn so_far() -> u64 {
    let untold = registry::slots().map(|slot| slot.lost.load(Ordering::Relaxed));
    total() + WITHOUT_SLOT.load(Ordering::Relaxed) + untold.sum::<u64>()
}

/// A new recording begins.
pub(crate) fn forget() {
    WITHOUT_SLOT.store(0, Ordering::Relaxed);
    TOLD.store(0, Ordering::Relaxed);
}
