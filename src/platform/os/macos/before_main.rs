//! What runs before `main`, and what says in a program's file that it has the tracker.

use std::ffi::{OsString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// NOTE: in a library, other threads may run, and the loader calls this while it loads. So there only code
/// starts a recording.
extern "C" fn before_main() {
    super::waiting::find_functions();
    let is_program = stay_loaded();
    #[cfg(takes_stacks)]
    super::modules::watch(is_program);
    if is_program {
        MAIN_THREAD.store(super::thread_id(), Ordering::Relaxed);
        super::super::unix::before_main::start();
    }
}

/// The thread that runs `main`; 0 in a library.
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);

/// The thread that runs the `main` of this process.
pub(crate) fn main_thread_of(_process: u32) -> u32 {
    MAIN_THREAD.load(Ordering::Relaxed)
}

/// Keeps the library that contains this code loaded until the process ends: the tracker's code runs on its
/// own threads and at the ends of others. Returns whether it is the program itself.
fn stay_loaded() -> bool {
    let code = stay_loaded as fn() -> bool as *const c_void;
    // SAFETY: the call writes to a local. The loader's answer is the header of the file that has this code,
    // and its name, which ends with a NUL.
    unsafe {
        let mut found = std::mem::zeroed::<libc::Dl_info>();
        if libc::dladdr(code, &raw mut found) == 0 || found.dli_fbase.is_null() {
            return false;
        }
        if is_program(found.dli_fbase) {
            return true;
        }
        // NOTE: the handle is never closed, which alone would keep the library loaded (`man 3 dlopen`).
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        if !ptr::eq(found.dli_fname, ptr::null()) {
            libc::dlopen(found.dli_fname, flags);
        }
    }
    false
}

/// Whether the header is that of a program.
///
/// # Safety
/// It is the header of an image.
unsafe fn is_program(header: *const c_void) -> bool {
    /// Of `mach-o/loader.h`: the kind of a program's file, and where its header has that.
    const MH_EXECUTE: u32 = 2;
    const KIND_AT: usize = 12;
    // SAFETY: the caller makes that promise.
    unsafe { header.byte_add(KIND_AT).cast::<u32>().read() == MH_EXECUTE }
}

/// What the platform does before `main`.
pub(crate) fn prepare_before_main() {
    // This early, since the system holds a lock while it makes a key.
    super::super::unix::thread_exit::exit_key();
}

// SAFETY: the section holds pointers to functions of this form, called once each before `main`.
#[unsafe(link_section = "__DATA,__mod_init_func")]
#[used]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Says in the file of a program that it has the tracker: a section of this name. `memledger run` looks for
/// it.
#[unsafe(link_section = "__DATA,__memledger")]
#[used]
static NOTE: [u8; 9] = *b"memledger";

/// Makes the linker keep what it would leave out of a program that calls this: nothing else refers to it.
pub(crate) fn keep_before_main() {
    std::hint::black_box((&raw const BEFORE_MAIN, &raw const NOTE));
}

pub(crate) fn program_name() -> OsString {
    let program = std::env::current_exe().unwrap_or_default();
    program.file_name().unwrap_or_default().to_owned()
}
