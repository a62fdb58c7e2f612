//! The live blocks, by address.

use super::hash::IntMap;
use super::rows::Place;

const SIZE_BITS: u32 = 56;

/// What is kept of a live block: 24 bytes, 32 with its address, 38 to 75 in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Bytes in the low 56 bits, size class of the first allocation above.
    size_and_class: u64,
    /// When it was first allocated, in nanoseconds.
    pub(super) allocated_at: u64,
    /// The cell (context and thread) it counts in.
    pub(super) owner: u32,
    /// How many allocations its thread had made with it, modulo 2^32.
    pub(super) stamp: u32,
}

impl Block {
    #[inline]
    pub(super) fn new(size: u64, class: usize) -> Self {
        let mut block = Self { size_and_class: (class as u64) << SIZE_BITS, ..Self::default() };
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

    /// The rows it counts in.
    #[inline]
    pub(super) fn place(&self) -> Place {
        Place { cell: self.owner, class: (self.size_and_class >> SIZE_BITS) as usize }
    }
}

/// The live blocks of one root heap, by address.
pub(super) type LiveSet = IntMap<u64, Block>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_32_bytes() {
        assert_eq!(size_of::<(u64, Block)>(), 32);
    }

    #[test]
    fn size_and_class_do_not_disturb_each_other() {
        let mut block = Block::new(u64::MAX, 27);
        assert_eq!((block.size(), block.place().class), ((1 << 56) - 1, 27));
        block.set_size(5);
        assert_eq!((block.size(), block.place().class), (5, 27));
    }
}
