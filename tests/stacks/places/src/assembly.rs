//! Code without unwind information calls.

use crate::{Random, allocate, calls};
use std::cell::Cell;

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl stack_places_without_tables",
    "stack_places_without_tables:",
    "sub sp, sp, #64",
    "str x30, [sp, #48]",
    "blr x0",
    "ldr x30, [sp, #48]",
    "add sp, sp, #64",
    "ret",
);

#[cfg(windows)]
std::arch::global_asm!(
    ".globl stack_places_without_tables",
    "stack_places_without_tables:",
    "sub rsp, 40",
    "call rcx",
    "add rsp, 40",
    "ret",
);

#[cfg(all(target_arch = "x86_64", not(windows)))]
std::arch::global_asm!(
    ".globl stack_places_without_tables",
    "stack_places_without_tables:",
    "push rbx",
    "sub rsp, 48",
    "call rdi",
    "add rsp, 48",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    // With no underscore before it, as macOS has it.
    #[link_name = "\u{1}stack_places_without_tables"]
    fn stack_places_without_tables(call: extern "C" fn());
}

thread_local!(static RANDOM: Cell<u64> = const { Cell::new(0) });

pub(crate) fn call(random: &mut Random) {
    RANDOM.set(random.below(1 << 20) as u64 + 1);
    // SAFETY: it calls the function.
    unsafe { stack_places_without_tables(called) };
}

#[inline(never)]
extern "C" fn called() {
    let mut random = Random(RANDOM.get());
    allocate(&mut random);
    let depth = random.below(10);
    calls::wander(&mut random, depth, true);
}
