//! What the program maps from the system, and gives back in any parts.

use super::{ApplyEnv, Model};
use crate::analysis::apply::operation::{Operation, OperationKind};
use crate::analysis::attribution::{HeapAddress, PendingRealloc};
use crate::analysis::live_set::{Block, HEAPS};
use crate::analysis::observer::{BlockChange, BlockObserver};
use std::ops::Range;

/// Addresses of a root heap, in an event of a stream.
pub(in crate::analysis) struct MappedRange {
    pub(in crate::analysis) stream: u16,
    pub(in crate::analysis) heap: u8,
    pub(in crate::analysis) addresses: Range<u64>,
}

impl Model {
    /// Whether the blocks of a heap are mappings.
    #[inline]
    pub(in crate::analysis) fn has_mappings(&self, heap: usize) -> bool {
        self.mappings.has(heap)
    }

    /// The blocks of a heap are mappings.
    pub(in crate::analysis) fn add_mappings(&mut self, heap: u32) {
        let Some(heap) = u8::try_from(heap).ok().filter(|heap| usize::from(*heap) < HEAPS) else {
            return;
        };
        if !self.mappings.has(heap.into()) {
            let starts = self.heaps.iter().filter(|(found, ..)| *found == heap);
            self.mappings.add_heap(heap, starts.map(|(_, address, _)| address));
        }
    }

    /// What mappings have reserved: root heaps, addresses and sizes.
    #[cfg(feature = "enable")]
    pub(in crate::analysis) fn reserved(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        let parts = self.mappings.reserved();
        parts.map(|(heap, range)| (heap, range.start, range.end - range.start))
    }

    /// An event of a heap with mappings. A free without a size is one of the whole block at its address.
    pub(in crate::analysis) fn apply_mapping<O: BlockObserver>(
        &mut self,
        operation: &Operation,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let Operation { address, mut size, stream, heap, kind, .. } = *operation;
        let is_free = matches!(kind, OperationKind::Free | OperationKind::ReallocFree);
        if is_free && size == 0 {
            size = self.heaps.get(heap, address).map_or(0, |block| block.size().max(1));
        }
        let addresses = address..address.saturating_add(size);
        let range = MappedRange { stream, heap, addresses };
        let number = env.cutoff.events();
        match kind {
            OperationKind::Alloc => {
                self.release(&range, env);
                self.allocate(operation, number, env);
                self.mappings.add_block(heap, address);
            }
            OperationKind::Free => self.release(&range, env),
            OperationKind::ReallocFree => self.begin_to_move(&range, number, env),
            OperationKind::ReallocAlloc => {
                self.release(&range, env);
                match self.stream(stream).pending() {
                    Some(PendingRealloc::Known { .. }) => {
                        self.reallocate(operation, number, env);
                        self.mappings.add_block(heap, address);
                    }
                    Some(PendingRealloc::Reserved) => {
                        self.stream(stream).end_realloc();
                        self.mappings.reserve(heap, range.addresses);
                    }
                    // What was moved is not known, such as a file.
                    Some(PendingRealloc::Unknown) | None => {
                        self.stream(stream).end_realloc();
                    }
                }
            }
        }
    }

    /// These addresses are reserved from here on, and take no memory.
    pub(in crate::analysis) fn reserve<O: BlockObserver>(
        &mut self,
        range: MappedRange,
        env: &mut ApplyEnv<'_, O>,
    ) {
        self.release(&range, env);
        self.mappings.reserve(range.heap, range.addresses);
    }

    /// What is reserved of these addresses becomes blocks, allocated with this stack.
    pub(in crate::analysis) fn commit<O: BlockObserver>(
        &mut self,
        range: &MappedRange,
        stack: u32,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let &MappedRange { stream, heap, ref addresses } = range;
        for part in self.mappings.take_reserved(heap, addresses) {
            let size = part.end - part.start;
            let kind = OperationKind::Alloc;
            let operation = Operation::new(kind, stream, heap, part.start, size, stack);
            self.allocate(&operation, env.cutoff.events(), env);
            self.mappings.add_block(heap, part.start);
        }
    }

    /// What is in these addresses is no longer mapped.
    pub(super) fn release<O: BlockObserver>(
        &mut self,
        range: &MappedRange,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let &MappedRange { stream, heap, ref addresses } = range;
        if addresses.is_empty() {
            return;
        }
        self.mappings.take_reserved(heap, addresses);
        self.split(range, addresses.start, env);
        self.split(range, addresses.end, env);
        while let Some(start) = self.mappings.first_in(heap, addresses) {
            self.mappings.remove_block(heap, start);
            let operation = Operation::new(OperationKind::Free, stream, heap, start, 0, 0);
            self.free(&operation, env.cutoff.events(), env);
        }
    }

    /// The first half of a move: the first block in these addresses moves, others are given back.
    fn begin_to_move<O: BlockObserver>(
        &mut self,
        range: &MappedRange,
        number: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let &MappedRange { stream, heap, ref addresses } = range;
        if !addresses.is_empty() {
            self.split(range, addresses.start, env);
            self.split(range, addresses.end, env);
        }
        let Some(start) = self.mappings.first_in(heap, addresses) else {
            let is_reserved = !self.mappings.take_reserved(heap, addresses).is_empty();
            let pending =
                if is_reserved { PendingRealloc::Reserved } else { PendingRealloc::Unknown };
            return self.stream(stream).begin_realloc(pending);
        };
        self.mappings.remove_block(heap, start);
        self.release(range, env);
        let operation = Operation::new(OperationKind::ReallocFree, stream, heap, start, 0, 0);
        self.free(&operation, number, env);
    }

    /// Makes two blocks of a block around `address`, which remain those of its owner.
    fn split<O: BlockObserver>(
        &mut self,
        range: &MappedRange,
        address: u64,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let &MappedRange { stream, heap, .. } = range;
        let Some(start) = self.mappings.block_before(heap, address) else { return };
        let Some(block) = self.heaps.get(heap, start) else { return };
        let before = address - start;
        if block.size() <= before {
            return;
        }
        let event = (stream, env.cutoff.events());
        self.heaps.remove(heap, start, u32::MAX);
        if env.cutoff.is_counting() {
            self.accounts.remove_block(block.key(), block.size(), |_| ());
            self.accounts.note_left(block.key(), block.size());
            env.observe(event, (heap, start), &block, BlockChange::Left);
        }
        let (mut first, mut second) = (block, block);
        first.set_size(before);
        second.set_size(block.size() - before);
        self.add_part(event, (heap, start), first, env);
        self.add_part(event, (heap, address), second, env);
        self.mappings.add_block(heap, address);
    }

    fn add_part<O: BlockObserver>(
        &mut self,
        event: (u16, u64),
        (heap, address): HeapAddress,
        part: Block,
        env: &mut ApplyEnv<'_, O>,
    ) {
        self.heaps.insert(heap, address, u32::MAX, part);
        if env.cutoff.is_counting() {
            self.accounts.note_returned(part.key(), part.size());
            self.accounts.add_block(part.key(), part.size(), env.moment(), |_| ());
            env.observe(event, (heap, address), &part, BlockChange::Returned);
        }
    }
}
