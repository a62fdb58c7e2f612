//! The slots that the system keeps for each thread: keys of POSIX.

use std::ffi::c_void;
use std::ptr;

/// The number of no slot.
pub(in crate::platform::os) const NONE: u32 = u32::MAX;

/// A new slot. At the end of a thread, the system takes the value out of it and calls `keep`, in each of four
/// rounds (`_pthread_tsd_cleanup` of libpthread; without a function, it would only take it out).
///
/// NOTE: the system holds a lock of its own for the time of some instructions, in which it allocates nothing.
/// Only the first use of a value in the process comes here.
pub(in crate::platform::os) fn take(keep: extern "C" fn(*mut c_void)) -> Option<u32> {
    let mut key = 0;
    // SAFETY: the key is a local, and the function has the required form.
    let error = unsafe { libc::pthread_key_create(&raw mut key, Some(keep)) };
    u32::try_from(key).ok().filter(|_| error == 0)
}

/// Gives back a slot that nothing uses.
pub(in crate::platform::os) fn give_back(slot: u32) {
    // SAFETY: the key exists.
    unsafe { libc::pthread_key_delete(slot.into()) };
}

/// What a slot has for this thread; null for nothing.
pub(in crate::platform::os) fn value(slot: u32) -> *mut u8 {
    // SAFETY: the key exists.
    unsafe { libc::pthread_getspecific(slot.into()) }.cast()
}

pub(in crate::platform::os) fn set_value(slot: u32, value: *const u8) -> bool {
    // SAFETY: the key exists; the value is not dereferenced.
    unsafe { libc::pthread_setspecific(slot.into(), value.cast()) == 0 }
}

/// *Hook.* The same as [`value`], and null for [`NONE`].
#[inline(always)]
pub(in crate::platform::os) fn find(slot: u32) -> *const u8 {
    if slot == NONE { ptr::null() } else { value(slot) }
}
