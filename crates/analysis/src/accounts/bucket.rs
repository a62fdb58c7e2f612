//! The columns that add up, of one bucket or one size class, and buckets in memory.

use super::peaks::NO_TRACKER;
use super::tally::{LowTally, Tally, add_low};

/// The columns that add up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) tally: Tally,
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    blocks_at_peak: u64,
    bytes_at_peak: u64,
    /// The peak generation that the state at the peak belongs to.
    generation: u64,
}

impl Counts {
    /// Saves the state at the peak; must be called before every change of the live figures.
    #[inline]
    fn keep_peak(&mut self, generation: u64) {
        if self.generation != generation {
            (self.blocks_at_peak, self.bytes_at_peak) = (self.live_blocks, self.live_bytes);
            self.generation = generation;
        }
    }

    /// Changes the live figures, in the peak generation `generation`.
    #[inline(always)]
    pub(super) fn change(&mut self, blocks: i64, bytes: i64, generation: u64) {
        self.keep_peak(generation);
        self.live_blocks = self.live_blocks.wrapping_add_signed(blocks);
        self.live_bytes = self.live_bytes.wrapping_add_signed(bytes);
    }

    /// What was counted since the state `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            tally: self.tally.since(&before.tally),
            live_blocks: self.live_blocks.wrapping_sub(before.live_blocks),
            live_bytes: self.live_bytes.wrapping_sub(before.live_bytes),
            ..Self::default()
        }
    }

    /// Blocks and bytes at the last peak; `generation` is the current peak generation.
    pub(crate) fn at_peak(&self, generation: u64) -> (u64, u64) {
        if self.generation == generation {
            (self.blocks_at_peak, self.bytes_at_peak)
        } else {
            (self.live_blocks, self.live_bytes)
        }
    }
}

/// What a bucket is the bucket of: one context on one thread, and one stack if the trace has stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    pub(crate) context: u32,
    pub(crate) thread: u32,
    /// The number of its stack; 0 is that of blocks without one.
    pub(crate) stack: u32,
    /// The number of the rate at which its blocks were sampled; 0 if each block was taken.
    pub(crate) rate: u32,
}

/// A copy of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) number: u32,
    pub(crate) counts: Counts,
    pub(crate) context: u32,
    pub(crate) thread: u32,
    pub(crate) stack: u32,
}

/// The figures of a bucket in memory. Counts have only their lower 32 bits here; the
/// [accounts](super::Accounts) have the rest, of the few buckets that have more.
///
/// PERF: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct PackedBucket {
    tally: LowTally,
    live_blocks: u32,
    pub(super) live_bytes: u64,
    blocks_at_peak: u32,
    /// The peak generation that the state at the peak belongs to, as its lower 32 bits, which are 0
    /// only before the first peak.
    pub(super) generation: u32,
    bytes_at_peak: u64,
    /// The peak of its stack, if the stack has no other bucket.
    pub(super) peak: u64,
    /// The peak tracker of its stack, if the stack has other buckets.
    pub(super) tracker: u32,
    /// The bucket of the same context and thread that has no stack: this one, or another.
    pub(super) rows: u32,
}

const _: () = assert!(size_of::<PackedBucket>() == 64);

impl PackedBucket {
    /// An empty bucket.
    pub(super) fn new(rows: u32) -> Self {
        Self {
            tally: LowTally::default(),
            live_blocks: 0,
            live_bytes: 0,
            blocks_at_peak: 0,
            generation: 0,
            bytes_at_peak: 0,
            peak: 0,
            tracker: NO_TRACKER,
            rows,
        }
    }

    /// Changes the figures, in the peak generation `generation`. Returns what the upper bits of the
    /// counts and of the live blocks change by, if they do.
    #[inline(always)]
    pub(super) fn change(
        &mut self,
        blocks: i64,
        bytes: i64,
        tally: &Tally,
        generation: u64,
    ) -> Option<(Tally, i64)> {
        if self.generation != generation as u32 {
            (self.blocks_at_peak, self.bytes_at_peak) = (self.live_blocks, self.live_bytes);
            self.generation = generation as u32;
        }
        self.live_bytes = self.live_bytes.wrapping_add_signed(bytes);
        let mut upper_blocks = 0;
        add_low(&mut self.live_blocks, blocks as u64, &mut upper_blocks);
        let upper = self.tally.add(tally);
        (upper.is_some() || upper_blocks != 0)
            .then(|| (upper.unwrap_or_default(), upper_blocks as i64))
    }

    /// The counts, with these upper bits; `generation` is the current peak generation.
    pub(super) fn counts(&self, upper: &Counts, generation: u64) -> Counts {
        let (blocks, bytes) = if self.generation == generation as u32 {
            (self.blocks_at_peak, self.bytes_at_peak)
        } else {
            (self.live_blocks, self.live_bytes)
        };
        Counts {
            tally: self.tally.with(&upper.tally),
            live_blocks: upper.live_blocks.wrapping_add(self.live_blocks.into()),
            live_bytes: self.live_bytes,
            blocks_at_peak: upper.at_peak(generation).0.wrapping_add(blocks.into()),
            bytes_at_peak: bytes,
            generation,
        }
    }
}
