//! This process: its errors, its end, its forks and its environment.

use std::ffi::{CStr, c_char, c_int};

/// Where the error number of the calling thread is.
#[inline(always)]
pub(crate) fn errno() -> *mut c_int {
    // SAFETY: always allowed.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::__errno_location()
    }
    // SAFETY: as above.
    #[cfg(target_os = "macos")]
    unsafe {
        libc::__error()
    }
}

/// Restores `errno` when dropped.
pub(crate) struct KeepErrno(c_int);

impl KeepErrno {
    #[inline]
    pub(crate) fn new() -> Self {
        // SAFETY: the location is valid for the calling thread.
        Self(unsafe { *errno() })
    }
}

impl Drop for KeepErrno {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the location is valid for the calling thread.
        unsafe { *errno() = self.0 };
    }
}

/// *Hook.* The process id.
///
/// NOTE: not by std: what calls its function from C gets a path that panics, in case it does.
#[inline]
pub(crate) fn process_id() -> u32 {
    // SAFETY: always allowed.
    unsafe { libc::getpid() }.cast_unsigned()
}

/// The process that has started this one, or that has inherited it.
pub(crate) fn parent_process_id() -> u32 {
    std::os::unix::process::parent_id()
}

/// Registers functions that the system calls at every fork: before it, and after it in the parent
/// and in the child.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    let [before, parent, child] =
        [before, parent, child].map(|function| Some(function as unsafe extern "C" fn()));
    // SAFETY: the functions live as long as the program.
    unsafe { libc::pthread_atfork(before, parent, child) };
}

/// Registers a function that the system calls when the process exits by return from `main` or by
/// `exit`.
pub(crate) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::atexit(function) };
}

/// The environment: a list of texts that ends with a null.
///
/// NOTE: macOS gives libraries no `environ` to link against (`man 7 environ`).
fn environment() -> *const *const c_char {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            static environ: *const *const c_char;
        }
        // SAFETY: the C library has set it before it calls any function of the program.
        unsafe { environ }
    }
    // SAFETY: the function returns the address of that variable.
    #[cfg(target_os = "macos")]
    unsafe {
        (*libc::_NSGetEnviron()).cast_const().cast()
    }
}

/// Whether a variable of the environment begins with `prefix`. Allocates nothing. Must be called
/// only before `main`, because the program may change its environment later.
pub(crate) fn has_env(prefix: &[u8]) -> bool {
    // SAFETY: the system ends the list with a null, and each entry with a NUL; before `main` no
    // thread changes it.
    unsafe {
        let mut entry = environment();
        while !entry.is_null() && !(*entry).is_null() {
            if CStr::from_ptr(*entry).to_bytes().starts_with(prefix) {
                return true;
            }
            entry = entry.add(1);
        }
    }
    false
}
