//! This process: its end, its signals, and its environment.

use std::ffi::{CStr, OsString, c_int, c_void};
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
/// wait for the next. What the tracker writes to raises none ([`raise_no_signals`], [`RaisesNone`]).
///
/// [`raise_no_signals`]: super::descriptors::raise_no_signals
/// [`RaisesNone`]: super::descriptors::RaisesNone
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

/// In the handler of a signal: what handles it now does so. That is a function, which is called; or the
/// signal is sent to this thread again, on which it is blocked until the handler returns.
///
/// NOTE: Rust's runtime knows a stack overflow by the address of the fault. A signal that is sent has no such
/// address. The system does not say whether a fault has raised the signal, or a process (`sendsig` of XNU).
pub(in crate::platform::os) fn send_again(
    signal: c_int,
    info: &libc::siginfo_t,
    context: *mut c_void,
) {
    type Handler = extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void);
    // SAFETY: zeros are a valid action, which the call replaces by a function of the program, or by a value
    // of the system that is none. A function without SA_SIGINFO takes the first argument only. The calling
    // thread exists.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal, ptr::null(), &raw mut action);
        if [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
            libc::pthread_kill(libc::pthread_self(), signal);
        } else {
            let handler = std::mem::transmute::<libc::sighandler_t, Handler>(action.sa_sigaction);
            handler(signal, info, context);
        }
    }
}
