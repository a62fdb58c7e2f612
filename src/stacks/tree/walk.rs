//! The walk over new stacks, for the worker.

use super::{
    COMPLETE, COUNT_BITS, CUT, EDGE_COUNT, EDGES, IS_CUT, MAX_EDGE_FRAMES, OTHER, PackedFrame,
    ROOT, frames_within, frames_word, is_written, load, parent, place_of,
};
use crate::trace::write::watch;
use memledger_format::callstacks::{Callstack, Inner, Outer};
use std::sync::atomic::Ordering;

/// The number after that of the last stack so far.
pub(crate) fn end() -> u32 {
    EDGE_COUNT.load(Ordering::Acquire).min(EDGES as u32)
}

/// In a watcher: visits the stacks from the number `first` on that the process has left, each by itself, and
/// whether it lacks its inner frames, because there was no memory for them.
pub(crate) fn visit_left(first: u32, mut visit: impl FnMut(Callstack<'_>, bool)) {
    let Some(logs) = watch::logs() else { return };
    let mut outermost_first = Vec::new();
    logs.stacks.visit(|id, words| {
        let root = words.iter().position(|word| word & ROOT != 0);
        if let Some((frames, [root, ..])) = root.and_then(|at| words.split_at_checked(at))
            && id >= first
        {
            outermost_first.clear();
            outermost_first.extend(frames.iter().rev());
            let outer = Outer::End(reason(*root as u32));
            let inner = Inner::Frames(&outermost_first);
            visit(Callstack { id, outer, inner }, root & IS_CUT != 0);
        }
    });
}

/// The reason in `Memledger.CallstackEnd` for the stacks of a root, 0 for whole ones.
fn reason(root: u32) -> u8 {
    root.saturating_sub(COMPLETE) as u8
}

/// Visits each stack once. For the worker.
#[derive(Default)]
pub(crate) struct Walk {
    visited: u32,
    /// The stacks below `visited` that were not written yet.
    unwritten: Vec<u32>,
    frames: Vec<u64>,
    /// By the word where an edge's frames begin: a stack that was visited with them, 0 for none.
    known: Vec<u32>,
}

impl Walk {
    /// A number below which it has visited all stacks that were written.
    pub(crate) fn visited(&self) -> u32 {
        self.unwritten.iter().copied().fold(self.visited, u32::min)
    }

    /// Which stacks it has visited, for [`visit_those_of`](Self::visit_those_of).
    pub(crate) fn visits(&self) -> Self {
        Self { visited: self.visited, unwritten: self.unwritten.clone(), ..Self::default() }
    }

    /// Visits the stacks below [`end`] that no call has visited: all that an event can have that was
    /// committed before `end` was read. Each comes after the one with its outer frames.
    pub(crate) fn visit_new(&mut self, end: u32, mut visit: impl FnMut(Callstack<'_>)) {
        let begin = self.visited.max(OTHER);
        self.visited = end.max(begin);
        let mut stacks = std::mem::take(&mut self.unwritten);
        stacks.extend(begin..end);
        // NOTE: from the last one on: who sees an edge then sees the one that it begins at.
        self.unwritten.extend(stacks.iter().rev().filter(|number| !is_written(**number)));
        self.unwritten.reverse();
        for number in stacks {
            if !self.unwritten.contains(&number) {
                self.visit(number, &mut visit);
            }
        }
    }

    /// Visits the stacks below `end` that no call has visited, of those that `other` has visited.
    pub(crate) fn visit_those_of(
        &mut self,
        other: &Self,
        end: u32,
        mut visit: impl FnMut(Callstack<'_>),
    ) {
        let begin = self.visited.max(OTHER);
        self.visited = end.min(other.visited).max(begin);
        for number in begin..self.visited {
            // NOTE: it is not written if all stacks were removed since.
            if !other.unwritten.contains(&number) && is_written(number) {
                self.visit(number, &mut visit);
            }
        }
    }

    fn visit(&mut self, id: u32, visit: &mut impl FnMut(Callstack<'_>)) {
        let outer = match parent(id) {
            None => Outer::End(reason(id)),
            Some(place) => {
                let without = place_of(place.edge()).along().saturating_sub(place.along());
                Outer::Of { id: place.edge(), without: without as u32 }
            }
        };
        let word = frames_word(id);
        if word == CUT {
            return visit(Callstack { id, outer, inner: Inner::NotKept });
        }
        let (index, frames) = ((word >> COUNT_BITS) as usize, word & MAX_EDGE_FRAMES as u32);
        let inner = match self.known.get(index) {
            Some(&known) if frames > 0 && frames_word(known) == word => Inner::SameAs(known),
            _ => {
                let own = frames_within(place_of(id)).iter();
                self.frames.clear();
                self.frames.extend(own.map(|frame| PackedFrame(load(frame)).marked_address()));
                if frames > 0 {
                    self.known.resize(self.known.len().max(index + 1), 0);
                    self.known[index] = id;
                }
                Inner::Frames(&self.frames)
            }
        };
        visit(Callstack { id, outer, inner });
    }
}
