//! The blocks that were allocated last, while a live set is small.
//!
//! Most blocks are freed soon after they were allocated, and an allocator gives out the same address again
//! next. The table has an entry for each of the addresses that were used last: the block there, or that there
//! is none. A block is put into a chunk when another block needs its entry.
//!
//! NOTE: an address that has an entry is neither in a chunk nor escaped.

use super::block::Block;

/// The number of entries. PERF: with 4096, 37 of 100 operations of a program that parses Rust sources need a
/// chunk; with 256, 57. The table takes 128 KiB.
const ENTRIES: usize = 1 << 12;
/// Blocks are at multiples of 16 bytes, as a power of two.
const ADDRESS_SHIFT: u32 = 4;

/// An address, and the block there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Young {
    pub(super) address: u64,
    block: Block,
}

impl Young {
    #[inline]
    pub(super) fn new(address: u64, block: Block) -> Self {
        Self { address, block }
    }

    /// There is no block at this address.
    #[inline]
    pub(super) fn absent(address: u64) -> Self {
        Self { address, block: Block::NONE }
    }

    #[inline]
    pub(super) fn block(&self) -> Option<Block> {
        (!self.block.is_none()).then_some(self.block)
    }

    /// Another block is here now, or none; returns the one before.
    #[inline]
    pub(super) fn replace(&mut self, block: Block) -> Option<Block> {
        let before = self.block();
        self.block = block;
        before
    }
}

/// The table, while it is used.
#[derive(Clone, Debug, Default)]
pub(super) struct YoungBlocks(Option<Box<[Young; ENTRIES]>>);

impl YoungBlocks {
    /// Begins to use the table, unless there is no memory for it.
    pub(super) fn start(&mut self) {
        let mut entries = Vec::new();
        if entries.try_reserve_exact(ENTRIES).is_ok() {
            entries.resize(ENTRIES, Young::absent(0));
            self.0 = entries.into_boxed_slice().try_into().ok();
        }
    }

    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.0.is_some()
    }

    /// The entry for this address, which may be that of another one; `None` if the table is not used.
    #[inline]
    pub(super) fn get(&self, address: u64) -> Option<&Young> {
        Some(&self.0.as_ref()?[index(address)])
    }

    /// The same, for a change.
    #[inline]
    pub(super) fn get_mut(&mut self, address: u64) -> Option<&mut Young> {
        Some(&mut self.0.as_mut()?[index(address)])
    }

    /// Addresses and blocks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        let entries = self.0.iter().flat_map(|entries| entries.iter());
        entries.filter_map(|entry| Some((entry.address, entry.block()?)))
    }

    /// Bytes allocated for the table.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |entries| size_of_val(&**entries))
    }
}

#[inline]
fn index(address: u64) -> usize {
    (address >> ADDRESS_SHIFT) as usize % ENTRIES
}
