//! Which code is followed by frame pointers, and how far.

use super::*;
#[cfg_attr(target_arch = "aarch64", path = "tests/aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "tests/x86_64.rs")]
mod code;

use crate::stacks::capture::memory::{OwnStack, Word};
use crate::stacks::capture::refresh_modules;
use crate::stacks::capture::remembered::Memory;
use crate::stacks::tree::{self, COMPLETE, NO_TABLE, UNREADABLE};
use code::{CALL, CALLS, DIRECT, IN_FUNCTION, IN_JIT, INSTRUCTION, JIT, clear_cache};
use memledger_format::callstacks::GUESS;
use std::cell::Cell;
use std::ptr::NonNull;

unsafe extern "C" {
    fn memledger_test_with_frame_pointer(call: extern "C" fn());
    fn memledger_test_frame_pointer(call: extern "C" fn());
    fn memledger_test_nested(call: extern "C" fn());
    fn memledger_test_no_frame_pointer(call: extern "C" fn());
    fn memledger_test_any_fp(call: extern "C" fn(), fp: usize);
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
    let numbers = loop {
        let generation = lookup::generation();
        let mut numbers = Vec::new();
        // NOTE: one call for both, so not unrolled.
        for _ in 0..std::hint::black_box(2) {
            call();
            numbers.push(TAKEN.get().0);
        }
        // NOTE: while another test changes the list of modules, code in no module gets another number. The
        // generation is odd meanwhile.
        if generation.is_multiple_of(2) && lookup::generation() == generation {
            break numbers;
        }
    };
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
    for fp in [0, 1, 8, at, at + 4, heap.as_ptr().addr(), loops.as_ptr().addr(), usize::MAX - 7] {
        // SAFETY: it calls the function.
        let (frames, proved, end) = taken(|| unsafe { memledger_test_any_fp(take, fp) });
        assert_eq!((frames.len(), proved, end), (1, 1, NO_TABLE), "{fp:x}");
    }
    // A frame that is its own caller's.
    let own = [const { Cell::new(0) }; 2];
    own[0].set(own.as_ptr().addr());
    own[1].set((&raw const memledger_test_after_nested).addr());
    let fp = own[0].get();
    // SAFETY: as above.
    let (frames, proved, end) = taken(|| unsafe { memledger_test_any_fp(take, fp) });
    assert_eq!((&frames[1..], proved, end), (&[own[1].get() as u64][..], 1, NO_TABLE));
    // SAFETY: as above.
    let (frames, proved, _) = taken(|| unsafe { memledger_test_no_frame_pointer(take) });
    assert!(proved == 1 && !frames.is_empty());
}

/// What is remembered of a stack that ends in such code depends on `fp` and on the return address above it.
#[test]
fn a_stack_that_ends_is_not_taken_for_one_that_goes_on() {
    let after = (&raw const memledger_test_after_nested).addr();
    let frame = [const { Cell::new(0) }; 2];
    let at = frame.as_ptr().addr();
    let ends =
        [(0, after), (at, after), (0, after), (at, 1), (at, after), (at, 1)].map(|(fp, word)| {
            frame[1].set(word);
            // SAFETY: it calls the function.
            taken(|| unsafe { memledger_test_any_fp(take, fp) }).0.len()
        });
    assert_eq!(ends, [1, 2, 1, 1, 2, 1]);
}

/// A library that the list does not have yet may have tables.
#[test]
fn code_in_no_module_may_be_in_a_new_library() {
    refresh_modules().unwrap();
    let own =
        lookup::find(((memledger_test_frame_pointer as *const ()).addr() + IN_FUNCTION) as u64);
    let none = lookup::find(0x1111_5555_0004);
    let loads = os::loads().wrapping_sub(7);
    assert!(lookup::is_without_table(own, loads) && !lookup::is_without_table(none, loads));
    assert!((0..1000).any(|_| lookup::is_without_table(none, os::loads())));
}

/// Memory of the main thread's stack, or what is as good: above this thread's stack.
fn above_this_stack() -> usize {
    let main = os::main_stack_end() - 64;
    let here = Registers::here().sp;
    // Emulators have the main thread's stack at the bottom.
    let other = if main > here { main } else { std::mem::ManuallyDrop::new(Page::at(0)).0.addr() };
    assert!(other > here);
    other
}

/// A frame that a guess leads to is read only if it is on the thread's own stack.
#[test]
fn after_a_guess_no_other_memory_is_read() {
    let within = (&raw const memledger_test_within_function).addr();
    let other = above_this_stack();
    let frame = [Cell::new(other), Cell::new(within)];
    let fp = frame.as_ptr().addr();
    // SAFETY: it calls the function.
    let (frames, proved, end) = taken(|| unsafe { memledger_test_any_fp(take, fp) });
    assert_eq!((&frames[1..], proved, end), (&[within as u64][..], 1, UNREADABLE));
}

/// The frame at these words of a stack, for a frame whose stack pointer is that of the word `above`.
fn frame_at(words: &[usize], fp: usize, above: usize) -> Result<Registers, Option<Registers>> {
    let own = OwnStack::default();
    let mut reader = StackReader::new(&own, Registers::here().sp);
    let return_address = (memledger_test_frame_pointer as *const ()).addr() + IN_FUNCTION;
    let sp = words.as_ptr().addr() + 8 * above;
    caller(Registers::new(Word { address: 0, value: return_address }, sp, fp), &mut reader)
}

#[test]
fn a_frame_must_be_proved() {
    refresh_modules().unwrap();
    let after = (&raw const memledger_test_after_nested).addr();
    let words = std::hint::black_box([7, after, 9, after]);
    let at = words.as_ptr().addr();
    assert_eq!(frame_at(&words, at, 0), Ok(Registers::of_record(at, after, 7)));
    assert_eq!(frame_at(&words, at + 16, 1), Ok(Registers::of_record(at + 16, after, 9)));
    assert_eq!(frame_at(&words, at, 1), Err(None), "it is below the stack pointer");
    assert_eq!(frame_at(&words, at + 4, 0), Err(None), "it is no multiple of 8");
    assert_eq!(frame_at(&words, above_this_stack(), 0), Err(None), "it is another thread's");
    // Code on the stack, data, and code after another instruction.
    let bytes = std::hint::black_box([CALL, 0]);
    let data: &'static [u64; 2] = Box::leak(Box::new([CALL, 0]));
    static DATA: [AtomicU64; 2] = [AtomicU64::new(CALL), AtomicU64::new(0)];
    let start = (memledger_test_frame_pointer as *const ()).addr();
    let with_table = (&raw const memledger_test_after_function).addr();
    for return_address in [
        0,
        8,
        bytes.as_ptr().addr() + 8,
        DATA.as_ptr().addr() + 8,
        start + INSTRUCTION,
        start + IN_FUNCTION - 2,
        after + 1,
        with_table,
        1 << 47 | after,
    ] {
        let words = std::hint::black_box([7, return_address, 0, 0]);
        let at = words.as_ptr().addr();
        let expected = Registers::of_record(at, return_address, 7);
        for _ in 0..2 {
            assert_eq!(frame_at(&words, at, 0), Err(Some(expected)), "{return_address:x}");
        }
    }
    assert!(
        follows_call(data.as_ptr().addr() + 8, false),
        "in no module, what can be executed is not known"
    );
    assert!(follows_call((&raw const memledger_test_after_jump).addr(), false));
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
    assert_eq!((count, all.len()), CALLS);
    for (number, offset) in all.iter().enumerate() {
        let found = processor::call_before(start + *offset as usize);
        let target = (memledger_test_frame_pointer as *const ()).addr();
        let expected = match number {
            DIRECT => Some(Call::Direct(target)),
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
            clear_cache(self.0, code.len());
            assert_eq!(libc::mprotect(self.0.cast(), 4096, libc::PROT_READ | libc::PROT_EXEC), 0);
            let call = std::mem::transmute::<*mut u8, extern "C" fn(extern "C" fn())>(self.0);
            call(take);
            // NOTE: no tail call: the code would return to a call of this function, which makes a frame
            // pointer.
            std::hint::black_box(());
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: nothing uses the page.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

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
        let words = std::hint::black_box([7, address + IN_JIT[0], 0, 0]);
        let _ = frame_at(&words, words.as_ptr().addr(), 0);
        let words = std::hint::black_box([7, address + IN_JIT[1], 0, 0]);
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
