//! Threads: the tracker's own, and what the system says of others.

use super::super::ThreadName;
use super::KeepErrno;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Bytes of stack for the tracker's own code on a thread. Pages that are not touched cost only addresses.
pub(crate) const STACK: usize = 1 << 20;

pub(crate) type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// How many threads of the tracker have not ended.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// What a new thread is to do.
struct Task {
    body: Body,
    argument: *mut c_void,
}

/// Starts `body` on a new thread, with `argument`. The thread [names](name_thread) itself.
pub(crate) fn spawn(body: Body, argument: usize) -> io::Result<()> {
    let thread = create(Task { body, argument: ptr::without_provenance_mut(argument) }, STACK)?;
    // SAFETY: the handle was just made, and nothing else has it. The thread runs on without it.
    unsafe { CloseHandle(thread) };
    Ok(())
}

/// NOTE: what the thread is to do is passed in the system's heap: its memory is given back on the new thread,
/// which does not yet hold the guard of the tracker's own code.
fn create(task: Task, stack: usize) -> io::Result<HANDLE> {
    let options = STACK_SIZE_PARAM_IS_A_RESERVATION;
    // SAFETY: the memory has the size of what is written, and is the thread's if it can be made.
    unsafe {
        let heap = GetProcessHeap();
        let passed = HeapAlloc(heap, 0, size_of::<Task>()).cast::<Task>();
        if passed.is_null() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        passed.write(task);
        RUNNING.fetch_add(1, Ordering::AcqRel);
        let (begin, none) = (Some(begin as _), ptr::null_mut());
        let thread = CreateThread(ptr::null(), stack, begin, passed.cast(), options, none);
        if thread.is_null() {
            let error = io::Error::last_os_error();
            RUNNING.fetch_sub(1, Ordering::AcqRel);
            HeapFree(heap, 0, passed.cast());
            return Err(error);
        }
        Ok(thread)
    }
}

/// The first function of each thread.
unsafe extern "system" fn begin(passed: *mut c_void) -> u32 {
    // SAFETY: `create` passes such a task to this thread alone.
    let Task { body, argument } = unsafe {
        let task = passed.cast::<Task>().read();
        HeapFree(GetProcessHeap(), 0, passed);
        task
    };
    body(argument);
    RUNNING.fetch_sub(1, Ordering::AcqRel);
    0
}

/// Runs `body` on a new thread with this many bytes of stack for it, and waits; runs it on this thread if
/// none can be created.
///
/// The allocations of `body` then do not change where the program's blocks are placed.
pub(crate) fn run_on_new_thread<R: Send, F: FnOnce() -> R + Send>(stack: usize, body: F) -> R {
    struct Work<F, R> {
        body: Option<F>,
        result: Option<R>,
    }
    impl<R, F: FnOnce() -> R> Work<F, R> {
        fn run(&mut self) {
            if let Some(body) = self.body.take() {
                self.result = Some(body());
            }
        }
    }
    extern "C" fn run<R, F: FnOnce() -> R>(work: *mut c_void) -> *mut c_void {
        // SAFETY: it is in the frame below, which waits for this thread and does not use it meanwhile.
        unsafe { (*work.cast::<Work<F, R>>()).run() };
        ptr::null_mut()
    }
    let mut work = Work { body: Some(body), result: None };
    let task = Task { body: run::<R, F>, argument: (&raw mut work).cast() };
    match create(task, stack) {
        // SAFETY: the handle was just made, and is closed once, after the thread's end.
        Ok(thread) => unsafe {
            WaitForSingleObject(thread, INFINITE);
            CloseHandle(thread);
        },
        Err(_) => work.run(),
    }
    work.result.unwrap_or_else(|| unreachable!("it has run"))
}

/// *Hook.* The system's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: always succeeds.
    unsafe { GetCurrentThreadId() }
}

/// Whether the tracker has threads in this process.
pub(crate) fn has_own_threads() -> bool {
    RUNNING.load(Ordering::Acquire) > 0
}

/// Waits until no more than `most` of the tracker's threads run; `false` if more still do after `timeout`.
pub(crate) fn wait_for_ends(most: usize, timeout: Duration) -> bool {
    let begin = super::now();
    while RUNNING.load(Ordering::Acquire) > most {
        if super::now().saturating_sub(begin) > timeout.as_nanos() as u64 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// No process begins as the copy of one that has threads.
pub(crate) fn forget_threads() {}

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
    fn a_thread_is_alive_as_long_as_it_runs_and_has_its_name() {
        let (to_thread, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("a ä b".to_owned()).spawn(move || {
            tell.send((thread_id(), thread_name())).unwrap();
            wait.recv().unwrap_err();
        });
        let (id, name) = told.recv().unwrap();
        let mut expected = ThreadName::default();
        expected[..6].copy_from_slice("a ä b".as_bytes());
        assert_eq!((name, thread_name_of(id), is_thread_alive(id)), (expected, Some(name), true));
        drop(to_thread);
        thread.unwrap().join().unwrap();
        assert!(!is_thread_alive(id));
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let cut = |text: &str| cut(&text.encode_utf16().collect::<Vec<_>>());
        assert_eq!(&cut("0123456789abcdef")[..], b"0123456789abcde\0");
        assert_eq!(&cut("0123456789abcd\u{e4}")[..], b"0123456789abcd\0\0");
        assert_eq!(cut(""), ThreadName::default());
    }

    #[test]
    fn work_on_a_new_thread_has_run_when_the_call_returns() {
        let own = thread_id();
        assert_ne!(run_on_new_thread(STACK, thread_id), own);
    }
}
