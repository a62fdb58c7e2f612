//! When something at a place is a finding, and its figures.

use super::observer::{Grown, lifetime_end, size_bits};
use super::places::{Places, Seen};
use super::thresholds::*;
use super::types::{Finding, FindingKind, LiveAt, WeightOf};
use crate::analysis::report::Report;

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

/// All findings, in no particular order.
pub(super) fn find(report: &Report, places: &Places) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut events = report.trace.events;
    for seen in &places.all {
        events = events.max(seen.moments.last().map_or(0, |moment| moment.event));
    }
    let end = LiveAt { event: events, at_ns: report.trace.duration_ns, live_bytes: 0 };
    for seen in &places.all {
        let whole = Whole { places, seen, end };
        let kinds = [
            whole.grows(),
            whole.short_lived(),
            whole.shrinks(),
            whole.left_behind(),
            whole.only_grows(),
            whole.one_size(),
            whole.rounds_up(),
            whole.freed_elsewhere(),
        ];
        found.extend(kinds.into_iter().flatten().map(|(kind, weight)| Finding {
            kind,
            place: seen.place.clone(),
            bytes: weight.bytes,
            calls: weight.calls,
            weight: weight.share,
            weight_of: weight.of,
            is_of_sample: places.is_of_sample,
        }));
    }
    found
}

/// `part` of `whole` in millionths.
pub(super) fn millionths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Whether `part` is at least `percent` of `whole`, and not nothing.
pub(super) fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// One place within the whole.
struct Whole<'a> {
    places: &'a Places,
    seen: &'a Seen,
    end: LiveAt,
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
        let figures = &self.seen.figures;
        let (blocks, bytes) = (figures.live_blocks, figures.live_bytes);
        let has_stack = self.seen.place.function.is_some();
        let for_each = if has_stack { FREED_FOR_EACH_LEFT } else { FREED_FOR_EACH_LEFT_IN_SCOPE };
        if !self.seen.is_named || blocks < MIN_LEFT || figures.frees / for_each < blocks {
            return None;
        }
        let freed: u64 = self.seen.lifetimes.iter().sum();
        let mut within = 0;
        let class = self.seen.lifetimes.iter().position(|count| {
            within += count;
            is_share(within, freed, LIFETIME_COVERS)
        })?;
        // The end of the class: all in it are younger.
        let freed_within_ns = lifetime_end(class);
        let age = u128::from(self.end.at_ns) * u128::from(blocks);
        let age = age.saturating_sub(self.seen.live_since) / u128::from(blocks);
        let mean_age_ns = u64::try_from(age).unwrap_or(u64::MAX);
        let is_old = mean_age_ns / AGE_FACTOR >= freed_within_ns;
        let freed = figures.frees;
        let kind = FindingKind::LeftBehind { blocks, bytes, freed, mean_age_ns, freed_within_ns };
        is_old.then(|| (kind, self.held(bytes)))
    }

    fn only_grows(&self) -> Found {
        let end = LiveAt { live_bytes: self.seen.figures.live_bytes, ..self.end };
        let taken = &self.seen.moments;
        if taken.is_empty() || end.live_bytes < MIN_BYTES {
            return None;
        }
        let at = |part: usize| {
            let event = u128::from(end.event) * part as u128 / MOMENTS as u128;
            taken.iter().min_by_key(|moment| u128::from(moment.event).abs_diff(event))
        };
        let mut moments: Vec<_> = (1..MOMENTS).filter_map(at).copied().collect();
        moments.push(end);
        let rises = moments
            .windows(2)
            .all(|pair| pair[0].live_bytes < pair[1].live_bytes && pair[0].event < pair[1].event);
        // Half of the run by events, and half of it by time.
        let half = moments[MOMENTS / 2 - 1].live_bytes;
        let in_time = taken.iter().take_while(|moment| moment.at_ns <= end.at_ns / 2);
        let half = half.max(in_time.last().map_or(0, |moment| moment.live_bytes));
        let late = end.live_bytes.saturating_sub(half);
        let weight = self.held(end.live_bytes.saturating_sub(moments[0].live_bytes));
        let is_enough = rises && weight.share >= MIN_WEIGHT;
        let blocks = self.seen.figures.live_blocks;
        (is_enough && is_share(late, end.live_bytes, GROWN_LATE))
            .then_some((FindingKind::OnlyGrows { moments, blocks }, weight))
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
        let (freed_by, freed_in) = (self.seen.freed_by.clone(), self.seen.freed_in.clone());
        let sum = |own: bool| {
            let rows = freed_by.iter().filter(|row| row.is_own == own);
            rows.map(|row| row.blocks).sum::<u64>()
        };
        let blocks = sum(false);
        let of = blocks + sum(true);
        let weight = self.calls(blocks);
        let kind = FindingKind::FreedElsewhere { blocks, of, freed_by, freed_in };
        let is_enough = blocks >= MIN_CALLS && weight.share >= MIN_WEIGHT;
        (is_enough && is_share(blocks, of, FREED_BY_OTHERS)).then_some((kind, weight))
    }
}

/// The bytes that glibc takes for a block of `size`: 8 more, a multiple of 16, at least 32.
fn chunk_of_glibc(size: u64) -> u64 {
    size.saturating_add(8).next_multiple_of(16).max(32)
}

/// The size classes around a size that is none, if each doubling has four.
fn classes_around(size: u64) -> Option<(u64, u64)> {
    let doubled = 1_u64.checked_shl(size_bits(size))?;
    let step = doubled / 8;
    let above = size.checked_next_multiple_of(step.max(1))?;
    (above > size).then(|| (above - step, above))
}
