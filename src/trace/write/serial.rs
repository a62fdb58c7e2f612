//! The one order of all events: a counter, and the markers that tie it to the clock.
//!
//! An event takes its serial while the thing it tells of cannot be undone by another thread: a
//! free before the block is given back, an allocation after the block was received. So if one
//! thread frees an address and another receives it, their serials stand in that order, by the
//! allocator's own synchronisation; the counter itself needs none (relaxed).
//!
//! Markers carry the time. One is due when the low 12 bits of a serial are 0, one in every tick
//! of the worker in which serials moved, and one before the first event after an idle tick, so
//! that an event's time is known to one tick.
#![expect(unsafe_code, reason = "events are written through raw pointers")]

use super::registry::Slot;
use crate::trace::{clock, events};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A marker is due when a serial has none of these bits.
const MARKER_MASK: u64 = 4095;
/// The bound on the events between two markers that the stream announces.
pub(crate) const MARKER_PERIOD: u32 = 1 << 20;

static NEXT: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
/// Every serial below has been sent, or never will be.
static SETTLED: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
/// Somebody writes a marker just now: its time must not be later than that of a later serial.
static MARKING: AtomicBool = AtomicBool::new(false);

/// Takes a serial.
#[inline(always)]
pub(crate) fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Whether a marker is due behind the event with this serial.
#[inline(always)]
pub(crate) fn is_marker_due(serial: u64) -> bool {
    serial & MARKER_MASK == 0
}

/// The serial that will be taken next.
pub(crate) fn peek() -> u64 {
    NEXT.load(Ordering::Acquire)
}

/// How many serials have been taken that the worker has not settled yet.
pub(crate) fn unsettled() -> u64 {
    peek().wrapping_sub(SETTLED.load(Ordering::Acquire))
}

/// Every event with a serial below `serial` that will ever be sent has been sent.
pub(crate) fn settle(serial: u64) {
    SETTLED.store(serial, Ordering::Release);
}

/// In the child of a fork, where the thread that was at a marker is not any more.
pub(crate) fn forget_marking() {
    MARKING.store(false, Ordering::Release);
}

/// Writes a marker at `at`, unless another thread is at it; returns where the next event goes.
///
/// # Safety
/// There is room for [`events::MARKER_BYTES`] at `at`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn marker_at(at: *mut u8) -> *mut u8 {
    let Some(bytes) = try_marker() else { return at };
    // SAFETY: promised by the caller.
    unsafe { at.cast::<[u8; events::MARKER_BYTES]>().write_unaligned(bytes) };
    at.wrapping_add(events::MARKER_BYTES)
}

/// Writes a marker as an event of its own on this thread, which has entered the hook.
pub(crate) fn write_marker(slot: &Slot) {
    // SAFETY: there is `ROOM`, which counts this marker.
    slot.commit(unsafe { marker_at(slot.cursor()) });
}

/// The bytes of a marker with its time and serial, or `None` if another thread is at it.
pub(crate) fn try_marker() -> Option<[u8; events::MARKER_BYTES]> {
    if MARKING.swap(true, Ordering::Acquire) {
        return None;
    }
    // The first marker of a process starts its clock.
    let cycle = clock::now_since_start();
    let serial = next();
    MARKING.store(false, Ordering::Release);
    Some(events::marker(serial, cycle))
}
