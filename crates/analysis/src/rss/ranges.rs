//! The resident ranges of anonymous memory, and the live blocks in them.

use crate::live_set::HEAPS;
use std::iter;

/// More live bytes than that in one range count as that: products of two such numbers, and sums of these, are
/// less than 2^128.
const MAX_LIVE: u64 = 1 << 58;

/// Which root heaps have pages that the program has mapped. An allocator may have mapped them, and then has
/// blocks of other heaps in them.
pub(super) type MappedHeaps = [bool; HEAPS];

/// The pages that the program has mapped: starts, ends, root heaps, and whether other blocks are in them; in
/// the order of their addresses.
pub(super) struct MappedPages(Vec<(u64, u64, u8, bool)>);

impl MappedPages {
    pub(super) fn new(pages: impl Iterator<Item = (u8, u64, u64)>) -> Self {
        let pages = pages.map(|(heap, at, bytes)| (at, at.saturating_add(bytes), heap, false));
        let mut pages: Vec<_> = pages.collect();
        pages.sort_unstable();
        Self(pages)
    }

    /// There is a block of another heap at this address.
    pub(super) fn note_block(&mut self, address: u64) {
        let before = self.0.partition_point(|(start, ..)| *start <= address);
        if let Some((_, end, _, has_blocks)) = self.0[..before].last_mut()
            && address < *end
        {
            *has_blocks = true;
        }
    }

    /// Heaps, addresses and sizes of those in which no other block is: the others are an allocator's.
    pub(super) fn without_blocks(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        let without = self.0.iter().filter(|(.., has_blocks)| !has_blocks);
        without.map(|&(start, end, heap, _)| (heap, start, end - start))
    }
}

/// Ranges of anonymous memory, in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(pub(super) Vec<Range>);

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    start: u64,
    end: u64,
    pub(super) resident: u64,
}

/// Adds to `by_heap` what is resident of the live blocks in a range, by root heap; returns what else is.
///
/// Blocks of allocators are mostly written, and mapped pages often not, so those come first. Several heaps
/// share in proportion.
pub(super) fn divide_range(
    resident: u64,
    live: &[u64; HEAPS],
    by_heap: &mut [u64; HEAPS],
    mapped: &MappedHeaps,
) -> u64 {
    let mut left = resident;
    for are_mapped in [false, true] {
        let live = live.iter().zip(mapped);
        let live =
            live.map(|(bytes, mapped)| u128::from(*bytes) * u128::from(*mapped == are_mapped));
        let all: u128 = live.clone().sum();
        let resident = all.min(left.into());
        let (mut until, mut given) = (0, 0);
        for (sum, bytes) in by_heap.iter_mut().zip(live) {
            until += bytes;
            // NOTE: so the shares have the sum `resident`.
            let share = resident * until / all.max(1) - given;
            given += share;
            *sum = sum.saturating_add(share as u64);
        }
        left -= resident as u64;
    }
    left
}

impl Range {
    fn within<T: Copy>(&self, parts: &[(u64, u64, T)]) -> impl Iterator<Item = (T, u64)> {
        let first = parts.partition_point(|(_, end, _)| *end <= self.start);
        let inside = parts[first..].iter().take_while(|(start, ..)| *start < self.end);
        let inside =
            inside.map(|&(start, end, of)| (of, end.min(self.end) - start.max(self.start)));
        let all: u64 = inside.clone().map(|(_, bytes)| bytes).sum();
        let resident = u128::from(self.resident.min(all));
        inside.map(move |(of, bytes)| {
            (of, (resident * u128::from(bytes) / u128::from(all.max(1))) as u64)
        })
    }
}

impl Ranges {
    /// The ranges of three arrays of `u64`: starts, sizes, resident bytes. An element that another array
    /// lacks is left out.
    pub(crate) fn new(starts: &[u8], sizes: &[u8], resident: &[u8]) -> Self {
        let [starts, sizes, resident] = [starts, sizes, resident]
            .map(|array| array.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        let ranges = starts.zip(sizes).zip(resident);
        let ranges = ranges.map(|((start, size), resident)| Range {
            start,
            end: start.saturating_add(size),
            resident: resident.min(size),
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        // A trace that is damaged can say anything: each address counts in one range.
        ranges.dedup_by(|next, range| next.start < range.end);
        Self(ranges)
    }

    /// The same ranges without those that allocators have mapped: `of_allocators` says it of each.
    pub(crate) fn without(&self, of_allocators: &[u8]) -> Self {
        let others = self.0.iter().zip(of_allocators.iter().chain(iter::repeat(&0)));
        Self(others.filter(|(_, is)| **is == 0).map(|(range, _)| *range).collect())
    }

    /// How much is resident.
    pub(crate) fn resident(&self) -> u64 {
        self.0.iter().map(|range| range.resident).fold(0, u64::saturating_add)
    }

    /// What is resident of each of these parts, which are in the order of their addresses: starts, ends and
    /// what they are. Several in a range share in proportion.
    pub(crate) fn within<T: Copy>(&self, parts: &[(u64, u64, T)]) -> Vec<(T, u64)> {
        self.0.iter().flat_map(|range| range.within(parts)).collect()
    }

    /// At least how much is resident outside of what `covered` says of addresses, and of these parts, which
    /// are in the order of their addresses.
    pub(crate) fn outside(
        &self,
        covered: impl Fn(u64, u64) -> u64,
        parts: &[(u64, u64, Option<u32>)],
    ) -> u64 {
        let rest = |range: &Range| {
            let inside = range.within(parts).map(|(_, bytes)| bytes).fold(0, u64::saturating_add);
            let covered = covered(range.start, range.end);
            range.resident.saturating_sub(covered).saturating_sub(inside)
        };
        self.0.iter().map(rest).fold(0, u64::saturating_add)
    }
}

/// Ranges with the bytes of the live blocks in each, by root heap.
pub(super) struct LiveRanges<'a> {
    pub(super) ranges: &'a [Range],
    pub(super) live: Vec<[u64; HEAPS]>,
}

impl<'a> LiveRanges<'a> {
    pub(super) fn new(ranges: &'a Ranges) -> Self {
        Self { ranges: &ranges.0, live: vec![[0; HEAPS]; ranges.0.len()] }
    }

    /// Adds a live block; returns how many of its bytes are in ranges.
    pub(super) fn add(&mut self, heap: u8, address: u64, bytes: u64) -> u64 {
        let end = address.saturating_add(bytes);
        let first = self.ranges.partition_point(|range| range.end <= address);
        let mut all = 0;
        let ranges = self.ranges[first..].iter().zip(&mut self.live[first..]);
        for (range, live) in ranges.take_while(|(range, _)| range.start < end) {
            let inside = range.end.min(end) - range.start.max(address);
            let live = &mut live[usize::from(heap) % HEAPS];
            *live = live.saturating_add(inside).min(MAX_LIVE);
            all += inside;
        }
        all
    }
}
