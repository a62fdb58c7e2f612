//! The live blocks of one root heap, by address.
//!
//! Addresses are cut into pages of 2 KiB. A [table](super::pages) knows the pages with live blocks,
//! and each page's blocks stand together in a [chunk](super::chunks) with room for about as many.
//! So what is near in the program's memory is near here: a program that builds a large structure,
//! or drops one, goes through few cache lines, one after the other.
//!
//! ```text
//! address ──► page, by its upper bits ──► chunk ──► position, 8 bits ──► block
//! ```
//!
//! A block takes 22 to 40 bytes where others are near, and up to 100 where it is alone in its page.

use super::chunks::{self, Chunks, SIZE_BITS, Spot, TIME_BITS};
use super::hash::IntMap;
use super::pages::Pages;
use super::rows::{Place, class_of};

const LARGEST: u64 = (1 << 56) - 1;

/// Bytes of a page, and between two positions in it, as powers of two. Blocks at other addresses,
/// which no allocator of today hands out, are kept apart.
const PAGE: u32 = 11;
const STEP: u32 = 3;
/// The bits that addresses in chunks have: those of today's processors end at 48 bits.
const NEAR_ADDRESSES: u64 = (1 << 48) - (1 << STEP);

/// Chunks grow by two shelves as long as a block takes less than this many bytes on average.
const GENEROUS: usize = 32;
/// Chunks shrink where all of them and the table have more than 39 bytes a block and this. A program
/// that builds and drops the same again and again is not followed down each time.
/// PERF: up to so many bytes in all, pages without blocks stay too; to make and remove them took a
/// tenth of the account's time where the live set is small.
const LEFT_BEHIND: usize = 2 << 20;

/// What is kept of a live block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// At most 2^56 - 1.
    size: u64,
    /// When it was first allocated, in nanoseconds.
    pub(super) allocated_at: u64,
    /// The cell (context and thread) it counts in.
    pub(super) owner: u32,
}

impl Block {
    #[inline]
    pub(super) fn new(size: u64) -> Self {
        Self { size: size.min(LARGEST), ..Self::default() }
    }

    /// One that was allocated at this time, by this cell.
    #[inline]
    pub(super) fn allocated(size: u64, at: u64, owner: u32) -> Self {
        Self { allocated_at: at, owner, ..Self::new(size) }
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Sizes end at 2^56 - 1, more than any address space of today.
    #[inline]
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size.min(LARGEST);
    }

    /// The rows it counts in.
    #[inline]
    pub(super) fn place(&self) -> Place {
        Place { cell: self.owner, class: class_of(self.size) }
    }

    /// Whether a chunk can hold it.
    #[inline]
    fn fits(&self, address: u64) -> bool {
        // PERF: one comparison instead of four.
        address & !NEAR_ADDRESSES | self.size >> SIZE_BITS | self.allocated_at >> TIME_BITS == 0
    }
}

/// The live blocks of one root heap, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveSet {
    pages: Pages,
    chunks: Chunks,
    blocks: usize,
    /// Blocks that were not kept because there was no memory.
    refused: u64,
    /// The page that was left without blocks last. It stays until the next: a program that allocates
    /// and frees the same block again and again would have it made each time.
    left: u64,
    /// Blocks with an address, a size or a time that no chunk has the bits for.
    odd: IntMap<u64, Block>,
}

/// The page of an address, and the position in it.
#[inline]
fn split(address: u64) -> (u64, u8) {
    (address >> PAGE, (address >> STEP) as u8)
}

impl LiveSet {
    /// Fetches what an operation on this address will look at. Returns a hint for it, and
    /// something of what was fetched, to be used somehow.
    ///
    /// PERF: plain loads that nothing waits for. Many in a row are under way at once, where the
    /// operations themselves would wait for one after the other.
    #[inline]
    pub(super) fn touch(&self, address: u64) -> (u32, u64) {
        let Some(index) = self.pages.find(address >> PAGE) else { return (u32::MAX, 0) };
        (index as u32, self.chunks.get(self.pages.get(index).spot()).touch())
    }

    pub(super) fn get(&self, address: u64) -> Option<Block> {
        self.get_near(address).or_else(|| self.odd.get(&address).copied())
    }

    fn get_near(&self, address: u64) -> Option<Block> {
        let (number, position) = split(address);
        let page = self.pages.get(self.pages.find(number).filter(|_| can_hold(address))?);
        let chunk = self.chunks.get(page.spot());
        Some(chunk.block(chunk.find(position, page.len())?))
    }

    /// Changes the block at `address`, if there is one.
    pub(super) fn replace(&mut self, address: u64, block: Block) {
        if self.remove(address, u32::MAX).is_some() {
            self.insert(address, u32::MAX, block);
        }
    }

    /// Adds a block; returns the one that was there. `hint` is what [`LiveSet::touch`] gave, or
    /// anything.
    #[inline]
    pub(super) fn insert(&mut self, address: u64, hint: u32, block: Block) -> Option<Block> {
        if !self.odd.is_empty() || !block.fits(address) {
            return self.insert_odd(address, block);
        }
        self.put(address, hint, &block)
    }

    #[inline]
    fn put(&mut self, address: u64, hint: u32, block: &Block) -> Option<Block> {
        let (number, position) = split(address);
        let Some(index) = self.pages.find_again(number, hint as usize) else {
            return self.put_first(number, position, block);
        };
        let page = self.pages.get_mut(index);
        let (spot, len) = (page.spot(), page.len());
        let mut chunk = self.chunks.get_mut(spot);
        if let Some(place) = chunk.find(position, len) {
            let old = chunk.block(place);
            chunk.set_block(place, block);
            return Some(old);
        }
        self.blocks += 1;
        page.set_len(len + 1);
        if len == chunks::room(spot.shelf) {
            let spot = self.grow(index, len);
            self.chunks.get_mut(spot).set(len, position, block);
        } else {
            chunk.set(len, position, block);
        }
        None
    }

    #[inline(never)]
    fn put_first(&mut self, number: u64, position: u8, block: &Block) -> Option<Block> {
        let spot = self.chunks.add(0, number);
        self.chunks.get_mut(spot).set(0, position, block);
        if self.pages.add(number, spot) {
            self.blocks += 1;
        } else {
            self.take_away(spot);
            self.refused += 1;
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn insert_odd(&mut self, address: u64, block: Block) -> Option<Block> {
        let old = self.remove(address, u32::MAX);
        if block.fits(address) {
            self.put(address, u32::MAX, &block);
        } else {
            self.odd.insert(address, block);
        }
        old
    }

    /// Takes the block at `address` out. `hint` is what [`LiveSet::touch`] gave, or anything.
    #[inline]
    pub(super) fn remove(&mut self, address: u64, hint: u32) -> Option<Block> {
        let (number, position) = split(address);
        let found = self.pages.find_again(number, hint as usize).and_then(|index| {
            let page = self.pages.get_mut(index);
            let (spot, len) = (page.spot(), page.len());
            let mut chunk = self.chunks.get_mut(spot);
            let place = chunk.find(position, len).filter(|_| can_hold(address))?;
            let block = chunk.block(place);
            if place != len - 1 {
                chunk.move_to(len - 1, place);
            }
            Some((index, len - 1, block))
        });
        let Some((index, len, block)) = found else { return self.odd.remove(&address) };
        self.blocks -= 1;
        self.pages.get_mut(index).set_len(len);
        let bytes = self.pages.bytes() + self.chunks.bytes();
        if bytes > LEFT_BEHIND {
            if len == 0 {
                let before = std::mem::replace(&mut self.left, number);
                if before != number {
                    self.remove_if_empty(before);
                }
            } else if bytes > 39 * self.blocks + LEFT_BEHIND {
                self.shrink(index, len);
            }
        }
        Some(block)
    }

    #[inline(never)]
    fn remove_if_empty(&mut self, number: u64) {
        if let Some(index) = self.pages.find(number)
            && let page = self.pages.get(index)
            && page.len() == 0
        {
            let spot = page.spot();
            self.pages.remove(index);
            self.take_away(spot);
        }
    }

    /// Moves the `len` blocks of a page to a larger chunk.
    #[inline(never)]
    fn grow(&mut self, index: usize, len: usize) -> Spot {
        let larger = chunks::shelf_for(len + 1);
        let generous = self.chunks.bytes() < GENEROUS * self.blocks && len < 192;
        self.rehouse(index, len, larger + u8::from(generous))
    }

    #[inline(never)]
    fn shrink(&mut self, index: usize, len: usize) {
        let shelf = chunks::shelf_for(len);
        if shelf < self.pages.get(index).spot().shelf {
            self.rehouse(index, len, shelf);
        }
    }

    fn rehouse(&mut self, index: usize, len: usize, shelf: u8) -> Spot {
        let page = self.pages.get_mut(index);
        let old = page.spot();
        let new = self.chunks.add(shelf, page.number());
        page.set_spot(new);
        self.chunks.copy(old, new, len);
        self.take_away(old);
        new
    }

    /// Gives a chunk back.
    fn take_away(&mut self, spot: Spot) {
        if let Some(moved) = self.chunks.remove(spot)
            && let Some(index) = self.pages.find(moved)
        {
            self.pages.get_mut(index).set_spot(spot);
        }
    }

    /// Addresses and blocks. NOTE: in an order that differs from run to run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        let near = self.pages.iter().flat_map(|page| {
            let chunk = self.chunks.get(page.spot());
            (0..page.len()).map(move |place| {
                let position = u64::from(chunk.position(place));
                (page.number() << PAGE | position << STEP, chunk.block(place))
            })
        });
        near.chain(self.odd.iter().map(|(&address, &block)| (address, block)))
    }

    /// The number of blocks that were not kept because there was no memory.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes allocated for it.
    pub(super) fn bytes(&self) -> usize {
        let odd = self.odd.capacity() * (size_of::<(u64, Block)>() + 1);
        self.pages.bytes() + self.chunks.bytes() + odd
    }
}

/// Whether a block at this address can be in a chunk.
#[inline]
fn can_hold(address: u64) -> bool {
    address & !NEAR_ADDRESSES == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn block(size: u64, time: u64, owner: u32) -> Block {
        let mut block = Block::new(size);
        (block.allocated_at, block.owner) = (time, owner);
        block
    }

    fn insert(set: &mut LiveSet, address: u64, block: Block) -> Option<Block> {
        set.insert(address, u32::MAX, block)
    }

    fn remove(set: &mut LiveSet, address: u64) -> Option<Block> {
        set.remove(address, set.touch(address).0)
    }

    /// Few of them, so that they meet; some that no slot can hold.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => (1u64..1200).prop_map(|i| 0x7f00_0000_0000 + i * 8),
            1 => (1u64..3000).prop_map(|i| 0x7f00_0000_0000 + i),
            1 => 1u64..4,
            1 => (1u64 << 48) - 2..(1 << 48) + 2,
            1 => u64::MAX - 1..=u64::MAX,
        ]
    }

    fn any_block() -> impl Strategy<Value = Block> {
        let size = prop_oneof![
            6 => 0u64..5000,
            1 => (1u64 << 35) - 2..(1 << 35) + 2,
            1 => (1u64 << 56) - 2..=u64::MAX,
        ];
        let time = prop_oneof![6 => any::<u32>().prop_map(u64::from), 1 => any::<u64>()];
        (size, time, any::<u32>()).prop_map(|(size, time, owner)| block(size, time, owner))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_map(ops in vec((address(), any_block(), 0u8..8), 0..3000)) {
            let mut set = LiveSet::default();
            let mut model = HashMap::new();
            for (address, block, op) in ops {
                match op {
                    0..4 => {
                        prop_assert_eq!(insert(&mut set, address, block), model.insert(address, block));
                    }
                    4..7 => prop_assert_eq!(remove(&mut set, address), model.remove(&address)),
                    _ => {
                        set.replace(address, block);
                        model.entry(address).and_modify(|old| *old = block);
                    }
                }
                prop_assert_eq!(set.get(address), model.get(&address).copied());
            }
            let mut all = set.iter().collect::<Vec<_>>();
            all.sort_unstable_by_key(|entry| entry.0);
            let mut expected = model.into_iter().collect::<Vec<_>>();
            expected.sort_unstable_by_key(|entry| entry.0);
            prop_assert_eq!(all, expected);
        }
    }

    /// Where an allocator puts the block with this number: each has 64 bytes, in an order without a
    /// pattern.
    fn spread(index: u64) -> u64 {
        0x5500_0000_0000 + (index.wrapping_mul(0x9e37_79b1) & 0xf_ffff) * 64
    }

    #[test]
    fn a_block_takes_at_most_40_bytes_at_any_size() {
        let mut set = LiveSet::default();
        assert_eq!(set.bytes(), 0, "nothing for a heap without blocks");
        const MOST: u64 = 500_000;
        let check = |set: &LiveSet, blocks: u64, more: usize| {
            let most = 40 * blocks as usize + more;
            assert!(set.bytes() <= most, "{} bytes for {blocks} blocks", set.bytes());
            assert_eq!(set.blocks as u64, blocks);
        };
        // A program that builds something, block by block.
        for index in 0..MOST {
            assert_eq!(insert(&mut set, 0x7f00_0000_0000 + index * 48, block(index, 7, 1)), None);
            if index % 97 == 0 {
                check(&set, index + 1, 192 << 10);
            }
        }
        assert!(set.bytes() as u64 <= 28 * MOST, "{}", set.bytes());
        for index in 0..MOST {
            let removed = remove(&mut set, 0x7f00_0000_0000 + index * 48);
            assert_eq!(removed, Some(block(index, 7, 1)));
            if index % 97 == 0 {
                check(&set, MOST - index - 1, LEFT_BEHIND + (320 << 10));
            }
        }
        assert_eq!(set.iter().count(), 0);
        // Blocks come and go, and nothing gathers.
        for index in 0..2 * MOST {
            assert_eq!(insert(&mut set, spread(index), block(index, 7, 1)), None);
            if let Some(oldest) = index.checked_sub(MOST) {
                assert_eq!(remove(&mut set, spread(oldest)), Some(block(oldest, 7, 1)));
            }
        }
        check(&set, MOST, 0);
        // The fewer are left, the farther they are from one another.
        for index in MOST..2 * MOST {
            assert_eq!(remove(&mut set, spread(index)), Some(block(index, 7, 1)));
            let left = 2 * MOST - index - 1;
            if index % 97 == 0 {
                check(&set, left, left.min(MOST / 4) as usize * 64 + LEFT_BEHIND + (320 << 10));
            }
        }
        assert_eq!(set.iter().count(), 0);
        assert!(set.bytes() < LEFT_BEHIND + (320 << 10), "{}", set.bytes());
    }
}
