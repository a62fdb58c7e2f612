//! How threads wait for each other.
//!
//! The system's functions for that are in macOS since 14.4 (`os/os_sync_wait_on_address.h`). They are looked
//! up before `main`: a program that is linked to them would not start on an older system.

use super::super::unix::process::errno;
use super::{KeepErrno, now};
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

type Wait = unsafe extern "C" fn(*mut c_void, u64, usize, u32, u32, u64) -> c_int;
type WakeAll = unsafe extern "C" fn(*mut c_void, usize, u32) -> c_int;

static WAIT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static WAKE_ALL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The longest wait of one call, in nanoseconds. A caller that waits longer calls again, so a thread that has
/// begun to wait before the functions were found is never late by more than this.
const LONGEST: u64 = 1_000_000_000;

/// The shortest and the longest time between two looks at a word, in nanoseconds, where the system has no
/// such functions.
const PAUSES: (u64, u64) = (20_000, 4_000_000);

/// Looks both functions up, or neither is used.
pub(super) fn find_functions() {
    let find = |name: &CStr| {
        // SAFETY: the name ends with a NUL.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let wait = find(c"os_sync_wait_on_address_with_timeout");
    let wake_all = find(c"os_sync_wake_by_address_all");
    if !wait.is_null() && !wake_all.is_null() {
        WAKE_ALL.store(wake_all, Ordering::Release);
        WAIT.store(wait, Ordering::Release);
    }
}

/// *Hook.* Sleeps until woken, at most `nanos` nanoseconds; returns at once if `*word != expected`, and may
/// return early.
pub(crate) fn wait(word: &AtomicU32, expected: u32, nanos: u64) {
    let _errno = KeepErrno::new();
    let nanos = nanos.min(LONGEST);
    let function = WAIT.load(Ordering::Acquire);
    if function.is_null() {
        return look_until(word, expected, nanos);
    }
    // NOTE: a time of 0 is an error.
    let (flags, clock) = (libc::OS_SYNC_WAIT_ON_ADDRESS_NONE, libc::OS_CLOCK_MACH_ABSOLUTE_TIME);
    // SAFETY: the function has this type; the word outlives the call and has this size.
    let failed = unsafe {
        let function = transmute::<*mut c_void, Wait>(function);
        function(word.as_ptr().cast(), expected.into(), 4, flags, clock, nanos.max(1)) < 0
    };
    // SAFETY: the location is valid for the calling thread.
    if failed && ![libc::ETIMEDOUT, libc::EINTR, libc::EFAULT].contains(unsafe { &*errno() }) {
        // The system refuses it: the caller would call again at once, and for ever.
        look_until(word, expected, nanos);
    }
}

/// Looks at the word from time to time, until it has another value.
fn look_until(word: &AtomicU32, expected: u32, nanos: u64) {
    let (begin, (mut pause, longest)) = (now(), PAUSES);
    while word.load(Ordering::Acquire) == expected {
        let left = nanos.saturating_sub(now().saturating_sub(begin));
        if left == 0 {
            return;
        }
        let time = libc::timespec { tv_sec: 0, tv_nsec: pause.min(left) as _ };
        // SAFETY: the time is only read. A signal ends it early.
        unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
        pause = (2 * pause).min(longest);
    }
}

/// *Hook.* Wakes all threads that sleep on `word`. Those that look from time to time need nothing.
pub(crate) fn wake_all(word: &AtomicU32) {
    let _errno = KeepErrno::new();
    let function = WAKE_ALL.load(Ordering::Acquire);
    if !function.is_null() {
        // SAFETY: the function has this type; waking takes the address only as a key.
        unsafe {
            let function = transmute::<*mut c_void, WakeAll>(function);
            function(word.as_ptr().cast(), 4, libc::OS_SYNC_WAKE_BY_ADDRESS_NONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_another_value_or_after_its_time() {
        let word = AtomicU32::new(0);
        let begin = now();
        look_until(&word, 0, 3_000_000);
        wait(&word, 0, 3_000_000);
        assert!(now() - begin >= 3_000_000);
        look_until(&word, 1, u64::MAX);
        wait(&word, 1, u64::MAX);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, u64::MAX);
                }
            });
            word.store(1, Ordering::Release);
            wake_all(&word);
        });
    }
}
