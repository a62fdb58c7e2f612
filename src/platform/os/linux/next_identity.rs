//! The next library's functions that change the user, the groups and the namespaces of a process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! next {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        mod places {
            use super::*;
            $(
                #[expect(non_upper_case_globals, reason = "the name of C's function")]
                pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            )*
        }

        /// Looks all functions up: before `main` if possible, because that takes the loader's lock.
        pub(super) fn find_all() {
            let find = |place: &AtomicPtr<c_void>, name: &CStr| {
                // SAFETY: the name ends with a NUL.
                place.store(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }, Ordering::Release);
            };
            $(
                if let Ok(name) = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    find(&places::$name, name);
                }
            )*
        }

        $(
            /// # Safety
            /// That of C's function.
            pub(crate) unsafe fn $name($($argument: $type),*) -> c_int {
                let mut next = places::$name.load(Ordering::Acquire);
                if next.is_null() {
                    find_all();
                    next = places::$name.load(Ordering::Acquire);
                }
                if next.is_null() {
                    // SAFETY: every thread has an `errno`.
                    unsafe { *libc::__errno_location() = libc::ENOSYS };
                    return -1;
                }
                // SAFETY: the function has this type; the caller's promise.
                unsafe {
                    transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(next)($($argument),*)
                }
            }
        )*
    };
}

next! {
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
    unshare(flags: c_int);
    setns(file: c_int, kinds: c_int);
}

/// The namespaces of which a process can be in another one only with one thread: the flags for `unshare`, and the kinds for `setns`,
/// which also wants that no thread shares the current folder.
pub(crate) const UNSHARE_ALONE: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;
pub(crate) const ENTER_ALONE: c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWTIME;

/// The namespaces of children. A thread that has left them can make no other thread.
pub(crate) const OF_CHILDREN: c_int = libc::CLONE_NEWPID | libc::CLONE_NEWTIME;

/// The kind of namespace that an open file is; 0 if it is none, or not known.
pub(crate) fn kind_of_namespace(file: c_int) -> c_int {
    const NS_GET_NSTYPE: libc::c_ulong = 0xb703;
    // SAFETY: the request has no argument.
    unsafe { libc::ioctl(file, NS_GET_NSTYPE) }.max(0)
}
