//! Whether events are recorded: one word that every hook looks at.
//!
//! ```text
//!              start of the process
//!                      │
//!                 EARLY: recorded, not drained ──buffers full──► OFF
//!                      │ start                                    │ start
//!                      ▼                                          ▼
//!   OFF ◄─finish── PAUSED ◄──────stop────── RUNNING ◄──────── PAUSED (nobody inside a hook)
//! ```
//! Turning recording off is a store to the word, a barrier on all threads, and a look at every
//! thread's guard ([`quiesce`]): a thread that set its guard before the barrier is seen, one that
//! sets it after sees the new word.

use super::places;
use super::registry::{self, Guard};
use crate::platform::os;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// Nothing is recorded and nothing is about to be. The hook returns after one load.
pub(crate) const OFF: u32 = 0;
/// The hook's events are recorded.
pub(crate) const RECORD: u32 = 1;
/// Events that the program logs are recorded.
pub(crate) const LOG: u32 = 2;
/// Events are recorded and nothing else is to be done.
pub(crate) const ON: u32 = RECORD | LOG;
/// The system has no barrier on all threads, so every hook passes one of its own.
pub(crate) const FENCE: u32 = 4;
/// Nothing is recorded, but the tracker is at work: its own allocations are counted.
const PAUSED: u32 = 8;

/// Starts as `ON`: what happens before anyone could start belongs to the report.
static STATE: AtomicU32 = AtomicU32::new(if os::SUPPORTED { ON } else { OFF });

/// Where the life of the recording stands; looked at on cold paths only.
static PHASE: AtomicU32 = AtomicU32::new(EARLY);
const EARLY: u32 = 0;
const STOPPED: u32 = 1;
const RUNNING: u32 = 2;

static HAS_BARRIER: AtomicBool = AtomicBool::new(false);
/// Set in the child of a fork, where no worker lives: nothing is ever recorded there again.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Set when the tracker's own code holds blocks that only the hook can free.
static STAYS_AWAKE: AtomicBool = AtomicBool::new(false);
/// The process that has started recording, 0 while none has.
static PID: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
pub(crate) fn load_relaxed() -> u32 {
    STATE.load(Ordering::Relaxed)
}

#[inline(always)]
pub(crate) fn load() -> u32 {
    STATE.load(Ordering::Acquire)
}

/// Whether events are kept for a start that has not come yet.
pub(crate) fn is_early() -> bool {
    PHASE.load(Ordering::Acquire) == EARLY
}

/// Whether a worker drains the buffers.
pub(crate) fn is_running() -> bool {
    PHASE.load(Ordering::Acquire) == RUNNING
}

/// Whether this is the child of a fork of a process that was being tracked. Asks the system too:
/// not every way to fork tells us.
pub(crate) fn is_forked() -> bool {
    let pid = PID.load(Ordering::Acquire);
    FORKED.load(Ordering::Acquire) || (pid != 0 && pid != os::process_id())
}

/// The early buffer is full and nobody has started: forget it, and stop recording.
///
/// Keeping its beginning would make every block freed later look alive.
pub(crate) fn discard_early() {
    if PHASE.compare_exchange(EARLY, STOPPED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        // NOTE: only from on. A start may have paused it already.
        if STATE.compare_exchange(ON, OFF, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            places::stop();
        }
    }
}

/// Has the tracker's own allocations counted, and the allocator answer to
/// [`linked`](crate::alloc::linked), until dropped, where recording is off.
pub(crate) fn awake() -> Awake {
    Awake(wake())
}

/// The same, for good; `false` if it was not off.
pub(crate) fn wake() -> bool {
    STATE.compare_exchange(OFF, PAUSED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// See [`awake`].
pub(crate) struct Awake(bool);

impl Drop for Awake {
    fn drop(&mut self) {
        if self.0 && !STAYS_AWAKE.load(Ordering::SeqCst) {
            let _ = STATE.compare_exchange(PAUSED, OFF, Ordering::SeqCst, Ordering::Relaxed);
            remain_awake();
        }
    }
}

/// Keeps the state from being off, from here on: the allocator calls the hook at every free.
pub(crate) fn stay_awake() {
    STAYS_AWAKE.store(true, Ordering::SeqCst);
    wake();
}

/// Called after the state was turned off.
fn remain_awake() {
    if STAYS_AWAKE.load(Ordering::SeqCst) {
        wake();
    }
}

/// Takes over what was recorded since the start of the process; `false` if that is gone.
pub(crate) fn adopt_early() -> bool {
    PHASE.compare_exchange(EARLY, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Asks the system for its barrier; without it every hook runs one itself.
pub(crate) fn prepare() {
    PID.store(os::process_id(), Ordering::Release);
    HAS_BARRIER.store(os::register_barrier(), Ordering::Release);
}

/// Stops recording; `false` if a thread is still inside a hook after `patience`.
pub(crate) fn pause(patience: Duration) -> bool {
    PHASE.store(STOPPED, Ordering::Release);
    STATE.store(PAUSED, Ordering::SeqCst);
    places::stop();
    super::buffer::wake_waiters();
    quiesce(patience)
}

/// Records again, from a state in which no thread is inside a hook: what the program logs, and
/// what the hook sees if it is told to.
pub(crate) fn run(hook: bool) {
    PHASE.store(RUNNING, Ordering::Release);
    let fence = if HAS_BARRIER.load(Ordering::Acquire) { 0 } else { FENCE };
    STATE.store(if hook { ON } else { LOG } | fence, Ordering::Release);
    if fence == 0 {
        return places::go(hook);
    }
    // Without the barrier, every hook looks at the state, with a fence of its own; those that are
    // under way, from before, will have been seen by then.
    places::stop();
    registry::slots().for_each(places::revoke_lease);
    std::thread::sleep(Duration::from_millis(1));
}

/// Nothing is recorded any more and the tracker has given back what it held.
pub(crate) fn turn_off() {
    let awake = STAYS_AWAKE.load(Ordering::SeqCst);
    STATE.store(if awake { PAUSED } else { OFF }, Ordering::SeqCst);
    remain_awake();
}

/// In the child of a fork: there is no worker, and the buffers are the parent's.
pub(crate) fn turn_off_in_child() {
    FORKED.store(true, Ordering::Release);
    PHASE.store(STOPPED, Ordering::Release);
    // As in `turn_off`: the child may have blocks of the reserve, too.
    let awake = STAYS_AWAKE.load(Ordering::SeqCst);
    STATE.store(if awake { PAUSED } else { OFF }, Ordering::SeqCst);
    places::stop();
}

/// In the child of a fork of a process that records nothing: this one may.
pub(crate) fn forget_process() {
    PID.store(0, Ordering::Release);
}

/// Whether the hook's events are recorded, for a thread that has set its guard and was told to
/// stop and look.
pub(crate) fn goes_on() -> bool {
    goes_on_with(RECORD)
}

/// The same for either kind of events: [`RECORD`] or [`LOG`].
pub(crate) fn goes_on_with(kind: u32) -> bool {
    if load() & FENCE != 0 {
        // The guard, before the state: the barrier is the worker's where there is one.
        fence(Ordering::SeqCst);
    }
    load() & kind != 0
}

/// Passes a barrier on all threads, so that a guard set before it is seen after it.
pub(crate) fn barrier() {
    if HAS_BARRIER.load(Ordering::Acquire) {
        os::barrier_on_all_threads();
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Waits until every thread has been seen outside the hook since the last barrier, and will look
/// at the state when it comes back.
fn quiesce(patience: Duration) -> bool {
    registry::slots().for_each(places::revoke_lease);
    barrier();
    let deadline = Instant::now() + patience;
    registry::slots().all(|slot| {
        loop {
            if slot.guard.load(Ordering::Acquire) == Guard::OUT {
                if !places::is_leased(slot) {
                    return true;
                }
                // It gave itself a lease just then.
                places::revoke_lease(slot);
                barrier();
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::yield_now();
        }
    })
}
