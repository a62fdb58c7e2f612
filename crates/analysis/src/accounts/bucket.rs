//! The columns that add up, of one bucket or one size class.

use crate::columns::Tally;

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
    /// Empty counts of a bucket that is first used after the peak `generation`.
    pub(super) fn since_peak(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

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

    /// Begins the peak generation `generation`: at its peak these counts had `blocks` and `bytes`
    /// more than now.
    #[inline]
    pub(super) fn begin_generation(&mut self, blocks: i64, bytes: i64, generation: u64) {
        self.blocks_at_peak = self.live_blocks.wrapping_add_signed(blocks);
        self.bytes_at_peak = self.live_bytes.wrapping_add_signed(bytes);
        self.generation = generation;
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

/// One context on one thread, and one stack if the trace has stacks.
///
/// PERF: two cache lines that the processor fetches together.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(128))]
pub(crate) struct Bucket {
    pub(crate) counts: Counts,
    /// The bucket of the same context and thread that has no stack: this one, or another.
    pub(super) rows: u32,
    pub(crate) context: u32,
    pub(crate) thread: u32,
    /// The number of its stack; 0 is that of blocks without one.
    pub(crate) stack: u32,
    /// The peak trackers of the thread and of the stack.
    pub(super) thread_peak: u32,
    pub(super) stack_peak: u32,
    /// The number of the rate at which its blocks were sampled; 0 if each block was taken.
    pub(crate) rate: u32,
    /// The range of its figures for the measurements around it: start and end.
    pub(super) held: (u32, u32),
}
