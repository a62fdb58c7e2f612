//! The live blocks of one root heap, by address.
//!
//! One flat table of 32-byte entries with linear probing, so that a look-up usually touches one
//! cache line:
//!
//! ```text
//! slots   │ . │ A │ B │ . │ C │ ...        a block stands at its home slot or, if that is taken,
//!           0   1   2   3   4              in the next free one; a removed block's followers move
//!                                          up, so there are no tombstones
//! ```
//!
//! The table grows by half when 4 of 5 slots are taken: 40 to 60 bytes per live block.

use super::hash::{fold, seed};

const SIZE_BITS: u32 = 56;

/// One live block. Address 0 marks an empty slot: no block has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) address: u64,
    /// Bytes in the low 56 bits, size class of the first allocation above.
    pub(super) size_and_class: u64,
    /// When it was first allocated, in nanoseconds.
    pub(super) allocated_at: u64,
    /// The cell (context and thread) it counts in.
    pub(super) owner: u32,
    /// How many allocations its thread had made with it, modulo 2^32.
    pub(super) stamp: u32,
}

impl Block {
    pub(super) fn new(address: u64, size: u64, class: usize) -> Self {
        let mut block =
            Self { address, size_and_class: (class as u64) << SIZE_BITS, ..Self::default() };
        block.set_size(size);
        block
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size_and_class & ((1 << SIZE_BITS) - 1)
    }

    /// Sizes end at 2^56 - 1, more than any address space of today.
    #[inline]
    pub(super) fn set_size(&mut self, size: u64) {
        let class = self.size_and_class >> SIZE_BITS;
        self.size_and_class = size.min((1 << SIZE_BITS) - 1) | class << SIZE_BITS;
    }

    #[inline]
    pub(super) fn class(&self) -> usize {
        (self.size_and_class >> SIZE_BITS) as usize
    }
}

/// The live blocks of one root heap.
#[derive(Debug)]
pub(super) struct LiveSet {
    slots: Vec<Block>,
    len: usize,
    /// How many blocks may be held before the table grows.
    limit: usize,
    seed: u64,
}

impl LiveSet {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), len: 0, limit: 0, seed: seed() }
    }

    /// The slot where the search for `address` begins.
    #[inline]
    fn home(&self, address: u64) -> usize {
        // NOTE: the high half of hash * slots is a fair slot number for any number of slots.
        ((u128::from(fold(address, self.seed)) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// The slot of `address`, or the empty slot where it would go.
    #[inline]
    fn find(&self, address: u64) -> usize {
        let mut slot = self.home(address);
        while self.slots[slot].address != 0 && self.slots[slot].address != address {
            slot = self.next(slot);
        }
        slot
    }

    /// Adds a block whose address is not 0; returns the one that stood there.
    #[inline]
    pub(super) fn insert(&mut self, block: Block) -> Option<Block> {
        debug_assert_ne!(block.address, 0);
        if self.len >= self.limit {
            self.grow();
        }
        let slot = self.find(block.address);
        let old = std::mem::replace(&mut self.slots[slot], block);
        if old.address == 0 {
            self.len += 1;
            None
        } else {
            Some(old)
        }
    }

    /// Takes out the block at `address`.
    #[inline]
    pub(super) fn remove(&mut self, address: u64) -> Option<Block> {
        if self.len == 0 || address == 0 {
            return None;
        }
        let mut hole = self.find(address);
        let removed = self.slots[hole];
        if removed.address == 0 {
            return None;
        }
        self.len -= 1;
        // Move up every follower that the hole would cut off from its home.
        let mut slot = hole;
        loop {
            slot = self.next(slot);
            let follower = self.slots[slot];
            if follower.address == 0 {
                break;
            }
            let home = self.home(follower.address);
            let reachable =
                if hole < slot { hole < home && home <= slot } else { hole < home || home <= slot };
            if !reachable {
                self.slots[hole] = follower;
                hole = slot;
            }
        }
        self.slots[hole] = Block::default();
        Some(removed)
    }

    /// The block at `address`.
    pub(super) fn get(&self, address: u64) -> Option<&Block> {
        if self.len == 0 || address == 0 {
            return None;
        }
        let slot = self.find(address);
        Some(&self.slots[slot]).filter(|block| block.address != 0)
    }

    /// The block at `address`, whose address must stay as it is.
    pub(super) fn get_mut(&mut self, address: u64) -> Option<&mut Block> {
        if self.len == 0 || address == 0 {
            return None;
        }
        let slot = self.find(address);
        Some(&mut self.slots[slot]).filter(|block| block.address != 0)
    }

    /// Every block, in no order worth showing.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.slots.iter().filter(|block| block.address != 0)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let slots = (self.slots.len() + self.slots.len() / 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![Block::default(); slots]);
        self.limit = slots / 5 * 4;
        for block in old {
            if block.address != 0 {
                let slot = self.find(block.address);
                self.slots[slot] = block;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn an_entry_takes_32_bytes() {
        assert_eq!(size_of::<Block>(), 32);
    }

    #[test]
    fn size_and_class_do_not_disturb_each_other() {
        let mut block = Block::new(16, u64::MAX, 27);
        assert_eq!((block.size(), block.class()), ((1 << 56) - 1, 27));
        block.set_size(5);
        assert_eq!((block.size(), block.class()), (5, 27));
    }

    #[test]
    fn it_agrees_with_a_hash_map_over_a_long_random_walk() {
        let (mut set, mut model) = (LiveSet::new(), HashMap::new());
        let mut random = 1_u64;
        for step in 0..60_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let address = ((random >> 33) % 700 + 1) * 16;
            if random >> 62 < 2 {
                let block = Block::new(address, step, 3);
                assert_eq!(set.insert(block), model.insert(address, block));
            } else {
                assert_eq!(set.remove(address), model.remove(&address));
            }
            assert_eq!(set.get(address), model.get(&address));
            assert_eq!(set.len, model.len());
        }
        let mut all = set.iter().map(|block| block.address).collect::<Vec<_>>();
        let mut expected = model.into_keys().collect::<Vec<_>>();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }
}
