//! The live blocks of one root heap, by address.
//!
//! A table for this one job: addresses are cut into ranges of some hundred live blocks, each with a
//! small table of its own ([`Segment`]), which grows by a third, splits in two, and shrinks on its
//! own. So at any size the table takes 28 to 40 bytes a block, and 256 KiB that more blocks have left
//! behind, and no event waits for more than one
//! segment. What is near in the program's memory is near here: a program that builds a large
//! structure, or drops one, works on few segments at a time, and these stay in the caches.
//!
//! ```text
//! address ──► guess (by its upper bits; else a binary search) ──► segment ──► bucket ──► slot
//! ```

use super::hash::{IntMap, fold, random_seed};
use super::rows::Place;
use super::segment::{ADDRESS_BITS, SIZE_BITS, Segment, TIME_BITS};

const LARGEST: u64 = (1 << 56) - 1;

/// A segment with so many blocks splits instead of growing: about 36 KiB.
const SPLIT: usize = 1024;
/// With fewer blocks than this in a segment on average there are too many segments.
const SPARSE: usize = 128;
/// Tables shrink only where all of them together have more than 39 bytes a block and this. A program
/// that builds and drops the same again and again is not followed down each time.
const LEFT_BEHIND: usize = 256 << 10;
/// Bytes of addresses that share a guess, as a power of two, and guesses for each segment.
const GUESS_SHIFT: u32 = 14;
const GUESSES: usize = 8;

/// What is kept of a live block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// At most 2^56 - 1.
    size: u64,
    /// When it was first allocated, in nanoseconds.
    pub(super) allocated_at: u64,
    /// The cell (context and thread) it counts in.
    pub(super) owner: u32,
    /// Size class of the first allocation.
    class: u8,
}

impl Block {
    #[inline]
    pub(super) fn new(size: u64, class: usize) -> Self {
        Self { size: size.min(LARGEST), class: class as u8, ..Self::default() }
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
        Place { cell: self.owner, class: usize::from(self.class) }
    }

    /// Whether a slot can hold it.
    #[inline]
    fn fits(&self, address: u64) -> bool {
        address >> ADDRESS_BITS == 0
            && self.size >> SIZE_BITS == 0
            && self.allocated_at >> TIME_BITS == 0
    }
}

/// The live blocks of one root heap, by address.
#[derive(Clone, Debug)]
pub(super) struct LiveSet {
    seed: u64,
    /// Empty as long as no block has come; then they cover all addresses.
    segments: Vec<Segment>,
    /// Where their ranges start, in order, and which segments these are.
    starts: Vec<u64>,
    order: Vec<u32>,
    /// The segment of some address with the same upper bits: a power of two of them.
    guesses: Vec<u32>,
    blocks: usize,
    /// Bytes of all segments' buckets.
    bytes: usize,
    /// Blocks with an address, a size or a time that no slot has the bits for.
    odd: IntMap<u64, Block>,
}

impl Default for LiveSet {
    fn default() -> Self {
        Self {
            seed: random_seed(),
            segments: Vec::new(),
            starts: Vec::new(),
            order: Vec::new(),
            guesses: Vec::new(),
            blocks: 0,
            bytes: 0,
            odd: IntMap::default(),
        }
    }
}

impl LiveSet {
    /// What the operations below take with an address.
    #[inline]
    pub(super) fn hash(&self, address: u64) -> u64 {
        fold(address, self.seed)
    }

    /// The number of the segment for `address`; none in an empty set.
    #[inline]
    fn segment(&mut self, address: u64) -> Option<usize> {
        let place = (address >> GUESS_SHIFT) as usize & self.guesses.len().wrapping_sub(1);
        let guess = *self.guesses.get(place)? as usize;
        if self.segments.get(guess).is_some_and(|segment| segment.covers(address)) {
            return Some(guess);
        }
        let found = self.search(address)?;
        self.guesses[place] = found as u32;
        Some(found)
    }

    /// The same, without the guess.
    #[inline(never)]
    fn search(&self, address: u64) -> Option<usize> {
        let behind = self.starts.partition_point(|&start| start <= address);
        self.order.get(behind.checked_sub(1)?).map(|&segment| segment as usize)
    }

    /// Fetches what an operation on this address will look at.
    ///
    /// PERF: a plain load that nothing waits for. Many in a row are under way at once, where the
    /// operations themselves would wait for one after the other.
    #[inline]
    pub(super) fn touch(&mut self, address: u64, hash: u64) -> u64 {
        self.segment(address).map_or(0, |segment| self.segments[segment].touch(hash))
    }

    pub(super) fn get(&self, address: u64) -> Option<Block> {
        let hash = self.hash(address);
        let segment = &self.segments[self.search(address)?];
        segment.get(address, hash).or_else(|| self.odd.get(&address).copied())
    }

    /// Changes the block at `address`, if there is one.
    pub(super) fn replace(&mut self, address: u64, block: Block) {
        let hash = self.hash(address);
        if self.remove(address, hash).is_some() {
            self.insert(address, hash, block);
        }
    }

    /// Adds a block; returns the one that was there.
    #[inline]
    pub(super) fn insert(&mut self, address: u64, hash: u64, block: Block) -> Option<Block> {
        let Some(number) = self.segment(address) else {
            self.cover(vec![Segment::new(1, 0..=u64::MAX)]);
            return self.insert(address, hash, block);
        };
        if !self.odd.is_empty() || !block.fits(address) {
            return self.insert_odd(address, hash, block);
        }
        self.put(number, address, hash, &block)
    }

    #[inline]
    fn put(&mut self, number: usize, address: u64, hash: u64, block: &Block) -> Option<Block> {
        let mut segment = &mut self.segments[number];
        if segment.is_full() {
            segment = self.grow(number, address);
        }
        let old = segment.insert(address, hash, block);
        self.blocks += usize::from(old.is_none());
        old
    }

    #[cold]
    #[inline(never)]
    fn insert_odd(&mut self, address: u64, hash: u64, block: Block) -> Option<Block> {
        let old = self.remove(address, hash);
        if block.fits(address) {
            if let Some(number) = self.segment(address) {
                self.put(number, address, hash, &block);
            }
        } else {
            self.odd.insert(address, block);
        }
        old
    }

    /// Takes the block at `address` out.
    #[inline]
    pub(super) fn remove(&mut self, address: u64, hash: u64) -> Option<Block> {
        let number = self.segment(address)?;
        let segment = &mut self.segments[number];
        let seed = self.seed;
        let Some(block) = segment.remove(address, hash, |address| fold(address, seed)) else {
            return self.odd.remove(&address);
        };
        self.blocks -= 1;
        if self.bytes > 39 * self.blocks + LEFT_BEHIND && segment.is_wasteful() {
            self.shrink(number);
        }
        Some(block)
    }

    /// Addresses and blocks. NOTE: in an order that differs from run to run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        let odd = self.odd.iter().map(|(&address, &block)| (address, block));
        self.segments.iter().flat_map(Segment::iter).chain(odd)
    }

    /// Bytes allocated for it.
    pub(super) fn bytes(&self) -> usize {
        let odd = self.odd.capacity() * (size_of::<(u64, Block)>() + 1);
        self.bytes
            + self.segments.capacity() * size_of::<Segment>()
            + self.starts.capacity() * size_of::<u64>()
            + (self.order.capacity() + self.guesses.capacity()) * size_of::<u32>()
            + odd
    }

    /// Makes room in a segment; returns the one that `address` belongs to then.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, number: usize, address: u64) -> &mut Segment {
        if self.segments[number].len() < SPLIT {
            let old = &self.segments[number];
            self.rebuild(number, Segment::new(old.len() + 1, old.range()));
            return &mut self.segments[number];
        }
        let old = std::mem::replace(&mut self.segments[number], Segment::new(0, 0..=0));
        let mut addresses = Vec::with_capacity(old.len());
        old.for_each(|address, _| addresses.push(address));
        let half = addresses.len() / 2;
        // Both halves get blocks: no two have the same address.
        let middle = *addresses.select_nth_unstable(half).1;
        let (first, last) = old.range().into_inner();
        let mut lower = Segment::new(half + 1, first..=middle - 1);
        let mut upper = Segment::new(addresses.len() - half + 1, middle..=last);
        old.for_each(|address, block| {
            let to = if address < middle { &mut lower } else { &mut upper };
            to.insert(address, self.hash(address), block);
        });
        self.bytes += lower.bytes() + upper.bytes();
        self.bytes -= old.bytes();
        let new = self.segments.len();
        self.segments[number] = lower;
        self.segments.push(upper);
        let at = self.starts.partition_point(|&start| start < middle);
        self.starts.insert(at, middle);
        self.order.insert(at, new as u32);
        if self.guesses.len() < GUESSES * self.segments.len() {
            self.guesses = vec![0; 2 * self.guesses.len()];
        }
        &mut self.segments[if address < middle { number } else { new }]
    }

    /// Moves what is in a segment to `new`, which takes its place.
    fn rebuild(&mut self, number: usize, mut new: Segment) {
        self.segments[number].for_each(|address, block| {
            new.insert(address, self.hash(address), block);
        });
        self.bytes += new.bytes();
        self.bytes -= self.segments[number].bytes();
        self.segments[number] = new;
    }

    #[cold]
    #[inline(never)]
    fn shrink(&mut self, number: usize) {
        if self.segments.len() == 1 || self.blocks >= self.segments.len() * SPARSE {
            let old = &self.segments[number];
            return self.rebuild(number, Segment::new_shrunk(old.len() + 1, old.range()));
        }
        let mut blocks = self.segments.iter().flat_map(Segment::iter).collect::<Vec<_>>();
        blocks.sort_unstable_by_key(|entry| entry.0);
        let mut first = 0;
        let mut segments = Vec::new();
        let mut parts = blocks.chunks(SPLIT / 2).peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().and_then(|next| next.first()).map_or(u64::MAX, |b| b.0 - 1);
            let mut segment = Segment::new(part.len() + 1, first..=last);
            for (address, block) in part {
                segment.insert(*address, self.hash(*address), block);
            }
            segments.push(segment);
            first = last.wrapping_add(1);
        }
        if segments.is_empty() {
            segments.push(Segment::new(1, 0..=u64::MAX));
        }
        self.cover(segments);
    }

    /// Takes these segments, which cover all addresses in order.
    fn cover(&mut self, segments: Vec<Segment>) {
        self.starts = segments.iter().map(|segment| *segment.range().start()).collect();
        self.order = (0..segments.len() as u32).collect();
        self.guesses = vec![0; (GUESSES * segments.len()).next_power_of_two()];
        self.bytes = segments.iter().map(Segment::bytes).sum();
        self.segments = segments;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn block(size: u64, time: u64, owner: u32) -> Block {
        let mut block = Block::new(size, (size % 28) as usize);
        (block.allocated_at, block.owner) = (time, owner);
        block
    }

    fn insert(set: &mut LiveSet, address: u64, block: Block) -> Option<Block> {
        set.insert(address, set.hash(address), block)
    }

    fn remove(set: &mut LiveSet, address: u64) -> Option<Block> {
        set.remove(address, set.hash(address))
    }

    /// Few of them, so that they meet; some that no slot can hold.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => (1u64..600).prop_map(|i| 0x7f00_0000_0000 + i * 16),
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

    /// 16 bytes apart, like an allocator's, in an order without a pattern.
    fn spread(index: u64) -> u64 {
        0x5500_0000_0000 + (index.wrapping_mul(0x9e37_79b1) & 0xff_ffff) * 16
    }

    #[test]
    fn a_block_takes_at_most_40_bytes_at_any_size() {
        let mut set = LiveSet::default();
        let check = |set: &LiveSet, blocks: u64| {
            let bytes = set.bytes() as u64;
            assert!(blocks < 2_000 || bytes <= 40 * blocks, "{bytes} bytes for {blocks} blocks");
            let segments = set.segments.iter().map(Segment::bytes).sum::<usize>();
            assert_eq!(set.bytes, segments);
        };
        let check_shrinking = |set: &LiveSet, blocks: u64| {
            let bytes = set.bytes() as u64;
            let most = 40 * blocks + LEFT_BEHIND as u64 + 10_000;
            assert!(bytes <= most, "{bytes} bytes for {blocks} blocks");
        };
        assert_eq!(set.bytes(), 0, "nothing for a heap without blocks");
        const MOST: u64 = 300_000;
        for index in 0..MOST {
            assert_eq!(insert(&mut set, spread(index), block(index, 7, 1)), None);
            if index % 97 == 0 {
                check(&set, index + 1);
            }
        }
        // Blocks come and go, and nothing gathers.
        for index in MOST..2 * MOST {
            assert_eq!(insert(&mut set, spread(index), block(index, 7, 1)), None);
            let oldest = index - MOST;
            assert_eq!(remove(&mut set, spread(oldest)), Some(block(oldest, 7, 1)));
        }
        check(&set, MOST);
        for index in MOST..2 * MOST {
            assert_eq!(remove(&mut set, spread(index)), Some(block(index, 7, 1)));
            if index % 97 == 0 {
                check_shrinking(&set, 2 * MOST - index - 1);
            }
        }
        assert_eq!(set.iter().count(), 0);
    }

    #[test]
    fn ranges_cover_every_address_once() {
        let mut set = LiveSet::default();
        for index in 0..50_000 {
            let address =
                if index % 2 == 0 { spread(index) } else { 0x7f00_0000_0000 + index * 64 };
            insert(&mut set, address, block(1, 1, 1));
            if index % 3 == 0 {
                remove(&mut set, spread(index / 2 * 2));
            }
        }
        assert!(set.segments.len() > 20 && set.starts.is_sorted());
        let mut next = Some(0);
        for &number in &set.order {
            let range = set.segments[number as usize].range();
            assert_eq!(Some(*range.start()), next);
            next = range.end().checked_add(1);
        }
        assert_eq!(next, None);
    }
}
