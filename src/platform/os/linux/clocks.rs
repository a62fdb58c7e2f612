//! The system's clocks.
//!
//! By the function that the kernel maps into each process: C's may be another library's, which allocates, or
//! has another time.

use super::objects;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Read = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

static READ: AtomicPtr<c_void> = AtomicPtr::new(find_and_read as Read as *mut c_void);

const NAME: &CStr = match cfg!(target_arch = "aarch64") {
    true => c"__kernel_clock_gettime",
    false => c"__vdso_clock_gettime",
};

unsafe extern "C" fn find_and_read(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let found = objects::of_kernel().and_then(|kernel| kernel.defined(NAME));
    let found = found.map(ptr::with_exposed_provenance_mut);
    READ.store(found.unwrap_or(by_system_call as Read as *mut c_void), Ordering::Relaxed);
    // SAFETY: the caller makes the same promise.
    unsafe { read_by(READ.load(Ordering::Relaxed), clock, time) }
}

unsafe extern "C" fn by_system_call(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller makes the same promise.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int }
}

/// # Safety
/// `read` is a function of this type, and `time` is valid for writing.
#[inline(always)]
unsafe fn read_by(read: *mut c_void, clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { transmute::<*mut c_void, Read>(read)(clock, time) }
}

/// *Hook.* What a clock says; `None` if there is no such clock.
#[inline]
pub(super) fn read(clock: libc::clockid_t) -> Option<libc::timespec> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the functions have this type.
    let error = unsafe { read_by(READ.load(Ordering::Relaxed), clock, &raw mut time) };
    (error == 0).then_some(time)
}

/// *Hook.* Nanoseconds of the monotonic clock.
#[inline]
pub(crate) fn now() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

#[inline]
pub(super) fn read_clock(clock: libc::clockid_t) -> u64 {
    let Some(time) = read(clock) else { return 0 };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_the_c_library_agree_about_each_clock() {
        assert!(objects::of_kernel().is_none_or(|kernel| kernel.defined(NAME).is_some()));
        let c_library = |clock| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `time` is valid for writing.
            assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
            time
        };
        let nanoseconds = |time: libc::timespec| {
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        /// Clocks may be set meanwhile.
        const TOLERANCE: i128 = 1_000_000_000;
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME] {
            let before = nanoseconds(c_library(clock));
            let kernel = nanoseconds(read(clock).unwrap());
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `time` is valid for writing.
            assert_eq!(unsafe { by_system_call(clock, &raw mut time) }, 0);
            let after = nanoseconds(c_library(clock));
            for found in [kernel, nanoseconds(time)] {
                let is_between = (before - TOLERANCE..=after + TOLERANCE).contains(&found);
                assert!(is_between, "clock {clock}: {before}, {found}, {after}");
            }
        }
        assert!(read(99).is_none());
    }
}
