//! Applies a batch of operations.
//!
//! Most operations of a batch are consecutive allocations and frees of one thread: their common
//! stream, thread and bucket are looked up once.

use super::{ApplyEnv, Model};
use crate::accounts::EventTime;
use crate::apply::operation::{Operation, OperationKind, OperationQueue};
use crate::attribution::{LastBlock, MadeBy, NO_BUCKET};
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
        let mut fetched = 0;
        for operation in &mut *operations {
            let (hint, some) = self.heaps.prefetch(operation.heap, operation.address);
            operation.hint = hint;
            fetched ^= some;
        }
        std::hint::black_box(fetched);
        let mut at = 0;
        while let Some(operation) = operations.get(at) {
            let number = first + at as u64;
            let applied = self.apply_consecutive(&operations[at..], number, env);
            at += applied;
            if applied == 0 {
                match operation.kind {
                    OperationKind::Alloc => self.allocate(operation, number, env),
                    OperationKind::ReallocAlloc => self.reallocate(operation, number, env),
                    OperationKind::Free | OperationKind::ReallocFree => {
                        self.free(operation, number, env);
                    }
                }
                at += 1;
            }
        }
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
        let Some(&Operation { stream: stream_id, heap: heap_of_allocations, .. }) =
            operations.first()
        else {
            return 0;
        };
        let free_scopes = self.free_scopes;
        let stream = self.stream(stream_id);
        let (thread, mut bucket) = (stream.thread, stream.bucket_in(heap_of_allocations));
        let by = stream.freer(free_scopes);
        if !env.cutoff.is_counting() {
            return 0;
        }
        let now = env.now;
        let mut newest = self.threads.get(thread).newest();
        let (mut allocations, mut last) = (0, None);
        let mut applied = 0;
        for &Operation { address, size, hint, stack, stream, heap, kind } in operations {
            if stream != stream_id {
                break;
            }
            let number = first + applied as u64;
            match kind {
                OperationKind::Alloc if heap != heap_of_allocations => break,
                OperationKind::Alloc => {
                    // NOTE: the bucket is looked up, and added, only if there is an allocation:
                    // each bucket is a row.
                    if bucket == NO_BUCKET {
                        bucket = self.find_bucket(stream_id, heap);
                    }
                    let bucket = self.stack_bucket(stack, bucket);
                    let block = Block::allocated(size, now, bucket);
                    if let Some(old) = self.heaps.insert(heap, address, hint, block) {
                        self.replaced((stream, number), (heap, address), &old, env);
                    }
                    let size = block.size();
                    let moment = EventTime { time: now, event: number };
                    self.accounts
                        .add_block(block.key(), size, moment, |tally| tally.allocated(size));
                    newest = (heap, address);
                    allocations += 1;
                    let made_by = MadeBy::Allocation;
                    last = Some(LastBlock { address, block, heap, made_by });
                    let change = BlockChange::Allocated;
                    env.observe((stream, number), (heap, address), &block, change);
                }
                OperationKind::Free => {
                    let Some(block) = self.heaps.remove(heap, address, hint) else { break };
                    let owner = block.bucket;
                    let is_own = || owner == bucket || self.accounts.thread_of(owner) == thread;
                    let short = newest == (heap, address) && is_own();
                    let key = block.key();
                    self.accounts.remove_block(key, block.size(), |tally| tally.freed(short));
                    last = None;
                    let change = BlockChange::Freed { by, short_lived: short };
                    env.observe((stream, number), (heap, address), &block, change);
                }
                OperationKind::ReallocFree | OperationKind::ReallocAlloc => break,
            }
            applied += 1;
        }
        if applied > 0 {
            self.threads.get_mut(thread).allocated(allocations, newest);
            self.streams.existing(stream_id).last = last;
        }
        applied
    }
}
