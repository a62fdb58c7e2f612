//! The one thread that collects what all others have written, and hands it on.
//!
//! It runs with the tracker's guard always set and with every signal blocked. It wakes every
//! [`INTERVAL`], more often at the start of a recording, or when half the buffers are full.

mod drain;
mod feeds;
mod late;
mod layouts;
mod merge;
mod replay;
mod session;
mod streams;
mod world;

pub(crate) use drain::marker_times;
pub(crate) use late::JoinPoint;
pub(crate) use replay::Importants;
pub(crate) use session::{Session, Trailer, collected, mapped_bytes, preamble, settled_below};
pub(crate) use streams::{BLOCKS, CONTROL, own_system_id};

use super::write::{ReentrancyGuard, backpressure};
use crate::error::Error;
use crate::platform::os;
use crate::trace::format::encode::Declaration;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How often the worker comes when nobody calls it: the resolution of times in a trace.
const INTERVAL: Duration = Duration::from_millis(10);
/// The same at the start: a program that runs for 0.1 s would have only ten times of 10 ms.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
/// Until the interval reaches 10 ms, it is this fraction of the time since the start.
const PARTS: u32 = 64;

/// How long the worker sleeps after it has run for `since_start`. PERF: until the interval reaches 10
/// ms, at 0.64 s, this makes 210 ticks instead of 64.
fn interval(since_start: Duration) -> Duration {
    (since_start / PARTS).clamp(FIRST_INTERVAL, INTERVAL)
}

/// A part of the program that declares events: the worker announces its types, and asks it in
/// every tick for the important events that have come up.
pub(crate) trait Instrument: Send {
    /// All its event types.
    fn types(&self) -> &'static [&'static Declaration];

    /// Adds the important events that are new since the last call.
    fn announce(&mut self, importants: &mut Importants);

    /// Adds events, which belong to no thread, for the figures that have changed since the last call.
    /// Each event holds the whole figure, so a lost one costs nothing.
    fn figures(&mut self, _events: &mut Vec<Vec<u8>>) {}

    /// Adds the figures so far that a stream starting here needs.
    fn figures_before(&self, _events: &mut Vec<Vec<u8>>) {}
}

/// What is being recorded, if anything. Taken by the worker in every tick, and by whoever drives
/// the ledger; never by the hook, and never in the child of a fork.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// How many wait for the session, other than the worker.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Counts sessions: a worker whose session is over sees another number and ends.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The session, waiting for the worker to finish its tick.
pub(crate) fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The session, or `None` if the worker has not let go of it within `patience`: it is stuck in a
/// write to something that does not answer.
pub(crate) fn session_within(patience: Duration) -> Option<MutexGuard<'static, Option<Session>>> {
    WANTED.fetch_add(1, Ordering::AcqRel);
    let session = lock_within(&SESSION, patience);
    WANTED.fetch_sub(1, Ordering::AcqRel);
    session
}

/// Any lock of the tracker's, or `None` if it was not free within `patience`.
pub(crate) fn lock_within<T>(lock: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    /// A tick in which little happened is over by then.
    const YIELDS: u64 = 20;
    let deadline = Instant::now() + patience;
    for tries in 0_u64.. {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => break,
            Err(TryLockError::WouldBlock) if tries < YIELDS => std::thread::yield_now(),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    None
}

/// Starts a worker thread for the session that has just been put in place.
pub(crate) fn spawn() -> Result<(), Error> {
    // NOTE: told to the thread, which may begin to run when its session is over already.
    let generation = GENERATION.load(Ordering::Acquire);
    os::spawn(run, generation as usize)
        .map_err(|source| Error::ThreadNotStarted { thread: "the worker thread".into(), source })
}

/// Ends the worker of the present session, as soon as it looks.
pub(crate) fn dismiss() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    backpressure::wake_worker();
}

extern "C" fn run(generation: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger");
    let generation = generation.addr() as u32;
    let start = Instant::now();
    loop {
        backpressure::sleep_until_woken(interval(start.elapsed()).as_nanos() as u64);
        // NOTE: a worker that is called without pause would hardly ever leave the session to others.
        if WANTED.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut session = session();
        if GENERATION.load(Ordering::Acquire) != generation {
            return std::ptr::null_mut();
        }
        let Some(current) = session.as_mut() else { return std::ptr::null_mut() };
        tick(current, Duration::ZERO);
    }
}

/// Collects once, waiting for threads that are inside the hook for `patience`. A bug of ours must
/// not take the program with it: recording ends there.
pub(crate) fn tick(session: &mut Session, patience: Duration) {
    if catch_unwind(AssertUnwindSafe(|| session.tick(patience))).is_err() {
        session.fail("the tracker panicked, so recording ends here".into());
    }
}

/// Ends the session, as carefully.
pub(crate) fn finish(session: &mut Session, trailer: &Trailer) {
    let on_problem = session.on_problem();
    if catch_unwind(AssertUnwindSafe(|| session.finish(trailer))).is_err() {
        on_problem(Error::Internal("the tracker panicked at the end of the recording".into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_millisecond_apart_at_the_start_and_ten_after_a_while() {
        let at = |millis| interval(Duration::from_millis(millis)).as_micros();
        assert_eq!([at(0), at(64), at(320), at(640)], [1_000, 1_000, 5_000, 10_000]);
        assert_eq!(at(3_600_000), 10_000);
        assert_eq!(interval(Duration::MAX), INTERVAL);
        let (mut now, mut ticks) = (Duration::ZERO, 0);
        while interval(now) < INTERVAL {
            now += interval(now);
            ticks += 1;
        }
        assert!((200..220).contains(&ticks), "{ticks}");
    }
}
