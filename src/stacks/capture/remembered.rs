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
use super::rule::{Cfa, Rbp, Rule};
use super::sampler::Sampler;
use crate::platform::os;
use crate::stacks::tree::{self, COMPLETE, Frame, NO_TABLE, TOO_DEEP, UNREADABLE};
use std::cell::Cell;
use std::ptr::NonNull;

/// The maximum number of frames of a stack: Unreal's.
pub(crate) const MAX_FRAMES: usize = 255;
/// The maximum number of words that a walk reads in one frame: the return address, the saved `rbp`,
/// and the CFA.
const MAX_WORDS: usize = 3;

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

/// One frame of a walk.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    registers: Registers,
    /// What the walk has read to find the caller: the return address, `rbp`, the CFA. An address of
    /// 0 is none.
    words: [Word; MAX_WORDS],
    module: u16,
    /// Whether the caller's registers depend on this frame's `rbp`.
    rule_uses_rbp: bool,
    /// Whether the caller's `rbp` is this frame's.
    keeps_rbp: bool,
}

/// One frame of the remembered stack.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    registers: Registers,
    /// The node of the stack that ends with this frame.
    node: u32,
    /// The number of words that the walk from this frame outwards depends on: the first in `words`.
    words: u16,
    /// Whether the walk from this frame on depends on its `rbp`.
    uses_rbp: bool,
}

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
    frames: [Cell<Remembered>; MAX_FRAMES],
    words: [Cell<Word>; MAX_FRAMES * MAX_WORDS],
    /// The frames of the present walk that are not remembered, innermost first.
    walked: [Cell<Step>; MAX_FRAMES],
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
        let Ok((_, registers)) = step(own, &mut reader) else { return NO_TABLE };
        self.walk(registers, limit.clamp(1, MAX_FRAMES), &mut reader)
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
            while candidate > 0 && self.frames[candidate - 1].get().registers.rsp < at.rsp {
                candidate -= 1;
            }
            if candidate > 0 && self.frames[candidate - 1].get().is_at(at) {
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
            match step(at, reader) {
                Ok((step, caller)) => {
                    self.walked[walked].set(step);
                    walked += 1;
                    at = caller;
                }
                Err(End { root, module }) => {
                    if at.return_address == 0 {
                        break (0, COMPLETE);
                    }
                    // The frame itself is part of the stack.
                    let last = Step { registers: at, module, ..Step::default() };
                    self.walked[walked].set(last);
                    walked += 1;
                    break (0, root);
                }
            }
        };
        self.remember(kept, walked, root, limit, reader.is_own())
    }

    /// The number of remembered frames, from the outermost on, none of whose words has changed;
    /// looks at the first `frames` only.
    #[inline(always)]
    fn unchanged(&self, frames: usize) -> usize {
        let count = usize::from(self.frames[frames - 1].get().words);
        let is_changed = |word: &Cell<Word>| {
            let Word { address, value } = word.get();
            // SAFETY: remembered words are aligned, and on this thread's own stack above the stack
            // pointer: the part that was checked, which stays mapped.
            (unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_volatile() })
                != value
        };
        let Some(words) = self.words.get(..count) else { return 0 };
        // PERF: without a branch for each word.
        let changed = words.iter().fold(false, |changed, word| changed | is_changed(word));
        if !changed {
            return frames;
        }
        let first = words.iter().position(is_changed).unwrap_or(0);
        self.frames.iter().take_while(|frame| usize::from(frame.get().words) <= first).count()
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
        let (mut node, mut words, mut uses_rbp) = match kept {
            0 => (root, 0, false),
            _ => {
                let outer = self.frames[kept - 1].get();
                (outer.node, outer.words, outer.uses_rbp)
            }
        };
        for (i, step) in self.walked[..walked].iter().rev().enumerate() {
            let step = step.get();
            node = tree::child(node, Frame::new(step.registers.return_address as u64, step.module));
            let [return_address, rbp, cfa] = step.words;
            // The caller's `rbp` was read here, and matters only if the walk needed it.
            for (word, is_needed) in [(return_address, true), (rbp, uses_rbp), (cfa, true)] {
                if is_needed && word.address != 0 {
                    self.words[usize::from(words)].set(word);
                    words += 1;
                }
            }
            uses_rbp = step.rule_uses_rbp || step.keeps_rbp && uses_rbp;
            self.frames[kept + i].set(Remembered {
                registers: step.registers,
                node,
                words,
                uses_rbp,
            });
        }
        self.len.set(if is_own { kept + walked } else { 0 });
        node
    }

    /// Drops `surplus` of the first `kept` frames, at the outer end; returns how many are left.
    #[cold]
    fn drop_outermost(&self, kept: usize, surplus: usize) -> usize {
        let surplus = surplus.min(kept);
        let first_word = match surplus {
            0 => 0,
            _ => self.frames[surplus - 1].get().words,
        };
        let mut node = TOO_DEEP;
        for i in surplus..kept {
            let frame = self.frames[i].get();
            node = tree::child(node, tree::frame(frame.node));
            self.frames[i - surplus].set(Remembered {
                node,
                words: frame.words - first_word,
                ..frame
            });
        }
        let words = self.frames[kept - 1].get().words;
        for i in usize::from(first_word)..usize::from(words) {
            self.words[i - usize::from(first_word)].set(self.words[i].get());
        }
        kept - surplus
    }
}

impl Remembered {
    #[inline(always)]
    fn is_at(self, at: Registers) -> bool {
        self.registers.rsp == at.rsp
            && self.registers.return_address == at.return_address
            && (!self.uses_rbp || self.registers.rbp == at.rbp)
    }
}

/// Why a walk ends.
struct End {
    root: u32,
    module: u16,
}

/// One step outwards: what was read, and the caller's registers.
#[inline(always)]
fn step(at: Registers, reader: &mut StackReader<'_>) -> Result<(Step, Registers), End> {
    let lookup::Found { rule, module } = lookup::find(at.return_address as u64);
    let end = |root| Err(End { root, module });
    let Rule::Call { cfa, rbp } = rule else {
        return match rule {
            Rule::Outermost => end(COMPLETE),
            Rule::Signal => step_over_signal(at, module, reader),
            _ => end(NO_TABLE),
        };
    };
    let mut step = Step { registers: at, module, ..Step::default() };
    let cfa = match cfa {
        Cfa::Rsp(distance) => at.rsp.wrapping_add_signed(distance as isize),
        Cfa::Rbp(distance) => {
            step.rule_uses_rbp = true;
            at.rbp.wrapping_add_signed(distance as isize)
        }
        Cfa::AtRbp(distance) => {
            step.rule_uses_rbp = true;
            let address = at.rbp.wrapping_add_signed(distance as isize);
            let Some(value) = reader.word(address) else { return end(UNREADABLE) };
            step.words[2] = Word { address, value };
            value
        }
    };
    if cfa <= at.rsp {
        // No frame is below the one it has called.
        return end(UNREADABLE);
    }
    let address = cfa - 8;
    let Some(return_address) = reader.word(address) else { return end(UNREADABLE) };
    step.words[0] = Word { address, value: return_address };
    let rbp_address = match rbp {
        Rbp::Kept => None,
        Rbp::FromCfa(distance) => Some(cfa.wrapping_add_signed(distance.into())),
        Rbp::FromOwn(distance) => {
            step.rule_uses_rbp = true;
            Some(at.rbp.wrapping_add_signed(distance.into()))
        }
    };
    let rbp = match rbp_address {
        None => {
            step.keeps_rbp = true;
            at.rbp
        }
        Some(address) => {
            let Some(value) = reader.word(address) else { return end(UNREADABLE) };
            step.words[1] = Word { address, value };
            value
        }
    };
    Ok((step, Registers { return_address, rsp: cfa, rbp }))
}

/// A signal handler returns to `at`: the registers of the interrupted code are in the kernel's
/// `ucontext`, at the stack pointer (`struct rt_sigframe` in Linux's `arch/x86`).
#[cold]
fn step_over_signal(
    at: Registers,
    module: u16,
    reader: &mut StackReader<'_>,
) -> Result<(Step, Registers), End> {
    const RBP: usize = 120;
    const RSP: usize = 160;
    const RIP: usize = 168;
    let mut step = Step { registers: at, module, ..Step::default() };
    let mut read = [0; MAX_WORDS];
    for (i, offset) in [RIP, RBP, RSP].into_iter().enumerate() {
        let address = at.rsp.wrapping_add(offset);
        let Some(value) = reader.word(address) else {
            return Err(End { root: UNREADABLE, module });
        };
        step.words[i] = Word { address, value };
        read[i] = value;
    }
    let [rip, rbp, rsp] = read;
    // Not a return address: the rule of the instruction itself holds.
    Ok((step, Registers { return_address: rip.wrapping_add(1), rsp, rbp }))
}

#[cfg(test)]
mod tests;
