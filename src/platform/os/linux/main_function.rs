//! What runs when all constructors have run, before `main`. The library of `preload/` defines C's function
//! that calls `main`.
//!
//! The library itself begins before the constructors of all others. Handlers of forks are called in the order
//! of their registration in the child, and in the other order before the fork. So those of this library are
//! registered here, after those of allocators: in these handlers memory can be allocated.

use super::objects;
use std::arch::naked_asm;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static BEFORE_MAIN: OnceLock<fn()> = OnceLock::new();
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Runs a function before `main`, when all constructors have run; now, if the program does not have C's
/// function call `main`.
pub(crate) fn run_before_main(function: fn()) {
    // The first object is the program.
    let has_main = objects::find(|program| {
        let mut calls = false;
        program.imports(|name, _| calls |= name == START);
        Some(calls)
    });
    if has_main != Some(true) || BEFORE_MAIN.set(function).is_err() {
        function();
    }
}

const START: &std::ffi::CStr = c"__libc_start_main";

/// C's `__libc_start_main` (Linux Standard Base, "Core", 12.1): calls the next one, with a `main` that first
/// runs our code. Both are jumped to, and are in no call stack.
///
/// # Safety
/// That of C's function.
#[unsafe(naked)]
pub unsafe extern "C" fn start_main() {
    naked_asm!(
        ".cfi_startproc",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        ".cfi_def_cfa_offset 48",
        "call {next}",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        ".cfi_def_cfa_offset 8",
        "lea rdi, [rip + {main}]",
        "jmp rax",
        ".cfi_endproc",
        next = sym next_start,
        main = sym main,
    )
}

/// Keeps the program's `main`, and returns the address of the next `__libc_start_main`.
extern "C" fn next_start(main: usize) -> usize {
    MAIN.store(main, Ordering::Release);
    // SAFETY: the name ends with a NUL.
    unsafe { libc::dlsym(libc::RTLD_NEXT, START.as_ptr()) }.addr()
}

/// In the place of the program's `main`.
#[unsafe(naked)]
extern "C" fn main() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "push rdx",
        ".cfi_def_cfa_offset 32",
        "call {begins}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_def_cfa_offset 8",
        "jmp rax",
        ".cfi_endproc",
        begins = sym main_begins,
    )
}

/// Runs what is to be run, and returns the address of the program's `main`.
extern "C" fn main_begins() -> usize {
    if let Some(function) = BEFORE_MAIN.get() {
        function();
    }
    MAIN.load(Ordering::Acquire)
}
