//! The writing half of the stream, as it runs inside the threads of the program.
//!
//! A thread that has something to record does, in this order:
//! 1. [`enter`]: one load of its slot, set the guard in it, one load of the state. Anything
//!    unusual (no slot yet, re-entered, paused, block full) goes to [`enter_cold`].
//! 2. [`serial::next`]: one `fetch_add`, if the event is synchronised.
//! 3. Write the event behind the cursor. There is room: `enter` has seen to it, *before* a serial
//!    was taken, since a serial that never comes would hold up every reader.
//! 4. [`Slot::commit`]: one release store, after which the worker may read the event.
//! 5. [`leave`]: clear the guard.
//!
//! Nothing on this path allocates, locks, panics or formats; where something is in the way, the
//! event is dropped and counted ([`loss`]).

pub(crate) mod buffer;
pub(crate) mod loss;
pub(crate) mod registry;
pub(crate) mod serial;
pub(crate) mod state;

pub(crate) use registry::{Slot, in_own_code, own, own_code};

use registry::{Guard, THREAD};
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether nothing is recorded at all. One relaxed load; the authoritative look comes later, with
/// the guard set.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    state::load_relaxed() == state::OFF
}

/// Begins recording on this thread, or `None` if [`enter_cold`] must decide.
#[inline(always)]
pub(crate) fn enter() -> Option<&'static Slot> {
    let slot = THREAD.try_with(|thread| thread.slot.get()).ok().flatten()?;
    if slot.guard.load(Ordering::Relaxed) != Guard::OUT {
        return None;
    }
    slot.guard.store(Guard::IN, Ordering::Relaxed);
    // The worker pairs this store with a barrier on all threads (`state::quiesce`), so that the
    // processor may keep it in its store buffer here.
    compiler_fence(Ordering::SeqCst);
    if state::load() == state::ON && slot.has_room() {
        return Some(slot);
    }
    leave(slot);
    None
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

/// Takes up what [`pause_inside`] left; `false` if nothing is recorded any more.
#[inline(always)]
pub(crate) fn go_on_inside(slot: &Slot) -> bool {
    slot.guard.store(Guard::IN, Ordering::Relaxed);
    if state::load() & state::FENCE != 0 {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
    state::load() & state::RECORD != 0
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
            registry::finish(self.slot);
        }
    }
}

/// Begins recording where [`enter`] could not, or counts the event as lost.
///
/// Must not be called while [`in_own_code`].
#[cold]
#[inline(never)]
pub(crate) fn enter_cold() -> Option<Cold> {
    if state::load() & state::RECORD == 0 {
        return None;
    }
    let (slot, late) = registry::current()?;
    if slot.guard.load(Ordering::Relaxed) != Guard::OUT {
        // A signal handler that allocates has interrupted this very code.
        loss::event(slot);
        return None;
    }
    slot.guard.store(Guard::IN, Ordering::Relaxed);
    let cold = Cold { slot, late };
    if state::load() & state::FENCE != 0 {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
    if state::load() & state::RECORD == 0 {
        cold.leave();
        return None;
    }
    if !slot.has_room() && !buffer::make_room(slot) {
        if state::load() & state::RECORD != 0 {
            loss::event(slot);
        }
        cold.leave();
        return None;
    }
    if state::take_marker_due() {
        serial::write_marker(slot);
    }
    Some(cold)
}
