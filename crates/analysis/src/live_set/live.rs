//! The live blocks of one root heap, by address.
//!
//! Addresses are divided into pages of 2 KiB. A [table](super::pages) has the pages with live
//! blocks, and a [chunk](super::chunks) stores the blocks of one page, with a capacity of little
//! more than their number. Blocks that are near each other in the program's memory are near each
//! other here: a program that builds or frees a large structure touches few cache lines, one after
//! the other.
//!
//! ```text
//! address ──► page, by its upper bits ──► chunk ──► position, 8 bits ──► block
//! ```
//!
//! A small live set has a [table of young blocks](super::young) before the chunks.
//!
//! A block takes 22 to 40 bytes where others are near, and up to 100 where it is alone in its page.

use super::block::Block;
use super::chunks::{self, Chunks, SIZE_BITS, SlabRef, TIME_BITS};
use super::pages::Pages;
use super::young::{Young, YoungBlocks};
use crate::hash::IntMap;

/// The bytes of a page and the bytes between two positions in it, both as powers of two. A block at
/// an address between two positions, which no allocator of today returns, is escaped.
const PAGE_SHIFT: u32 = 11;
const POSITION_SHIFT: u32 = 3;
/// The address bits that a chunk can represent: the addresses of today's processors have 48 bits.
const CHUNK_ADDRESSES: u64 = (1 << 48) - (1 << POSITION_SHIFT);

/// Chunks grow by two size classes as long as a block takes less than this many bytes on average.
const FAST_GROWTH_BYTES: usize = 32;
/// Chunks shrink only while all chunks and the table together take more than 39 bytes per block
/// plus this many bytes. So they do not shrink each time that a program drops a structure which it
/// builds again.
/// PERF: up to this many bytes in all, pages without blocks are kept, too. Adding and removing them
/// took a tenth of the analyzer's time with a small live set.
const RETAINED_BYTES: usize = 2 << 20;

/// [Young blocks](super::young) are kept apart until chunks have `MANY` blocks, and again when they have
/// fewer than `FEW`.
///
/// PERF: the caches of a core probably have chunks of that many blocks, about 1 MiB. Operations on more of
/// them are faster after a prefetch, which look-ups in a second table would hinder: with millions of blocks,
/// an event took a quarter more. A parser of Rust sources takes a fifth less with young blocks; a program
/// that replaces one of 10 000 blocks at random takes a fifth more.
const MANY: usize = 1 << 15;
const FEW: usize = MANY / 2;

/// The live blocks of one root heap, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSet {
    young: YoungBlocks,
    pages: Pages,
    chunks: Chunks,
    /// The number of blocks in chunks.
    blocks: usize,
    /// Blocks that were not kept because the system had no memory.
    refused: u64,
    /// The last page whose blocks were all freed. It stays in the table until the next page is
    /// empty: otherwise a program that allocates and frees the same block again and again would add
    /// the page each time.
    last_emptied: u64,
    /// Blocks with an address, a size or a time that needs more bits than a chunk has for it.
    escaped: IntMap<u64, Block>,
}

/// The page of an address, and the position in it.
#[inline]
fn split(address: u64) -> (u64, u8) {
    (address >> PAGE_SHIFT, (address >> POSITION_SHIFT) as u8)
}

impl LiveSet {
    /// Prepares for the next operations; returns whether they are faster after a
    /// [prefetch](Self::prefetch).
    #[inline]
    pub(crate) fn prepare(&mut self) -> bool {
        let uses_young = self.young.is_used();
        if uses_young != (self.blocks < if uses_young { MANY } else { FEW }) {
            self.switch();
        }
        !self.young.is_used()
    }

    /// Begins to keep young blocks apart, or puts them into chunks.
    #[cold]
    #[inline(never)]
    fn switch(&mut self) {
        if !self.young.is_used() {
            return self.young.start();
        }
        for (address, block) in std::mem::take(&mut self.young).iter() {
            self.insert_settled(address, u32::MAX, block);
        }
    }

    /// Fetches the memory that an operation on this address will read. Returns a hint for the
    /// operation, and some fetched bits, which the caller must use so that the compiler keeps the
    /// loads.
    ///
    /// PERF: plain loads whose results no instruction waits for. The cache misses of several
    /// operations overlap, whereas the operations themselves would wait for one miss after the
    /// other.
    #[inline]
    pub(crate) fn prefetch(&self, address: u64) -> (u32, u64) {
        let Some(index) = self.pages.find(address >> PAGE_SHIFT) else { return (u32::MAX, 0) };
        (index as u32, self.chunks.get(self.pages.get(index).chunk()).prefetch())
    }

    pub(crate) fn get(&self, address: u64) -> Option<Block> {
        match self.young.get(address).filter(|entry| entry.address == address) {
            Some(entry) => entry.block(),
            None => self.get_in_chunk(address).or_else(|| self.escaped.get(&address).copied()),
        }
    }

    fn get_in_chunk(&self, address: u64) -> Option<Block> {
        let (number, position) = split(address);
        let page = self.pages.get(self.pages.find(number).filter(|_| can_hold(address))?);
        let chunk = self.chunks.get(page.chunk());
        Some(chunk.block(chunk.find(position, page.len())?))
    }

    /// Changes the block at `address`, if there is one.
    pub(crate) fn replace(&mut self, address: u64, block: Block) {
        if self.remove(address, u32::MAX).is_some() {
            self.insert(address, u32::MAX, block);
        }
    }

    /// Adds a block; returns the block that was at this address. `hint` is what
    /// [`LiveSet::prefetch`] returned, or any number.
    #[inline]
    pub(crate) fn insert(&mut self, address: u64, hint: u32, block: Block) -> Option<Block> {
        if self.young.is_used() {
            return self.insert_young(address, block);
        }
        self.insert_settled(address, hint, block)
    }

    /// Adds a block to the young ones. The block whose entry it takes is put into a chunk.
    #[inline(never)]
    fn insert_young(&mut self, address: u64, block: Block) -> Option<Block> {
        let entry = self.young.get_mut(address)?;
        if entry.address == address {
            return entry.replace(block);
        }
        let before = std::mem::replace(entry, Young::new(address, block));
        let old = self.remove_settled(address, u32::MAX);
        if let Some(block) = before.block() {
            self.insert_settled(before.address, u32::MAX, block);
        }
        old
    }

    /// Adds a block to those in chunks, or the escaped ones.
    #[inline]
    fn insert_settled(&mut self, address: u64, hint: u32, block: Block) -> Option<Block> {
        if !self.escaped.is_empty() || !fits(&block, address) {
            return self.insert_escaped(address, block);
        }
        self.put(address, hint, &block)
    }

    #[inline]
    fn put(&mut self, address: u64, hint: u32, block: &Block) -> Option<Block> {
        let (number, position) = split(address);
        let Some(index) = self.pages.find_with_hint(number, hint as usize) else {
            return self.put_first(number, position, block);
        };
        let page = self.pages.get_mut(index);
        let (at, len) = (page.chunk(), page.len());
        let mut chunk = self.chunks.get_mut(at);
        if let Some(place) = chunk.find(position, len) {
            let old = chunk.block(place);
            chunk.set_block(place, block);
            return Some(old);
        }
        self.blocks += 1;
        page.set_len(len + 1);
        if len == chunks::capacity(at.class) {
            let larger = self.grow(index, len);
            self.chunks.get_mut(larger).set(len, position, block);
        } else {
            chunk.set(len, position, block);
        }
        None
    }

    #[inline(never)]
    fn put_first(&mut self, number: u64, position: u8, block: &Block) -> Option<Block> {
        let chunk = self.chunks.add(0, number);
        self.chunks.get_mut(chunk).set(0, position, block);
        if self.pages.add(number, chunk) {
            self.blocks += 1;
        } else {
            self.remove_chunk(chunk);
            self.refused += 1;
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn insert_escaped(&mut self, address: u64, block: Block) -> Option<Block> {
        let old = self.remove_settled(address, u32::MAX);
        if fits(&block, address) {
            self.put(address, u32::MAX, &block);
        } else {
            self.escaped.insert(address, block);
        }
        old
    }

    /// Removes the block at `address`. `hint` is what [`LiveSet::prefetch`] returned, or any
    /// number.
    #[inline]
    pub(crate) fn remove(&mut self, address: u64, hint: u32) -> Option<Block> {
        if self.young.is_used() {
            return self.remove_young(address);
        }
        self.remove_settled(address, hint)
    }

    /// Removes a block that may be young.
    #[inline(never)]
    fn remove_young(&mut self, address: u64) -> Option<Block> {
        let entry = self.young.get_mut(address)?;
        if entry.address == address {
            return entry.replace(Block::NONE);
        }
        if entry.block().is_none() {
            *entry = Young::absent(address);
        }
        self.remove_settled(address, u32::MAX)
    }

    /// Removes a block that is in a chunk, or escaped.
    #[inline]
    fn remove_settled(&mut self, address: u64, hint: u32) -> Option<Block> {
        let (number, position) = split(address);
        let found = self.pages.find_with_hint(number, hint as usize).and_then(|index| {
            let page = self.pages.get_mut(index);
            let (at, len) = (page.chunk(), page.len());
            let mut chunk = self.chunks.get_mut(at);
            let place = chunk.find(position, len).filter(|_| can_hold(address))?;
            let block = chunk.block(place);
            if place != len - 1 {
                chunk.move_to(len - 1, place);
            }
            Some((index, len - 1, block))
        });
        let Some((index, len, block)) = found else {
            return if self.escaped.is_empty() { None } else { self.escaped.remove(&address) };
        };
        self.blocks -= 1;
        self.pages.get_mut(index).set_len(len);
        let bytes = self.pages.bytes() + self.chunks.bytes();
        if bytes > RETAINED_BYTES {
            if len == 0 {
                let before = std::mem::replace(&mut self.last_emptied, number);
                if before != number {
                    self.remove_if_empty(before);
                }
            } else if bytes > 39 * self.blocks + RETAINED_BYTES {
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
            let chunk = page.chunk();
            self.pages.remove(index);
            self.remove_chunk(chunk);
        }
    }

    /// Moves the `len` blocks of a page to a larger chunk.
    #[inline(never)]
    fn grow(&mut self, index: usize, len: usize) -> SlabRef {
        let larger = chunks::class_for(len + 1);
        let generous = self.chunks.bytes() < FAST_GROWTH_BYTES * self.blocks && len < 192;
        self.migrate(index, len, larger + u8::from(generous))
    }

    #[inline(never)]
    fn shrink(&mut self, index: usize, len: usize) {
        let class = chunks::class_for(len);
        if class < self.pages.get(index).chunk().class {
            self.migrate(index, len, class);
        }
    }

    /// Moves the `len` blocks of a page to a chunk of this size class.
    fn migrate(&mut self, index: usize, len: usize, class: u8) -> SlabRef {
        let page = self.pages.get_mut(index);
        let old = page.chunk();
        let new = self.chunks.add(class, page.number());
        page.set_chunk(new);
        self.chunks.copy(old, new, len);
        self.remove_chunk(old);
        new
    }

    /// Removes a chunk. Another chunk may move to its position; updates the page of that chunk.
    fn remove_chunk(&mut self, chunk: SlabRef) {
        if let Some(moved) = self.chunks.remove(chunk)
            && let Some(index) = self.pages.find(moved)
        {
            self.pages.get_mut(index).set_chunk(chunk);
        }
    }

    /// Addresses and blocks. NOTE: in an order that differs from run to run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        let in_chunks = self.pages.iter().flat_map(|page| {
            let chunk = self.chunks.get(page.chunk());
            (0..page.len()).map(move |place| {
                let position = u64::from(chunk.position(place));
                (page.number() << PAGE_SHIFT | position << POSITION_SHIFT, chunk.block(place))
            })
        });
        let escaped = self.escaped.iter().map(|(&address, &block)| (address, block));
        self.young.iter().chain(in_chunks).chain(escaped)
    }

    /// The number of blocks that were not kept because there was no memory.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes allocated for the live set.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let escaped = self.escaped.capacity() * (size_of::<(u64, Block)>() + 1);
        self.young.bytes() + self.pages.bytes() + self.chunks.bytes() + escaped
    }
}

/// Whether a chunk has the bits for this address.
#[inline]
fn can_hold(address: u64) -> bool {
    address & !CHUNK_ADDRESSES == 0
}

/// Whether a chunk has the bits for this block.
#[inline]
fn fits(block: &Block, address: u64) -> bool {
    // PERF: one comparison instead of three.
    address & !CHUNK_ADDRESSES | block.size() >> SIZE_BITS | block.allocated_at >> TIME_BITS == 0
}

#[cfg(test)]
mod tests;
