//! What unwind information says on x86-64 only.

use super::*;
use crate::stacks::capture::processor::Ra;

// A function that the assembler marks as one that signal handlers return to, although it is
// none: the first frame of a coroutine's stack in `corosensei` looks like this.
std::arch::global_asm!(
    "memledger_test_marked_as_signal:",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_def_cfa_offset 64",
    ".cfi_offset rbp, -24",
    ".skip 16, 0x90",
    ".cfi_endproc",
    // Entries of a procedure linkage table, with what linkers say of them.
    ".balign 16",
    "memledger_test_plt:",
    ".cfi_startproc",
    ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22",
    ".skip 48, 0x90",
    ".cfi_endproc",
);

unsafe extern "C" {
    static memledger_test_marked_as_signal: u8;
    static memledger_test_plt: u8;
}

#[test]
fn only_the_form_of_the_kernels_frame_makes_a_signal_frame() {
    let program = std::env::current_exe().unwrap();
    let own = rows_of(|path| *path == *program.to_string_lossy());
    let marked = (&raw const memledger_test_marked_as_signal).addr() as u64;
    let rule = Rule::Call { cfa: Cfa::Sp(64), ra: Ra, fp: Fp::FromCfa(-24) };
    assert_eq!(at(&own, marked + 1), rule);
    let libc = rows_of(|path| path.contains("libc.so"));
    assert_eq!(libc.iter().filter(|(_, rule)| *rule == Rule::Signal).count(), 1);
}

#[test]
fn an_entry_of_a_procedure_linkage_table_has_two_rules() {
    let program = std::env::current_exe().unwrap();
    let own = rows_of(|path| *path == *program.to_string_lossy());
    let plt = (&raw const memledger_test_plt).addr() as u64;
    for (offset, distance) in [(0, 8), (10, 8), (11, 16), (15, 16), (16, 8), (42, 8), (43, 16)] {
        let rule = Rule::Call { cfa: Cfa::Sp(distance), ra: Ra, fp: Fp::Kept };
        assert_eq!(at(&own, plt + offset), rule, "{offset}");
    }
}
