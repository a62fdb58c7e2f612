//! What the program maps from the system: blocks that can be freed in parts, and reserved addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The order of the blocks that are mappings, and what is reserved. The blocks themselves are in the
/// [live set](super::Heaps).
#[derive(Clone, Debug, Default)]
pub(crate) struct Mappings {
    /// Where blocks start.
    starts: BTreeSet<(u8, u64)>,
    /// Ranges that are no blocks. They do not overlap one another.
    reserved: BTreeMap<(u8, u64), Reserved>,
}

/// Addresses that are no block: they take no memory yet, or `lazy` they take it as they are written.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    end: u64,
    /// The stack of the one who has mapped them.
    lazy: Option<u32>,
}

impl Mappings {
    pub(crate) fn add_block(&mut self, heap: u8, start: u64) {
        self.starts.insert((heap, start));
    }

    pub(crate) fn remove_block(&mut self, heap: u8, start: u64) {
        self.starts.remove(&(heap, start));
    }

    /// Where the last block starts that starts before `address`.
    pub(crate) fn block_before(&self, heap: u8, address: u64) -> Option<u64> {
        self.starts.range((heap, 0)..(heap, address)).next_back().map(|&(_, start)| start)
    }

    /// Where the first block starts that starts in `range`.
    pub(crate) fn first_in(&self, heap: u8, range: &Range<u64>) -> Option<u64> {
        self.starts.range((heap, range.start)..(heap, range.end)).next().map(|&(_, start)| start)
    }

    /// Reserves what was neither reserved nor in a block. `lazy`: the stack of who has mapped what takes
    /// memory as it is written.
    pub(crate) fn reserve(&mut self, heap: u8, range: Range<u64>, lazy: Option<u32>) {
        if !range.is_empty() {
            self.reserved.insert((heap, range.start), Reserved { end: range.end, lazy });
        }
    }

    /// Takes out what is reserved of `range`: its parts, in ascending order.
    pub(crate) fn take_reserved(
        &mut self,
        heap: u8,
        range: &Range<u64>,
    ) -> Vec<(Range<u64>, Option<u32>)> {
        let mut parts = Vec::new();
        // The last one that starts before the end of the range, until one ends before the range.
        while let Some((&(_, start), &Reserved { end, lazy })) =
            self.reserved.range((heap, 0)..(heap, range.end)).next_back()
            && end > range.start
            && !range.is_empty()
        {
            self.reserved.remove(&(heap, start));
            let part = start.max(range.start)..end.min(range.end);
            self.reserve(heap, part.end..end, lazy);
            self.reserve(heap, start..part.start, lazy);
            let is_last = start < range.start;
            parts.push((part, lazy));
            if is_last {
                break;
            }
        }
        parts.reverse();
        parts
    }

    /// What is reserved: addresses and sizes.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = (u64, u64)> {
        self.reserved.iter().map(|(&(_, start), reserved)| (start, reserved.end - start))
    }

    /// The same in the order of addresses: starts, ends, and the stacks of what is lazy.
    pub(crate) fn reserved_in_order(&self) -> Vec<(u64, u64, Option<u32>)> {
        let all = self.reserved.iter();
        let mut all: Vec<_> = all.map(|(&(_, start), of)| (start, of.end, of.lazy)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_of_a_reservation_leaves_the_rest() {
        let mut mappings = Mappings::default();
        mappings.reserve(3, 10..20, Some(7));
        mappings.reserve(3, 30..40, None);
        mappings.reserve(3, 40..50, None);
        mappings.reserve(4, 0..100, None);
        let mut take = |heap, range| {
            let parts = mappings.take_reserved(heap, &range).into_iter();
            parts.map(|(part, _)| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(take(3, 0..10), []);
        assert_eq!(take(3, 20..30), []);
        assert_eq!(take(3, 15..15), []);
        assert_eq!(take(3, 15..42), [(15, 20), (30, 40), (40, 42)]);
        assert_eq!(take(3, 44..46), [(44, 46)]);
        assert_eq!(mappings.reserved_in_order()[1], (10, 15, Some(7)));
        let mut take = |heap, range| {
            let parts = mappings.take_reserved(heap, &range).into_iter();
            parts.map(|(part, _)| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(take(3, 0..u64::MAX), [(10, 15), (42, 44), (46, 50)]);
        assert_eq!(take(3, 0..u64::MAX), []);
        assert_eq!(take(4, 99..u64::MAX), [(99, 100)]);
    }
}
