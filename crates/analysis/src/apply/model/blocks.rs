//! What one allocation, reallocation or free does.

use super::{ApplyEnv, Model};
use crate::accounts::{EventTime, Owner};
use crate::attribution::{
    DetachedBlock, HeapAddress, LastBlock, MadeBy, NO_BUCKET, PendingRealloc, Stream,
};
use crate::callstacks::NO_STACK;
use crate::decode::{Operation, OperationKind};
use crate::live_set::{Block, HEAPS};
use crate::observer::{Actor, BlockChange, BlockObserver};

impl Model {
    /// The bucket of this context and thread, which is added if there is none.
    #[inline(never)]
    pub(super) fn bucket(&mut self, context: u32, thread: u32) -> u32 {
        let thread_peak = self.threads.get(thread).peak;
        let within = self.contexts.measured_around(context);
        self.accounts.bucket_of((context, thread), thread_peak, within)
    }

    /// The bucket that differs from `bucket` in its context only.
    pub(super) fn bucket_like(&mut self, bucket: u32, context: u32) -> u32 {
        let Owner { thread, stack, rate, .. } = *self.accounts.owner(bucket);
        let without = self.bucket(context, thread);
        if stack == NO_STACK {
            return without;
        }
        let within = self.contexts.measured_around(context);
        self.accounts.stack_bucket(without, stack, rate, within)
    }

    /// The bucket for blocks with the stack of this id, whose context and thread are those of the
    /// bucket `without` a stack.
    #[inline(always)]
    pub(super) fn stack_bucket(&mut self, id: u32, without: u32) -> u32 {
        if id == 0 {
            return without;
        }
        match self.callstacks.cached(id, without, self.accounts.rate()) {
            Some(bucket) => bucket,
            None => self.find_stack_bucket(id, without),
        }
    }

    #[inline(never)]
    fn find_stack_bucket(&mut self, id: u32, without: u32) -> u32 {
        let stack = self.callstacks.stack(id);
        let context = self.accounts.owner(without).context;
        let within = self.contexts.measured_around(context);
        let rate = self.accounts.rate();
        let bucket = self.accounts.stack_bucket(without, stack, rate, within);
        self.callstacks.cache(id, without, rate, bucket);
        bucket
    }

    /// The bucket of a block of `bucket` that is reallocated with the stack of this id.
    ///
    /// NOTE: a block of a sample leaves the sample if its reallocation has no stack. Otherwise that
    /// reallocation says nothing, and the block keeps its stack.
    fn reallocated_bucket(&mut self, id: u32, bucket: u32) -> u32 {
        let Owner { context, thread, stack, rate } = *self.accounts.owner(bucket);
        if id == 0 && (stack == NO_STACK || rate == 0) {
            return bucket;
        }
        let without = self.bucket(context, thread);
        self.stack_bucket(id, without)
    }

    /// The bucket for what this stream allocates now in this root heap.
    #[cold]
    #[inline(never)]
    pub(super) fn find_bucket(&mut self, stream: u16, heap: u8) -> u32 {
        let Stream { context, thread, .. } = *self.stream(stream);
        let context = self.contexts.in_heap(context, heap, &mut self.accounts);
        let bucket = self.bucket(context, thread);
        self.streams.existing(stream).set_bucket_in(heap, bucket);
        bucket
    }

    /// An event about a root heap that does not exist, or about address 0.
    #[cold]
    #[inline(never)]
    pub(crate) fn unusable<O: BlockObserver>(
        &mut self,
        stream: u16,
        heap: usize,
        kind: OperationKind,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let stream = self.stream(stream);
        stream.last = None;
        match kind {
            OperationKind::ReallocFree => stream.begin_realloc(PendingRealloc::Unknown),
            OperationKind::ReallocAlloc => drop(stream.end_realloc()),
            OperationKind::Alloc | OperationKind::Free => {}
        }
        env.diagnostics.problem(if heap >= HEAPS {
            format!("events in root heap {heap} are ignored; there are {HEAPS}")
        } else {
            "events about address 0 are ignored".to_owned()
        });
    }

    /// An allocation; it is event `number`.
    #[inline]
    pub(super) fn allocate<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        number: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        self.first_seen(operation, number, MadeBy::Allocation, env);
    }

    /// The second half of a reallocation; it is event `number`.
    #[inline(never)]
    pub(super) fn reallocate<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        number: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let Operation { address, size, hint, stack, place, .. } = *operation;
        let (stream_id, heap) = (place.stream(), place.heap());
        let stream = self.stream(stream_id);
        let by = stream.actor();
        let (mut old, from, begun) = match stream.end_realloc() {
            Some(PendingRealloc::Known { old, from, begun }) => (old, from, begun),
            Some(PendingRealloc::Unknown | PendingRealloc::Reserved) => {
                return self.first_reallocated(operation, number, env);
            }
            None => return self.first_seen(operation, number, MadeBy::Allocation, env),
        };
        let before = old.block;
        old.block.bucket = self.reallocated_bucket(stack, before.bucket);
        old.block.set_size(size);
        let DetachedBlock { block, .. } = old;
        let size = block.size();
        let made_by = MadeBy::Reallocation;
        self.streams.existing(stream_id).last = Some(LastBlock { address, block, heap, made_by });
        let &Owner { context, thread, .. } = self.accounts.owner(block.bucket);
        self.threads.get_mut(thread).reattach((heap, address), &old);
        self.count_foreign(stream_id, context, 1);
        let replaced = self.heaps.insert(heap, address, hint, block);
        if env.cutoff.is_counting() {
            if let Some(old) = replaced {
                self.replaced((stream_id, number), (heap, address), &old, env);
            }
            let moment = EventTime { time: env.now, event: number };
            self.accounts.resize(before.size(), size);
            if block.bucket != before.bucket {
                self.accounts.change_stack(before.bucket, block.bucket, before.size(), size);
            }
            self.accounts.add_block(block.key(), size, moment, |tally| tally.reallocated(size));
            let bytes_before = before.size();
            let bucket_before = before.bucket;
            let change = BlockChange::Reallocated { begun, from, bytes_before, bucket_before, by };
            env.observe((stream_id, number), (heap, address), &block, change);
        } else {
            env.cutoff.after_mut().add_bytes(size as i64);
        }
    }

    /// A block that is first seen where it is reallocated. It was allocated before the trace
    /// began, so before any measurement: it counts in the scope, but in no measurement.
    #[cold]
    #[inline(never)]
    fn first_reallocated<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        number: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let (stream_id, heap) = (operation.place.stream(), operation.place.heap());
        let stream = self.stream(stream_id);
        let (context, thread, bucket) = (stream.context, stream.thread, stream.bucket_in(heap));
        let made_by = MadeBy::ReallocationOfUnknown;
        let Some(outside) = self.contexts.outside_measurements(context, &mut self.accounts) else {
            return self.first_seen(operation, number, made_by, env);
        };
        let in_heap = self.contexts.in_heap(outside, heap, &mut self.accounts);
        let without = self.bucket(in_heap, thread);
        self.streams.existing(stream_id).set_bucket_in(heap, without);
        self.first_seen(operation, number, made_by, env);
        self.streams.existing(stream_id).set_bucket_in(heap, bucket);
        self.count_foreign(stream_id, outside, 1);
    }

    /// A block of the context `owner` was reallocated on this stream (`by` 1), or a reallocation
    /// that was counted has failed (-1).
    #[inline]
    pub(super) fn count_foreign(&mut self, stream: u16, owner: u32, by: i64) {
        let context = self.stream(stream).context;
        self.contexts.count_foreign(context, owner, by);
    }

    /// A block that was not known before.
    #[inline]
    fn first_seen<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        number: u64,
        made_by: MadeBy,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let Operation { address, size, hint, stack, place, .. } = *operation;
        let (stream_id, heap) = (place.stream(), place.heap());
        let stream = self.stream(stream_id);
        let (thread, mut bucket) = (stream.thread, stream.bucket_in(heap));
        if bucket == NO_BUCKET {
            bucket = self.find_bucket(stream_id, heap);
        }
        bucket = self.stack_bucket(stack, bucket);
        let block = Block::allocated(size, env.now, bucket);
        let size = block.size();
        self.streams.existing(stream_id).last = Some(LastBlock { address, block, heap, made_by });
        self.threads.get_mut(thread).allocated(1, (heap, address));
        let replaced = self.heaps.insert(heap, address, hint, block);
        if env.cutoff.is_counting() {
            if let Some(old) = replaced {
                self.replaced((stream_id, number), (heap, address), &old, env);
            }
            let moment = EventTime { time: env.now, event: number };
            self.accounts.add_block(block.key(), size, moment, |tally| tally.allocated(size));
            let event = (stream_id, number);
            env.observe(event, (heap, address), &block, BlockChange::Allocated);
        } else {
            let after = env.cutoff.after_mut();
            after.allocations += 1;
            after.add_bytes(size as i64);
        }
    }

    /// A block was allocated over this one.
    #[cold]
    #[inline(never)]
    pub(super) fn replaced<O: BlockObserver>(
        &mut self,
        event: (u16, u64),
        address: HeapAddress,
        old: &Block,
        env: &mut ApplyEnv<'_, O>,
    ) {
        env.diagnostics.duplicate_allocation();
        self.accounts.remove_block(old.key(), old.size(), |_| ());
        self.accounts.note_left(old.key(), old.size());
        env.observe(event, address, old, BlockChange::Left);
    }

    /// A free, or the first half of a reallocation.
    #[inline]
    pub(super) fn free<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        number: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let Operation { address, hint, place, .. } = *operation;
        let (stream_id, heap) = (place.stream(), place.heap());
        let free_scopes = self.free_scopes;
        let stream = self.stream(stream_id);
        stream.last = None;
        let thread = stream.thread;
        let by = stream.freer(free_scopes);
        let event = (stream_id, number);
        let realloc = operation.kind == OperationKind::ReallocFree;
        let Some(block) = self.heaps.remove(heap, address, hint) else {
            if realloc {
                self.stream(stream_id).begin_realloc(PendingRealloc::Unknown);
            }
            return self.free_of_unknown(event, by, (heap, address), env);
        };
        let owner = self.accounts.thread_of(block.bucket);
        if realloc {
            let old = self.threads.get(owner).detach((heap, address), block);
            let pending = PendingRealloc::Known { old, from: address, begun: number };
            self.streams.existing(stream_id).begin_realloc(pending);
        }
        if env.cutoff.is_counting() {
            let newest = self.threads.get(thread).newest();
            let short = !realloc && owner == thread && newest == (heap, address);
            self.accounts.remove_block(block.key(), block.size(), |tally| tally.freed(short));
            let freed = BlockChange::Freed { by, short_lived: short };
            let change = if realloc { BlockChange::ReallocBegun } else { freed };
            env.observe(event, (heap, address), &block, change);
        } else {
            env.cutoff.after_mut().frees += u64::from(!realloc);
        }
    }

    #[cold]
    #[inline(never)]
    fn free_of_unknown<O: BlockObserver>(
        &mut self,
        event: (u16, u64),
        by: Actor,
        address: HeapAddress,
        env: &mut ApplyEnv<'_, O>,
    ) {
        if let Some(DetachedBlock { block, .. }) = self.heap_blocks.remove(&address) {
            if env.cutoff.is_counting() {
                self.accounts.note_returned(block.key(), block.size());
                self.accounts.count(block.key(), block.size(), |tally| tally.freed(false));
                env.observe(event, address, &block, BlockChange::Returned);
                let change = BlockChange::Freed { by, short_lived: false };
                env.observe(event, address, &block, change);
            }
        } else if env.cutoff.is_counting() {
            env.diagnostics.unknown_free(env.began_late);
        }
    }
}
