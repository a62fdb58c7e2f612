//! This process: its end, its signals, and its environment.

use std::ffi::{CStr, OsString, c_int};
use std::os::unix::ffi::OsStringExt;
use std::ptr;

/// Whether [`barrier_on_all_threads`] works in this process: there is no such call here.
pub(crate) fn register_barrier() -> bool {
    false
}

/// Not called, since [`register_barrier`] says so.
pub(crate) fn barrier_on_all_threads() {}

/// The C library has no such function.
pub(crate) fn at_quick_exit(_function: extern "C" fn()) {}

/// Whether the tracker's threads are all that is left is not known here: a program whose first thread ends by
/// `pthread_exit` ends with the recording's last thread.
pub(crate) fn left_alone() -> Option<c_int> {
    None
}

pub(crate) fn forget_ends() {}

/// Ends the process without anything that runs at exit.
pub(crate) fn end_process(status: c_int) -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(status) }
}

/// Processes have no limit of their memory here that the tracker could ask for.
pub(crate) fn memory_limit() -> Option<u64> {
    None
}

/// An environment variable, unless the program runs with more rights than its user.
pub(crate) fn secure_env(name: &CStr) -> Option<OsString> {
    // SAFETY: the result is a NUL-terminated string or null; it is copied at once.
    unsafe {
        if libc::issetugid() != 0 {
            return None;
        }
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| OsString::from_vec(CStr::from_ptr(value).to_bytes().to_vec()))
    }
}

/// Takes away a signal of `set`, all of which the calling thread blocks, if one has arrived.
///
/// NOTE: the system has no such call with a time limit. XNU sends a signal of a write to the process, so a
/// thread of the program that begins to accept it between the two calls would take it, and this one would
/// wait for the next. The tracker's own descriptors [raise none](super::descriptors::raise_no_signals), so
/// that is about the program's standard error only.
pub(in crate::platform::os) fn discard_pending(set: &libc::sigset_t) {
    // SAFETY: the sets and the number are locals, or only read.
    unsafe {
        let (mut pending, mut taken) = (0, 0);
        libc::sigpending(&raw mut pending);
        // NOTE: a set is a number with a bit for each signal.
        if pending & set != 0 {
            libc::sigwait(ptr::from_ref(set), &raw mut taken);
        }
    }
}

/// In the handler of a signal: sends it to this thread again. It is blocked until the handler returns.
///
/// NOTE: also after a fault, which would occur again by itself: what the system says of these signals does
/// not tell a fault from a signal that was sent (`sendsig` of XNU).
pub(in crate::platform::os) fn send_again(signal: c_int, _info: &libc::siginfo_t) {
    // SAFETY: the calling thread exists.
    unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
}
