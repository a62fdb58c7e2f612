//! The writing half of the stream, as it runs inside the threads of the program.
//!
//! A thread that has something to record does, in this order:
//! 1. [`enter`]: one load of its slot, set the guard in it, see that there is room. Anything
//!    unusual (no slot yet, re-entered, block full) goes to [`enter_cold`].
//! 2. [`places::is_here`]: two loads that say whether the thread is in the right epoch, and whether
//!    anything is recorded. If not, it [comes](places::come) there.
//! 3. Write the event behind the cursor, with the low bits of the epoch where a serial will be.
//! 4. [`Slot::commit`]: one release store, after which the worker may read the event.
//! 5. [`leave`]: clear the guard.
//!
//! Nothing on this path allocates, locks, panics or formats; where something is in the way, the
//! event is dropped and counted ([`loss`]).

pub(crate) mod buffer;
pub mod declared;
pub(crate) mod loss;
pub(crate) mod order;
pub(crate) mod pages;
pub(crate) mod places;
pub(crate) mod program;
mod reentrancy;
pub(crate) mod registry;
pub(crate) mod reserve;
pub(crate) mod state;

/// The atomics of [`order`], which the model of it replaces by its own.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

pub(crate) use reentrancy::{ReentrancyGuard, is_untracked, untracked};
pub(crate) use registry::Slot;

use registry::{Guard, THREAD};
use std::sync::atomic::{Ordering, compiler_fence};

/// Whether nothing is recorded at all. One relaxed load; the authoritative look comes later, with
/// the guard set.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    state::load_relaxed() == state::OFF
}

/// Begins recording on this thread, or `None` if [`enter_cold`] must decide. Whether anything is
/// recorded at all is not known before [`places::is_here`] or [`places::come`] has said so.
#[inline(always)]
pub(crate) fn enter() -> Option<&'static Slot> {
    let slot = THREAD.try_with(|thread| thread.slot.get()).ok()?;
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

/// The worker pairs this store with a barrier on all threads (`state::barrier`), so that the
/// processor may keep it in its store buffer here.
#[inline(always)]
fn set_guard(slot: &Slot) {
    slot.guard.store(Guard::IN, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Ends what [`enter`] began.
#[inline(always)]
pub(crate) fn leave(slot: &Slot) {
    slot.guard.store(Guard::OUT, Ordering::Release);
}

/// Inside the hook, but with nothing uncommitted: the worker need not wait for this thread.
#[inline(always)]
pub(crate) fn pause_inside(slot: &Slot) {
    slot.guard.store(Guard::WAITING, Ordering::Release);
}

/// Takes up what [`pause_inside`] left; as after [`enter`], who knows whether anything is recorded.
#[inline(always)]
pub(crate) fn go_on_inside(slot: &Slot) {
    set_guard(slot);
}

/// A slot entered the slow way, to be left by [`Cold::leave`].
///
/// NOTE: not by a destructor. That would have to run if something in between unwound, and though
/// nothing does, the code for it, with a panic at its end, would be in the hook.
#[must_use]
pub(crate) struct Cold {
    pub(crate) slot: &'static Slot,
    /// The thread has retired already: this is its last-minute slot for one event.
    late: bool,
}

impl Cold {
    /// Ends what [`enter_cold`] began.
    pub(crate) fn leave(self) {
        leave(self.slot);
        if self.late {
            registry::finish_late(self.slot);
        }
    }
}

/// Begins recording where [`enter`] could not, or counts the event as lost.
///
/// Must not be called while [`is_untracked`].
#[cold]
#[inline(never)]
pub(crate) fn enter_cold() -> Option<Cold> {
    enter_cold_with(state::RECORD)
}

/// The same for either kind of events: the hook's or those that the program logs.
fn enter_cold_with(kind: u32) -> Option<Cold> {
    if state::load() & kind == 0 {
        return None;
    }
    let (slot, late) = registry::current()?;
    if slot.guard.load(Ordering::Relaxed) != Guard::OUT {
        // A signal handler that allocates has interrupted this very code.
        loss::event(slot);
        return None;
    }
    set_guard(slot);
    let cold = Cold { slot, late };
    if !state::goes_on_with(kind) {
        cold.leave();
        return None;
    }
    if slot.is_lease_over() {
        places::end_lease(slot);
    } else if !slot.has_room() && !buffer::make_room(slot) {
        if state::load() & kind != 0 {
            loss::event(slot);
        }
        cold.leave();
        return None;
    }
    Some(cold)
}
