//! Consecutive events of one context on one thread, combined.

use crate::columns::Tally;

/// The changes by consecutive events of one context on one thread, whatever their stacks. They are applied to
/// the size classes already, and to the peaks and the total at the next flush. Buckets are then also changed,
/// if no block has a stack; otherwise they and the peaks of stacks are changed already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Combined {
    /// The bucket of the context and the thread that has no stack.
    pub(super) rows: u32,
    /// Whether events are being combined: false only in the default value.
    pub(super) any: bool,
    /// What the thread counts, and the bucket in a trace without stacks.
    pub(super) tally: Tally,
    pub(super) blocks: i64,
    pub(super) bytes: i64,
    /// The highest intermediate sums of both, at least 0.
    pub(super) most_blocks: i64,
    pub(super) most_bytes: i64,
    /// A sum of more bytes than this is a new maximum of the total.
    headroom: i64,
    /// The sums of blocks and bytes at the last new maximum of the total, if there was one.
    pub(super) at_peak: Option<(i64, i64)>,
}

impl Combined {
    /// Begins to combine events, while the total is `headroom` bytes below its peak.
    pub(super) fn new(rows: u32, headroom: i64) -> Self {
        Self { rows, any: true, headroom, ..Self::default() }
    }

    /// Adds a change of the live figures; returns whether the total has a new maximum.
    #[inline(always)]
    pub(super) fn add(&mut self, blocks: i64, bytes: i64) -> bool {
        self.blocks += blocks;
        self.most_blocks = self.most_blocks.max(self.blocks);
        self.bytes = self.bytes.wrapping_add(bytes);
        self.most_bytes = self.most_bytes.max(self.bytes);
        let is_peak = self.bytes > self.headroom;
        if is_peak {
            self.headroom = self.bytes;
            self.at_peak = Some((self.blocks, self.bytes));
        }
        is_peak
    }
}
