//! What runs at the end of a thread.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use windows_sys::Win32::System::SystemServices::DLL_THREAD_DETACH;

/// The function that runs at the end of a thread.
static AT_THREAD_EXIT: AtomicPtr<extern "C" fn()> = AtomicPtr::new(ptr::null_mut());

type Callback = unsafe extern "system" fn(*mut c_void, u32, *mut c_void);

// SAFETY: the system calls the functions in these sections, of this form, in the order of their names, at the
// start and the end of each thread. Rust's destructors run in `.CRT$XLB`, those of C in `XLD`.
#[unsafe(link_section = ".CRT$XLY")]
#[used]
static CALLBACK: Callback = thread_changes;

/// What the linker must keep: the function that runs at a thread's end, and what says in the program's file
/// that it has such functions.
pub(super) fn callback() -> (*const Callback, *const u8) {
    unsafe extern "C" {
        static _tls_used: u8;
    }
    (&raw const CALLBACK, &raw const _tls_used)
}

/// *Hook.* Registers `run`, which is the same in all calls, to be called when a thread ends that has a value
/// of the tracker, after all destructors. Always succeeds.
pub(crate) fn on_thread_exit(run: &'static extern "C" fn()) -> bool {
    AT_THREAD_EXIT.store(ptr::from_ref(run).cast_mut(), Ordering::Release);
    true
}

/// The system calls [`thread_changes`] at the end of every thread.
pub(in crate::platform::os) fn await_thread_end() {}

unsafe extern "system" fn thread_changes(_: *mut c_void, reason: u32, _: *mut c_void) {
    if reason != DLL_THREAD_DETACH || !super::super::own_values::has_any() {
        return;
    }
    // SAFETY: only references to statics are stored there.
    let run = unsafe { AT_THREAD_EXIT.load(Ordering::Acquire).as_ref() };
    run.inspect(|run| run());
    super::super::own_values::give_back_all();
}
