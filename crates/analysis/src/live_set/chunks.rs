//! Chunks: where the live blocks of each page are stored, with a capacity of 1 to 256 blocks.
//!
//! ```text
//! word 0        number of the page
//! then          u8 position x 8, as many words as the capacity needs
//! then          { u64 time:61 | size:3   u64 size:32 | bucket:32 } x capacity
//! ```
//! The blocks of a chunk are in no order. The first `len` places are taken; the page's entry in the
//! [table](super::pages) has `len`. Chunks of the same size class are stored one after another in
//! slabs, without holes: when a chunk is removed, the last chunk moves to its position. So memory
//! is returned as soon as blocks are freed, whatever the order of the frees.

use super::block::Block;
use std::ops::Range;

/// The bits of the time and the size of a block in a chunk.
pub(super) const TIME_BITS: u32 = 61;
pub(super) const SIZE_BITS: u32 = 35;

/// The capacity of a chunk of each size class, in blocks: 17 to 32 bytes a block in a full chunk.
const CAPACITIES: [u16; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const SIZE_CLASSES: usize = CAPACITIES.len();

/// The approximate number of words of a slab; one slab of each size class may be unused. PERF:
/// glibc makes a system call whenever the tracker's thread needs more memory, however little.
const SLAB_WORDS: usize = 2048;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// For each size class: the number of words that the positions of a chunk take, and the number of
/// all its words.
const POSITIONS: [usize; SIZE_CLASSES] = positions();
const WORDS: [usize; SIZE_CLASSES] = words();

const fn positions() -> [usize; SIZE_CLASSES] {
    let (mut positions, mut class) = ([0; SIZE_CLASSES], 0);
    while class < SIZE_CLASSES {
        positions[class] = CAPACITIES[class].div_ceil(8) as usize;
        class += 1;
    }
    positions
}

const fn words() -> [usize; SIZE_CLASSES] {
    let (mut words, mut class) = ([0; SIZE_CLASSES], 0);
    while class < SIZE_CLASSES {
        words[class] = 1 + POSITIONS[class] + 2 * CAPACITIES[class] as usize;
        class += 1;
    }
    words
}

/// The number of chunks of this size class in a slab.
#[inline]
fn chunks_per_slab(class: usize) -> usize {
    (SLAB_WORDS / WORDS[class]).max(1)
}

/// The position of a chunk in a slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlabRef {
    pub(super) slab: u32,
    /// Its first word in the slab.
    pub(super) start: u16,
    pub(super) class: u8,
}

/// The smallest size class with a capacity of `blocks`.
#[inline]
pub(super) fn class_for(blocks: usize) -> u8 {
    CAPACITIES.partition_point(|&capacity| usize::from(capacity) < blocks) as u8
}

/// The capacity of a chunk of this size class, in blocks.
#[inline]
pub(super) fn capacity(class: u8) -> usize {
    usize::from(CAPACITIES[usize::from(class) % SIZE_CLASSES])
}

/// The slabs with the chunks of one size class.
#[derive(Clone, Debug, Default)]
struct SizeClass {
    /// Numbers of its slabs: all are full but the last two.
    slabs: Vec<u32>,
    len: usize,
}

/// All chunks of a live set.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    classes: [SizeClass; SIZE_CLASSES],
    slabs: Vec<Box<[u64]>>,
    /// Slab numbers that are free for reuse.
    unused: Vec<u32>,
    bytes: usize,
}

impl Chunks {
    /// Bytes allocated for all slabs.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(super) fn get(&self, chunk: SlabRef) -> Chunk<&[u64]> {
        Chunk {
            words: &self.slabs[chunk.slab as usize][usize::from(chunk.start)..],
            blocks: 1 + POSITIONS[usize::from(chunk.class) % SIZE_CLASSES],
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, chunk: SlabRef) -> Chunk<&mut [u64]> {
        Chunk {
            words: &mut self.slabs[chunk.slab as usize][usize::from(chunk.start)..],
            blocks: 1 + POSITIONS[usize::from(chunk.class) % SIZE_CLASSES],
        }
    }

    fn chunk(&self, class: u8, number: usize) -> SlabRef {
        let index = usize::from(class) % SIZE_CLASSES;
        let start = (number % chunks_per_slab(index) * WORDS[index]) as u16;
        SlabRef { slab: self.classes[index].slabs[number / chunks_per_slab(index)], start, class }
    }

    pub(super) fn add(&mut self, class: u8, page: u64) -> SlabRef {
        let index = usize::from(class) % SIZE_CLASSES;
        let SizeClass { slabs, len } = &mut self.classes[index];
        let number = *len;
        *len += 1;
        if number / chunks_per_slab(index) == slabs.len() {
            let slab: Box<[u64]> = vec![0; chunks_per_slab(index) * WORDS[index]].into();
            self.bytes += size_of_val(&*slab);
            if let Some(unused) = self.unused.pop() {
                self.slabs[unused as usize] = slab;
                slabs.push(unused);
            } else {
                slabs.push(self.slabs.len() as u32);
                self.slabs.push(slab);
            }
        }
        let chunk = self.chunk(class, number);
        self.get_mut(chunk).words[0] = page;
        chunk
    }

    /// Removes a chunk. If another chunk moves to its position, returns the page of that chunk.
    pub(super) fn remove(&mut self, removed: SlabRef) -> Option<u64> {
        let class = usize::from(removed.class) % SIZE_CLASSES;
        let last = self.chunk(removed.class, self.classes[class].len - 1);
        let moved = (removed != last).then(|| {
            self.copy_words(last, removed, 0..WORDS[class], 0);
            self.get(removed).words[0]
        });
        let SizeClass { slabs, len } = &mut self.classes[class];
        *len -= 1;
        // One empty slab stays, so that adding and removing the same chunk again and again costs no
        // allocation.
        let enough = len.div_ceil(chunks_per_slab(class)) + 1;
        while slabs.len() > enough
            && let Some(number) = slabs.pop()
        {
            let slab = std::mem::take(&mut self.slabs[number as usize]);
            self.bytes -= size_of_val(&*slab);
            self.unused.push(number);
        }
        moved
    }

    /// Copies the first `len` places of a chunk to those of another one.
    pub(super) fn copy(&mut self, from: SlabRef, to: SlabRef, len: usize) {
        let blocks = |chunk: SlabRef| 1 + POSITIONS[usize::from(chunk.class) % SIZE_CLASSES];
        self.copy_words(from, to, 1..1 + len.div_ceil(8), 1);
        self.copy_words(from, to, blocks(from)..blocks(from) + 2 * len, blocks(to));
    }

    fn copy_words(&mut self, from: SlabRef, to: SlabRef, words: Range<usize>, into: usize) {
        let start = usize::from(from.start);
        let source = start + words.start..start + words.end;
        let into = usize::from(to.start) + into;
        let (from, to) = (from.slab as usize, to.slab as usize);
        if from == to {
            self.slabs[to].copy_within(source, into);
        } else if let Ok([from, to]) = self.slabs.get_disjoint_mut([from, to]) {
            to[into..into + source.len()].copy_from_slice(&from[source]);
        }
    }
}

/// The blocks of one page.
pub(super) struct Chunk<W> {
    words: W,
    /// The word at which the blocks begin.
    blocks: usize,
}

impl Chunk<&[u64]> {
    /// The place of the block at `position` among the first `len`.
    #[inline]
    pub(super) fn find(&self, position: u8, len: usize) -> Option<usize> {
        find(self.words, position, len)
    }

    #[inline]
    pub(super) fn position(&self, place: usize) -> u8 {
        self.words[1 + place / 8].to_le_bytes()[place % 8]
    }

    #[inline]
    pub(super) fn block(&self, place: usize) -> Block {
        unpack([self.words[self.blocks + 2 * place], self.words[self.blocks + 2 * place + 1]])
    }

    /// Reads a word of the positions and one of the blocks, so that the caches fetch them.
    #[inline]
    pub(super) fn prefetch(&self) -> u64 {
        self.words[0] ^ self.words.get(self.blocks + 8).unwrap_or(&0)
    }
}

impl Chunk<&mut [u64]> {
    /// The place of the block at `position` among the first `len`.
    #[inline]
    pub(super) fn find(&self, position: u8, len: usize) -> Option<usize> {
        find(self.words, position, len)
    }

    #[inline]
    pub(super) fn block(&self, place: usize) -> Block {
        unpack([self.words[self.blocks + 2 * place], self.words[self.blocks + 2 * place + 1]])
    }

    #[inline]
    pub(super) fn set_block(&mut self, place: usize, block: &Block) {
        self.words[self.blocks + 2 * place..][..2].copy_from_slice(&pack(block));
    }

    #[inline]
    pub(super) fn set(&mut self, place: usize, position: u8, block: &Block) {
        self.set_position(place, position);
        self.set_block(place, block);
    }

    #[inline]
    fn set_position(&mut self, place: usize, position: u8) {
        let (word, shift) = (1 + place / 8, place % 8 * 8);
        self.words[word] = self.words[word] & !(0xff << shift) | u64::from(position) << shift;
    }

    /// Copies one place to another.
    #[inline]
    pub(super) fn move_to(&mut self, from: usize, to: usize) {
        let position = self.words[1 + from / 8].to_le_bytes()[from % 8];
        self.set_position(to, position);
        let start = self.blocks + 2 * from;
        self.words.copy_within(start..start + 2, self.blocks + 2 * to);
    }
}

#[inline]
fn find(words: &[u64], position: u8, len: usize) -> Option<usize> {
    let pattern = u64::from(position) * LOW_BITS;
    for (index, word) in words[1..1 + len.div_ceil(8)].iter().enumerate() {
        // `found` marks the lowest zero byte of `other`, and no byte below that. The places from
        // `len` on may hold any position.
        let other = word ^ pattern;
        let found = other.wrapping_sub(LOW_BITS) & !other & HIGH_BITS;
        if found != 0 {
            let place = 8 * index + found.trailing_zeros() as usize / 8;
            return (place < len).then_some(place);
        }
    }
    None
}

#[inline]
fn pack(block: &Block) -> [u64; 2] {
    let size = block.size();
    let first = block.allocated_at | (size >> 32) << TIME_BITS;
    [first, size << 32 | u64::from(block.bucket)]
}

#[inline]
fn unpack([first, second]: [u64; 2]) -> Block {
    let size = (first >> TIME_BITS) << 32 | second >> 32;
    let mut block = Block::new(size);
    block.allocated_at = first & ((1 << TIME_BITS) - 1);
    block.bucket = second as u32;
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_goes_leaves_no_hole() {
        let mut chunks = Chunks::default();
        let all = (0..1000).map(|page| chunks.add(5, page)).collect::<Vec<_>>();
        let full = chunks.bytes();
        assert_eq!(chunks.remove(all[3]), Some(999));
        assert_eq!(chunks.get(all[3]).words[0], 999);
        assert_eq!(chunks.remove(all[998]), None, "the last one");
        for left in (0..998).rev() {
            chunks.remove(all[0]);
            let bytes = left * 18 * 8 + 3 * SLAB_WORDS * 8;
            assert!(chunks.bytes() <= bytes, "{} bytes for {left} chunks", chunks.bytes());
        }
        assert!(full > 1000 * 18 * 8);
        assert!(chunks.bytes() <= SLAB_WORDS * 8, "one slab stays");
    }

    #[test]
    fn positions_are_found_and_nothing_after_the_last() {
        let mut chunks = Chunks::default();
        let chunk = chunks.add(class_for(256), 1);
        let block = Block::new(8);
        for place in 0..256 {
            // Neighbours in value, which a search by words could take for one another.
            chunks.get_mut(chunk).set(place, (place as u8) ^ 1, &block);
        }
        for len in 0..=256 {
            for position in 0..=255_u8 {
                let place = usize::from(position ^ 1);
                let found = chunks.get(chunk).find(position, len);
                assert_eq!(found, (place < len).then_some(place), "{position} of {len}");
            }
        }
    }

    #[test]
    fn a_chunk_has_the_capacity_it_is_chosen_for() {
        for blocks in 1..=256 {
            let class = class_for(blocks);
            assert!(capacity(class) >= blocks && (class == 0 || capacity(class - 1) < blocks));
        }
    }
}
