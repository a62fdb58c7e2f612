//! What the resident memory of the program was: the figures that the program read, and the live blocks.
//!
//! The blocks in each range of addresses are added up when a report is made, so a reading has the
//! blocks of the moment that is asked about, and the report in the process and the one from the file
//! have the same figures.

mod ranges;

pub(super) use ranges::Ranges;

use super::attribution::RootHeaps;
use super::decode::{MORE_RSS_SUMS, RSS_SUMS};
use super::live_set::HEAPS;
use memledger_document::internal::{FilePages, sort};
use memledger_document::{
    AllocatorStatistics, ResidentHeap, ResidentMapping, ResidentMemory, Rss, RssPoint, made,
};
use ranges::{LiveRanges, MappedHeaps, MappedPages, divide_range};

/// When the timeline has this many points, every two become one.
const MAX_POINTS: usize = 512;
/// At most this many parts of the pages of a reading are kept.
const MAX_FILE_PAGES: usize = 1024;
/// At most this many allocators are kept.
const MAX_ALLOCATORS: usize = 16;

/// RSS is another one than that of an earlier reading if it differs by more than this share of it, and by
/// this many bytes.
const SAME_SHARE: u64 = 8;
const SAME_BYTES: u64 = 1 << 20;
/// What the memory is is kept of readings in the last part of the time so far, which is this share.
const KEPT_SHARE: u64 = 2;
/// What the memory was at the peak is looked at again if RSS is larger by this share of it.
const PEAK_GROWTH: u64 = 100;

/// What the trace says of resident memory so far.
///
/// A reading says which pages are resident. Which blocks are in them is asked when it is wanted: of the
/// blocks that are live then, not of those at the time of the reading.
#[derive(Clone, Debug, Default)]
pub(super) struct RssHistory {
    /// Without what the memory was at the peak and at the end.
    rss: Rss,
    peak: Option<Divided>,
    /// The last readings of what the memory is, in their order.
    readings: Vec<Reading>,
    /// The last reading of the sum.
    sum: RssPoint,
    /// How many readings a point of the timeline has, and how many the last one has so far.
    step: u64,
    in_last: u64,
    mapped: MappedHeaps,
    /// What was anonymous when that was first read, with the live bytes then, and last.
    first: Option<(u64, u64)>,
    anonymous: u64,
    /// The pages of static variables at the last reading, and its cycle.
    pages: Vec<FilePages>,
    pages_at: u64,
}

/// What the memory was at one time: the [`RSS_SUMS`], and ranges of anonymous memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) at_ns: u64,
    pub(super) sums: [u64; RSS_SUMS.len()],
    pub(super) more: [u64; MORE_RSS_SUMS.len()],
    pub(super) ranges: Ranges,
    /// What is resident of mappings that take memory as they are written, by the stack of who has mapped
    /// them; and what of that is in the ranges.
    pub(super) lazy: Vec<(u32, u64)>,
    pub(super) unreserved: u64,
}

/// The parts of the resident memory, and the resident bytes of live blocks by root heap.
type Divided = (ResidentMemory, [u64; HEAPS]);

impl RssHistory {
    /// What a report has of it; `None` if the trace has nothing. `live` gives the heap, addresses and sizes
    /// of the live blocks in a root heap.
    pub(super) fn rss<I: Iterator<Item = (u8, u64, u64)>>(
        &self,
        heaps: &RootHeaps,
        live: impl Fn(usize) -> I,
    ) -> Option<Rss> {
        if self.readings.is_empty() && self.rss.timeline.is_empty() {
            return None;
        }
        let named = |(memory, live): &Divided| {
            let live = (0_u8..).zip(live).filter(|(_, bytes)| **bytes > 0);
            let row = |(heap, &bytes): (u8, &u64)| {
                made!(ResidentHeap { id: heap.into(), name: heaps.name(heap), bytes })
            };
            let mut live_by_heap: Vec<_> = live.map(row).collect();
            sort::by(&mut live_by_heap, |a, b| b.bytes.cmp(&a.bytes).then(a.id.cmp(&b.id)));
            made!(ResidentMemory { live_by_heap, ..memory.clone() })
        };
        let last = self.readings.last();
        let end_bytes = match last {
            Some(last) if last.at_ns >= self.sum.at_ns => last.bytes(),
            _ => self.sum.bytes,
        };
        let end = last.filter(|last| is_same(last.bytes(), end_bytes));
        let end = end.map(|reading| named(&self.divide(reading, live)));
        let peak = self.peak.as_ref().map(named);
        // A peak that is hardly larger was not looked into.
        let is_larger = |end: &ResidentMemory| {
            peak.as_ref().is_none_or(|peak| end.rss_bytes() > peak.rss_bytes())
        };
        let peak = match &end {
            Some(end) if is_larger(end) => Some(end.clone()),
            _ => peak,
        };
        Some(made!(Rss { end_bytes, peak, end, ..self.rss.clone() }))
    }

    /// What the memory was before this time, divided among these blocks; `None` if that was not read, or if
    /// RSS is another one at the time.
    pub(super) fn before<I: Iterator<Item = (u8, u64, u64)>>(
        &self,
        at_ns: u64,
        live: impl Fn(usize) -> I,
    ) -> Option<ResidentMemory> {
        let reading = self.readings.iter().rfind(|reading| reading.at_ns <= at_ns)?;
        let sum = self.rss.timeline.iter().rfind(|sum| sum.at_ns <= at_ns);
        let is_same =
            sum.is_none_or(|sum| sum.at_ns <= reading.at_ns || is_same(reading.bytes(), sum.bytes));
        is_same.then(|| self.divide(reading, live).0)
    }

    /// So much is anonymous, with these live bytes; 0 if the trace does not say.
    pub(super) fn note_anonymous(&mut self, bytes: u64, live: u64) {
        self.anonymous = bytes;
        if bytes > 0 {
            self.first.get_or_insert((bytes, live));
        }
    }

    /// By how much more anonymous memory has risen than live bytes, which are this many now.
    pub(super) fn risen(&self, live: u64) -> Option<u64> {
        let (bytes, live_then) = self.first?;
        Some(self.anonymous.saturating_sub(bytes).saturating_sub(live.saturating_sub(live_then)))
    }

    /// At the reading of that time, these pages of a file were resident.
    pub(super) fn note_pages(&mut self, cycle: u64, pages: FilePages) {
        if std::mem::replace(&mut self.pages_at, cycle) != cycle {
            self.pages.clear();
        }
        if self.pages.len() < MAX_FILE_PAGES {
            self.pages.push(pages);
        }
    }

    /// The resident pages of static variables, where they are many.
    pub(super) fn pages(&self) -> &[FilePages] {
        &self.pages
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
        self.sum = point;
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
        if points.len() == MAX_POINTS && self.in_last == self.step {
            let pairs = points.as_chunks::<2>().0.iter();
            let larger = pairs.map(|[a, b]| if b.bytes > a.bytes { *b } else { *a });
            *points = larger.collect();
            self.step *= 2;
            self.in_last = self.step;
        }
    }

    /// It was read what the memory is. `live` gives the heap, addresses and sizes of the live blocks in a
    /// root heap.
    pub(super) fn read_parts<I: Iterator<Item = (u8, u64, u64)>>(
        &mut self,
        reading: Reading,
        live: impl Fn(usize) -> I,
    ) {
        let bytes = reading.bytes();
        self.rss.most_bytes = self.rss.most_bytes.max(bytes);
        self.rss.private_bytes = reading.more[5];
        let is_peak = self.peak.as_ref().is_none_or(|(peak, _)| {
            bytes > peak.rss_bytes().saturating_add(peak.rss_bytes() / PEAK_GROWTH)
        });
        if is_peak {
            self.peak = Some(self.divide(&reading, live));
        }
        let oldest = reading.at_ns / KEPT_SHARE;
        let old = self.readings.iter().skip(1).take_while(|next| next.at_ns <= oldest).count();
        self.readings.drain(..old);
        self.readings.push(reading);
    }

    /// The parts of the resident memory with these live blocks.
    fn divide<I: Iterator<Item = (u8, u64, u64)>>(
        &self,
        reading: &Reading,
        live: impl Fn(usize) -> I,
    ) -> Divided {
        let mapped = self.mapped;
        let in_heaps = |are_mapped: bool| {
            (0..HEAPS).filter(move |heap| mapped[*heap] == are_mapped).flat_map(&live)
        };
        let mut all = 0_u64;
        let mut pages = MappedPages::new(in_heaps(true));
        let mut ranges = LiveRanges::new(&reading.ranges);
        for (heap, address, bytes) in in_heaps(false) {
            ranges.add(heap, address, bytes);
            pages.note_block(address);
            all = all.saturating_add(bytes);
        }
        for (heap, address, bytes) in pages.without_blocks() {
            // NOTE: pages of files and shared memory are in no range, and may be resident.
            all = all.saturating_add(ranges.add(heap, address, bytes));
        }
        divided(reading, &ranges, &mapped, all)
    }

    /// An allocator has said this of itself.
    pub(super) fn allocator(&mut self, statistics: AllocatorStatistics) {
        let all = &mut self.rss.allocators;
        let is_known = |known: &AllocatorStatistics| known.allocator == statistics.allocator;
        match all.iter().position(is_known) {
            Some(known) => all[known] = statistics,
            None if all.len() < MAX_ALLOCATORS => all.push(statistics),
            None => {}
        }
    }
}

impl Reading {
    /// Notes what of these ranges, and of changed files, is in mappings that take memory as they are written.
    pub(super) fn note_lazy(&mut self, parts: &[(u64, u64, Option<u32>)], changed: &Ranges) {
        let lazy = parts.iter().filter_map(|&(start, end, stack)| Some((start, end, stack?)));
        let lazy: Vec<_> = lazy.collect();
        let mut found = self.ranges.within(&lazy);
        self.unreserved = found.iter().map(|(_, bytes)| bytes).sum();
        found.extend(changed.within(&lazy));
        found.sort_unstable();
        found.dedup_by(|next, sum| {
            let is_same = next.0 == sum.0;
            sum.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        found.retain(|(_, bytes)| *bytes > 0);
        found.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        self.lazy = found;
    }

    /// The pages that the tracker has mapped.
    pub(super) fn tracker_bytes(&self) -> u64 {
        self.sums[1]
    }

    /// Files that are no programs and libraries, with their changed pages.
    pub(super) fn file_bytes(&self) -> u64 {
        self.sums[4].saturating_add(self.more[2])
    }

    /// RSS. The first of the sums is within the others, and those after the third of [`MORE_RSS_SUMS`]
    /// are no parts.
    pub(super) fn bytes(&self) -> u64 {
        let ranges = self.ranges.0.iter().map(|range| range.resident);
        let all = self.sums[1..].iter().chain(&self.more[..3]).copied().chain(ranges);
        all.fold(0, u64::saturating_add)
    }
}

/// Whether RSS has hardly changed.
fn is_same(before: u64, now: u64) -> bool {
    before.abs_diff(now) <= (before / SAME_SHARE).max(SAME_BYTES)
}

/// The parts of the resident memory. `live` is the sum of all live blocks.
fn divided(reading: &Reading, ranges: &LiveRanges<'_>, mapped: &MappedHeaps, live: u64) -> Divided {
    let [own, tracker, stacks, binaries, files, shared, other, mut anonymous] = reading.sums;
    let [ended_stacks, data, changed_files, huge_pages, swap, ..] = reading.more;
    let (mut by_heap, mut allocator) = ([0_u64; HEAPS], 0_u64);
    for (range, blocks) in ranges.ranges.iter().zip(&ranges.live) {
        let rest = divide_range(range.resident, blocks, &mut by_heap, mapped);
        let has_blocks = blocks.iter().zip(mapped).any(|(bytes, mapped)| *bytes > 0 && !mapped);
        let sum = if has_blocks { &mut allocator } else { &mut anonymous };
        *sum = sum.saturating_add(rest);
    }
    let unreserved_bytes = reading.unreserved.min(anonymous);
    anonymous -= unreserved_bytes;
    let live_bytes = by_heap.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    // Where the tracker's blocks are is not in the trace. Its threads mostly have parts of the allocator of
    // their own (arenas), in which no block of the program is.
    let of_anonymous = own.min(anonymous);
    let of_allocator = (own - of_anonymous).min(allocator);
    let memory = made!(ResidentMemory {
        at_ns: reading.at_ns,
        live_bytes,
        live_by_heap: Vec::new(),
        allocator_bytes: allocator - of_allocator,
        anonymous_bytes: anonymous - of_anonymous,
        unreserved_bytes,
        tracker_bytes: tracker.saturating_add(of_anonymous + of_allocator),
        stack_bytes: stacks,
        ended_stack_bytes: ended_stacks,
        binary_bytes: binaries,
        data_bytes: data,
        file_bytes: files,
        changed_file_bytes: changed_files,
        shared_bytes: shared,
        other_bytes: other,
        live_not_resident_bytes: live.saturating_sub(live_bytes),
        huge_page_bytes: huge_pages,
        swapped_bytes: swap,
        tracker_block_bytes: own,
        mapped_by: reading
            .lazy
            .iter()
            .map(|&(stack, bytes)| made!(ResidentMapping { stack: Some(stack as usize), bytes }))
            .collect(),
    });
    (memory, by_heap)
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

    type Blocks<'a> = &'a [(u8, u64, u64)];

    /// A reading of these figures is the last one; what it is with these live blocks.
    fn divide(
        history: &mut RssHistory,
        at_ns: u64,
        sums: [u64; 8],
        ranges: Ranges,
        live: Blocks<'_>,
    ) -> Rss {
        history.read_parts(Reading { at_ns, sums, ranges, ..Reading::default() }, of(live));
        rss_of(history, live)
    }

    fn rss_of(history: &RssHistory, live: Blocks<'_>) -> Rss {
        history.rss(&RootHeaps::default(), of(live)).unwrap()
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
        let end = divide(&mut history, 7, [50, 1, 2, 3, 4, 5, 6, 8], all, &live).end.unwrap();
        let expected = made!(ResidentMemory {
            at_ns: 7,
            live_bytes: 500 + 300 + 100,
            live_by_heap: vec![made!(ResidentHeap { id: 0, name: "System".into(), bytes: 900 })],
            allocator_bytes: 400 + 200,
            anonymous_bytes: 700 + 8 - 50,
            tracker_bytes: 1 + 50,
            stack_bytes: 2,
            binary_bytes: 3,
            file_bytes: 4,
            shared_bytes: 5,
            other_bytes: 6,
            live_not_resident_bytes: 2_910,
            tracker_block_bytes: 50
        });
        assert_eq!(end, expected);
        assert_eq!(end.rss_bytes(), 900 + 500 + 100 + 700 + 1 + 2 + 3 + 4 + 5 + 6 + 8);
        // Less memory, later.
        let less = ranges(&[(1_000, 1_000, 900)]);
        let Rss { peak, end, .. } = divide(&mut history, 9, [0; 8], less, &[]);
        let end = end.unwrap();
        assert_eq!((peak.unwrap(), end.at_ns), (expected, 9));
        assert_eq!((end.anonymous_bytes, end.live_by_heap), (900, vec![]));
    }

    #[test]
    fn stacks_of_ended_threads_and_changed_pages_are_parts() {
        let mut history = RssHistory::default();
        let reading = Reading {
            sums: [0, 0, 1, 2, 3, 4, 5, 6],
            more: [10, 20, 30, 7, 9, 11, 0],
            ..Reading::default()
        };
        assert_eq!(reading.bytes(), 21 + 60);
        history.read_parts(reading, of(&[]));
        let end = rss_of(&history, &[]).end.unwrap();
        assert_eq!([end.ended_stack_bytes, end.data_bytes, end.changed_file_bytes], [10, 20, 30]);
        assert_eq!((end.huge_page_bytes, end.swapped_bytes, end.rss_bytes()), (7, 9, 81));
        assert_eq!(rss_of(&history, &[]).private_bytes, 11);
    }

    #[test]
    fn live_blocks_are_those_of_the_time_that_is_asked_about() {
        const MIB: u64 = 1 << 20;
        let mut history = RssHistory::default();
        let sum = |at_ns, bytes| (made!(RssPoint { at_ns, bytes }), bytes, u64::MAX);
        let reading = |at_ns, resident| Reading {
            at_ns,
            ranges: ranges(&[(0, 100 * MIB, resident)]),
            ..Reading::default()
        };
        let live = [(0, 0, 90 * MIB)];
        history.read_parts(reading(10, 100 * MIB), of(&live));
        let parts = |history: &RssHistory, live| {
            let end = rss_of(history, live).end?;
            Some((end.at_ns, end.live_bytes / MIB, end.allocator_bytes / MIB))
        };
        assert_eq!(parts(&history, &live), Some((10, 90, 10)));
        // Most was freed, and is resident still.
        let left = [(0, 0, 5 * MIB)];
        let (point, most, limit) = sum(20, 98 * MIB);
        history.read(point, most, limit);
        assert_eq!(parts(&history, &left), Some((10, 5, 95)));
        // It was returned to the system, and nothing says what is there now.
        let (point, most, limit) = sum(30, 7 * MIB);
        history.read(point, most, limit);
        assert_eq!((parts(&history, &left), rss_of(&history, &left).end_bytes), (None, 7 * MIB));
        history.read_parts(reading(40, 7 * MIB), of(&left));
        assert_eq!(parts(&history, &left), Some((40, 5, 2)));
        let before = |at_ns| {
            let memory = history.before(at_ns, of(&live))?;
            Some((memory.at_ns, memory.live_bytes / MIB, memory.allocator_bytes / MIB))
        };
        assert_eq!([before(9), before(29), before(35)], [None, Some((10, 90, 10)), None]);
        // Readings of long ago are forgotten, but for the last one before those that are kept.
        for at_ns in 41..1_000 {
            history.read_parts(reading(at_ns, 7 * MIB), of(&left));
        }
        let kept: Vec<_> = history.readings.iter().map(|reading| reading.at_ns).collect();
        assert_eq!((kept[0], kept.len()), (499, 501));
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
        let end = divide(&mut history, 0, [0; 8], all, &live).end.unwrap();
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
            let end = divide(&mut history, 0, [0; 8], all, &live).end.unwrap();
            let heaps = end.live_by_heap.iter().map(|row| (row.id, row.bytes));
            assert_eq!(heaps.collect::<Vec<_>>(), [(heap.into(), 410), (2, 100)]);
            assert_eq!((end.allocator_bytes, end.anonymous_bytes), (690, 0));
        }
    }

    #[test]
    fn the_last_figures_of_an_allocator_count() {
        let mut history = RssHistory::default();
        history.read(RssPoint::default(), 0, 0);
        for number in 0..3 * MAX_ALLOCATORS as u64 {
            let allocator = format!("{}", number % (2 * MAX_ALLOCATORS as u64));
            history.allocator(made!(AllocatorStatistics {
                allocator,
                figures: vec![("free".into(), number)],
            }));
        }
        let all = rss_of(&history, &[]).allocators;
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
            let rss = divide(&mut history, u64::MAX, [u64::MAX; 8], all.clone(), &live);
            assert_eq!(rss.end.unwrap().rss_bytes(), u64::MAX);
        }
    }

    #[test]
    fn the_timeline_is_short_and_has_the_largest() {
        let mut history = RssHistory::default();
        for at in 0..100_000 {
            let bytes = if at == 77_777 { 10_000_000 } else { at };
            history.read(made!(RssPoint { at_ns: at, bytes }), 0, u64::MAX - at % 2);
        }
        let rss = rss_of(&history, &[]);
        assert!((MAX_POINTS / 2 - 1..=MAX_POINTS).contains(&rss.timeline.len()));
        assert!(rss.timeline.contains(&made!(RssPoint { at_ns: 77_777, bytes: 10_000_000 })));
        assert!(rss.timeline.is_sorted_by_key(|point| point.at_ns));
        assert_eq!(rss.timeline.last(), Some(&made!(RssPoint { at_ns: 99_999, bytes: 99_999 })));
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
            let end = divide(&mut history, 0, [0; 8], ranges(&all), &blocks).end.unwrap();
            prop_assert_eq!([end.live_bytes, end.allocator_bytes, end.anonymous_bytes], expected);
        }
    }
}
