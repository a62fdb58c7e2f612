//! This process: how its threads wait for each other, its end and its environment.

use std::ffi::{CStr, OsString, c_int};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;
use windows_sys::Wdk::System::Threading::{NtQueryInformationProcess, ProcessBasicInformation};
use windows_sys::Win32::Foundation::{GetLastError, SetLastError};
use windows_sys::Win32::System::Environment::{
    FreeEnvironmentStringsW, GetEnvironmentStringsW, GetEnvironmentVariableW,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Threading::{
    FlushProcessWriteBuffers, GetCurrentProcess, GetCurrentProcessId, INFINITE,
    PROCESS_BASIC_INFORMATION, TerminateProcess, WaitOnAddress, WakeByAddressAll,
};

/// Restores the thread's last error when dropped.
pub(crate) struct KeepErrno(u32);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: reads a word of the calling thread, here and below.
        Self(unsafe { GetLastError() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { SetLastError(self.0) };
    }
}

/// Writes raise no signals here, so there is nothing to block.
pub(crate) struct BlockedSignals(PhantomData<*mut ()>);

impl BlockedSignals {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

/// No signal interrupts a thread here; keeps the thread's last error.
pub(crate) struct AllBlocked(#[expect(dead_code, reason = "it has a destructor")] KeepErrno);

impl AllBlocked {
    pub(crate) fn new() -> Self {
        Self(KeepErrno::new())
    }
}

/// *Hook.* Sleeps until woken, at most `nanos` nanoseconds; returns at once if `*word != expected`.
pub(crate) fn wait(word: &AtomicU32, expected: u32, nanos: u64) {
    let _errno = KeepErrno::new();
    let millis = u32::try_from(nanos.div_ceil(1_000_000)).unwrap_or(INFINITE);
    // SAFETY: the word outlives the call, and both have 4 bytes.
    unsafe { WaitOnAddress(word.as_ptr().cast(), (&raw const expected).cast(), 4, millis) };
}

/// *Hook.* Wakes all threads that sleep on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: waking takes the address only as a key.
    unsafe { WakeByAddressAll(word.as_ptr().cast()) };
}

/// Whether [`barrier_on_all_threads`] works in this process.
///
/// NOTE: Wine's function of that name does nothing in its versions up to 8, and says so on stderr.
/// Later versions are not trusted either: a fence in the hook costs some nanoseconds, and no event.
pub(crate) fn register_barrier() -> bool {
    !is_wine()
}

/// Whether the system is Wine's, which says so by a function.
fn is_wine() -> bool {
    // SAFETY: the names end with a NUL; the library is in every process.
    unsafe {
        let library = GetModuleHandleA(c"ntdll.dll".as_ptr().cast());
        GetProcAddress(library, c"wine_get_version".as_ptr().cast()).is_some()
    }
}

/// Makes every running thread of the process pass a full memory barrier.
pub(crate) fn barrier_on_all_threads() {
    // SAFETY: a barrier touches no memory.
    unsafe { FlushProcessWriteBuffers() };
}

/// *Hook.* The process id.
pub(crate) fn process_id() -> u32 {
    // SAFETY: always allowed.
    unsafe { GetCurrentProcessId() }
}

/// The process that has started this one; 0 if the system does not say.
pub(crate) fn parent_process_id() -> u32 {
    // SAFETY: all zeros are a valid value of this structure, and the call writes at most its size.
    unsafe {
        let mut found = std::mem::zeroed::<PROCESS_BASIC_INFORMATION>();
        let size = size_of_val(&found) as u32;
        let to = (&raw mut found).cast();
        let (process, none) = (GetCurrentProcess(), std::ptr::null_mut());
        match NtQueryInformationProcess(process, ProcessBasicInformation, to, size, none) {
            0.. => found.InheritedFromUniqueProcessId as u32,
            _ => 0,
        }
    }
}

/// Registers a function that is called when the process exits: by return from `main`, C's `exit`, or
/// `std::process::exit`, which calls the system's function at once.
pub(crate) fn at_exit(function: extern "C" fn()) {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    super::exit_process::redirect(function);
    // SAFETY: the function lives as long as the program.
    unsafe { atexit(function) };
}

/// The C library that programs of this target have by default has no `quick_exit`.
pub(crate) fn at_quick_exit(_function: extern "C" fn()) {}

/// No process is a copy of another one here.
pub(crate) fn at_fork(_before: extern "C" fn(), _parent: extern "C" fn(), _child: extern "C" fn()) {
}

/// A process ends with its first thread.
pub(crate) fn left_alone() -> Option<c_int> {
    None
}

pub(crate) fn forget_ends() {}

/// Ends the process without anything that runs at exit.
pub(crate) fn end_process(status: c_int) -> ! {
    // SAFETY: ends this process.
    unsafe { TerminateProcess(GetCurrentProcess(), status.cast_unsigned()) };
    unreachable!("the process has ended")
}

/// Whether a variable of the environment begins with `prefix`, which is ASCII. Allocates nothing from the
/// global allocator.
pub(crate) fn has_env(prefix: &[u8]) -> bool {
    // SAFETY: the system gives a list of texts, each of which ends with a 0, as the list does.
    unsafe {
        let all = GetEnvironmentStringsW();
        let mut at = all;
        let mut found = false;
        while !at.is_null() && *at != 0 && !found {
            let mut length = 0;
            while *at.add(length) != 0 {
                length += 1;
            }
            let text = std::slice::from_raw_parts(at, length);
            found = text.len() >= prefix.len()
                && prefix.iter().zip(text).all(|(byte, unit)| u16::from(*byte) == *unit);
            at = at.add(length + 1);
        }
        FreeEnvironmentStringsW(all);
        found
    }
}

/// An environment variable. No program runs with more rights than the one that starts it.
///
/// NOTE: std's function takes blocks from the program's heap for each name, even of a variable that is not
/// set.
pub(crate) fn secure_env(name: &CStr) -> Option<OsString> {
    let mut units = [0_u16; 64];
    let (units, name) = (units.get_mut(..=name.to_bytes().len())?, name.to_str().ok()?);
    units.iter_mut().zip(name.encode_utf16()).for_each(|(to, unit)| *to = unit);
    // SAFETY: the name ends with a 0. Without room for the value, the call only says how long that is.
    let length = unsafe { GetEnvironmentVariableW(units.as_ptr(), std::ptr::null_mut(), 0) };
    if length == 0 { None } else { std::env::var_os(name) }
}
