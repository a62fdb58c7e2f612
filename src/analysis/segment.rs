//! A part of the live set: a table of buckets, each eight blocks in three cache lines.
//!
//! ```text
//! line 1   u8 tag x 8 (0: free)   u32 passed   u8 strangers   u48 address x 8
//! line 2   { u64 time:56 | class:5 | size:3   u64 size:32 | owner:32 } x 4
//! line 3   the same x 4
//! ```
//! A block stands in the bucket that its hash points at, or, where that is full, in the next one
//! with a free slot, a stranger there. Every bucket it has passed counts it: a search ends at the
//! first bucket that nothing has passed, so a removal leaves no tombstone. A slot that becomes free
//! in a bucket that was passed is given to a stranger of the next one: otherwise, as blocks come
//! and go, ever more of them would stand ever farther from home.

use super::live::Block;
use std::ops::RangeInclusive;

/// Blocks in a bucket.
const SLOTS: usize = 8;
/// Address, time and size of what fits into a slot.
pub(super) const ADDRESS_BITS: u32 = 48;
pub(super) const TIME_BITS: u32 = 56;
pub(super) const SIZE_BITS: u32 = 35;

/// Blocks a bucket on average, in tenths. A segment with more than `FULL` grows and has `GROWN`
/// then: 28 to 39 bytes a block; one with less than `EMPTY` shrinks and has `SHRUNK` then: 30 to 39.
///
/// PERF: every block is moved some three times as a segment grows or shrinks, which is most of what
/// a program costs that builds something large. Less full it would be faster still; with `FULL`
/// above 7 in 8, most searches for an address that is not there look into several buckets.
const FULL: usize = 68;
const GROWN: usize = 50;
const EMPTY: usize = 49;
const SHRUNK: usize = 64;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    tags: u64,
    /// Blocks behind this bucket that would stand here or before, had there been room.
    passed: u32,
    /// A bit for each slot whose block belongs in a bucket before.
    strangers: u8,
    addresses: [[u16; 3]; SLOTS],
    rest: [[u64; 2]; SLOTS],
}

const FREE: Bucket =
    Bucket { tags: 0, passed: 0, strangers: 0, addresses: [[0; 3]; SLOTS], rest: [[0; 2]; SLOTS] };

/// Seven bits of the hash that the choice of the bucket does not depend on, and one that is set.
#[inline]
fn tag(hash: u64) -> u64 {
    hash & 0x7f | 0x80
}

impl Bucket {
    /// The slot that holds `address`.
    #[inline]
    fn find(&self, address: u64, hash: u64) -> Option<usize> {
        // Bytes that are zero here have the tag. A byte above one may be taken for another, which
        // costs a comparison only.
        let other = self.tags ^ (tag(hash) * LOW_BITS);
        let mut candidates = other.wrapping_sub(LOW_BITS) & !other & HIGH_BITS;
        while candidates != 0 {
            let slot = candidates.trailing_zeros() as usize / 8;
            if self.address(slot) == address {
                return Some(slot);
            }
            candidates &= candidates - 1;
        }
        None
    }

    #[inline]
    fn free_slot(&self) -> Option<usize> {
        let free = !self.tags & HIGH_BITS;
        (free != 0).then(|| free.trailing_zeros() as usize / 8)
    }

    #[inline]
    fn address(&self, slot: usize) -> u64 {
        let [low, middle, high] = self.addresses[slot].map(u64::from);
        low | middle << 16 | high << 32
    }

    #[inline]
    fn block(&self, slot: usize) -> Block {
        let [first, second] = self.rest[slot];
        let size = (first >> 61) << 32 | second >> 32;
        let mut block = Block::new(size, (first >> TIME_BITS & 0x1f) as usize);
        block.allocated_at = first & ((1 << TIME_BITS) - 1);
        block.owner = second as u32;
        block
    }

    #[inline]
    fn set_block(&mut self, slot: usize, block: &Block) {
        let (size, class) = (block.size(), block.place().class as u64);
        let first = block.allocated_at | class << TIME_BITS | (size >> 32) << 61;
        self.rest[slot] = [first, size << 32 | u64::from(block.owner)];
    }

    #[inline]
    fn fill(&mut self, slot: usize, address: u64, hash: u64, block: &Block) {
        self.tags |= tag(hash) << (8 * slot);
        self.addresses[slot] = [address as u16, (address >> 16) as u16, (address >> 32) as u16];
        self.set_block(slot, block);
    }

    #[inline]
    fn free(&mut self, slot: usize) {
        self.tags &= !(0xff << (8 * slot));
        self.strangers &= !(1 << slot);
    }
}

/// Where a block stands: bucket and slot.
struct Spot(usize, usize);

/// The blocks in a range of addresses.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    buckets: Box<[Bucket]>,
    blocks: usize,
    first: u64,
    last: u64,
}

impl Segment {
    /// An empty one with room for `blocks` and more, all of them in `range`.
    pub(super) fn new(blocks: usize, range: RangeInclusive<u64>) -> Self {
        Self::with_buckets(buckets_for(blocks, GROWN), range)
    }

    /// An empty one with room for `blocks` and few more.
    pub(super) fn new_shrunk(blocks: usize, range: RangeInclusive<u64>) -> Self {
        Self::with_buckets(buckets_for(blocks, SHRUNK), range)
    }

    fn with_buckets(buckets: usize, range: RangeInclusive<u64>) -> Self {
        let (first, last) = range.into_inner();
        Self { buckets: vec![FREE; buckets].into(), blocks: 0, first, last }
    }

    /// The addresses it is for.
    pub(super) fn range(&self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    /// Whether it is for `address`.
    #[inline]
    pub(super) fn covers(&self, address: u64) -> bool {
        self.first <= address && address <= self.last
    }

    pub(super) fn len(&self) -> usize {
        self.blocks
    }

    /// Bytes allocated for it.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The bucket that the upper bits of `hash` point at.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let wide = u128::from(hash) * self.buckets.len() as u128;
        (wide >> 64) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Reads from each of the cache lines where a block with this hash would be.
    #[inline]
    pub(super) fn touch(&self, hash: u64) -> u64 {
        let bucket = &self.buckets[self.home(hash)];
        bucket.tags ^ bucket.rest[0][0] ^ bucket.rest[SLOTS - 1][0]
    }

    fn find(&self, address: u64, hash: u64) -> Option<Spot> {
        let home = self.home(hash);
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            if let Some(slot) = bucket.find(address, hash) {
                return Some(Spot(at, slot));
            }
            at = self.after(at);
            if bucket.passed == 0 || at == home {
                return None;
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, address: u64, hash: u64) -> Option<Block> {
        self.find(address, hash).map(|Spot(bucket, slot)| self.buckets[bucket].block(slot))
    }

    /// Whether there is no room for one more.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        (self.blocks + 1) * 10 > self.buckets.len() * FULL
    }

    /// Whether fewer buckets would do.
    #[inline]
    pub(super) fn is_wasteful(&self) -> bool {
        self.blocks * 10 < self.buckets.len() * EMPTY
            && buckets_for(self.blocks, SHRUNK) < self.buckets.len()
    }

    /// Puts a block at `address`. There must be room. Returns the block that was there.
    #[inline]
    pub(super) fn insert(&mut self, address: u64, hash: u64, block: &Block) -> Option<Block> {
        let home = self.home(hash);
        let bucket = &mut self.buckets[home];
        if bucket.passed == 0
            && let Some(slot) = bucket.free_slot()
            && bucket.find(address, hash).is_none()
        {
            bucket.fill(slot, address, hash, block);
            self.blocks += 1;
            return None;
        }
        self.insert_slowly(address, hash, block)
    }

    /// As above, where the block is there, or its bucket is or was full.
    #[inline(never)]
    fn insert_slowly(&mut self, address: u64, hash: u64, block: &Block) -> Option<Block> {
        if let Some(Spot(bucket, slot)) = self.find(address, hash) {
            let bucket = &mut self.buckets[bucket];
            let old = bucket.block(slot);
            bucket.set_block(slot, block);
            return Some(old);
        }
        let home = self.home(hash);
        let mut at = home;
        let slot = loop {
            let bucket = &mut self.buckets[at];
            match bucket.free_slot() {
                Some(slot) => break slot,
                None => bucket.passed += 1,
            }
            at = self.after(at);
        };
        let bucket = &mut self.buckets[at];
        bucket.fill(slot, address, hash, block);
        bucket.strangers |= u8::from(at != home) << slot;
        self.blocks += 1;
        None
    }

    /// Takes out the block at `address`; `hash_of` gives the hashes of other addresses.
    #[inline]
    pub(super) fn remove(
        &mut self,
        address: u64,
        hash: u64,
        hash_of: impl Fn(u64) -> u64,
    ) -> Option<Block> {
        let home = self.home(hash);
        let bucket = &mut self.buckets[home];
        let slot = bucket.find(address, hash);
        let Some(slot) = slot.filter(|_| bucket.passed == 0) else {
            return self.remove_slowly(address, hash, hash_of);
        };
        bucket.free(slot);
        let block = bucket.block(slot);
        self.blocks -= 1;
        Some(block)
    }

    /// As above, where the block stands elsewhere or others wait for its slot.
    #[inline(never)]
    fn remove_slowly(
        &mut self,
        address: u64,
        hash: u64,
        hash_of: impl Fn(u64) -> u64,
    ) -> Option<Block> {
        let spot @ Spot(bucket, slot) = self.find(address, hash)?;
        let mut at = self.home(hash);
        while at != bucket {
            self.buckets[at].passed -= 1;
            at = self.after(at);
        }
        let block = self.buckets[bucket].block(slot);
        self.buckets[bucket].free(slot);
        self.blocks -= 1;
        self.pull_back(spot, hash_of);
        Some(block)
    }

    /// Fills the free slot at `spot` with a stranger of the next bucket, and so on behind it.
    fn pull_back(&mut self, mut spot: Spot, hash_of: impl Fn(u64) -> u64) {
        // NOTE: a stranger belongs at least one bucket before, so it may stand there.
        loop {
            let Spot(at, slot) = spot;
            let next = self.after(at);
            let from = &self.buckets[next];
            if self.buckets[at].passed == 0 || from.strangers == 0 {
                return;
            }
            let stranger = from.strangers.trailing_zeros() as usize;
            let (tag, address) = (from.tags >> (8 * stranger) & 0xff, from.addresses[stranger]);
            let rest = from.rest[stranger];
            let is_home = self.home(hash_of(from.address(stranger))) == at;
            self.buckets[next].free(stranger);
            let to = &mut self.buckets[at];
            to.passed -= 1;
            to.tags |= tag << (8 * slot);
            to.strangers |= u8::from(!is_home) << slot;
            (to.addresses[slot], to.rest[slot]) = (address, rest);
            spot = Spot(next, stranger);
        }
    }

    /// Calls `body` with every address and block. PERF: as loops, twice as fast as by the iterator.
    pub(super) fn for_each(&self, mut body: impl FnMut(u64, &Block)) {
        for bucket in &self.buckets {
            let mut used = bucket.tags & HIGH_BITS;
            while used != 0 {
                let slot = used.trailing_zeros() as usize / 8;
                used &= used - 1;
                body(bucket.address(slot), &bucket.block(slot));
            }
        }
    }

    /// The addresses and blocks, in no useful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        self.buckets.iter().flat_map(|bucket| {
            let used = (0..SLOTS).filter(|slot| bucket.tags >> (8 * slot) & 0x80 != 0);
            used.map(|slot| (bucket.address(slot), bucket.block(slot)))
        })
    }
}

/// How many buckets `blocks` blocks get, with so many tenths in each.
fn buckets_for(blocks: usize, tenths: usize) -> usize {
    blocks * 10 / tenths + 1
}
