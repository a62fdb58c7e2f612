//! Tables and walks over any memory, for the fuzzers.

use super::memory;
use super::processor::Registers;
use super::remembered::Memory;
use super::{eh_frame, refresh_modules};
use crate::platform::os;
use std::sync::OnceLock;

/// The addresses where a rule begins, for the bytes of `.eh_frame` and their address.
pub fn unwind_rows(section: &[u8], address: u64) -> Vec<u64> {
    eh_frame::rows(section, address, &[]).into_iter().map(|(address, _)| address).collect()
}

/// The address of `.eh_frame`, from the bytes of `.eh_frame_hdr` and their address.
pub fn section_address(header: &[u8], address: u64) -> Option<u64> {
    eh_frame::elf::section_address(header, address)
}

/// `.eh_frame` of each file that is loaded.
pub fn unwind_sections() -> Vec<Vec<u8>> {
    let Ok(memory) = os::Memory::open() else { return Vec::new() };
    let Ok((files, _)) = os::loaded_files(&memory, |_, _| false) else { return Vec::new() };
    let sections = files.iter().filter_map(|file| eh_frame::elf::section_of(&memory, file));
    sections.map(|(bytes, _)| bytes).collect()
}

/// The number of words of the stack that is walked.
pub const WORDS: usize = 64;

/// A word of a stack, or a register.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// This value.
    Value(u64),
    /// The address of this word of the stack, plus some bytes.
    Stack(usize, usize),
    /// An address in this program's code.
    Code(usize),
}

/// What changes before a walk, and the registers at its start.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The index of a word of the stack, and what it becomes.
    pub changed: (usize, Word),
    /// The return address into the function.
    pub return_address: Word,
    /// The stack pointer.
    pub sp: Word,
    /// The frame pointer.
    pub fp: Word,
    /// The maximum number of frames.
    pub limit: u8,
}

/// The first address of a function, and some bytes of its code.
fn code(offset: usize) -> usize {
    static KNOWN: OnceLock<()> = OnceLock::new();
    KNOWN.get_or_init(|| drop(refresh_modules()));
    // Functions of different forms.
    let functions = [
        unwind_sections as *const (),
        walks as *const (),
        section_address as *const (),
        libc::qsort as *const (),
        libc::printf as *const (),
    ];
    functions[offset % functions.len()].addr() + offset / functions.len() % 64
}

fn new_memory() -> Box<Memory> {
    // SAFETY: zeroed bytes are valid.
    unsafe { Box::<Memory>::new_zeroed().assume_init() }
}

/// Walks over the same words after each step, with what the thread remembers of the walk before, and
/// with nothing remembered; returns the numbers of both. `is_own`: the words are on the thread's own
/// stack.
pub fn walks(words: &[Word; WORDS], is_own: bool, steps: &[Step]) -> Vec<(u32, u32)> {
    let mut on_stack = [0_usize; WORDS];
    let mut on_heap = vec![0_usize; WORDS];
    let stack = if is_own { &mut on_stack[..] } else { &mut on_heap[..] };
    let base = stack.as_mut_ptr().expose_provenance();
    let value = |word: Word| match word {
        Word::Value(value) => value as usize,
        Word::Stack(index, bytes) => base + index % WORDS * 8 + bytes % 8,
        Word::Code(offset) => code(offset),
    };
    for (to, word) in stack.iter_mut().zip(words) {
        *to = value(*word);
    }
    let helped = new_memory();
    let walk = |step: &Step, stack: &mut [usize]| {
        let (index, word) = step.changed;
        stack[index % WORDS] = value(word);
        std::hint::black_box(&mut *stack);
        let return_word = memory::Word { address: 0, value: value(step.return_address) };
        let at = Registers::new(return_word, value(step.sp), value(step.fp));
        let limit = step.limit.into();
        (helped.stack_id(&at, 1, limit), new_memory().stack_id(&at, 1, limit))
    };
    steps.iter().map(|step| walk(step, stack)).collect()
}
