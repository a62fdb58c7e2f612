//! Finds the blocks of a query while the trace is read.

use super::answer::Found;
use super::lives::{BlockLife, LargestBlocks, Lives, SingleBlock};
use super::rules::{Kind, Rule};
use super::runs::{Runs, ScopeRuns};
use super::{Class, Query};
use crate::accounts::class_of;
use crate::hash::IntMap;
use crate::observer::{Actor, BlockChange, BlockEvent, BlockObserver};
use std::collections::HashSet;

/// In place of a position that is not reached.
const AHEAD: u64 = u64::MAX;

/// Finds the blocks of a query, as an observer of [`Query::analyzer`]. Its memory is some 50 bytes for each
/// live block.
#[derive(Clone, Debug)]
pub struct QueryObserver {
    pub(super) query: Query,
    /// The first event after each position.
    at: Vec<u64>,
    lives: Lives,
    /// The runs of the scope that is asked for, if one is.
    runs: Option<Box<Runs>>,
    /// What was found of blocks that have ended.
    ended: Sums,
    /// The same with those that are live where counting stops.
    found: Sums,
    is_over: bool,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// By bucket.
    sums: Vec<Found>,
    by_class: Option<Class>,
    /// By bucket and class.
    classes: IntMap<(u32, u8), Found>,
    /// By bucket and size, if the blocks with call stacks are a sample: how many have not declined, and how
    /// many have.
    sizes: Option<IntMap<(u32, u64), [u64; 2]>>,
    /// The first events of all blocks, if they are asked for.
    numbers: Option<HashSet<u64>>,
    /// How many single blocks are kept: of each bucket, if only those of some scopes are wanted.
    blocks: usize,
    by_bucket: bool,
    largest: IntMap<u32, LargestBlocks>,
}

impl Sums {
    /// Adds a block that was found at this time, or has ended then.
    fn add(&mut self, single: SingleBlock, at_ns: u64) {
        let BlockLife { bucket, bytes, allocated_at_ns, first, .. } = single.life;
        let index = bucket as usize;
        if index >= self.sums.len() {
            self.sums.resize(index + 1, Found::default());
        }
        self.sums[index].add((1, bytes), single.has_declined);
        if let Some(class) = self.by_class {
            let class = match class {
                Class::Size => class_of(bytes) as u8,
                Class::Lifetime => lifetime_class(at_ns.saturating_sub(allocated_at_ns)),
            };
            self.classes.entry((bucket, class)).or_default().add((1, bytes), single.has_declined);
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.entry((bucket, bytes)).or_default()[usize::from(single.has_declined)] += 1;
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.insert(first);
        }
        if self.blocks > 0 {
            let bucket = if self.by_bucket { bucket } else { 0 };
            let new = || LargestBlocks::new(self.blocks);
            self.largest.entry(bucket).or_insert_with(new).add(single);
        }
    }

    /// Adds a block that a run has allocated, if the rule finds blocks of this kind.
    fn count(&mut self, query: &Query, kind: Kind, event: &BlockEvent) -> bool {
        let is_found = query.parts().iter().any(|part| part.kind == kind);
        if is_found {
            let mut life = BlockLife::new(event, BlockChange::Allocated);
            let has_ended = kind == Kind::Freed;
            let freed = BlockChange::Freed { by: Actor::default(), short_lived: false };
            life.ended = has_ended.then_some((event.number, event.at_ns, freed));
            self.add(SingleBlock { life, has_ended, has_declined: false }, event.at_ns);
        }
        is_found
    }

    /// What was found, each with its bucket.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Found)> {
        self.sums.iter().enumerate().filter(|(_, found)| **found != Found::default())
    }

    /// The same with its bucket and its class.
    pub(super) fn classes(&self) -> impl Iterator<Item = (usize, u8, &Found)> {
        self.classes.iter().map(|(&(bucket, class), found)| (bucket as usize, class, found))
    }

    /// In a trace with a sample of call stacks: how many blocks each bucket has of each size, in their order.
    pub(super) fn sizes(&self) -> Option<Vec<(usize, u64, [u64; 2])>> {
        let sizes = self.sizes.as_ref()?.iter();
        let sizes = sizes.map(|(&(bucket, bytes), &blocks)| (bucket as usize, bytes, blocks));
        let mut sizes: Vec<_> = sizes.collect();
        sizes.sort_unstable();
        Some(sizes)
    }

    /// The first events of all blocks, if they were asked for.
    pub(super) fn take_numbers(&mut self) -> HashSet<u64> {
        self.numbers.take().unwrap_or_default()
    }

    /// The largest of the blocks that `is_wanted` wants by their bucket.
    pub(super) fn largest(&self, is_wanted: impl Fn(u32) -> bool) -> LargestBlocks {
        let mut largest = LargestBlocks::new(self.blocks);
        for mut blocks in self.largest.values().cloned() {
            let wanted = blocks.blocks().iter().filter(|single| is_wanted(single.life.bucket));
            wanted.for_each(|single| largest.add(*single));
        }
        largest
    }
}

impl QueryObserver {
    pub(super) fn new(query: Query) -> Self {
        let ended = Sums {
            by_class: query.by_class,
            numbers: query.numbers.then(HashSet::new),
            blocks: query.blocks,
            by_bucket: query.scope.is_some(),
            ..Sums::default()
        };
        let runs = query.each.as_deref().map(|scope| Box::new(Runs::new(scope)));
        let at = vec![AHEAD; query.rule.positions()];
        let (lives, found) = (Lives::default(), Sums::default());
        Self { query, at, lives, runs, ended, found, is_over: false }
    }

    /// Whether the last position was passed: what follows in the trace does not matter.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What was found where counting has stopped.
    pub(super) fn found(&self) -> &Sums {
        &self.found
    }

    /// The same, to take something out.
    pub(super) fn found_mut(&mut self) -> &mut Sums {
        &mut self.found
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

    /// Counting has stopped after `event`: adds the blocks of open runs, and describes the runs.
    pub(super) fn stop_runs(&mut self, event: &BlockEvent) -> Option<(ScopeRuns, Vec<Actor>)> {
        let Self { query, runs, ended, found, .. } = self;
        let (runs, scope) = (runs.as_ref()?, query.each.as_deref().unwrap_or_default());
        found.clone_from(ended);
        Some(runs.stop(scope, event, &mut |kind, event| found.count(query, kind, event)))
    }
}

/// Adds a block if the query finds it. `at_ns` is when it has ended, or when counting stops.
#[inline]
fn find(query: &Query, at: &[u64], life: &BlockLife, at_ns: u64, found: &mut Sums) {
    let parts = query.parts();
    let Some(part) = life.span().found_by(parts, at) else { return };
    let is_wanted = query.in_buckets.get(life.bucket as usize).copied();
    if !is_wanted.unwrap_or(query.in_buckets.is_empty()) {
        return;
    }
    if let Some((least, below)) = query.ages {
        // A reallocation does not end the age of a block.
        let goes_on = matches!(life.ended, Some((_, _, BlockChange::ReallocBegun)));
        let age = at_ns.saturating_sub(life.allocated_at_ns);
        if goes_on || age < least || below <= age {
            return;
        }
    }
    let has_declined = part > 0 && query.rule == Rule::GrownAndDeclined;
    found.add(SingleBlock { life: *life, has_ended: parts[part].is_freed(), has_declined }, at_ns);
}

/// The first digits of the classes of lifetimes: 1 to 2 ns, 2 to 5 ns, 5 to 10 ns, and so on.
const STEPS: [u64; 3] = [1, 2, 5];

/// The class of a lifetime in nanoseconds.
fn lifetime_class(lifetime: u64) -> u8 {
    let power = lifetime.max(1).ilog10();
    let first = lifetime / 10_u64.pow(power);
    (power * 3) as u8 + u8::from(first >= STEPS[1]) + u8::from(first >= STEPS[2])
}

/// The shortest lifetime of a class.
pub(super) fn shortest_of(class: u8) -> u64 {
    let (power, step) = (class / 3, class % 3);
    let shortest =
        10_u64.checked_pow(power.into()).and_then(|it| it.checked_mul(STEPS[usize::from(step)]));
    shortest.unwrap_or(u64::MAX)
}

impl BlockObserver for QueryObserver {
    #[inline]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let Self { query, at, lives, runs, ended, .. } = self;
        if let Some(runs) = runs {
            let counts = at.iter().rev().nth(1).is_none_or(|&before| before != AHEAD);
            runs.observe(event, change, counts, &mut |kind, event| ended.count(query, kind, event));
            return;
        }
        lives.observe(event, change, &mut |life| {
            let at_ns = life.ended.map_or(0, |(_, at_ns, _)| at_ns);
            find(query, at, life, at_ns, ended);
        });
    }

    fn reached(&mut self, events: u64) {
        if let Some(next) = self.at.iter_mut().find(|at| **at == AHEAD) {
            *next = events.saturating_add(1);
        }
    }

    fn scope_changed(&mut self, stream: u16, by: Actor, path: &dyn Fn() -> Vec<String>) {
        if let Some(runs) = &mut self.runs {
            runs.enter(stream, by, path);
        }
    }

    fn sampled(&mut self) {
        self.ended.sizes.get_or_insert_default();
    }

    fn joined(&mut self) {
        if let Some(runs) = &mut self.runs {
            runs.begin();
        }
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        let Self { query, at, lives, runs, ended, found, is_over } = self;
        *is_over = true;
        if runs.is_none() {
            found.clone_from(ended);
            lives.stop(live, |life, at_ns| find(query, at, life, at_ns, found));
        }
    }
}
