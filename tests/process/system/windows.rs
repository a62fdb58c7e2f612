#![expect(unsafe_code, reason = "system calls")]

use std::path::PathBuf;
use windows_sys::Win32::Foundation::{CloseHandle, LocalFree};
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SetErrorMode,
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

/// Where the folders of children are.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir()
}
