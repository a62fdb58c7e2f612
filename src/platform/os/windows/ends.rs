//! Ends from outside (Ctrl-C, a console that closes) and crashes. They first wake a thread of the tracker,
//! and wait for its report.

use super::{now, thread_id, wait, wake_all};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;
use windows_sys::Win32::System::Diagnostics::Debug::{
    EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS, SetUnhandledExceptionFilter,
};

/// The longest time for which a thread waits for the report. It can hold a lock that the report needs, as
/// within an allocator. When a console is closed, the system ends the process after 5 s anyway.
const REPORT_TIMEOUT: u64 = 30_000_000_000;

/// The states of [`FIRST`]: nothing has arrived; the thread that waits is to end; something has arrived.
const NOTHING: u32 = 0;
const LEAVE: u32 = 1;
const ARRIVED: u32 = 2;

static FIRST: AtomicU32 = AtomicU32::new(NOTHING);

/// Whether the threads that wait for the report need not wait any more.
static IS_DONE: AtomicU32 = AtomicU32::new(0);

/// Whether this process has a thread in [`wait_for_ending_signal`], and its id.
static HAS_WAITING: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicU32 = AtomicU32::new(0);

/// The filter of crashes before the tracker's; 0 for none.
static FILTER_BEFORE: AtomicUsize = AtomicUsize::new(0);

type Filter = unsafe extern "system" fn(*const EXCEPTION_POINTERS) -> i32;

/// Whether this process has a thread that acts upon ends.
pub(crate) fn has_waiting_thread() -> bool {
    HAS_WAITING.load(Ordering::Acquire)
}

pub(crate) fn forget_signals() {
    IS_DONE.store(0, Ordering::Relaxed);
    FIRST.store(NOTHING, Ordering::Release);
}

/// From now on, Ctrl-C, Ctrl-Break, the end of the console or the session, and a crash that nothing handles
/// wake the thread in [`wait_for_ending_signal`], or one that gets there, and wait for it.
///
/// NOTE: the system calls the last handler of a console first, so a program that handles Ctrl-C itself, from
/// `main` on, is asked before a recording that has begun before `main`.
pub(crate) fn handle_ending_signals() {
    if HAS_WAITING.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the functions live as long as the program.
    unsafe {
        SetConsoleCtrlHandler(Some(console_ends), 1);
        let before = SetUnhandledExceptionFilter(Some(crashed));
        FILTER_BEFORE.store(before.map_or(0, |it| it as usize), Ordering::Release);
    }
}

/// On a thread that the system has made for this. The next handler ends the process.
unsafe extern "system" fn console_ends(_: u32) -> i32 {
    wait_for_report();
    0
}

/// On the thread that has crashed, where nothing has handled that.
unsafe extern "system" fn crashed(info: *const EXCEPTION_POINTERS) -> i32 {
    // NOTE: a crash of the thread that makes the report must not wait for it.
    if WAITING.load(Ordering::Acquire) != thread_id() {
        wait_for_report();
    }
    match FILTER_BEFORE.load(Ordering::Acquire) {
        0 => EXCEPTION_CONTINUE_SEARCH,
        // SAFETY: the system has said that this is the filter before.
        before => unsafe { transmute::<usize, Filter>(before)(info) },
    }
}

/// Lets another thread make the report, unless one already does, and waits until it is made, but no longer
/// than [`REPORT_TIMEOUT`].
fn wait_for_report() {
    let begin = now();
    let arrives = |first: u32| (first != ARRIVED).then_some(ARRIVED);
    if FIRST.fetch_update(Ordering::AcqRel, Ordering::Relaxed, arrives).is_ok() {
        wake_all(&FIRST);
    }
    while IS_DONE.load(Ordering::Acquire) == 0 {
        match REPORT_TIMEOUT.saturating_sub(now().saturating_sub(begin)) {
            0 => return,
            left => wait(&IS_DONE, 0, left),
        }
    }
}

/// Whether a thread waits for the report: it may hold any lock.
pub(crate) fn is_report_awaited() -> bool {
    FIRST.load(Ordering::Acquire) == ARRIVED
}

/// Lets the threads that wait for the report end the process.
pub(crate) fn end_waiting() {
    IS_DONE.store(1, Ordering::Release);
    wake_all(&IS_DONE);
}

/// Makes the thread in [`wait_for_ending_signal`] return, without an end.
pub(crate) fn dismiss_waiting_thread() {
    let _ = FIRST.compare_exchange(NOTHING, LEAVE, Ordering::AcqRel, Ordering::Relaxed);
    wake_all(&FIRST);
}

/// After [`dismiss_waiting_thread`]: returns whether the thread has returned, and another one is to wait.
pub(crate) fn keep_waiting_thread() -> bool {
    let kept = FIRST.compare_exchange(LEAVE, NOTHING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    !kept && has_waiting_thread()
}

/// Waits until something has arrived that ends the process. Returns `false` if the thread
/// [is dismissed](dismiss_waiting_thread).
pub(crate) fn wait_for_ending_signal() -> bool {
    WAITING.store(thread_id(), Ordering::Release);
    loop {
        match FIRST.load(Ordering::Acquire) {
            NOTHING => wait(&FIRST, NOTHING, u64::MAX),
            LEAVE => {
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                if FIRST.compare_exchange(LEAVE, NOTHING, success, failure).is_ok() {
                    return false;
                }
            }
            _ => return true,
        }
    }
}

/// Rust's runtime takes over no crash in a way that must be waited for.
pub(crate) fn has_late_crashes() -> bool {
    false
}

pub(crate) fn handle_late_crashes() -> bool {
    true
}
