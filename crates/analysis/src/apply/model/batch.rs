//! Applies a batch of operations.
//!
//! Most operations of a batch are consecutive allocations and frees of one thread: their common
//! stream, thread and bucket are looked up once.

use super::{ApplyEnv, Model};
use crate::accounts::EventTime;
use crate::attribution::{LastBlock, MadeBy, NO_BUCKET};
use crate::decode::{Operation, OperationKind, OperationQueue};
use crate::live_set::Block;
use crate::observer::{BlockChange, BlockObserver};

impl Model {
    /// Applies all queued operations.
    #[inline(never)]
    pub(crate) fn apply<O: BlockObserver>(
        &mut self,
        queue: &mut OperationQueue,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let (operations, first) = queue.take();
        self.prefetch(operations);
        let mut at = 0;
        while let Some(operation) = operations.get(at) {
            let number = first + at as u64;
            let applied = self.apply_consecutive(&operations[at..], number, env);
            at += applied;
            if applied == 0 {
                self.apply_one(operation, number, env);
                at += 1;
            }
        }
    }

    #[inline]
    fn apply_one<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        number: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        // PERF: as in `apply_consecutive`.
        if operation.kind == OperationKind::Alloc {
            self.allocate(operation, number, env);
        } else if operation.kind == OperationKind::ReallocAlloc {
            self.reallocate(operation, number, env);
        } else {
            self.free(operation, number, env);
        }
    }

    /// Prepares the live set, and fetches the memory that the operations will read, unless the caches
    /// probably have it.
    #[inline]
    fn prefetch(&mut self, operations: &mut [Operation]) {
        if !operations.first().is_some_and(|first| self.heaps.prepare(first.place.heap())) {
            return;
        }
        let mut fetched = 0;
        for operation in operations {
            let (hint, some) = self.heaps.prefetch(operation.place.heap(), operation.address);
            operation.hint = hint;
            fetched ^= some;
        }
        std::hint::black_box(fetched);
    }

    /// Applies the allocations and frees of one stream at the start of `operations`, up to the
    /// first operation that needs more; returns their number. The first is event `first`.
    #[inline]
    fn apply_consecutive<O: BlockObserver>(
        &mut self,
        operations: &[Operation],
        first: u64,
        env: &mut ApplyEnv<'_, O>,
    ) -> usize {
        let Some(&Operation { place, .. }) = operations.first() else { return 0 };
        let (stream_id, heap) = (place.stream(), place.heap());
        let free_scopes = self.free_scopes;
        let stream = self.stream(stream_id);
        let (thread, mut bucket) = (stream.thread, stream.bucket_in(heap));
        let by = stream.freer(free_scopes);
        if !env.cutoff.is_counting() {
            return 0;
        }
        let now = env.now;
        let newest_before = self.threads.get(thread).newest();
        // In this heap; no block has the address 0.
        let mut newest = if newest_before.0 == heap { newest_before.1 } else { 0 };
        // The last allocation, if no free follows it: its operation, and its bucket.
        let (mut allocations, mut last) = (0, None);
        let mut applied = 0;
        for operation in operations {
            if operation.place != place {
                break;
            }
            let Operation { address, size, hint, stack, kind, .. } = *operation;
            let number = first + applied as u64;
            // PERF: for a `match`, the compiler would make a table of jumps, which are mispredicted.
            if kind == OperationKind::Alloc {
                // NOTE: the bucket is looked up, and added, only if there is an allocation:
                // each bucket is a row.
                if bucket == NO_BUCKET {
                    bucket = self.find_bucket(stream_id, heap);
                }
                let bucket = self.stack_bucket(stack, bucket);
                let block = Block::allocated(size, now, bucket);
                if let Some(old) = self.heaps.insert(heap, address, hint, block) {
                    self.replaced((stream_id, number), (heap, address), &old, env);
                }
                let size = block.size();
                let moment = EventTime { time: now, event: number };
                self.accounts.add_block(block.key(), size, moment, |tally| tally.allocated(size));
                newest = address;
                allocations += 1;
                last = Some((operation, bucket));
                let change = BlockChange::Allocated;
                env.observe((stream_id, number), (heap, address), &block, change);
            } else if kind == OperationKind::Free {
                let Some(block) = self.heaps.remove(heap, address, hint) else { break };
                let owner = block.bucket;
                // PERF: `&` instead of `&&`, since whether a block is the newest is not predictable.
                let is_newest = newest == address;
                let short = is_newest & (owner == bucket)
                    || is_newest & (owner != bucket) && self.accounts.thread_of(owner) == thread;
                let key = block.key();
                self.accounts.remove_block(key, block.size(), |tally| tally.freed(short));
                last = None;
                let change = BlockChange::Freed { by, short_lived: short };
                env.observe((stream_id, number), (heap, address), &block, change);
            } else {
                break;
            }
            applied += 1;
        }
        if applied > 0 {
            let newest = if allocations > 0 { (heap, newest) } else { newest_before };
            self.threads.get_mut(thread).allocated(allocations, newest);
            self.streams.existing(stream_id).last = last.map(|(&operation, bucket)| {
                let Operation { address, size, .. } = operation;
                let block = Block::allocated(size, now, bucket);
                LastBlock { address, block, heap, made_by: MadeBy::Allocation }
            });
        }
        applied
    }
}
