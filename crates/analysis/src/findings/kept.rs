//! When the allocator keeps what the program has freed: it can only give back whole pages, and a single
//! live block holds the page that it is in.

use super::moments::{EVENTS, TIME};
use super::observer::FindingsObserver;
use super::places::{Clocks, Places};
use super::shutdown::{LastFreed, Located};
use super::thresholds::{KEPT, KEPT_NS, MIN_KEPT, chunk_of_glibc, is_share, millionths};
use crate::analyzer::Analyzer;
use crate::hash::IntMap;
use memledger_document::internal::Calls;
use memledger_document::{
    Finding, FindingKind, Place, Report, ResidentMemory, Totals, WeightOf, made,
};

/// The bytes of a page, as a power of two.
const PAGE_SHIFT: u32 = 12;
const PAGE: u64 = 1 << PAGE_SHIFT;
/// The blocks of one place lie between what is kept if they are in at least this share of its pages, in
/// percent.
const BETWEEN: u64 = 20;

/// The pages at the ends of live blocks.
#[derive(Default)]
struct Pages {
    /// Each with the place of a block in it.
    ends: Vec<(u64, Option<usize>)>,
    /// The bytes of blocks in them.
    bytes: u64,
}

impl Pages {
    fn add(&mut self, address: u64, bytes: u64, place: Option<usize>) {
        let end = address.saturating_add(bytes.max(1));
        let (first, last) = (address >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT);
        self.ends.push((first, place));
        if first == last {
            self.bytes += bytes;
        } else {
            self.ends.push((last, place));
            self.bytes += ((first + 1) << PAGE_SHIFT) - address + (end - (last << PAGE_SHIFT));
        }
    }

    /// What they have beside the blocks, and the pages in which each place has blocks.
    fn beside(mut self) -> (u64, IntMap<u64, u64>) {
        self.ends.sort_unstable();
        self.ends.dedup();
        let mut by_place = IntMap::default();
        for place in self.ends.iter().filter_map(|(_, place)| *place) {
            *by_place.entry(place as u64).or_default() += 1;
        }
        self.ends.dedup_by_key(|(page, _)| *page);
        let all = self.ends.len() as u64 * PAGE;
        (all.saturating_sub(self.bytes), by_place)
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
    let Totals { live_bytes, peak_bytes, .. } = report.totals;
    let before = last.and_then(|last| {
        let freed = last.blocks.iter().map(|block| (block.heap, block.address, block.bytes));
        Some(RetainedMemory {
            memory: analyzer.resident_before(last.began_ns, freed.clone())?,
            bytes: 0,
            live_bytes: freed.fold(live_bytes, |sum, (.., bytes)| sum.saturating_add(bytes)),
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
        let beside = kept.memory.allocator_bytes.saturating_sub(rounding);
        kept.bytes = beside.min(peak_bytes.saturating_sub(kept.live_bytes));
    }
    Some(kept)
}

/// The most that was live a short time before this time: see [`KEPT_NS`].
fn most_live(clocks: &Clocks, peak_bytes: u64, at_ns: u64) -> u64 {
    let [least, most] = KEPT_NS;
    let since = at_ns.saturating_sub((at_ns / 4).max(least.min(at_ns / 2)).min(most));
    let all = || clocks.moments.iter().flatten().zip(clocks.live.iter().flatten());
    // The last moment before that says what was live then.
    let before = all().filter(|(at, _)| at[TIME] <= since).max_by_key(|(at, _)| at[EVENTS]);
    let from = before.map_or(0, |(at, _)| at[EVENTS]);
    let live = all().filter(|(at, _)| at[EVENTS] >= from).map(|(_, live)| *live);
    let peak = (clocks.peak[TIME] >= since).then_some(peak_bytes);
    live.chain(peak).max().unwrap_or(0)
}

/// The finding of what the allocator keeps, if that is much of the resident memory.
pub(super) fn find(
    analyzer: &Analyzer<FindingsObserver>,
    calls: &Calls<'_>,
    places: &Places,
) -> Option<Finding> {
    let report = calls.report;
    let last = places.shutdown.map(|_| analyzer.observer().last_freed());
    let kept = kept(analyzer, report, last)?;
    let resident_bytes = kept.memory.rss_bytes();
    // What was live until a short time ago is not kept: the program may need it again, or ends.
    let at_ns = kept.before_end_ns.unwrap_or(report.trace.duration_ns);
    let recently = most_live(&places.clocks, report.totals.peak_bytes, at_ns);
    let kept_bytes = kept.bytes.saturating_sub(recently.saturating_sub(kept.live_bytes));
    if kept_bytes < MIN_KEPT || !is_share(kept_bytes, resident_bytes, KEPT) {
        return None;
    }
    let mut pages = Pages::default();
    let mut blocks = IntMap::<u64, u64>::default();
    for block in allocated(analyzer, kept.freed) {
        let place = places.place_of.get(block.bucket as usize).copied().flatten();
        pages.add(block.address, chunk_of_glibc(block.bytes), place);
        if let Some(place) = place {
            *blocks.entry(place as u64).or_default() += 1;
        }
    }
    let (beside, by_place) = pages.beside();
    let most = by_place.into_iter().max_by_key(|&(place, pages)| (pages, place));
    let most = most.filter(|(_, pages)| is_share(pages * PAGE, kept_bytes, BETWEEN));
    let seen = most.and_then(|(place, _)| places.all.get(place as usize));
    Some(made!(Finding {
        kind: FindingKind::KeptByMalloc {
            kept_bytes,
            returnable_bytes: kept.bytes.saturating_sub(beside).min(kept_bytes),
            resident_bytes,
            live_bytes: kept.live_bytes,
            before_end_ns: kept.before_end_ns,
            is_estimate: kept.is_estimate,
            blocks: most.and_then(|(place, _)| blocks.get(&place).copied()).unwrap_or(0),
            pages: most.map_or(0, |(_, pages)| pages),
        },
        place: seen.map_or_else(Place::default, |seen| seen.place(WeightOf::Resident, calls)),
        bytes: kept_bytes,
        calls: 0,
        weight: millionths(kept_bytes, resident_bytes),
        weight_of: WeightOf::Resident,
        is_of_sample: places.is_of_sample,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::BlockEvent;

    #[test]
    fn what_was_live_a_short_time_ago_is_not_kept() {
        let most = |times: &[u64], end: u64| {
            let mut clocks = Clocks::default();
            for (event, (time, live)) in (0..).zip(times.iter().zip([50, 80, 20, 30])) {
                clocks.moments[TIME].push([event, *time, 0]);
                clocks.live[TIME].push(live);
            }
            clocks.end[TIME] = end;
            most_live(&clocks, 100, end)
        };
        let seconds = 1_000_000_000;
        assert_eq!(most(&[0, 1, 2, 3], 4), 30);
        // The moment in the middle is the last one of the first half.
        assert_eq!(most(&[0, 2, 3, 4], 4), 80);
        assert_eq!(most(&[0, 1, 4, 5], 5), 80);
        assert_eq!(most(&[0, 80 * seconds, 89 * seconds, 95 * seconds], 100 * seconds), 30);
        assert_eq!(most(&[0, 85 * seconds, 91 * seconds, 95 * seconds], 100 * seconds), 80);
        assert_eq!(most(&[0, 3 * seconds, 5 * seconds, 7 * seconds], 8 * seconds), 30);
        assert_eq!(most(&[0, 5 * seconds, 7 * seconds, 8 * seconds], 8 * seconds), 80);
        // The peak is not at a moment.
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
    fn a_page_counts_once_and_what_is_beside_its_blocks() {
        let mut pages = Pages::default();
        pages.add(0x1000, 0x100, Some(1));
        pages.add(0x1800, 0x100, Some(1));
        pages.add(0x1900, 0x100, Some(2));
        // Over three pages, of which the one in the middle has nothing else.
        pages.add(0x3f00, 0x1200, Some(2));
        let (beside, by_place) = pages.beside();
        assert_eq!(beside, (0x1000 - 0x300) + (0x1000 - 0x100) + (0x1000 - 0x100));
        let mut by_place: Vec<_> = by_place.into_iter().collect();
        by_place.sort_unstable();
        assert_eq!(by_place, [(1, 1), (2, 3)]);
    }
}
