//! C's functions that change the user, the groups and the namespaces of a process, without the tracker's
//! threads.
#![expect(unsafe_code, reason = "the functions of C")]

use crate::ledger::lifecycle::pause::Paused;
use crate::platform::os::next_identity::{
    self as next, ENTER_ALONE, OF_CHILDREN, UNSHARE_ALONE, kind_of_namespace,
};
use std::ffi::{c_char, c_int};

/// Defines the functions in the program.
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_identity {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        const _: () = {
            $(
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
                    // SAFETY: the caller makes the promise of C's function.
                    unsafe { $crate::__private::c_identity::$name($($argument),*) }
                }
            )*
        };
    };
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// # Safety
            /// That of C's function.
            pub unsafe fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller's promise.
                without_threads(|| unsafe { next::$name($($argument),*) })
            }
        )*
    };
}

functions! {
    setuid(id: u32);
    setgid(id: u32);
    seteuid(id: u32);
    setegid(id: u32);
    setreuid(real: u32, effective: u32);
    setregid(real: u32, effective: u32);
    setresuid(real: u32, effective: u32, saved: u32);
    setresgid(real: u32, effective: u32, saved: u32);
    setgroups(count: usize, groups: *const u32);
    initgroups(user: *const c_char, group: u32);
}

fn without_threads<R>(call: impl FnOnce() -> R) -> R {
    let _paused = Paused::new();
    call()
}

/// # Safety
/// That of C's function.
pub unsafe fn unshare(flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    leave(flags, flags & UNSHARE_ALONE != 0, |flags| unsafe { next::unshare(flags) })
}

/// # Safety
/// That of C's function.
pub unsafe fn setns(file: c_int, kinds: c_int) -> c_int {
    let all = if kinds == 0 { kind_of_namespace(file) } else { kinds };
    if all & ENTER_ALONE == 0 {
        // SAFETY: the caller's promise, here and below.
        return unsafe { next::setns(file, kinds) };
    }
    // SAFETY: as above.
    leave(all, true, |kinds| unsafe { next::setns(file, kinds) })
}

/// Calls `change` with `flags`; `alone` if that needs a process of one thread.
///
/// NOTE: in two steps, because between them the tracker's threads begin again, which they cannot after the
/// second.
fn leave(flags: c_int, alone: bool, change: impl Fn(c_int) -> c_int) -> c_int {
    let (first, second) = (flags & !OF_CHILDREN, flags & OF_CHILDREN);
    if !alone {
        return change(flags);
    }
    if first == 0 || second == 0 {
        return without_threads(|| change(flags));
    }
    match without_threads(|| change(first)) {
        0 => change(second),
        failed => failed,
    }
}
