//! When something at a place is a finding, and its figures.

use super::left::BlockAges;
use super::moments::{CLOCKS, EVENTS, TIME};
use super::observer::{FindingsObserver, Grown, lifetime_end, size_bits};
use super::places::{PlaceStats, Places};
use super::thresholds::*;
use crate::analyzer::Analyzer;
use memledger_document::internal::Calls;
use memledger_document::{Finding, FindingKind, GrowsUntil, LiveAt, WeightOf, made};

/// The figures that a finding is weighed with.
#[derive(Clone, Copy, Default)]
struct Weight {
    bytes: u64,
    calls: u64,
    /// In millionths.
    share: u64,
    of: WeightOf,
}

impl Weight {
    /// Both, with the larger share.
    fn or(self, other: Self) -> Self {
        let larger = if self.share >= other.share { self } else { other };
        Self { bytes: self.bytes + other.bytes, calls: self.calls + other.calls, ..larger }
    }
}

/// Adds the ages of live blocks at places that grow up to the end.
pub(super) fn add_ages(places: &mut Places, analyzer: &Analyzer<FindingsObserver>) {
    let grows = |seen| Whole { places: &*places, seen, left: None }.grows_to_end().is_some();
    let mut ages: Vec<_> = places.all.iter().map(|seen| grows(seen).then(Vec::new)).collect();
    if ages.iter().all(Option::is_none) {
        return;
    }
    for (.., block) in analyzer.live_blocks() {
        let place = places.place_of.get(block.bucket as usize).copied().flatten();
        if let Some(ages) = place.and_then(|place| ages[place].as_mut()) {
            ages.push(places.clocks.end[TIME].saturating_sub(block.allocated_at));
        }
    }
    for (seen, ages) in places.all.iter_mut().zip(ages) {
        let Some(mut ages) = ages.filter(|ages| !ages.is_empty()) else { continue };
        let middle = ages.len() / 2;
        let (younger, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        seen.ages = (younger.iter().copied().min().unwrap_or(median), median);
    }
}

/// All findings of places, in no particular order; `left` is what is left behind at each.
pub(super) fn find(calls: &Calls<'_>, places: &Places, left: &[Option<BlockAges>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (seen, left) in places.all.iter().zip(left) {
        let whole = Whole { places, seen, left: left.as_ref() };
        let waits = whole.freed_elsewhere();
        let left = whole.left_behind();
        // What waits grows as well, and so does what is left behind: one finding of the same blocks is
        // enough.
        let is_said = waits.is_some() || left.is_some();
        let grows = if is_said { None } else { whole.only_grows() };
        let kinds = [
            whole.grows(),
            whole.short_lived(),
            whole.shrinks(),
            left,
            grows,
            whole.one_size(),
            whole.rounds_up(),
            waits,
            whole.stays_after_peak(),
        ];
        found.extend(kinds.into_iter().flatten().map(|(kind, weight)| {
            made!(Finding {
                kind,
                place: seen.place(weight.of, calls),
                bytes: weight.bytes,
                calls: weight.calls,
                weight: weight.share,
                weight_of: weight.of,
                is_of_sample: places.is_of_sample,
            })
        }));
    }
    found
}

/// One place within the whole.
struct Whole<'a> {
    places: &'a Places,
    seen: &'a PlaceStats,
    left: Option<&'a BlockAges>,
}

type Found = Option<(FindingKind, Weight)>;

impl Whole<'_> {
    /// Calls of the allocator that could be saved, of all.
    fn calls(&self, calls: u64) -> Weight {
        let whole = &self.places.whole;
        let all = whole.allocations.wrapping_add(whole.reallocations);
        Weight { calls, share: millionths(calls, all), bytes: 0, of: WeightOf::Calls }
    }

    /// Bytes that are held, of the peak.
    fn held(&self, bytes: u64) -> Weight {
        let share = millionths(bytes, self.places.peak_bytes);
        Weight { bytes, share, calls: 0, of: WeightOf::Peak }
    }

    /// Bytes that are copied or given back, of all that was allocated.
    fn allocated(&self, bytes: u64) -> Weight {
        let share = millionths(bytes, self.places.whole.allocated_bytes);
        Weight { bytes, share, calls: 0, of: WeightOf::AllocatedBytes }
    }

    fn grows(&self) -> Found {
        let mut classes = self.seen.ended.grown.clone();
        classes.sort_unstable_by_key(|(bits, _)| *bits);
        let mut all = Grown::default();
        classes.iter().for_each(|(_, grown)| all.add(grown));
        let mut covered = Grown::default();
        let mut reserve_bytes = 0;
        for (bits, grown) in &classes {
            covered.add(grown);
            reserve_bytes = 1_u64.checked_shl(*bits).unwrap_or(u64::MAX).min(all.largest);
            if is_share(covered.blocks, all.blocks, RESERVE_COVERS) {
                break;
            }
        }
        let calls = self.calls(covered.growths);
        let copied = self.allocated(covered.copied_bytes);
        let is_enough = calls.calls >= MIN_CALLS && calls.share >= MIN_WEIGHT
            || copied.bytes >= MIN_BYTES && copied.share >= MIN_WEIGHT;
        let kind = FindingKind::Grows {
            blocks: all.blocks,
            growths: all.growths,
            moved: all.moved,
            copied_bytes: all.copied_bytes,
            largest_bytes: all.largest,
            reserve_bytes,
            peak_millionths: self.held(self.seen.figures.live_bytes_at_peak).share,
        };
        is_enough.then(|| (kind, calls.or(copied)))
    }

    fn short_lived(&self) -> Found {
        let figures = &self.seen.figures;
        // Where a stack is that of reallocations, blocks are freed and none is allocated.
        let (blocks, of) = (figures.short_lived, figures.frees);
        let weight = self.calls(blocks);
        let bytes = Some(self.seen.short_lived_bytes);
        let kind = FindingKind::ShortLived { blocks, of, bytes };
        let is_enough = blocks >= MIN_CALLS && weight.share >= MIN_WEIGHT;
        (is_enough && is_share(blocks, of, SHORT_LIVED)).then_some((kind, weight))
    }

    fn shrinks(&self) -> Found {
        let ended = &self.seen.ended;
        let (blocks, bytes_after) = (ended.shrunk, ended.shrunk_bytes);
        let bytes_before = bytes_after.wrapping_add(ended.given_back);
        let weight = self.allocated(ended.given_back);
        let kind = FindingKind::Shrinks { blocks, bytes_before, bytes_after };
        let is_enough = ended.given_back >= MIN_BYTES && weight.share >= MIN_WEIGHT;
        (is_enough && is_share(ended.given_back, bytes_before, GIVEN_BACK))
            .then_some((kind, weight))
    }

    fn left_behind(&self) -> Found {
        let left = self.left?;
        let weight = self.held(left.live_bytes);
        Some((left.kind(self.places)?, weight)).filter(|_| weight.share >= MIN_WEIGHT)
    }

    fn only_grows(&self) -> Found {
        let (youngest_ns, median_ns) = self.seen.ages;
        let to_end = || Some((self.grows_to_end()?, GrowsUntil::End { youngest_ns, median_ns }));
        let to_peak = || Some((self.grows_to_peak()?, GrowsUntil::Peak));
        let (moments, until) = to_end().or_else(to_peak)?;
        let (first, last) = (moments.first()?.live_bytes, moments.last()?.live_bytes);
        let weight = self.held(last.saturating_sub(first));
        let figures = &self.seen.figures;
        let blocks = match until {
            GrowsUntil::End { .. } => figures.live_blocks,
            GrowsUntil::Peak => figures.live_blocks_at_peak,
        };
        let kind = FindingKind::OnlyGrows { moments, blocks, until };
        (weight.share >= MIN_WEIGHT).then_some((kind, weight))
    }

    /// The moments up to the end, if it has more live bytes at each.
    fn grows_to_end(&self) -> Option<Vec<LiveAt>> {
        self.grows_to(self.places.clocks.end, self.seen.figures.live_bytes)
    }

    /// The same up to the peak, if that was in the second half of the run, and hardly anything of it was
    /// freed before the end.
    fn grows_to_peak(&self) -> Option<Vec<LiveAt>> {
        let (peak, end) = (self.places.clocks.peak, self.places.clocks.end);
        let at_peak = self.seen.figures.live_bytes_at_peak;
        let held = self.held_to_end();
        let is_held = peak[TIME] >= end[TIME] / 2 && is_share(held, at_peak, HELD_TO_END);
        is_held.then(|| self.grows_to(peak, at_peak)).flatten()
    }

    /// What is live before the program begins to end.
    fn held_to_end(&self) -> u64 {
        self.seen.figures.live_bytes.saturating_add(self.seen.freed_at_shutdown.bytes)
    }

    /// What came with the peak and is still there when most of that was freed.
    fn stays_after_peak(&self) -> Found {
        let (clocks, peak) = (&self.places.clocks, self.places.peak_bytes);
        let at_shutdown = self.places.shutdown.map_or(0, |shutdown| shutdown.bytes);
        let live_bytes = self.places.whole.live_bytes.saturating_add(at_shutdown);
        let bytes = self.held_to_end();
        let at_peak = self.seen.figures.live_bytes_at_peak;
        let is_enough = bytes >= MIN_HELD && is_share(bytes, live_bytes, STAYS_OF_LIVE);
        let is_over = clocks.end[TIME] >= MIN_GROWTH_NS
            && clocks.peak[TIME] < clocks.end[TIME] / 2
            && is_share(peak, live_bytes, FALLEN_TO);
        if !is_enough
            || !is_over
            || !is_share(bytes, at_peak, STAYS)
            || !self.comes_with_peak(bytes)
        {
            return None;
        }
        let weight = self.held(bytes);
        let kind = FindingKind::StaysAfterPeak {
            bytes,
            blocks: self.seen.figures.live_blocks + self.seen.freed_at_shutdown.blocks,
            live_bytes,
            peak_bytes: peak,
            peak_at_ns: clocks.peak[TIME],
        };
        (weight.share >= MIN_WEIGHT).then_some((kind, weight))
    }

    /// Whether hardly any of these bytes were there before all else that is live at the peak.
    fn comes_with_peak(&self, bytes: u64) -> bool {
        let rest_at_peak =
            self.places.peak_bytes.saturating_sub(self.seen.figures.live_bytes_at_peak);
        let before = (0..CLOCKS).flat_map(|clock| {
            let whole = self.places.clocks.live[clock].iter();
            self.moments(clock, self.places.clocks.peak).zip(whole)
        });
        let begins = before.filter(|((_, live), whole)| {
            let rest = whole.saturating_sub(*live);
            !is_share(rest, rest_at_peak, TO_COME)
        });
        let last = begins.max_by_key(|((at, _), _)| at[EVENTS]);
        last.is_some_and(|((_, live), _)| !is_share(live, bytes, STAYS))
    }

    /// Moments up to this one, if there are more live bytes at each, by events or by time. Not by allocated
    /// bytes: where little else allocates, all growth is steady by those.
    fn grows_to(&self, end: [u64; CLOCKS], live_bytes: u64) -> Option<Vec<LiveAt>> {
        if live_bytes < MIN_BYTES || end[TIME] < MIN_GROWTH_NS {
            return None;
        }
        // Half of the run by events, and half of it by time.
        let half = self.live_at_half(end, EVENTS).max(self.live_at_half(end, TIME));
        let late = live_bytes.saturating_sub(half);
        let rises = |clock| self.rises(clock, end, live_bytes);
        is_share(late, live_bytes, GROWN_LATE)
            .then(|| [EVENTS, TIME].into_iter().find_map(rises))
            .flatten()
    }

    /// The moments at the distances of a clock, up to the event of one.
    fn moments(
        &self,
        clock: usize,
        end: [u64; CLOCKS],
    ) -> impl Iterator<Item = ([u64; CLOCKS], u64)> {
        let moments = self.places.clocks.moments[clock].iter().zip(&self.seen.live[clock]);
        let moments = moments.map(|(at, live_bytes)| (*at, *live_bytes));
        moments.filter(move |(at, _)| at[EVENTS] < end[EVENTS])
    }

    /// The live bytes at the last moment in the first half of a run, as a clock counts.
    fn live_at_half(&self, end: [u64; CLOCKS], clock: usize) -> u64 {
        let all = (0..CLOCKS).flat_map(|of| self.moments(of, end));
        let half = all.filter(|(at, _)| at[clock] <= end[clock] / 2);
        half.max_by_key(|(at, _)| at[EVENTS]).map_or(0, |(_, live_bytes)| live_bytes)
    }

    /// Moments that are evenly distributed by a clock, if there are more live bytes at each.
    fn rises(&self, clock: usize, end: [u64; CLOCKS], live_bytes: u64) -> Option<Vec<LiveAt>> {
        let taken: Vec<_> = self.moments(clock, end).collect();
        let at = |part: usize| {
            let wanted = u128::from(end[clock]) * part as u128 / MOMENTS as u128;
            taken.iter().min_by_key(|(at, _)| u128::from(at[clock]).abs_diff(wanted)).copied()
        };
        let mut chosen: Vec<_> = (1..MOMENTS).filter_map(at).collect();
        chosen.push((end, live_bytes));
        let is_even = is_even(chosen.iter().map(|&(at, live_bytes)| (at[clock], live_bytes)));
        let moment = |([event, at_ns, _], live_bytes): ([u64; CLOCKS], u64)| {
            made!(LiveAt { event, at_ns, live_bytes })
        };
        let moments: Vec<_> = chosen.into_iter().map(moment).collect();
        let is_long = moments[0].at_ns <= end[TIME] / 2;
        let rises = moments
            .windows(2)
            .all(|pair| pair[0].live_bytes < pair[1].live_bytes && pair[0].event < pair[1].event);
        (moments.len() == MOMENTS && is_long && rises && is_even).then_some(moments)
    }

    /// The size that most blocks have: with their number, and the blocks that are live at the peak.
    fn main_size(&self) -> Option<(u64, u64)> {
        let (size, blocks) = self.seen.size;
        let figures = &self.seen.figures;
        let is_held = figures.live_blocks_at_peak >= MIN_CALLS && figures.reallocations == 0;
        (is_held && is_share(blocks, figures.allocations, ONE_SIZE)).then_some((size, blocks))
    }

    fn one_size(&self) -> Found {
        let (size, blocks) = self.main_size().filter(|(size, _)| *size <= SMALL)?;
        let figures = &self.seen.figures;
        let at_peak = figures.live_blocks_at_peak;
        let overhead_bytes = at_peak.wrapping_mul(chunk_of_glibc(size) - size);
        let weight = self.calls(blocks).or(self.held(overhead_bytes));
        let of = figures.allocations;
        let kind = FindingKind::OneSize { size, blocks, of, at_peak, overhead_bytes };
        let is_short_lived = is_share(figures.short_lived, of, SHORT_LIVED);
        (weight.share >= MIN_WEIGHT && !is_short_lived).then_some((kind, weight))
    }

    fn rounds_up(&self) -> Found {
        let (size, blocks) = self.main_size().filter(|(size, _)| *size >= MIN_ROUNDED)?;
        let figures = &self.seen.figures;
        let (class_below, class) = classes_around(size)?;
        let is_just_above = (size - class_below) * 100 <= class_below * JUST_ABOVE;
        let at_peak = figures.live_blocks_at_peak;
        let weight = self.held(at_peak.wrapping_mul(class - size));
        let of = figures.allocations;
        let kind = FindingKind::RoundsUp { size, class_below, class, blocks, of, at_peak };
        (is_just_above && weight.share >= MIN_WEIGHT).then_some((kind, weight))
    }

    fn freed_elsewhere(&self) -> Found {
        let sum = |own: bool| {
            let rows = self.seen.freed_by.iter().filter(|row| row.is_own == own);
            rows.map(|row| row.blocks).sum::<u64>()
        };
        let blocks = sum(false);
        let of = blocks + sum(true);
        let figures = &self.seen.figures;
        let (waiting, waiting_bytes) = (figures.live_blocks_at_peak, figures.live_bytes_at_peak);
        let median_ns = self.median_lifetime();
        let weight = self.held(waiting_bytes);
        let is_enough =
            waiting_bytes >= MIN_BYTES && is_share(waiting_bytes, self.places.peak_bytes, WAITING);
        let waits = waiting >= MIN_WAITING && blocks >= MIN_WAITING && median_ns >= MIN_WAIT_NS;
        let kind = || FindingKind::FreedElsewhere {
            blocks,
            of,
            waiting,
            waiting_bytes,
            median_ns,
            freed_by: self.seen.freed_by.clone(),
            freed_in: self.seen.freed_in.clone(),
        };
        (is_enough && waits && is_share(blocks, of, FREED_BY_OTHERS)).then(|| (kind(), weight))
    }

    /// Half of the freed blocks lived at least this long.
    fn median_lifetime(&self) -> u64 {
        let freed: u64 = self.seen.lifetimes.iter().sum();
        let mut within = 0;
        let median = self.seen.lifetimes.iter().position(|count| {
            within += count;
            within * 2 > freed
        });
        median.and_then(|class| class.checked_sub(1)).map_or(0, lifetime_end)
    }
}

/// Whether all parts of a growth are about as steep as the whole: `moments` are what a clock says, and the
/// live bytes then.
fn is_even(moments: impl Iterator<Item = (u64, u64)>) -> bool {
    let moments: Vec<_> = moments.collect();
    let steepness = |(from, before): (u64, u64), (to, after): (u64, u64)| {
        let (passed, came) = (to.saturating_sub(from), after.saturating_sub(before));
        (u128::from(came), u128::from(passed))
    };
    let [first, .., last] = &moments[..] else { return false };
    let (all_came, all_passed) = steepness(*first, *last);
    moments.windows(2).all(|pair| {
        let (came, passed) = steepness(pair[0], pair[1]);
        let (part, whole) = (came * all_passed, all_came * passed);
        part.saturating_mul(STEADY) >= whole && part <= whole.saturating_mul(STEADY)
    })
}

/// The size classes around a size that is none, if each doubling has four.
fn classes_around(size: u64) -> Option<(u64, u64)> {
    let doubled = 1_u64.checked_shl(size_bits(size))?;
    let step = doubled / 8;
    let above = size.checked_next_multiple_of(step.max(1))?;
    (above > size).then(|| (above - step, above))
}
