//! macOS's functions of `malloc`. The loader puts others in the place of them, but not in the calls of the
//! library that has these others (`src/alloc/interposed.rs`).

use super::super::unix::process::errno;
use std::ffi::{c_int, c_void};
use std::ptr;

/// The alignment of every block.
pub(crate) const MIN_ALIGN: usize = 16;

unsafe extern "C" {
    fn malloc_size(block: *const c_void) -> usize;
}

/// The number of bytes that the program may use at `block`, which is at least what it asked for.
///
/// # Safety
/// `block` is a live block, or null.
#[inline]
pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
    // SAFETY: the caller makes the same promise.
    unsafe { malloc_size(block.cast()) }
}

/// # Safety
/// That of C's function, here and below.
pub(crate) unsafe fn malloc(size: usize) -> *mut u8 {
    // SAFETY: the caller makes the same promise, here and below.
    unsafe { libc::malloc(size).cast() }
}

pub(crate) unsafe fn calloc(count: usize, size: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe { libc::calloc(count, size).cast() }
}

pub(crate) unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe { libc::realloc(block.cast(), size).cast() }
}

pub(crate) unsafe fn free(block: *mut u8) {
    // SAFETY: as above.
    unsafe { libc::free(block.cast()) };
}

/// A block at a multiple of a power of two, or the error number.
pub(crate) unsafe fn aligned(align: usize, size: usize) -> Result<*mut u8, c_int> {
    let mut block = ptr::null_mut();
    // SAFETY: the block is a local; the alignment is a power of two of at least the size of a pointer.
    match unsafe { libc::posix_memalign(&raw mut block, align.max(size_of::<usize>()), size) } {
        0 => Ok(block.cast()),
        error => Err(error),
    }
}

/// The same, with the error in `errno`.
pub(crate) unsafe fn memalign(align: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller makes the same promise; every thread has an error number.
    unsafe {
        aligned(align, size).unwrap_or_else(|error| {
            *errno() = error;
            ptr::null_mut()
        })
    }
}

/// Whether a block was made before these functions were known: they always are.
pub(crate) fn is_early(_: *mut u8) -> bool {
    false
}

/// Not called, since no block [is early](is_early).
pub(crate) fn early_bytes_from(_: *mut u8) -> usize {
    0
}
