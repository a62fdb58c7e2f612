//! When a part of the peak is needed for a short time only, beside another of about the same sizes: a copy,
//! say, and what it was made from.
//!
//! ```text
//! main ┬ read_entries   ████████████            was freed first
//!      └ clean                 ▂▅████████████   stays
//! ```

use super::moments::{CLOCKS, EVENTS, TIME};
use super::rules::{Found, bytes, count, time};
use super::sets::{Sets, Site};
use super::thresholds::{HALF_OF_PEAK, is_share};
use memledger_document::{FindingKind, WeightOf};
use std::cmp::Reverse;

/// The fewest bytes of each: an interpreter has as much when it has begun, and what it runs is no copy.
const MIN_COPY: u64 = 8 << 20;
/// Their sizes are about the same: the mean of one is at most this many times that of the other.
const LIKE: u64 = 2;
/// A part is gone when no more than this share of what it has at the peak is live, in percent.
const GONE: u64 = 10;
/// The other part stays while it has this share, in percent: longer by at least this part of the run.
const STAYS: u64 = 50;
const LATER: u64 = 20;

/// A part of the peak.
struct Part {
    sites: Vec<usize>,
    bytes: u64,
    blocks: u64,
    /// Its live bytes at moments, in their order.
    live: Vec<([u64; CLOCKS], u64)>,
    /// What is never freed, and when the last of the others was.
    left_bytes: u64,
    last_free_ns: u64,
}

impl Part {
    fn of(sets: &Sets<'_>, sites: Vec<usize>) -> Self {
        let live = sets.live_of(&sites);
        let last = |&site: &usize| sets.sites[site].last_free.map_or(0, |free| free.at_ns);
        Self {
            left_bytes: sets.left(&sites).bytes,
            last_free_ns: sites.iter().map(last).max().unwrap_or(0),
            bytes: sets.sum(&sites, at_peak),
            blocks: sets.sum(&sites, |site| site.figures.live_blocks_at_peak),
            sites,
            live,
        }
    }

    fn mean(&self) -> u64 {
        self.bytes / self.blocks.max(1)
    }

    /// When it has less than this share after the peak, at the latest; the end of the program if it does not.
    fn until(&self, percent: u64, peak: u64, end_ns: u64) -> u64 {
        let after = self.live.iter().filter(|(at, _)| at[EVENTS] > peak && at[TIME] < end_ns);
        let mut less = after.filter(|(_, live)| !is_share(*live, self.bytes, percent));
        let moment = less.next().map_or(end_ns, |(at, _)| at[TIME]);
        // There is no moment where nothing happens.
        if is_share(self.left_bytes, self.bytes, percent) {
            moment
        } else {
            moment.min(self.last_free_ns)
        }
    }
}

fn at_peak(site: &Site) -> u64 {
    site.figures.live_bytes_at_peak
}

impl Sets<'_> {
    /// The finding of the peak, if it is that of two parts of which one was needed for a short time.
    pub(super) fn temporary(&self) -> Option<Found> {
        let held: Vec<_> =
            (0..self.sites.len()).filter(|&site| at_peak(&self.sites[site]) > 0).collect();
        let parts = self.parts(&held, at_peak).into_iter().map(|sites| Part::of(self, sites));
        let is_half = |part: &Part| {
            part.bytes >= MIN_COPY && is_share(part.bytes, self.peak_bytes, HALF_OF_PEAK)
        };
        let mut parts: Vec<_> = parts.filter(is_half).collect();
        parts.sort_unstable_by_key(|part| Reverse(part.bytes));
        let (peak, end_ns) = (self.clocks.peak[EVENTS], self.end_ns());
        let is_alike = |one: &Part, two: &Part| {
            let (small, large) = (one.mean().min(two.mean()), one.mean().max(two.mean()));
            large <= small.saturating_mul(LIKE)
        };
        let is_shorter = |short: &Part, long: &Part| {
            let (gone, stays) = (short.until(GONE, peak, end_ns), long.until(STAYS, peak, end_ns));
            stays.saturating_sub(gone) >= (end_ns / LATER).max(1)
        };
        let pairs = parts.iter().flat_map(|short| parts.iter().map(move |long| (short, long)));
        let mut pairs = pairs.filter(|(short, long)| !std::ptr::eq(*short, *long));
        let (short, long) =
            pairs.find(|(short, long)| is_alike(short, long) && is_shorter(short, long))?;
        let figures = vec![
            count("blocks", short.blocks),
            bytes("bytes", short.bytes),
            time("lived_ns", self.lifetimes(&short.sites).within(95)),
            bytes("other_bytes", long.bytes),
            count("other_blocks", long.blocks),
        ];
        Some(Found {
            kind: FindingKind::Temporary,
            amount: short.bytes,
            whole: self.peak_bytes,
            sites: short.sites.clone(),
            beside: long.sites.clone(),
            figures,
            weight_of: WeightOf::Peak,
            ..Found::default()
        })
    }
}
