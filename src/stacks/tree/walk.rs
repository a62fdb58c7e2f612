//! The walk over new stacks, for the worker.

use super::{FIRST_STACK, ROOT, frame_of, node_of, stacks};
use crate::trace::write::watch;

/// A stack that is new to a [`Walk`].
pub(crate) struct NewStack<'a> {
    /// The `CallstackId` of its events.
    pub(crate) number: u32,
    /// Its return addresses, innermost first.
    pub(crate) frames: &'a [u64],
    /// The root: how the frames end.
    pub(crate) end: u32,
}

/// The number after that of the last stack so far.
pub(crate) fn end() -> u32 {
    stacks().unwrap_or(FIRST_STACK)
}

/// In a watcher: visits the stacks from the number `first` on that the process has left.
pub(crate) fn visit_left(first: u32, mut visit: impl FnMut(NewStack<'_>)) {
    let Some(logs) = watch::logs() else { return };
    logs.stacks.visit(|number, words| {
        let root = words.iter().position(|word| word & ROOT != 0);
        if let Some((frames, [root, ..])) = root.and_then(|at| words.split_at_checked(at))
            && number >= first
        {
            visit(NewStack { number, frames, end: *root as u32 });
        }
    });
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
    /// Whether it has visited nothing yet.
    pub(crate) fn is_new(&self) -> bool {
        self.visited == 0
    }

    /// A number below which it has visited all stacks that were written.
    pub(crate) fn visited(&self) -> u32 {
        self.unwritten.iter().copied().fold(self.visited, u32::min)
    }

    /// Visits the stacks below [`end`] that no call has visited: all that an event can have that was
    /// committed before `end` was read.
    pub(crate) fn visit_new(&mut self, end: u32, mut visit: impl FnMut(NewStack<'_>)) {
        let begin = self.visited.max(FIRST_STACK);
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
        let begin = self.visited.max(FIRST_STACK);
        self.visited = end.min(other.visited).max(begin);
        for number in begin..self.visited {
            if !other.unwritten.contains(&number) {
                self.visit(number, &mut visit);
            }
        }
    }

    /// Visits this stack; `false` if it is not written yet.
    fn visit(&mut self, number: u32, visit: &mut impl FnMut(NewStack<'_>)) -> bool {
        let mut at = node_of(number);
        if at == 0 {
            return false;
        }
        self.frames.clear();
        while let Some((frame, parent)) = frame_of(at) {
            self.frames.push(frame.address());
            at = parent;
        }
        visit(NewStack { number, frames: &self.frames, end: at });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::tree::{COMPLETE, Frame, NO_TABLE, TOO_DEEP, child, stack_id};
    use std::collections::HashMap;

    #[test]
    fn threads_that_add_the_same_stacks_get_the_same_numbers() {
        let add = || {
            let stack = |i: u64| {
                let outer = child(COMPLETE, Frame::new(0x10_0000 + i % 7, 1));
                let middle = child(outer, Frame::new(0x20_0000 + i % 50, 1));
                stack_id(child(middle, Frame::new(0x30_0000 + i, 2)))
            };
            (0..5_000).map(stack).collect::<Vec<_>>()
        };
        let numbers = std::thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(add)).map(|thread| thread.join().unwrap())
        });
        assert!(numbers.iter().all(|of_thread| *of_thread == numbers[0]));
        let mut found = HashMap::new();
        Walk::default().visit_new(end(), |stack| {
            found.insert(stack.number, (stack.frames.to_vec(), stack.end));
        });
        for (i, number) in (0..).zip(&numbers[0]) {
            let frames = vec![0x30_0000 + i, 0x20_0000 + i % 50, 0x10_0000 + i % 7];
            assert_eq!(found[number], (frames, COMPLETE));
        }
    }

    #[test]
    fn a_module_at_the_address_of_another_has_other_nodes() {
        let one = child(TOO_DEEP, Frame::new(0x7fff_1234_5678, 1));
        let two = child(TOO_DEEP, Frame::new(0x7fff_1234_5678, 2));
        assert_ne!(one, two);
        assert_eq!(one, child(TOO_DEEP, Frame::new(0x7fff_1234_5678, 1)));
        assert_ne!(stack_id(one), stack_id(two));
    }

    #[test]
    fn a_walk_visits_each_stack_once() {
        let mut walk = Walk::default();
        let mut seen = HashMap::<u32, u32>::new();
        for i in 0..100 {
            let number = stack_id(child(NO_TABLE, Frame::new(0x50_0000 + i, 0)));
            walk.visit_new(end(), |stack| *seen.entry(stack.number).or_default() += 1);
            assert!(seen.contains_key(&number));
        }
        assert!(seen.values().all(|times| *times == 1));
        let mut again = HashMap::<u32, u32>::new();
        let mut second = Walk::default();
        for end in [end() / 2, end(), end() + 9] {
            second.visit_those_of(&walk, end, |stack| *again.entry(stack.number).or_default() += 1);
        }
        assert_eq!(again, seen);
    }
}
