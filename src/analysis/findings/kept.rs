//! When the allocator keeps what the program has freed: it can only give back whole pages, and a single
//! live block holds the page that it is in.

use super::moments::{EVENTS, TIME};
use super::observer::FindingsObserver;
use super::places::{Clocks, Places};
use super::rules::{is_share, millionths};
use super::thresholds::{KEPT, KEPT_NS, MIN_KEPT};
use super::types::{Finding, FindingKind, Place, WeightOf};
use crate::analysis::analyzer::Analyzer;
use crate::analysis::hash::IntMap;
use crate::analysis::report::{Calls, Report};

/// The bytes of a page, as a power of two.
const PAGE_SHIFT: u32 = 12;
const PAGE: u64 = 1 << PAGE_SHIFT;
/// The blocks of one place lie between what is kept if they are in at least this share of its pages, in percent.
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

/// The finding of what the allocator keeps, if that is much of the resident memory.
pub(super) fn find(
    analyzer: &Analyzer<FindingsObserver>,
    (report, calls): (&Report, &Calls<'_>),
    places: &Places,
) -> Option<Finding> {
    let rss = report.rss.as_ref()?;
    let end = rss.end.as_ref()?;
    let resident_bytes = end.rss_bytes();
    let freed = rss.freed_bytes()?;
    // What was live until a short time ago is not kept: the program may need it again, or ends.
    let live_bytes = report.totals.live_bytes;
    let kept_bytes = freed.saturating_sub(
        most_live(&places.clocks, report.totals.peak_bytes).saturating_sub(live_bytes),
    );
    if kept_bytes < MIN_KEPT || !is_share(kept_bytes, resident_bytes, KEPT) {
        return None;
    }
    let mut pages = Pages::default();
    for (heap, address, block) in analyzer.live_blocks() {
        if !analyzer.is_mapped_heap(heap) {
            let place = places.place_of.get(block.bucket as usize).copied().flatten();
            pages.add(address, block.size(), place);
        }
    }
    let (beside, by_place) = pages.beside();
    let most = by_place.into_iter().max_by_key(|&(place, pages)| (pages, place));
    let most = most.filter(|(_, pages)| is_share(pages * PAGE, kept_bytes, BETWEEN));
    let seen = most.and_then(|(place, _)| places.all.get(place as usize));
    Some(Finding {
        kind: FindingKind::KeptByMalloc {
            kept_bytes,
            returnable_bytes: kept_bytes.saturating_sub(beside),
            resident_bytes,
            live_bytes,
            blocks: seen.map_or(0, |seen| seen.figures.live_blocks),
            pages: most.map_or(0, |(_, pages)| pages),
        },
        place: seen
            .map_or_else(Place::default, |seen| seen.place(WeightOf::Resident, report, calls)),
        bytes: kept_bytes,
        calls: 0,
        weight: millionths(kept_bytes, resident_bytes),
        weight_of: WeightOf::Resident,
        is_of_sample: places.is_of_sample,
    })
}

/// The most that was live from [`KEPT_NS`] before the end on, or in the second half of a shorter run.
fn most_live(clocks: &Clocks, peak_bytes: u64) -> u64 {
    let since = clocks.end[TIME].saturating_sub(KEPT_NS.min(clocks.end[TIME] / 2));
    let all = || clocks.moments.iter().flatten().zip(clocks.live.iter().flatten());
    // The last moment before that says what was live then.
    let before = all().filter(|(at, _)| at[TIME] <= since).max_by_key(|(at, _)| at[EVENTS]);
    let from = before.map_or(0, |(at, _)| at[EVENTS]);
    let live = all().filter(|(at, _)| at[EVENTS] >= from).map(|(_, live)| *live);
    let peak = (clocks.peak[TIME] >= since).then_some(peak_bytes);
    live.chain(peak).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_live_in_the_second_half_or_ten_seconds_ago_is_not_kept() {
        let most = |times: &[u64], end: u64| {
            let mut clocks = Clocks::default();
            for (event, (time, live)) in (0..).zip(times.iter().zip([50, 80, 20, 30])) {
                clocks.moments[TIME].push([event, *time, 0]);
                clocks.live[TIME].push(live);
            }
            clocks.end[TIME] = end;
            most_live(&clocks, 100)
        };
        let seconds = 1_000_000_000;
        assert_eq!(most(&[0, 1, 2, 3], 4), 30);
        // The moment in the middle is the last one of the first half.
        assert_eq!(most(&[0, 2, 3, 4], 4), 80);
        assert_eq!(most(&[0, 1, 4, 5], 5), 80);
        assert_eq!(most(&[0, 80 * seconds, 89 * seconds, 95 * seconds], 100 * seconds), 30);
        assert_eq!(most(&[0, 85 * seconds, 91 * seconds, 95 * seconds], 100 * seconds), 80);
        // The peak is not at a moment.
        assert_eq!(most(&[], 0), 100);
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
