//! Consecutive events of one context on one thread, combined.

use super::tally::Tally;

/// The changes by consecutive events of one context on one thread, whatever their stacks. They are applied to
/// the size classes already, and to the peaks and the total at the next flush. Buckets are then also changed,
/// if no block has a stack; otherwise they and the peaks of stacks are changed already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combined {
    /// The bucket of the context and the thread that has no stack; [`NO_ROWS`] if there are no events.
    pub(super) rows: u32,
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

/// In place of a bucket.
const NO_ROWS: u32 = u32::MAX;

impl Default for Combined {
    fn default() -> Self {
        Self::new(NO_ROWS, 0)
    }
}

impl Combined {
    /// Begins to combine events, while the total is `headroom` bytes below its peak.
    pub(super) fn new(rows: u32, headroom: i64) -> Self {
        Self {
            rows,
            tally: Tally::default(),
            blocks: 0,
            bytes: 0,
            most_blocks: 0,
            most_bytes: 0,
            headroom,
            at_peak: None,
        }
    }

    /// Whether there are no events.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rows == NO_ROWS
    }

    /// Adds a change of the live figures, both of which are positive or neither is; returns whether
    /// the total has a new maximum.
    ///
    /// PERF: a caller passes 1 or -1 blocks, so only one of the two branches is compiled.
    #[inline(always)]
    pub(super) fn add(&mut self, blocks: i64, bytes: i64) -> bool {
        self.blocks += blocks;
        self.bytes = self.bytes.wrapping_add(bytes);
        if blocks <= 0 {
            return false;
        }
        self.most_blocks = self.most_blocks.max(self.blocks);
        self.most_bytes = self.most_bytes.max(self.bytes);
        let is_peak = self.bytes > self.headroom;
        if is_peak {
            self.headroom = self.bytes;
            self.at_peak = Some((self.blocks, self.bytes));
        }
        is_peak
    }
}
