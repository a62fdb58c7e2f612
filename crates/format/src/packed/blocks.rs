//! The blocks that a chunk has allocated, and the lists that they are in.
//!
//! ```text
//! the live blocks of a site     oldest ⇄ … ⇄ newest              a free takes one of them
//! the free blocks of a size     freed last → the one before …    an allocation takes one of them
//! ```
//! A block is in one list at a time, so both kinds of lists share the links. Block 0 is none.

/// How many of the blocks freed last are compared with an allocation.
pub(super) const MAX_RANK: u32 = 14;

/// A block of the chunk.
#[derive(Clone, Copy, Default)]
struct Block {
    address: u64,
    site: u32,
    class: u32,
    /// The next live block of the site that is newer.
    newer: u32,
    /// The next live block of the site that is older; of a free block, the one freed before it.
    older: u32,
}

/// The live blocks of a site.
#[derive(Clone, Copy, Default)]
pub(super) struct LiveList {
    pub newest: u32,
    pub oldest: u32,
    /// The block freed last, and the one that was the next newer than that.
    pub freed: u32,
    pub following: u32,
}

/// All blocks of a chunk, by their number.
#[derive(Default)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// Begins a chunk.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        self.0.push(Block::default());
    }

    /// The number that the next block gets.
    pub(super) fn next(&self) -> u32 {
        self.0.len() as u32
    }

    /// The address, the site and the class of a block; `None` if there is no such block.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<(u64, u32, u32)> {
        let block = self.0.get(number as usize)?;
        (number > 0).then_some((block.address, block.site, block.class))
    }

    /// Adds a live block; returns its number.
    #[inline(always)]
    pub(super) fn add(&mut self, address: u64, site: u32, class: u32, list: &mut LiveList) -> u32 {
        let number = self.next();
        self.0.push(Block { address, site, class, newer: 0, older: list.newest });
        match self.0.get_mut(list.newest as usize) {
            Some(before) if list.newest > 0 => before.newer = number,
            _ => list.oldest = number,
        }
        list.newest = number;
        number
    }

    /// Moves a live block of `list` to the free blocks that begin at `head`.
    #[inline(always)]
    pub(super) fn free(&mut self, number: u32, list: &mut LiveList, head: &mut u32) {
        let Some(block) = self.0.get_mut(number as usize) else { return };
        let (newer, older) = (block.newer, block.older);
        block.older = std::mem::replace(head, number);
        match self.0.get_mut(newer as usize) {
            Some(block) if newer > 0 => block.older = older,
            _ => list.newest = older,
        }
        match self.0.get_mut(older as usize) {
            Some(block) if older > 0 => block.newer = newer,
            _ => list.oldest = newer,
        }
        (list.freed, list.following) = (number, newer);
    }

    /// How many blocks were freed after the one with this address, if that is one of the last.
    #[inline(always)]
    pub(super) fn rank(&self, head: u32, address: u64) -> Option<u32> {
        let mut number = head;
        for rank in 0..MAX_RANK {
            let block = self.0.get(number as usize).filter(|_| number > 0)?;
            if block.address == address {
                return Some(rank);
            }
            number = block.older;
        }
        None
    }

    /// Removes the free block with this rank; returns its address. `None` if there is none.
    #[inline(always)]
    pub(super) fn take(&mut self, head: &mut u32, rank: u32) -> Option<u64> {
        let (mut before, mut number) = (0, *head);
        for _ in 0..rank {
            before = number;
            number = self.0.get(number as usize)?.older;
        }
        let block = *self.0.get(number as usize).filter(|_| number > 0)?;
        match self.0.get_mut(before as usize) {
            Some(last) if before > 0 => last.older = block.older,
            _ => *head = block.older,
        }
        Some(block.address)
    }

    /// The address of the block freed last of those that begin at `head`.
    #[inline(always)]
    pub(super) fn first(&self, head: u32) -> Option<u64> {
        self.get(head).map(|(address, ..)| address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_move_between_the_lists() {
        let (mut blocks, mut list, mut head) = (Blocks::default(), LiveList::default(), 0);
        blocks.clear();
        for address in [10, 20, 30, 40] {
            blocks.add(address, 1, 0, &mut list);
        }
        assert_eq!((list.oldest, list.newest), (1, 4));
        for number in [2, 1, 4, 3] {
            blocks.free(number, &mut list, &mut head);
            assert_eq!(list.freed, number);
        }
        assert_eq!((list.oldest, list.newest), (0, 0));
        assert_eq!(
            [30, 40, 10, 20, 50].map(|address| blocks.rank(head, address)),
            [Some(0), Some(1), Some(2), Some(3), None]
        );
        assert_eq!(blocks.take(&mut head, 2), Some(10));
        assert_eq!(blocks.take(&mut head, 2), Some(20));
        assert_eq!(blocks.take(&mut head, 2), None);
        assert_eq!(blocks.first(head), Some(30));
    }

    #[test]
    fn the_block_after_the_one_freed_last_is_known() {
        let (mut blocks, mut list, mut head) = (Blocks::default(), LiveList::default(), 0);
        blocks.clear();
        for address in [10, 20, 30, 40] {
            blocks.add(address, 1, 0, &mut list);
        }
        for (number, following) in [(2, 3), (3, 4), (4, 0), (1, 0)] {
            blocks.free(number, &mut list, &mut head);
            assert_eq!(list.following, following);
        }
    }
}
