//! How threads wait for each other.

use super::KeepErrno;
use std::ffi::c_int;
use std::sync::atomic::AtomicU32;

/// *Hook.* Sleeps until woken, at most `nanos` nanoseconds; returns at once if `*word != expected`.
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
