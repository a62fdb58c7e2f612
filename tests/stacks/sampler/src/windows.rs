//! What the sampler needs of Windows.

use std::ffi::{CStr, c_void};
use windows_sys::Win32::Foundation::{CloseHandle, GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{
    CREATE_ALWAYS, CreateFileA, FILE_ATTRIBUTE_NORMAL, FILE_SHARE_READ,
};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingA, FILE_MAP_WRITE, MapViewOfFile, PAGE_READWRITE,
};

/// A new file of this size, which is mapped as long as the process runs.
pub(crate) fn map_file(path: &CStr, size: usize) -> *mut c_void {
    let (access, none) = (GENERIC_READ | GENERIC_WRITE, std::ptr::null());
    // SAFETY: system calls with valid arguments.
    unsafe {
        let (name, kind) = (path.as_ptr().cast(), FILE_ATTRIBUTE_NORMAL);
        let nothing = std::ptr::null_mut();
        let file = CreateFileA(name, access, FILE_SHARE_READ, none, CREATE_ALWAYS, kind, nothing);
        let (high, low) = ((size >> 32) as u32, size as u32);
        let mapping = CreateFileMappingA(file, none, PAGE_READWRITE, high, low, std::ptr::null());
        let pages = MapViewOfFile(mapping, FILE_MAP_WRITE, 0, 0, size).Value;
        if pages.is_null() {
            libc::abort();
        }
        CloseHandle(mapping);
        CloseHandle(file);
        pages
    }
}

/// NOTE: not known. A sample of such a thread has no event.
pub(crate) fn is_trackers_thread() -> bool {
    false
}
