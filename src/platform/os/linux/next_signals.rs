//! C's functions that set what handles a signal, as the library of `preload/` defines them.
//!
//! The program is shown what it has set itself: the default action where the kernel has the tracker's
//! handler. So an interpreter that leaves a signal alone which has a handler already takes it, as it does
//! without the tracker. Where the program sets the default action, the tracker's handler comes back. There is
//! no table of what is shown: the child of a `vfork` would share it.

use super::super::unix::signals::{
    CRASHES, ENDING, IS_DONE, action_before, before, has_waiting_thread, is_own, own_action,
    set_action,
};
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;

static SIGACTION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SIGNAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SYSV_SIGNAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SIGSET: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static ALL: [(&AtomicPtr<c_void>, &CStr); 4] = [
    (&SIGACTION, c"sigaction"),
    (&SIGNAL, c"signal"),
    (&SYSV_SIGNAL, c"sysv_signal"),
    (&SIGSET, c"sigset"),
];

/// Looks the next functions up.
///
/// NOTE: before `main`, because the lookup may not be made in a handler, where these functions may be called.
pub(super) fn find_all() {
    for (place, name) in ALL {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        place.store(found, Ordering::Release);
    }
}

/// The next function; null if there is none.
fn next(place: &AtomicPtr<c_void>) -> *mut c_void {
    if place.load(Ordering::Acquire).is_null() {
        // The constructor of another library calls it before this one has begun.
        find_all();
    }
    place.load(Ordering::Acquire)
}

/// The next library's function.
///
/// # Safety
/// That of C's function.
pub(in crate::platform::os) unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let next = next(&SIGACTION);
    if next.is_null() {
        return -1;
    }
    // SAFETY: the function has this type; the caller's promise.
    unsafe { transmute::<*mut c_void, Sigaction>(next)(signal, new, old) }
}

/// What the program is shown of an action: not the tracker's.
fn as_shown(signal: c_int, action: libc::sigaction) -> libc::sigaction {
    if is_own(action.sa_sigaction) { action_before(signal) } else { action }
}

/// The program has set the default action of a signal: the tracker's comes back.
///
/// NOTE: not in the child of a `vfork`, which shares the memory of its parent and has no thread that waits.
fn take_again(signal: c_int) {
    let is_taken = ENDING.contains(&signal) || CRASHES.contains(&signal);
    if is_taken && has_waiting_thread() && IS_DONE.load(Ordering::Acquire) == 0 {
        before(signal).store(ptr::null_mut(), Ordering::Release);
        set_action(signal, &own_action(signal));
    }
}

/// What the program calls.
pub mod shown {
    use super::*;
    use super::{as_shown, take_again};
    use crate::platform::os::unix::signals::default_action;

    /// # Safety
    /// That of C's function, here and below.
    pub unsafe fn sigaction(signal: c_int, new: *const c_void, old: *mut c_void) -> c_int {
        let (new, old) = (new.cast::<libc::sigaction>(), old.cast::<libc::sigaction>());
        // NOTE: read before the call. Both may be the same.
        // SAFETY: the caller's promise, here and below.
        let is_default =
            unsafe { new.as_ref() }.is_some_and(|new| new.sa_sigaction == libc::SIG_DFL);
        // SAFETY: as above.
        let result = unsafe { super::sigaction(signal, new, old) };
        if result == 0 {
            // SAFETY: as above.
            if let Some(old) = unsafe { old.as_mut() } {
                *old = as_shown(signal, *old);
            }
            if is_default {
                take_again(signal);
            }
        }
        result
    }

    /// The functions that take a handler and return the one before.
    unsafe fn of_handler(
        place: &AtomicPtr<c_void>,
        signal: c_int,
        handler: libc::sighandler_t,
    ) -> libc::sighandler_t {
        let next = next(place);
        if next.is_null() {
            return libc::SIG_ERR;
        }
        let mut old = default_action();
        // SAFETY: the function has this type; the caller's promise.
        old.sa_sigaction = unsafe { transmute::<*mut c_void, Signal>(next)(signal, handler) };
        let old = as_shown(signal, old).sa_sigaction;
        if handler == libc::SIG_DFL {
            take_again(signal);
        }
        old
    }

    macro_rules! of_handler {
        ($($name:ident: $place:ident;)*) => {
            $(
                /// # Safety
                /// As above.
                pub unsafe fn $name(signal: c_int, handler: usize) -> usize {
                    // SAFETY: the caller's promise.
                    unsafe { of_handler(&$place, signal, handler) }
                }
            )*
        };
    }

    of_handler! {
        signal: SIGNAL;
        sysv_signal: SYSV_SIGNAL;
        sigset: SIGSET;
    }
}
