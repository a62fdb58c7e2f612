//! The signals that end a process: the tracker can have a thread told of one before it ends the process.

use super::{KeepErrno, now, process_id, wait, wake_all};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::{mem, ptr};

/// What people and systems end a program with: a service manager, Ctrl-C, a terminal that closes.
const ENDING: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// What the kernel ends a program with that has crashed, and `abort`.
const CRASHES: [c_int; 5] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// The longest time for which a thread that has crashed waits for the report. It can hold a lock that the report needs,
/// as within `malloc`.
const CRASH_TIMEOUT: u64 = 30_000_000_000;

/// The runtime of Rust handles these two, to tell a stack overflow from other crashes, unless something else handles
/// them when `main` is about to begin.
const OF_RUNTIME: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// How long to wait for Rust's runtime, in nanoseconds. A program without it never handles these two.
const RUNTIME_TIMEOUT: u64 = 1_000_000_000;

/// A signal that arrives this many nanoseconds after the first one ends the process at once. (One that
/// arrives earlier may belong to the first: `timeout` and service managers send two.)
const PATIENCE: u64 = 1_000_000_000;

/// The first signal that arrived; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// When it arrived, in nanoseconds of the monotonic clock.
static FIRST_AT: AtomicU64 = AtomicU64::new(0);

/// Whether crashes are taken over, too.
static TAKES_CRASHES: AtomicBool = AtomicBool::new(false);

/// Whether threads that have crashed need not wait any more.
static IS_DONE: AtomicU32 = AtomicU32::new(0);

/// The actions of [`CRASHES`] before the tracker's. They are never freed, because a handler may use them at any time.
static BEFORE: [AtomicPtr<libc::sigaction>; CRASHES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CRASHES.len()];

/// The process that has a thread in [`wait_for_ending_signal`]. The child of a fork has the handlers, and no
/// such thread.
static WAITING_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether this process has a thread that acts upon signals.
pub(crate) fn has_waiting_thread() -> bool {
    WAITING_PROCESS.load(Ordering::Acquire) == process_id()
}

/// Sets whether crashes are taken over, too. Before a thread is in [`wait_for_ending_signal`].
pub(crate) fn take_crashes(crashes: bool) {
    TAKES_CRASHES.store(crashes, Ordering::Relaxed);
}

/// Forgets what arrived in the process that has forked this one.
pub(crate) fn forget_signals() {
    IS_DONE.store(0, Ordering::Relaxed);
    FIRST_AT.store(0, Ordering::Relaxed);
    FIRST.store(0, Ordering::Release);
}

/// Takes over the signals that end a process, where they would end this one: a signal that the program
/// handles or ignores stays as it is. A thread of this process must be in [`wait_for_ending_signal`], or get there.
pub(crate) fn handle_ending_signals() {
    WAITING_PROCESS.store(process_id(), Ordering::Release);
    for signal in ENDING {
        if action(signal) == libc::SIG_DFL {
            set_action(signal, ending_handler());
        }
    }
    if !TAKES_CRASHES.load(Ordering::Relaxed) {
        return;
    }
    let is_early = |signal| OF_RUNTIME.contains(&signal) && action(signal) == libc::SIG_DFL;
    CRASHES.into_iter().filter(|signal| !is_early(*signal)).for_each(handle_crash);
}

/// Takes over a signal, whatever handles it: that comes afterwards.
fn handle_crash(signal: c_int) {
    let Some(before) = before(signal) else { return };
    // SAFETY: the actions are locals of the right type, for which zeros are valid; the handler has the form that
    // `SA_SIGINFO` asks for.
    unsafe {
        let mut current = mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal, ptr::null(), &raw mut current);
        if current.sa_sigaction == crash_handler() || current.sa_sigaction == libc::SIG_IGN {
            return;
        }
        // NOTE: before the handler can run.
        before.store(Box::into_raw(Box::new(current)), Ordering::Release);
        let mut new = mem::zeroed::<libc::sigaction>();
        new.sa_sigaction = crash_handler();
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const new, ptr::null_mut());
    }
}

/// Where the action of a crash before the tracker's is.
fn before(signal: c_int) -> Option<&'static AtomicPtr<libc::sigaction>> {
    CRASHES.iter().zip(&BEFORE).find_map(|(crash, before)| (*crash == signal).then_some(before))
}

fn crash_handler() -> libc::sighandler_t {
    crashed as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

/// The handler of crashes. It runs on the thread that has crashed, perhaps on a stack of some KiB, and waits until another
/// thread has made the report. What would have handled the signal does so then: a faulting instruction faults again, and a signal
/// that was sent is sent again.
extern "C" fn crashed(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let _errno = KeepErrno::new();
    if has_waiting_thread() && IS_DONE.load(Ordering::Acquire) == 0 {
        let begin = now();
        if FIRST.compare_exchange(0, signal as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            wake_all(&FIRST);
        }
        wait_until_done(begin);
    }
    if action(signal) != crash_handler() {
        // The program has a handler of its own by now, which has called this one.
        return;
    }
    let before = before(signal);
    let before = before.map_or(ptr::null_mut(), |before| before.load(Ordering::Acquire));
    // NOTE: not by `raise`. The core file, and a handler, say who has sent the signal. It is blocked until this handler returns, so
    // the core file has the registers from before it, too.
    // SAFETY: it is an action that was stored before the handler was installed, or null, which changes nothing; the kernel
    // passes an information that is valid during the call.
    unsafe {
        libc::sigaction(signal, before, ptr::null_mut());
        if (*info).si_code <= 0 {
            let (process, thread) = (process_id(), super::thread_id());
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
        }
    }
}

/// Whether the thread that it is from waits for the report, and ends the process itself.
pub(crate) fn waits_for_report(signal: c_int) -> bool {
    CRASHES.contains(&signal)
}

/// Whether a thread that has crashed waits for the report: it may hold any lock.
pub(crate) fn is_report_awaited() -> bool {
    waits_for_report(FIRST.load(Ordering::Acquire) as c_int)
}

/// Lets the threads that wait for the report end the process.
pub(crate) fn end_waiting() {
    IS_DONE.store(1, Ordering::Release);
    wake_all(&IS_DONE);
}

/// Waits until a signal has arrived that would have ended the process, or the process has crashed.
pub(crate) fn wait_for_ending_signal() -> c_int {
    let begin = now();
    loop {
        let first = FIRST.load(Ordering::Acquire);
        if first != 0 {
            return first as c_int;
        }
        // A recording can begin before the runtime of Rust does.
        let waited = now().saturating_sub(begin);
        let is_late = waited > RUNTIME_TIMEOUT;
        let is_ready = |signal| is_late || action(signal) != libc::SIG_DFL;
        if TAKES_CRASHES.load(Ordering::Relaxed) {
            OF_RUNTIME.into_iter().filter(|signal| is_ready(*signal)).for_each(handle_crash);
        }
        let are_all = OF_RUNTIME.into_iter().all(|signal| action(signal) != libc::SIG_DFL)
            || !TAKES_CRASHES.load(Ordering::Relaxed);
        // The runtime mostly begins soon; a program may take longer before that.
        let step = (waited / 4).clamp(100_000, 10_000_000);
        wait(&FIRST, 0, if are_all || is_late { u64::MAX >> 1 } else { step });
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

fn ending_handler() -> libc::sighandler_t {
    arrived as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

/// The handler. It runs on any thread, perhaps inside the hook, and calls only what POSIX allows there.
extern "C" fn arrived(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let _errno = KeepErrno::new();
    if action(signal) != ending_handler() {
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
            // `raise` does not return by default, so the thread that called it must not run on.
            // SAFETY: the kernel passes an information that is valid during the call, and has a sender for this code.
            let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
            if code == libc::SI_TKILL && sender as u32 == process_id() {
                wait_until_done(time);
                end_by(signal);
            }
        }
        Err(first) if time.saturating_sub(first) > PATIENCE => end_by(signal),
        Err(_) => {}
    }
}

/// Waits until another thread has made the report, or ends the process.
fn wait_until_done(begin: u64) {
    while IS_DONE.load(Ordering::Acquire) == 0 {
        match CRASH_TIMEOUT.saturating_sub(now().saturating_sub(begin)) {
            0 => return,
            left => wait(&IS_DONE, 0, left),
        }
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
        new.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const new, ptr::null_mut());
    }
}
