//! Blocks that moved from one bucket to another, or out of the accounts and back.

use crate::hash::IntMap;

/// The number that [`Moves`] uses in place of a bucket for a block outside the accounts.
const OUTSIDE: u32 = u32::MAX;

/// Blocks that moved, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Moved {
    pub(super) fn add(&mut self, blocks: u64, bytes: u64) {
        self.blocks = self.blocks.wrapping_add(blocks);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// The moves, by the bucket left and the bucket entered. A block leaves the accounts without a free
/// if another block replaces it, or if the program declares it a heap.
#[derive(Clone, Debug, Default)]
pub(super) struct BucketMoves(IntMap<(u32, u32), [Moved; 2]>);

impl BucketMoves {
    pub(super) fn between(&mut self, from: u32, to: u32, bytes: u64) {
        self.resized_between(from, to, bytes, bytes);
    }

    /// A block moved that had `old` bytes and has `new` bytes now.
    pub(super) fn resized_between(&mut self, from: u32, to: u32, old: u64, new: u64) {
        let [left, entered] = self.0.entry((from, to)).or_default();
        left.add(1, old);
        entered.add(1, new);
    }

    pub(super) fn left(&mut self, from: u32, bytes: u64) {
        self.between(from, OUTSIDE, bytes);
    }

    pub(super) fn returned(&mut self, to: u32, bytes: u64) {
        self.between(OUTSIDE, to, bytes);
    }

    /// The buckets left and entered, `None` for outside, and the blocks, with their bytes when they
    /// left and when they entered. NOTE: in an order that differs from run to run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<u32>, Option<u32>, [Moved; 2])> {
        let inside = |bucket: u32| Some(bucket).filter(|&bucket| bucket != OUTSIDE);
        self.0.iter().map(move |(&(from, to), &moved)| (inside(from), inside(to), moved))
    }
}
