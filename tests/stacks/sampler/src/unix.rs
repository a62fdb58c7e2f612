//! What the sampler needs of Linux and macOS.

use std::ffi::{CStr, c_void};

/// A new file of this size, which is mapped as long as the process runs.
pub(crate) fn map_file(path: &CStr, size: usize) -> *mut c_void {
    // SAFETY: system calls with valid arguments.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC, 0o644);
        libc::ftruncate(file, size as libc::off_t);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let pages = libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, file, 0);
        if pages == libc::MAP_FAILED {
            libc::abort();
        }
        libc::close(file);
        pages
    }
}

/// Whether this is a thread of the tracker, whose allocations are not recorded.
pub(crate) fn is_trackers_thread() -> bool {
    let mut name = [0_u8; 64];
    // SAFETY: at most the given bytes are written, of the calling thread's name.
    unsafe {
        libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len());
    }
    name.starts_with(b"memledger")
}
