//! What findings need to know of single blocks.

use super::ages::Ages;
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
/// Memory: about 260 bytes for each bucket, some 200 more for each that ever had 4 KiB of live blocks, 12 for
/// each that has live bytes at one of at most 96 moments, 80 for each live block that has grown, and at most
/// 5 MiB for the threads and scopes that free; 40 for each block that was freed since something was last
/// allocated.
#[derive(Clone, Debug, Default)]
pub struct FindingsObserver {
    pub(super) buckets: Vec<Bucket>,
    /// By bucket.
    ///
    /// PERF: beside the buckets, because a moment copies them all.
    live_bytes: Vec<u64>,
    /// How live blocks have grown, by heap and address.
    chains: IntMap<(u8, u64), Chain>,
    /// Blocks between the two halves of a reallocation, by the number of the first.
    pending: IntMap<u64, Chain>,
    /// By stream: the block that it allocated last, as long as that is its last event.
    newest: Vec<Newest>,
    pairs: IntMap<(u32, Actor), FreedBlocks>,
    moments: Moments,
    last_frees: LastFrees,
    last_freed: LastFreed,
    /// The sum of all sizes that were allocated.
    allocated_bytes: u64,
}

/// What was seen of the blocks of one bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// The largest size that was allocated, and the least one as what it is less than `u64::MAX`.
    sizes: [u64; 2],
    /// The most live bytes before a block was freed.
    most_live: u64,
    /// When the last block was freed, before the last frees of the program and in these.
    last_free: [LastFree; 2],
    /// Live blocks that have grown.
    live_chains: u64,
    /// Who freed the last of its blocks, and what that actor has freed since another one did.
    freed_by: Actor,
    freed: FreedBlocks,
    pub(super) ages: Ages,
    ended: Option<Box<Grown>>,
}

impl Bucket {
    /// The least and the largest size that was allocated, if any was.
    pub(super) fn sizes(&self) -> Option<[u64; 2]> {
        let [largest, less] = self.sizes;
        (less > 0).then_some([u64::MAX - less, largest])
    }

    /// The last free before the program began to end.
    pub(super) fn last_free(&self, shutdown: Option<Shutdown>) -> Option<LastFree> {
        let [before, last] = self.last_free;
        let is_last = |free: &LastFree| shutdown.is_some_and(|it| it.is_of(free.number));
        let free = if is_last(&last) { before } else { last };
        (free.frees > 0).then_some(free)
    }

    /// The most bytes that were live at once.
    pub(super) fn most_live(&self, live_bytes: u64) -> u64 {
        self.most_live.max(live_bytes)
    }
}

/// The last free of a bucket's blocks so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastFree {
    /// Which frees of the program it is of: see [`LastFrees`].
    pub(super) number: u32,
    /// All frees up to it.
    pub(super) frees: u64,
    /// When it was.
    pub(super) at_ns: u64,
    /// The most live bytes that the bucket had up to then.
    pub(super) most_live: u64,
    /// When its block was allocated.
    pub(super) born_ns: u64,
}

/// The block that a stream allocated last.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    address: u64,
    bytes: u64,
    bucket: u32,
    heap: u8,
}

/// How one block has grown: by reallocation, or by a larger one that took its place.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    bucket: u32,
    bytes: u64,
    growths: u64,
    moved: u64,
    copied_bytes: u64,
    /// Its sizes before each growth.
    grown_bytes: u64,
    /// Growths that were no reallocation; and those of these by less than a container grows.
    replaced: u64,
    small: u64,
}

impl Chain {
    /// Whether it is one block that grows: what is replaced once may be two blocks.
    fn is_growth(&self) -> bool {
        let least = if self.small > 0 { MIN_SMALL } else { MIN_REPLACED };
        self.growths > self.replaced || self.replaced >= least
    }
}

/// A block that is replaced less often than this does not grow.
const MIN_REPLACED: u64 = 3;
/// What replaces a block is larger at least and at most by these factors, in percent: containers grow by a
/// half or by all they have.
const REPLACED: [u64; 2] = [140, 210];
/// A block of this many bytes can grow by less, if it does so this often in a row: by a part that is added
/// each time.
const LARGE: u64 = 64 << 10;
const MIN_SMALL: u64 = 8;

/// Blocks that grew, whose last bucket is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Grown {
    /// By the number of bits of their last size.
    classes: Vec<(u32, Growths)>,
}

/// Blocks that grew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Growths {
    pub(super) blocks: u64,
    pub(super) growths: u64,
    /// Growths after which the block had another address.
    pub(super) moved: u64,
    /// The sizes before these.
    pub(super) copied_bytes: u64,
    /// The sizes before all.
    pub(super) grown_bytes: u64,
    /// Their last sizes: the largest, and the sum.
    pub(super) largest: u64,
    pub(super) last_bytes: u64,
}

impl Growths {
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.growths = self.growths.wrapping_add(other.growths);
        self.moved = self.moved.wrapping_add(other.moved);
        self.copied_bytes = self.copied_bytes.wrapping_add(other.copied_bytes);
        self.grown_bytes = self.grown_bytes.wrapping_add(other.grown_bytes);
        self.largest = self.largest.max(other.largest);
        self.last_bytes = self.last_bytes.wrapping_add(other.last_bytes);
    }
}

impl Grown {
    fn add(&mut self, chain: &Chain) {
        let Chain { bytes, growths, moved, copied_bytes, grown_bytes, .. } = *chain;
        if growths > 0 && chain.is_growth() {
            let grown = Growths {
                blocks: 1,
                growths,
                moved,
                copied_bytes,
                grown_bytes,
                largest: bytes,
                last_bytes: bytes,
            };
            self.add_class(size_bits(bytes), &grown);
        }
    }

    fn add_class(&mut self, bits: u32, grown: &Growths) {
        match self.classes.iter_mut().find(|(of, _)| *of == bits) {
            Some((_, sum)) => sum.add(grown),
            None => self.classes.push((bits, *grown)),
        }
    }

    pub(super) fn sum(&mut self, other: &Self) {
        for (bits, grown) in &other.classes {
            self.add_class(*bits, grown);
        }
    }

    /// By the number of bits of their last size, the smallest first.
    pub(super) fn classes(mut self) -> Vec<(u32, Growths)> {
        self.classes.sort_unstable_by_key(|(bits, _)| *bits);
        self.classes
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

    /// The blocks that grew, also those still live, with their buckets; a bucket may come several times.
    pub(super) fn grown(&self) -> impl Iterator<Item = (usize, Cow<'_, Grown>)> {
        let of_live = self.chains.values().chain(self.pending.values()).map(|chain| {
            let mut ended = Grown::default();
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
        // PERF: not twice the memory, of some 260 bytes each; the system moves pages without a copy.
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
        self.bucket(event.bucket);
        let live_bytes = &mut self.live_bytes[event.bucket as usize];
        *live_bytes = live_bytes.wrapping_add(event.bytes);
    }

    /// A block of bucket `number`, which had `bytes`, is no longer live.
    #[inline(always)]
    fn end(&mut self, number: u32, bytes: u64) -> &mut Bucket {
        self.bucket(number);
        let live_bytes = &mut self.live_bytes[number as usize];
        let bucket = &mut self.buckets[number as usize];
        bucket.most_live = bucket.most_live.max(*live_bytes);
        *live_bytes = live_bytes.wrapping_sub(bytes);
        bucket
    }

    #[inline(always)]
    fn freed_block(&mut self, event: &BlockEvent, by: Actor) {
        let bytes = event.bytes;
        self.last_frees.frees(event.allocated_at_ns, event.at_ns);
        let number = self.last_frees.freed(bytes, event.at_ns);
        self.last_freed.add(event, number);
        let bucket = self.end(event.bucket, bytes);
        bucket.ages.add(event.at_ns.saturating_sub(event.allocated_at_ns), bucket.most_live);
        let [before, last] = &mut bucket.last_free;
        if last.number != number {
            *before = *last;
        }
        *last = LastFree {
            number,
            frees: last.frees + 1,
            at_ns: event.at_ns,
            most_live: bucket.most_live,
            born_ns: event.allocated_at_ns,
        };
        let has_chains = bucket.live_chains > 0;
        if bucket.freed_by == by {
            bucket.freed.count(bytes, number);
        } else {
            self.freed_by_another(event, by, number);
        }
        let newest = self.newest.get_mut(usize::from(event.stream)).map(std::mem::take);
        match newest.filter(|newest| newest.replaces(event)) {
            Some(newest) => self.replaced(event, &newest),
            None if has_chains => self.end_chain(event),
            None => {}
        }
    }

    /// A block ends that was grown into another one: a container that has no reallocation.
    #[inline(never)]
    fn replaced(&mut self, event: &BlockEvent, newest: &Newest) {
        let chain = self.chains.remove(&(event.heap, event.address));
        let bucket = self.bucket(event.bucket);
        bucket.live_chains = bucket.live_chains.saturating_sub(u64::from(chain.is_some()));
        let mut chain = chain.unwrap_or_default();
        (chain.bucket, chain.bytes) = (newest.bucket, newest.bytes);
        chain.growths += 1;
        chain.replaced += 1;
        let percent = u128::from(newest.bytes) * 100;
        let is_small = percent < u128::from(event.bytes) * u128::from(REPLACED[0]);
        chain.small += u64::from(is_small);
        chain.moved += 1;
        chain.copied_bytes = chain.copied_bytes.wrapping_add(event.bytes);
        chain.grown_bytes = chain.grown_bytes.wrapping_add(event.bytes);
        self.keep_chain((newest.heap, newest.address), chain);
    }

    fn keep_chain(&mut self, at: (u8, u64), chain: Chain) {
        self.bucket(chain.bucket).live_chains += 1;
        if let Some(left) = self.chains.insert(at, chain) {
            // A damaged trace has two blocks here.
            self.count_chain(&left);
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

    #[inline(always)]
    fn is_newest(&mut self, event: &BlockEvent) {
        let stream = usize::from(event.stream);
        if stream >= self.newest.len() {
            self.newest.resize(stream + 1, Newest::default());
        }
        let BlockEvent { address, bytes, bucket, heap, .. } = *event;
        self.newest[stream] = Newest { address, bytes, bucket, heap };
    }

    /// A block does not grow any more.
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
        let bucket = self.end(event.bucket, event.bytes);
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
            chain.grown_bytes = chain.grown_bytes.wrapping_add(bytes_before);
        }
        self.keep_chain((event.heap, event.address), chain);
    }

    /// A block has another size or another bucket than before.
    #[cold]
    #[inline(never)]
    fn correct(&mut self, event: &BlockEvent, from: u32, bytes_before: u64) {
        let has_chains = self.end(from, bytes_before).live_chains > 0;
        self.begin(event);
        if !has_chains {
            return;
        }
        if let Some(chain) = self.chains.get_mut(&(event.heap, event.address)) {
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

impl Newest {
    /// Whether a block that ends here has grown into this one.
    #[inline(always)]
    fn replaces(&self, ended: &BlockEvent) -> bool {
        let [least, most] = REPLACED.map(|percent| u128::from(ended.bytes) * u128::from(percent));
        let bytes = u128::from(self.bytes) * 100;
        let is_larger = least <= bytes || ended.bytes >= LARGE && self.bytes > ended.bytes;
        self.bucket == ended.bucket && self.address != ended.address && is_larger && bytes <= most
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
                let [largest, less] = &mut self.buckets[event.bucket as usize].sizes;
                *largest = event.bytes.max(*largest);
                *less = (u64::MAX - event.bytes).max(*less);
                self.is_newest(event);
            }
            BlockChange::Freed { by, .. } => self.freed_block(event, by),
            BlockChange::ReallocBegun => {
                if let Some(newest) = self.newest.get_mut(usize::from(event.stream)) {
                    *newest = Newest::default();
                }
                self.begin_realloc(event);
            }
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
                self.end(event.bucket, event.bytes);
                self.end_chain(event);
            }
            BlockChange::Returned => self.begin(event),
        }
    }
}
