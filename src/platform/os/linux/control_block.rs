//! Where the C library keeps what a thread has for itself.
#![cfg_attr(
    not(takes_stacks),
    allow(dead_code, reason = "only call stacks and the preload library use it")
)]

/// The address of the running thread's control block. On x86-64 it is also the block's first word ("ELF
/// Handling For Thread-Local Storage", 3.4.6), on AArch64 it is in a register.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn control_block() -> usize {
    let block: usize;
    // SAFETY: reads a word that every thread has.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) block,
            options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: reads a register that every thread has.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) block,
            options(pure, nomem, nostack, preserves_flags));
    }
    block
}

/// The end of the running thread's own stack: glibc and musl put the control block above the stack of every
/// thread but the main one, in the same mapping.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn own_stack_end() -> usize {
    control_block() & !7
}
