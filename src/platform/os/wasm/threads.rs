//! The one thread of a program.

use super::super::ThreadName;
use std::ffi::{CStr, c_void};
use std::io;
use std::time::Duration;

/// Bytes of stack for the tracker's own code on a thread of its own, of which there are none.
pub(crate) const STACK: usize = 1 << 20;

pub(crate) type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// # Errors
/// Always: a program has no second thread.
pub(crate) fn spawn(_body: Body, _argument: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs `body` on this thread: no other can be made.
pub(crate) fn run_on_new_thread<R: Send, F: FnOnce() -> R + Send>(_stack: usize, body: F) -> R {
    body()
}

pub(crate) fn has_own_threads() -> bool {
    false
}

pub(crate) fn wait_for_ends(_most: usize, _timeout: Duration) -> bool {
    true
}

pub(crate) fn forget_threads() {}

/// *Hook.* The number of the only thread.
pub(crate) fn thread_id() -> u32 {
    1
}

pub(crate) fn main_thread_of(_process: u32) -> u32 {
    thread_id()
}

pub(crate) fn is_thread_alive(id: u32) -> bool {
    id == thread_id()
}

/// Nothing says how long the thread has run.
pub(crate) fn processor_time_of(_id: u32) -> Option<Duration> {
    None
}

pub(crate) fn name_thread(_name: &CStr) {}

/// *Hook.* The name that a program's first thread has in Rust.
pub(crate) fn thread_name() -> ThreadName {
    *b"main\0\0\0\0\0\0\0\0\0\0\0\0"
}

pub(crate) fn thread_name_of(id: u32) -> Option<ThreadName> {
    is_thread_alive(id).then(thread_name)
}

/// *Hook.* The thread does not end.
pub(crate) fn on_thread_exit(_run: &'static extern "C" fn()) -> bool {
    true
}
