//! The library that `memledger run` loads into a program that has no tracker of its own.
//!
//! It is the tracker as any Rust program has it, but the program's calls of `malloc` are what it
//! records, and the memory of its own code is in an arena of its own. It also defines the functions of C that would show the program
//! that it is tracked, or end it without its report.

use dlmalloc::GlobalDlmalloc;
use memledger::TrackingAllocator;
use std::ffi::c_void;

#[global_allocator]
static ALLOC: TrackingAllocator<GlobalDlmalloc> = TrackingAllocator::new(GlobalDlmalloc);
memledger::track_c_malloc!();

/// glibc's other names of functions of `malloc`, which programs call, too.
#[cfg(target_arch = "x86_64")]
macro_rules! other_names {
    ($($other:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// # Safety
            /// That of C's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $other($($argument: $type),*) -> $result {
                // SAFETY: the caller makes the promise of C's function.
                unsafe { memledger::__c_malloc::other_names::$other($($argument),*) }
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
memledger::__c_malloc_other_names! { other_names }

/// C's `_exit`, which runs no handler: without this, the trace of a forked child that ends so would lack its last events. (The program
/// itself has a watcher.)
#[unsafe(no_mangle)]
extern "C" fn _exit(status: i32) -> ! {
    memledger::__exit_after_report(status)
}

/// The same with another name.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: i32) -> ! {
    memledger::__exit_after_report(status)
}

/// C11's function that makes threads. (`track_c_malloc!` defines the other one.)
///
/// # Safety
/// That of C's function, here and below.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    thread: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: the caller makes the promise of C's function.
    unsafe { memledger::__c_malloc::mmap::recorded::thrd_create(thread, function, argument) }
}

/// C's `sigaction`, which shows the default action where the kernel has the tracker's handler.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: i32, new: *const c_void, old: *mut c_void) -> i32 {
    // SAFETY: the caller makes the promise of C's function, here and below.
    unsafe { memledger::__signals::sigaction(signal, new, old) }
}

/// The same with another name.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sigaction(signal: i32, new: *const c_void, old: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { memledger::__signals::sigaction(signal, new, old) }
}

/// C's functions that take a handler and return the one before. Some are others with another name.
macro_rules! signals {
    ($($name:ident: $next:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(signal: i32, handler: usize) -> usize {
                // SAFETY: as above.
                unsafe { memledger::__signals::$next(signal, handler) }
            }
        )*
    };
}

signals! {
    signal: signal;
    ssignal: signal;
    bsd_signal: signal;
    sysv_signal: sysv_signal;
    __sysv_signal: sysv_signal;
    sigset: sigset;
}
