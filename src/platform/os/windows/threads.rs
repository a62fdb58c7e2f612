//! Threads: the tracker's own, and what the system says of others.

use super::super::ThreadName;
use super::super::counted_threads::run_task;
use super::KeepErrno;
use std::ffi::{CStr, c_void};
use std::time::Duration;
use std::{io, ptr};
use windows_sys::Wdk::System::Threading::{
    NtQueryInformationThread, NtSetInformationThread, ThreadNameInformation,
};
use windows_sys::Win32::Foundation::{CloseHandle, FILETIME, HANDLE, UNICODE_STRING, WAIT_TIMEOUT};
use windows_sys::Win32::System::Memory::{GetProcessHeap, HeapAlloc, HeapFree};
use windows_sys::Win32::System::Threading::{
    CreateThread, GetCurrentThread, GetCurrentThreadId, GetProcessIdOfThread, GetThreadTimes,
    INFINITE, OpenThread, STACK_SIZE_PARAM_IS_A_RESERVATION, THREAD_QUERY_LIMITED_INFORMATION,
    THREAD_SYNCHRONIZE, WaitForSingleObject,
};

/// A thread that has just been started.
pub(in crate::platform::os) struct StartedThread(HANDLE);

impl StartedThread {
    /// Waits for its end.
    pub(in crate::platform::os) fn join(self) {
        // SAFETY: the handle is open.
        unsafe { WaitForSingleObject(self.0, INFINITE) };
        self.detach();
    }

    /// The thread runs on without it.
    pub(in crate::platform::os) fn detach(self) {
        // SAFETY: the handle is open, and nothing else has it.
        unsafe { CloseHandle(self.0) };
    }
}

/// Starts a thread that runs [`run_task`] with `passed`.
pub(in crate::platform::os) fn start_thread(
    passed: *mut c_void,
    stack: usize,
) -> io::Result<StartedThread> {
    let options = STACK_SIZE_PARAM_IS_A_RESERVATION;
    let (begin, none) = (Some(begin as _), ptr::null_mut());
    // SAFETY: the function has the required form.
    let thread = unsafe { CreateThread(ptr::null(), stack, begin, passed, options, none) };
    if thread.is_null() { Err(io::Error::last_os_error()) } else { Ok(StartedThread(thread)) }
}

/// The first function of each thread.
unsafe extern "system" fn begin(passed: *mut c_void) -> u32 {
    // SAFETY: `start_thread` passes this on.
    unsafe { run_task(passed) };
    0
}

/// Memory of the system's heap; null if it has none.
pub(in crate::platform::os) fn take_memory(bytes: usize) -> *mut c_void {
    // SAFETY: takes numbers.
    unsafe { HeapAlloc(GetProcessHeap(), 0, bytes) }
}

pub(in crate::platform::os) fn give_memory_back(memory: *mut c_void) {
    // SAFETY: it is that of `take_memory`, and nothing uses it.
    unsafe { HeapFree(GetProcessHeap(), 0, memory) };
}

/// *Hook.* The system's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: always succeeds.
    unsafe { GetCurrentThreadId() }
}

/// A handle of a thread of this process, by its id.
struct OpenedThread(HANDLE);

impl OpenedThread {
    fn new(id: u32) -> Option<Self> {
        let rights = THREAD_QUERY_LIMITED_INFORMATION | THREAD_SYNCHRONIZE;
        // SAFETY: takes numbers, and is given back by the destructor.
        let opened = Self(unsafe { OpenThread(rights, 0, id) });
        // NOTE: a number can be that of another process's thread, once its own has ended.
        // SAFETY: the handle is open, or null, which is an error.
        let process = unsafe { GetProcessIdOfThread(opened.0) };
        (process == super::process_id()).then_some(opened)
    }
}

impl Drop for OpenedThread {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the handle was opened by this.
            unsafe { CloseHandle(self.0) };
        }
    }
}

/// Whether this process has a thread with this id.
pub(crate) fn is_thread_alive(id: u32) -> bool {
    let _errno = KeepErrno::new();
    // SAFETY: the handle is open.
    OpenedThread::new(id).is_some_and(|it| unsafe { WaitForSingleObject(it.0, 0) == WAIT_TIMEOUT })
}

/// The processor time that a thread of this process has taken; `None` if it has ended.
pub(crate) fn processor_time_of(id: u32) -> Option<Duration> {
    let thread = OpenedThread::new(id)?;
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [begin, end, kernel, user] = &mut times;
    // SAFETY: the call writes to locals.
    if unsafe { GetThreadTimes(thread.0, begin, end, kernel, user) } == 0 {
        return None;
    }
    let units =
        |time: &FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Some(Duration::from_nanos((units(kernel) + units(user)) * 100))
}

/// Names the calling thread, one of the tracker's, at most 15 bytes.
pub(crate) fn name_thread(name: &CStr) {
    let mut units = [0_u16; 16];
    let bytes = name.to_bytes();
    units.iter_mut().zip(bytes).for_each(|(unit, byte)| *unit = (*byte).into());
    let bytes = (bytes.len().min(units.len()) * 2) as u16;
    let mut text =
        UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: units.as_mut_ptr() };
    let size = size_of::<UNICODE_STRING>() as u32;
    // SAFETY: the text is in a local, and is copied.
    unsafe {
        let text = (&raw mut text).cast();
        NtSetInformationThread(GetCurrentThread(), ThreadNameInformation, text, size);
    }
}

/// *Hook.* The name of the calling thread.
///
/// NOTE: not by `GetThreadDescription`, which takes memory from the system's heap.
pub(crate) fn thread_name() -> ThreadName {
    let _errno = KeepErrno::new();
    // SAFETY: the calling thread's own handle.
    name_of(unsafe { GetCurrentThread() }).unwrap_or_default()
}

/// The name of another thread of this process; `None` if the thread has ended.
pub(crate) fn thread_name_of(id: u32) -> Option<ThreadName> {
    name_of(OpenedThread::new(id)?.0)
}

/// What fits into a [`ThreadName`] of a thread's name, in whole characters; nothing of one that is longer
/// than the system is asked for.
fn name_of(thread: HANDLE) -> Option<ThreadName> {
    /// A name with more units is not shown.
    const UNITS: usize = 512;
    #[repr(C)]
    struct Found {
        text: UNICODE_STRING,
        units: [u16; UNITS],
    }
    // SAFETY: all zeros are a valid value; the call writes at most the given bytes, and a pointer into them.
    let found = unsafe {
        let mut found: Found = std::mem::zeroed();
        let (to, size) = ((&raw mut found).cast(), size_of::<Found>() as u32);
        let none = ptr::null_mut();
        if NtQueryInformationThread(thread, ThreadNameInformation, to, size, none) < 0 {
            return None;
        }
        found
    };
    // NOTE: the text follows the structure.
    let units = found.units.get(..usize::from(found.text.Length) / 2)?;
    Some(cut(units))
}

fn cut(units: &[u16]) -> ThreadName {
    const MAX_BYTES: usize = 15;
    let (mut name, mut end) = (ThreadName::default(), 0);
    for letter in char::decode_utf16(units.iter().copied()) {
        let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
        let next = end + letter.len_utf8();
        let Some(place) = name.get_mut(end..next).filter(|_| next <= MAX_BYTES) else { break };
        letter.encode_utf8(place);
        end = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        let cut = |text: &str| cut(&text.encode_utf16().collect::<Vec<_>>());
        assert_eq!(&cut("0123456789abcdef")[..], b"0123456789abcde\0");
        assert_eq!(&cut("0123456789abcd\u{e4}")[..], b"0123456789abcd\0\0");
        assert_eq!(cut(""), ThreadName::default());
    }
}
