//! Pages of memory.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least bytes that a page has on any processor.
pub(crate) const SMALLEST_PAGE: usize = 4096;

/// The name of the tracker's pages in `vmmap` and Instruments: the first of those that are left to
/// applications (`VM_MEMORY_APPLICATION_SPECIFIC_1` of `mach/vm_statistics.h`).
const TAG: u8 = 240;

/// *Hook.* The bytes of a page: 16 KiB on Apple's processors, and 4 KiB on Intel's. The system is asked once.
pub(crate) fn page_bytes() -> usize {
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    let known = BYTES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: asks for a number.
    let found = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let bytes = usize::try_from(found).unwrap_or(0).max(SMALLEST_PAGE);
    BYTES.store(bytes, Ordering::Relaxed);
    bytes
}

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the system has none.
pub(in crate::platform::os) fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
    // SAFETY: a new private anonymous mapping does not affect existing memory. In the place of a descriptor
    // it has a tag (`man 2 mmap`, MAP_ANON).
    let mapped = unsafe {
        let tag = libc::VM_MAKE_TAG(TAG).cast_signed();
        libc::mmap(ptr::null_mut(), bytes, access, flags, tag, 0)
    };
    NonNull::new(mapped.cast()).filter(|_| mapped != libc::MAP_FAILED)
}

/// *Hook.* Unmaps pages of [`map_pages`] that nothing uses.
pub(in crate::platform::os) fn unmap_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller mapped exactly these pages and has not published them.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}
