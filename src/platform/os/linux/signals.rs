//! The signals that end a process: the tracker can have a thread told of one before it ends the process.

use super::{KeepErrno, now, process_id, wait, wake_all};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{mem, ptr};

/// What people and systems end a program with: a service manager, Ctrl-C, a terminal that closes.
const ENDING: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// A signal that arrives this many nanoseconds after the first one ends the process at once. (One that
/// arrives earlier may belong to the first: `timeout` and service managers send two.)
const PATIENCE: u64 = 1_000_000_000;

/// The first signal that arrived; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// When it arrived, in nanoseconds of the monotonic clock.
static FIRST_AT: AtomicU64 = AtomicU64::new(0);

/// The process that has a thread in [`wait_for_ending_signal`]. The child of a fork has the handlers, and no
/// such thread.
static WAITING_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether this process has a thread that acts upon signals.
pub(crate) fn has_waiting_thread() -> bool {
    WAITING_PROCESS.load(Ordering::Acquire) == process_id()
}

/// Forgets what arrived in the process that has forked this one.
pub(crate) fn forget_signals() {
    FIRST_AT.store(0, Ordering::Relaxed);
    FIRST.store(0, Ordering::Release);
}

/// Takes over the signals that end a process, where they would end this one: a signal that the program
/// handles or ignores stays as it is. A thread of this process must be in [`wait_for_ending_signal`], or get there.
pub(crate) fn handle_ending_signals() {
    WAITING_PROCESS.store(process_id(), Ordering::Release);
    for signal in ENDING {
        if action(signal) == libc::SIG_DFL {
            set_action(signal, arrived as extern "C" fn(c_int) as libc::sighandler_t);
        }
    }
}

/// Waits until a signal has arrived that would have ended the process.
pub(crate) fn wait_for_ending_signal() -> c_int {
    loop {
        match FIRST.load(Ordering::Acquire) {
            0 => wait(&FIRST, 0, u64::MAX >> 1),
            signal => return signal as c_int,
        }
    }
}

/// Ends the process as `signal` does by default. Returns in the first process of a container, which no
/// signal ends by default.
pub(crate) fn end_by(signal: c_int) {
    set_action(signal, libc::SIG_DFL);
    // SAFETY: the set is a local that the call initialises.
    unsafe {
        let mut only = mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, ptr::null_mut());
        libc::raise(signal);
    }
}

/// The handler. It runs on any thread, perhaps inside the hook, and calls only what POSIX allows there.
extern "C" fn arrived(signal: c_int) {
    let _errno = KeepErrno::new();
    if action(signal) != arrived as extern "C" fn(c_int) as libc::sighandler_t {
        // The program has a handler of its own by now, which has called this one: the signal does not end it.
        return;
    }
    if !has_waiting_thread() {
        return end_by(signal);
    }
    let time = now();
    match FIRST_AT.compare_exchange(0, time, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            FIRST.store(signal as u32, Ordering::Release);
            wake_all(&FIRST);
        }
        Err(first) if time.saturating_sub(first) > PATIENCE => end_by(signal),
        Err(_) => {}
    }
}

fn action(signal: c_int) -> libc::sighandler_t {
    // SAFETY: the action is a local of the right type, for which zeros are valid.
    unsafe {
        let mut current = mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal, ptr::null(), &raw mut current);
        current.sa_sigaction
    }
}

fn set_action(signal: c_int, handler: libc::sighandler_t) {
    // SAFETY: as above; the handler is a function of the required form, or one of the system's values.
    unsafe {
        let mut new = mem::zeroed::<libc::sigaction>();
        new.sa_sigaction = handler;
        // System calls of the program go on, as if there were no handler.
        new.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const new, ptr::null_mut());
    }
}
