//! How a call of the program enters the tracker's code: on which thread it runs, and which memory
//! is the program's and which is the tracker's.
//!
//! A recording starts, flushes and ends on a helper thread, so that blocks which the tracker keeps are
//! not between the program's, and so that the calling thread's allocator does not join the small blocks
//! that the thread has freed.

use crate::error::{Error, ErrorKind};
use crate::platform::os;
use crate::trace::write::{ReentrancyGuard, reserve, state, untracked};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs what the program asks for, with the guard set, on a helper thread.
pub(crate) fn request<T: Send>(body: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    clone_for_caller(untracked(|| on_helper_thread(body)))
}

/// Runs the tracker's own code on a thread that exists only for this call, so that blocks which the
/// tracker keeps are not between the program's blocks. A heap can be very sensitive to that: a JSON
/// parse that frees millions of blocks took 1.3 times as long with two of the tracker's blocks at
/// its start.
///
/// The thread has the tracker's own table of descriptors.
pub(crate) fn on_helper_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    run_on(Helper::Own, body)
}

/// The same before `main` and in the child of a fork, where the process has no other thread: on the thread
/// that keeps the table, which no other one needs meanwhile. PERF: that is one thread less to make and to
/// wait for.
pub(crate) fn on_table_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    run_on(Helper::TableThread, body)
}

/// The same, but the thread has the program's table of descriptors if nothing is being recorded with another
/// one: for a recording that has no thread.
pub(crate) fn on_plain_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    run_on(Helper::Plain, body)
}

/// The thread on which the tracker's own code runs.
#[derive(PartialEq, Eq)]
enum Helper {
    Own,
    Plain,
    TableThread,
}

fn run_on<R: Send>(helper: Helper, body: impl FnOnce() -> R + Send) -> R {
    // PERF: the barrier is registered here, while the process may still have only one thread. With
    // more threads the system takes 10 ms for it. Later calls return at once.
    os::register_barrier();
    reserve::prepare();
    let _table = os::OwnTable::enter(helper != Helper::Plain, serve);
    let body = || {
        let result = untracked(|| catch_unwind(AssertUnwindSafe(body)));
        os::leave_streams();
        result
    };
    let result = match helper {
        Helper::TableThread => os::run_on_table_thread(body),
        Helper::Own | Helper::Plain => os::run_on_new_thread(os::STACK, body),
    };
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// What the two threads do that the tracker's table needs.
extern "C" fn serve(argument: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::serve(argument.addr());
    std::ptr::null_mut()
}

/// A copy outside the guard of what the program drops. Not with the guard set.
pub(crate) fn for_caller<T: Clone>(ours: T) -> T {
    let copy = ours.clone();
    untracked(move || drop(ours));
    copy
}

/// The same of an error.
pub(crate) fn clone_for_caller<T>(result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(for_caller)
}

/// Refuses a call in the child of a fork, which must not touch the recording: the child has no
/// worker, and a thread that does not exist in it may hold a lock.
///
/// # Errors
/// [`ErrorKind::ForkedChild`].
pub(crate) fn refuse_forked() -> Result<(), Error> {
    if !state::is_forked() {
        return Ok(());
    }
    let sentence =
        "this process was forked from one that was being tracked, so it cannot be tracked itself";
    Err(Error::new(ErrorKind::ForkedChild, sentence))
}
