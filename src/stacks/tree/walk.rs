//! The walk over new stacks, for the worker.

use super::{
    COMPLETE, EDGE_COUNT, EDGES, Frame, GUESS, IS_CUT, OTHER, ROOT, ends_of, frames_within, is_cut,
    is_written, load, place_of,
};
use crate::trace::write::watch;
use std::sync::atomic::Ordering;

/// A stack that is new to a [`Walk`].
pub(crate) struct NewStack<'a> {
    /// The `CallstackId` of its events.
    pub(crate) number: u32,
    /// Its return addresses, innermost first.
    pub(crate) frames: &'a [u64],
    /// How many of these, from the innermost one outwards, are no guess.
    pub(crate) proved: usize,
    /// The root: how the frames end.
    pub(crate) end: u32,
    /// Whether it lacks its inner frames, because there was no memory for them.
    pub(crate) is_cut: bool,
}

/// The number after that of the last stack so far.
pub(crate) fn end() -> u32 {
    EDGE_COUNT.load(Ordering::Acquire).min(EDGES as u32)
}

/// In a watcher: visits the stacks from the number `first` on that the process has left.
pub(crate) fn visit_left(first: u32, mut visit: impl FnMut(NewStack<'_>)) {
    let Some(logs) = watch::logs() else { return };
    logs.stacks.visit(|number, words| {
        let root = words.iter().position(|word| word & ROOT != 0);
        if let Some((frames, [root, ..])) = root.and_then(|at| words.split_at_checked(at))
            && number >= first
        {
            let mut frames = frames.to_vec();
            let (proved, is_cut) = (take_marks(&mut frames), root & IS_CUT != 0);
            visit(NewStack { number, frames: &frames, proved, end: *root as u32, is_cut });
        }
    });
}

/// Takes the marks from addresses; returns how many there are before the first that has one.
fn take_marks(frames: &mut [u64]) -> usize {
    let proved = frames.iter().take_while(|frame| **frame & GUESS == 0).count();
    frames.iter_mut().for_each(|frame| *frame &= !GUESS);
    proved
}

/// Visits each stack once. For the worker.
#[derive(Clone, Default)]
pub(crate) struct Walk {
    visited: u32,
    /// The stacks below `visited` that were not written yet.
    unwritten: Vec<u32>,
    frames: Vec<u64>,
}

impl Walk {
    /// A number below which it has visited all stacks that were written.
    pub(crate) fn visited(&self) -> u32 {
        self.unwritten.iter().copied().fold(self.visited, u32::min)
    }

    /// Visits the stacks below [`end`] that no call has visited: all that an event can have that was
    /// committed before `end` was read.
    pub(crate) fn visit_new(&mut self, end: u32, mut visit: impl FnMut(NewStack<'_>)) {
        let begin = self.visited.max(OTHER);
        self.visited = end.max(begin);
        let mut unwritten = std::mem::take(&mut self.unwritten);
        unwritten.extend(begin..end);
        unwritten.retain(|number| !self.visit(*number, &mut visit));
        self.unwritten = unwritten;
    }

    /// Visits the stacks below `end` that no call has visited, of those that `other` has visited.
    pub(crate) fn visit_those_of(
        &mut self,
        other: &Self,
        end: u32,
        mut visit: impl FnMut(NewStack<'_>),
    ) {
        let begin = self.visited.max(OTHER);
        self.visited = end.min(other.visited).max(begin);
        for number in begin..self.visited {
            if !other.unwritten.contains(&number) {
                self.visit(number, &mut visit);
            }
        }
    }

    /// Visits this stack; `false` if it is not written yet.
    fn visit(&mut self, number: u32, visit: &mut impl FnMut(NewStack<'_>)) -> bool {
        if !is_written(number) {
            return false;
        }
        self.frames.clear();
        let mut end = COMPLETE;
        // PERF: twice as fast as by `frames_of`.
        for place in ends_of(place_of(number)) {
            let innermost_first = frames_within(place).iter().rev();
            self.frames.extend(innermost_first.map(|frame| Frame(load(frame)).marked_address()));
            end = place.edge();
        }
        let proved = take_marks(&mut self.frames);
        visit(NewStack { number, frames: &self.frames, proved, end, is_cut: is_cut(number) });
        true
    }
}
