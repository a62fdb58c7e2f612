//! C's functions by which a program asks for a filter of its system calls (seccomp), with which the tracker
//! does nothing on the program's threads any more that needs the kernel, and the watcher ends the recording.
//! In the library of `preload/`, a program that is executed by `syscall` is so by C's function.
//!
//! A filter of all threads (`SECCOMP_FILTER_FLAG_TSYNC`) is one of the tracker's, too. These end before. What
//! is in the buffers by the end of the process is recorded, and what does not fit is counted as lost.
//!
//! NOTE: a filter that the program asks for by an instruction of its own is not known.
#![expect(unsafe_code, reason = "the functions of C")]

use super::pause;
use crate::ledger::recording::queries::flush;
#[cfg(redirects)]
use crate::platform::os::exec;
use crate::platform::os::{self, KeepErrno, next_filter as next};
use crate::trace::write::{buffer_pool, state};
use std::arch::naked_asm;
use std::ffi::{c_int, c_long};

/// Defines the functions in the program.
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_filter {
    () => {
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn syscall() {
        ::core::arch::naked_asm!("jmp {}@PLT", sym $crate::__private::c_filter::syscall)
            }
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn prctl() {
        ::core::arch::naked_asm!("jmp {}@PLT", sym $crate::__private::c_filter::prctl)
            }
        };
    };
}

/// C's `syscall`.
///
/// NOTE: the next one is jumped to. A system call that makes a process can return to another stack.
///
/// # Safety
/// That of C's function.
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {seccomp}",
        "je 2f",
        "cmp rdi, {prctl}",
        "je 2f",
        "cmp rdi, {execve}",
        "je 2f",
        "cmp rdi, {execveat}",
        "je 2f",
        "mov r11, qword ptr [rip + {next}@GOTPCREL]",
        "jmp qword ptr [r11]",
        "2: jmp {requested}",
        seccomp = const next::SECCOMP,
        prctl = const next::PRCTL_CALL,
        execve = const libc::SYS_execve,
        execveat = const libc::SYS_execveat,
        next = sym next::SYSCALL,
        requested = sym requested,
    )
}

unsafe extern "C" fn requested(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller makes the promise of C's function, here and below.
    let call = || unsafe { next::syscall(number, [a, b, c, d, e, f]) };
    match number {
        // SAFETY: as above.
        #[cfg(redirects)]
        libc::SYS_execve => unsafe { exec::execve(a as _, b as _, c as _) }.into(),
        #[cfg(redirects)]
        libc::SYS_execveat => {
            // SAFETY: as above.
            unsafe { exec::execveat(a as c_int, b as _, c as _, d as _, e as c_int) }.into()
        }
        next::PRCTL_CALL => with_filter(Request::by_prctl(a as c_int, b, c), call),
        next::SECCOMP => with_filter(Request::by_seccomp(a, b, c), call),
        _ => call(),
    }
}

/// C's `prctl`.
///
/// # Safety
/// That of C's function.
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: as above.
    let call = || c_long::from(unsafe { next::prctl(option, [a, b, c, d]) });
    with_filter(Request::by_prctl(option, a, b), call) as c_int
}

/// What a call asks for.
struct Request {
    of_all_threads: bool,
    /// It returns a descriptor.
    has_listener: bool,
}

impl Request {
    fn by_prctl(option: c_int, mode: usize, program: usize) -> Option<Self> {
        let is_filter = mode == libc::SECCOMP_MODE_FILTER as usize && program != 0;
        let is_strict = mode == libc::SECCOMP_MODE_STRICT as usize;
        (option == libc::PR_SET_SECCOMP && (is_filter || is_strict))
            .then_some(Self { of_all_threads: false, has_listener: false })
    }

    /// NOTE: without a program, only whether the kernel knows the flags is asked.
    fn by_seccomp(operation: usize, flags: usize, program: usize) -> Option<Self> {
        let is_filter = operation == libc::SECCOMP_SET_MODE_FILTER as usize && program != 0;
        let has = |flag: libc::c_ulong| is_filter && flags & flag as usize != 0;
        (is_filter || operation == libc::SECCOMP_SET_MODE_STRICT as usize).then_some(Self {
            of_all_threads: has(libc::SECCOMP_FILTER_FLAG_TSYNC),
            has_listener: has(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER),
        })
    }
}

/// Calls C's function, prepared for the filter that the program asks for.
fn with_filter(request: Option<Request>, call: impl Fn() -> c_long) -> c_long {
    let Some(request) = request else { return call() };
    {
        let _errno = KeepErrno::new();
        if state::is_unaware_child() {
            // Forked by a system call: it has its own memory, and records nothing.
            state::turn_off_in_child();
        }
        if !state::is_forked() {
            buffer_pool::map_ahead();
            if request.of_all_threads && state::is_watched() && state::is_running() {
                flush();
                pause::leave_to_watcher();
            }
        }
    }
    // NOTE: the child of a `vfork` has its parent's memory, which must not change.
    if state::is_forked() {
        return call();
    }
    os::add_filter();
    let result = call();
    if result != 0 && (result < 0 || !request.has_listener) {
        os::remove_filter();
    }
    result
}
