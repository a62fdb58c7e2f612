//! Consecutive events of one bucket, combined.

use crate::analysis::columns::Tally;

/// The changes by consecutive events of one bucket. They are applied to the size classes already,
/// and to the bucket, the peaks and the total at the next flush.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Combined {
    pub(super) bucket: u32,
    /// Whether events of `bucket` are being combined: false only in the default value.
    pub(super) any: bool,
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
    /// Begins to combine events of `bucket`, while the total is `headroom` bytes below its peak.
    pub(super) fn new(bucket: u32, headroom: i64) -> Self {
        Self { bucket, any: true, headroom, ..Self::default() }
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
