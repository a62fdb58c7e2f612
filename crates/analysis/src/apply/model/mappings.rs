//! What the program maps from the system, and gives back in any parts.

use super::{ApplyEnv, Model};
use crate::attribution::{HeapAddress, PendingRealloc};
use crate::decode::{Operation, OperationKind, StreamHeap};
use crate::live_set::Block;
use crate::observer::{BlockChange, BlockObserver};
use memledger_format::schema::mapping;
use std::ops::Range;

/// Addresses of a root heap, in an event of a stream.
pub(crate) struct MappedRange {
    pub(crate) stream: u16,
    pub(crate) heap: u8,
    pub(crate) addresses: Range<u64>,
}

impl MappedRange {
    fn operation(&self, kind: OperationKind, stack: u32) -> Operation {
        let Range { start, end } = self.addresses;
        Operation::new(kind, StreamHeap::new(self.stream, self.heap), start, end - start, stack)
    }
}

impl Model {
    /// What mappings have reserved: addresses and sizes.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = (u64, u64)> {
        self.mappings.reserved()
    }

    /// The same in the order of addresses: starts, ends, and the stacks of what takes memory as it is
    /// written.
    pub(crate) fn reserved_in_order(&self) -> Vec<(u64, u64, Option<u32>)> {
        self.mappings.reserved_in_order()
    }

    /// Something has happened to these addresses: a state of [`mapping`].
    pub(crate) fn apply_mapping<O: BlockObserver>(
        &mut self,
        mut range: MappedRange,
        state: u8,
        stack: u32,
        env: &mut ApplyEnv<'_, O>,
    ) {
        let MappedRange { stream, heap, .. } = range;
        let start = range.addresses.start;
        if range.addresses.is_empty() && matches!(state, mapping::FREED | mapping::MOVED_FROM) {
            let bytes = self.heaps.get(heap, start).map_or(0, |block| block.size());
            range.addresses.end = start.saturating_add(bytes);
        }
        match state {
            mapping::RESERVED => {
                self.release(&range, env);
                self.mappings.reserve(heap, range.addresses, None);
            }
            mapping::LAZY => {
                self.release(&range, env);
                let stack = self.callstacks.stack(stack);
                self.mappings.reserve(heap, range.addresses, Some(stack));
            }
            mapping::COMMITTED => {
                for (part, lazy) in self.mappings.take_reserved(heap, &range.addresses) {
                    match lazy {
                        Some(_) => self.mappings.reserve(heap, part, lazy),
                        None => self.map(&MappedRange { addresses: part, ..range }, stack, env),
                    }
                }
            }
            mapping::MAPPED => {
                self.release(&range, env);
                self.map(&range, stack, env);
            }
            mapping::FREED => self.release(&range, env),
            mapping::MOVED_FROM => self.begin_to_move(&range, env),
            mapping::MOVED_TO => {
                self.release(&range, env);
                match self.stream(stream).pending() {
                    Some(PendingRealloc::Known { .. }) => {
                        let operation = range.operation(OperationKind::ReallocAlloc, stack);
                        self.reallocate(&operation, env.cutoff.events(), env);
                        self.mappings.add_block(heap, start);
                    }
                    Some(PendingRealloc::Reserved) => {
                        self.stream(stream).end_realloc();
                        self.mappings.reserve(heap, range.addresses, None);
                    }
                    // What was moved is not known, such as a file.
                    Some(PendingRealloc::Unknown) | None => _ = self.stream(stream).end_realloc(),
                }
            }
            state => env
                .diagnostics
                .problem(format!("a Memledger.Mapping has state {state}; the states are 0 to 6")),
        }
    }

    /// These addresses, in which nothing is, become a block.
    fn map<O: BlockObserver>(
        &mut self,
        range: &MappedRange,
        stack: u32,
        env: &mut ApplyEnv<'_, O>,
    ) {
        if !range.addresses.is_empty() {
            let operation = range.operation(OperationKind::Alloc, stack);
            self.allocate(&operation, env.cutoff.events(), env);
            self.mappings.add_block(range.heap, range.addresses.start);
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
            let place = StreamHeap::new(stream, heap);
            let operation = Operation::new(OperationKind::Free, place, start, 0, 0);
            self.free(&operation, env.cutoff.events(), env);
        }
    }

    /// The first half of a move: the first block in these addresses moves, others are given back.
    fn begin_to_move<O: BlockObserver>(&mut self, range: &MappedRange, env: &mut ApplyEnv<'_, O>) {
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
        let place = StreamHeap::new(stream, heap);
        let operation = Operation::new(OperationKind::ReallocFree, place, start, 0, 0);
        self.free(&operation, env.cutoff.events(), env);
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
