//! The report before a signal ends the process, in a recording that has no watcher.
//!
//! The handler of the signal only wakes a thread, because nothing else is allowed there, and waits. That
//! thread ends the recording, which writes the report. Then the thread that got the signal ends the process
//! by it, or crashes as it would have. So does one that calls `_exit`, in a program that has the library of
//! `preload/`, which takes its place. The program's other threads run until then: one that is stopped
//! could hold a lock that the report needs.

use crate::error::{self, Error};
use crate::ledger::lifecycle::stop;
use crate::platform::os;
use crate::trace::write::ReentrancyGuard;
use std::ffi::c_void;
use std::ptr;

/// From now on, a signal that would end the process, or a crash, ends the recording first. Not for a
/// recording that has a watcher, which reports without a handler in the process: so signals mean what the
/// program says.
///
/// # Errors
/// `ErrorKind::ThreadNotStarted`; the signals keep their actions then.
pub(crate) fn prepare() -> Result<(), Error> {
    if !os::has_waiting_thread() {
        os::forget_signals();
        os::spawn(run, 0)
            .map_err(|source| error::thread_not_started("the signals' thread", source))?;
    }
    os::handle_ending_signals();
    Ok(())
}

/// Ends the thread for a moment.
pub(crate) fn dismiss() {
    if os::has_waiting_thread() {
        os::dismiss_waiting_thread();
    }
}

pub(crate) fn start_again() {
    if os::keep_waiting_thread() {
        let _ = os::spawn(run, 0);
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger-sig");
    if !os::wait_for_ending_signal() {
        return ptr::null_mut();
    }
    stop::finish(None);
    os::end_waiting();
    ptr::null_mut()
}
