//! What happens while no buffer is free: threads wait for the worker, and after a timeout events
//! are dropped and counted.
//!
//! A thread waits only while there is a worker to wait for. All waiting threads share one deadline:
//! [`STALL_TIMEOUT`] after the first wait since the worker last made progress. The worker makes progress with
//! each run of events that it merges, and with each mapping when it reads what is resident, not only with the
//! buffers that it frees: if 2,000 threads have begun one buffer each, the worker frees the first of these
//! buffers only after it has sent nearly all of their events. After the deadline the process drops events
//! until the worker has collected everything. A thread that must not ask the kernel spins, for 10 ms of its
//! own time. If the whole process was stopped meanwhile, as by a debugger,
//! the deadline is extended once.

use super::slot::{Guard, ThreadSlot};
use super::state;
use crate::platform::{clock, os};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How long all threads together wait for the worker before events are dropped, in nanoseconds.
const STALL_TIMEOUT: u64 = 1_000_000_000;
/// How long a thread that must not ask the kernel spins for a buffer, in nanoseconds of its own.
const SPIN_TIMEOUT: u64 = 10_000_000;
/// How often the worker looks for events that no thread may wake it for, in nanoseconds.
const LOOK_INTERVAL: u64 = 1_000_000;
/// If a waiter wakes this many nanoseconds after the deadline and the stall continues, the whole
/// process was stopped, the worker included. Otherwise another waiter would have ended the stall.
const OVERSLEPT: u64 = 10_000_000;

static MAY_WAIT: AtomicBool = AtomicBool::new(false);
/// Changes whenever buffers are freed; waiting threads sleep on it.
static FREED: AtomicU32 = AtomicU32::new(0);
static WAITING: AtomicU32 = AtomicU32::new(0);
/// The time, on the clock, from which events are dropped if the present stall continues; 0 if there
/// is no stall.
static DEADLINE: AtomicU64 = AtomicU64::new(0);
/// The deadline of the present stall has been extended.
static EXTENDED: AtomicBool = AtomicBool::new(false);
static DROPPING: AtomicBool = AtomicBool::new(false);
/// Whether buffers were freed since everything was last collected.
static RELEASED: AtomicBool = AtomicBool::new(false);
/// Changes when the worker is to run before its time; the worker sleeps on it.
static WAKES: AtomicU32 = AtomicU32::new(0);
static WAKE_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Ends waiting and dropping before recording starts.
pub(super) fn reset() {
    MAY_WAIT.store(false, Ordering::Release);
    DEADLINE.store(0, Ordering::Release);
    DROPPING.store(false, Ordering::Release);
    EXTENDED.store(false, Ordering::Release);
}

/// Resets what other threads have set, in the child of a fork, where this is the only thread.
pub(super) fn reset_after_fork() {
    WAITING.store(0, Ordering::Relaxed);
    WAKE_REQUESTED.store(false, Ordering::Relaxed);
}

/// Sets whether threads wait for the worker. False until the worker runs.
pub(crate) fn allow_waiting(may_wait: bool) {
    MAY_WAIT.store(may_wait, Ordering::Release);
}

/// Whether threads may wait for the worker.
pub(super) fn may_wait() -> bool {
    MAY_WAIT.load(Ordering::Acquire)
}

/// Whether events are dropped instead of waiting for buffers.
pub(super) fn is_dropping() -> bool {
    DROPPING.load(Ordering::Acquire)
}

/// A count that changes whenever buffers are freed. [`wait`] takes the value that was read before
/// the caller looked for a free buffer.
pub(super) fn freed() -> u32 {
    FREED.load(Ordering::Acquire)
}

/// Notes that a buffer was freed.
pub(super) fn note_release() {
    RELEASED.store(true, Ordering::Release);
}

/// Called when the worker has collected everything that can be collected. Ends dropping if buffers
/// were freed since the last call, or if the limit allows more buffers (`has_room`). Otherwise
/// dropping continues: a thread that tried to get a buffer would only wait again, and get none.
pub(super) fn all_collected(has_room: bool) {
    if RELEASED.swap(false, Ordering::AcqRel) {
        DROPPING.store(false, Ordering::Release);
        note_progress();
    } else if has_room {
        DROPPING.store(false, Ordering::Release);
    }
    wake_waiters();
}

/// Notes that the worker makes progress: waiting threads get the full timeout again.
pub(crate) fn note_progress() {
    // PERF: called for every run of events in the merge, and there is nearly never a waiting
    // thread.
    if DEADLINE.load(Ordering::Relaxed) != 0 {
        DEADLINE.store(0, Ordering::Release);
        EXTENDED.store(false, Ordering::Release);
    }
}

/// Wakes waiting threads, which check again for free buffers.
///
/// NOTE: a thread counts itself in `WAITING`, and sleeps if `FREED` has not changed. Both sides write their
/// word before they read the other's, which only sequential consistency orders: without it, a processor with
/// weak ordering could let both read the old words, and the thread would sleep until the next cycle.
pub(crate) fn wake_waiters() {
    FREED.fetch_add(1, Ordering::SeqCst);
    if WAITING.load(Ordering::SeqCst) > 0 {
        os::wake_all(&FREED);
    }
}

/// Waits until buffers are freed; `false` if the event must be dropped instead.
pub(super) fn wait(slot: &ThreadSlot, freed: u32) -> bool {
    // NOTE: a thread that panics waits, too. Printing a backtrace makes 100,000 events, which no buffers
    // hold; the tracker's own code, which may panic, never comes here.
    if !MAY_WAIT.load(Ordering::Acquire) || !state::is_running() || is_dropping() {
        return false;
    }
    if os::is_kernel_closed() {
        return spin(slot, freed);
    }
    let now = clock::now();
    let new = now + STALL_TIMEOUT;
    let deadline = match DEADLINE.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(running) => running,
    };
    if now >= deadline {
        let was_stopped = now > deadline + OVERSLEPT && !EXTENDED.load(Ordering::Acquire);
        let next = if was_stopped { new } else { 0 };
        // On failure, another thread has done this, or the worker has made progress.
        if DEADLINE.compare_exchange(deadline, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            (if was_stopped { &EXTENDED } else { &DROPPING }).store(true, Ordering::Release);
        }
        return !is_dropping();
    }
    // A waiting thread has nothing uncommitted, so the worker does not wait for this thread.
    slot.guard.store(Guard::WAITING, Ordering::Release);
    WAITING.fetch_add(1, Ordering::SeqCst);
    os::wait(&FREED, freed, deadline - now);
    WAITING.fetch_sub(1, Ordering::AcqRel);
    slot.guard.store(Guard::IN, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    state::load() & state::ON != 0
}

/// Waits without the kernel, where the program filters its system calls.
#[cold]
fn spin(slot: &ThreadSlot, freed: u32) -> bool {
    /// A gap between two readings of the clock that is longer is not time of this thread.
    const LONGEST_GAP: u64 = 100_000;
    slot.guard.store(Guard::WAITING, Ordering::Release);
    let (mut left, mut before) = (SPIN_TIMEOUT, clock::now());
    while FREED.load(Ordering::Acquire) == freed && left > 0 {
        std::hint::spin_loop();
        let now = clock::now();
        left = left.saturating_sub(now.saturating_sub(before).min(LONGEST_GAP));
        before = now;
    }
    slot.guard.store(Guard::IN, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    if left == 0 {
        DROPPING.store(true, Ordering::Release);
    }
    left > 0 && state::load() & state::ON != 0
}

/// Wakes the worker before its time; makes a system call only if it has not been woken yet, and none where
/// the program filters these: the worker then looks more often.
pub(crate) fn wake_worker() {
    if !os::is_kernel_closed() && !WAKE_REQUESTED.swap(true, Ordering::AcqRel) {
        WAKES.fetch_add(1, Ordering::AcqRel);
        os::wake_all(&WAKES);
    }
}

/// Makes the worker, which calls this, sleep until it is woken, at most `nanos` nanoseconds.
pub(crate) fn sleep_until_woken(nanos: u64) {
    let nanos = if os::is_filtered() { nanos.min(LOOK_INTERVAL) } else { nanos };
    let wakes = WAKES.load(Ordering::Acquire);
    if !WAKE_REQUESTED.load(Ordering::Acquire) {
        os::wait(&WAKES, wakes, nanos);
    }
}

/// Notes that the worker runs: from now on, [`wake_worker`] has an effect again.
pub(crate) fn clear_wake_request() {
    WAKE_REQUESTED.store(false, Ordering::Release);
}
