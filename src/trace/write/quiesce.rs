//! Pauses and resumes the recording. In between, no thread is inside a hook.
//!
//! Pausing is a store to the [state](super::state), a barrier on all threads, and a check of every
//! thread's guard. A thread that set its guard before the barrier is seen; one that sets it after
//! the barrier sees the new state.

use super::slot::{Guard, ThreadSlot};
use super::{backpressure, clocks, registry, state};
use crate::platform::os::{self, Instant};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// How long a flush or an end waits for threads inside the hook, so that it has every event up to
/// now.
pub(crate) const HOOK_TIMEOUT: Duration = Duration::from_millis(100);

/// Asks the system for its barrier on all threads; without it every hook passes a fence of its own.
pub(crate) fn prepare() {
    state::set_process(os::register_barrier());
}

/// Stops recording; `false` if a thread is still inside a hook after `timeout`.
pub(crate) fn pause(timeout: Duration) -> bool {
    state::set_paused();
    clocks::stop();
    backpressure::wake_waiters();
    quiesce(timeout, |guard| guard == Guard::OUT) == 0
}

/// Waits at most `timeout` until no thread is about to write an event, without pausing the recording; returns
/// how many still are. Threads that wait inside the hook have nothing uncommitted.
pub(super) fn wait_for_hooks(timeout: Duration) -> u64 {
    quiesce(timeout, |guard| guard != Guard::IN)
}

/// Begins or resumes recording, while no thread is inside a hook: the events that the program logs,
/// and the hook's events if `hook`.
pub(crate) fn run(hook: bool) {
    state::set_running(hook);
    if state::has_barrier() {
        return clocks::resume(hook);
    }
    // Without the barrier, every hook loads the state after a fence of its own. A hook that began
    // before these stores has ended after the sleep, unless its thread was preempted in it.
    clocks::stop();
    registry::slots().for_each(|slot| slot.revoke_lease());
    os::sleep(Duration::from_millis(1));
}

/// Runs a barrier on all threads. After it, the caller sees every guard that was set before it.
pub(crate) fn barrier() {
    if state::has_barrier() {
        os::barrier_on_all_threads();
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Waits at most `timeout` until every thread has been seen with a guard that `is_outside` accepts after a
/// barrier, without a lease; returns how many have not. Such a thread checks the state when it enters the
/// hook again.
fn quiesce(timeout: Duration, is_outside: fn(u32) -> bool) -> u64 {
    registry::slots().for_each(|slot| slot.revoke_lease());
    barrier();
    let deadline = Instant::now() + timeout;
    let is_inside = |slot: &&ThreadSlot| {
        loop {
            if is_outside(slot.guard.load(Ordering::Acquire)) {
                if !slot.is_leased() {
                    return false;
                }
                // The thread has taken a lease since the revocation.
                slot.revoke_lease();
                barrier();
            }
            if Instant::now() >= deadline {
                return true;
            }
            std::thread::yield_now();
        }
    };
    registry::slots().filter(is_inside).count() as u64
}
