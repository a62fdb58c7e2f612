//! A null of the program's allocator. The worker is told of it before the program gets it, because most
//! programs end there.
//!
//! ```text
//! OFF ──arm──► ARMED ──a thread gets a null──► CLAIMED ──► REQUESTED ──the worker has acted──► OFF
//! ```
//! Only the first null since [`arm`] has an effect: one that comes when nothing is armed costs a load.

use super::{backpressure, state};
use crate::platform::{clock, os};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const OFF: u32 = 0;
const ARMED: u32 = 1;
const CLAIMED: u32 = 2;
const REQUESTED: u32 = 3;

/// How long a thread waits for the worker, in nanoseconds.
const TIMEOUT: u64 = 1_000_000_000;

static STATE: AtomicU32 = AtomicU32::new(OFF);
static BYTES: AtomicU64 = AtomicU64::new(0);
static THREAD: AtomicU32 = AtomicU32::new(0);

/// An allocation for which the program's allocator had no memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Null {
    /// The size of the block, in bytes.
    pub(crate) bytes: u64,
    /// The system's id of the thread.
    pub(crate) thread: u32,
}

/// From now on, the worker is told of the next null.
pub(crate) fn arm() {
    let _ = STATE.compare_exchange(OFF, ARMED, Ordering::AcqRel, Ordering::Relaxed);
}

/// The worker is told of no null any more.
pub(crate) fn disarm() {
    STATE.store(OFF, Ordering::Release);
    os::wake_all(&STATE);
}

/// *Hook.* Tells the worker that the program gets a null for `bytes`, if that is asked for, and waits until
/// it has acted, at most for a second. Other threads that get a null meanwhile also wait: the null can end
/// the program.
pub(crate) fn note_null(bytes: usize) {
    if STATE.load(Ordering::Relaxed) == OFF || os::is_kernel_closed() || state::is_forked() {
        return;
    }
    match STATE.compare_exchange(ARMED, CLAIMED, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            BYTES.store(bytes as u64, Ordering::Relaxed);
            THREAD.store(os::thread_id(), Ordering::Relaxed);
            STATE.store(REQUESTED, Ordering::Release);
            backpressure::wake_worker();
        }
        Err(OFF) => return,
        Err(_) => {}
    }
    let begin = clock::now();
    while backpressure::may_wait() && state::is_running() {
        let now = STATE.load(Ordering::Acquire);
        let left = TIMEOUT.saturating_sub(clock::now().saturating_sub(begin));
        if !matches!(now, CLAIMED | REQUESTED) || left == 0 {
            break;
        }
        os::wait(&STATE, now, left);
    }
}

/// The null that the worker was told of, until [`answer`].
pub(crate) fn requested() -> Option<Null> {
    (STATE.load(Ordering::Acquire) == REQUESTED).then(|| Null {
        bytes: BYTES.load(Ordering::Relaxed),
        thread: THREAD.load(Ordering::Relaxed),
    })
}

/// The worker has acted.
pub(crate) fn answer() {
    if STATE.compare_exchange(REQUESTED, OFF, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        os::wake_all(&STATE);
    }
}
