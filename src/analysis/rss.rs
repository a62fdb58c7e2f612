//! What the resident memory of the program was: the figures that the program read, and the live blocks.

use super::attribution::RootHeaps;
use super::decode::RSS_SUMS;
use super::live_set::HEAPS;
use super::report::{AllocatorStatistics, ResidentHeap, ResidentMemory, Rss, RssPoint};

/// When the timeline has this many points, every two become one.
const MOST_POINTS: usize = 512;
/// At most this many allocators are kept.
const MOST_ALLOCATORS: usize = 16;

/// More live bytes than that in one range count as that: products of two such numbers, and sums of these, are less than 2^128.
const MOST_LIVE: u64 = 1 << 58;

/// What the trace says of resident memory so far.
#[derive(Clone, Debug, Default)]
pub(super) struct RssHistory {
    /// Without what the memory was at the peak and at the end.
    rss: Rss,
    peak: Option<Divided>,
    end: Option<Divided>,
    /// How many readings a point of the timeline has, and how many the last one has so far.
    step: u64,
    in_last: u64,
    mapped: MappedHeaps,
}

/// Which root heaps have pages that the program has mapped. An allocator may have mapped them, and then has blocks of
/// other heaps in them.
type MappedHeaps = [bool; HEAPS];

/// The parts of the resident memory, and the resident bytes of live blocks by root heap.
type Divided = (ResidentMemory, [u64; HEAPS]);

impl RssHistory {
    /// What a report has of it; `None` if the trace has nothing.
    pub(super) fn rss(&self, heaps: &RootHeaps) -> Option<Rss> {
        if self.end.is_none() && self.rss.timeline.is_empty() {
            return None;
        }
        let named = |divided: &Option<Divided>| {
            let (memory, live) = divided.as_ref()?;
            let live = (0_u8..).zip(live).filter(|(_, bytes)| **bytes > 0);
            let row = |(heap, &bytes): (u8, &u64)| ResidentHeap {
                id: heap.into(),
                name: heaps.name(heap),
                bytes,
            };
            let mut live_by_heap: Vec<_> = live.map(row).collect();
            live_by_heap.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.id.cmp(&b.id)));
            Some(ResidentMemory { live_by_heap, ..memory.clone() })
        };
        Some(Rss { peak: named(&self.peak), end: named(&self.end), ..self.rss.clone() })
    }

    /// The program has mapped addresses in a root heap.
    pub(super) fn note_mapping(&mut self, heap: usize) {
        self.mapped[heap % HEAPS] = true;
    }

    /// Whether the program has mapped addresses in this root heap.
    pub(super) fn is_mapped(&self, heap: u8) -> bool {
        self.mapped[usize::from(heap) % HEAPS]
    }

    /// RSS was read: what it is, was at most, and may be.
    pub(super) fn read(&mut self, point: RssPoint, most: u64, limit: u64) {
        self.rss.most_bytes = self.rss.most_bytes.max(most).max(point.bytes);
        self.rss.limit_bytes = Some(limit).filter(|limit| *limit < u64::MAX);
        let points = &mut self.rss.timeline;
        match points.last_mut() {
            Some(last) if self.in_last < self.step => {
                if last.bytes < point.bytes {
                    *last = point;
                }
                self.in_last += 1;
            }
            _ => {
                points.push(point);
                self.in_last = 1;
                self.step = self.step.max(1);
            }
        }
        if points.len() == MOST_POINTS && self.in_last == self.step {
            let pairs = points.as_chunks::<2>().0.iter();
            let larger = pairs.map(|[a, b]| if b.bytes > a.bytes { *b } else { *a });
            *points = larger.collect();
            self.step *= 2;
            self.in_last = self.step;
        }
    }

    /// It was read what the memory is: the [`RSS_SUMS`], and ranges of anonymous memory. `live` gives the heap,
    /// addresses and sizes of the live blocks in a root heap.
    pub(super) fn divide<I: Iterator<Item = (u8, u64, u64)>>(
        &mut self,
        at_ns: u64,
        sums: [u64; RSS_SUMS.len()],
        mut ranges: Ranges,
        live: impl Fn(usize) -> I,
    ) {
        let mapped = self.mapped;
        let in_heaps = |are_mapped: bool| {
            (0..HEAPS).filter(move |heap| mapped[*heap] == are_mapped).flat_map(&live)
        };
        let mut all = 0_u64;
        let mut pages = MappedPages::new(in_heaps(true));
        for (heap, address, bytes) in in_heaps(false) {
            ranges.add(heap, address, bytes);
            pages.note_block(address);
            all = all.saturating_add(bytes);
        }
        for (heap, address, bytes) in pages.without_blocks() {
            // NOTE: pages of files and shared memory are in no range, and may be resident.
            all = all.saturating_add(ranges.add(heap, address, bytes));
        }
        let divided = divided(at_ns, sums, &ranges, &mapped, all);
        let bytes = divided.0.rss_bytes();
        if self.peak.as_ref().is_none_or(|(peak, _)| bytes > peak.rss_bytes()) {
            self.peak = Some(divided.clone());
        }
        self.rss.most_bytes = self.rss.most_bytes.max(bytes);
        self.end = Some(divided);
    }

    /// An allocator has said this of itself.
    pub(super) fn allocator(&mut self, statistics: AllocatorStatistics) {
        let all = &mut self.rss.allocators;
        let is_known = |known: &AllocatorStatistics| known.allocator == statistics.allocator;
        match all.iter().position(is_known) {
            Some(known) => all[known] = statistics,
            None if all.len() < MOST_ALLOCATORS => all.push(statistics),
            None => {}
        }
    }
}

/// The parts of the resident memory. `live` is the sum of all live blocks.
fn divided(
    at_ns: u64,
    [own, tracker, stacks, binaries, files, shared, other, mut anonymous]: [u64; RSS_SUMS.len()],
    ranges: &Ranges,
    mapped: &MappedHeaps,
    live: u64,
) -> Divided {
    let (mut by_heap, mut allocator) = ([0_u64; HEAPS], 0_u64);
    for range in &ranges.0 {
        let rest = range.divide(&mut by_heap, mapped);
        let has_blocks = range.live.iter().zip(mapped).any(|(bytes, mapped)| *bytes > 0 && !mapped);
        let sum = if has_blocks { &mut allocator } else { &mut anonymous };
        *sum = sum.saturating_add(rest);
    }
    let live_bytes = by_heap.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    // Where the tracker's blocks are is not in the trace. Its threads mostly have parts of the allocator of their
    // own (arenas), in which no block of the program is.
    let of_anonymous = own.min(anonymous);
    let of_allocator = (own - of_anonymous).min(allocator);
    let memory = ResidentMemory {
        at_ns,
        live_bytes,
        live_by_heap: Vec::new(),
        allocator_bytes: allocator - of_allocator,
        anonymous_bytes: anonymous - of_anonymous,
        tracker_bytes: tracker.saturating_add(of_anonymous + of_allocator),
        stack_bytes: stacks,
        binary_bytes: binaries,
        file_bytes: files,
        shared_bytes: shared,
        other_bytes: other,
        live_not_resident_bytes: live.saturating_sub(live_bytes),
        tracker_block_bytes: own,
    };
    (memory, by_heap)
}

/// The pages that the program has mapped: starts, ends, root heaps, and whether other blocks are in them; in the order
/// of their addresses.
struct MappedPages(Vec<(u64, u64, u8, bool)>);

impl MappedPages {
    fn new(pages: impl Iterator<Item = (u8, u64, u64)>) -> Self {
        let pages = pages.map(|(heap, at, bytes)| (at, at.saturating_add(bytes), heap, false));
        let mut pages: Vec<_> = pages.collect();
        pages.sort_unstable();
        Self(pages)
    }

    /// There is a block of another heap at this address.
    fn note_block(&mut self, address: u64) {
        let before = self.0.partition_point(|(start, ..)| *start <= address);
        if let Some((_, end, _, has_blocks)) = self.0[..before].last_mut()
            && address < *end
        {
            *has_blocks = true;
        }
    }

    /// Heaps, addresses and sizes of those in which no other block is: the others are an allocator's.
    fn without_blocks(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        let without = self.0.iter().filter(|(.., has_blocks)| !has_blocks);
        without.map(|&(start, end, heap, _)| (heap, start, end - start))
    }
}

/// Ranges of anonymous memory, in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    resident: u64,
    /// The bytes of live blocks in it, by root heap.
    live: [u64; HEAPS],
}

impl Range {
    /// Adds to `by_heap` what is resident of the live blocks; returns what else is.
    ///
    /// Blocks of allocators are mostly written, and mapped pages often not, so those come first. Of several heaps,
    /// each gets a share in proportion.
    fn divide(&self, by_heap: &mut [u64; HEAPS], mapped: &MappedHeaps) -> u64 {
        let mut left = self.resident;
        for are_mapped in [false, true] {
            let live = self.live.iter().zip(mapped);
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
}

impl Ranges {
    /// The ranges of three arrays of `u64`: starts, sizes, resident bytes. An element that another array lacks is left
    /// out.
    pub(super) fn new(starts: &[u8], sizes: &[u8], resident: &[u8]) -> Self {
        let [starts, sizes, resident] = [starts, sizes, resident]
            .map(|array| array.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        let ranges = starts.zip(sizes).zip(resident);
        let ranges = ranges.map(|((start, size), resident)| Range {
            start,
            end: start.saturating_add(size),
            resident: resident.min(size),
            live: [0; HEAPS],
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        // A trace that is damaged can say anything: each address counts in one range.
        ranges.dedup_by(|next, range| next.start < range.end);
        Self(ranges)
    }

    /// How much is resident, and at least how much of it is outside of what `covered` says of addresses.
    pub(super) fn outside(&self, covered: impl Fn(u64, u64) -> u64) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(all, outside), range| {
            let rest = range.resident.saturating_sub(covered(range.start, range.end));
            (range.resident.saturating_add(all), rest.saturating_add(outside))
        })
    }

    /// Adds a live block; returns how many of its bytes are in ranges.
    fn add(&mut self, heap: u8, address: u64, bytes: u64) -> u64 {
        let end = address.saturating_add(bytes);
        let first = self.0.partition_point(|range| range.end <= address);
        let mut all = 0;
        for range in self.0[first..].iter_mut().take_while(|range| range.start < end) {
            let inside = range.end.min(end) - range.start.max(address);
            let live = &mut range.live[usize::from(heap) % HEAPS];
            *live = live.saturating_add(inside).min(MOST_LIVE);
            all += inside;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
        values.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The blocks that are in a heap.
    fn of(live: &[(u8, u64, u64)]) -> impl Fn(usize) -> std::vec::IntoIter<(u8, u64, u64)> {
        move |heap| {
            let is_in = |block: &(u8, u64, u64)| usize::from(block.0) % HEAPS == heap;
            live.iter().copied().filter(is_in).collect::<Vec<_>>().into_iter()
        }
    }

    fn rss_of(history: &RssHistory) -> Rss {
        history.rss(&RootHeaps::default()).unwrap()
    }

    fn ranges(of: &[(u64, u64, u64)]) -> Ranges {
        let [starts, sizes, resident] = [
            words(of.iter().map(|range| range.0)),
            words(of.iter().map(|range| range.1)),
            words(of.iter().map(|range| range.2)),
        ];
        Ranges::new(&starts, &sizes, &resident)
    }

    #[test]
    fn each_resident_byte_is_of_one_part() {
        let mut history = RssHistory::default();
        // Blocks over two ranges, within one that is hardly resident, and in none.
        let all = ranges(&[
            (1_000, 1_000, 900),
            (2_000, 500, 500),
            (5_000, 4_000, 100),
            (10_000, 700, 700),
        ]);
        let live = [(0, 1_500, 800), (0, 5_000, 3_000), (0, 50_000, 10)];
        history.divide(7, [50, 1, 2, 3, 4, 5, 6, 8], all, of(&live));
        let end = rss_of(&history).end.unwrap();
        let expected = ResidentMemory {
            at_ns: 7,
            live_bytes: 500 + 300 + 100,
            live_by_heap: vec![ResidentHeap { id: 0, name: "System".into(), bytes: 900 }],
            allocator_bytes: 400 + 200,
            anonymous_bytes: 700 + 8 - 50,
            tracker_bytes: 1 + 50,
            stack_bytes: 2,
            binary_bytes: 3,
            file_bytes: 4,
            shared_bytes: 5,
            other_bytes: 6,
            live_not_resident_bytes: 2_910,
            tracker_block_bytes: 50,
        };
        assert_eq!(end, expected);
        assert_eq!(end.rss_bytes(), 900 + 500 + 100 + 700 + 1 + 2 + 3 + 4 + 5 + 6 + 8);
        // Less memory, later.
        history.divide(9, [0; 8], ranges(&[(1_000, 1_000, 900)]), of(&[]));
        let Rss { peak, end, .. } = rss_of(&history);
        let end = end.unwrap();
        assert_eq!((peak.unwrap(), end.at_ns), (expected, 9));
        assert_eq!((end.anonymous_bytes, end.live_by_heap), (900, vec![]));
    }

    #[test]
    fn live_bytes_are_those_of_heaps() {
        let mut history = RssHistory::default();
        history.note_mapping(3);
        let all = ranges(&[
            // Two heaps of allocators, of which not all can be resident, and no pages of a third.
            (1_000, 1_000, 301),
            // Enough of them, and some of the pages beside.
            (3_000, 1_000, 500),
            // Pages alone.
            (5_000, 1_000, 700),
            // An allocator's pages, with blocks in them.
            (10_000, 4_000, 4_000),
        ]);
        let live = [
            (0, 1_000, 400),
            (2, 1_400, 200),
            (3, 1_600, 400),
            (0, 3_000, 100),
            (3, 3_500, 500),
            (3, 5_000, 600),
            (2, 11_000, 50),
            (3, 10_000, 3_000),
            (3, 13_000, 1_000),
            // Pages of a file.
            (3, 90_000, 9_999),
        ];
        history.divide(0, [0; 8], all, of(&live));
        let end = rss_of(&history).end.unwrap();
        let heaps: Vec<_> = end.live_by_heap.iter().map(|heap| (heap.id, heap.bytes)).collect();
        let (rust, c) = (200 + 100, 101 + 50);
        assert_eq!(heaps, [(3, 400 + 600 + 1_000), (0, rust), (2, c)]);
        assert_eq!(end.live_bytes, 2_000 + rust + c);
        assert_eq!((end.allocator_bytes, end.anonymous_bytes), (4_000 - 1_000 - 50, 100));
        assert_eq!(end.live_not_resident_bytes, 1_000 - 301 + 100);
        assert_eq!(end.rss_bytes(), 301 + 500 + 700 + 4_000);
    }

    #[test]
    fn a_heap_without_mappings_has_blocks_of_an_allocator() {
        // As in Unreal's traces, whose programs can number heaps as they like.
        for heap in [3, 4, HEAPS as u8 - 1] {
            let mut history = RssHistory::default();
            history.note_mapping(2);
            let all = ranges(&[(1_000, 1_000, 500), (5_000, 1_000, 700)]);
            let live = [(heap, 1_000, 400), (2, 1_400, 600), (2, 5_000, 1_000), (heap, 5_100, 10)];
            history.divide(0, [0; 8], all, of(&live));
            let end = rss_of(&history).end.unwrap();
            let heaps = end.live_by_heap.iter().map(|row| (row.id, row.bytes));
            assert_eq!(heaps.collect::<Vec<_>>(), [(heap.into(), 410), (2, 100)]);
            assert_eq!((end.allocator_bytes, end.anonymous_bytes), (690, 0));
        }
    }

    #[test]
    fn the_last_figures_of_an_allocator_count() {
        let mut history = RssHistory::default();
        history.read(RssPoint::default(), 0, 0);
        for number in 0..3 * MOST_ALLOCATORS as u64 {
            let allocator = format!("{}", number % (2 * MOST_ALLOCATORS as u64));
            history.allocator(AllocatorStatistics {
                allocator,
                figures: vec![("free".into(), number)],
            });
        }
        let all = rss_of(&history).allocators;
        let figures: Vec<_> = all.iter().map(|allocator| allocator.figures[0].1).collect();
        assert_eq!(figures, (32..48).collect::<Vec<_>>());
    }

    #[test]
    fn a_trace_can_say_anything() {
        let mut history = RssHistory::default();
        history.note_mapping(3);
        let all = ranges(&[(0, u64::MAX, u64::MAX), (5, 5, 5), (u64::MAX, 9, 9)]);
        // Blocks of two root heaps can be at the same addresses.
        for heaps in [[0, 0, 0], [0, 2, 3], [3, 4, 255]] {
            let at = [0, 1, u64::MAX];
            let live: Vec<_> = heaps.into_iter().zip(at).map(|(h, at)| (h, at, u64::MAX)).collect();
            history.divide(u64::MAX, [u64::MAX; 8], all.clone(), of(&live));
            assert_eq!(rss_of(&history).end.unwrap().rss_bytes(), u64::MAX);
        }
    }

    #[test]
    fn the_timeline_is_short_and_has_the_largest() {
        let mut history = RssHistory::default();
        for at in 0..100_000 {
            let bytes = if at == 77_777 { 10_000_000 } else { at };
            history.read(RssPoint { at_ns: at, bytes }, 0, u64::MAX - at % 2);
        }
        let rss = rss_of(&history);
        assert!((MOST_POINTS / 2 - 1..=MOST_POINTS).contains(&rss.timeline.len()));
        assert!(rss.timeline.contains(&RssPoint { at_ns: 77_777, bytes: 10_000_000 }));
        assert!(rss.timeline.is_sorted_by_key(|point| point.at_ns));
        assert_eq!(rss.timeline.last(), Some(&RssPoint { at_ns: 99_999, bytes: 99_999 }));
        assert_eq!((rss.most_bytes, rss.limit_bytes), (10_000_000, Some(u64::MAX - 1)));
    }

    proptest! {
        #[test]
        fn the_parts_are_those_of_a_model_that_has_each_byte(
            sizes in proptest::collection::vec((1_u64..40, 0_u64..10, 0_u64..50), 0..8),
            blocks in proptest::collection::btree_map(0_u64..300, 1_u64..20, 0..20),
            heap in 0_u8..4,
        ) {
            let mut at = 0;
            let all: Vec<_> = sizes
                .iter()
                .map(|&(size, gap, resident)| {
                    let start = at + gap;
                    at = start + size;
                    (start, size, resident.min(size))
                })
                .collect();
            let mut expected = [0_u64; 3];
            for &(start, size, resident) in &all {
                let is_live = |byte: &u64| blocks.iter().filter(|(at, size)| (**at..**at + **size).contains(byte)).count() as u64;
                let live: u64 = (start..start + size).map(|byte| is_live(&byte)).sum();
                let of_live = live.min(resident);
                expected[0] += of_live;
                expected[if live > 0 && heap < 3 { 1 } else { 2 }] += resident - of_live;
            }
            let mut history = RssHistory::default();
            history.note_mapping(3);
            let blocks: Vec<_> = blocks.into_iter().map(|(at, size)| (heap, at, size)).collect();
            history.divide(0, [0; 8], ranges(&all), of(&blocks));
            let end = rss_of(&history).end.unwrap();
            prop_assert_eq!([end.live_bytes, end.allocator_bytes, end.anonymous_bytes], expected);
        }
    }
}
