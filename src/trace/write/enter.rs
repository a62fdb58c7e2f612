//! How a thread enters the hook and leaves it: by its guard.

use super::registry;
use super::slot::{Guard, ThreadSlot};
use super::{buffer_pool, loss, state};
use crate::platform::os;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// Enters the hook on this thread; `None` if [`enter_cold`] must decide. Only
/// [`is_current`](super::sync::is_current) or [`synchronize`](super::sync::synchronize) then finds
/// out whether anything is recorded at all.
#[inline(always)]
pub(crate) fn enter() -> Option<&'static ThreadSlot> {
    let slot = registry::own()?.slot.get();
    if !slot.is_outside() {
        return None;
    }
    set_guard(slot);
    if slot.has_room() {
        return Some(slot);
    }
    leave(slot);
    None
}

/// Sets the guard. The worker pairs this store with a barrier on all threads (`quiesce::barrier`),
/// so the processor may leave the store in its store buffer.
#[inline(always)]
pub(super) fn set_guard(slot: &ThreadSlot) {
    slot.guard.store(Guard::IN, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Ends what [`enter`] began.
#[inline(always)]
pub(crate) fn leave(slot: &ThreadSlot) {
    slot.guard.store(Guard::OUT, Ordering::Release);
}

/// Declares that this thread, inside the hook, has nothing uncommitted, so that the worker does not
/// wait for it.
#[inline(always)]
pub(crate) fn pause_inside(slot: &ThreadSlot) {
    slot.guard.store(Guard::WAITING, Ordering::Release);
}

/// Reverts [`pause_inside`]. As after [`enter`], it is not known whether anything is recorded.
#[inline(always)]
pub(crate) fn resume_inside(slot: &ThreadSlot) {
    set_guard(slot);
}

/// The hook, entered on the slow path: the slot, until [`SlowEntry::leave`].
///
/// NOTE: `leave` is a method, not a destructor. A destructor also runs when a panic unwinds, so the
/// compiler would add unwinding code to the hook, although nothing here panics.
#[must_use]
pub(crate) struct SlowEntry {
    pub(crate) slot: &'static ThreadSlot,
    /// The thread has retired already: this slot is for one event only.
    is_retired: bool,
}

impl SlowEntry {
    /// Takes a result of [`registry::current`]. The caller sets the slot's guard.
    pub(super) fn new((slot, is_retired): (&'static ThreadSlot, bool)) -> Self {
        Self { slot, is_retired }
    }

    /// Ends what [`enter_cold`] began.
    pub(crate) fn leave(self) {
        leave(self.slot);
        if self.is_retired {
            registry::retire(self.slot);
        }
    }
}

/// Whether each event of the first thread takes the slow path, until Rust's runtime has begun.
static AWAITS_RUNTIME: AtomicBool = AtomicBool::new(false);

/// Lets the slow path take over crashes, if that must wait until Rust's runtime has begun. Called before
/// `main` by the first thread, with the reentrancy guard set.
///
/// PERF: the fast path has no instruction more for this, nor has any path after the first allocation in
/// `main`.
pub(crate) fn await_runtime() {
    if os::has_late_crashes() {
        AWAITS_RUNTIME.store(true, Ordering::Release);
        registry::own().inspect(|thread| thread.suspended.get().leave_fast_path());
    }
}

#[cold]
fn look_for_runtime(slot: &ThreadSlot) {
    if os::is_kernel_closed() {
        return;
    }
    if slot.system_id.load(Ordering::Relaxed) != os::main_thread_of(os::process_id()) {
        return;
    }
    if os::handle_late_crashes() {
        AWAITS_RUNTIME.store(false, Ordering::Release);
    } else {
        slot.leave_fast_path();
    }
}

/// Begins recording where [`enter`] could not, or counts the event as lost.
///
/// Must not be called while the reentrancy guard is held.
#[cold]
#[inline(never)]
pub(crate) fn enter_cold() -> Option<SlowEntry> {
    enter_cold_with(state::RECORD)
}

/// Does what [`enter_cold`] does, for one kind of events: [`state::RECORD`] or [`state::LOG`].
pub(super) fn enter_cold_with(kind: u32) -> Option<SlowEntry> {
    if state::load() & kind == 0 {
        count_too_late(kind);
        return None;
    }
    let entry = SlowEntry::new(registry::current()?);
    let slot = entry.slot;
    if slot.guard.load(Ordering::Relaxed) != Guard::OUT {
        // A signal handler that allocates has interrupted the hook.
        loss::event(slot);
        return None;
    }
    set_guard(slot);
    if !state::is_recorded(kind) {
        count_too_late(kind);
        entry.leave();
        return None;
    }
    if slot.is_lease_over() {
        slot.end_lease();
    } else if !slot.has_room() && !buffer_pool::make_room(slot) {
        if state::load() & kind != 0 {
            loss::event(slot);
        } else {
            count_too_late(kind);
        }
        entry.leave();
        return None;
    }
    if AWAITS_RUNTIME.load(Ordering::Relaxed) {
        look_for_runtime(slot);
    }
    Some(entry)
}

/// Counts a call of the allocator that comes while the recording ends. Events of the program are not counted.
fn count_too_late(kind: u32) {
    if kind == state::RECORD {
        loss::too_late();
    }
}
