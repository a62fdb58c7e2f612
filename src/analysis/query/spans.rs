//! Counts the blocks that a rule finds, as the events pass.

use super::Query;
use super::rules::Kind;
use super::runs::{Runs, ScopeRuns};
use crate::analysis::accounts::{CLASSES, class_of};
use crate::analysis::hash::IntMap;
use crate::analysis::observer::{Actor, BlockChange, BlockEvent, BlockObserver};
use std::cmp::Reverse;

/// Blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

/// One block that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single {
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) address: u64,
    pub(super) allocated_at_ns: u64,
    /// When it was freed, and by which event.
    pub(super) freed: Option<(u64, u64)>,
}

/// The blocks that a query has found so far, by bucket. Which era a bucket is of is looked up at the
/// end.
#[derive(Clone, Debug)]
pub struct Spans {
    pub(super) query: Query,
    /// How many eras begin before the last one does.
    eras_ahead: usize,
    /// After how many events the last era begins.
    since: u64,
    live: Sums,
    freed: Sums,
    allocated: Sums,
    left: Sums,
    /// The runs of the scope that is asked for, if one is.
    runs: Option<Box<Runs>>,
    /// By stream: the last reallocation, which may turn out to have failed.
    reallocs: Vec<Realloc>,
    /// By bucket: the largest single blocks, and some more.
    singles: IntMap<u32, Vec<Single>>,
}

/// By bucket, or by bucket and size class.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    is_wanted: bool,
    by_size: bool,
    sums: Vec<Sum>,
}

/// The end of a block by a reallocation.
#[derive(Clone, Copy, Debug, Default)]
struct Realloc {
    begun: u64,
    bucket_before: u32,
    bytes_before: u64,
}

impl Sums {
    #[inline]
    fn at(&mut self, bucket: u32, bytes: u64) -> &mut Sum {
        let bucket = bucket as usize;
        let index = if self.by_size { bucket * CLASSES + class_of(bytes) } else { bucket };
        if index >= self.sums.len() {
            self.sums.resize(index + 1, Sum::default());
        }
        &mut self.sums[index]
    }

    /// Adds a block, or takes it back if `blocks` is -1.
    #[inline]
    fn add(&mut self, bucket: u32, bytes: u64, blocks: i64) {
        let sum = self.at(bucket, bytes);
        sum.blocks = sum.blocks.wrapping_add_signed(blocks);
        sum.bytes = sum.bytes.wrapping_add_signed((bytes as i64).wrapping_mul(blocks));
    }

    /// The sums that are not zero, each with its bucket, and its size class if these are counted.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, Option<usize>, Sum)> {
        let sums = self.sums.iter().enumerate().filter(|(_, sum)| **sum != Sum::default());
        sums.map(|(index, &sum)| match self.by_size {
            true => (index / CLASSES, Some(index % CLASSES), sum),
            false => (index, None, sum),
        })
    }
}

impl Spans {
    pub(super) fn new(query: Query) -> Self {
        let sums = |kind| Sums {
            is_wanted: query.parts().iter().any(|part| part.kind == kind),
            by_size: query.by_size,
            sums: Vec::new(),
        };
        let [live, freed, allocated, left] =
            [Kind::Live, Kind::Freed, Kind::Allocated, Kind::Left].map(sums);
        let runs = query.each.as_deref().map(|scope| Box::new(Runs::new(scope)));
        let eras_ahead = query.rule.positions() - 1;
        let (reallocs, singles) = (Vec::new(), IntMap::default());
        Self { query, eras_ahead, since: 0, live, freed, allocated, left, runs, reallocs, singles }
    }

    pub(super) fn sums(&self, kind: Kind) -> &Sums {
        match kind {
            Kind::Live => &self.live,
            Kind::Freed => &self.freed,
            Kind::Allocated => &self.allocated,
            Kind::Left => &self.left,
        }
    }

    fn sums_mut(&mut self, kind: Kind) -> &mut Sums {
        match kind {
            Kind::Live => &mut self.live,
            Kind::Freed => &mut self.freed,
            Kind::Allocated => &mut self.allocated,
            Kind::Left => &mut self.left,
        }
    }

    /// Counts a block that a run has allocated.
    fn count(&mut self, kind: Kind, event: &BlockEvent) {
        let sums = self.sums_mut(kind);
        if sums.is_wanted {
            sums.add(event.bucket, event.bytes, 1);
            self.keep(kind, event);
        }
    }

    /// The names of the scope that is asked for lead to one of these paths.
    pub(super) fn has_scope(&self, mut paths: impl Iterator<Item = impl AsRef<[String]>>) -> bool {
        let runs = self.runs.as_ref();
        runs.is_none_or(|runs| paths.any(|path| runs.depth_in(path.as_ref()).is_some()))
    }

    /// Whether the names of the scope that is asked for are the end of this path, and nowhere else in it.
    pub(super) fn is_outermost(&self, path: &[String]) -> bool {
        self.runs.as_ref().is_some_and(|runs| runs.depth_in(path) == Some(path.len()))
    }

    /// Counting has stopped after `event`: the blocks of the runs that are open, and what there is to say of
    /// the runs.
    pub(super) fn stop_runs(&mut self, event: &BlockEvent) -> Option<(ScopeRuns, Vec<Actor>)> {
        let runs = self.runs.take()?;
        let scope = self.query.each.clone().unwrap_or_default();
        self.live.sums.clear();
        self.drop_live_singles();
        let stopped = runs.stop(&scope, event, &mut |kind, event| self.count(kind, event));
        self.runs = Some(runs);
        Some(stopped)
    }

    fn drop_live_singles(&mut self) {
        self.singles.values_mut().for_each(|all| all.retain(|single| single.kind != Kind::Live));
    }

    /// The largest blocks of a bucket, and some more.
    pub(super) fn singles(&self) -> impl Iterator<Item = (u32, &Single)> {
        self.singles
            .iter()
            .flat_map(|(&bucket, all)| all.iter().map(move |single| (bucket, single)))
    }

    fn is_of_age(&self, event: &BlockEvent) -> bool {
        let age = event.at_ns.saturating_sub(event.allocated_at_ns);
        self.query.ages.is_none_or(|(least, below)| least <= age && age < below)
    }

    /// Keeps a block if it is among the largest of its bucket.
    fn keep(&mut self, kind: Kind, event: &BlockEvent) {
        let count = self.query.blocks;
        if count == 0 {
            return;
        }
        let all = self.singles.entry(event.bucket).or_default();
        all.push(Single {
            kind,
            bytes: event.bytes,
            address: event.address,
            allocated_at_ns: event.allocated_at_ns,
            freed: (kind == Kind::Freed).then_some((event.at_ns, event.number)),
        });
        // The list is cut back at twice the length, so that this is rare.
        if all.len() >= count.saturating_mul(2).max(64) {
            all.sort_unstable_by_key(order);
            all.truncate(count);
        }
    }

    #[inline]
    fn end(&mut self, event: &BlockEvent) {
        if self.freed.is_wanted && self.is_of_age(event) {
            self.freed.add(event.bucket, event.bytes, 1);
            self.keep(Kind::Freed, event);
        }
    }

    #[inline]
    fn begin(&mut self, event: &BlockEvent) {
        if self.allocated.is_wanted {
            self.allocated.add(event.bucket, event.bytes, 1);
            self.keep(Kind::Allocated, event);
        }
    }

    /// Takes back what was counted of the last reallocation of this stream.
    #[cold]
    fn take_back(&mut self, event: &BlockEvent) {
        if self.allocated.is_wanted {
            self.allocated.add(event.bucket, event.bytes, -1);
            if let Some(all) = self.singles.get_mut(&event.bucket)
                && let Some(last) = all.iter().rposition(|single| single.address == event.address)
            {
                all.remove(last);
            }
        }
        let last = self.reallocs.get(usize::from(event.stream));
        if let Some(&Realloc { begun, bucket_before, bytes_before }) = last
            && begun > self.since
        {
            self.freed.add(bucket_before, bytes_before, -1);
            if let Some(all) = self.singles.get_mut(&bucket_before) {
                all.retain(|single| single.freed.is_none_or(|(_, number)| number != begun));
            }
        }
    }
}

/// The largest first, then the older one.
pub(super) fn order(single: &Single) -> impl Ord + use<> {
    let number = single.freed.map(|(_, number)| number);
    (Reverse(single.bytes), single.allocated_at_ns, single.address, number)
}

impl BlockObserver for Spans {
    // PERF: a few additions to a list by bucket; no table of blocks is kept.
    #[inline]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        if let Some(mut runs) = self.runs.take() {
            let counts = self.eras_ahead == 0;
            runs.observe(event, change, counts, &mut |kind, event| self.count(kind, event));
            self.runs = Some(runs);
            return;
        }
        if self.eras_ahead > 0 {
            return;
        }
        match change {
            BlockChange::Allocated => self.begin(event),
            BlockChange::Freed { .. } | BlockChange::Left => self.end(event),
            // The age of a block goes on when it is reallocated.
            BlockChange::ReallocBegun if self.query.ages.is_none() => self.end(event),
            BlockChange::Reallocated { begun, bytes_before, bucket_before, .. } => {
                self.begin(event);
                if self.freed.is_wanted && self.query.ages.is_none() {
                    let stream = usize::from(event.stream);
                    if stream >= self.reallocs.len() {
                        self.reallocs.resize(stream + 1, Realloc::default());
                    }
                    self.reallocs[stream] = Realloc { begun, bucket_before, bytes_before };
                }
            }
            BlockChange::ReallocFailed { .. } => self.take_back(event),
            BlockChange::Corrected { bytes_before, .. } if self.allocated.is_wanted => {
                let sum = self.allocated.at(event.bucket, event.bytes);
                sum.bytes = sum.bytes.wrapping_add(event.bytes).wrapping_sub(bytes_before);
                let all = self.singles.get_mut(&event.bucket).into_iter().flatten();
                if let Some(single) = all.rev().find(|single| single.address == event.address) {
                    single.bytes = event.bytes;
                }
            }
            BlockChange::ReallocBegun
            | BlockChange::Corrected { .. }
            | BlockChange::Moved { .. }
            | BlockChange::Returned => {}
        }
    }

    fn begin_era(&mut self, events: u64) {
        self.eras_ahead = self.eras_ahead.saturating_sub(1);
        self.since = events;
    }

    fn scope_changed(&mut self, stream: u16, by: Actor, path: &dyn Fn() -> Vec<String>) {
        if let Some(runs) = &mut self.runs {
            runs.enter(stream, by, path);
        }
    }

    fn joined(&mut self) {
        if let Some(runs) = &mut self.runs {
            runs.begin();
        }
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        if !self.live.is_wanted || self.runs.is_some() {
            return;
        }
        self.live.sums.clear();
        self.drop_live_singles();
        for block in live {
            if self.is_of_age(&block) {
                self.live.add(block.bucket, block.bytes, 1);
                self.keep(Kind::Live, &block);
            }
        }
    }
}
