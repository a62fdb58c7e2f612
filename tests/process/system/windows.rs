#![expect(unsafe_code, reason = "system calls")]

use std::ffi::CStr;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use windows_sys::Win32::Foundation::{CloseHandle, FreeLibrary, HMODULE, LocalFree};
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LoadLibraryW};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_EXECUTE_READ, PAGE_READWRITE, VirtualAlloc,
    VirtualFree, VirtualProtect,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThreadId, GetThreadDescription, OpenThread,
    THREAD_QUERY_LIMITED_INFORMATION, TerminateProcess,
};

/// Ends this process without anything that runs at its end.
pub(crate) fn end_at_once(status: i32) {
    // SAFETY: nothing runs after this.
    unsafe { TerminateProcess(GetCurrentProcess(), status.cast_unsigned()) };
}

/// A crash of this process starts neither a debugger nor a dialog.
pub(crate) fn crash_without_dialog() {
    // SAFETY: takes a number.
    unsafe { SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX) };
}

/// Bytes of this process's memory that are resident.
pub(crate) fn resident_bytes() -> u64 {
    // SAFETY: zeros are a valid value, and the call writes at most its size.
    unsafe {
        let mut found = std::mem::zeroed::<PROCESS_MEMORY_COUNTERS>();
        let bytes = size_of_val(&found) as u32;
        assert_ne!(K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut found, bytes), 0);
        found.WorkingSetSize as u64
    }
}

/// The name of a thread; nothing if it has ended, or has none.
pub(crate) fn name_of_thread(id: u32) -> String {
    // SAFETY: the handle and the text are given back, and the text ends with a 0.
    unsafe {
        let thread = OpenThread(THREAD_QUERY_LIMITED_INFORMATION, 0, id);
        let mut text = std::ptr::null_mut();
        let mut name = String::new();
        if GetThreadDescription(thread, &raw mut text) >= 0 && !text.is_null() {
            let length = (0..).take_while(|&at| *text.add(at) != 0).count();
            name = String::from_utf16_lossy(std::slice::from_raw_parts(text, length));
            LocalFree(text.cast());
        }
        CloseHandle(thread);
        name
    }
}

/// The system's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call always succeeds.
    unsafe { GetCurrentThreadId() }
}

/// A page with code; anywhere if `address` is 0. Its address.
pub(crate) fn map_code(address: usize, code: &[u8]) -> usize {
    // SAFETY: new memory, in which the code fits.
    unsafe {
        let address = ptr::without_provenance(address);
        let page = VirtualAlloc(address, code.len(), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
        assert!(!page.is_null());
        page.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
        let mut before = 0;
        assert_ne!(VirtualProtect(page, code.len(), PAGE_EXECUTE_READ, &raw mut before), 0);
        page.expose_provenance()
    }
}

/// Gives a page of [`map_code`] back. No code in it runs.
pub(crate) fn unmap_code(page: usize) {
    // SAFETY: the caller's promise.
    let done = unsafe { VirtualFree(ptr::with_exposed_provenance_mut(page), 0, MEM_RELEASE) };
    assert_ne!(done, 0);
}

/// A library that is loaded.
pub(crate) struct Library(HMODULE);

impl Library {
    pub(crate) fn load(path: &Path) -> Self {
        let name: Vec<_> = path.as_os_str().encode_wide().chain([0]).collect();
        // SAFETY: loads one of `build.rs`, which does nothing at its start.
        let module = unsafe { LoadLibraryW(name.as_ptr()) };
        assert!(!module.is_null(), "{path:?}");
        Self(module)
    }

    /// The address of one of its functions, and the function's offset in the library.
    pub(crate) fn function(&self, name: &CStr) -> (*const (), usize) {
        // SAFETY: the library is loaded.
        let function = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) };
        let function = function.unwrap() as *const ();
        (function, function.addr() - self.0.addr())
    }

    /// Nothing uses it from here on.
    pub(crate) fn unload(self) {
        // SAFETY: the caller's promise.
        assert_ne!(unsafe { FreeLibrary(self.0) }, 0);
    }
}

/// Where the folders of children are.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir()
}
