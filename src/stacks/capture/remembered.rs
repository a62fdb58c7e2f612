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
#![expect(unsafe_code, reason = "the memory of a thread's walk is raw pages")]

use super::lookup;
use super::memory::{OwnStack, StackReader, thread_pointer};
use super::rule::{Cfa, Packed, Rbp, Rule};
use super::sampler::Sampler;
use crate::platform::os;
use crate::stacks::tree::{self, COMPLETE, Frame, NO_TABLE, TOO_DEEP, UNREADABLE};
use std::cell::Cell;
use std::ptr::NonNull;

/// The maximum number of frames of a stack: Unreal's.
pub(crate) const MAX_FRAMES: usize = 255;
/// The maximum number of words, besides return addresses, that decide how a frame leads to its
/// caller: the saved `rbp`, and the CFA.
const MAX_WORDS: usize = 2;

/// The registers in a function, at a call or at an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The return address of the call, or the address after the instruction's first byte.
    pub(crate) return_address: usize,
    pub(crate) rsp: usize,
    pub(crate) rbp: usize,
}

impl Registers {
    /// Those of the function that this is inlined into.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let (ip, rsp, rbp): (usize, usize, usize);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {ip}, [rip]",
                "mov {sp}, rsp",
                "mov {bp}, rbp",
                ip = out(reg) ip,
                sp = out(reg) rsp,
                bp = out(reg) rbp,
                options(nomem, nostack, preserves_flags),
            );
        }
        Self { return_address: ip, rsp, rbp }
    }
}

/// A word of the stack that a walk has read.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    address: usize,
    value: usize,
}

// PERF: the fields of the next structures are cells, each of which is stored and loaded by itself. A
// load of two fields at once would wait until the stores of both have left the store buffer.

/// One frame of a walk. All bytes are 0 at first.
struct Step {
    return_address: Cell<usize>,
    rsp: Cell<usize>,
    rbp: Cell<usize>,
    /// Where the walk has read the caller's `rbp`; 0 if the caller's is this frame's.
    rbp_address: Cell<usize>,
    /// The word that is the CFA, if the rule says so: then `has_cfa_word`.
    cfa_word: Cell<Word>,
    module: Cell<u16>,
    has_cfa_word: Cell<bool>,
    /// Whether the caller's registers depend on this frame's `rbp`.
    rule_uses_rbp: Cell<bool>,
}

/// One frame of the remembered stack. All bytes are 0 at first.
struct Remembered {
    return_address: Cell<usize>,
    rsp: Cell<usize>,
    rbp: Cell<usize>,
    /// The node of the stack that ends with this frame.
    node: Cell<u32>,
    /// The number of words, besides return addresses, that the walk from this frame outwards depends
    /// on: the first in `words`.
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
const KNOWN_CHILDREN: usize = 512;

/// How far a return address is below the stack pointer of the frame that it leads to, in bytes.
const RETURN_ADDRESS: usize = 8;

/// What a thread remembers. All bytes are 0 at first.
pub(super) struct Memory {
    /// The thread pointer of the thread that this memory is for.
    thread: Cell<usize>,
    pub(super) sampler: Sampler,
    own: OwnStack,
    /// The number of frames, 0 if none is remembered.
    len: Cell<usize>,
    /// The root of the remembered stack.
    root: Cell<u32>,
    /// Outermost first.
    frames: [Remembered; MAX_FRAMES],
    words: [Cell<Word>; MAX_FRAMES * MAX_WORDS],
    /// The frames of the present walk that are not remembered, innermost first. The last entry is for
    /// the tracker's own function, from which the walk starts.
    walked: [Step; MAX_FRAMES + 1],
    known: [KnownChild; KNOWN_CHILDREN],
}

impl Memory {
    /// New memory, or `None` if the system has none.
    #[cold]
    pub(super) fn map() -> Option<NonNull<Self>> {
        os::map(size_of::<Self>()).map(NonNull::cast)
    }

    fn begin_thread(&self, thread: usize) {
        self.thread.set(thread);
        self.own.reset();
        self.len.set(0);
    }

    /// The node of the stack from the caller of the function on that has these registers. A stack
    /// has at most `limit` frames, which is at most [`MAX_FRAMES`].
    #[inline(always)]
    pub(super) fn stack(&self, own: Registers, limit: usize) -> u32 {
        let thread = thread_pointer();
        if self.thread.get() != thread {
            self.begin_thread(thread);
        }
        let mut reader = StackReader::new(&self.own, own.rsp);
        if !reader.is_own() {
            // NOTE: the words of a remembered stack are compared without a check, so all of them
            // are on the thread's own stack, and so is the walk that looks for them.
            self.len.set(0);
        }
        let Ok(caller) = self.walked_frame(MAX_FRAMES).step(own, &mut reader) else {
            return NO_TABLE;
        };
        self.walk(caller, limit.clamp(1, MAX_FRAMES), &mut reader)
    }

    #[inline(always)]
    fn walk(&self, start: Registers, limit: usize, reader: &mut StackReader<'_>) -> u32 {
        let mut at = start;
        let mut candidate = self.len.get();
        // The number of remembered frames, from the outermost on, that are unchanged, once known.
        let mut unchanged = None;
        let mut walked = 0;
        let (kept, root) = loop {
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
                    break (candidate, self.root.get());
                }
            }
            if walked == limit {
                break (0, TOO_DEEP);
            }
            match self.walked_frame(walked).step(at, reader) {
                Ok(caller) => {
                    walked += 1;
                    at = caller;
                }
                Err(_) if at.return_address == 0 => break (0, COMPLETE),
                Err(root) => {
                    // The frame itself is part of the stack.
                    walked += 1;
                    break (0, root);
                }
            }
        };
        self.remember(kept, walked, root, limit, reader.is_own())
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
    fn walked_frame(&self, number: usize) -> &Step {
        &self.walked[number.min(MAX_FRAMES)]
    }

    /// The number of remembered frames, from the outermost on, that lead to one another as they did;
    /// looks at the first `frames` only.
    #[inline(always)]
    fn unchanged(&self, frames: usize) -> usize {
        // A frame's return address is the word below its stack pointer: its call has put it there.
        // That of the last frame was compared with the registers of this walk.
        let outer = &self.frames.get(..frames - 1).unwrap_or_default();
        let words = usize::from(self.frame(frames - 1).words.get());
        let words = self.words.get(..words).unwrap_or_default();
        // PERF: without a branch for each word.
        let returns = outer.iter().fold(0, |changed, frame| changed | frame.changed_bits());
        let others = words.iter().fold(0, |changed, word| changed | word.get().changed_bits());
        if returns | others == 0 { frames } else { self.unchanged_slow(outer, words) }
    }

    #[cold]
    fn unchanged_slow(&self, outer: &[Remembered], words: &[Cell<Word>]) -> usize {
        let returns = outer.iter().take_while(|frame| frame.changed_bits() == 0).count() + 1;
        let same = words.iter().take_while(|word| word.get().changed_bits() == 0).count();
        let others = self.frames.iter().take_while(|frame| usize::from(frame.words.get()) <= same);
        returns.min(others.count())
    }

    /// Replaces the remembered frames from `kept` on by those that were walked; returns the node of
    /// the innermost frame.
    #[inline(always)]
    fn remember(&self, kept: usize, walked: usize, root: u32, limit: usize, is_own: bool) -> u32 {
        let mut kept = kept;
        let mut root = root;
        if kept + walked > limit {
            let surplus = kept + walked - limit;
            kept = self.drop_outermost(kept, surplus);
            root = TOO_DEEP;
        }
        self.root.set(root);
        let (mut node, mut words, mut uses_rbp, mut caller_rbp) = match kept {
            0 => (root, 0, false, 0),
            _ => {
                let outer = self.frame(kept - 1);
                (outer.node.get(), outer.words.get(), outer.uses_rbp.get(), outer.rbp.get())
            }
        };
        for (i, step) in self.walked.iter().take(walked).rev().enumerate() {
            let return_address = step.return_address.get();
            node = self.child(node, Frame::new(return_address as u64, step.module.get()));
            // The caller's `rbp` was read here, and matters only if the walk needed it.
            let rbp_address = step.rbp_address.get();
            if uses_rbp && rbp_address != 0 {
                self.word(words.into()).set(Word { address: rbp_address, value: caller_rbp });
                words += 1;
            }
            if step.has_cfa_word.get() {
                self.word(words.into()).set(step.cfa_word.get());
                words += 1;
            }
            uses_rbp = step.rule_uses_rbp.get() || rbp_address == 0 && uses_rbp;
            caller_rbp = step.rbp.get();
            let frame = self.frame(kept + i);
            frame.return_address.set(return_address);
            frame.rsp.set(step.rsp.get());
            frame.rbp.set(caller_rbp);
            frame.node.set(node);
            frame.words.set(words);
            frame.uses_rbp.set(uses_rbp);
        }
        self.len.set(if is_own { kept + walked } else { 0 });
        node
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

/// The bits in which the word at `address` differs from `value`. The address is that of a remembered
/// word.
#[inline(always)]
fn changed_bits(address: usize, value: usize) -> usize {
    // SAFETY: remembered words are aligned, and on this thread's own stack: they were read there,
    // in the part that was checked, which stays mapped.
    let now = unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_volatile() };
    now ^ value
}

impl Word {
    #[inline(always)]
    fn changed_bits(self) -> usize {
        changed_bits(self.address, self.value)
    }
}

impl Remembered {
    /// The bits in which the frame's return address has changed in memory.
    #[inline(always)]
    fn changed_bits(&self) -> usize {
        changed_bits(self.rsp.get() - RETURN_ADDRESS, self.return_address.get())
    }

    #[inline(always)]
    fn is_at(&self, at: Registers) -> bool {
        self.rsp.get() == at.rsp
            && self.return_address.get() == at.return_address
            && (!self.uses_rbp.get() || self.rbp.get() == at.rbp)
    }
}

impl Step {
    /// One step outwards: notes what is read, and returns the caller's registers, or the root if the
    /// walk ends.
    #[inline(always)]
    fn step(&self, at: Registers, reader: &mut StackReader<'_>) -> Result<Registers, u32> {
        let lookup::Found { rule, module } = lookup::find(at.return_address as u64);
        self.return_address.set(at.return_address);
        self.rsp.set(at.rsp);
        self.rbp.set(at.rbp);
        self.module.set(module);
        self.has_cfa_word.set(false);
        if rule.is_simple() {
            return self.simple_call(at, rule, reader).ok_or(UNREADABLE);
        }
        self.rbp_address.set(0);
        self.rule_uses_rbp.set(false);
        match rule.rule() {
            Rule::Call { cfa, rbp } => self.call(at, cfa, rbp, reader).ok_or(UNREADABLE),
            Rule::Outermost => Err(COMPLETE),
            Rule::Signal => step_over_signal(at, reader).ok_or(UNREADABLE),
            Rule::None => Err(NO_TABLE),
        }
    }

    /// PERF: no branch depends on the rule.
    #[inline(always)]
    fn simple_call(
        &self,
        at: Registers,
        rule: Packed,
        reader: &mut StackReader<'_>,
    ) -> Option<Registers> {
        let base = if rule.is_from_rbp() { at.rbp } else { at.rsp };
        let cfa = base.wrapping_add_signed(rule.cfa());
        self.rule_uses_rbp.set(rule.is_from_rbp());
        let rbp_address = cfa.wrapping_add_signed(rule.rbp());
        self.rbp_address.set(if rule.saves_rbp() { rbp_address } else { 0 });
        if cfa <= at.rsp {
            // No frame is below the one it has called.
            return None;
        }
        let address = cfa - RETURN_ADDRESS;
        let return_address = reader.word(address)?;
        // If `rbp` is not saved, this reads the return address again.
        let saved = reader.word(if rule.saves_rbp() { rbp_address } else { address })?;
        let rbp = if rule.saves_rbp() { saved } else { at.rbp };
        Some(Registers { return_address, rsp: cfa, rbp })
    }

    #[cold]
    #[inline(never)]
    fn call(
        &self,
        at: Registers,
        cfa: Cfa,
        rbp: Rbp,
        reader: &mut StackReader<'_>,
    ) -> Option<Registers> {
        let cfa = match cfa {
            Cfa::Rsp(distance) => at.rsp.wrapping_add_signed(distance as isize),
            Cfa::Rbp(distance) => {
                self.rule_uses_rbp.set(true);
                at.rbp.wrapping_add_signed(distance as isize)
            }
            Cfa::AtRbp(distance) => {
                self.rule_uses_rbp.set(true);
                let address = at.rbp.wrapping_add_signed(distance as isize);
                let value = reader.word(address)?;
                self.cfa_word.set(Word { address, value });
                self.has_cfa_word.set(true);
                value
            }
        };
        if cfa <= at.rsp {
            return None;
        }
        let return_address = reader.word(cfa - RETURN_ADDRESS)?;
        let rbp_address = match rbp {
            Rbp::Kept => return Some(Registers { return_address, rsp: cfa, rbp: at.rbp }),
            Rbp::FromCfa(distance) => cfa.wrapping_add_signed(distance.into()),
            Rbp::FromOwn(distance) => {
                self.rule_uses_rbp.set(true);
                at.rbp.wrapping_add_signed(distance.into())
            }
        };
        self.rbp_address.set(rbp_address);
        Some(Registers { return_address, rsp: cfa, rbp: reader.word(rbp_address)? })
    }
}

/// A signal handler returns to `at`: the registers of the interrupted code are in the kernel's
/// `ucontext`, at the stack pointer (`struct rt_sigframe` in Linux's `arch/x86`).
#[cold]
#[inline(never)]
fn step_over_signal(at: Registers, reader: &mut StackReader<'_>) -> Option<Registers> {
    const RBP: usize = 120;
    const RSP: usize = 160;
    const RIP: usize = 168;
    // NOTE: such a stack is not remembered: the interrupted code has no return address below its
    // stack pointer.
    reader.set_not_own();
    let rip = reader.word(at.rsp.wrapping_add(RIP))?;
    let rbp = reader.word(at.rsp.wrapping_add(RBP))?;
    let rsp = reader.word(at.rsp.wrapping_add(RSP))?;
    // Not a return address: the rule of the instruction itself holds.
    Some(Registers { return_address: rip.wrapping_add(1), rsp, rbp })
}

#[cfg(test)]
mod tests;
