//! The walk of a stack that is not found otherwise, and what a thread remembers of it.

use super::{Frame, MAX_FRAMES, Memory, WORDS};
use crate::stacks::capture::chains::{Condition, Kind, MAX_LEN};
use crate::stacks::capture::memory::{StackReader, Word};
use crate::stacks::capture::processor::{Registers, SpDistance};
use crate::stacks::capture::step::{CONTINUES, Step, WITHOUT_TABLE, caller_of};
use crate::stacks::capture::{frame_pointer, lookup, step};
use crate::stacks::tree::{
    self, COMPLETE, LIBRARY_CHANGED, NO_TABLE, TOO_DEEP, TreePosition, UNREADABLE,
};
use std::sync::atomic::{AtomicU64, Ordering};

impl Memory {
    /// The same up to the first frame in code that can be unloaded: where one library was, another can be.
    #[cold]
    #[inline(never)]
    pub(super) fn walk_in_lasting(&self, own: &Registers, limit: usize) -> u32 {
        let mut reader = StackReader::new(&self.own, own.sp);
        let Some(mut at) = caller_of(*own, &mut reader) else { return NO_TABLE };
        let mut walked = 0;
        let root = loop {
            if at.return_address() == 0 {
                break COMPLETE;
            }
            if walked == limit {
                break TOO_DEEP;
            }
            let Some(found) = lookup::find_lasting(at.return_address() as u64) else {
                break LIBRARY_CHANGED;
            };
            let (caller, root) = self.step(walked).take_by(found, at, &mut reader);
            walked += 1;
            match root {
                CONTINUES => at = caller,
                WITHOUT_TABLE => break NO_TABLE,
                root => break root,
            }
        };
        let new = self.list_new(0, walked);
        tree::find_or_add(TreePosition::root(root), new, 0).number
    }

    /// The stack from the caller of the function on that has these registers.
    #[inline(never)]
    pub(super) fn walk(&self, own: &Registers, limit: usize) -> u32 {
        let mut reader = StackReader::new(&self.own, own.sp);
        let Some(start) = caller_of(*own, &mut reader) else { return NO_TABLE };
        if !reader.is_own() {
            // NOTE: the words of a remembered stack are compared without a check, so all of them
            // are on the thread's own stack, and so is the walk that looks for them.
            self.set_len(0);
        }
        let mut at = start;
        let unchanged = self.frame_before(step::unchanged(&self.words, start.sp));
        let mut candidate = unchanged;
        let mut walked = 0;
        let (joint, root, outer) = loop {
            // A frame further out has a higher stack pointer.
            while let Some(frame) = candidate
                && self.registers(frame).sp < at.sp
            {
                candidate = self.frame_before(frame);
            }
            // NOTE: a remembered stack that was too deep lacks its outermost frames, so it can
            // only be continued to one that is too deep, too.
            if let Some(frame) = candidate
                && self.is_at(frame, at)
                && (self.root.get() != TOO_DEEP || self.frames_up_to(frame) + walked >= limit)
            {
                self.move_return_word(frame, at);
                break (candidate, self.root.get(), Some(at));
            }
            if at.return_address() == 0 {
                break (None, COMPLETE, Some(at));
            }
            if walked == limit {
                break (None, TOO_DEEP, Some(at));
            }
            let (caller, root) = self.step(walked).take(at, &mut reader);
            walked += 1;
            if root != CONTINUES {
                break (None, root, None);
            }
            at = caller;
        };
        let [from, to] =
            [unchanged, joint].map(|frame| frame.map(|frame| self.frames_up_to(frame)));
        self.stale.set(from.zip(to).map_or(0, |(from, to)| from - to));
        self.remember_walk(start, limit, (joint, walked, root, outer), &mut reader)
    }

    /// Remembers a walk from `start` to the frame `joint`, or to the root and the registers beyond its
    /// outermost frame; returns the number of the stack.
    fn remember_walk(
        &self,
        start: Registers,
        limit: usize,
        (joint, walked, root, outer): (Option<usize>, usize, u32, Option<Registers>),
        reader: &mut StackReader,
    ) -> u32 {
        // PERF: one comparison, which most walks make.
        if root >= UNREADABLE {
            if root == WITHOUT_TABLE {
                return self.walk_without_tables(start, limit, walked, reader);
            }
            // Which memory can be read is no word of the stack.
            reader.set_not_own();
        }
        let frames = joint.map_or(0, |joint| self.frames_up_to(joint));
        let surplus = (frames + walked).saturating_sub(limit);
        let number = if let (Some(joint), 1..) = (joint, surplus) {
            let new = self.drop_outermost(joint, surplus, walked);
            self.remember(walked, TOO_DEEP, outer);
            self.find_or_add(TreePosition::root(TOO_DEEP), new, 0)
        } else {
            let from = joint.map_or(TreePosition::root(root), |joint| self.place(joint));
            let new = self.list_new(0, walked);
            self.set_len(joint.map_or(0, |joint| joint + 1));
            let must = self.remember(walked, root, outer).filter(|_| reader.is_own());
            let chain = joint.zip(must);
            let sequence = chain.and_then(|(joint, must)| self.add_chain(start, joint, must, new));
            self.find_or_add(from, new, sequence.unwrap_or(0))
        };
        if !reader.is_own() {
            self.set_len(0);
        }
        number
    }

    /// The same for a walk that has come to code without unwind information: continues by its frame pointer,
    /// if that is proved.
    #[cold]
    #[inline(never)]
    fn walk_without_tables(
        &self,
        start: Registers,
        limit: usize,
        proved: usize,
        reader: &mut StackReader,
    ) -> u32 {
        let last = self.step(proved.saturating_sub(1));
        match frame_pointer::caller(last.registers(), reader) {
            Ok(caller) => self.walk_guess(caller, limit, proved, reader),
            Err(outer) => {
                // The stack ends here as long as `fp` and the return address above it are the same.
                last.set_uses_fp();
                self.remember_walk(start, limit, (None, proved, NO_TABLE, outer), reader)
            }
        }
    }

    /// Continues a walk from the first frame that was found by a frame pointer. All of this is marked, and
    /// not remembered.
    #[inline(never)]
    fn walk_guess(
        &self,
        mut at: Registers,
        limit: usize,
        proved: usize,
        reader: &mut StackReader,
    ) -> u32 {
        reader.stay_on_own();
        let mut walked = proved;
        let root = loop {
            if at.return_address() == 0 {
                break COMPLETE;
            }
            if walked == limit {
                break TOO_DEEP;
            }
            let (caller, root) = self.step(walked).take(at, reader);
            walked += 1;
            at = match root {
                CONTINUES => caller,
                WITHOUT_TABLE => match frame_pointer::caller(at, reader) {
                    Ok(caller) => caller,
                    Err(_) => break NO_TABLE,
                },
                root => break root,
            };
        };
        let new = self.list_new(0, walked);
        for (to, step) in new.iter().zip(self.walked.iter().take(walked).skip(proved).rev()) {
            to.store(step.frame().guessed().bits(), Ordering::Relaxed);
        }
        tree::find_or_add(TreePosition::root(root), new, 0).number
    }

    /// Adds the chain from `start` to the frame `joint`, whose words are the last remembered ones; returns
    /// the sequence of its frames. At the start, `fp` must be as `must` says. `None` if a word has no room
    /// in a condition.
    #[inline(never)]
    fn add_chain(
        &self,
        start: Registers,
        joint: usize,
        must: Kind,
        frames: &[AtomicU64],
    ) -> Option<u32> {
        let innermost = start.return_word().address;
        let end = self.registers(joint).return_word().address;
        let (mut conditions, mut len) = ([Condition::default(); MAX_LEN], 0);
        for word in joint + 1..self.len.get() {
            let (Word { address, value }, kind) = (self.word(word).get(), self.frame(word).kind());
            let value = match kind {
                Kind::Return | Kind::ReturnByFp => kind.read(value),
                Kind::RelativeFp => value.wrapping_sub(start.sp),
                Kind::FpOfJoint => 0,
            };
            // NOTE: words beyond the joint are no part of the stack that is known to be there.
            let (distance, sp) = (address.wrapping_sub(innermost), self.remembered(word).sp.get());
            let condition = Condition::new(kind, distance, value, sp)?;
            *conditions.get_mut(len).filter(|_| address < end)? = condition;
            len += 1;
        }
        let distance = start.fp.wrapping_sub(start.sp) as isize;
        let fp = if must == Kind::RelativeFp { i32::try_from(distance).ok()? } else { 0 };
        let key = self.key(start, joint)?;
        let sequence = tree::intern(frames)?;
        let conditions = conditions.get(..len).unwrap_or_default();
        self.chains.add(key, (sequence, frames.len()), conditions, (must, fp));
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

    /// Adds the frames that were walked to the remembered ones; `outer` are the registers beyond the
    /// outermost one, if the walk has read them. Returns what `fp` must be at the start, so that a walk goes
    /// the same way; a return address: anything. `None` if it depends on more than the words of a chain can
    /// say.
    #[inline(always)]
    fn remember(&self, walked: usize, root: u32, outer: Option<Registers>) -> Option<Kind> {
        self.root.set(root);
        let mut len = self.len.get();
        let none = (0, SpDistance::default());
        let (mut frames, mut fp) = (0, 0);
        // What the `fp` of the frame further out must be, if that matters.
        let mut must = None;
        if let Some(last) = len.checked_sub(1) {
            (frames, fp) = (self.frames_up_to(last), self.remembered(last).fp.get());
            must = self.uses_fp(last).then_some(Kind::FpOfJoint);
        }
        let mut add = |word, kind, (fp, sp), frames| {
            self.word(len).set(word);
            let remembered = self.remembered(len);
            remembered.fp.set(fp);
            remembered.frame.set(Frame::new(kind, frames, TreePosition::UNKNOWN));
            remembered.sp.set(sp);
            len += 1;
        };
        if let Some(outer) = outer.filter(|_| frames == 0) {
            add(outer.return_word(), Kind::FpOfJoint, none, frames);
        }
        let mut is_chain = true;
        for step in self.walked.iter().take(walked).rev() {
            let saved = step.fp_address();
            if let (Some(address), Some(kind)) = (saved, must) {
                add(Word { address, value: fp }, kind, none, frames);
            }
            if let Some(word) = step.cfa_word() {
                add(word, Kind::FpOfJoint, none, frames);
                is_chain = false;
            }
            let is_base = step.uses_fp().then_some(Kind::RelativeFp);
            must = match (saved, must) {
                (Some(_), _) => is_base,
                (None, must) => {
                    // One condition for both would be needed.
                    is_chain &= must != Some(Kind::FpOfJoint) || is_base.is_none();
                    must.or(is_base)
                }
            };
            let registers = step.registers();
            fp = registers.fp;
            frames += 1;
            let kind = if must.is_some() { Kind::ReturnByFp } else { Kind::Return };
            add(registers.return_word(), kind, (fp, registers.sp_distance()), frames);
        }
        let has_room = len < WORDS;
        self.set_len(if has_room { len } else { 0 });
        (is_chain && has_room).then_some(must.unwrap_or(Kind::Return))
    }

    /// Drops `surplus` of the frames up to `joint`, at the outer end, so that it is the last one. Returns
    /// those that are left and those that were walked, for the tree.
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
            let (from, to) = (self.remembered(word), self.remembered(word - dropped));
            self.word(word - dropped).set(self.word(word).get());
            to.fp.set(from.fp.get());
            to.sp.set(from.sp.get());
            let frame = from.frame.get();
            let kind = if word == dropped { Kind::FpOfJoint } else { frame.kind() };
            to.frame.set(Frame::new(kind, frame.frames() - surplus, TreePosition::UNKNOWN));
        }
        self.set_len(if left > 0 { joint - dropped + 1 } else { 0 });
        self.list_new(left, walked)
    }
}
