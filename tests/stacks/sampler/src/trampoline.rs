//! Where handlers of signals return to, on Linux.

use crate::{INTERRUPTED, TRAMPOLINE, word};
#[cfg(target_arch = "aarch64")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Notes where handlers of this signal return to.
pub fn note_trampoline(signal: i32) {
    let (trampoline, size) = trampoline(signal);
    word(TRAMPOLINE).inspect(|word| word.store(trampoline as u64, Ordering::Relaxed));
    word(INTERRUPTED).inspect(|word| word.store(size, Ordering::Relaxed));
}

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl stack_sampler_handler, stack_sampler_returned_to",
    "stack_sampler_handler:",
    "adrp x9, stack_sampler_returned_to",
    "str x30, [x9, :lo12:stack_sampler_returned_to]",
    "ret",
    ".pushsection .bss",
    ".balign 8",
    "stack_sampler_returned_to:",
    ".skip 8",
    ".popsection",
);

/// The code is the kernel's, so only a handler sees its address.
#[cfg(target_arch = "aarch64")]
fn trampoline(signal: i32) -> (usize, u64) {
    unsafe extern "C" {
        fn stack_sampler_handler(signal: i32);
        static stack_sampler_returned_to: AtomicU64;
    }
    // SAFETY: the handler only stores a word. The action is that of before again.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stack_sampler_handler as *const () as usize;
        assert_eq!(libc::sigaction(signal, &raw const action, &raw mut before), 0);
        libc::raise(signal);
        assert_eq!(libc::sigaction(signal, &raw const before, std::ptr::null_mut()), 0);
        (stack_sampler_returned_to.load(Ordering::Relaxed) as usize, 4)
    }
}

#[cfg(target_arch = "x86_64")]
fn trampoline(signal: i32) -> (usize, u64) {
    #[repr(C)]
    #[derive(Default)]
    struct KernelAction {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    let mut action = KernelAction::default();
    // SAFETY: the kernel writes its own form of the action.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, 0_usize, &raw mut action, size_of::<u64>())
    };
    assert_eq!(result, 0);
    (action.restorer, 1)
}
