//! Sets of blocks. A *site* is what blocks have in common: their call stack, or their scope and name where
//! they have none. A finding is about some sites.

use super::ages::Lifetimes;
use super::moments::{CLOCKS, EVENTS, LiveSnapshot, TIME};
use super::observer::{FindingsObserver, Grown, LastFree};
use super::rules::Found;
use super::shutdown::Shutdown;
use crate::analyzer::Analyzer;
use memledger_document::internal::{Calls, sort};
use memledger_document::{
    BlockSet, BucketRow, Figures, FindingKind, Place, Report, SetPosition, StackKind, made,
};
use std::collections::{HashMap, HashSet};

/// All sites, and what was seen of the blocks of each.
pub(super) struct Sets<'a> {
    pub(super) analyzer: &'a Analyzer<FindingsObserver>,
    pub(super) calls: &'a Calls<'a>,
    pub(super) sites: Vec<Site>,
    /// The sites of each function that allocates; of each scope and name where there are no stacks.
    pub(super) functions: Vec<Vec<usize>>,
    /// By bucket: its site, if there are findings of it, and the next bucket of that.
    ///
    /// PERF: short numbers, and no list for each site, because most have one bucket.
    site_of: Vec<u32>,
    next_bucket: Vec<u32>,
    /// All blocks that findings can be of: the whole, or the sample.
    pub(super) whole: Figures,
    pub(super) peak_bytes: u64,
    pub(super) is_of_sample: bool,
    pub(super) clocks: Clocks,
    pub(super) shutdown: Option<Shutdown>,
    /// By site: how long the blocks lived that the program freed as it ended.
    ended: HashMap<usize, Vec<u64>>,
}

/// What clocks say at the moments of the observer.
#[derive(Default)]
pub(super) struct Clocks {
    /// By clock: the moments at its distances.
    pub(super) moments: [Vec<[u64; CLOCKS]>; CLOCKS],
    /// At the peak.
    pub(super) peak: [u64; CLOCKS],
    /// At the end.
    pub(super) end: [u64; CLOCKS],
}

impl Clocks {
    /// The last moment's event that is not after this time.
    pub(super) fn event_of(&self, at_ns: u64) -> u64 {
        let before = |moments: &Vec<[u64; CLOCKS]>| {
            let count = moments.partition_point(|at| at[TIME] <= at_ns);
            moments[..count].last().map_or(0, |at| at[EVENTS])
        };
        self.moments.iter().map(before).max().unwrap_or(0)
    }

    /// When the first moment was that is not before this event.
    pub(super) fn time_of(&self, event: u64) -> u64 {
        let after = |moments: &Vec<[u64; CLOCKS]>| {
            let first = moments.partition_point(|at| at[EVENTS] < event);
            moments.get(first).map_or(self.end[TIME], |at| at[TIME])
        };
        self.moments.iter().map(after).min().unwrap_or(0)
    }

    fn of(analyzer: &Analyzer<FindingsObserver>, report: &Report) -> Self {
        let observer = analyzer.observer();
        let at = |clock| observer.moments(clock).iter().map(|moment| moment.at).collect();
        let moments: [Vec<[u64; CLOCKS]>; CLOCKS] = std::array::from_fn(at);
        let all = || moments.iter().flatten();
        let last = all().map(|at| at[EVENTS]).max().unwrap_or(0);
        let end =
            [report.trace.events.max(last), report.trace.duration_ns, observer.allocated_bytes()];
        // What was allocated up to the peak is known of the moments only.
        let event = analyzer.peak_event();
        let before = all().filter(|at| at[EVENTS] <= event).max_by_key(|at| at[EVENTS]);
        let allocated = before.map_or(0, |[.., allocated]| *allocated);
        Self { moments, peak: [event, report.totals.peak_bytes_at_ns, allocated], end }
    }
}

/// What was seen of the blocks of one site. Blocks that the end of the program has freed count as live.
#[derive(Default)]
pub(super) struct Site {
    pub(super) stack: Option<usize>,
    pub(super) first_bucket: u32,
    pub(super) figures: SiteFigures,
    /// The last block that was freed, and the sums of what its buckets have up to their last ones.
    pub(super) last_free: Option<LastFree>,
    /// PERF: most sites have none.
    left: Option<Box<SiteLeft>>,
    /// At least the most bytes that were live at once.
    pub(super) most_live: u64,
}

/// The blocks of a site that are live when the program begins to end.
#[derive(Default)]
struct SiteLeft {
    all: Left,
    /// Those that the program did not free when it ended; and how many blocks it freed then.
    never: Left,
    ended: u64,
}

impl Site {
    /// How many blocks were freed.
    pub(super) fn freed(&self) -> u64 {
        self.last_free.map_or(0, |free| free.frees)
    }

    pub(super) fn left(&self) -> &Left {
        self.left.as_ref().map_or(&Left::NONE, |left| &left.all)
    }

    /// Those that the program did not free when it ended.
    pub(super) fn never(&self) -> &Left {
        self.left.as_ref().map_or(&Left::NONE, |left| &left.never)
    }

    /// How many blocks the program freed when it ended.
    pub(super) fn ended(&self) -> u64 {
        self.left.as_ref().map_or(0, |left| left.ended)
    }
}

/// In place of a site or a bucket.
const NO_NUMBER: u32 = u32::MAX;

/// What is needed of the figures of a site.
///
/// PERF: a program can have a million sites.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SiteFigures {
    pub(super) allocations: u64,
    pub(super) reallocations: u64,
    pub(super) allocated_bytes: u64,
    pub(super) live_bytes_at_peak: u64,
    pub(super) live_blocks_at_peak: u64,
}

impl SiteFigures {
    fn add(&mut self, of: &Figures) {
        self.allocations = self.allocations.saturating_add(of.allocations);
        self.reallocations = self.reallocations.saturating_add(of.reallocations);
        self.allocated_bytes = self.allocated_bytes.saturating_add(of.allocated_bytes);
        self.live_bytes_at_peak = self.live_bytes_at_peak.saturating_add(of.live_bytes_at_peak);
        self.live_blocks_at_peak = self.live_blocks_at_peak.saturating_add(of.live_blocks_at_peak);
    }
}

/// The blocks of a site that are live.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
    /// The sum of the times at which they were allocated.
    born: u128,
    /// Those that were allocated after the last one was freed.
    pub(super) since: [u64; 2],
    /// How many were there before the one that was freed last.
    pub(super) before: u64,
}

impl Left {
    const NONE: Self = Self { blocks: 0, bytes: 0, born: 0, since: [0; 2], before: 0 };

    fn count(&mut self, bytes: u64, born_ns: u64) {
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.born += u128::from(born_ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.born = self.born.saturating_add(other.born);
        self.since = [0, 1].map(|at| self.since[at].saturating_add(other.since[at]));
        self.before += other.before;
    }

    /// Their mean age at this time.
    pub(super) fn mean_age_ns(&self, end_ns: u64) -> u64 {
        let ages = (u128::from(end_ns) * u128::from(self.blocks)).saturating_sub(self.born);
        u64::try_from(ages / u128::from(self.blocks.max(1))).unwrap_or(u64::MAX)
    }
}

/// A block that is live when the program begins to end.
struct LeftBlock {
    site: usize,
    bytes: u64,
    born_ns: u64,
    /// If the program freed it then.
    lived_ns: Option<u64>,
}

/// What sites of one function have in common.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Function(u32),
    Name { scope: usize, name: usize },
}

impl<'a> Sets<'a> {
    /// If `scope` is given: only of blocks that were allocated in scopes with this text in their path.
    pub(super) fn of(
        analyzer: &'a Analyzer<FindingsObserver>,
        calls: &'a Calls<'a>,
        scope: Option<&str>,
    ) -> Self {
        let report = calls.report;
        let is_of_sample = report.stack_sampling_bytes.is_some();
        let scope = scope.map(str::to_lowercase);
        let mut whole = Figures::default();
        let counted = |row: &&BucketRow| !is_of_sample || has_stack(report, row);
        report.by_bucket.iter().filter(counted).for_each(|row| whole.add(&row.figures));
        // In all scopes, also if findings are wanted of some.
        let peak_bytes =
            if is_of_sample { whole.live_bytes_at_peak } else { report.totals.peak_bytes };
        let mut sets = Self {
            analyzer,
            calls,
            sites: Vec::new(),
            functions: Vec::new(),
            site_of: Vec::new(),
            next_bucket: Vec::new(),
            whole,
            peak_bytes,
            is_of_sample,
            clocks: Clocks::of(analyzer, report),
            shutdown: analyzer.observer().shutdown(report.trace.duration_ns),
            ended: HashMap::new(),
        };
        sets.add_sites(scope.as_deref());
        sets.add_last_frees();
        sets.add_left();
        sets
    }

    fn add_sites(&mut self, scope: Option<&str>) {
        let report = self.calls.report;
        let mut functions = HashMap::new();
        let (mut of_stack, mut of_name) = (vec![NO_NUMBER; report.by_stack.len()], HashMap::new());
        for row in &report.by_bucket {
            let has_stack = has_stack(report, row);
            let path = report.by_scope.get(row.scope).map_or(&[][..], |row| &row.path);
            let is_left_out = row.figures == Figures::default()
                || self.is_of_sample && !has_stack
                || !is_in(path, scope);
            if is_left_out {
                self.site_of.push(NO_NUMBER);
                continue;
            }
            let stack = row.stack.filter(|_| has_stack);
            let site = match stack {
                Some(stack) => &mut of_stack[stack],
                None => of_name.entry((row.scope, row.name)).or_insert(NO_NUMBER),
            };
            if *site == NO_NUMBER {
                let number = self.sites.len();
                *site = number as u32;
                self.sites.push(Site { stack, first_bucket: NO_NUMBER, ..Site::default() });
                let function = stack.and_then(|stack| self.calls.own_function(stack));
                let name = Key::Name { scope: row.scope, name: row.name };
                let key = function.map_or(name, Key::Function);
                let function = *functions.entry(key).or_insert(self.functions.len());
                if function == self.functions.len() {
                    self.functions.push(Vec::new());
                }
                self.functions[function].push(number);
            }
            self.sites[*site as usize].figures.add(&row.figures);
            self.site_of.push(*site);
        }
        self.next_bucket = vec![NO_NUMBER; self.site_of.len()];
        for (bucket, &site) in self.site_of.iter().enumerate().rev() {
            if let Some(site) = self.sites.get_mut(site as usize) {
                self.next_bucket[bucket] = std::mem::replace(&mut site.first_bucket, bucket as u32);
            }
        }
    }

    /// The site of a bucket, if there are findings of it.
    pub(super) fn site_of(&self, bucket: usize) -> Option<usize> {
        let site = *self.site_of.get(bucket)?;
        (site != NO_NUMBER).then_some(site as usize)
    }

    /// The buckets of a site, in their order.
    pub(super) fn buckets_of(&self, site: usize) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let known = |bucket: &usize| *bucket != NO_NUMBER as usize;
        let first = Some(self.sites[site].first_bucket as usize).filter(known);
        let next = move |bucket: &usize| Some(self.next_bucket[*bucket] as usize).filter(known);
        std::iter::successors(first, next)
    }

    fn add_last_frees(&mut self) {
        let (observer, report) = (self.analyzer.observer(), self.calls.report);
        for (bucket, seen) in observer.buckets.iter().enumerate() {
            if let Some(site) = self.site_of(bucket) {
                let site = &mut self.sites[site];
                let live_bytes = report.by_bucket[bucket].figures.live_bytes;
                site.most_live = site.most_live.saturating_add(seen.most_live(live_bytes));
                let Some(free) = seen.last_free(self.shutdown) else { continue };
                let sum = site.last_free.get_or_insert(LastFree { frees: 0, most_live: 0, ..free });
                let frees = sum.frees.saturating_add(free.frees);
                let most_live = sum.most_live.saturating_add(free.most_live);
                let latest = if free.at_ns >= sum.at_ns { free } else { *sum };
                *sum = LastFree { frees, most_live, ..latest };
            }
        }
    }

    /// The blocks that are live, and those that the program freed as it ended.
    fn left_blocks(&self) -> impl Iterator<Item = LeftBlock> + use<'_, 'a> {
        let last = self.shutdown.map(|_| self.analyzer.observer().last_freed());
        let live = self.analyzer.live_blocks();
        let live = live.map(|(.., block)| (block.bucket, block.size(), block.allocated_at, None));
        let freed = last
            .into_iter()
            .flat_map(|last| &last.blocks)
            .map(|block| (block.bucket, block.bytes, block.allocated_at_ns, Some(block.lived_ns)));
        let ends_ns = last.map_or(u64::MAX, |last| last.began_ns);
        live.chain(freed).filter_map(move |(bucket, bytes, born_ns, lived_ns)| {
            let site = self.site_of(bucket as usize)?;
            let is_before = born_ns <= ends_ns;
            is_before.then_some(LeftBlock { site, bytes, born_ns, lived_ns })
        })
    }

    fn add_left(&mut self) {
        let mut ended = HashMap::<usize, Vec<u64>>::new();
        let mut all = HashMap::<usize, Box<SiteLeft>>::new();
        for LeftBlock { site, bytes, born_ns, lived_ns } in self.left_blocks() {
            let SiteLeft { all: left, never, ended: count } = &mut **all.entry(site).or_default();
            left.count(bytes, born_ns);
            match lived_ns {
                Some(lived_ns) => {
                    *count += 1;
                    ended.entry(site).or_default().push(lived_ns);
                }
                None => never.count(bytes, born_ns),
            }
            let Some(free) = self.sites[site].last_free else { continue };
            if born_ns > free.at_ns {
                left.since = [left.since[0] + 1, left.since[1].saturating_add(bytes)];
            }
            left.before += u64::from(born_ns < free.born_ns);
        }
        all.into_iter().for_each(|(site, left)| self.sites[site].left = Some(left));
        self.ended = ended;
    }

    fn buckets<'s>(&'s self, sites: &'s [usize]) -> impl Iterator<Item = usize> + use<'s, 'a> {
        sites.iter().flat_map(|&site| self.buckets_of(site))
    }

    /// The sum of a figure of these sites.
    pub(super) fn sum(&self, sites: &[usize], figure: impl Fn(&Site) -> u64) -> u64 {
        sites.iter().map(|&site| figure(&self.sites[site])).fold(0, u64::saturating_add)
    }

    pub(super) fn left(&self, sites: &[usize]) -> Left {
        self.sum_left(sites, Site::left)
    }

    pub(super) fn sum_left(&self, sites: &[usize], left: impl Fn(&Site) -> &Left) -> Left {
        let mut sum = Left::default();
        sites.iter().for_each(|&site| sum.add(left(&self.sites[site])));
        sum
    }

    /// When these blocks were allocated, and their bytes.
    pub(super) fn births(&self, sites: &[usize], is_never: bool) -> Vec<(u64, u64)> {
        let of: HashSet<_> = sites.iter().copied().collect();
        let blocks = self.left_blocks().filter(|left| of.contains(&left.site));
        let blocks = blocks.filter(|left| !is_never || left.lived_ns.is_none());
        blocks.map(|left| (left.born_ns, left.bytes)).collect()
    }

    /// How long the freed blocks of these sites lived.
    pub(super) fn lifetimes(&self, sites: &[usize]) -> Lifetimes {
        let observer = self.analyzer.observer();
        let ended = sites.iter().filter_map(|site| self.ended.get(site)).flatten().copied();
        let seen = self.buckets(sites).filter_map(|bucket| observer.buckets.get(bucket));
        Lifetimes::of(seen.map(|seen| &seen.ages), ended)
    }

    /// How the blocks of these sites have grown.
    pub(super) fn grown(&self) -> HashMap<usize, Grown> {
        let mut by_site = HashMap::<usize, Grown>::new();
        for (bucket, grown) in self.analyzer.observer().grown() {
            if let Some(site) = self.site_of(bucket) {
                by_site.entry(site).or_default().sum(&grown);
            }
        }
        by_site
    }

    /// The live bytes of buckets at all moments, in their order.
    pub(super) fn live_at(&self, buckets: &[usize]) -> Vec<([u64; CLOCKS], u64)> {
        let all = (0..CLOCKS).flat_map(|clock| self.analyzer.observer().moments(clock));
        let live = |moment: &LiveSnapshot| {
            buckets.iter().map(|&bucket| moment.live_bytes(bucket)).fold(0, u64::wrapping_add)
        };
        let mut all: Vec<_> = all.map(|moment| (moment.at, live(moment))).collect();
        sort::by_key(&mut all, |(at, _)| at[EVENTS]);
        all.dedup_by_key(|(at, _)| at[EVENTS]);
        all
    }

    /// The same of sites.
    pub(super) fn live_of(&self, sites: &[usize]) -> Vec<([u64; CLOCKS], u64)> {
        self.live_at(&self.buckets(sites).collect::<Vec<_>>())
    }

    /// The blocks of a finding of this kind, about these sites.
    pub(super) fn block_set(&self, found: &Found) -> Option<BlockSet> {
        let began = self.shutdown.map(|_| self.analyzer.observer().last_freed().began);
        let freed_until = began.map(|began| began.saturating_sub(1));
        let end = freed_until.map(SetPosition::Event);
        let at = |position| Some(SetPosition::Event(position));
        let (rule, positions) = match found.kind {
            FindingKind::LeftBehind if found.is_to_end => ("live", [None, None]),
            FindingKind::LeftBehind | FindingKind::Fragmentation => ("live", [end, None]),
            FindingKind::NoLongerFreed => ("grown", [Some(SetPosition::Time(found.since_ns)), end]),
            FindingKind::Queue | FindingKind::Temporary => {
                ("live", [at(self.clocks.peak[EVENTS]), None])
            }
            _ => ("allocated-after", [at(0), None]),
        };
        let report = self.calls.report;
        let positions = positions.into_iter().flatten().collect();
        let mut set = made!(BlockSet { rule, positions, freed_until });
        for &site in &found.sites {
            set.buckets.extend(self.buckets_of(site).map(|bucket| bucket as u32));
            let site = &self.sites[site];
            let row = &report.by_bucket[site.first_bucket as usize];
            match site.stack {
                Some(stack) => set.stacks.push(stack),
                None => set.scopes.push((row.scope, row.name)),
            }
        }
        set.buckets.sort_unstable();
        set.stacks.sort_unstable();
        set.scopes.sort_unstable();
        (!found.sites.is_empty()).then_some(set)
    }

    /// The blocks of these sites that were allocated after this time, and are live: number and bytes.
    pub(super) fn since(&self, sites: &[usize], at_ns: u64) -> [u64; 2] {
        let of: HashSet<_> = sites.iter().copied().collect();
        let is_of = |left: &LeftBlock| left.born_ns > at_ns && of.contains(&left.site);
        self.left_blocks()
            .filter(is_of)
            .fold([0, 0], |[blocks, bytes], left| [blocks + 1, bytes.saturating_add(left.bytes)])
    }

    /// When the program began to end.
    pub(super) fn end_ns(&self) -> u64 {
        let began = self.shutdown.map(|_| self.analyzer.observer().last_freed().began_ns);
        began.unwrap_or(self.clocks.end[TIME])
    }

    /// Where blocks are allocated, weighed by what a finding is about.
    pub(super) fn place(&self, sites: &[usize], weight: impl Fn(&Site) -> u64) -> Place {
        let weighed = sites.iter().filter_map(|&site| {
            let site = &self.sites[site];
            Some((site.stack?, weight(site).max(1)))
        });
        let weighed: Vec<_> = weighed.collect();
        let mut place = self.calls.place_of(&weighed).unwrap_or_default();
        let report = self.calls.report;
        let mut rows = self.buckets(sites).map(|bucket| &report.by_bucket[bucket]);
        let Some(first) = rows.next() else { return place };
        let (name, thread) = (&report.by_name[first.name], &report.by_thread[first.thread]);
        place.scope = report.by_scope[first.scope].path.clone();
        (place.group, place.name) = (name.group.clone(), Some(name.name.clone()));
        place.thread = Some((thread.id, thread.name.clone()));
        for row in rows {
            let path = &report.by_scope[row.scope].path;
            let same = place.scope.iter().zip(path).take_while(|(a, b)| a == b).count();
            place.has_inner_scopes |= same < place.scope.len() || same < path.len();
            place.scope.truncate(same);
            let other = &report.by_name[row.name];
            if place.name.is_some() && (other.name != name.name || other.group != name.group) {
                (place.name, place.group) = (None, Vec::new());
            }
            if report.by_thread[row.thread].id != thread.id {
                place.thread = None;
            }
        }
        place
    }

    /// Whether the sites of a function say where they are: a stack, a scope, or a tag.
    pub(super) fn is_named(&self, sites: &[usize]) -> bool {
        let report = self.calls.report;
        sites.first().is_some_and(|&site| {
            let site = &self.sites[site];
            let row = &report.by_bucket[site.first_bucket as usize];
            site.stack.is_some()
                || report.by_scope[row.scope].path.len() > 1
                || report.by_name[row.name].group != ["Unknown"]
        })
    }
}

/// Whether a scope stack has this text, in lower case, in its path.
pub(super) fn is_in(path: &[String], scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| path.join(" > ").to_lowercase().contains(scope))
}

fn has_stack(report: &Report, row: &BucketRow) -> bool {
    row.stack.and_then(|stack| report.by_stack.kind(stack)) == Some(StackKind::Known)
}
