//! Code for the tests, on ARM.
#![expect(unsafe_code, reason = "code in assembly")]

use super::{assert_continues, take};
use std::arch::asm;

// Code without unwind information, but for the functions that have `.cfi_startproc`.
std::arch::global_asm!(
    ".globl memledger_test_frame_pointer, memledger_test_nested, memledger_test_after_nested",
    ".globl memledger_test_signed_record",
    ".globl memledger_test_no_frame_pointer, memledger_test_any_fp, memledger_test_after_function",
    ".globl memledger_test_after_jump, memledger_test_forms, memledger_test_calls, memledger_test_no_calls",
    ".globl memledger_test_with_frame_pointer, memledger_test_forms_end, memledger_test_within_function",
    ".balign 16",
    // Calls its first argument: with a frame record, without one, and with its second argument in `x29`.
    "memledger_test_frame_pointer:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "blr x0",
    "ldp x29, x30, [sp], #16",
    "ret",
    "memledger_test_nested:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "bl memledger_test_frame_pointer",
    "memledger_test_after_nested:",
    "ldp x29, x30, [sp], #16",
    "ret",
    // The same as the first with a signed return address.
    "memledger_test_signed_record:",
    "hint #25", // paciasp
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "blr x0",
    "ldp x29, x30, [sp], #16",
    "hint #29", // autiasp
    "ret",
    "memledger_test_no_frame_pointer:",
    "str x30, [sp, #-16]!",
    "blr x0",
    "ldr x30, [sp], #16",
    "ret",
    "memledger_test_any_fp:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, x1",
    "blr x0",
    "ldp x29, x30, [sp], #16",
    "ret",
    // With a table: a function that makes a frame record, one that makes none, and calls of both.
    "memledger_test_with_frame_pointer:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp",
    ".cfi_def_cfa x29, 16",
    "blr x0",
    "memledger_test_within_function:",
    "ldp x29, x30, [sp], #16",
    ".cfi_def_cfa sp, 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
    ".cfi_endproc",
    "memledger_test_jump:",
    ".cfi_startproc",
    "sub sp, sp, #16",
    ".cfi_def_cfa_offset 16",
    "add sp, sp, #16",
    ".cfi_def_cfa_offset 0",
    "b memledger_test_frame_pointer",
    ".cfi_endproc",
    "bl memledger_test_with_frame_pointer",
    "memledger_test_after_function:",
    "bl memledger_test_jump",
    "memledger_test_after_jump:",
    "nop",
    // What is a call, and what is none.
    ".macro memledger_test_forms_of instruction:vararg",
    "\\instruction",
    ".pushsection .rodata",
    ".long 9f - memledger_test_forms",
    ".popsection",
    "9:",
    ".endm",
    ".pushsection .rodata",
    ".balign 4",
    "memledger_test_calls:",
    ".popsection",
    "memledger_test_forms:",
    "memledger_test_forms_of blr x0",
    "memledger_test_forms_of blr x30",
    // `blraaz x0`, `blrabz x17`, `blraa x0, x1`, `blrab x30, sp`, which older assemblers do not know.
    "memledger_test_forms_of .inst 0xd63f081f",
    "memledger_test_forms_of .inst 0xd63f0e3f",
    "memledger_test_forms_of .inst 0xd73f0801",
    "memledger_test_forms_of .inst 0xd73f0fdf",
    "memledger_test_forms_of bl memledger_test_frame_pointer",
    ".pushsection .rodata",
    "memledger_test_no_calls:",
    ".popsection",
    "memledger_test_forms_of br x0",
    "memledger_test_forms_of ret",
    "memledger_test_forms_of b memledger_test_frame_pointer",
    "memledger_test_forms_of svc #0",
    "memledger_test_forms_of mov x0, x1",
    // `braaz x0`, `braa x0, x1`, `retaa`
    "memledger_test_forms_of .inst 0xd61f081f",
    "memledger_test_forms_of .inst 0xd71f0801",
    "memledger_test_forms_of .inst 0xd65f0bff",
    ".pushsection .rodata",
    "memledger_test_forms_end:",
    ".popsection",
);

/// The distance of a return address in `memledger_test_frame_pointer`, and the size of its first instruction.
pub(super) const IN_FUNCTION: usize = 12;
pub(super) const INSTRUCTION: usize = 4;

/// How many forms are calls, and how many there are; which one is a direct call.
pub(super) const CALLS: (usize, usize) = (7, 15);
pub(super) const DIRECT: usize = 6;

/// A word that ends with `blr x0`.
pub(super) const CALL: u64 = 0xd63f_0000 << 32;

/// `stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret`, a frame that is larger,
/// and code that leaves `x29` alone, whose return address is that of the first: `str x30, [sp, #-16]!; nop;
/// blr x0; ldr x30, [sp], #16; ret`.
pub(super) const JIT: [&[u8]; 3] = [
    &bytes([0xa9bf_7bfd, 0x9100_03fd, 0xd63f_0000, 0xa8c1_7bfd, 0xd65f_03c0]),
    &bytes([0xa9bd_7bfd, 0x9100_03fd, 0xd63f_0000, 0xa8c3_7bfd, 0xd65f_03c0]),
    &bytes([0xf81f_0ffe, 0xd503_201f, 0xd63f_0000, 0xf841_07fe, 0xd65f_03c0]),
];

const fn bytes(instructions: [u32; 5]) -> [u8; 20] {
    let (mut bytes, mut at) = ([0; 20], 0);
    while at < 20 {
        bytes[at] = (instructions[at / 4] >> (at % 4 * 8)) as u8;
        at += 1;
    }
    bytes
}

/// The distances of a return address in the first and of another place.
pub(super) const IN_JIT: [usize; 2] = [12, 18];

unsafe extern "C" {
    fn memledger_test_signed_record(call: extern "C" fn());
}

#[test]
fn a_frame_record_with_a_signed_return_address_leads_to_the_caller() {
    // SAFETY: it calls the function.
    assert_continues(|| unsafe { memledger_test_signed_record(take) }, 1);
}

/// Makes the processor see code that was written. A line of a cache has a word or more.
pub(super) fn clear_cache(start: *mut u8, size: usize) {
    let words = || (0..size).step_by(4).map(|at| start.wrapping_add(at));
    // SAFETY: it changes no memory, and the words are mapped.
    unsafe {
        words().for_each(|word| asm!("dc cvau, {}", in(reg) word));
        asm!("dsb ish");
        words().for_each(|word| asm!("ic ivau, {}", in(reg) word));
        asm!("dsb ish", "isb");
    }
}
