//! C's `dlopen`, as the library of `preload/` defines it.
//!
//! The loader takes the library that calls `dlopen`, by the address that it returns to, for whose folders it
//! looks for the file, and for its namespace. So the next `dlopen` is jumped to, not called, unless something
//! is to be done when it has returned.
//!
//! That is so while the tracker records, and with `RTLD_DEEPBIND`. Then the next `dlopen` gets the
//! address of a `ret` in the caller's own code as the one that it returns to, and that instruction
//! returns to [`open`]. There, allocators that are new are redirected; threads that open the same
//! library at once wait for that. With `RTLD_DEEPBIND`, the new objects also get this library's
//! functions in place of the next ones.
#![expect(unsafe_code, reason = "the function of C")]

use super::redirected::Opening;
use crate::platform::os;
use crate::platform::os::loaded::{self, Dlopen, Loaded};
use crate::trace::write::state;
use crate::trace::write::untracked;
use std::ffi::{c_char, c_int, c_void};

/// What the function does, as C returns it in two registers.
#[repr(C)]
#[derive(Debug)]
pub struct Way {
    next: Option<Dlopen>,
    /// The `ret` in the caller's object through which the call returns to [`open`]; 0 if it is jumped to.
    through: usize,
}

/// Says what the program's call of `dlopen` leads to. `caller` is the address that the call returns to.
pub extern "C" fn way(mode: c_int, caller: usize) -> Way {
    let returns_here =
        (mode & libc::RTLD_DEEPBIND != 0 || state::is_running()) && !os::is_filtered();
    untracked(|| Way {
        next: loaded::next_dlopen(),
        through: if returns_here { loaded::return_instruction(caller) } else { None }.unwrap_or(0),
    })
}

/// Calls the next `dlopen`, and leads here what the objects that came with it call, and functions of
/// allocators that they have.
///
/// # Safety
/// That of C's function. The last arguments are those of [`way`].
pub unsafe extern "C" fn open(
    file: *const c_char,
    mode: c_int,
    next: Dlopen,
    through: usize,
) -> *mut c_void {
    let is_bound_deep = mode & libc::RTLD_DEEPBIND != 0;
    let before = untracked(|| (Opening::begin(), is_bound_deep.then(Loaded::now)));
    // SAFETY: the caller's promise.
    let handle =
        unsafe { loaded::call_from(file.addr(), mode as usize, 0, next as usize, through) };
    untracked(|| {
        let (opening, loaded) = before;
        if let Some(opening) = opening {
            opening.end();
        }
        if let Some(before) = loaded.filter(|_| !handle.is_null()) {
            loaded::lead_here(handle, &before);
        }
    });
    handle
}
