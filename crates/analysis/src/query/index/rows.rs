//! The rows of an index.

use crate::query::rules::Span;

/// See [`IndexRow::key`].
pub(super) type Key = (u64, u64, u64);

/// Blocks of one bucket that became live in one step and ended in one step: their lives, by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct IndexRow {
    /// The step in which they ended; [`IndexRow::NEVER`] if they are live at the end.
    pub ended: u32,
    /// The step in which they became live.
    pub begun: u32,
    /// The step since which they are like this: see [`BlockLife::since`](super::super::BlockLife::since).
    pub since: u32,
    /// They count as allocations at positions no later than where this step begins; 0 if they are none.
    pub allocation_until: u32,
    /// The same for their ends, which are then frees.
    pub free_until: u32,
    /// The bucket that they were in.
    pub bucket: u32,
    /// How many blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of the largest of them.
    pub most: u64,
}

impl IndexRow {
    /// The number of no step.
    pub const NEVER: u32 = u32::MAX;

    /// What rules compare with positions.
    pub(super) fn span(&self) -> Span<u32> {
        let Self { begun, since, ended, allocation_until, free_until, .. } = *self;
        Span { begun, since, ended, allocation_until, free_until }
    }

    /// What the rows of one index differ in, in the order in which they are.
    #[inline]
    pub(super) fn key(&self) -> Key {
        // PERF: two numbers in one, which are hashed at once.
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let until = pair(self.allocation_until, self.free_until);
        (pair(self.ended, self.begun), pair(self.bucket, self.since), until)
    }

    /// Adds the blocks of another row of this key.
    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.most = self.most.max(other.most);
    }
}
