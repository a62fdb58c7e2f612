//! What changes when a block is allocated, freed, resized or moved.

use super::bucket::{Bucket, Counts, Owner, PackedBucket};
use super::combined::Combined;
use super::measured::MeasuredPeaks;
use super::moves::{BucketMoves, Moved};
use super::peaks::{EventTime, NO_TRACKER, Peaks, Total};
use super::size_class::{CLASSES, SizeClassFigures, class_of};
use super::stacks::StackBuckets;
use super::tally::Tally;
use crate::callstacks::NO_STACK;
use crate::hash::IntMap;
use memledger_document::internal::Weights;

/// The bucket and the size class of a block: they determine every row that it counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountKey {
    /// The number of its bucket.
    pub(crate) bucket: u32,
    /// Its size class.
    pub(crate) class: usize,
}

/// All buckets, size classes and peaks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    buckets: Vec<PackedBucket>,
    /// By bucket.
    owners: Vec<Owner>,
    /// By bucket: the upper bits of its counts and blocks, if they are not 0.
    upper: IntMap<u32, Counts>,
    /// The buckets without a stack, by context and thread.
    index: IntMap<(u32, u32), u32>,
    stacks: StackBuckets,
    size_classes: [SizeClassFigures; CLASSES],
    peaks: Peaks,
    measured: MeasuredPeaks,
    combined: Combined,
    total: Total,
    moves: BucketMoves,
    threads: Vec<ThreadAccount>,
}

/// What a thread has done, in all buckets.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadAccount {
    /// All bytes that it has allocated.
    allocated: u64,
    /// The number of its peak tracker.
    peak: u32,
}

impl Accounts {
    /// Adds a peak tracker; returns its number.
    pub(crate) fn add_peak(&mut self) -> u32 {
        self.peaks.add()
    }

    /// Adds a peak tracker that starts as a copy of tracker `of`; returns its number.
    pub(crate) fn copy_peak(&mut self, of: u32) -> u32 {
        self.peaks.copy(of)
    }

    /// Adds a peak tracker for all blocks so far; returns its number.
    pub(crate) fn add_peak_of_total(&mut self) -> u32 {
        self.flush();
        self.peaks.add_live(self.total.live_bytes, self.total.peak_bytes)
    }

    /// See [`Peaks::set_list`].
    pub(crate) fn set_peaks(&mut self, context: u32, list: &[u32]) {
        self.peaks.set_list(context, list);
    }

    pub(crate) fn measured_mut(&mut self) -> &mut MeasuredPeaks {
        &mut self.measured
    }

    /// The number of the bucket of a context and a thread. Adds the bucket if there is none:
    /// `thread_peak` is the peak tracker of its thread, and `within` are the measurements around it.
    pub(crate) fn bucket_of(
        &mut self,
        (context, thread): (u32, u32),
        thread_peak: u32,
        within: impl Iterator<Item = u32>,
    ) -> u32 {
        *self.index.entry((context, thread)).or_insert_with(|| {
            let number = self.buckets.len() as u32;
            self.measured.add_bucket(number, within);
            let mut bucket = PackedBucket::new(number);
            if let Some(first) = self.stacks.first(NO_STACK) {
                bucket.tracker = self.buckets[first as usize].tracker;
            }
            self.buckets.push(bucket);
            self.owners.push(Owner { context, thread, ..Owner::default() });
            if thread as usize >= self.threads.len() {
                self.threads.resize(thread as usize + 1, ThreadAccount::default());
            }
            self.threads[thread as usize].peak = thread_peak;
            number
        })
    }

    /// The number of the bucket of a stack that belongs to the bucket `without` one, for blocks that
    /// were sampled at this rate; new if need be. A new one is within these measurements.
    pub(crate) fn stack_bucket(
        &mut self,
        without: u32,
        stack: u32,
        rate: u32,
        within: impl Iterator<Item = u32>,
    ) -> u32 {
        let key = (without, stack, rate);
        let first = self.stacks.first(stack);
        if let Some(first) = first {
            let rows = self.buckets[first as usize].rows;
            if (rows, self.owners[first as usize].rate) == (without, rate) {
                return first;
            }
            if let Some(&bucket) = self.stacks.further.get(&key) {
                return bucket;
            }
        }
        if self.stacks.is_empty() {
            // So far, all blocks are without a stack.
            let tracker = self.add_peak_of_total();
            self.stacks.set_first(NO_STACK, without);
            self.buckets.iter_mut().for_each(|bucket| bucket.tracker = tracker);
        }
        let number = self.buckets.len() as u32;
        let mut bucket = PackedBucket::new(without);
        if let Some(first) = first {
            bucket.tracker = self.shared_tracker(first);
            self.stacks.further.insert(key, number);
        } else {
            self.stacks.set_first(stack, number);
        }
        self.stacks.add_sampled(number, rate, self.total.generation);
        self.measured.add_bucket(number, within);
        self.buckets.push(bucket);
        self.owners.push(Owner { stack, rate, ..self.owners[without as usize] });
        number
    }

    /// The peak tracker of the stack of a bucket. The bucket may be its only one so far.
    fn shared_tracker(&mut self, bucket: u32) -> u32 {
        let bucket = &mut self.buckets[bucket as usize];
        if bucket.tracker == NO_TRACKER {
            bucket.tracker = self.peaks.add_live(bucket.live_bytes, bucket.peak);
        }
        bucket.tracker
    }

    /// See [`StackBuckets::set_mean`].
    pub(crate) fn set_sampling(&mut self, mean: u64) {
        self.stacks.set_mean(mean);
    }

    /// Changes the counts of the bucket and size class of a block of `bytes`, not the live figures.
    pub(crate) fn count(&mut self, key: AccountKey, bytes: u64, change: impl Fn(&mut Tally)) {
        let mut tally = Tally::default();
        change(&mut tally);
        self.add_allocated(key.bucket, &tally);
        self.change_counts(key.bucket, (0, 0), &tally, self.total.generation);
        change(&mut self.size_classes[key.class].counts.tally);
        self.count_sampled(key.bucket, bytes, 0, change);
    }

    /// Counts a change in a bucket of a sample, if this is one.
    #[inline(always)]
    fn count_sampled(&mut self, bucket: u32, size: u64, blocks: i64, change: impl Fn(&mut Tally)) {
        if self.stacks.rate() != 0 && self.owners[bucket as usize].rate != 0 {
            let mut tally = Tally::default();
            change(&mut tally);
            self.stacks.change(bucket, size, blocks, &tally, self.total.generation);
        }
    }

    /// A block of `bytes` becomes live; `change` changes the counts of its bucket and size class.
    #[inline]
    pub(crate) fn add_block(
        &mut self,
        key: AccountKey,
        bytes: u64,
        moment: EventTime,
        change: impl Fn(&mut Tally),
    ) {
        self.apply(key, 1, bytes as i64, moment, change);
    }

    /// A block of `bytes` stops being live; `change` changes the counts of its bucket and size
    /// class.
    #[inline]
    pub(crate) fn remove_block(
        &mut self,
        key: AccountKey,
        bytes: u64,
        change: impl Fn(&mut Tally),
    ) {
        let moment = EventTime { time: 0, event: 0 };
        self.apply(key, -1, (bytes as i64).wrapping_neg(), moment, change);
    }

    /// Blocks and bytes become live, or stop being live: then both numbers are negative or 0.
    #[inline(always)]
    fn apply(
        &mut self,
        key: AccountKey,
        blocks: i64,
        bytes: i64,
        moment: EventTime,
        change: impl Fn(&mut Tally),
    ) {
        // PERF: without stacks, nearly all consecutive events are of one bucket, which is changed
        // once for all of them. With stacks, nearly each is of another bucket.
        let has_stacks = !self.stacks.is_empty();
        let rows = if has_stacks { self.buckets[key.bucket as usize].rows } else { key.bucket };
        if self.combined.rows != rows {
            self.begin_combined(rows);
        }
        let is_peak = self.combined.add(blocks, bytes);
        let generation = self.total.generation;
        change(&mut self.combined.tally);
        if has_stacks {
            self.change_bucket(key.bucket, blocks, bytes, &change);
        }
        let class = &mut self.size_classes[key.class % CLASSES];
        class.counts.change(blocks, bytes, generation);
        if blocks > 0 {
            class.peak = class.peak.max(class.counts.live_bytes);
        }
        change(&mut class.counts.tally);
        self.count_sampled(key.bucket, bytes.unsigned_abs(), blocks, change);
        if is_peak {
            self.begin_generation();
            (self.total.peak_at_ns, self.total.peak_at_event) = (moment.time, moment.event);
        }
    }

    /// Changes a bucket in a trace with stacks. PERF: out of line, so that the registers of the caller
    /// are for traces without stacks.
    #[inline(never)]
    fn change_bucket(
        &mut self,
        bucket: u32,
        blocks: i64,
        bytes: i64,
        change: &impl Fn(&mut Tally),
    ) {
        let mut tally = Tally::default();
        change(&mut tally);
        let before = self.change_counts(bucket, (blocks, bytes), &tally, self.total.generation);
        let most = bytes.max(0);
        let packed = &mut self.buckets[bucket as usize];
        if packed.tracker == NO_TRACKER {
            packed.peak = packed.peak.max(before.wrapping_add_signed(most));
        } else {
            self.peaks.apply_to(packed.tracker, bytes, most);
        }
        self.measured.apply(bucket, before, bytes, most);
    }

    /// Changes the figures of a bucket, in the peak generation `generation`; returns the live bytes
    /// that it had.
    #[inline(always)]
    fn change_counts(
        &mut self,
        bucket: u32,
        (blocks, bytes): (i64, i64),
        tally: &Tally,
        generation: u64,
    ) -> u64 {
        let packed = &mut self.buckets[bucket as usize];
        let before = packed.live_bytes;
        if let Some(upper) = packed.change(blocks, bytes, tally, generation) {
            self.change_upper(bucket, upper, generation);
        }
        before
    }

    #[cold]
    #[inline(never)]
    fn change_upper(&mut self, bucket: u32, (tally, blocks): (Tally, i64), generation: u64) {
        let upper = self.upper.entry(bucket).or_default();
        upper.change(blocks, 0, generation);
        upper.tally.add(&tally);
    }

    /// The total has a new maximum. Numbers of generations whose lower 32 bits are 0 are left out,
    /// and a bucket that was last changed before one is of no later generation.
    #[inline(always)]
    fn begin_generation(&mut self) {
        self.total.generation += 1;
        if self.total.generation as u32 == 0 {
            self.total.generation += 1;
            self.buckets.iter_mut().for_each(|bucket| bucket.generation = 0);
        }
    }

    /// Combines events for these rows from here on.
    #[inline(never)]
    fn begin_combined(&mut self, rows: u32) {
        self.flush();
        let headroom = self.total.peak_bytes.wrapping_sub(self.total.live_bytes) as i64;
        self.combined = Combined::new(rows, headroom);
    }

    /// Applies the combined events to the peaks of their rows and the total, and to their bucket if
    /// no block has a stack.
    pub(crate) fn flush(&mut self) {
        let combined = std::mem::take(&mut self.combined);
        if combined.is_empty() {
            return;
        }
        let total = &mut self.total;
        if let Some((blocks, bytes)) = combined.at_peak {
            total.peak_bytes = total.live_bytes.wrapping_add_signed(bytes);
            total.blocks_at_peak = total.live_blocks.wrapping_add_signed(blocks);
        }
        let most_blocks = total.live_blocks.wrapping_add_signed(combined.most_blocks);
        total.peak_blocks = total.peak_blocks.max(most_blocks);
        let most_bytes = total.live_bytes.wrapping_add_signed(combined.most_bytes);
        total.most_bytes = total.most_bytes.max(most_bytes);
        total.live_blocks = total.live_blocks.wrapping_add_signed(combined.blocks);
        total.live_bytes = total.live_bytes.wrapping_add_signed(combined.bytes);
        let (bytes, most) = (combined.bytes, combined.most_bytes);
        let Owner { context, thread, .. } = self.owners[combined.rows as usize];
        self.peaks.apply_to(self.threads[thread as usize].peak, bytes, most);
        self.peaks.apply(context, bytes, most);
        self.add_allocated(combined.rows, &combined.tally);
        if self.stacks.is_empty() {
            let bucket = combined.rows;
            let before = self.buckets[bucket as usize].live_bytes;
            let generation = self.total.generation;
            let (at_peak, rest) = match combined.at_peak {
                // Up to the peak, the events are of an earlier generation.
                Some((blocks, bytes)) => (
                    (blocks, bytes),
                    (combined.blocks - blocks, combined.bytes.wrapping_sub(bytes)),
                ),
                None => ((0, 0), (combined.blocks, combined.bytes)),
            };
            if combined.at_peak.is_some() {
                self.change_counts(bucket, at_peak, &Tally::default(), generation - 1);
            }
            self.change_counts(bucket, rest, &combined.tally, generation);
            self.measured.apply(bucket, before, bytes, most);
        }
    }

    /// Adds what a tally has of allocated bytes to those of the thread of a bucket.
    #[inline]
    fn add_allocated(&mut self, bucket: u32, tally: &Tally) {
        let thread = self.thread_of(bucket);
        let allocated = &mut self.threads[thread as usize].allocated;
        *allocated = allocated.wrapping_add(tally.allocated_bytes);
    }

    /// Whether there are no combined events that are not applied yet.
    #[inline]
    pub(crate) fn is_flushed(&self) -> bool {
        self.combined.is_empty()
    }

    /// A live block of `bytes` moves from one bucket to another of the same thread.
    pub(crate) fn transfer(&mut self, from: u32, to: u32, bytes: u64) {
        self.flush();
        let generation = self.total.generation;
        let (plus, minus) = (bytes as i64, (bytes as i64).wrapping_neg());
        let mut contexts = [0; 2];
        // The block leaves first, so that the peak of a measurement around both buckets is not
        // raised.
        for (index, (bucket, blocks, bytes)) in
            [(from, -1, minus), (to, 1, plus)].into_iter().enumerate()
        {
            let change = (blocks, bytes);
            let before = self.change_counts(bucket, change, &Tally::default(), generation);
            self.measured.apply(bucket, before, bytes, bytes.max(0));
            contexts[index] = self.owners[bucket as usize].context;
        }
        self.peaks.transfer(contexts[0], contexts[1], bytes);
        self.stacks.change(from, bytes, -1, &Tally::default(), generation);
        self.stacks.change(to, bytes, 1, &Tally::default(), generation);
        self.moves.between(from, to, bytes);
    }

    /// A block between the halves of its reallocation gets a new size. If the new size is in
    /// another class, the block moves to that class, and so does the free that the first half was
    /// counted as.
    pub(crate) fn resize(&mut self, old: u64, new: u64) {
        let classes = [class_of(old), class_of(new)];
        if let Ok([from, to]) = self.size_classes.get_disjoint_mut(classes) {
            from.resized_out.add(1, old);
            to.resized_in.add(1, new);
            from.counts.tally.move_free(&mut to.counts.tally);
        }
    }

    /// A block between the halves of its reallocation gets another stack, and so another bucket of
    /// the same context and thread. The free that the first half was counted as moves with it.
    pub(crate) fn change_stack(&mut self, from: u32, to: u32, old: u64, new: u64) {
        let (mut left, mut entered) = (Tally::default(), Tally::default());
        left.move_free(&mut entered);
        self.change_counts(from, (0, 0), &left, self.total.generation);
        self.change_counts(to, (0, 0), &entered, self.total.generation);
        self.count_sampled(from, old, 0, Tally::take_free);
        self.count_sampled(to, new, 0, |tally| tally.freed(false));
        self.moves.resized_between(from, to, old, new);
    }

    /// Notes that a block leaves the accounts without a free.
    pub(crate) fn note_left(&mut self, key: AccountKey, bytes: u64) {
        self.moves.left(key.bucket, bytes);
        self.size_classes[key.class].left.add(1, bytes);
    }

    /// Notes that a block that had left has returned.
    pub(crate) fn note_returned(&mut self, key: AccountKey, bytes: u64) {
        self.moves.returned(key.bucket, bytes);
        self.size_classes[key.class].returned.add(1, bytes);
    }
}

/// What reports are made from.
impl Accounts {
    /// What a bucket is the bucket of.
    #[inline]
    pub(crate) fn owner(&self, bucket: u32) -> &Owner {
        &self.owners[bucket as usize]
    }

    /// The thread of a bucket. PERF: the bucket changes too, so its line is fetched anyway; those of
    /// buckets without a stack are few.
    #[inline]
    pub(crate) fn thread_of(&self, bucket: u32) -> u32 {
        self.owners[self.buckets[bucket as usize].rows as usize].thread
    }

    pub(crate) fn bucket(&self, number: u32) -> Bucket {
        let upper = self.upper.get(&number).copied().unwrap_or_default();
        let counts = self.buckets[number as usize].counts(&upper, self.total.generation);
        let Owner { context, thread, stack, .. } = self.owners[number as usize];
        Bucket { number, counts, context, thread, stack }
    }

    /// All buckets, by their numbers.
    pub(crate) fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> + ExactSizeIterator {
        (0..self.buckets.len() as u32).map(|number| self.bucket(number))
    }

    pub(crate) fn size_classes(&self) -> &[SizeClassFigures] {
        &self.size_classes
    }

    pub(crate) fn total(&self) -> &Total {
        &self.total
    }

    /// Forgets what was live before now, but for the peak.
    pub(crate) fn reset_most_bytes(&mut self) {
        self.total.most_bytes = self.total.live_bytes;
    }

    /// The live bytes of a tracker, and all bytes that a thread has allocated.
    pub(crate) fn of_thread(&self, thread: u32, tracker: u32) -> (u64, u64) {
        let allocated = self.threads.get(thread as usize).map(|thread| thread.allocated);
        (self.peaks.live(tracker).unwrap_or(0), allocated.unwrap_or(0))
    }

    /// The moves, each with the bucket left and the bucket entered, `None` outside the accounts; the
    /// blocks have their bytes when they left and when they entered.
    /// NOTE: in an order that differs from run to run.
    pub(crate) fn moves(
        &self,
    ) -> impl Iterator<Item = (Option<Bucket>, Option<Bucket>, [Moved; 2])> {
        let bucket = |number: Option<u32>| Some(self.bucket(number?));
        self.moves.iter().map(move |(from, to, moved)| (bucket(from), bucket(to), moved))
    }

    /// The number of buckets without a stack.
    pub(crate) fn buckets_without_stack(&self) -> usize {
        self.index.len()
    }

    /// Whether a block had a stack.
    pub(crate) fn has_stacks(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// What the sample of a bucket says, by its number; `None` if it counts every block.
    pub(crate) fn weights(&self, bucket: u32) -> Option<Weights> {
        self.stacks.weights(bucket, self.total.generation)
    }

    /// The mean distance of the samples that a bucket counts, in bytes; 0 if it counts every block.
    pub(crate) fn sampling_of(&self, bucket: u32) -> u64 {
        self.stacks.mean(bucket)
    }

    /// The largest mean distance of samples, in bytes; 0 if each block has a stack.
    pub(crate) fn sampling(&self) -> u64 {
        self.stacks.largest_mean()
    }

    /// The number of the present rate of sampling; 0 before the first sample.
    #[inline(always)]
    pub(crate) fn rate(&self) -> u32 {
        self.stacks.rate()
    }

    /// The peak of a stack; 0 if no block has it.
    pub(crate) fn stack_peak(&self, stack: u32) -> u64 {
        let first = self.stacks.first(stack).map(|first| &self.buckets[first as usize]);
        first.map_or(0, |first| self.peaks.peak(first.tracker).unwrap_or(first.peak))
    }

    /// The peak of a row; that of the total if no tracker has this number.
    pub(crate) fn peak(&self, tracker: u32) -> u64 {
        self.peaks.peak(tracker).unwrap_or(self.total.peak_bytes)
    }

    pub(crate) fn measured(&self) -> &MeasuredPeaks {
        &self.measured
    }

    /// The bytes that `bucket` held when a measurement around it reached its peak.
    pub(crate) fn held_at_peak(&self, bucket: &Bucket, measured: u32) -> u64 {
        let kept = self.measured.held_at_peak(bucket.number, measured);
        kept.unwrap_or(bucket.counts.live_bytes)
    }
}

#[cfg(test)]
mod tests;
