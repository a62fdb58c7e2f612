//! What the resident memory of the program was: the figures that the program read, and the live blocks.

use super::decode::RSS_SUMS;
use super::report::{ResidentMemory, Rss, RssPoint};

/// When the timeline has this many points, every two become one.
const MOST_POINTS: usize = 512;

/// What the trace says of resident memory so far.
#[derive(Clone, Debug, Default)]
pub(super) struct RssHistory {
    rss: Rss,
    /// How many readings a point of the timeline has, and how many the last one has so far.
    step: u64,
    in_last: u64,
}

impl RssHistory {
    /// What a report has of it; `None` if the trace has nothing.
    pub(super) fn rss(&self) -> Option<&Rss> {
        let has_any = self.rss.end.is_some() || !self.rss.timeline.is_empty();
        has_any.then_some(&self.rss)
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

    /// It was read what the memory is: the [`RSS_SUMS`], and ranges of anonymous memory. `live` are the
    /// addresses and sizes of the live blocks.
    pub(super) fn divide(
        &mut self,
        at_ns: u64,
        sums: [u64; RSS_SUMS.len()],
        mut ranges: Ranges,
        live: impl Iterator<Item = (u64, u64)>,
    ) {
        let mut all = 0_u64;
        for (address, bytes) in live {
            ranges.add(address, bytes);
            all = all.saturating_add(bytes);
        }
        let memory = divided(at_ns, sums, &ranges, all);
        if self.rss.peak.is_none_or(|peak| memory.rss_bytes() > peak.rss_bytes()) {
            self.rss.peak = Some(memory);
        }
        self.rss.most_bytes = self.rss.most_bytes.max(memory.rss_bytes());
        self.rss.end = Some(memory);
    }
}

/// The parts of the resident memory. `live` is the sum of all live blocks.
fn divided(
    at_ns: u64,
    [own, tracker, stacks, binaries, files, shared, other, mut anonymous]: [u64; RSS_SUMS.len()],
    ranges: &Ranges,
    live: u64,
) -> ResidentMemory {
    let (mut live_resident, mut allocator) = (0_u64, 0_u64);
    for range in &ranges.0 {
        let of_live = range.live.min(range.resident);
        let rest = range.resident - of_live;
        live_resident = live_resident.saturating_add(of_live);
        let sum = if range.live > 0 { &mut allocator } else { &mut anonymous };
        *sum = sum.saturating_add(rest);
    }
    // Where the tracker's blocks are is not in the trace. Its threads mostly have parts of the allocator of their
    // own (arenas), in which no block of the program is.
    let of_anonymous = own.min(anonymous);
    let of_allocator = (own - of_anonymous).min(allocator);
    ResidentMemory {
        at_ns,
        live_bytes: live_resident,
        allocator_bytes: allocator - of_allocator,
        anonymous_bytes: anonymous - of_anonymous,
        tracker_bytes: tracker.saturating_add(of_anonymous + of_allocator),
        stack_bytes: stacks,
        binary_bytes: binaries,
        file_bytes: files,
        shared_bytes: shared,
        other_bytes: other,
        live_not_resident_bytes: live.saturating_sub(live_resident),
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
    /// The bytes of live blocks in it.
    live: u64,
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
            live: 0,
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        // A trace that is damaged can say anything: each address counts in one range.
        ranges.dedup_by(|next, range| next.start < range.end);
        Self(ranges)
    }

    /// Adds a live block.
    fn add(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let first = self.0.partition_point(|range| range.end <= address);
        for range in self.0[first..].iter_mut().take_while(|range| range.start < end) {
            let inside = range.end.min(end) - range.start.max(address);
            range.live = range.live.saturating_add(inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
        values.into_iter().flat_map(u64::to_le_bytes).collect()
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
        let live = [(1_500, 800), (5_000, 3_000), (50_000, 10)];
        history.divide(7, [50, 1, 2, 3, 4, 5, 6, 8], all, live.into_iter());
        let end = history.rss().unwrap().end.unwrap();
        let expected = ResidentMemory {
            at_ns: 7,
            live_bytes: 500 + 300 + 100,
            allocator_bytes: 400 + 200,
            anonymous_bytes: 700 + 8 - 50,
            tracker_bytes: 1 + 50,
            stack_bytes: 2,
            binary_bytes: 3,
            file_bytes: 4,
            shared_bytes: 5,
            other_bytes: 6,
            live_not_resident_bytes: 2_910,
        };
        assert_eq!(end, expected);
        assert_eq!(end.rss_bytes(), 900 + 500 + 100 + 700 + 1 + 2 + 3 + 4 + 5 + 6 + 8);
        // Less memory, later.
        history.divide(9, [0; 8], ranges(&[(1_000, 1_000, 900)]), std::iter::empty());
        let rss = history.rss().unwrap();
        assert_eq!((rss.peak.unwrap(), rss.end.unwrap().at_ns), (expected, 9));
        assert_eq!(rss.end.unwrap().anonymous_bytes, 900);
    }

    #[test]
    fn a_trace_can_say_anything() {
        let mut history = RssHistory::default();
        let all = ranges(&[(0, u64::MAX, u64::MAX), (5, 5, 5), (u64::MAX, 9, 9)]);
        // Blocks of two root heaps can be at the same addresses.
        let live = [(0, u64::MAX), (1, u64::MAX), (u64::MAX, u64::MAX)];
        history.divide(u64::MAX, [u64::MAX; 8], all, live.into_iter());
        assert_eq!(history.rss().unwrap().end.unwrap().rss_bytes(), u64::MAX);
    }

    #[test]
    fn the_timeline_is_short_and_has_the_largest() {
        let mut history = RssHistory::default();
        for at in 0..100_000 {
            let bytes = if at == 77_777 { 10_000_000 } else { at };
            history.read(RssPoint { at_ns: at, bytes }, 0, u64::MAX - at % 2);
        }
        let rss = history.rss().unwrap();
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
                expected[if live > 0 { 1 } else { 2 }] += resident - of_live;
            }
            let mut history = RssHistory::default();
            history.divide(0, [0; 8], ranges(&all), blocks.into_iter());
            let end = history.rss().unwrap().end.unwrap();
            prop_assert_eq!([end.live_bytes, end.allocator_bytes, end.anonymous_bytes], expected);
        }
    }
}
