//! Code for the tests, on x86-64.

// Code without unwind information, but for the functions that have `.cfi_startproc`.
std::arch::global_asm!(
    ".globl memledger_test_frame_pointer, memledger_test_nested, memledger_test_after_nested",
    ".globl memledger_test_no_frame_pointer, memledger_test_any_fp, memledger_test_after_function",
    ".globl memledger_test_after_jump, memledger_test_forms, memledger_test_calls, memledger_test_no_calls",
    ".globl memledger_test_with_frame_pointer, memledger_test_forms_end, memledger_test_within_function",
    // Calls its first argument: with a frame pointer, without one, and with its second argument in `fp`.
    "memledger_test_frame_pointer:",
    "push rbp",
    "mov rbp, rsp",
    "call rdi",
    "pop rbp",
    "ret",
    "memledger_test_nested:",
    "push rbp",
    "mov rbp, rsp",
    "call memledger_test_frame_pointer",
    "memledger_test_after_nested:",
    "pop rbp",
    "ret",
    "memledger_test_no_frame_pointer:",
    "sub rsp, 24",
    "call rdi",
    "add rsp, 24",
    "ret",
    "memledger_test_any_fp:",
    "push rbp",
    "mov rbp, rsi",
    "call rdi",
    "pop rbp",
    "ret",
    // With a table: a function that makes a frame pointer, one that makes none, and calls of both.
    "memledger_test_with_frame_pointer:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "call rdi",
    "memledger_test_within_function:",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    "memledger_test_jump:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    "jmp memledger_test_frame_pointer",
    ".cfi_endproc",
    "call memledger_test_with_frame_pointer",
    "memledger_test_after_function:",
    "call memledger_test_jump",
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
    "memledger_test_calls:",
    ".popsection",
    "memledger_test_forms:",
    "memledger_test_forms_of call rax",
    "memledger_test_forms_of call r12",
    "memledger_test_forms_of call [rax]",
    "memledger_test_forms_of call [r12]",
    "memledger_test_forms_of call [rbp]",
    "memledger_test_forms_of call [rbx + 8]",
    "memledger_test_forms_of call [rsp + 8]",
    "memledger_test_forms_of call [rbx + 0x1000]",
    "memledger_test_forms_of call [r13 + 0x1000]",
    "memledger_test_forms_of call [rsp + 0x1000]",
    "memledger_test_forms_of call [rip + 0x1000]",
    "memledger_test_forms_of call [rax + rbx * 8]",
    "memledger_test_forms_of call [rbp + rbx * 8]",
    "memledger_test_forms_of call [rbx * 8 + 0x1000]",
    "memledger_test_forms_of call fs:[0x10]",
    "memledger_test_forms_of call memledger_test_frame_pointer",
    ".pushsection .rodata",
    "memledger_test_no_calls:",
    ".popsection",
    ".irp instruction, \"jmp rax\", \"push [rip + 0x1000]\", \"inc eax\", \"call fword ptr [rax]\", \"mov rax, rbx\", \"ret\"",
    ".skip 8, 0x90",
    "memledger_test_forms_of \\instruction",
    ".endr",
    ".pushsection .rodata",
    "memledger_test_forms_end:",
    ".popsection",
);

/// The distance of a return address in `memledger_test_frame_pointer`, and the size of its first instruction.
pub(super) const IN_FUNCTION: usize = 6;
pub(super) const INSTRUCTION: usize = 1;

/// How many forms are calls, and how many there are; which one is a direct call.
pub(super) const CALLS: (usize, usize) = (16, 22);
pub(super) const DIRECT: usize = 15;

/// A word that ends with `call rax`.
pub(super) const CALL: u64 = 0xd0ff << 48;

/// `push rbp; mov rbp, rsp; call rdi; pop rbp; ret`, a frame that is larger, and code that leaves `rbp`
/// alone, whose return address is that of the first: `push rax; nop; nop; nop; call rdi; pop rax; ret`.
pub(super) const JIT: [&[u8]; 3] = [
    &[0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3],
    &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x50, 0xff, 0xd7, 0x58, 0x5b, 0x5d, 0xc3],
    &[0x50, 0x90, 0x90, 0x90, 0xff, 0xd7, 0x58, 0xc3],
];

/// The distances of a return address in the first and of another place.
pub(super) const IN_JIT: [usize; 2] = [6, 9];

/// Makes the processor see code that was written.
pub(super) fn clear_cache(_: *mut u8, _: usize) {}
