//! The signals that end a process: the tracker can have a thread told of one before it ends the process.
//!
//! NOTE: what the handlers call is inlined, so that the compiler sees that nothing there panics.

#[cfg(preload)]
use super::super::{before_end, end_process};
use super::super::{now, send_again, wait, wake_all};
use super::process::{KeepErrno, process_id};
use crate::platform::own_thread::{self, ValueOffset};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::{mem, ptr};

#[cfg(preload)]
use super::super::linux::next_signals::sigaction as kernel_action;
/// C's function, as the kernel answers it. The library of `preload/` defines one that shows the program
/// another answer.
#[cfg(not(preload))]
use libc::sigaction as kernel_action;

/// What people and systems end a program with: a service manager, Ctrl-C, a terminal that closes.
pub(in crate::platform::os) const ENDING: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// What the kernel ends a program with that has crashed, and `abort`.
pub(in crate::platform::os) const CRASHES: [c_int; 5] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// The longest time for which a thread waits for the report in a handler. It can hold a lock that the report
/// needs, as within `malloc`.
const HANDLER_TIMEOUT: u64 = 30_000_000_000;

/// The runtime of Rust handles these two, to tell a stack overflow from other crashes, unless something else
/// handles them when `main` is about to begin.
const OF_RUNTIME: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The events of the first thread after which a program without that runtime is taken for one. Few
/// constructors of a program that has it use Rust's allocator so often before `main`.
const RUNTIME_EVENTS: u32 = 1_000;

/// A signal that arrives this many nanoseconds after the first one ends the process at once. (One that
/// arrives earlier may belong to the first: `timeout` and service managers send two.)
const PATIENCE: u64 = 1_000_000_000;

/// The first signal that arrived; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// When it arrived, in nanoseconds of the monotonic clock.
static FIRST_AT: AtomicU64 = AtomicU64::new(0);

/// Whether the threads that wait in a handler need not wait any more.
pub(in crate::platform::os) static IS_DONE: AtomicU32 = AtomicU32::new(0);

/// How many events of the first thread [`handle_late_crashes`] waits for Rust's runtime; 0 if it does not.
static EVENTS_TO_WAIT: AtomicU32 = AtomicU32::new(0);

/// The actions of [`CRASHES`] before the tracker's; null for the default. They are never freed, because a
/// handler may use them at any time.
static BEFORE: [AtomicPtr<libc::sigaction>; CRASHES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CRASHES.len()];

/// The process that has a thread in [`wait_for_ending_signal`]. The child of a fork has the handlers, and no
/// such thread.
static WAITING_PROCESS: AtomicU32 = AtomicU32::new(0);

own_thread::own_values! {
    /// Whether this thread waits in the handler of [`ENDING`].
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

static PLACE: ValueOffset = ValueOffset::new();

/// Whether this process has a thread that acts upon signals.
pub(crate) fn has_waiting_thread() -> bool {
    // NOTE: without such a thread nothing is asked, as under a filter of system calls.
    let process = WAITING_PROCESS.load(Ordering::Acquire);
    process != 0 && process == process_id()
}

/// Forgets what arrived in the process that has forked this one.
pub(crate) fn forget_signals() {
    if let Some(waits) = own_thread::get(&WAITS, &PLACE) {
        waits.set(false);
    }
    IS_DONE.store(0, Ordering::Relaxed);
    FIRST_AT.store(0, Ordering::Relaxed);
    FIRST.store(0, Ordering::Release);
}

/// Takes over the signals that end a process, where they would end this one: a signal that the program
/// handles or ignores stays as it is. And crashes, whatever handles them: that comes afterwards. A thread of
/// this process must be in [`wait_for_ending_signal`], or get there.
///
/// NOTE: before `main`, not those that the runtime of Rust would handle: it only does so where nothing else
/// does. Those are for [`handle_late_crashes`]. On Linux, a program that the library of `preload/` is loaded
/// into does not see that they are taken.
pub(crate) fn handle_ending_signals() {
    WAITING_PROCESS.store(process_id(), Ordering::Release);
    for signal in ENDING {
        if handler_of(signal) == libc::SIG_DFL {
            set_action(signal, &own_action(signal));
        }
    }
    let has_runtime_later = cfg!(not(preload)) && super::before_main::is_before_main();
    for signal in CRASHES {
        let place = Box::into_raw(Box::new(default_action()));
        if has_runtime_later && OF_RUNTIME.contains(&signal) && handler_of(signal) == libc::SIG_DFL
        {
            before(signal).store(place, Ordering::Release);
            EVENTS_TO_WAIT.store(RUNTIME_EVENTS, Ordering::Release);
        } else {
            handle_crash(signal, place);
        }
    }
}

/// Whether [`handle_late_crashes`] has something to do.
pub(crate) fn has_late_crashes() -> bool {
    EVENTS_TO_WAIT.load(Ordering::Acquire) != 0
}

/// *Hook.* Takes over the crashes that Rust's runtime handles, once it does: the first allocation in `main`
/// comes later. Called by the first thread only; `false` if the caller must call it again at its next event.
pub(crate) fn handle_late_crashes() -> bool {
    let _errno = KeepErrno::new();
    let left = EVENTS_TO_WAIT.load(Ordering::Acquire);
    let is_early = OF_RUNTIME.into_iter().any(|signal| handler_of(signal) == libc::SIG_DFL);
    if is_early && left > 1 {
        EVENTS_TO_WAIT.store(left - 1, Ordering::Release);
        return false;
    }
    if left != 0 {
        EVENTS_TO_WAIT.store(0, Ordering::Release);
        OF_RUNTIME
            .into_iter()
            .for_each(|signal| handle_crash(signal, before(signal).load(Ordering::Acquire)));
    }
    true
}

/// Takes over a signal, whatever handles it. The action before is stored in `place`, which no handler uses
/// yet.
fn handle_crash(signal: c_int, place: *mut libc::sigaction) {
    let mut current = default_action();
    // SAFETY: the action is a local; the place was allocated for this and is never freed.
    unsafe {
        kernel_action(signal, ptr::null(), &raw mut current);
        if is_own(current.sa_sigaction) || current.sa_sigaction == libc::SIG_IGN {
            return;
        }
        place.write(current);
    }
    // NOTE: before the handler can run.
    before(signal).store(place, Ordering::Release);
    set_action(signal, &own_action(signal));
}

/// Where the action of a crash before the tracker's is.
pub(in crate::platform::os) fn before(signal: c_int) -> &'static AtomicPtr<libc::sigaction> {
    static NONE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
    let found = CRASHES.iter().zip(&BEFORE).find(|(crash, _)| **crash == signal);
    found.map_or(&NONE, |(_, before)| before)
}

/// The action of a crash before the tracker's; the default for other signals.
pub(in crate::platform::os) fn action_before(signal: c_int) -> libc::sigaction {
    let before = before(signal).load(Ordering::Acquire);
    // SAFETY: null, or an action that was stored before the handler was installed, and is never freed.
    unsafe { before.as_ref() }.map_or_else(default_action, |before| *before)
}

fn crash_handler() -> libc::sighandler_t {
    crashed as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

fn ending_handler() -> libc::sighandler_t {
    arrived as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

pub(in crate::platform::os) fn is_own(handler: libc::sighandler_t) -> bool {
    handler == crash_handler() || handler == ending_handler()
}

pub(in crate::platform::os) fn own_action(signal: c_int) -> libc::sigaction {
    let mut action = default_action();
    action.sa_sigaction = crash_handler();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    if ENDING.contains(&signal) {
        action.sa_sigaction = ending_handler();
        action.sa_flags |= libc::SA_NODEFER;
        // SAFETY: the set is a local. What C needs itself stays out of it.
        unsafe {
            libc::sigfillset(&raw mut action.sa_mask);
            ENDING.iter().for_each(|ending| {
                libc::sigdelset(&raw mut action.sa_mask, *ending);
            });
        }
    }
    action
}

pub(in crate::platform::os) fn default_action() -> libc::sigaction {
    // SAFETY: zeros are valid: the default action is 0.
    unsafe { mem::zeroed() }
}

/// The handler of crashes. It runs on the thread that has crashed, perhaps on a stack of some KiB, and waits
/// until another thread has made the report. What would have handled the signal does so then: a faulting
/// instruction faults again, and a signal that was sent is sent again.
extern "C" fn crashed(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeepErrno::new();
    if has_waiting_thread() && IS_DONE.load(Ordering::Acquire) == 0 {
        wait_for_report(signal);
    }
    if handler_of(signal) != crash_handler() {
        // The program has a handler of its own by now, which has called this one.
        return;
    }
    set_action(signal, &action_before(signal));
    // SAFETY: the kernel passes an information that is valid during the call.
    send_again(signal, unsafe { &*info }, context);
}

/// The handler of [`ENDING`]. It runs on any thread, perhaps inside the hook, and calls only what POSIX
/// allows there. The thread runs nothing more: it waits until another thread has made the report, and ends
/// the process.
extern "C" fn arrived(signal: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let _errno = KeepErrno::new();
    if handler_of(signal) != ending_handler() {
        // The program has a handler of its own by now, which has called this one: the signal does not end it.
        return;
    }
    if !has_waiting_thread() {
        return end_by(signal);
    }
    let time = now();
    let first = FIRST_AT.compare_exchange(0, time, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err_and(|first| time.saturating_sub(first) > PATIENCE) {
        return end_by(signal);
    }
    let Some(waits) = own_thread::get(&WAITS, &PLACE) else { return end_by(signal) };
    if waits.replace(true) {
        // This handler has interrupted itself, and waits already.
        return;
    }
    wait_for_report(signal);
    let first = FIRST.load(Ordering::Acquire) as c_int;
    if !ENDING.contains(&first) {
        // A thread that has crashed, or that calls `_exit`, ends the process now.
        wait(&IS_DONE, 1, PATIENCE);
    }
    end_by(if ENDING.contains(&first) { first } else { signal });
    waits.set(false);
}

/// Lets another thread make the report, unless one already does, and waits until it is made, but no longer
/// than [`HANDLER_TIMEOUT`].
fn wait_for_report(signal: c_int) {
    let begin = now();
    let is_free = |first: u32| matches!(first, 0 | LEAVE).then_some(signal as u32);
    if FIRST.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_free).is_ok() {
        wake_all(&FIRST);
    }
    while IS_DONE.load(Ordering::Acquire) == 0 {
        match HANDLER_TIMEOUT.saturating_sub(now().saturating_sub(begin)) {
            0 => return,
            left => wait(&IS_DONE, 0, left),
        }
    }
}

/// Ends the process as `_exit` does. Before that, waits until another thread has made the report, as after a
/// crash, if there is such a thread. Calls only what a signal handler may.
#[cfg(preload)]
pub extern "C" fn exit_after_report(status: c_int) -> ! {
    /// In the place of a signal: a thread is about to call `_exit`.
    const EXIT: c_int = -1;
    // NOTE: a child that shares the memory of its parent, after `vfork`, has no such thread.
    if has_waiting_thread() {
        wait_for_report(EXIT);
    } else {
        before_end();
    }
    end_process(status)
}

/// Whether a thread waits for the report in a handler, or before `_exit`: it may hold any lock.
pub(crate) fn is_report_awaited() -> bool {
    !matches!(FIRST.load(Ordering::Acquire), 0 | LEAVE)
}

/// Lets the threads that wait for the report end the process.
pub(crate) fn end_waiting() {
    IS_DONE.store(1, Ordering::Release);
    wake_all(&IS_DONE);
}

/// In the place of a signal: the thread that waits for one is to end.
const LEAVE: u32 = u32::MAX >> 1;

/// Makes the thread in [`wait_for_ending_signal`] return, without a signal.
pub(crate) fn dismiss_waiting_thread() {
    let _ = FIRST.compare_exchange(0, LEAVE, Ordering::AcqRel, Ordering::Relaxed);
    wake_all(&FIRST);
}

/// After [`dismiss_waiting_thread`]: returns whether the thread has returned, and another one is to wait.
pub(crate) fn keep_waiting_thread() -> bool {
    let kept = FIRST.compare_exchange(LEAVE, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    !kept && has_waiting_thread()
}

/// Waits until a signal has arrived that would have ended the process, or the process has crashed. Returns
/// `false` if the thread [is dismissed](dismiss_waiting_thread).
pub(crate) fn wait_for_ending_signal() -> bool {
    loop {
        match FIRST.load(Ordering::Acquire) {
            0 => wait(&FIRST, 0, u64::MAX >> 1),
            LEAVE => {
                let left = FIRST.compare_exchange(LEAVE, 0, Ordering::AcqRel, Ordering::Relaxed);
                if left.is_ok() {
                    return false;
                }
            }
            _ => return true,
        }
    }
}

/// Ends the process as `signal` does by default. Returns in the first process of a container, which no
/// signal ends by default.
fn end_by(signal: c_int) {
    set_action(signal, &default_action());
    // SAFETY: the set is a local that the call initialises.
    unsafe {
        let mut only = mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, ptr::null_mut());
        libc::raise(signal);
    }
}

fn handler_of(signal: c_int) -> libc::sighandler_t {
    let mut current = default_action();
    // SAFETY: the action is a local.
    unsafe { kernel_action(signal, ptr::null(), &raw mut current) };
    current.sa_sigaction
}

pub(in crate::platform::os) fn set_action(signal: c_int, action: &libc::sigaction) {
    // SAFETY: the action has a function of the required form, one of the system's values, or is what the
    // program has set.
    unsafe { kernel_action(signal, ptr::from_ref(action), ptr::null_mut()) };
}
