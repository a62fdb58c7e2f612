//! What unwind information says on ARM only.

use super::*;
use crate::stacks::capture::processor::Ra;

// Two functions with a signed return address, one for each key, as GCC and LLVM describe them; and one that
// the assembler marks as one that signal handlers return to, although it is none.
std::arch::global_asm!(
    ".balign 4",
    ".macro memledger_test_signs name, sign, check, key:vararg",
    ".globl \\name",
    "\\name:",
    ".cfi_startproc",
    "\\key",
    "hint #\\sign",
    ".cfi_negate_ra_state",
    "stp x29, x30, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset x29, -48",
    ".cfi_offset x30, -40",
    "mov x29, sp",
    "str x19, [sp, #16]",
    ".cfi_def_cfa x29, 48",
    ".cfi_offset x19, -32",
    "ldr x19, [sp, #16]",
    "ldp x29, x30, [sp], #48",
    ".cfi_def_cfa sp, 0",
    ".cfi_restore x19",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "hint #\\check",
    ".cfi_negate_ra_state",
    "ret",
    ".cfi_endproc",
    ".endm",
    "memledger_test_signs memledger_test_signed, 25, 29", // paciasp, autiasp
    "memledger_test_signs memledger_test_signed_with_b, 27, 31, .cfi_b_key_frame", // pacibsp, autibsp
    "memledger_test_marked_as_signal:",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_def_cfa_offset 64",
    ".cfi_offset x29, -24",
    "nop",
    "nop",
    ".cfi_endproc",
);

unsafe extern "C" {
    static memledger_test_signed: u8;
    static memledger_test_signed_with_b: u8;
    static memledger_test_marked_as_signal: u8;
}

#[test]
fn a_function_has_saved_its_return_address_in_its_own_frame() {
    let program = std::env::current_exe().unwrap();
    let own = rows_of(|path| *path == *program.to_string_lossy());
    let signed = [&raw const memledger_test_signed, &raw const memledger_test_signed_with_b];
    let saved = |cfa| Rule::Call { cfa, ra: Ra::FromCfa(-40), fp: Fp::FromCfa(-48) };
    let kept = Rule::Call { cfa: Cfa::Sp(0), ra: Ra::Kept, fp: Fp::Kept };
    let rules =
        [(0, kept), (4, kept), (8, saved(Cfa::Sp(48))), (16, saved(Cfa::Fp(48))), (28, kept)];
    for signed in signed {
        for (offset, rule) in rules {
            assert_eq!(at(&own, signed.addr() as u64 + offset), rule, "{offset}");
        }
    }
    let marked = (&raw const memledger_test_marked_as_signal).addr() as u64;
    let rule = Rule::Call { cfa: Cfa::Sp(64), ra: Ra::Kept, fp: Fp::FromCfa(-24) };
    assert_eq!(at(&own, marked + 1), rule);
}

/// The functions of the C library are described by rules that have room in a code.
#[cfg(target_env = "gnu")]
#[test]
fn nearly_all_code_of_the_c_library_has_a_rule() {
    let libc = rows_of(|path| path.contains("libc.so"));
    let known = libc.iter().filter(|(_, rule)| *rule != Rule::None).count();
    assert!(known > 10_000 && libc.len() - known < known / 100, "{known} of {}", libc.len());
}
