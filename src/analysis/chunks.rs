//! Where the live blocks of each page stand: in chunks with room for 1 to 256 of them.
//!
//! ```text
//! word 0        number of the page
//! then          u8 position x 8, as many words as the room needs
//! then          { u64 time:61 | size:3   u64 size:32 | owner:32 } x room
//! ```
//! The blocks stand in no order; the first `len` places are taken, which the page's entry in the
//! [table](super::pages) knows. Chunks with the same room stand side by side on a shelf, without
//! holes: where one goes, the last takes its place. So memory goes back as soon as blocks do,
//! whatever their order.

use super::live::Block;
use std::ops::Range;

/// Time and size of what fits into a chunk.
pub(super) const TIME_BITS: u32 = 61;
pub(super) const SIZE_BITS: u32 = 35;

/// How many blocks a chunk on each shelf has room for: 17 to 32 bytes a block where it is full.
const ROOMS: [u16; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const SHELVES: usize = ROOMS.len();

/// Words of one allocation, about: so much of a shelf may be unused. PERF: glibc makes a system call
/// whenever the tracker's thread needs more memory, however little.
const DRAWER: usize = 2048;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// Words of positions in a chunk on each shelf, and all its words.
const POSITIONS: [usize; SHELVES] = positions();
const WORDS: [usize; SHELVES] = words();

const fn positions() -> [usize; SHELVES] {
    let (mut positions, mut shelf) = ([0; SHELVES], 0);
    while shelf < SHELVES {
        positions[shelf] = ROOMS[shelf].div_ceil(8) as usize;
        shelf += 1;
    }
    positions
}

const fn words() -> [usize; SHELVES] {
    let (mut words, mut shelf) = ([0; SHELVES], 0);
    while shelf < SHELVES {
        words[shelf] = 1 + POSITIONS[shelf] + 2 * ROOMS[shelf] as usize;
        shelf += 1;
    }
    words
}

/// How many chunks of this shelf are in a drawer.
#[inline]
fn in_drawer(shelf: usize) -> usize {
    (DRAWER / WORDS[shelf]).max(1)
}

/// Where a chunk stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) drawer: u32,
    /// Its first word in there.
    pub(super) start: u16,
    pub(super) shelf: u8,
}

/// The first shelf with room for so many blocks.
#[inline]
pub(super) fn shelf_for(blocks: usize) -> u8 {
    ROOMS.partition_point(|&room| usize::from(room) < blocks) as u8
}

/// How many blocks have room in a chunk on this shelf.
#[inline]
pub(super) fn room(shelf: u8) -> usize {
    usize::from(ROOMS[usize::from(shelf) % SHELVES])
}

/// Chunks with the same room.
#[derive(Clone, Debug, Default)]
struct Shelf {
    /// Numbers of its drawers: all full, but for the last two.
    drawers: Vec<u32>,
    len: usize,
}

/// All chunks of a live set.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    shelves: [Shelf; SHELVES],
    drawers: Vec<Box<[u64]>>,
    /// Numbers without a drawer.
    unused: Vec<u32>,
    bytes: usize,
}

impl Chunks {
    /// Bytes allocated for it.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(super) fn get(&self, spot: Spot) -> Chunk<&[u64]> {
        Chunk {
            words: &self.drawers[spot.drawer as usize][usize::from(spot.start)..],
            blocks: 1 + POSITIONS[usize::from(spot.shelf) % SHELVES],
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, spot: Spot) -> Chunk<&mut [u64]> {
        Chunk {
            words: &mut self.drawers[spot.drawer as usize][usize::from(spot.start)..],
            blocks: 1 + POSITIONS[usize::from(spot.shelf) % SHELVES],
        }
    }

    /// The spot of a shelf's chunk with this number.
    fn spot(&self, shelf: u8, number: usize) -> Spot {
        let on = usize::from(shelf) % SHELVES;
        let start = (number % in_drawer(on) * WORDS[on]) as u16;
        Spot { drawer: self.shelves[on].drawers[number / in_drawer(on)], start, shelf }
    }

    /// A new chunk for a page.
    pub(super) fn add(&mut self, shelf: u8, page: u64) -> Spot {
        let on = usize::from(shelf) % SHELVES;
        let Shelf { drawers, len } = &mut self.shelves[on];
        let number = *len;
        *len += 1;
        if number / in_drawer(on) == drawers.len() {
            let drawer: Box<[u64]> = vec![0; in_drawer(on) * WORDS[on]].into();
            self.bytes += size_of_val(&*drawer);
            if let Some(unused) = self.unused.pop() {
                self.drawers[unused as usize] = drawer;
                drawers.push(unused);
            } else {
                drawers.push(self.drawers.len() as u32);
                self.drawers.push(drawer);
            }
        }
        let spot = self.spot(shelf, number);
        self.get_mut(spot).words[0] = page;
        spot
    }

    /// Takes a chunk away; returns the page whose chunk is at `spot` now, if there is one.
    pub(super) fn remove(&mut self, spot: Spot) -> Option<u64> {
        let on = usize::from(spot.shelf) % SHELVES;
        let last = self.spot(spot.shelf, self.shelves[on].len - 1);
        let moved = (spot != last).then(|| {
            self.copy_words(last, spot, 0..WORDS[on], 0);
            self.get(spot).words[0]
        });
        let Shelf { drawers, len } = &mut self.shelves[on];
        *len -= 1;
        // One empty drawer stays: a chunk that comes and goes again and again costs no allocation.
        let enough = len.div_ceil(in_drawer(on)) + 1;
        while drawers.len() > enough
            && let Some(number) = drawers.pop()
        {
            let drawer = std::mem::take(&mut self.drawers[number as usize]);
            self.bytes -= size_of_val(&*drawer);
            self.unused.push(number);
        }
        moved
    }

    /// Copies what the first `len` places of a chunk hold to the first of another one.
    pub(super) fn copy(&mut self, from: Spot, to: Spot, len: usize) {
        let blocks = |spot: Spot| 1 + POSITIONS[usize::from(spot.shelf) % SHELVES];
        self.copy_words(from, to, 1..1 + len.div_ceil(8), 1);
        self.copy_words(from, to, blocks(from)..blocks(from) + 2 * len, blocks(to));
    }

    fn copy_words(&mut self, from: Spot, to: Spot, words: Range<usize>, into: usize) {
        let start = usize::from(from.start);
        let source = start + words.start..start + words.end;
        let into = usize::from(to.start) + into;
        let (from, to) = (from.drawer as usize, to.drawer as usize);
        if from == to {
            self.drawers[to].copy_within(source, into);
        } else if let Ok([from, to]) = self.drawers.get_disjoint_mut([from, to]) {
            to[into..into + source.len()].copy_from_slice(&from[source]);
        }
    }
}

/// The blocks of one page.
pub(super) struct Chunk<W> {
    words: W,
    /// Where the blocks begin.
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

    /// Reads where the positions are, and of the blocks behind them.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
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
        // The lowest byte that is zero here is marked, and none below it. Behind the last place
        // anything may stand.
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
    [first, size << 32 | u64::from(block.owner)]
}

#[inline]
fn unpack([first, second]: [u64; 2]) -> Block {
    let size = (first >> TIME_BITS) << 32 | second >> 32;
    let mut block = Block::new(size);
    block.allocated_at = first & ((1 << TIME_BITS) - 1);
    block.owner = second as u32;
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_goes_leaves_no_hole() {
        let mut chunks = Chunks::default();
        let spots = (0..1000).map(|page| chunks.add(5, page)).collect::<Vec<_>>();
        let full = chunks.bytes();
        assert_eq!(chunks.remove(spots[3]), Some(999));
        assert_eq!(chunks.get(spots[3]).words[0], 999);
        assert_eq!(chunks.remove(spots[998]), None, "the last one");
        for left in (0..998).rev() {
            chunks.remove(spots[0]);
            let bytes = left * 18 * 8 + 3 * DRAWER * 8;
            assert!(chunks.bytes() <= bytes, "{} bytes for {left} chunks", chunks.bytes());
        }
        assert!(full > 1000 * 18 * 8);
        assert!(chunks.bytes() <= DRAWER * 8, "one drawer stays");
    }

    #[test]
    fn positions_are_found_and_nothing_behind_the_last() {
        let mut chunks = Chunks::default();
        let spot = chunks.add(shelf_for(256), 1);
        let block = Block::new(8);
        for place in 0..256 {
            // Neighbours in value, which a search by words could take for one another.
            chunks.get_mut(spot).set(place, (place as u8) ^ 1, &block);
        }
        for len in 0..=256 {
            for position in 0..=255_u8 {
                let place = usize::from(position ^ 1);
                let found = chunks.get(spot).find(position, len);
                assert_eq!(found, (place < len).then_some(place), "{position} of {len}");
            }
        }
    }

    #[test]
    fn rooms_hold_what_they_are_chosen_for() {
        for blocks in 1..=256 {
            let shelf = shelf_for(blocks);
            assert!(room(shelf) >= blocks && (shelf == 0 || room(shelf - 1) < blocks));
        }
    }
}
