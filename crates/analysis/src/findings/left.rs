//! Blocks that are left behind, while most of their siblings end: a leak on the way out after an error, say.
//!
//! Siblings have the whole call stack in common, not only the line: a function through which a program
//! allocates, such as its own `xmalloc`, has blocks of all kinds, and so has a line that many call.

use super::moments::{CLOCKS, EVENTS, LiveSnapshot, TIME};
use super::observer::{FindingsObserver, LIFETIMES, lifetime_end};
use super::places::Places;
use super::thresholds::*;
use crate::analyzer::Analyzer;
use memledger_document::internal::sort;
use memledger_document::{BucketRow, FindingKind, Report};
use std::collections::HashMap;

/// Blocks of one place with one call stack, or of several such.
#[derive(Default)]
pub(super) struct BlockAges {
    live_blocks: u64,
    pub(super) live_bytes: u64,
    freed: u64,
    /// The sum of the times at which the live blocks were allocated.
    live_since: u128,
    lifetimes: [u64; LIFETIMES],
    /// The buckets that they are of.
    buckets: Vec<usize>,
}

impl BlockAges {
    fn add(&mut self, other: Self) {
        self.live_blocks = self.live_blocks.wrapping_add(other.live_blocks);
        self.live_bytes = self.live_bytes.wrapping_add(other.live_bytes);
        self.freed = self.freed.wrapping_add(other.freed);
        self.live_since = self.live_since.wrapping_add(other.live_since);
        let lifetimes = self.lifetimes.iter_mut().zip(other.lifetimes);
        lifetimes.for_each(|(sum, count)| *sum = sum.wrapping_add(count));
        self.buckets.extend(other.buckets);
    }

    fn of(analyzer: &Analyzer<FindingsObserver>, bucket: usize, row: &BucketRow) -> Self {
        let seen = analyzer.observer().buckets.get(bucket);
        let lifetimes = seen.map(|seen| seen.lifetimes.map(u64::from));
        Self {
            live_blocks: row.figures.live_blocks,
            live_bytes: row.figures.live_bytes,
            freed: row.figures.frees,
            live_since: seen.map_or(0, |seen| seen.live_since),
            lifetimes: lifetimes.unwrap_or_default(),
            buckets: vec![bucket],
        }
    }

    /// The end of the class of lifetimes that nearly all freed blocks are in: all in it are younger.
    fn freed_within_ns(&self) -> Option<u64> {
        let freed: u64 = self.lifetimes.iter().sum();
        let mut within = 0;
        let class = self.lifetimes.iter().position(|count| {
            within += count;
            is_share(within, freed, LIFETIME_COVERS)
        })?;
        Some(lifetime_end(class))
    }

    /// The finding, if they are enough and old.
    pub(super) fn kind(&self, places: &Places) -> Option<FindingKind> {
        let freed_within_ns = self.freed_within_ns()?;
        let age = u128::from(places.clocks.end[TIME]) * u128::from(self.live_blocks);
        let age = age.saturating_sub(self.live_since) / u128::from(self.live_blocks.max(1));
        let mean_age_ns = u64::try_from(age).unwrap_or(u64::MAX);
        let is_old = mean_age_ns >= MIN_AGE_NS && mean_age_ns / AGE_FACTOR >= freed_within_ns;
        let is_enough = self.live_blocks >= MIN_LEFT && self.live_bytes >= MIN_BYTES;
        (is_old && is_enough).then_some(FindingKind::LeftBehind {
            blocks: self.live_blocks,
            bytes: self.live_bytes,
            freed: self.freed,
            mean_age_ns,
            freed_within_ns,
        })
    }

    /// Whether both halves of the time in which they were left have some of them, as events and time count:
    /// what a table or a cache keeps comes at once.
    fn come_again(&self, analyzer: &Analyzer<FindingsObserver>, places: &Places) -> bool {
        let all = (0..CLOCKS).flat_map(|clock| analyzer.observer().moments(clock));
        let live = |moment: &LiveSnapshot| {
            let of = |&bucket: &usize| moment.live_bytes(bucket);
            self.buckets.iter().map(of).fold(0, u64::wrapping_add)
        };
        let mut all: Vec<_> = all.map(|moment| (moment.at, live(moment))).collect();
        sort::by_key(&mut all, |(at, _)| at[EVENTS]);
        let is_all = |live| is_share(live, self.live_bytes, NEARLY_ALL_LEFT);
        let last =
            all.iter().find(|(_, live)| is_all(*live)).map_or(places.clocks.end, |(at, _)| *at);
        [EVENTS, TIME].into_iter().all(|clock| {
            let before = all.iter().rev().find(|(at, _)| at[clock] <= last[clock] / 2);
            let live = before.map_or(0, |(_, live)| *live);
            let later = self.live_bytes.saturating_sub(live);
            is_share(live, self.live_bytes, LEFT_BY_HALF)
                && is_share(later, self.live_bytes, LEFT_BY_HALF)
        })
    }
}

/// By place: what is left behind there.
pub(super) fn find(
    analyzer: &Analyzer<FindingsObserver>,
    report: &Report,
    places: &Places,
) -> Vec<Option<BlockAges>> {
    let mut siblings = HashMap::<_, BlockAges>::new();
    let number = |row: &BucketRow| row.stack.unwrap_or(report.by_stack.len());
    // PERF: nothing is live of most stacks.
    let mut has_live = vec![false; report.by_stack.len() + 1];
    for row in report.by_bucket.iter().filter(|row| row.figures.live_blocks > 0) {
        has_live[number(row)] = true;
    }
    for (bucket, (row, place)) in report.by_bucket.iter().zip(&places.place_of).enumerate() {
        let place = place.filter(|&place| {
            let seen = &places.all[place];
            seen.is_named && seen.figures.live_blocks >= MIN_LEFT && has_live[number(row)]
        });
        if let Some(place) = place {
            let left = siblings.entry((place, row.stack)).or_default();
            left.add(BlockAges::of(analyzer, bucket, row));
        }
    }
    let mut found: Vec<Option<BlockAges>> = places.all.iter().map(|_| None).collect();
    for ((place, _), left) in siblings {
        let has_function = places.all[place].has_function();
        let for_each =
            if has_function { FREED_FOR_EACH_LEFT } else { FREED_FOR_EACH_LEFT_IN_SCOPE };
        if left.live_blocks > 0 && left.freed / for_each >= left.live_blocks {
            found[place].get_or_insert_default().add(left);
        }
    }
    for left in &mut found {
        *left = left.take().filter(|left| left.come_again(analyzer, places));
    }
    found
}
