//! Buckets with a stack, and what a sample of stacks says.

use super::tally::Tally;
use crate::hash::IntMap;
use memledger_document::internal::{Sample, Weights};

/// In place of a bucket: the stack has none.
const NO_BUCKET: u32 = u32::MAX;

/// What is kept of the stacks in the accounts. Nothing, in a trace without stacks.
#[derive(Clone, Debug, Default)]
pub(super) struct StackBuckets {
    /// By stack: its first bucket. Empty before the first bucket with a stack.
    first: Vec<u32>,
    /// The further buckets of stacks, by the bucket without a stack that they belong to, their stack,
    /// and the rate of sampling.
    pub(super) further: IntMap<(u32, u32, u32), u32>,
    /// The mean distance of samples after each change, in bytes; 0 if each block has a stack. Before
    /// the first one, each has.
    means: Vec<u64>,
    /// By bucket.
    sampled: IntMap<u32, Sampled>,
}

/// A bucket that counts a sample.
#[derive(Clone, Debug)]
struct Sampled {
    mean: u64,
    weights: Weights,
    /// The peak generation of the state at the peak.
    generation: u64,
}

impl StackBuckets {
    /// From here on, only one in `mean` bytes has a stack; 0: each block has one.
    pub(super) fn set_mean(&mut self, mean: u64) {
        if mean != self.means.last().copied().unwrap_or(0) {
            self.means.push(mean);
        }
    }

    /// The largest mean distance of samples.
    pub(super) fn largest_mean(&self) -> u64 {
        self.means.iter().copied().max().unwrap_or(0)
    }

    /// The number of the present rate of sampling; 0 before the first sample.
    #[inline(always)]
    pub(super) fn rate(&self) -> u32 {
        self.means.len() as u32
    }

    /// Whether there is no bucket with a stack.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The first bucket of a stack, if it has one.
    pub(super) fn first(&self, stack: u32) -> Option<u32> {
        self.first.get(stack as usize).copied().filter(|&bucket| bucket != NO_BUCKET)
    }

    pub(super) fn set_first(&mut self, stack: u32, bucket: u32) {
        let index = stack as usize;
        if index >= self.first.len() {
            self.first.resize(index + 1, NO_BUCKET);
        }
        self.first[index] = bucket;
    }

    /// A bucket counts blocks that were sampled at this rate.
    pub(super) fn add_sampled(&mut self, bucket: u32, rate: u32, generation: u64) {
        let mean = (rate as usize).checked_sub(1).map_or(0, |index| self.means[index]);
        if mean > 0 {
            self.sampled.insert(bucket, Sampled { mean, weights: Weights::default(), generation });
        }
    }

    /// Blocks of `size` bytes become live in a bucket that counts a sample, or stop being live if
    /// they are negative; `tally` is what changed.
    #[cold]
    #[inline(never)]
    pub(super) fn change(
        &mut self,
        bucket: u32,
        size: u64,
        blocks: i64,
        tally: &Tally,
        generation: u64,
    ) {
        let Some(sampled) = self.sampled.get_mut(&bucket) else { return };
        let sample = Sample::of(size, sampled.mean);
        sampled.keep_peak(generation);
        let mut change = tally.figures();
        change.live_blocks = blocks as u64;
        change.live_bytes = blocks.wrapping_mul(size as i64) as u64;
        sampled.weights.add_sample(&change, sample);
    }

    /// The mean distance of the samples that a bucket counts; 0 if it counts every block.
    pub(super) fn mean(&self, bucket: u32) -> u64 {
        self.sampled.get(&bucket).map_or(0, |sampled| sampled.mean)
    }

    /// What the sample of a bucket says, at the peak `generation`.
    pub(super) fn weights(&self, bucket: u32, generation: u64) -> Option<Weights> {
        let mut sampled = self.sampled.get(&bucket)?.clone();
        sampled.keep_peak(generation);
        Some(sampled.weights)
    }
}

impl Sampled {
    /// Saves the state at the peak; called before every change of the live figures.
    fn keep_peak(&mut self, generation: u64) {
        if self.generation != generation {
            self.weights.keep_peak();
            self.generation = generation;
        }
    }
}
