//! The report before a signal ends the process.
//!
//! The handler of the signal only wakes a thread, because nothing else is allowed there. That thread ends the
//! recording, which writes the report, and then ends the process by the same signal. Until then, the program's threads run; but a
//! thread that has crashed waits in the handler, and ends the process itself.

use super::stop;
use crate::error::Error;
use crate::platform::os;
use crate::trace::write::ReentrancyGuard;
use std::ffi::c_void;
use std::ptr;

/// From now on, a signal that would end the process ends the recording first. Not a crash, if there is a watcher: it reports
/// without a handler in the process that has crashed, so the core file is as without the tracker.
///
/// # Errors
/// [`Error::ThreadNotStarted`]; the signals keep their actions then.
pub(super) fn prepare(has_watcher: bool) -> Result<(), Error> {
    os::take_crashes(!has_watcher);
    if !os::has_waiting_thread() {
        os::forget_signals();
        os::spawn(run, 0).map_err(|source| Error::ThreadNotStarted {
            thread: "the signals' thread".into(),
            source,
        })?;
    }
    os::handle_ending_signals();
    Ok(())
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger-sig");
    let signal = os::wait_for_ending_signal();
    stop::finish(None);
    match os::waits_for_report(signal) {
        true => os::end_waiting(),
        false => os::end_by(signal),
    }
    ptr::null_mut()
}
