//! Events that could not be recorded: threads count them, and the worker reports them in the
//! stream.

use super::slot::ThreadSlot;
use super::{registry, state};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static WITHOUT_SLOT: AtomicU64 = AtomicU64::new(0);
/// Reported in the stream of the present recording.
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// The number of the end that is under way; 0 if there is none.
static ENDING: AtomicU32 = AtomicU32::new(0);
/// How many ends there have been.
static ENDS: AtomicU32 = AtomicU32::new(0);
/// Calls that came to the hook while the recording ended, too late for an event: the first one of each
/// thread, which can have begun before.
static IN_FLIGHT: AtomicU64 = AtomicU64::new(0);

/// Counts an event of this thread that cannot be written now: it is lost, or was in flight when the recording
/// ended.
#[cold]
pub(super) fn not_written(slot: &ThreadSlot) {
    if state::load() & state::RECORD == 0 { too_late() } else { event(slot) }
}

/// Counts a call of the allocator that finds no recording, once for each thread.
#[cold]
pub(super) fn too_late() {
    let end = ENDING.load(Ordering::Acquire);
    if end != 0 && registry::own().is_none_or(|thread| thread.late_in.replace(end) != end) {
        IN_FLIGHT.fetch_add(1, Ordering::AcqRel);
    }
}

/// Counts calls that come too late from now on.
pub(crate) fn begin_end() {
    let end = ENDS.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    ENDING.store(end, Ordering::Release);
}

/// Counts no more calls. The count stays until the next recording.
pub(crate) fn finish_end() {
    ENDING.store(0, Ordering::Release);
}

/// In a watcher, whose process was killed: each of its threads can have been in a call of the allocator.
pub(crate) fn count_interrupted() {
    IN_FLIGHT.store(
        registry::slots().filter(|slot| registry::is_live(slot)).count() as u64,
        Ordering::Release,
    );
}

/// How many calls of the allocator were in flight when the recording ended, at most.
pub(crate) fn in_flight() -> u64 {
    IN_FLIGHT.load(Ordering::Acquire)
}

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
    IN_FLIGHT.store(0, Ordering::Relaxed);
    finish_end();
}
