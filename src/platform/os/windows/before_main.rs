//! What runs before `main`, and what says in a program's file that it has the tracker.

use crate::platform::os::before_main::{Process, StartBeforeMain};
use std::ffi::OsString;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    GetModuleHandleW,
};

/// NOTE: in a library this runs while the loader's lock is held, which every new thread takes. So there only
/// code starts a recording.
extern "C" fn before_main() {
    if stay_loaded() {
        MAIN_THREAD.store(super::thread_id(), Ordering::Relaxed);
        Process::start_before_main();
    }
}

/// Keeps the library that contains this code loaded until the process ends: the tracker's code runs on its
/// own threads and at the ends of others. Returns whether it is the program itself.
fn stay_loaded() -> bool {
    let code = stay_loaded as fn() -> bool as *const u16;
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    let mut own = ptr::null_mut();
    // SAFETY: the address is in a module that is loaded, and the call writes to a local.
    unsafe {
        GetModuleHandleExW(flags, code, &raw mut own);
        own == GetModuleHandleW(ptr::null())
    }
}

/// The thread that runs `main`; 0 in a library.
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);

/// The thread that runs the `main` of this process.
pub(crate) fn main_thread_of(_process: u32) -> u32 {
    MAIN_THREAD.load(Ordering::Relaxed)
}

/// What the platform does before `main`.
pub(crate) fn prepare_before_main() {
    #[cfg(takes_stacks)]
    super::modules::watch();
}

// SAFETY: the C library calls the functions in this section, of this form, once each before `main`.
#[unsafe(link_section = ".CRT$XCU")]
#[used]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Says in the file of a program that it has the tracker: a section of this name. `memledger run` looks for
/// it.
#[unsafe(link_section = ".memlgr")]
#[used]
static NOTE: [u8; 9] = *b"memledger";

/// Makes the linker keep what it would leave out of a program that calls this: nothing else refers to it.
pub(crate) fn keep_before_main() {
    std::hint::black_box((&raw const BEFORE_MAIN, &raw const NOTE, super::thread_end::callbacks()));
}

pub(crate) fn program_name() -> OsString {
    let program = std::env::current_exe().unwrap_or_default();
    program.file_name().unwrap_or_default().to_owned()
}
