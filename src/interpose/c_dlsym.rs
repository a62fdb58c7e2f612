//! C's `dlsym` and `dlvsym`, as the library of `preload/` defines them.
//!
//! A handle finds the functions of its own library, so that of the C library finds glibc's own `malloc`.
//! Where the address is that of the function that this library's calls next, the program gets the address of
//! this library's, which is then between them, as for the calls of all libraries. Where another allocator is
//! below this library, glibc's functions get an address at which they are recorded
//! ([`entrance`]). What finds another function keeps that, and so does an allocator, which asks for what is
//! below itself.
//!
//! For `RTLD_NEXT` and `RTLD_DEFAULT` the loader takes the library that calls, by the address that it returns
//! to. So these calls return through that library, as those of [`dlopen`](super::c_dlopen).
#![expect(unsafe_code, reason = "the functions of C")]

use super::redirected;
use super::roles::{Meaning, OF_C};
use crate::platform::os::loaded;
use crate::trace::write::untracked;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// C's `dlvsym`; `dlsym` does without the last argument.
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// What the function does, as C returns it in two registers.
#[repr(C)]
#[derive(Debug)]
pub struct Search {
    next: Option<Dlvsym>,
    /// [`JUMPED`], [`CALLED`], or the `ret` in the caller's object through which the call returns to
    /// [`find`].
    through: usize,
}

/// The next function is jumped to: it finds nothing that this library has.
const JUMPED: usize = 0;
/// It is called by [`find`]: who calls does not matter.
const CALLED: usize = 1;

/// A function of `malloc` that the program has asked for and that cannot be recorded: its name and address.
static UNRECORDED: OnceLock<(String, usize)> = OnceLock::new();

/// The first function of `malloc` that was found and cannot be recorded.
pub(crate) fn unrecorded() -> Option<&'static (String, usize)> {
    UNRECORDED.get()
}

/// Says what the program's call of `dlsym` leads to. `caller` is the address that the call returns to.
///
/// # Safety
/// That of C's function, here and below.
pub unsafe extern "C" fn way(handle: *mut c_void, name: *const c_char, caller: usize) -> Search {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the caller's promise, here and below.
    unsafe { Search::new(&NEXT, c"dlsym", handle, name, caller) }
}

/// The same for `dlvsym`.
///
/// # Safety
/// As above.
pub unsafe extern "C" fn way_of_version(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> Search {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: as above.
    unsafe { Search::new(&NEXT, c"dlvsym", handle, name, caller) }
}

impl Search {
    unsafe fn new(
        next: &AtomicUsize,
        function: &CStr,
        handle: *mut c_void,
        name: *const c_char,
        caller: usize,
    ) -> Self {
        if next.load(Ordering::Acquire) == 0 {
            next.store(loaded::next_defined(function).unwrap_or(0), Ordering::Release);
        }
        let next = std::ptr::with_exposed_provenance::<c_void>(next.load(Ordering::Acquire));
        // SAFETY: a function of this name has this type.
        let next = unsafe { std::mem::transmute::<*const c_void, Option<Dlvsym>>(next) };
        // SAFETY: as above; texts of C end with a NUL.
        let is_own = || loaded::own(unsafe { CStr::from_ptr(name) }).is_some();
        let through = if name.is_null() || loaded::is_here(caller) || !is_own() {
            JUMPED
        } else if handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT {
            loaded::return_instruction(caller).unwrap_or(JUMPED)
        } else {
            CALLED
        };
        Self { next, through }
    }
}

/// Calls the next function. The last arguments are those of [`way`].
///
/// # Safety
/// As above.
pub unsafe extern "C" fn find(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    next: Dlvsym,
    through: usize,
    caller: usize,
) -> *mut c_void {
    let found = if through == CALLED {
        // SAFETY: as above.
        unsafe { next(handle, name, version) }
    } else {
        let (name, version, next) = (name.addr(), version.addr(), next as usize);
        // SAFETY: as above; the function takes these arguments.
        unsafe { loaded::call_from(handle.addr(), name, version, next, through) }
    };
    if found.is_null() {
        return found;
    }
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) };
    untracked(|| {
        if loaded::is_between(caller) {
            return found;
        }
        if loaded::is_next(name, found.addr()) {
            let own = loaded::own(name).unwrap_or(found.addr());
            return std::ptr::with_exposed_provenance_mut(own);
        }
        let entrance = entrance(name, found.addr(), caller);
        entrance.map_or(found, std::ptr::with_exposed_provenance_mut)
    })
}

/// Where to call a function of `malloc` that is of another allocator than the one that is recorded; `None` if
/// it is recorded already, or an allocator asks for the one below itself. One that cannot be recorded is
/// noted.
fn entrance(name: &CStr, found: usize, caller: usize) -> Option<usize> {
    let function = name.to_bytes();
    let function = function.strip_prefix(b"__libc_").unwrap_or(function);
    let Some(Meaning::Role(role)) = OF_C.meaning(function) else { return None };
    if loaded::defines(caller, name) || loaded::is_here(found) {
        return None;
    }
    let mut outcome = redirected::outcome();
    if outcome.as_ref().is_some_and(|outcome| outcome.has(found)) {
        return None;
    }
    let entrance = outcome.as_mut().and_then(|outcome| outcome.entrance(found, role));
    if entrance.is_none() {
        let _ = UNRECORDED.set((name.to_string_lossy().into_owned(), found));
    }
    entrance
}
