//! What findings need to know of single blocks.

use super::moments::{CLOCKS, LiveSnapshot, Moments};
use super::shutdown::{FreedBlocks, LastFreed, LastFrees, Shutdown};
use crate::hash::IntMap;
use crate::observer::{Actor, BlockChange, BlockEvent, BlockObserver};
use std::borrow::Cow;

/// The maximum number of pairs that are kept beside the last one of each bucket: a bucket, and a thread that
/// frees its blocks. What other pairs have freed is missing in the findings about them.
const MAX_PAIRS: usize = 1 << 16;
/// The maximum number of reallocations that are half done: a program has one for each thread. The
/// blocks of further ones count as freed.
const MAX_PENDING: usize = 1 << 16;

/// Collects what findings need: [`Analyzer::find`](crate::Analyzer::find) makes them.
///
/// Memory: about 220 bytes for each bucket, 12 for each that has live bytes at one of at most 96 moments, 64
/// for each live block that was reallocated, and at most 5 MiB for the threads and scopes that free; 24 for
/// each block that was freed since something was last allocated.
#[derive(Clone, Debug, Default)]
pub struct FindingsObserver {
    pub(super) buckets: Vec<Bucket>,
    /// By bucket.
    ///
    /// PERF: beside the buckets, because a moment copies them all.
    live_bytes: Vec<u64>,
    /// The reallocations of live blocks, by heap and address.
    chains: IntMap<(u8, u64), Chain>,
    /// Blocks between the two halves of a reallocation, by the number of the first.
    pending: IntMap<u64, Chain>,
    pairs: IntMap<(u32, Actor), FreedBlocks>,
    moments: Moments,
    last_frees: LastFrees,
    last_freed: LastFreed,
    /// The sum of all sizes that were allocated.
    allocated_bytes: u64,
}

/// The number of classes of lifetimes: none, and then each up to 16 times as long as the one before.
pub(super) const LIFETIMES: usize = 16;
/// The number of bits that the end of a class has more than that of the one before.
const LIFETIME_BITS: u32 = 4;
/// The number of sizes that are counted in a bucket: the first ones that are allocated there.
const SIZES: usize = 4;

#[inline(always)]
fn lifetime_class(ns: u64) -> usize {
    ((u64::BITS - ns.leading_zeros()).div_ceil(LIFETIME_BITS) as usize).min(LIFETIMES - 1)
}

/// The first lifetime that is too long for a class.
pub(super) fn lifetime_end(class: usize) -> u64 {
    match class {
        0..LIFETIMES if class + 1 < LIFETIMES => 1 << (LIFETIME_BITS * class as u32),
        _ => u64::MAX,
    }
}

/// What was seen of the blocks of one bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// The sum of the times at which its live blocks were allocated.
    pub(super) live_since: u128,
    /// The bytes of its short-lived blocks.
    pub(super) short_lived_bytes: u64,
    /// The first sizes, and how many blocks were allocated with each.
    ///
    /// PERF: in the bucket, whose cache line is needed anyway; a map of all sizes took 5 % of the time of a
    /// report.
    sizes: [u32; SIZES],
    counts: [u64; SIZES],
    /// By class of lifetimes: freed blocks.
    pub(super) lifetimes: [u32; LIFETIMES],
    /// Live blocks that were reallocated.
    live_chains: u64,
    /// Who freed the last of its blocks, and what that actor has freed since another one did.
    freed_by: Actor,
    freed: FreedBlocks,
    ended: Option<Box<EndedBlocks>>,
}

impl Bucket {
    /// A block was allocated with this size. One that is larger than 4 GiB is not counted.
    #[inline(always)]
    fn count_size(&mut self, bytes: u64) {
        let Ok(size) = u32::try_from(bytes) else { return };
        for (of, count) in self.sizes.iter_mut().zip(&mut self.counts) {
            if *of == size || *count == 0 {
                (*of, *count) = (size, *count + 1);
                return;
            }
        }
    }

    /// The sizes that are counted, with the number of blocks.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sizes.into_iter().map(u64::from).zip(self.counts).filter(|(_, count)| *count > 0)
    }
}

/// The reallocations of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    bucket: u32,
    bytes: u64,
    growths: u64,
    moved: u64,
    copied_bytes: u64,
    /// What its last change of size has given back; 0 if that was a growth.
    given_back: u64,
}

/// The reallocations of blocks whose last bucket is this one.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedBlocks {
    /// Blocks that grew, by the number of bits of their last size.
    pub(super) grown: Vec<(u32, Grown)>,
    /// Blocks that a shrink left smaller.
    pub(super) shrunk: u64,
    /// What these shrinks have given back.
    pub(super) given_back: u64,
    /// The last sizes of these blocks.
    pub(super) shrunk_bytes: u64,
}

/// Blocks that grew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grown {
    pub(super) blocks: u64,
    pub(super) growths: u64,
    /// Growths after which the block had another address.
    pub(super) moved: u64,
    /// The sizes before these.
    pub(super) copied_bytes: u64,
    /// The largest last size.
    pub(super) largest: u64,
}

impl Grown {
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.growths = self.growths.wrapping_add(other.growths);
        self.moved = self.moved.wrapping_add(other.moved);
        self.copied_bytes = self.copied_bytes.wrapping_add(other.copied_bytes);
        self.largest = self.largest.max(other.largest);
    }
}

impl EndedBlocks {
    fn add(&mut self, chain: &Chain) {
        let Chain { bytes, growths, moved, copied_bytes, given_back, .. } = *chain;
        if growths > 0 {
            let grown = Grown { blocks: 1, growths, moved, copied_bytes, largest: bytes };
            self.add_grown(size_bits(bytes), &grown);
        }
        if given_back > 0 {
            self.shrunk += 1;
            self.given_back = self.given_back.wrapping_add(given_back);
            self.shrunk_bytes = self.shrunk_bytes.wrapping_add(bytes);
        }
    }

    fn add_grown(&mut self, bits: u32, grown: &Grown) {
        match self.grown.iter_mut().find(|(of, _)| *of == bits) {
            Some((_, sum)) => sum.add(grown),
            None => self.grown.push((bits, *grown)),
        }
    }

    pub(super) fn sum(&mut self, other: &Self) {
        for (bits, grown) in &other.grown {
            self.add_grown(*bits, grown);
        }
        self.shrunk = self.shrunk.wrapping_add(other.shrunk);
        self.given_back = self.given_back.wrapping_add(other.given_back);
        self.shrunk_bytes = self.shrunk_bytes.wrapping_add(other.shrunk_bytes);
    }
}

/// The number of bits `n` for which a block of `bytes` fits 2^n bytes and not half of that.
pub(super) fn size_bits(bytes: u64) -> u32 {
    u64::BITS - bytes.saturating_sub(1).leading_zeros()
}

impl FindingsObserver {
    pub(super) fn moments(&self, clock: usize) -> &[LiveSnapshot] {
        self.moments.of(clock)
    }

    /// What was freed last, if that ended a program which ran until `end_ns`.
    pub(super) fn shutdown(&self, end_ns: u64) -> Option<Shutdown> {
        self.last_frees.shutdown(end_ns)
    }

    /// The blocks that were freed last.
    pub(super) fn last_freed(&self) -> &LastFreed {
        &self.last_freed
    }

    /// The sum of all sizes that were allocated.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    /// A block has got this size.
    #[inline(always)]
    fn allocate(&mut self, bytes: u64) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(bytes);
        self.last_frees.allocated(bytes);
    }

    /// The reallocations of blocks, also of those still live, with the buckets of these; a bucket may come
    /// several times.
    pub(super) fn ended(&self) -> impl Iterator<Item = (usize, Cow<'_, EndedBlocks>)> {
        let of_live = self.chains.values().chain(self.pending.values()).map(|chain| {
            let mut ended = EndedBlocks::default();
            ended.add(chain);
            (chain.bucket as usize, Cow::Owned(ended))
        });
        let buckets = self.buckets.iter().enumerate();
        let ended = buckets.filter_map(|(number, bucket)| Some((number, bucket.ended.as_ref()?)));
        ended.map(|(number, ended)| (number, Cow::Borrowed(&**ended))).chain(of_live)
    }

    /// Who has freed blocks of which bucket, in no particular order; a pair may come twice.
    pub(super) fn freed(&self) -> impl Iterator<Item = (u32, Actor, FreedBlocks)> {
        let last = (0_u32..).zip(&self.buckets).filter(|(_, bucket)| bucket.freed.all.blocks > 0);
        let last = last.map(|(number, bucket)| (number, bucket.freed_by, bucket.freed));
        self.pairs.iter().map(|(&(bucket, by), &freed)| (bucket, by, freed)).chain(last)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, number: usize) {
        // PERF: not twice the memory: a bucket takes 208 bytes, and the system moves pages without a copy.
        let room = self.buckets.len() / 8;
        if number >= self.buckets.capacity() {
            self.buckets.reserve_exact((number + 1 - self.buckets.len()).max(room));
        }
        self.buckets.resize_with(number + 1, Bucket::default);
        self.live_bytes.resize(number + 1, 0);
    }

    #[inline(always)]
    fn bucket(&mut self, number: u32) -> &mut Bucket {
        if number as usize >= self.buckets.len() {
            self.grow(number as usize);
        }
        &mut self.buckets[number as usize]
    }

    /// A block is live from here on.
    #[inline(always)]
    fn begin(&mut self, event: &BlockEvent) {
        let bucket = self.bucket(event.bucket);
        bucket.live_since = bucket.live_since.wrapping_add(u128::from(event.allocated_at_ns));
        let live_bytes = &mut self.live_bytes[event.bucket as usize];
        *live_bytes = live_bytes.wrapping_add(event.bytes);
    }

    /// A block of bucket `number`, which had `bytes`, is no longer live.
    #[inline(always)]
    fn end(&mut self, event: &BlockEvent, number: u32, bytes: u64) -> &mut Bucket {
        let bucket = self.bucket(number);
        bucket.live_since = bucket.live_since.wrapping_sub(u128::from(event.allocated_at_ns));
        let live_bytes = &mut self.live_bytes[number as usize];
        *live_bytes = live_bytes.wrapping_sub(bytes);
        &mut self.buckets[number as usize]
    }

    #[inline(always)]
    fn freed_block(&mut self, event: &BlockEvent, by: Actor, short_lived: bool) {
        let bytes = event.bytes;
        self.last_frees.frees(event.allocated_at_ns, event.at_ns);
        let number = self.last_frees.freed(bytes, event.at_ns);
        self.last_freed.add(event, number);
        let bucket = self.end(event, event.bucket, bytes);
        bucket.short_lived_bytes =
            bucket.short_lived_bytes.wrapping_add(if short_lived { bytes } else { 0 });
        let lifetime = event.at_ns.saturating_sub(event.allocated_at_ns);
        let class = &mut bucket.lifetimes[lifetime_class(lifetime)];
        *class = class.saturating_add(1);
        let has_chains = bucket.live_chains > 0;
        if bucket.freed_by == by {
            bucket.freed.count(bytes, number);
        } else {
            self.freed_by_another(event, by, number);
        }
        if has_chains {
            self.end_chain(event);
        }
    }

    #[inline(never)]
    fn freed_by_another(&mut self, event: &BlockEvent, by: Actor, number: u32) {
        let bucket = &mut self.buckets[event.bucket as usize];
        add_pair(&mut self.pairs, event.bucket, bucket);
        bucket.freed_by = by;
        bucket.freed = FreedBlocks::default();
        bucket.freed.count(event.bytes, number);
    }

    /// The reallocations of a block are complete.
    #[inline(never)]
    fn end_chain(&mut self, event: &BlockEvent) {
        if let Some(chain) = self.chains.remove(&(event.heap, event.address)) {
            self.count_chain(&chain);
        }
    }

    /// A chain that is in no map is complete.
    fn count_chain(&mut self, chain: &Chain) {
        let bucket = self.bucket(chain.bucket);
        bucket.live_chains = bucket.live_chains.saturating_sub(1);
        bucket.ended.get_or_insert_default().add(chain);
    }

    /// The block is between the halves of a reallocation. Its address may be another block's.
    #[inline(never)]
    fn begin_realloc(&mut self, event: &BlockEvent) {
        let bucket = self.end(event, event.bucket, event.bytes);
        if bucket.live_chains == 0 {
            return;
        }
        let Some(chain) = self.chains.remove(&(event.heap, event.address)) else { return };
        if self.pending.len() < MAX_PENDING {
            self.pending.insert(event.number, chain);
        } else {
            self.count_chain(&chain);
        }
    }

    #[inline(never)]
    fn end_realloc(&mut self, event: &BlockEvent, begun: u64, from: u64, bytes_before: u64) {
        self.allocate(event.bytes);
        self.begin(event);
        let mut chain = match self.pending.remove(&begun) {
            Some(chain) => {
                let bucket = self.bucket(chain.bucket);
                bucket.live_chains = bucket.live_chains.saturating_sub(1);
                chain
            }
            None => Chain::default(),
        };
        (chain.bucket, chain.bytes) = (event.bucket, event.bytes);
        if event.bytes > bytes_before {
            let moved = from != event.address;
            chain.growths += 1;
            chain.moved += u64::from(moved);
            let copied = if moved { bytes_before } else { 0 };
            chain.copied_bytes = chain.copied_bytes.wrapping_add(copied);
        }
        if event.bytes != bytes_before {
            chain.given_back = bytes_before.saturating_sub(event.bytes);
        }
        self.bucket(event.bucket).live_chains += 1;
        if let Some(left) = self.chains.insert((event.heap, event.address), chain) {
            // A damaged trace has two blocks here.
            self.count_chain(&left);
        }
    }

    /// A block has another size or another bucket than before.
    #[cold]
    #[inline(never)]
    fn correct(&mut self, event: &BlockEvent, from: u32, bytes_before: u64) {
        let has_chains = self.end(event, from, bytes_before).live_chains > 0;
        self.begin(event);
        if !has_chains {
            return;
        }
        if let Some(chain) = self.chains.get_mut(&(event.heap, event.address)) {
            // What was counted as a shrink was a smaller one, or none.
            let more = event.bytes.saturating_sub(bytes_before);
            chain.given_back = chain.given_back.saturating_sub(more);
            (chain.bucket, chain.bytes) = (event.bucket, event.bytes);
            self.bucket(event.bucket).live_chains += 1;
            let from = self.bucket(from);
            from.live_chains = from.live_chains.saturating_sub(1);
        }
    }
}

/// Adds what the actor that frees blocks of this bucket has freed, if there is room.
fn add_pair(pairs: &mut IntMap<(u32, Actor), FreedBlocks>, number: u32, bucket: &Bucket) {
    if bucket.freed.all.blocks == 0 {
        return;
    }
    let key = (number, bucket.freed_by);
    if pairs.len() < MAX_PAIRS || pairs.contains_key(&key) {
        pairs.entry(key).or_default().add(&bucket.freed);
    }
}

impl BlockObserver for FindingsObserver {
    #[inline(always)]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let at: [u64; CLOCKS] = [event.number, event.at_ns, self.allocated_bytes];
        if self.moments.is_due(at) {
            self.moments.take(at, &self.live_bytes);
        }
        match change {
            BlockChange::Allocated => {
                self.allocate(event.bytes);
                self.begin(event);
                self.buckets[event.bucket as usize].count_size(event.bytes);
            }
            BlockChange::Freed { by, short_lived } => self.freed_block(event, by, short_lived),
            BlockChange::ReallocBegun => self.begin_realloc(event),
            BlockChange::Reallocated { begun, from, bytes_before, .. } => {
                self.end_realloc(event, begun, from, bytes_before);
            }
            // NOTE: our writer gives a failed reallocation the old size, so nothing was counted.
            BlockChange::ReallocFailed { .. } => {}
            BlockChange::Corrected { bytes_before, is_live } => {
                if is_live {
                    self.correct(event, event.bucket, bytes_before);
                }
            }
            BlockChange::Moved { from } => self.correct(event, from, event.bytes),
            BlockChange::Left => {
                self.end(event, event.bucket, event.bytes);
                self.end_chain(event);
            }
            BlockChange::Returned => self.begin(event),
        }
    }
}
