//! The first serial of a trace of protocols 1 to 4, which does not say it.
//!
//! Until the first serial is known, serials are [collected](Serials::is_collecting): nothing that has
//! a serial is delivered. At the first sync, or at the end of the input, the lowest serial that waits
//! is the first one. It is unwrapped, and all others from there.

use super::super::event::Visitor;
use super::super::schemas::{ReaderRole, Types};
use super::super::serials::BIAS;
use super::super::stream::{DROPPED, SYNCED, ThreadStream};
use super::super::tally::Tally;
use super::Merge;

impl Merge {
    /// Decides which of the waiting serials is the first, and unwraps all of them.
    pub(super) fn decide_first(
        &mut self,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let heads: Vec<_> =
            self.streams.iter().filter_map(|stream| first_from(stream, 0)).collect();
        let Some(first) = lowest(&heads, self.serials.half()) else { return };
        self.serials.end_collecting();
        let jump = self.jump(types);
        let first = jump.map_or(first, |jump| jump.first);
        self.next = BIAS + u64::from(first);
        self.serials.seed(self.next);
        self.serials.set_floor(self.next);
        // The stream with the jump is first, because its serials before the jump are unwrapped from
        // another start than all others.
        let after = jump.map(|jump| (jump.stream, (jump.item, BIAS + u64::from(jump.to))));
        let others = (0..self.streams.len()).filter(|&i| Some(i) != after.map(|after| after.0));
        for index in after.map(|after| after.0).into_iter().chain(others) {
            let jump = after.filter(|after| after.0 == index).map(|after| after.1);
            if let Some(stream) = self.streams.get_mut(index) {
                self.misplaced += stream.number_collected(jump, &mut self.serials);
                stream.merging.queued = None;
            }
        }
        self.heap.clear();
        for index in 0..self.streams.len() {
            self.advance(index, types, tally, visitor);
        }
        if let Some((_, (_, to))) = after {
            self.deliver(types, tally, visitor);
            self.next = self.next.max(to);
        }
    }

    /// Whether serials jump after the first event of all, `$Trace.NewTrace`. In protocols 1 to 3 a
    /// program begins with serial 0. If it has run before anything was recorded, it has lost events
    /// that it could not keep, and the next serial is any higher one.
    fn jump(&self, types: &Types) -> Option<Jump> {
        let is_new_trace =
            |index| types.get(index).is_some_and(|known| known.role == ReaderRole::NewTrace);
        let (index, item) = self.streams.iter().enumerate().find_map(|(index, stream)| {
            let item = stream.waiting().iter().position(|item| {
                item.flags & (SYNCED | DROPPED) == SYNCED && is_new_trace(item.type_index)
            })?;
            Some((index, item))
        })?;
        let stream = self.streams.get(index)?;
        let new_trace = first_from(stream, item)?;
        let heads = self.streams.iter().enumerate().filter_map(|(other, stream)| {
            first_from(stream, if other == index { item + 1 } else { 0 })
        });
        let heads: Vec<_> = heads.collect();
        let to = lowest(&heads, self.serials.half())?;
        // NOTE: the head of another thread can be next to it by chance, after a wrap.
        (to > new_trace + 1).then_some(Jump {
            stream: index,
            item,
            first: first_from(stream, 0)?,
            to,
        })
    }
}

/// A jump of the serials.
#[derive(Clone, Copy)]
struct Jump {
    /// The stream with `$Trace.NewTrace`, and the index of that event among its waiting items.
    stream: usize,
    item: usize,
    /// The serial that its waiting items begin with.
    first: u32,
    /// The lowest serial after the jump.
    to: u32,
}

/// The first serial of the items of a stream from this index on, as it is in the stream.
fn first_from(stream: &ThreadStream, index: usize) -> Option<u32> {
    let mut items = stream.waiting().get(index..)?.iter();
    let item = items.find(|item| item.flags & SYNCED != 0)?;
    Some((item.serial - BIAS) as u32)
}

/// The lowest of these serials. They are within half of all serials, so if they are farther apart than
/// that, they have wrapped, and the lowest one is in the upper half. Protocol 4 says in
/// `$Trace.NewTrace` near which serial that is; it is not needed.
fn lowest(heads: &[u32], half: u64) -> Option<u32> {
    let (least, most) = (heads.iter().copied().min()?, heads.iter().copied().max()?);
    if u64::from(most - least) <= half {
        return Some(least);
    }
    heads.iter().copied().filter(|&head| u64::from(head) >= half).min()
}
