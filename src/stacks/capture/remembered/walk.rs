//! The walk of a stack that is not found otherwise, and what a thread remembers of it.

use super::{MAX_FRAMES, Memory, WORDS};
use crate::stacks::capture::chains::{Condition, Kind, MAX_LEN};
use crate::stacks::capture::memory::StackReader;
use crate::stacks::capture::step::{CONTINUES, Registers, Step, Word, caller_of};
use crate::stacks::capture::{lookup, step};
use crate::stacks::tree::{self, COMPLETE, LIBRARY_CHANGED, NO_TABLE, Place, TOO_DEEP, UNREADABLE};
use std::sync::atomic::{AtomicU64, Ordering};

impl Memory {
    /// The same up to the first frame in code that can be unloaded: where one library was, another can be.
    #[cold]
    #[inline(never)]
    pub(super) fn walk_in_lasting(&self, own: &Registers, limit: usize) -> u32 {
        let mut reader = StackReader::new(&self.own, own.rsp);
        let Some(mut at) = caller_of(*own, &mut reader) else { return NO_TABLE };
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
        let new = self.list_new(0, walked);
        tree::find_or_add(Place::root(root), new, 0).number
    }

    #[inline(never)]
    pub(super) fn walk(&self, start: Registers, limit: usize, reader: &mut StackReader) -> u32 {
        if !reader.is_own() {
            // NOTE: the words of a remembered stack are compared without a check, so all of them
            // are on the thread's own stack, and so is the walk that looks for them.
            self.set_len(0);
        }
        let mut at = start;
        let mut candidate = self.frame_before(step::unchanged(&self.words, start.rsp));
        let mut walked = 0;
        let (joint, root, outer) = loop {
            // A frame further out has a higher stack pointer.
            while let Some(frame) = candidate
                && self.registers(frame).rsp < at.rsp
            {
                candidate = self.frame_before(frame);
            }
            // NOTE: a remembered stack that was too deep lacks its outermost frames, so it can
            // only be continued to one that is too deep, too.
            if let Some(frame) = candidate
                && self.is_at(frame, at)
                && (self.root.get() != TOO_DEEP || self.frames_up_to(frame) + walked >= limit)
            {
                break (candidate, self.root.get(), Some(at));
            }
            if at.return_address == 0 {
                break (None, COMPLETE, Some(at));
            }
            if walked == limit {
                break (None, TOO_DEEP, Some(at));
            }
            let (caller, root) = self.step(walked).take(at, reader);
            walked += 1;
            if root != CONTINUES {
                break (None, root, None);
            }
            at = caller;
        };
        self.remember_walk(start, limit, (joint, walked, root, outer), reader)
    }

    /// Remembers a walk from `start` to the frame `joint`, or to the root and the registers beyond its outermost frame;
    /// returns the number of the stack.
    fn remember_walk(
        &self,
        start: Registers,
        limit: usize,
        (joint, walked, root, outer): (Option<usize>, usize, u32, Option<Registers>),
        reader: &mut StackReader,
    ) -> u32 {
        if root == UNREADABLE {
            // Which memory can be read is no word of the stack.
            reader.set_not_own();
        }
        let frames = joint.map_or(0, |joint| self.frames_up_to(joint));
        let surplus = (frames + walked).saturating_sub(limit);
        let number = if let (Some(joint), 1..) = (joint, surplus) {
            let new = self.drop_outermost(joint, surplus, walked);
            self.remember(walked, TOO_DEEP, outer);
            self.find_or_add(Place::root(TOO_DEEP), new, 0)
        } else {
            let from = joint.map_or(Place::root(root), |joint| self.place(joint));
            let new = self.list_new(0, walked);
            self.set_len(joint.map_or(0, |joint| joint + 1));
            self.remember(walked, root, outer);
            let is_own = reader.is_own();
            let chain = joint
                .filter(|_| is_own)
                .and_then(|joint| self.add_chain(start, joint, walked, new));
            self.find_or_add(from, new, chain.unwrap_or(0))
        };
        if !reader.is_own() {
            self.set_len(0);
        }
        number
    }

    /// Adds the chain of a walk from `start` to the frame `joint`; returns the sequence of its frames. `None` if it
    /// depends on more than a chain can say.
    #[inline(never)]
    fn add_chain(
        &self,
        start: Registers,
        joint: usize,
        walked: usize,
        frames: &[AtomicU64],
    ) -> Option<u32> {
        let innermost = start.return_word().address;
        let end = self.registers(joint).return_word().address;
        let (mut conditions, mut len) = ([Condition::default(); MAX_LEN], 0);
        let mut add = |kind, address: usize, value| {
            // NOTE: words beyond the joint are no part of the stack that is known to be there.
            let condition = Condition::new(kind, address.wrapping_sub(innermost), value)?;
            *conditions.get_mut(len).filter(|_| address < end)? = condition;
            len += 1;
            Some(())
        };
        // What the `rbp` of the frame further out must be.
        let mut must = self.uses_rbp(joint).then_some(Kind::RbpOfJoint);
        for step in self.walked.iter().take(walked).rev() {
            if step.cfa_word().is_some() {
                return None;
            }
            let is_base = step.uses_rbp().then_some(Kind::RelativeRbp);
            must = match (step.rbp_address(), must) {
                (Some(address), Some(kind)) => {
                    let value = Word { address, value: 0 }.now();
                    let distance = value.wrapping_sub(start.rsp);
                    add(kind, address, if kind == Kind::RelativeRbp { distance } else { 0 })?;
                    is_base
                }
                (Some(_), None) => is_base,
                (None, Some(Kind::RbpOfJoint)) if is_base.is_some() => return None,
                (None, must) => must.or(is_base),
            };
            let kind = if must.is_some() { Kind::ReturnByRbp } else { Kind::Return };
            let Word { address, value } = step.registers().return_word();
            add(kind, address, value)?;
        }
        let distance = start.rbp.wrapping_sub(start.rsp) as isize;
        let rbp = match must {
            Some(Kind::RelativeRbp) => i32::try_from(distance).ok()?,
            _ => 0,
        };
        let key = self.key(start, joint)?;
        let sequence = tree::intern(frames)?;
        let conditions = conditions.get(..len).unwrap_or_default();
        self.chains.add(key, conditions, |chain| {
            chain.set(sequence, walked, must, rbp);
        });
        Some(sequence)
    }

    #[inline(always)]
    fn step(&self, number: usize) -> &Step {
        &self.walked[number.min(MAX_FRAMES - 1)]
    }

    /// The frames that were walked, behind `older` ones that are in the list already, for the tree.
    fn list_new(&self, older: usize, walked: usize) -> &[AtomicU64] {
        let steps = self.walked.iter().take(walked).rev();
        for (to, step) in self.new.iter().skip(older).zip(steps) {
            to.store(step.frame().bits(), Ordering::Relaxed);
        }
        self.new.get(..older + walked).unwrap_or_default()
    }

    /// Adds the frames that were walked to the remembered ones; `outer` are the registers beyond the outermost one, if
    /// the walk has read them.
    #[inline(always)]
    fn remember(&self, walked: usize, root: u32, outer: Option<Registers>) {
        self.root.set(root);
        let mut len = self.len.get();
        let (mut frames, mut uses_rbp, mut rbp) = match len.checked_sub(1) {
            None => (0, false, 0),
            Some(last) => {
                (self.frame(last).frames.get(), self.uses_rbp(last), self.frame(last).rbp.get())
            }
        };
        let mut add = |word, kind, rbp, frames| {
            self.word(len).set(word);
            let frame = self.frame(len);
            frame.rbp.set(rbp);
            frame.place.set(Place::UNKNOWN);
            frame.frames.set(frames);
            frame.kind.set(kind);
            len += 1;
        };
        if let Some(outer) = outer.filter(|_| frames == 0) {
            add(outer.return_word(), Kind::RbpOfJoint, 0, frames);
        }
        for step in self.walked.iter().take(walked).rev() {
            // The caller's `rbp` matters only if the walk needed it.
            let saved = step.rbp_address();
            if let Some(address) = saved.filter(|_| uses_rbp) {
                add(Word { address, value: rbp }, Kind::RbpOfJoint, 0, frames);
            }
            if let Some(word) = step.cfa_word() {
                add(word, Kind::RbpOfJoint, 0, frames);
            }
            uses_rbp = step.uses_rbp() || saved.is_none() && uses_rbp;
            let registers = step.registers();
            rbp = registers.rbp;
            frames += 1;
            let kind = if uses_rbp { Kind::ReturnByRbp } else { Kind::Return };
            add(registers.return_word(), kind, rbp, frames);
        }
        self.set_len(if len < WORDS { len } else { 0 });
    }

    /// Drops `surplus` of the frames up to `joint`, at the outer end, so that it is the last one. Returns those that are
    /// left and those that were walked, for the tree.
    #[cold]
    fn drop_outermost(&self, joint: usize, surplus: usize, walked: usize) -> &[AtomicU64] {
        let left = self.frames_up_to(joint) - surplus;
        let innermost_first = tree::frames_of(self.place(joint));
        for (to, frame) in self.new.iter().take(left).rev().zip(innermost_first) {
            to.store(frame.bits(), Ordering::Relaxed);
        }
        let mut dropped = joint;
        while self.frames_up_to(dropped) > surplus {
            dropped = self.frame_before(dropped).unwrap_or(0);
        }
        // The return address of the last frame that is dropped is still a word.
        for word in dropped..=joint {
            let (from, to) = (self.frame(word), self.frame(word - dropped));
            self.word(word - dropped).set(self.word(word).get());
            to.rbp.set(from.rbp.get());
            to.place.set(Place::UNKNOWN);
            to.frames.set(from.frames.get() - surplus as u8);
            to.kind.set(if word == dropped { Kind::RbpOfJoint } else { from.kind.get() });
        }
        self.set_len(if left > 0 { joint - dropped + 1 } else { 0 });
        self.list_new(left, walked)
    }
}
