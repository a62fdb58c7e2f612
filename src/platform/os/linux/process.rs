//! This process: how its threads wait for each other and who they are, and its environment.

use super::super::ThreadName;
use super::super::unix::process::errno;
use super::{KeepErrno, process_id};
use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;

/// *Hook.* Sleeps until woken, at most `nanos` nanoseconds; returns at once if `*word != expected`.
#[inline]
pub(crate) fn wait(word: &AtomicU32, expected: u32, nanos: u64) {
    let _errno = KeepErrno::new();
    let timeout = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as _,
        tv_nsec: (nanos % 1_000_000_000) as _,
    };
    // SAFETY: the word outlives the call, the timeout is read only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const timeout,
        )
    };
}

/// *Hook.* Wakes all threads that sleep on `word`.
#[inline]
pub(crate) fn wake_all(word: &AtomicU32) {
    let _errno = KeepErrno::new();
    // SAFETY: waking takes the address only as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            c_int::MAX,
        )
    };
}

const MEMBARRIER_PRIVATE_EXPEDITED: c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

/// Whether [`barrier_on_all_threads`] works in this process. Must be called once before the barrier
/// is used.
pub(crate) fn register_barrier() -> bool {
    // SAFETY: registers an intent, touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 }
}

/// Makes every running thread of the process pass a full memory barrier.
pub(crate) fn barrier_on_all_threads() {
    // SAFETY: a barrier touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) };
}

/// *Hook.* The kernel's id of the calling thread.
#[inline]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// *Hook.* The name of the calling thread.
pub(crate) fn thread_name() -> ThreadName {
    let _errno = KeepErrno::new();
    let mut name = [0; 16];
    // SAFETY: the call writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// The name of another thread of this process; `None` if the thread has ended.
pub(crate) fn thread_name_of(id: u32) -> Option<ThreadName> {
    let text = std::fs::read(format!("/proc/self/task/{id}/comm")).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let mut name = [0; 16];
    let size = text.len().min(15);
    name.get_mut(..size)?.copy_from_slice(text.get(..size)?);
    Some(name)
}

/// In the handler of a signal: sends it to this thread again, if it was sent.
///
/// NOTE: not by `raise`. The core file, and a handler, say who has sent the signal. It is blocked until the
/// handler returns, so the core file has the registers from before it, too.
#[inline]
pub(in crate::platform::os) fn send_again(
    signal: c_int,
    info: &libc::siginfo_t,
    _context: *mut c_void,
) {
    if info.si_code <= 0 {
        let (process, thread, info) = (process_id(), thread_id(), ptr::from_ref(info));
        // SAFETY: the information is only read.
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) };
    }
}

/// Takes away a signal of `set`, all of which the calling thread blocks, if one has arrived.
pub(in crate::platform::os) fn discard_pending(set: &libc::sigset_t) {
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the timeout are only read; the timeout is zero.
    unsafe { libc::sigtimedwait(ptr::from_ref(set), ptr::null_mut(), &raw const none) };
}

/// Registers a function that the system calls when the process exits by `quick_exit`.
pub(crate) fn at_quick_exit(function: extern "C" fn()) {
    unsafe extern "C" {
        fn at_quick_exit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: the function lives as long as the program.
    unsafe { at_quick_exit(function) };
}

/// Whether this process has a thread with this id.
#[inline]
pub(crate) fn is_thread_alive(id: u32) -> bool {
    // SAFETY: signal 0 is never delivered; the location is valid for the calling thread.
    // NOTE: not by `io::Error`, which has a destructor that may panic: the end of a thread asks, too.
    unsafe {
        let sent = libc::syscall(libc::SYS_tgkill, process_id(), id, 0);
        sent == 0 || *errno() != libc::ESRCH
    }
}

/// Registers a function that the system calls in the child of every fork.
#[cfg(redirects)]
pub(crate) fn in_children(child: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// An environment variable, unless the program runs with more rights than its user.
pub(crate) fn secure_env(name: &CStr) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt;
    // SAFETY: the result is a NUL-terminated string or null; it is copied at once.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        #[cfg(redirects)]
        if value.is_null() {
            return super::again::setting(name).map(|value| OsString::from_vec(value.to_vec()));
        }
        (!value.is_null()).then(|| OsString::from_vec(CStr::from_ptr(value).to_bytes().to_vec()))
    }
}
