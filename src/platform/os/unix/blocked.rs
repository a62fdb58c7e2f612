//! Signals that are blocked while the tracker's code runs on a thread.

use super::process::KeepErrno;
use std::ffi::c_int;
use std::ptr;

/// Blocks `SIGPIPE` and `SIGXFSZ` on the calling thread until dropped, and discards the signals
/// that the tracker's writes raised meanwhile, because those would end the program.
pub(crate) struct BlockedSignals {
    before: libc::sigset_t,
    pending: libc::sigset_t,
}

/// Blocks all signals on the calling thread, and keeps its `errno`, until dropped.
pub(crate) struct AllBlocked {
    before: libc::sigset_t,
    _errno: KeepErrno,
}

impl AllBlocked {
    pub(crate) fn new() -> Self {
        let errno = KeepErrno::new();
        // SAFETY: the sets are local and initialised by the calls.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before, _errno: errno }
        }
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is local.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

const OF_WRITES: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

impl BlockedSignals {
    pub(crate) fn new() -> Self {
        // SAFETY: the sets are local and initialised by the calls.
        unsafe {
            let (mut ours, mut before, mut pending) =
                (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut ours);
            for signal in OF_WRITES {
                libc::sigaddset(&raw mut ours, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ours, &raw mut before);
            libc::sigpending(&raw mut pending);
            Self { before, pending }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the sets are local, and the signals are blocked.
        unsafe {
            for signal in OF_WRITES {
                if libc::sigismember(&raw const self.pending, signal) == 1 {
                    continue;
                }
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, signal);
                super::super::discard_pending(&set);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}
