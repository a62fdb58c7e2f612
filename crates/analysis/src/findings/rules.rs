//! When sites are a finding: each rule asks for its witness, and returns the sites with their figures.

use super::moments::TIME;
use super::observer::{Grown, Growths};
use super::sets::{Left, Sets, Site};
use super::shutdown::Freed;
use super::thresholds::*;
use crate::observer::Actor;
use memledger_document::internal::is_main;
use memledger_document::{FindingFigure, FindingKind, FreedBy, Place, Unit, WeightOf, made};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a rule has found.
pub(super) struct Found {
    pub(super) kind: FindingKind,
    pub(super) sites: Vec<usize>,
    pub(super) figures: Vec<FindingFigure>,
    /// Bytes that are held, or calls, or bytes that are copied.
    pub(super) amount: u64,
    /// What the amount is a part of.
    pub(super) whole: u64,
    pub(super) weight_of: WeightOf,
    pub(super) freed_by: Vec<FreedBy>,
    /// The sites of the blocks beside which these are temporary.
    pub(super) beside: Vec<usize>,
    /// How long work takes, about, in picoseconds.
    pub(super) work_ps: u64,
    /// What the place is weighed by.
    pub(super) weigh: fn(&Site) -> u64,
    /// Its blocks were allocated after this time.
    pub(super) since_ns: u64,
    /// They are live at the end of the trace, and not only when the program begins to end.
    pub(super) is_to_end: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            kind: FindingKind::default(),
            sites: Vec::new(),
            figures: Vec::new(),
            amount: 0,
            whole: 0,
            weight_of: WeightOf::default(),
            freed_by: Vec::new(),
            beside: Vec::new(),
            work_ps: 0,
            weigh: |site| site.figures.live_bytes_at_peak,
            since_ns: 0,
            is_to_end: false,
        }
    }
}

pub(super) fn count(key: &'static str, value: u64) -> FindingFigure {
    FindingFigure::of_blocks(key, Unit::Count, value)
}

pub(super) fn bytes(key: &'static str, value: u64) -> FindingFigure {
    FindingFigure::of_blocks(key, Unit::Bytes, value)
}

pub(super) fn time(key: &'static str, value: u64) -> FindingFigure {
    FindingFigure::of_blocks(key, Unit::Nanoseconds, value)
}

/// Sites that are one finding so far, and what others must be alike in to join them.
struct Group {
    sites: Vec<usize>,
    /// What is compared.
    like: u64,
}

impl Sets<'_> {
    /// Sites that pass: those of one function together, or those of them that are alike; and then those of
    /// functions that one function calls, if they are. What is left behind by one caller is one finding.
    fn groups(
        &self,
        passes: impl Fn(&Site, bool) -> bool,
        weigh: fn(&Site) -> u64,
        like: impl Fn(&[usize]) -> u64,
        are_alike: bool,
    ) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for sites in self.functions.iter().filter(|sites| self.is_named(sites)) {
            let passes = |site: &Site| passes(site, site.stack.is_some());
            let sites = sites.iter().copied().filter(|&site| passes(&self.sites[site]));
            let each = sites.map(|site| Group { like: like(&[site]), sites: vec![site] });
            groups.extend(joined(each, are_alike));
        }
        loop {
            groups.iter_mut().for_each(|group| group.like = like(&group.sites));
            let before = groups.len();
            let mut by_caller = BTreeMap::<String, Vec<Group>>::new();
            let mut all = Vec::new();
            let places: Vec<_> =
                groups.iter().map(|group| self.place(&group.sites, weigh)).collect();
            let caller = |place: &Place| {
                let caller = place.callers.first().filter(|_| place.shares.is_empty());
                caller.map(|caller| caller.function.clone()).filter(|name| !is_main(name))
            };
            let callers: HashSet<_> = places.iter().filter_map(caller).collect();
            for (group, place) in groups.into_iter().zip(&places) {
                // What a function allocates itself belongs to what it calls.
                let own = place.function.clone().filter(|name| callers.contains(name));
                match own.or_else(|| caller(place)) {
                    Some(name) => by_caller.entry(name).or_default().push(group),
                    None => all.push(group),
                }
            }
            all.extend(by_caller.into_values().flat_map(|groups| joined(groups.into_iter(), true)));
            if all.len() == before {
                return all;
            }
            groups = all;
        }
    }

    /// The share of the peak.
    pub(super) fn of_peak(&self, bytes: u64) -> u64 {
        millionths(bytes, self.peak_bytes)
    }

    fn is_large(&self, bytes: u64) -> bool {
        bytes >= MIN_HELD && is_share(bytes, self.peak_bytes, HELD)
    }

    /// Whether so much work is much of the time that the program ran.
    fn takes_time(&self, ps: u64) -> bool {
        u128::from(ps) * 100 >= u128::from(self.end_ns()) * 1_000 * u128::from(TIME_SHARE)
    }

    fn all_calls(&self) -> u64 {
        self.whole.allocations.saturating_add(self.whole.reallocations)
    }

    /// Blocks that are live, and old, while most with the same call stack were freed.
    pub(super) fn left_behind(&self) -> Vec<Found> {
        let one_in = |left: &Left, freed: u64| (freed + left.blocks) / left.blocks.max(1);
        let passes = |site: &Site, has_function: bool| {
            let for_each =
                if has_function { FREED_FOR_EACH_LEFT } else { FREED_FOR_EACH_LEFT_IN_SCOPE };
            let is_left = |left: &Left, freed| left.blocks > 0 && freed / for_each >= left.blocks;
            is_left(site.left(), site.freed()) || is_left(site.never(), site.freed() + site.ended())
        };
        let like = |sites: &[usize]| one_in(&self.left(sites), self.sum(sites, Site::freed));
        let mut found = Vec::new();
        for Group { sites, .. } in self.groups(passes, |site| site.left().bytes, like, false) {
            let Some((left, is_never)) = self.left_of(&sites) else { continue };
            let freed = self.sum(&sites, Site::freed);
            let end_ns = if is_never { self.clocks.end[TIME] } else { self.end_ns() };
            let (within_ns, age_ns) = (self.lifetimes(&sites).within(95), left.mean_age_ns(end_ns));
            let mut figures = vec![
                count("blocks", left.blocks),
                bytes("bytes", left.bytes),
                time("mean_age_ns", age_ns),
                count("freed", freed),
                time("freed_within_ns", within_ns),
            ];
            let all = |site: &Site| site.freed() + if is_never { site.ended() } else { 0 };
            let of = |site: &Site| *if is_never { site.never() } else { site.left() };
            if is_never {
                figures.push(count("freed_at_end", self.sum(&sites, Site::ended)));
            }
            let ratio = one_in(&left, self.sum(&sites, all));
            if sites.iter().all(|&site| {
                let site = &self.sites[site];
                one_in(&of(site), all(site)) == ratio
            }) {
                figures.push(count("one_in", ratio));
                if self.sites[sites[0]].stack.is_some() {
                    figures.push(count("sites", sites.len() as u64));
                }
            }
            let weigh: fn(&Site) -> u64 =
                if is_never { |site| site.never().bytes } else { |site| site.left().bytes };
            let held = self.held(FindingKind::LeftBehind, sites, left.bytes, figures, weigh);
            found.push(Found { is_to_end: is_never, ..held });
        }
        found
    }

    /// What is left behind of the blocks of these sites: what the program did not free as it ended, though it
    /// freed others of them then, or else what it had when it began to end.
    fn left_of(&self, sites: &[usize]) -> Option<(Left, bool)> {
        let within_ns = self.lifetimes(sites).within(95);
        let is_left = |left: &Left, is_never: bool, factor: u64| {
            let is_much = left.bytes >= MIN_LEFT && self.of_peak(left.bytes) >= LEFT;
            let age_ns = left.mean_age_ns(self.end_ns());
            left.blocks >= MIN_LEFT_BLOCKS
                && is_much
                && age_ns >= MIN_AGE_NS
                && age_ns / factor >= within_ns
                && self.come_again(self.births(sites, is_never))
        };
        let never = self.sum_left(sites, Site::never);
        if self.sum(sites, Site::ended) >= MIN_LEFT_BLOCKS && is_left(&never, true, 1) {
            return Some((never, true));
        }
        let left = self.left(sites);
        is_left(&left, false, AGE_FACTOR).then_some((left, false))
    }

    fn held(
        &self,
        kind: FindingKind,
        sites: Vec<usize>,
        amount: u64,
        figures: Vec<FindingFigure>,
        weigh: fn(&Site) -> u64,
    ) -> Found {
        let whole = self.peak_bytes;
        Found {
            kind,
            sites,
            figures,
            amount,
            whole,
            weight_of: WeightOf::Peak,
            weigh,
            ..Found::default()
        }
    }

    /// Whether both halves of the time in which these came have some of them, as events and time count: what
    /// a table or a cache keeps comes at once. Times and bytes.
    fn come_again(&self, mut births: Vec<(u64, u64)>) -> bool {
        births.sort_unstable();
        let sum = |births: &[(u64, u64)]| {
            births.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
        };
        let all = sum(&births);
        let mut so_far = 0;
        let last = births.iter().find(|(_, bytes)| {
            so_far = bytes.saturating_add(so_far);
            is_share(so_far, all, NEARLY_ALL_LEFT)
        });
        let last = last.map_or(0, |(at_ns, _)| *at_ns);
        let event_of = |at_ns: &u64| self.clocks.event_of(*at_ns);
        let halves: [&dyn Fn(&u64) -> bool; 2] =
            [&|at_ns| *at_ns <= last / 2, &|at_ns| event_of(at_ns) <= event_of(&last) / 2];
        halves.iter().all(|is_first| {
            let first = sum(&births[..births.partition_point(|(at_ns, _)| is_first(at_ns))]);
            is_share(first, all, LEFT_BY_HALF) && is_share(all - first, all, LEFT_BY_HALF)
        })
    }

    /// Blocks that came after the last one of their site was freed, as many as were ever there before.
    pub(super) fn no_longer_freed(&self) -> Vec<Found> {
        let end_ns = self.end_ns();
        let passes = |site: &Site, has_function: bool| {
            let [blocks, bytes] = site.left().since;
            let Some(free) = site.last_free.filter(|_| has_function) else { return false };
            free.frees >= MIN_BLOCKS && blocks >= MIN_BLOCKS && bytes >= free.most_live
        };
        let stopped = |sites: &[usize]| {
            let last = |&site: &usize| self.sites[site].last_free.map_or(0, |free| free.at_ns);
            sites.iter().map(last).max().unwrap_or(0)
        };
        let weigh = |site: &Site| site.left().since[1];
        let mut found = Vec::new();
        for Group { sites, like: at_ns } in self.groups(passes, weigh, stopped, true) {
            let within_ns = self.lifetimes(&sites).within(95);
            let stopped_for = end_ns.saturating_sub(at_ns);
            // What was freed at once has no lifetime that the times of the trace can tell.
            let measured = within_ns.max(self.calls.report.trace.time_resolution_ns);
            let is_over = stopped_for / STOPPED_FOR >= measured;
            if !is_over || stopped_for < MIN_AGE_NS {
                continue;
            }
            let [since_blocks, since_bytes] = self.since(&sites, at_ns);
            if !self.is_large(since_bytes) {
                continue;
            }
            let figures = vec![
                time("at_ns", at_ns),
                count("freed", self.sum(&sites, Site::freed)),
                time("freed_within_ns", within_ns),
                count("blocks", since_blocks),
                bytes("bytes", since_bytes),
            ];
            let kind = FindingKind::NoLongerFreed;
            let held = self.held(kind, sites, since_bytes, figures, weigh);
            found.push(Found { since_ns: at_ns, ..held });
        }
        found
    }

    /// Blocks that other threads free, which hardly allocate such blocks, in the order in which they came.
    pub(super) fn queues(&self) -> Vec<Found> {
        let weigh = |site: &Site| site.figures.live_bytes_at_peak;
        let mut found = Vec::new();
        for sites in self.functions.iter().filter(|sites| self.is_named(sites)) {
            if !self.is_large(self.sum(sites, weigh)) {
                continue;
            }
            let passed = self.passed(sites);
            let sites: Vec<_> = sites
                .iter()
                .filter(|site| passed.is_to_others(**site) && self.is_in_order(**site))
                .copied()
                .collect();
            let bytes_at_peak = self.sum(&sites, weigh);
            let blocks_at_peak = self.sum(&sites, |site| site.figures.live_blocks_at_peak);
            let freed_by = self.freed_by(&passed, &sites);
            let others: u64 = freed_by.iter().filter(|row| !row.is_own).map(|row| row.blocks).sum();
            let is_queue = self.is_large(bytes_at_peak)
                && blocks_at_peak >= MIN_BLOCKS
                && others >= MIN_BLOCKS
                && self.is_one_way(&sites, &freed_by)
                && self.varies(&sites, bytes_at_peak);
            if !is_queue {
                continue;
            }
            let figures = vec![
                count("passed", others),
                count("freed", self.sum(&sites, Site::freed)),
                count("blocks", blocks_at_peak),
                bytes("bytes", bytes_at_peak),
                time("median_ns", self.lifetimes(&sites).within(50)),
            ];
            let found_held = self.held(FindingKind::Queue, sites, bytes_at_peak, figures, weigh);
            found.push(Found { freed_by, ..found_held });
        }
        found
    }

    /// Hardly any block that is live came before the one that was freed last.
    fn is_in_order(&self, site: usize) -> bool {
        let left = self.sites[site].left();
        left.before.saturating_mul(AGAINST) <= left.blocks.max(self.sites[site].freed())
    }

    /// Whether those who free hardly allocate here.
    fn is_one_way(&self, sites: &[usize], freed_by: &[FreedBy]) -> bool {
        let others = freed_by.iter().filter(|row| !row.is_own).map(|row| row.thread);
        let receivers: HashSet<_> = others.collect();
        let report = self.calls.report;
        let (mut by_receivers, mut all) = (0_u64, 0_u64);
        for &site in sites {
            for bucket in self.buckets_of(site) {
                let row = &report.by_bucket[bucket];
                let calls = row.figures.allocations.saturating_add(row.figures.reallocations);
                all = all.saturating_add(calls);
                if receivers.contains(&report.by_thread[row.thread].id) {
                    by_receivers = by_receivers.saturating_add(calls);
                }
            }
        }
        all > 0 && by_receivers.saturating_mul(AGAINST) <= all
    }

    /// Whether the live bytes of the second half of the run are not about the same nearly all the time: those
    /// of a cache that is full are, and those of a channel with a bound until it is emptied at the end.
    fn varies(&self, sites: &[usize], at_peak: u64) -> bool {
        let end_ns = self.end_ns();
        let mut full_ns = 0;
        let mut until_ns = end_ns;
        for (at, live) in self.live_of(sites).iter().rev().filter(|(at, _)| at[TIME] <= end_ns) {
            let since_ns = at[TIME].max(end_ns / 2);
            if is_share(*live, at_peak, FULL) {
                full_ns += until_ns.saturating_sub(since_ns);
            }
            until_ns = since_ns;
        }
        !is_share(full_ns, end_ns - end_ns / 2, FULL_FOR)
    }

    /// Who freed the blocks of these sites, the most first.
    fn freed_by(&self, passed: &Passed, sites: &[usize]) -> Vec<FreedBy> {
        let mut rows = HashMap::<(u32, bool), FreedBy>::new();
        let of: HashSet<_> = sites.iter().collect();
        for ((_, by, is_own), freed) in
            passed.rows.iter().filter(|((site, ..), _)| of.contains(site))
        {
            let (thread, name) = self.analyzer.thread_of(*by);
            let new = || made!(FreedBy { thread, name: name.to_owned(), is_own: *is_own });
            let sum = rows.entry((thread, *is_own)).or_insert_with(new);
            sum.blocks += freed.blocks;
            sum.bytes = sum.bytes.saturating_add(freed.bytes);
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        memledger_document::internal::sort::by_key(&mut rows, |row| {
            (Reverse(row.blocks), row.thread, row.is_own)
        });
        rows
    }

    fn passed(&self, sites: &[usize]) -> Passed {
        let report = self.calls.report;
        let mut passed = Passed::default();
        let of: HashSet<_> = sites.iter().copied().collect();
        for (bucket, by, freed) in self.analyzer.observer().freed() {
            let site = self.site_of(bucket as usize);
            let Some(site) = site.filter(|site| of.contains(site)) else { continue };
            let freed = freed.before(self.shutdown);
            if freed.blocks == 0 {
                continue;
            }
            let thread = report.by_bucket[bucket as usize].thread;
            let is_own = report.by_thread[thread].id == self.analyzer.thread_of(by).0;
            let row = passed.rows.entry((site, by, is_own)).or_default();
            row.blocks += freed.blocks;
            row.bytes = row.bytes.saturating_add(freed.bytes);
            passed.by_site.entry(site).or_default()[usize::from(is_own)] += freed.blocks;
        }
        passed
    }

    /// Much more goes through these sites than is ever live there.
    pub(super) fn again_and_again(&self) -> Vec<Found> {
        let all = self.all_calls();
        let is_again = |number: &&usize| {
            let site = &self.sites[**number];
            self.is_named(&[**number])
                && calls(site).saturating_mul(10_000) >= all
                && site.figures.allocated_bytes / AGAIN >= site.most_live.max(1)
        };
        let numbers: Vec<_> = (0..self.sites.len()).collect();
        let sites: Vec<_> = numbers.iter().filter(is_again).copied().collect();
        let all_bytes = self.whole.allocated_bytes;
        let all_ps = work_ps(all, all_bytes);
        let has_calls = |sites: &[usize]| {
            let calls = self.sum(sites, calls);
            calls >= MIN_CALLS && is_share(calls, all, WORK)
        };
        // Few calls can be most of the work: those for large blocks.
        let has_bytes = |sites: &[usize]| {
            let [bytes, ps] = [self.sum(sites, allocated), self.sum(sites, site_ps)];
            let is_much = is_share(bytes, all_bytes, WORK) && is_share(ps, all_ps, WORK);
            is_much && ps >= (2 * work_ps(self.sum(sites, calls), 0)).max(work_ps(MIN_CALLS, 0))
        };
        let is_enough = |sites: &[usize]| {
            (has_calls(sites) || has_bytes(sites)) && self.takes_time(self.sum(sites, site_ps))
        };
        let found = self.divided(sites, site_ps, &is_enough).into_iter().map(|sites| {
            let [calls, bytes_of] = [self.sum(&sites, calls), self.sum(&sites, allocated)];
            let figures = vec![
                count("calls", calls),
                bytes("allocated_bytes", bytes_of),
                bytes("most_live_bytes", self.sum(&sites, |site| site.most_live)),
            ];
            let (amount, whole, weight_of) = match has_calls(&sites) {
                true => (calls, all, WeightOf::Calls),
                false => (bytes_of, all_bytes, WeightOf::AllocatedBytes),
            };
            let (kind, work_ps) = (FindingKind::AgainAndAgain, self.sum(&sites, site_ps));
            let of = Found { kind, sites, figures, amount, whole, ..Found::default() };
            Found { weight_of, work_ps, weigh: site_ps, ..of }
        });
        found.collect()
    }

    /// Blocks that grow step by step.
    pub(super) fn grows_stepwise(&self) -> Vec<Found> {
        let grown = self.grown();
        let named = self.functions.iter().filter(|sites| self.is_named(sites));
        let found = named.filter_map(|sites| {
            let mut sum = Grown::default();
            let sites: Vec<_> =
                sites.iter().copied().filter(|site| grown.contains_key(site)).collect();
            sites.iter().filter_map(|site| grown.get(site)).for_each(|of| sum.sum(of));
            self.growth(sites, &sum.classes())
        });
        found.collect()
    }

    /// The finding of these sites, whose blocks have grown so.
    fn growth(&self, sites: Vec<usize>, classes: &[(u32, Growths)]) -> Option<Found> {
        let mut all = Growths::default();
        classes.iter().for_each(|(_, grown)| all.add(grown));
        let is_work =
            |bytes: u64| bytes >= MIN_HELD && is_share(bytes, self.whole.allocated_bytes, WORK);
        let work_ps = work_ps(all.growths, all.copied_bytes);
        let takes_time = self.takes_time(work_ps);
        let of_calls =
            takes_time && all.growths >= MIN_CALLS && is_share(all.growths, self.all_calls(), WORK);
        let of_bytes = takes_time && all.growths >= MIN_BLOCKS && is_work(all.copied_bytes);
        // Such blocks are much of the peak, and where one moves there are two of it.
        let is_linear = |(_, grown): &(u32, Growths)| {
            grown.grown_bytes / LINEAR >= grown.last_bytes && self.is_large(grown.last_bytes)
        };
        let is_large = is_work(all.grown_bytes) && classes.iter().any(is_linear);
        if !of_calls && !of_bytes && !is_large {
            return None;
        }
        let (mut covered, mut reserve_bytes) = (0, 0);
        for (bits, grown) in classes {
            covered += grown.blocks;
            reserve_bytes = 1_u64.checked_shl(*bits).unwrap_or(u64::MAX).min(all.largest);
            if is_share(covered, all.blocks, RESERVE_COVERS) {
                break;
            }
        }
        let mut figures = vec![
            count("blocks", all.blocks),
            count("growths", all.growths),
            bytes("largest_bytes", all.largest),
            bytes("reserve_bytes", reserve_bytes),
        ];
        if all.blocks > 1 {
            figures.push(count("covered", covered));
        }
        if all.moved > 0 {
            figures.push(count("moved", all.moved));
            figures.push(bytes("copied_bytes", all.copied_bytes));
        }
        let (amount, whole, weight_of) = match of_calls {
            true => (all.growths, self.all_calls(), WeightOf::Calls),
            false => (all.grown_bytes, self.whole.allocated_bytes, WeightOf::AllocatedBytes),
        };
        let (kind, weigh) = (FindingKind::GrowsStepwise, allocated as fn(&Site) -> u64);
        let of = Found { kind, sites, figures, amount, whole, ..Found::default() };
        Some(Found { weight_of, work_ps, weigh, ..of })
    }
}

fn allocated(site: &Site) -> u64 {
    site.figures.allocated_bytes
}

fn calls(site: &Site) -> u64 {
    site.figures.allocations.saturating_add(site.figures.reallocations)
}

fn work_ps(calls: u64, written_bytes: u64) -> u64 {
    calls.saturating_mul(CALL_PS).saturating_add(written_bytes.saturating_mul(BYTE_PS))
}

fn site_ps(site: &Site) -> u64 {
    work_ps(calls(site), allocated(site))
}

/// Joins all, or those that are alike.
fn joined(groups: impl Iterator<Item = Group>, are_alike: bool) -> Vec<Group> {
    let mut joined: Vec<Group> = Vec::new();
    for group in groups {
        let is_same = |other: &&mut Group| !are_alike || is_like(other.like, group.like);
        match joined.iter_mut().find(is_same) {
            Some(other) => {
                other.sites.extend(group.sites);
                other.sites.sort_unstable();
            }
            None => joined.push(group),
        }
    }
    joined
}

/// Whether two are about the same: by a tenth of the larger one.
fn is_like(one: u64, other: u64) -> bool {
    one.abs_diff(other).saturating_mul(10) <= one.max(other)
}

/// Who freed the blocks of which site.
#[derive(Default)]
struct Passed {
    rows: HashMap<(usize, Actor, bool), Freed>,
    /// By site: blocks that other threads freed, and those that their own did.
    by_site: HashMap<usize, [u64; 2]>,
}

impl Passed {
    /// Whether other threads freed most of the site's blocks that were freed.
    fn is_to_others(&self, site: usize) -> bool {
        self.by_site.get(&site).is_some_and(|[others, own]| others > own)
    }
}
