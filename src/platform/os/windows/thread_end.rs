//! What runs at the end of a thread.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use windows_sys::Win32::System::SystemServices::DLL_THREAD_DETACH;
use windows_sys::Win32::System::Threading::{
    TLS_OUT_OF_INDEXES, TlsAlloc, TlsFree, TlsGetValue, TlsSetValue,
};

/// The function that runs at the end of a thread.
static AT_THREAD_EXIT: AtomicPtr<extern "C" fn()> = AtomicPtr::new(ptr::null_mut());

type Callback = unsafe extern "system" fn(*mut c_void, u32, *mut c_void);

// SAFETY: the system calls the functions in these sections, of this form, in the order of their names, at the
// start and the end of each thread. Rust's destructors run in `.CRT$XLB`, those of C in `XLD`.
#[unsafe(link_section = ".CRT$XLY")]
#[used]
static CALLBACK: Callback = thread_changes;

/// Says of each thread that its destructors run now: before those of Rust.
// SAFETY: as above.
#[unsafe(link_section = ".CRT$XLAA")]
#[used]
static BEFORE_DESTRUCTORS: Callback = thread_ends;

/// The slot of the system that says so; none yet at the start.
static IS_ENDING: AtomicU32 = AtomicU32::new(TLS_OUT_OF_INDEXES);

unsafe extern "system" fn thread_ends(_: *mut c_void, reason: u32, _: *mut c_void) {
    if reason != DLL_THREAD_DETACH {
        return;
    }
    let slot = IS_ENDING.load(Ordering::Acquire);
    // SAFETY: the slot is this module's, if there is one.
    unsafe { TlsSetValue(slot, ptr::without_provenance(1)) };
}

/// Whether the destructors of the calling thread run. The thread then holds the lock of the loader, which
/// each thread takes before it begins.
pub(in crate::platform::os) fn is_ending() -> bool {
    let _errno = super::KeepErrno::new();
    let slot = IS_ENDING.load(Ordering::Acquire);
    // SAFETY: the slot is this module's, if there is one.
    slot != TLS_OUT_OF_INDEXES && unsafe { !TlsGetValue(slot).is_null() }
}

/// Takes the slot.
fn note_ends() {
    if IS_ENDING.load(Ordering::Acquire) != TLS_OUT_OF_INDEXES {
        return;
    }
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    // SAFETY: takes a number, which is given back if another thread was faster.
    unsafe {
        let new = TlsAlloc();
        if IS_ENDING.compare_exchange(TLS_OUT_OF_INDEXES, new, success, failure).is_err() {
            TlsFree(new);
        }
    }
}

/// What the linker must keep: the function that runs at a thread's end, and what says in the program's file
/// that it has such functions.
pub(super) fn callbacks() -> (*const Callback, *const Callback, *const u8) {
    unsafe extern "C" {
        static _tls_used: u8;
    }
    (&raw const BEFORE_DESTRUCTORS, &raw const CALLBACK, &raw const _tls_used)
}

/// *Hook.* Registers `run`, which is the same in all calls, to be called when a thread ends that has a value
/// of the tracker, after all destructors. Always succeeds.
pub(crate) fn on_thread_exit(run: &'static extern "C" fn()) -> bool {
    note_ends();
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
