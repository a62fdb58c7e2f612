//! The next library's functions by which a program asks for a filter of its system calls.

use super::super::unix::process::errno;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_long, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type SystemCall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
type Prctl = unsafe extern "C" fn(c_int, usize, usize, usize, usize) -> c_int;

/// C's `syscall`; the system call itself until that is looked up, because the tracker calls it, too.
pub(crate) static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(directly as *mut c_void);
static PRCTL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The system calls that ask for a filter.
pub(crate) const SECCOMP: c_long = libc::SYS_seccomp;
pub(crate) const PRCTL_CALL: c_long = libc::SYS_prctl;

/// Looks both up, before `main`.
pub(super) fn find_all() {
    let find = |name: &CStr, place: &AtomicPtr<c_void>| {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if !found.is_null() {
            place.store(found, Ordering::Release);
        }
    };
    find(c"syscall", &SYSCALL);
    find(c"prctl", &PRCTL);
}

/// # Safety
/// That of C's function.
pub(crate) unsafe fn syscall(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    // SAFETY: both functions that are stored have this type, for the processor; the caller's promise.
    unsafe {
        transmute::<*mut c_void, SystemCall>(SYSCALL.load(Ordering::Acquire))(
            number, a, b, c, d, e, f,
        )
    }
}

/// # Safety
/// That of C's function.
pub(crate) unsafe fn prctl(option: c_int, [a, b, c, d]: [usize; 4]) -> c_int {
    let next = PRCTL.load(Ordering::Acquire);
    // SAFETY: the function has this type, for the processor; the caller's promise.
    unsafe {
        if next.is_null() {
            return syscall(libc::SYS_prctl, [option as usize, a, b, c, d, 0]) as c_int;
        }
        transmute::<*mut c_void, Prctl>(next)(option, a, b, c, d)
    }
}

/// What C's `syscall` does.
#[unsafe(naked)]
unsafe extern "C" fn directly() {
    naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2: mov rdi, rax",
        "jmp {failed}",
        failed = sym failed,
    )
}

extern "C" fn failed(result: c_long) -> c_long {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *errno() = -result as c_int };
    -1
}
