//! One live set for each root heap: root heaps are separate address spaces.

use super::block::Block;
use super::live::LiveSet;
use super::windows::Windows;
use std::ops::Range;

/// The number of root heaps.
pub(crate) const HEAPS: usize = 16;

/// The live sets of all root heaps. A heap's number is taken modulo [`HEAPS`].
#[derive(Clone, Debug)]
pub(crate) struct Heaps {
    /// Boxed, because an unoptimised build would copy the 11 KiB from one stack frame to the next.
    sets: Box<[LiveSet; HEAPS]>,
    /// Where blocks have ever been, in any heap.
    windows: Windows,
}

impl Default for Heaps {
    fn default() -> Self {
        // NOTE: constructed in place, not on the stack.
        let sets = (0..HEAPS).map(|_| LiveSet::default()).collect::<Box<[_]>>();
        let sets = sets.try_into().unwrap_or_else(|_| unreachable!("there are {HEAPS} of them"));
        Self { sets, windows: Windows::default() }
    }
}

impl Heaps {
    /// See [`LiveSet::prepare`].
    #[inline]
    pub(crate) fn prepare(&mut self, heap: u8) -> bool {
        self.sets[usize::from(heap) % HEAPS].prepare()
    }

    /// See [`LiveSet::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, heap: u8, address: u64) -> (u32, u64) {
        self.sets[usize::from(heap) % HEAPS].prefetch(address)
    }

    pub(crate) fn get(&self, heap: u8, address: u64) -> Option<Block> {
        self.sets[usize::from(heap) % HEAPS].get(address)
    }

    /// Changes the block at `address`, if there is one.
    pub(crate) fn replace(&mut self, heap: u8, address: u64, block: Block) {
        self.windows.note(address, block.size());
        self.sets[usize::from(heap) % HEAPS].replace(address, block);
    }

    /// See [`LiveSet::insert`].
    #[inline]
    pub(crate) fn insert(
        &mut self,
        heap: u8,
        address: u64,
        hint: u32,
        block: Block,
    ) -> Option<Block> {
        self.windows.note(address, block.size());
        self.sets[usize::from(heap) % HEAPS].insert(address, hint, block)
    }

    /// See [`LiveSet::remove`].
    #[inline]
    pub(crate) fn remove(&mut self, heap: u8, address: u64, hint: u32) -> Option<Block> {
        self.sets[usize::from(heap) % HEAPS].remove(address, hint)
    }

    /// Removes the block at `address` from the first heap that has one there.
    pub(crate) fn remove_anywhere(&mut self, address: u64) -> Option<(u8, Block)> {
        let remove = |(heap, set): (u8, &mut LiveSet)| Some((heap, set.remove(address, u32::MAX)?));
        (0..).zip(self.sets.iter_mut()).find_map(remove)
    }

    /// Heaps, addresses and blocks. NOTE: in an order that differs from run to run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, u64, Block)> {
        let sets = (0..).zip(self.sets.iter());
        sets.flat_map(|(heap, set)| set.iter().map(move |(address, block)| (heap, address, block)))
    }

    /// Heaps, addresses and sizes of the blocks in some heaps. NOTE: in an order as above.
    pub(crate) fn sizes(&self, heaps: Range<usize>) -> impl Iterator<Item = (u8, u64, u64)> {
        let sets = (0..).zip(self.sets.iter()).skip(heaps.start).take(heaps.len());
        sets.flat_map(|(heap, set)| {
            set.iter().map(move |(address, block)| (heap, address, block.size()))
        })
    }

    /// Where blocks have ever been.
    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The number of blocks that were not kept because the system had no memory.
    pub(crate) fn refused(&self) -> u64 {
        self.sets.iter().map(LiveSet::refused).sum()
    }
}
