//! Pages of memory.

use std::ptr::{self, NonNull};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

/// The least bytes that a page has on any processor.
pub(crate) const SMALLEST_PAGE: usize = 4096;

/// *Hook.* The bytes of a page: 4 KiB on every processor that 64-bit Windows runs on.
pub(crate) fn page_bytes() -> usize {
    SMALLEST_PAGE
}

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the system has none. Pages that are not used are not
/// resident, but count towards what the system can give to all processes ("commit").
pub(in crate::platform::os) fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: new pages do not affect existing memory.
    let mapped =
        unsafe { VirtualAlloc(ptr::null(), bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    NonNull::new(mapped.cast())
}

/// *Hook.* Unmaps all pages of one call of [`map_pages`].
pub(in crate::platform::os) fn unmap_pages(start: NonNull<u8>, _bytes: usize) {
    // SAFETY: the caller mapped exactly these pages, and nothing uses them.
    unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
}
