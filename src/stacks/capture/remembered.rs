//! The stack of an allocation, found by means of the thread's previous one.
//!
//! A walk goes from the innermost frame outwards. It depends on nothing but the registers at its
//! start and the words of the stack that it reads. So a walk that reaches the registers of a frame
//! of the previous walk, at the same place, continues as that one did, if all words that the
//! previous walk read from there on are unchanged. Most allocations differ from the previous one in
//! one or two frames: only those are walked, and the words of the others are compared.
//!
//! ```text
//!            previous walk                   this walk
//! outermost  main          ┐ words unchanged  main           ┐ taken over,
//!            run           │                  run            ┘ with their node of the tree
//!            parse         ┘                  print          ┐ walked
//! innermost  grow                             format         ┘
//! ```
//! Walks up to the remembered stack are kept, too ([`Recent`]), so most need not be walked again.

use super::memory::{OwnStack, StackReader};
use super::recent::{Joint, Recent};
use super::sampler::Sampler;
use super::step::{CONTINUES, Registers, Step, Word, caller_of};
use super::{lookup, step};
use crate::platform::os;
use crate::stacks::tree::{
    self, COMPLETE, Frame, LIBRARY_CHANGED, NO_TABLE, OTHER_STACK, TOO_DEEP, UNREADABLE,
};
use std::cell::Cell;
use std::ptr::NonNull;

/// The maximum number of frames of a stack: Unreal's.
pub(crate) const MAX_FRAMES: usize = 255;
/// The maximum number of words that decide how a frame leads to its caller: the return address, the
/// saved `rbp`, and the CFA.
const MAX_WORDS: usize = 3;

/// One frame of the remembered stack. All bytes are 0 at first.
///
/// PERF: each field is a cell, as those of [`Step`].
struct Remembered {
    return_address: Cell<usize>,
    rsp: Cell<usize>,
    rbp: Cell<usize>,
    /// The node of the stack that ends with this frame.
    node: Cell<u32>,
    /// The number of words that the walk from this frame outwards depends on: the first in `words`.
    words: Cell<u16>,
    /// Whether the walk from this frame on depends on its `rbp`.
    uses_rbp: Cell<bool>,
}

/// An entry of a thread's cache of the tree. All bytes are 0 at first.
struct KnownChild {
    frame: Cell<u64>,
    parent: Cell<u32>,
    child: Cell<u32>,
}

/// The number of entries of that cache.
const KNOWN_CHILDREN: usize = 2048;

/// What remembered stacks depend on, besides registers and words of memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Basis {
    /// The number of the thread, because another thread can take over the memory.
    thread: u32,
    /// That of the list of modules.
    generation: u32,
    /// The maximum number of frames of a stack; 0 if nothing may be remembered.
    limit: u32,
    /// [`os::unloads`]
    unloads: u32,
}

/// What a thread remembers. All bytes are 0 at first.
///
/// PERF: in this order, so that what each event reads is in few lines of the cache.
#[repr(C, align(64))]
pub(super) struct Memory {
    pub(super) sampler: Sampler,
    basis: Cell<Basis>,
    own: OwnStack,
    /// The number of remembered frames, 0 if no stack is remembered.
    len: Cell<usize>,
    /// The root of the remembered stack.
    root: Cell<u32>,
    recent: Recent,
    /// Outermost first.
    frames: [Remembered; MAX_FRAMES],
    words: [Cell<Word>; MAX_FRAMES * MAX_WORDS],
    /// The frames of the present walk that are not remembered, innermost first.
    walked: [Step; MAX_FRAMES],
    known: [KnownChild; KNOWN_CHILDREN],
}

impl Memory {
    /// New memory, or `None` if the system has none.
    #[cold]
    pub(super) fn map() -> Option<NonNull<Self>> {
        os::map(size_of::<Self>()).map(NonNull::cast)
    }

    /// Forgets all that depends on the nodes of the tree.
    #[cold]
    pub(super) fn forget(&self) {
        self.basis.set(Basis::default());
        self.known.iter().for_each(|known| known.parent.set(0));
    }

    /// Forgets what depends on another basis. Returns whether the list of modules has all that can be on a stack: not
    /// if the loader has unloaded a library since it was read.
    #[cold]
    #[inline(never)]
    fn begin(&self, basis: Basis) -> bool {
        if self.basis.replace(basis).thread != basis.thread {
            self.own.reset();
        }
        self.len.set(0);
        self.recent.forget();
        let is_listed = lookup::is_listed(basis.unloads);
        if !is_listed {
            self.basis.set(Basis { limit: 0, ..basis });
        }
        is_listed
    }

    /// The `CallstackId` of the stack from the caller of the function on that has these registers, in
    /// the thread with this number. A stack has at most `limit` frames, which is at most
    /// [`MAX_FRAMES`].
    #[inline(always)]
    pub(super) fn stack_id(&self, own: &Registers, thread: u32, limit: u32) -> u32 {
        let (generation, unloads) = (lookup::generation(), os::unloads());
        let basis = Basis { thread, generation, limit, unloads };
        if self.basis.get() != basis && !self.begin(basis) {
            return self.walk_in_lasting(own, (limit as usize).clamp(1, MAX_FRAMES));
        }
        let mut reader = StackReader::new(&self.own, own.rsp);
        let Some(start) = caller_of(*own, &mut reader) else { return tree::stack_id(NO_TABLE) };
        if reader.is_own()
            && let Some(stack_id) = self.recent_stack(start)
        {
            return stack_id;
        }
        self.walk(start, (limit as usize).clamp(1, MAX_FRAMES), &mut reader)
    }

    /// The same up to the first frame in code that can be unloaded: where one library was, another can be.
    #[cold]
    #[inline(never)]
    fn walk_in_lasting(&self, own: &Registers, limit: usize) -> u32 {
        let mut reader = StackReader::new(&self.own, own.rsp);
        let Some(mut at) = caller_of(*own, &mut reader) else { return tree::stack_id(NO_TABLE) };
        let mut walked = 0;
        let root = loop {
            if at.return_address == 0 {
                break COMPLETE;
            }
            if walked == limit {
                break TOO_DEEP;
            }
            let Some(found) = lookup::find_lasting(at.return_address as u64) else {
                break LIBRARY_CHANGED;
            };
            let (caller, root) = self.step(walked).take_by(found, at, &mut reader);
            walked += 1;
            if root != CONTINUES {
                break root;
            }
            at = caller;
        };
        let outermost_first = self.walked.iter().take(walked).rev();
        tree::stack_id(outermost_first.fold(root, |node, step| tree::child(node, step.frame())))
    }

    /// The stack from these registers on, if a recent walk has begun there and would arrive at the
    /// same stack again.
    #[inline(always)]
    fn recent_stack(&self, start: Registers) -> Option<u32> {
        let walk = self.recent.find(start)?;
        let mut changed = walk.changed;
        if walk.joint.kept != 0 {
            if walk.joint.kept > self.len.get() || self.joint(walk.joint.kept) != walk.joint {
                return None;
            }
            changed |= step::changed_bits(self.words_of(self.frame(walk.joint.kept - 1)));
        }
        (changed == 0).then_some(walk.stack_id)
    }

    #[inline(never)]
    fn walk(&self, start: Registers, limit: usize, reader: &mut StackReader) -> u32 {
        if !reader.is_own() {
            // NOTE: the words of a remembered stack are compared without a check, so all of them
            // are on the thread's own stack, and so is the walk that looks for them.
            self.len.set(0);
        }
        let mut at = start;
        let mut candidate = self.len.get();
        // The number of remembered frames, from the outermost on, that are unchanged, once known.
        let mut unchanged = None;
        let mut walked = 0;
        let (kept, root, outer) = loop {
            // A frame further out has a higher stack pointer.
            while candidate > 0 && self.frame(candidate - 1).rsp.get() < at.rsp {
                candidate -= 1;
            }
            if candidate > 0 && self.frame(candidate - 1).is_at(at) {
                let unchanged = *unchanged.get_or_insert_with(|| self.unchanged(candidate));
                // NOTE: a remembered stack that was too deep lacks its outermost frames, so it can
                // only be continued to one that is too deep, too.
                let is_usable = self.root.get() != TOO_DEEP || candidate + walked >= limit;
                if candidate <= unchanged && is_usable {
                    break (candidate, self.root.get(), Some(at));
                }
                // PERF: the walk cannot arrive further in, so frames there are not compared. Whether
                // they are equal would be a branch for each, which no processor predicts.
                candidate = candidate.min(unchanged);
            }
            if at.return_address == 0 {
                break (0, COMPLETE, Some(at));
            }
            if walked == limit {
                break (0, TOO_DEEP, Some(at));
            }
            let (caller, root) = self.step(walked).take(at, reader);
            walked += 1;
            if root != CONTINUES {
                break (0, root, None);
            }
            at = caller;
        };
        if root == UNREADABLE {
            // Which memory can be read is no word of the stack.
            reader.set_not_own();
        }
        let kept = self.remember(kept, walked, root, limit, outer);
        let Some(last) = self.len.get().checked_sub(1).map(|last| self.frame(last)) else {
            return tree::stack_id(root);
        };
        let stack_id = tree::stack_id(last.node.get());
        if !reader.is_own() {
            self.len.set(0);
        } else if stack_id != OTHER_STACK {
            self.add_recent(start, last, kept, stack_id);
        }
        stack_id
    }

    /// Adds the walk from `start` to the recent ones. `kept` frames were known before it.
    #[inline(always)]
    fn add_recent(&self, start: Registers, last: &Remembered, kept: usize, stack_id: u32) {
        let outer = match kept {
            0 => 0,
            _ => self.words_of(self.frame(kept - 1)).len(),
        };
        let words = self.words_of(last).get(outer..).unwrap_or_default();
        self.recent.add(start, last.uses_rbp.get(), words, self.joint(kept), stack_id);
    }

    // NOTE: the hook must not panic. Numbers are always within the arrays; the compiler does not know
    // that, and a minimum costs less than a check.

    #[inline(always)]
    fn frame(&self, number: usize) -> &Remembered {
        &self.frames[number.min(MAX_FRAMES - 1)]
    }

    #[inline(always)]
    fn word(&self, number: usize) -> &Cell<Word> {
        &self.words[number.min(MAX_FRAMES * MAX_WORDS - 1)]
    }

    #[inline(always)]
    fn step(&self, number: usize) -> &Step {
        &self.walked[number.min(MAX_FRAMES - 1)]
    }

    /// The last of the first `kept` frames, as the joint of a walk.
    #[inline(always)]
    fn joint(&self, kept: usize) -> Joint {
        if kept == 0 {
            return Joint::default();
        }
        let frame = self.frame(kept - 1);
        let rbp = if frame.uses_rbp.get() { frame.rbp.get() } else { 0 };
        Joint { kept, node: frame.node.get(), rsp: frame.rsp.get(), rbp }
    }

    /// The words that the walk from this frame outwards depends on.
    #[inline(always)]
    fn words_of(&self, frame: &Remembered) -> &[Cell<Word>] {
        self.words.get(..frame.words.get().into()).unwrap_or_default()
    }

    /// The number of remembered frames, from the outermost on, that lead to one another as they did;
    /// looks at the first `frames` only, of which the last is the present frame.
    #[inline(always)]
    fn unchanged(&self, frames: usize) -> usize {
        let words = self.words_of(self.frame(frames - 1));
        if step::changed_bits(words) == 0 { frames } else { self.unchanged_slow(words) }
    }

    #[cold]
    fn unchanged_slow(&self, words: &[Cell<Word>]) -> usize {
        let is_same = |word: &&Cell<Word>| step::changed_bits(std::slice::from_ref(*word)) == 0;
        let same = words.iter().take_while(is_same).count();
        self.frames.iter().take_while(|frame| usize::from(frame.words.get()) <= same).count()
    }

    /// Replaces the remembered frames from `kept` on by those that were walked; `outer` are the
    /// registers of the outermost one's caller, if the walk has read them. Returns how many frames
    /// were kept.
    #[inline(always)]
    fn remember(
        &self,
        kept: usize,
        walked: usize,
        root: u32,
        limit: usize,
        mut outer: Option<Registers>,
    ) -> usize {
        let (mut kept, mut root) = (kept, root);
        if kept + walked > limit {
            kept = self.drop_outermost(kept, kept + walked - limit);
            root = TOO_DEEP;
        }
        self.root.set(root);
        let (mut node, mut words, mut uses_rbp) = match kept {
            0 => (root, 0, false),
            _ => {
                let last = self.frame(kept - 1);
                (last.node.get(), last.words.get(), last.uses_rbp.get())
            }
        };
        for (i, step) in self.walked.iter().take(walked).rev().enumerate() {
            node = self.child(node, step.frame());
            let mut add = |word| {
                self.word(words.into()).set(word);
                words += 1;
            };
            let rbp_address = step.rbp_address();
            if let Some(outer) = outer {
                add(outer.return_word());
                // The caller's `rbp` matters only if the walk needed it.
                if let Some(address) = rbp_address.filter(|_| uses_rbp) {
                    add(Word { address, value: outer.rbp });
                }
            }
            if let Some(word) = step.cfa_word() {
                add(word);
            }
            uses_rbp = step.uses_rbp() || rbp_address.is_none() && uses_rbp;
            let registers = step.registers();
            outer = Some(registers);
            let frame = self.frame(kept + i);
            frame.return_address.set(registers.return_address);
            frame.rsp.set(registers.rsp);
            frame.rbp.set(registers.rbp);
            frame.node.set(node);
            frame.words.set(words);
            frame.uses_rbp.set(uses_rbp);
        }
        self.len.set(kept + walked);
        kept
    }

    /// Does what [`tree::child`] does. PERF: a table of the thread, because that of the process is
    /// spread over many pages.
    #[inline(always)]
    fn child(&self, parent: u32, frame: Frame) -> u32 {
        let bits = frame.bits();
        // PERF: the parent is known last, because it is the child of the frame before.
        let index = bits ^ bits >> 9 ^ bits >> 18;
        let known = &self.known[(index as usize ^ parent as usize) % KNOWN_CHILDREN];
        if known.frame.get() == bits && known.parent.get() == parent {
            return known.child.get();
        }
        let child = tree::child(parent, frame);
        known.frame.set(bits);
        known.parent.set(parent);
        known.child.set(child);
        child
    }

    /// Drops `surplus` of the first `kept` frames, at the outer end; returns how many are left.
    #[cold]
    fn drop_outermost(&self, kept: usize, surplus: usize) -> usize {
        let surplus = surplus.min(kept);
        let first_word = match surplus {
            0 => 0,
            _ => self.frame(surplus - 1).words.get(),
        };
        let last_word = self.frame(kept - 1).words.get();
        let mut node = TOO_DEEP;
        for i in surplus..kept {
            let (from, to) = (self.frame(i), self.frame(i - surplus));
            node = tree::child(node, tree::frame(from.node.get()));
            to.return_address.set(from.return_address.get());
            to.rsp.set(from.rsp.get());
            to.rbp.set(from.rbp.get());
            to.node.set(node);
            to.words.set(from.words.get() - first_word);
            to.uses_rbp.set(from.uses_rbp.get());
        }
        for i in usize::from(first_word)..usize::from(last_word) {
            self.word(i - usize::from(first_word)).set(self.word(i).get());
        }
        kept - surplus
    }
}

impl Remembered {
    #[inline(always)]
    fn is_at(&self, at: Registers) -> bool {
        self.rsp.get() == at.rsp
            && self.return_address.get() == at.return_address
            && (!self.uses_rbp.get() || self.rbp.get() == at.rbp)
    }
}

#[cfg(test)]
mod tests;
