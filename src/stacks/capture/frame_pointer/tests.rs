use super::*;
use crate::stacks::capture::memory::OwnStack;
use crate::stacks::capture::refresh_modules;
use crate::stacks::capture::remembered::Memory;
use crate::stacks::tree::{self, COMPLETE, NO_TABLE, UNREADABLE};
use memledger_format::callstacks::GUESS;
use std::cell::Cell;
use std::ptr::NonNull;

// Code without unwind information, but for the functions that have `.cfi_startproc`.
std::arch::global_asm!(
    ".globl memledger_test_frame_pointer, memledger_test_nested, memledger_test_after_nested",
    ".globl memledger_test_no_frame_pointer, memledger_test_any_rbp, memledger_test_after_function",
    ".globl memledger_test_after_jump, memledger_test_forms, memledger_test_calls, memledger_test_no_calls",
    ".globl memledger_test_with_frame_pointer, memledger_test_forms_end, memledger_test_within_function",
    // Calls its first argument: with a frame pointer, without one, and with its second argument in `rbp`.
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
    "memledger_test_any_rbp:",
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

unsafe extern "C" {
    fn memledger_test_with_frame_pointer(call: extern "C" fn());
    fn memledger_test_frame_pointer(call: extern "C" fn());
    fn memledger_test_nested(call: extern "C" fn());
    fn memledger_test_no_frame_pointer(call: extern "C" fn());
    fn memledger_test_any_rbp(call: extern "C" fn(), rbp: usize);
    static memledger_test_after_nested: u8;
    static memledger_test_after_function: u8;
    static memledger_test_within_function: u8;
    static memledger_test_after_jump: u8;
    static memledger_test_forms: u8;
    static memledger_test_calls: u32;
    static memledger_test_no_calls: u32;
    static memledger_test_forms_end: u32;
}

/// A stack: its frames, how many of them are proved, and its end.
type Taken = (Vec<u64>, usize, u32);

thread_local!(static TAKEN: Cell<(u32, Option<NonNull<Memory>>)> = const { Cell::new((0, None)) });

/// Takes the stack of its caller, with what the thread remembers.
#[inline(never)]
extern "C" fn take() {
    let memory = TAKEN.get().1.unwrap_or_else(|| Memory::map().unwrap());
    // SAFETY: the memory is never unmapped, and only this thread uses it.
    let number = unsafe { memory.as_ref() }.stack_id(&Registers::here(), 1, 255);
    TAKEN.set((number, Some(memory)));
}

/// Twice, from one place: the second time, the first is remembered if it may be.
fn taken(call: impl Fn()) -> Taken {
    refresh_modules().unwrap();
    let mut numbers = Vec::new();
    // NOTE: one call for both, so not unrolled.
    for _ in 0..std::hint::black_box(2) {
        call();
        numbers.push(TAKEN.get().0);
    }
    assert_eq!(numbers[0], numbers[1]);
    let (mut frames, root) = tree::tests::frames(numbers[0]);
    let proved = frames.iter().take_while(|frame| **frame & GUESS == 0).count();
    frames.iter_mut().for_each(|frame| *frame &= !GUESS);
    (frames, proved, root)
}

/// That the stack of a call is that of this function, and has a number of frames more, the outermost of which
/// are guesses.
fn assert_continues(call: impl Fn(), proved: usize) {
    let (outer, all, end) = taken(|| take());
    assert_eq!((outer.len(), end), (all, COMPLETE));
    let (whole, found, end) = taken(call);
    // The frame of the closure differs in its return address, and that of `taken` may.
    assert!(whole.ends_with(&outer[3..]), "{whole:x?} {outer:x?}");
    assert_eq!((found, end), (proved, COMPLETE), "{whole:x?} {outer:x?}");
}

#[test]
fn a_stack_goes_on_by_a_proved_frame_pointer() {
    // SAFETY: it calls the function.
    assert_continues(|| unsafe { memledger_test_frame_pointer(take) }, 1);
    // SAFETY: as above.
    assert_continues(|| unsafe { memledger_test_nested(take) }, 1);
}

#[test]
fn code_with_any_frame_pointer_has_no_wrong_frame_without_a_mark() {
    let heap = [0_usize; 2].map(|_| (&raw const memledger_test_after_nested).addr()).to_vec();
    let own = [0_usize, 0, 1, 2];
    let loops = Cell::new(0);
    loops.set(loops.as_ptr().addr());
    let at = own.as_ptr().addr();
    for rbp in [0, 1, 8, at, at + 4, heap.as_ptr().addr(), loops.as_ptr().addr(), usize::MAX - 7] {
        // SAFETY: it calls the function.
        let (frames, proved, end) = taken(|| unsafe { memledger_test_any_rbp(take, rbp) });
        assert_eq!((frames.len(), proved, end), (1, 1, NO_TABLE), "{rbp:x}");
    }
    // A frame that is its own caller's.
    let own = [const { Cell::new(0) }; 2];
    own[0].set(own.as_ptr().addr());
    own[1].set((&raw const memledger_test_after_nested).addr());
    let rbp = own[0].get();
    // SAFETY: as above.
    let (frames, proved, end) = taken(|| unsafe { memledger_test_any_rbp(take, rbp) });
    assert_eq!((&frames[1..], proved, end), (&[own[1].get() as u64][..], 1, NO_TABLE));
    // SAFETY: as above.
    let (frames, proved, _) = taken(|| unsafe { memledger_test_no_frame_pointer(take) });
    assert!(proved == 1 && !frames.is_empty());
}

/// What is remembered of a stack that ends in such code depends on `rbp` and on the return address above it.
#[test]
fn a_stack_that_ends_is_not_taken_for_one_that_goes_on() {
    let after = (&raw const memledger_test_after_nested).addr();
    let frame = [const { Cell::new(0) }; 2];
    let at = frame.as_ptr().addr();
    let ends =
        [(0, after), (at, after), (0, after), (at, 1), (at, after), (at, 1)].map(|(rbp, word)| {
            frame[1].set(word);
            // SAFETY: it calls the function.
            taken(|| unsafe { memledger_test_any_rbp(take, rbp) }).0.len()
        });
    assert_eq!(ends, [1, 2, 1, 1, 2, 1]);
}

/// A library that the list does not have yet may have tables.
#[test]
fn code_in_no_module_may_be_in_a_new_library() {
    refresh_modules().unwrap();
    let own = lookup::find((memledger_test_frame_pointer as *const ()).addr() as u64 + 6);
    let none = lookup::find(0x1111_5555_0006);
    let loads = os::loads().wrapping_sub(7);
    assert!(lookup::is_without_table(own, loads) && !lookup::is_without_table(none, loads));
    assert!((0..1000).any(|_| lookup::is_without_table(none, os::loads())));
}

/// A frame that a guess leads to is read only if it is on the thread's own stack.
#[test]
fn after_a_guess_no_other_memory_is_read() {
    let within = (&raw const memledger_test_within_function).addr();
    // The stack of another thread, and above this one.
    let other = os::main_stack_end() - 64;
    let frame = [Cell::new(other), Cell::new(within)];
    let rbp = frame.as_ptr().addr();
    // SAFETY: it calls the function.
    let (frames, proved, end) = taken(|| unsafe { memledger_test_any_rbp(take, rbp) });
    assert!(other > rbp);
    assert_eq!((&frames[1..], proved, end), (&[within as u64][..], 1, UNREADABLE));
}

/// The frame at these words of a stack, for a frame whose stack pointer is that of the word `above`.
fn frame_at(words: &[usize], rbp: usize, above: usize) -> Result<Registers, Option<Registers>> {
    let own = OwnStack::default();
    let mut reader = StackReader::new(&own, Registers::here().rsp);
    let return_address = (memledger_test_frame_pointer as *const ()).addr() + 6;
    let rsp = words.as_ptr().addr() + 8 * above;
    caller(Registers { return_address, rsp, rbp }, &mut reader)
}

#[test]
fn a_frame_must_be_proved() {
    refresh_modules().unwrap();
    let after = (&raw const memledger_test_after_nested).addr();
    let words = std::hint::black_box([7, after, 9, after]);
    let at = words.as_ptr().addr();
    let found = Registers { return_address: after, rsp: at + 16, rbp: 7 };
    assert_eq!(frame_at(&words, at, 0), Ok(found));
    assert_eq!(frame_at(&words, at + 16, 1), Ok(Registers { rsp: at + 32, rbp: 9, ..found }));
    assert_eq!(frame_at(&words, at, 1), Err(None), "it is below the stack pointer");
    assert_eq!(frame_at(&words, at + 4, 0), Err(None), "it is no multiple of 8");
    let other = os::main_stack_end() - 64;
    assert!(other > at && frame_at(&words, other, 0) == Err(None), "it is another thread's");
    // Code on the stack, data, and code after another instruction.
    let bytes = std::hint::black_box([0xd0ff_u64 << 48, 0]);
    let data: &'static [u64; 2] = Box::leak(Box::new([0xd0ff << 48, 0]));
    static CALL: [u64; 2] = [0xd0ff << 48, 0];
    let start = (memledger_test_frame_pointer as *const ()).addr();
    let with_table = (&raw const memledger_test_after_function).addr();
    for return_address in [
        0,
        8,
        bytes.as_ptr().addr() + 8,
        CALL.as_ptr().addr() + 8,
        start + 1,
        start + 4,
        after + 1,
        with_table,
        1 << 47 | after,
    ] {
        let words = std::hint::black_box([7, return_address, 0, 0]);
        let at = words.as_ptr().addr();
        let expected = Registers { return_address, rsp: at + 16, rbp: 7 };
        for _ in 0..2 {
            assert_eq!(frame_at(&words, at, 0), Err(Some(expected)), "{return_address:x}");
        }
    }
    assert!(
        follows_call(data.as_ptr().addr() + 8),
        "in no module, what can be executed is not known"
    );
    assert!(follows_call((&raw const memledger_test_after_jump).addr()));
}

#[test]
fn all_forms_of_calls_are_known_and_no_other_instruction() {
    let start = (&raw const memledger_test_forms).addr();
    let [calls, others, end] = [
        &raw const memledger_test_calls,
        &raw const memledger_test_no_calls,
        &raw const memledger_test_forms_end,
    ];
    // SAFETY: the assembler has written them one after the other.
    let all = unsafe { std::slice::from_raw_parts(calls, end.offset_from_unsigned(calls)) };
    // SAFETY: as above.
    let count = unsafe { others.offset_from_unsigned(calls) };
    assert_eq!((count, all.len()), (16, 22));
    for (number, offset) in all.iter().enumerate() {
        let found = call_before(start + *offset as usize);
        let target = (memledger_test_frame_pointer as *const ()).addr();
        let expected = match number {
            15 => Some(Call::Direct(target)),
            number => (number < count).then_some(Call::Indirect),
        };
        assert_eq!(found, expected, "{number}");
    }
}

/// Memory for code.
struct Page(*mut u8);

impl Page {
    fn at(address: usize) -> Self {
        let (write, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
        let address = std::ptr::without_provenance_mut(address);
        // SAFETY: new memory.
        let page = unsafe { libc::mmap(address, 4096, write, flags | fixed, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        Self(page.cast())
    }

    /// Calls code at the start of the page, which calls its first argument.
    fn call(&self, code: &[u8]) {
        // SAFETY: the code fits, and is a function that calls its argument.
        unsafe {
            assert_eq!(libc::mprotect(self.0.cast(), 4096, libc::PROT_READ | libc::PROT_WRITE), 0);
            self.0.copy_from_nonoverlapping(code.as_ptr(), code.len());
            assert_eq!(libc::mprotect(self.0.cast(), 4096, libc::PROT_READ | libc::PROT_EXEC), 0);
            let call = std::mem::transmute::<*mut u8, extern "C" fn(extern "C" fn())>(self.0);
            call(take);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: nothing uses the page.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

/// `push rbp; mov rbp, rsp; call rdi; pop rbp; ret`, a frame that is larger, and code that leaves `rbp`
/// alone, whose return address is that of the first: `push rax; nop; nop; nop; call rdi; pop rax; ret`.
const JIT: [&[u8]; 3] = [
    &[0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3],
    &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x50, 0xff, 0xd7, 0x58, 0x5b, 0x5d, 0xc3],
    &[0x50, 0x90, 0x90, 0x90, 0xff, 0xd7, 0x58, 0xc3],
];

#[test]
fn code_that_is_made_at_run_time_has_frame_pointers_or_ends_a_stack() {
    let mut address = 0;
    for _ in 0..3 {
        let page = Page::at(address);
        address = page.0.addr();
        assert_continues(|| page.call(JIT[0]), 1);
        assert_continues(|| page.call(JIT[1]), 1);
        let (frames, proved, _) = taken(|| page.call(JIT[2]));
        assert!(proved == 1 && !frames.is_empty());
        drop(page);
        // The code is gone, and its return addresses are still on the stack.
        let words = std::hint::black_box([7, address + 6, 0, 0]);
        let _ = frame_at(&words, words.as_ptr().addr(), 0);
        let words = std::hint::black_box([7, address + 9, 0, 0]);
        assert!(frame_at(&words, words.as_ptr().addr(), 0).is_err());
    }
}

/// What a stack costs through a function with a table and through one without: the first, and each of many.
/// For instructions, `valgrind --tool=callgrind --toggle-collect='*takes_with*'` counts both, and
/// `'*takes_without*'` the second.
#[test]
#[ignore = "a measurement: cargo test -p memledger --lib what_a_stack_costs -- --ignored --nocapture"]
fn what_a_stack_costs() {
    const TAKES: u32 = 100_000;
    #[inline(never)]
    fn deep(depth: usize, call: &dyn Fn()) {
        if depth == 0 {
            call()
        } else {
            deep(depth - 1, call)
        }
        std::hint::black_box(());
    }
    #[inline(never)]
    fn takes_with(times: u32) {
        // SAFETY: it calls the function.
        (0..times).for_each(|_| unsafe { memledger_test_with_frame_pointer(take) });
    }
    #[inline(never)]
    fn takes_without(times: u32) {
        // SAFETY: as above.
        (0..times).for_each(|_| unsafe { memledger_test_frame_pointer(take) });
    }
    taken(|| take());
    for (name, takes) in [("with a table", takes_with as fn(u32)), ("without", takes_without)] {
        deep(20, &|| {
            let timed = |times| {
                let start = std::time::Instant::now();
                takes(times);
                start.elapsed().as_nanos() / u128::from(times)
            };
            let (first, each, frames) = (timed(1), timed(TAKES), taken(|| take()).0.len());
            println!("{name}: first {first} ns, then {each} ns; {frames} frames further out");
        });
    }
}
