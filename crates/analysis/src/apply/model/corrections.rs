//! Events that correct, rename or reclassify a block.

use super::{ApplyEnv, Model, usable_heap};
use crate::accounts::{LAST_CLASS, class_of};
use crate::attribution::{LastBlock, MadeBy};
use crate::live_set::{Block, HEAPS};
use crate::observer::{BlockChange, BlockObserver};

impl Model {
    /// The block just allocated on this stream is larger than the 32 GiB that its size field can
    /// hold. So the block is in the last size class, and stays there.
    pub(crate) fn large_size<O: BlockObserver>(
        &mut self,
        stream_id: u16,
        address: u64,
        size: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let is_large = |block: &Block| [block.size(), size].map(class_of) == [LAST_CLASS; 2];
        let last = self.stream(stream_id).last;
        let Some(mut last) = last.filter(|l| l.address == address && is_large(&l.block)) else {
            return env.diagnostics.problem(
                "a Memledger.LargeSize does not follow the allocation it speaks of".to_owned(),
            );
        };
        let old = last.block;
        last.block.set_size(size);
        let new = last.block.size();
        self.streams.existing(stream_id).last = Some(last);
        // NOTE: another thread may have freed the block already.
        let is_live = self.heaps.get(last.heap, address) == Some(old);
        if is_live {
            self.heaps.replace(last.heap, address, last.block);
        }
        if env.cutoff.is_counting() {
            self.accounts.count(old.key(), new, |tally| tally.corrected(old.size(), new));
            if is_live {
                self.accounts.remove_block(old.key(), old.size(), |_| ());
                self.accounts.add_block(old.key(), new, env.moment(), |_| ());
            }
            let change = BlockChange::Corrected { bytes_before: old.size(), is_live };
            let event = (stream_id, env.cutoff.events());
            env.observe(event, (last.heap, address), &last.block, change);
        } else {
            let after = env.cutoff.after_mut();
            after.add_bytes((new as i64).wrapping_sub(old.size() as i64));
        }
    }

    /// The reallocation just made on this stream has failed: its two halves stay as operations,
    /// its count and its bytes are taken back.
    pub(crate) fn realloc_failed<O: BlockObserver>(
        &mut self,
        stream_id: u16,
        address: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let last = self.stream(stream_id).last.take();
        let made = |last: &LastBlock| last.address == address && last.made_by != MadeBy::Allocation;
        let Some(LastBlock { block, made_by, heap, .. }) = last.filter(made) else {
            return env.diagnostics.problem(
                "a Memledger.ReallocFailed does not follow the reallocation it speaks of"
                    .to_owned(),
            );
        };
        let context = self.accounts.owner(block.bucket).context;
        self.count_foreign(stream_id, context, -1);
        match (made_by, env.cutoff.is_counting()) {
            (MadeBy::Reallocation, true) => {
                let size = block.size();
                self.accounts.count(block.key(), size, |tally| tally.not_reallocated(size));
                let event = (stream_id, env.cutoff.events());
                let is_live = self.heaps.get(heap, address) == Some(block);
                let change = BlockChange::ReallocFailed { is_live };
                env.observe(event, (heap, address), &block, change);
            }
            (MadeBy::Reallocation, false) => {
                env.cutoff.after_mut().add_bytes((block.size() as i64).wrapping_neg());
            }
            // The block is first seen here and counts as an allocation; but nothing was freed.
            (_, true) => env.diagnostics.no_unknown_free(env.began_late),
            (_, false) => {}
        }
    }

    /// A live block gets the tag that is current on the stream.
    pub(crate) fn rename<O: BlockObserver>(
        &mut self,
        stream_id: u16,
        heap: usize,
        address: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let current = self.stream(stream_id).context;
        let found = usable_heap(heap).and_then(|heap| Some((heap, self.heaps.get(heap, address)?)));
        let Some((heap, block)) = found else {
            // A program may rename a block that it allocated before the trace began.
            if !env.began_late {
                env.diagnostics.problem(
                    "a Memory.UpdateAlloc names an address where no block is live".to_owned(),
                );
            }
            return;
        };
        let old = self.accounts.owner(block.bucket).context;
        let context = self.contexts.retagged(old, current, &mut self.accounts);
        if context == old {
            return;
        }
        let bucket = self.bucket_like(block.bucket, context);
        let mut renamed = block;
        renamed.bucket = bucket;
        self.heaps.replace(heap, address, renamed);
        if env.cutoff.is_counting() {
            self.accounts.transfer(block.bucket, bucket, block.size());
            let change = BlockChange::Moved { from: block.bucket };
            env.observe((stream_id, env.cutoff.events()), (heap, address), &renamed, change);
        }
    }

    /// The block at `address` is a heap for other blocks: it is not the program's data.
    pub(crate) fn mark_heap<O: BlockObserver>(
        &mut self,
        stream_id: u16,
        address: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let Some((heap, block)) = self.heaps.remove_anywhere(address) else {
            return env.diagnostics.problem(
                "a Memory.HeapMarkAlloc names an address where no block is live".to_owned(),
            );
        };
        let owner = self.accounts.thread_of(block.bucket);
        let detached = self.threads.get(owner).detach((heap, address), block);
        self.heap_blocks.entry((heap, address)).or_insert(detached);
        if env.cutoff.is_counting() {
            self.accounts.remove_block(block.key(), block.size(), |_| ());
            self.accounts.note_left(block.key(), block.size());
            let event = (stream_id, env.cutoff.events());
            env.observe(event, (heap, address), &block, BlockChange::Left);
        }
    }

    /// The block at `address` is a block like any other again.
    pub(crate) fn unmark_heap<O: BlockObserver>(
        &mut self,
        stream_id: u16,
        address: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let can_return = |&heap: &u8| {
            self.heap_blocks.contains_key(&(heap, address))
                && self.heaps.get(heap, address).is_none()
        };
        let heap = (0..HEAPS as u8).find(can_return);
        let found = heap.and_then(|heap| Some((heap, self.heap_blocks.remove(&(heap, address))?)));
        let Some((heap, detached)) = found else {
            return env.diagnostics.problem(
                "a Memory.HeapUnmarkAlloc names an address where no heap is marked".to_owned(),
            );
        };
        let block = detached.block;
        let owner = self.accounts.thread_of(block.bucket);
        self.threads.get_mut(owner).reattach((heap, address), &detached);
        self.heaps.insert(heap, address, u32::MAX, block);
        if env.cutoff.is_counting() {
            self.accounts.note_returned(block.key(), block.size());
            self.accounts.add_block(block.key(), block.size(), env.moment(), |_| ());
            let event = (stream_id, env.cutoff.events());
            env.observe(event, (heap, address), &block, BlockChange::Returned);
        }
    }
}
