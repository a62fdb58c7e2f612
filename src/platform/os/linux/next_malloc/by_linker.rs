//! The next functions, by glibc's other names.
//!
//! NOTE: the object of glibc's archive that has these names also defines `malloc`. So the program is
//! linked with `-z muldefs`: of several definitions, the linker takes the first, which is the program's.

unsafe extern "C" {
    #[link_name = "__libc_malloc"]
    pub(crate) fn malloc(size: usize) -> *mut u8;
    #[link_name = "__libc_calloc"]
    pub(crate) fn calloc(count: usize, size: usize) -> *mut u8;
    #[link_name = "__libc_realloc"]
    pub(crate) fn realloc(block: *mut u8, size: usize) -> *mut u8;
    #[link_name = "__libc_free"]
    pub(crate) fn free(block: *mut u8);
    #[link_name = "__libc_memalign"]
    pub(crate) fn memalign(align: usize, size: usize) -> *mut u8;
    #[link_name = "malloc_usable_size"]
    pub(crate) fn usable_size(block: *mut u8) -> usize;
}

/// In a static program, glibc's functions call each other by their other names.
#[cfg(c_mmap)]
pub(super) fn calling() -> std::ops::Range<usize> {
    0..0
}

/// glibc's functions of mapped memory, by their other names, and system calls.
#[cfg(c_mmap)]
pub mod mapped {
    pub use super::super::super::pages::{mmap, mprotect, mremap, munmap, shmat, shmdt};
    pub use mmap as mmap64;

    unsafe extern "C" {
        /// glibc's function.
        #[link_name = "__brk"]
        pub fn brk(end: *mut std::ffi::c_void) -> std::ffi::c_int;
        /// glibc's function.
        #[link_name = "__pthread_create"]
        pub fn pthread_create(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            function: unsafe extern "C" fn(*mut std::ffi::c_void) -> *mut std::ffi::c_void,
            argument: *mut std::ffi::c_void,
        ) -> std::ffi::c_int;
        /// glibc's function.
        #[link_name = "__sbrk"]
        pub fn sbrk(more: isize) -> *mut std::ffi::c_void;
    }
}

pub(crate) unsafe fn aligned(align: usize, size: usize) -> Result<*mut u8, std::ffi::c_int> {
    // SAFETY: the caller gives a power of two.
    let block = unsafe { memalign(align, size) };
    // SAFETY: every thread has an `errno`.
    if block.is_null() { Err(unsafe { *libc::__errno_location() }) } else { Ok(block) }
}

pub(crate) fn is_early(_: *mut u8) -> bool {
    false
}

pub(crate) fn early_bytes_from(_: *mut u8) -> usize {
    0
}
