//! The worker: the one thread that collects what all others have written, and sends it to the
//! sinks.
//!
//! It always holds the reentrancy guard, and blocks every signal. It runs a cycle every
//! [`INTERVAL`], more often at the start of a recording, or when half of
//! the buffer limit is in use.

mod announcer;
mod buffer_cursor;
mod checkpoint;
mod importants;
mod late_join;
mod layouts;
mod merge;
mod output;
mod session;
mod streams;
mod threads;
mod timeline;
mod watch;
mod watermark;

pub(crate) use super::write::backpressure::note_progress;
pub(crate) use announcer::{Definitions, EventProvider};
pub(crate) use checkpoint::{Checkpoints, Stage};
pub(crate) use importants::Importants;
pub(crate) use late_join::JoinPoint;
pub(crate) use session::{Session, mapped_bytes};
pub(crate) use streams::{BLOCKS, CONTROL, own_system_id};
pub(crate) use timeline::{Trailer, collected, marker_times, preamble, settled_below};

use super::write::quiesce::HOOK_TIMEOUT;
use super::write::{ReentrancyGuard, backpressure, state};
use crate::error::{self, Error, ErrorKind};
use crate::platform::delays::delay;
use crate::platform::os::{self, Instant};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// The time between two cycles, if the worker is not woken: the resolution of times in a trace.
const INTERVAL: Duration = Duration::from_millis(10);
/// The time between two cycles at the start of a recording: with 10 ms, the trace of a program that
/// runs for 0.1 s would have only ten times.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
/// Until the interval reaches 10 ms, it is the time since the start, divided by this.
const INTERVAL_DIVISOR: u32 = 64;

/// The time for which the worker sleeps once it has run for `since_start`. PERF: until the interval
/// reaches 10 ms, at 0.64 s, this makes 210 cycles instead of 64.
fn interval(since_start: Duration) -> Duration {
    (since_start / INTERVAL_DIVISOR).clamp(FIRST_INTERVAL, INTERVAL)
}

/// How long a call of the program waits for a worker that is stuck in a write.
pub(crate) const WORKER_TIMEOUT: Duration = Duration::from_secs(5);

/// The present recording. The worker locks it in every cycle, and so do the ledger's entry points.
/// The hook and the child of a fork never lock it.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// How many threads wait for the session, other than the worker.
static WAITERS: AtomicU32 = AtomicU32::new(0);
/// How many packets the sinks have taken. Only the thread that holds the session's lock counts.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Counts sessions. A worker whose session is over finds another number here, and ends.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Locks the session; waits until the worker's cycle has ended.
pub(crate) fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the session; `None` if for `timeout` the worker has neither released it nor has a sink taken a
/// packet, because a write to a destination that does not answer blocks it. On a busy machine, a cycle that
/// makes progress can take longer.
pub(crate) fn session_within(timeout: Duration) -> Option<MutexGuard<'static, Option<Session>>> {
    WAITERS.fetch_add(1, Ordering::AcqRel);
    let session =
        while_it_progresses(|| lock_within(&SESSION, timeout), || TAKEN.load(Ordering::Relaxed));
    WAITERS.fetch_sub(1, Ordering::AcqRel);
    session
}

/// Calls `wait` until it returns something, or until `progress` is the same after a call as before it.
fn while_it_progresses<T>(
    mut wait: impl FnMut() -> Option<T>,
    progress: impl Fn() -> u64,
) -> Option<T> {
    loop {
        let before = progress();
        let result = wait();
        if result.is_some() || progress() == before {
            return result;
        }
    }
}

/// Notes that a sink has taken a packet.
fn note_taken() {
    // PERF: not by `fetch_add`, since no other thread counts.
    TAKEN.store(TAKEN.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Locks any lock of the tracker; `None` if it was not free within `timeout`.
pub(crate) fn lock_within<T>(lock: &Mutex<T>, timeout: Duration) -> Option<MutexGuard<'_, T>> {
    /// A cycle with few events ends within this many yields.
    const YIELDS: u64 = 20;
    let deadline = Instant::now() + timeout;
    for tries in 0_u64.. {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => break,
            Err(TryLockError::WouldBlock) if tries < YIELDS => std::thread::yield_now(),
            Err(TryLockError::WouldBlock) => os::sleep(Duration::from_micros(200)),
        }
    }
    None
}

/// How often the worker looks whether the program has a thread left.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What is called if it has none, with the status of the process.
static LEFT_ALONE: OnceLock<fn(i32) -> !> = OnceLock::new();

/// Starts a worker thread for the session that was just stored. It calls `left_alone` if the program has no
/// thread any more.
pub(crate) fn spawn(left_alone: fn(i32) -> !) -> Result<(), Error> {
    let _ = LEFT_ALONE.set(left_alone);
    // NOTE: passed to the thread, which may begin to run after its session has ended.
    let generation = GENERATION.load(Ordering::Acquire);
    os::spawn(run, generation as usize)
        .map_err(|source| error::thread_not_started("the worker thread", source))
}

/// Whether this process has a worker: it records, and is no child of one that does.
pub(crate) fn is_here() -> bool {
    state::is_running() && !state::is_forked()
}

/// Wakes the worker before its time.
pub(crate) fn wake() {
    backpressure::wake_worker();
}

/// Ends the worker of the present session, when it next wakes.
pub(crate) fn dismiss() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    backpressure::wake_worker();
}

extern "C" fn run(generation: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger");
    let generation = generation.addr() as u32;
    let start = Instant::now();
    let mut looked = start;
    loop {
        backpressure::sleep_until_woken(interval(start.elapsed()).as_nanos() as u64);
        // NOTE: a worker that is woken without pause would hardly ever leave the lock to others.
        if WAITERS.load(Ordering::Acquire) > 0 {
            os::sleep(Duration::from_millis(1));
        }
        delay();
        if looked.elapsed() >= LOOK_INTERVAL {
            looked = Instant::now();
            if let (Some(status), Some(end)) = (os::left_alone(), LEFT_ALONE.get()) {
                end(status);
            }
        }
        let mut session = session();
        if GENERATION.load(Ordering::Acquire) != generation {
            return std::ptr::null_mut();
        }
        let Some(current) = session.as_mut() else { return std::ptr::null_mut() };
        cycle_here(current, Duration::ZERO);
    }
}

/// Collects once, on a thread that can write to the sinks. Waits for threads inside the hook, at most for
/// `timeout`. `false` if that thread does not answer.
pub(crate) fn cycle(session: &mut Session, timeout: Duration) -> bool {
    os::run_in_own_table(|| {
        let _untracked = ReentrancyGuard::enter();
        cycle_here(session, timeout);
    })
    .is_some()
}

/// The same on this thread. A panic of the tracker ends the recording, not the program.
fn cycle_here(session: &mut Session, timeout: Duration) {
    if catch_unwind(AssertUnwindSafe(|| session.cycle(timeout))).is_err() {
        session.fail("the tracker panicked, so recording ends here".into());
    }
}

/// Collects until all events from before the call are collected; returns whether they are, at most `timeout`
/// later.
pub(crate) fn collect_everything(session: &mut Session, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline && !session.has_failed() {
        if !cycle(session, HOOK_TIMEOUT) {
            return false;
        }
        if session.has_everything() {
            return true;
        }
    }
    false
}

/// Ends the session. A panic of the tracker is reported.
pub(crate) fn finish(session: &mut Session, trailer: &Trailer) {
    let on_problem = session.on_problem();
    if catch_unwind(AssertUnwindSafe(|| session.finish(trailer))).is_err() {
        on_problem(Error::new(
            ErrorKind::Internal,
            "the tracker panicked at the end of the recording",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_makes_progress_is_waited_for() {
        let progress = std::cell::Cell::new(0);
        let mut calls = 0;
        let mut wait_for = |moves, returns| {
            calls = 0;
            let wait = || {
                calls += 1;
                progress.set(progress.get() + u64::from(calls <= moves));
                (calls == returns).then_some(calls)
            };
            (while_it_progresses(wait, || progress.get()), calls)
        };
        assert_eq!(wait_for(0, 1), (Some(1), 1));
        assert_eq!(wait_for(0, 2), (None, 1));
        assert_eq!(wait_for(4, 4), (Some(4), 4));
        assert_eq!(wait_for(4, 9), (None, 5));
    }

    #[test]
    fn times_are_a_millisecond_apart_at_the_start_and_ten_after_a_while() {
        let at = |millis| interval(Duration::from_millis(millis)).as_micros();
        assert_eq!([at(0), at(64), at(320), at(640)], [1_000, 1_000, 5_000, 10_000]);
        assert_eq!(at(3_600_000), 10_000);
        assert_eq!(interval(Duration::MAX), INTERVAL);
        let (mut now, mut cycles) = (Duration::ZERO, 0);
        while interval(now) < INTERVAL {
            now += interval(now);
            cycles += 1;
        }
        assert!((200..220).contains(&cycles), "{cycles}");
    }
}
