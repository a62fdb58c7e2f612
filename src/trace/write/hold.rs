//! While a process forks whose child is recorded, its other threads wait at their next event about memory, so
//! that the child's live blocks are those of the moment of the fork.
//!
//! ```text
//! NONE ──hold──► HELD ──release──► NONE
//!                  └─ a thread has waited for TIMEOUT ─► GIVEN_UP ──release──► NONE
//! ```
//! The forking thread itself never waits, and no other thread waits for long: code of the program that runs
//! before the fork (`pthread_atfork`) may wait for a thread that waits here. Events while threads do not wait
//! are counted: the child's live blocks lack them.

use super::slot::{Guard, ThreadSlot};
use super::{clocks, enter, quiesce, registry, state};
use crate::platform::{clock, os};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

/// The longest that threads wait for a fork, and a fork for threads inside the hook.
const TIMEOUT: Duration = Duration::from_secs(1);

static HOLD: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const HELD: u32 = 1;
const GIVEN_UP: u32 = 2;

/// When waiting ends, on the clock.
static DEADLINE: AtomicU64 = AtomicU64::new(0);
/// The address of the state of the thread that forks.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// Whether the hook's events were recorded before, so that they are again after the fork.
static RESUMES: AtomicBool = AtomicBool::new(false);
/// Events since the hold began, and threads that were inside the hook all the time.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Makes all other threads wait at their next event about memory. The caller holds the lock of the session,
/// so that nothing else stops or resumes the recording.
pub(crate) fn hold() {
    MISSED.store(0, Ordering::Relaxed);
    if state::load() & state::RECORD == 0 {
        return;
    }
    HOLDER.store(own(), Ordering::Relaxed);
    DEADLINE.store(clock::now() + TIMEOUT.as_nanos() as u64, Ordering::Relaxed);
    HOLD.store(HELD, Ordering::SeqCst);
    RESUMES.store(clocks::hold(), Ordering::Relaxed);
    let inside = quiesce::wait_for_hooks(TIMEOUT);
    MISSED.fetch_add(inside, Ordering::AcqRel);
}

/// Reverts [`hold`], in the parent.
pub(crate) fn release() {
    if HOLD.load(Ordering::Acquire) == NONE {
        return;
    }
    if RESUMES.load(Ordering::Relaxed) {
        clocks::release();
    }
    HOLD.store(NONE, Ordering::SeqCst);
    os::wake_all(&HOLD);
}

/// In the child, which has no other thread: ends the hold, and returns how many events its live blocks can
/// lack.
pub(crate) fn end_in_child() -> u64 {
    HOLD.store(NONE, Ordering::Relaxed);
    MISSED.load(Ordering::Relaxed)
}

/// *Hook.* Waits while another thread forks; `false` if there is nothing to wait for. Inside the hook, before
/// an event about memory.
#[cold]
pub(super) fn wait(slot: &ThreadSlot) -> bool {
    let mut has_waited = false;
    while HOLD.load(Ordering::Acquire) == HELD && HOLDER.load(Ordering::Relaxed) != own() {
        let (now, deadline) = (clock::now(), DEADLINE.load(Ordering::Relaxed));
        if now >= deadline {
            let _ = HOLD.compare_exchange(HELD, GIVEN_UP, Ordering::AcqRel, Ordering::Relaxed);
            os::wake_all(&HOLD);
            break;
        }
        // NOTE: the thread has nothing uncommitted.
        slot.guard.store(Guard::WAITING, Ordering::Release);
        os::wait(&HOLD, HELD, deadline - now);
        enter::set_guard(slot);
        fence(Ordering::SeqCst);
        has_waited = true;
    }
    if HOLD.load(Ordering::Acquire) != NONE {
        MISSED.fetch_add(1, Ordering::AcqRel);
        return false;
    }
    has_waited
}

/// This thread, by the address of its state.
fn own() -> usize {
    registry::own().map_or(0, |thread| ptr::from_ref(thread).addr())
}
