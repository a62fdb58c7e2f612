//! When the allocator keeps what the program has freed: it can only give back whole pages, and a single
//! live block holds the page that it is in.

use super::observer::FindingsObserver;
use super::rules::{Found, bytes, count, time};
use super::sets::Sets;
use super::shutdown::{LastFreed, Located};
use super::thresholds::{KEPT, MIN_KEPT, is_share};
use crate::analyzer::Analyzer;
use crate::hash::IntMap;
use memledger_document::{FigureSource, FindingKind, Report, ResidentMemory, WeightOf};

/// The bytes of a page, as a power of two.
const PAGE_SHIFT: u32 = 12;
const PAGE: u64 = 1 << PAGE_SHIFT;
/// The blocks of one place lie between what is kept if they are in at least this share of its pages, in
/// percent.
const BETWEEN: u64 = 10;
/// What the allocator keeps was freed before the last quarter of the run, which is at least and at most this
/// long, or the last third of a shorter run; or in the first half of the events of the run. Where no blocks
/// lie between, it is the last half of a shorter run: nothing else says that it is kept for long.
const KEPT_NS: [u64; 2] = [2_000_000_000, 10_000_000_000];
const THIRD: u64 = 3;
const HALF: u64 = 2;

/// The bytes that glibc takes for a block of `size`: 8 more, a multiple of 16, at least 32.
fn chunk_of_glibc(size: u64) -> u64 {
    size.saturating_add(8).max(32).checked_next_multiple_of(16).unwrap_or(u64::MAX)
}

/// The pages at the ends of live blocks.
#[derive(Default)]
struct Pages {
    /// Each with the place of a block in it.
    ends: Vec<(u64, Option<usize>)>,
}

impl Pages {
    fn add(&mut self, address: u64, bytes: u64, place: Option<usize>) {
        let end = address.saturating_add(bytes.max(1));
        let (first, last) = (address >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT);
        self.ends.push((first, place));
        if first != last {
            self.ends.push((last, place));
        }
    }

    /// The pages in which each place has blocks.
    fn by_place(mut self) -> IntMap<u64, u64> {
        self.ends.sort_unstable();
        self.ends.dedup();
        let mut by_place = IntMap::default();
        for place in self.ends.iter().filter_map(|(_, place)| *place) {
            *by_place.entry(place as u64).or_default() += 1;
        }
        by_place
    }
}

/// What the allocator keeps at one time.
struct RetainedMemory<'a> {
    memory: ResidentMemory,
    bytes: u64,
    live_bytes: u64,
    /// The blocks that are live beside those of the end.
    freed: &'a [Located],
    before_end_ns: Option<u64>,
    is_estimate: bool,
}

/// What is live at the end, and these blocks, without what the program has mapped itself.
fn allocated(
    analyzer: &Analyzer<FindingsObserver>,
    freed: &[Located],
) -> impl Iterator<Item = Located> {
    let live = analyzer.live_blocks().map(|(heap, address, block)| Located {
        address,
        bytes: block.size(),
        allocated_at_ns: block.allocated_at,
        lived_ns: 0,
        bucket: block.bucket,
        heap,
    });
    let all = live.chain(freed.iter().copied());
    all.filter(|block| !analyzer.is_mapped_heap(block.heap))
}

/// What the allocator keeps at the end, or before the program freed `last`, which ended it.
fn kept<'a>(
    analyzer: &'a Analyzer<FindingsObserver>,
    report: &Report,
    last: Option<&'a LastFreed>,
) -> Option<RetainedMemory<'a>> {
    let rss = report.rss.as_ref()?;
    let live_bytes = report.totals.live_bytes;
    let before = last.and_then(|last| {
        let freed = last.blocks.iter().map(|block| (block.heap, block.address, block.bytes));
        let is_before = |allocated_at: u64| allocated_at <= last.began_ns;
        let live = analyzer.live_blocks().filter(|(.., block)| is_before(block.allocated_at));
        let ended = last.blocks.iter().filter(|block| is_before(block.allocated_at_ns));
        let all = live.map(|(.., block)| block.size()).chain(ended.map(|block| block.bytes));
        Some(RetainedMemory {
            memory: analyzer.resident_before(last.began_ns, freed)?,
            bytes: 0,
            live_bytes: all.fold(0, u64::saturating_add),
            freed: &last.blocks,
            before_end_ns: Some(last.began_ns),
            is_estimate: true,
        })
    });
    let said = rss.freed_bytes();
    let at_end = || {
        let (memory, bytes, is_estimate) = (rss.end.clone()?, said.unwrap_or(0), said.is_none());
        Some(RetainedMemory {
            memory,
            bytes,
            live_bytes,
            freed: &[],
            before_end_ns: None,
            is_estimate,
        })
    };
    let mut kept = before.or_else(at_end)?;
    if kept.is_estimate {
        if rss.allocators.iter().any(|allocator| allocator.allocator != "glibc") {
            return None;
        }
        let rounding = allocated(analyzer, kept.freed).fold(0, |sum: u64, block| {
            sum.saturating_add(chunk_of_glibc(block.bytes) - block.bytes)
        });
        kept.bytes = kept.memory.allocator_bytes.saturating_sub(rounding);
    }
    Some(kept)
}

/// The most that was live a short time before this time: see [`KEPT_NS`]; `half_ns` is that of half of the
/// events.
fn most_live(report: &Report, at_ns: u64, half_ns: u64, part: u64) -> u64 {
    let [least, most] = KEPT_NS;
    let long = (at_ns / 4).max(least.min(at_ns / part)).min(most);
    let since = at_ns.saturating_sub(long).max(half_ns);
    let points = &report.timeline.points;
    let (before, after) = points.split_at(points.partition_point(|point| point.at_ns <= since));
    // The last point before that says what was live then.
    let live = before.last().map(|point| point.live_bytes);
    let peak = (report.totals.peak_bytes_at_ns >= since).then_some(report.totals.peak_bytes);
    let after = after.iter().map(|point| point.peak_bytes);
    after.chain(live).chain(peak).max().unwrap_or(report.totals.peak_bytes)
}

impl Sets<'_> {
    /// The finding of what the allocator keeps, if that is much of the resident memory.
    pub(super) fn fragmentation(&self) -> Option<Found> {
        let (analyzer, report) = (self.analyzer, self.calls.report);
        let last = self.shutdown.map(|_| analyzer.observer().last_freed());
        let kept = kept(analyzer, report, last)?;
        let resident_bytes = kept.memory.rss_bytes();
        // What was live until a short time ago is not kept: the program may need it again, or ends.
        let at_ns = kept.before_end_ns.unwrap_or(report.trace.duration_ns);
        let half_ns = self.clocks.time_of(self.clocks.event_of(at_ns) / 2);
        let kept_in = |part| {
            let recently = most_live(report, at_ns, half_ns, part);
            let kept = kept.bytes.saturating_sub(recently.saturating_sub(kept.live_bytes));
            Some(kept).filter(|&kept| kept >= MIN_KEPT && is_share(kept, resident_bytes, KEPT))
        };
        let mut kept_bytes = kept_in(THIRD)?;
        let mut function_of = vec![None; self.sites.len()];
        for (function, sites) in self.functions.iter().enumerate() {
            sites.iter().for_each(|&site| function_of[site] = Some(function));
        }
        let mut pages = Pages::default();
        let mut between = IntMap::<u64, u64>::default();
        for block in allocated(analyzer, kept.freed) {
            let site = self.site_of(block.bucket as usize);
            let function = site.and_then(|site| function_of[site]);
            pages.add(block.address, chunk_of_glibc(block.bytes), function);
            if let Some(function) = function {
                *between.entry(function as u64).or_default() += 1;
            }
        }
        let most = pages.by_place().into_iter().max_by_key(|&(place, pages)| (pages, place));
        let most = most.filter(|(_, pages)| is_share(pages * PAGE, kept_bytes, BETWEEN));
        if most.is_none() {
            kept_bytes = kept_in(HALF)?;
        }
        let source = if kept.is_estimate { FigureSource::Smaps } else { FigureSource::Allocator };
        let mut figures = vec![
            bytes("kept_bytes", kept_bytes).said_by(source),
            bytes("resident_bytes", resident_bytes).said_by(FigureSource::Smaps),
            bytes("live_bytes", kept.live_bytes),
        ];
        figures.extend(kept.before_end_ns.map(|at| time("before_end_ns", at)));
        if let Some((function, pages)) = most {
            figures.push(count("blocks", between.get(&function).copied().unwrap_or(0)));
            figures.push(count("pages", pages));
        }
        Some(Found {
            kind: FindingKind::Fragmentation,
            sites: most
                .map_or_else(Vec::new, |(function, _)| self.functions[function as usize].clone()),
            figures,
            amount: kept_bytes,
            weight_of: WeightOf::Resident,
            whole: resident_bytes,
            weigh: |site| site.left().bytes,
            ..Found::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::BlockEvent;
    use memledger_document::{TimePoint, made};

    #[test]
    fn what_was_live_a_short_time_ago_is_not_kept() {
        let most_since = |times: &[u64], end: u64, half_ns: u64, part: u64| {
            let mut report = Report::default();
            report.totals.peak_bytes = 100;
            for (time, live) in times.iter().zip([50, 80, 20, 30]) {
                let (at_ns, live_bytes, peak_bytes) = (*time, live, live);
                let point = made!(TimePoint { at_ns, live_bytes, peak_bytes });
                report.timeline.points.push(point);
            }
            most_live(&report, end, half_ns, part)
        };
        let most = |times: &[u64], end: u64| most_since(times, end, 0, 2);
        let seconds = 1_000_000_000;
        assert_eq!(most(&[0, 1, 2, 3], 4), 30);
        // The moment in the middle is the last one of the first half.
        assert_eq!(most(&[0, 2, 3, 4], 4), 80);
        assert_eq!(most(&[0, 1, 4, 5], 5), 80);
        assert_eq!(most(&[0, 80 * seconds, 89 * seconds, 95 * seconds], 100 * seconds), 30);
        assert_eq!(most(&[0, 85 * seconds, 91 * seconds, 95 * seconds], 100 * seconds), 80);
        assert_eq!(most(&[0, 3 * seconds, 5 * seconds, 7 * seconds], 8 * seconds), 30);
        assert_eq!(most(&[0, 5 * seconds, 7 * seconds, 8 * seconds], 8 * seconds), 80);
        // Half of the events came after that.
        assert_eq!(most_since(&[0, 2, 3, 4], 4, 3, 2), 30);
        // The last third of a short run.
        assert_eq!(most_since(&[0, 2, 7, 8], 9, 0, 3), 80);
        assert_eq!(most_since(&[0, 2, 5, 8], 9, 0, 3), 30);
        // Nothing is known.
        assert_eq!(most(&[], 0), 100);
    }

    #[test]
    fn blocks_of_other_frees_were_not_the_last_ones() {
        let mut last = LastFreed::default();
        let event = |address| BlockEvent { address, at_ns: address, bytes: 1, ..block_event() };
        for (address, number) in [(1, 0), (2, 0), (3, 1), (4, 1)] {
            last.add(&event(address), number);
        }
        let addresses: Vec<_> = last.blocks.iter().map(|block| block.address).collect();
        assert_eq!((addresses, last.began_ns), (vec![3, 4], 3));
    }

    fn block_event() -> BlockEvent {
        BlockEvent {
            number: 0,
            at_ns: 0,
            address: 0,
            bytes: 0,
            allocated_at_ns: 0,
            bucket: 0,
            stream: 0,
            heap: 0,
        }
    }

    #[test]
    fn a_page_counts_once_for_each_place() {
        let mut pages = Pages::default();
        pages.add(0x1000, 0x100, Some(1));
        pages.add(0x1800, 0x100, Some(1));
        pages.add(0x1900, 0x100, Some(2));
        // Over three pages, of which the one in the middle has nothing else.
        pages.add(0x3f00, 0x1200, Some(2));
        let mut by_place: Vec<_> = pages.by_place().into_iter().collect();
        by_place.sort_unstable();
        assert_eq!(by_place, [(1, 1), (2, 3)]);
    }
}
