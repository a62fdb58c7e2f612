//! The inner parts of a thread's recent stacks.
//!
//! An entry is the walk from the registers of the allocator's caller up to a frame of the remembered
//! stack: the words that this walk has read. If they are unchanged, it would arrive there again, so
//! nothing is walked. A program that allocates at the same places again and again, at the same
//! depth of its stack, finds most of its stacks here.
//!
//! ```text
//! remembered stack   main ── run ── parse ── array ── object ── string
//! recent walks                        └────── number ── grow
//!                               └──── write ── flush
//! ```
//! Entries and words are overwritten by later ones; an entry whose words may be overwritten does
//! not count.

use super::step::{Registers, Word, changed_bits};
use std::cell::Cell;

const ENTRIES: usize = 512;
const WORDS: usize = 4096;
/// The maximum number of words of an entry.
const MAX_LEN: usize = 256;

/// All bytes are 0 at first: no walk starts at a stack pointer of 0. PERF: one line of the cache.
#[repr(align(64))]
struct Entry {
    return_address: Cell<usize>,
    rsp: Cell<usize>,
    rbp: Cell<usize>,
    /// The position of its first word. Positions count all words ever; that of index `i` of the
    /// words is `i` modulo [`WORDS`].
    begin: Cell<u64>,
    /// Where the walk arrives.
    joint_rsp: Cell<usize>,
    joint_rbp: Cell<usize>,
    joint_node: Cell<u32>,
    stack_id: Cell<u32>,
    len: Cell<u16>,
    kept: Cell<u16>,
    /// Whether the walk depends on `rbp`.
    uses_rbp: Cell<bool>,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The frame of the remembered stack at which a walk arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Joint {
    /// The number of remembered frames from the outermost up to this one; 0 if the walk has reached
    /// the end of the stack.
    pub(super) kept: usize,
    pub(super) node: u32,
    pub(super) rsp: usize,
    /// 0 if the rest of the stack does not depend on it.
    pub(super) rbp: usize,
}

/// A walk that was taken before.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) joint: Joint,
    pub(super) stack_id: u32,
    /// The bits in which words of the walk have changed.
    pub(super) changed: usize,
}

/// The recent walks of a thread. All bytes are 0 at first.
#[repr(C)]
pub(super) struct Recent {
    /// The position of the next word.
    next: Cell<u64>,
    entries: [Entry; ENTRIES],
    words: [Cell<Word>; WORDS],
}

impl Recent {
    pub(super) fn forget(&self) {
        self.next.set(self.next.get() + 2 * WORDS as u64);
    }

    #[inline(always)]
    fn entry(&self, start: Registers) -> &Entry {
        let mixed = (start.return_address ^ start.rsp << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.entries[(mixed >> (usize::BITS - 9)) % ENTRIES]
    }

    /// The last walk from these registers. The words of its entries must be readable.
    #[inline(always)]
    pub(super) fn find(&self, start: Registers) -> Option<Walk> {
        let entry = self.entry(start);
        let begin = entry.begin.get();
        if entry.rsp.get() != start.rsp
            || entry.return_address.get() != start.return_address
            || self.next.get() - begin > WORDS as u64
        {
            return None;
        }
        let begin = begin as usize % WORDS;
        let words = self.words.get(begin..begin + usize::from(entry.len.get()));
        // PERF: a mask, no branch.
        let rbp = (start.rbp ^ entry.rbp.get()) & usize::from(entry.uses_rbp.get()).wrapping_neg();
        Some(Walk {
            joint: Joint {
                kept: entry.kept.get().into(),
                node: entry.joint_node.get(),
                rsp: entry.joint_rsp.get(),
                rbp: entry.joint_rbp.get(),
            },
            stack_id: entry.stack_id.get(),
            changed: rbp | changed_bits(words.unwrap_or_default()),
        })
    }

    /// Adds a walk that has read these words and, if `uses_rbp`, depends on `start.rbp`.
    pub(super) fn add(
        &self,
        start: Registers,
        uses_rbp: bool,
        words: &[Cell<Word>],
        joint: Joint,
        stack_id: u32,
    ) {
        let len = words.len();
        if len > MAX_LEN {
            return;
        }
        let mut begin = self.next.get();
        let index = begin as usize % WORDS;
        if index + len > WORDS {
            // Words of one entry are next to each other.
            begin += (WORDS - index) as u64;
        }
        let from = begin as usize % WORDS;
        for (to, word) in self.words.iter().skip(from).zip(words) {
            to.set(word.get());
        }
        self.next.set(begin + len as u64);
        let entry = self.entry(start);
        entry.return_address.set(start.return_address);
        entry.rsp.set(start.rsp);
        entry.rbp.set(start.rbp);
        entry.begin.set(begin);
        entry.joint_rsp.set(joint.rsp);
        entry.joint_rbp.set(joint.rbp);
        entry.joint_node.set(joint.node);
        entry.stack_id.set(stack_id);
        entry.len.set(len as u16);
        entry.kept.set(joint.kept as u16);
        entry.uses_rbp.set(uses_rbp);
    }
}
