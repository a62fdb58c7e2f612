//! Functions of C in the next library that the program or library with the tracker also defines.

/// Defines functions that call the next library's of the same names, which return -1 if they fail, and
/// `find_all`.
macro_rules! next_functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        mod places {
            use std::ffi::c_void;
            use std::ptr;
            use std::sync::atomic::AtomicPtr;

            $(
                #[expect(non_upper_case_globals, reason = "the name of C's function")]
                pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            )*
        }

        /// Looks all functions up: before `main` if possible, because that takes the loader's lock.
        pub(super) fn find_all() {
            use std::ffi::{CStr, c_void};
            use std::sync::atomic::{AtomicPtr, Ordering};

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
            pub(crate) unsafe fn $name($($argument: $type),*) -> std::ffi::c_int {
                use std::ffi::{c_int, c_void};
                use std::mem::transmute;
                use std::sync::atomic::Ordering;

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

pub(super) use next_functions;
