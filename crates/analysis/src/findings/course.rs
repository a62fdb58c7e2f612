//! How the live bytes of the set that has most of the peak went.

use super::moments::{CLOCKS, EVENTS, TIME};
use super::sets::Sets;
use super::thresholds::is_share;
use memledger_document::{Course, PeakBy, Trend, made};

/// What clocks say at a moment, and the live bytes then.
type Moment = ([u64; CLOCKS], u64);

/// The parts of a run; the first of those that are late.
const PARTS: usize = 8;
const LATE_PART: usize = 6;
/// A set has come, and is there, from these shares of what it has at the peak on, in percent.
const COME: u64 = 5;
const THERE: u64 = 90;
/// It rises to the end if it never had this share of its most before three quarters of the run, in percent.
const LATE: u64 = 95;
/// What takes less than this part of the run has no speed.
const JUMP: u128 = 16;

impl Sets<'_> {
    /// The course of a set, whose stacks are those that it has.
    pub(super) fn course(&self, set: &PeakBy) -> Course {
        let has_stacks = !self.calls.report.by_stack.is_empty();
        let is_of = |&site: &usize| {
            let site = &self.sites[site];
            let scope = || Some(self.calls.report.by_bucket[site.first_bucket as usize].scope);
            let row = if has_stacks { site.stack } else { scope() };
            row.is_some_and(|row| set.rows.binary_search(&row).is_ok())
        };
        let sites: Vec<_> = (0..self.sites.len()).filter(is_of).collect();
        let end_ns = self.end_ns();
        let mut live: Vec<_> = self.live_of(&sites);
        // What is freed as the program ends is not.
        live.retain(|(at, _)| self.shutdown.is_none() || at[TIME] < end_ns);
        live.push((self.clocks.peak, set.bytes));
        live.sort_by_key(|(at, _)| at[EVENTS]);
        live.push(([self.clocks.end[EVENTS], end_ns, 0], self.left(&sites).bytes));
        let lifetimes = self.lifetimes(&sites);
        made!(Course {
            size: self.size(&sites),
            since_ns: first(&live, set.bytes, COME),
            freed: lifetimes.blocks(),
            median_ns: lifetimes.within(50),
            trend: trend(&live, end_ns)
        })
    }

    /// The size of all blocks of these sites, if it is one.
    fn size(&self, sites: &[usize]) -> Option<u64> {
        let observer = self.analyzer.observer();
        let has_one = sites.iter().all(|&site| self.sites[site].figures.reallocations == 0);
        let buckets = sites.iter().flat_map(|&site| self.buckets_of(site));
        let mut sizes = buckets.filter_map(|bucket| observer.buckets.get(bucket)?.sizes());
        let [least, largest] = sizes.next()?;
        let is_one = has_one && least == largest && sizes.all(|sizes| sizes == [least, least]);
        is_one.then_some(least)
    }
}

/// Returns when live bytes first reach this share of `bytes`.
fn first(live: &[Moment], bytes: u64, percent: u64) -> u64 {
    let first = live.iter().find(|(_, live)| is_share(*live, bytes, percent));
    first.map_or(0, |(at, _)| at[TIME])
}

/// What live bytes did up to this time, by the most in each part of the run: blocks that come and go make
/// them jump.
fn trend(live: &[Moment], end_ns: u64) -> Trend {
    let mut parts = [0; PARTS];
    let mut before = 0;
    for (part, most) in parts.iter_mut().enumerate() {
        let ends = |part: usize| (u128::from(end_ns) * part as u128 / PARTS as u128) as u64;
        let is_in =
            |at: u64| (at >= ends(part) || part == 0) && (at < ends(part + 1) || part + 1 == PARTS);
        let of = live.iter().filter(|(at, _)| is_in(at[TIME]));
        let of: Vec<_> = of.map(|(_, live)| *live).collect();
        *most = of.iter().copied().max().unwrap_or(before);
        before = of.last().copied().unwrap_or(before);
    }
    let (least, most) =
        (parts.iter().copied().min().unwrap_or(0), parts.iter().copied().max().unwrap_or(0));
    let last = parts[PARTS - 1];
    if !is_share(last, most, THERE) {
        return Trend::Falls(last);
    }
    if is_share(parts[..LATE_PART].iter().copied().max().unwrap_or(0), most, LATE) {
        let until = first(live, most, LATE);
        return if until <= end_ns / 8 { Trend::Flat } else { Trend::RoseUntil(until) };
    }
    // From the first moment with more than at any time before the last part that has hardly more.
    let low = least + (most - least) / 20;
    let part = parts.iter().rposition(|most| *most <= low).unwrap_or(0);
    let from = (u128::from(end_ns) * part as u128 / PARTS as u128) as u64;
    let later = live.iter().find(|(at, live)| at[TIME] >= from && *live > low);
    let since_ns = later.map_or(0, |(at, _)| at[TIME]);
    let ns = u128::from(end_ns.saturating_sub(since_ns)).max(1);
    // It came at once.
    if ns * JUMP < u128::from(end_ns) {
        return Trend::RoseUntil(first(live, most, LATE));
    }
    let bytes_per_s =
        u64::try_from(u128::from(most - low) * 1_000_000_000 / ns).unwrap_or(u64::MAX);
    Trend::Rising { since_ns, bytes_per_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn of(live: &[u64]) -> Trend {
        let end_ns = (live.len() as u64).saturating_sub(1) * S;
        let live: Vec<_> = (0..).zip(live).map(|(at, live)| ([at, at * S, 0], *live)).collect();
        trend(&live, end_ns)
    }

    #[test]
    fn a_trend_is_what_live_bytes_did() {
        assert_eq!(of(&[100; 20]), Trend::Flat);
        assert_eq!(
            of(&[0, 50, 60, 70, 80, 90, 100, 100, 100, 100, 100, 100, 100]),
            Trend::RoseUntil(6 * S)
        );
        let line: Vec<_> = (0..=16).map(|at| at * 10).collect();
        assert_eq!(of(&line), Trend::Rising { since_ns: 2 * S, bytes_per_s: 10 });
        let late: Vec<_> = (0..=32).map(|at: u64| 5 + at.saturating_sub(20) * 10).collect();
        assert_eq!(of(&late), Trend::Rising { since_ns: 21 * S, bytes_per_s: 10 });
        assert_eq!(of(&[0, 100, 100, 100, 100, 50, 10, 3, 3]), Trend::Falls(3));
        let mut at_once = [5; 100];
        at_once[99] = 100;
        assert_eq!(of(&at_once), Trend::RoseUntil(99 * S));
        // What comes and goes.
        let jumps: Vec<_> = (0..=64).map(|at| at % 3 * 50).collect();
        assert_eq!(of(&jumps), Trend::Flat);
    }
}
