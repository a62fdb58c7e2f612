//! Sums the blocks that were found into rows.

use super::lives::SingleBlock;
use super::observer::{QueryObserver, shortest_of};
use super::rules::Rule;
use super::runs::ScopeRuns;
use super::{Class, Query};
use crate::accounts::class_bounds;
use crate::analyzer::Analyzer;
use crate::cutoff::{Position, Reached, Stop};
use crate::observer::{BlockEvent, BlockObserver};
use memledger_document::internal::{Sample, Weights};
use memledger_document::{Figures, LiveBlock, Report, SizeRow, Symbolizer, made};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::mem::take;

/// What a query has found.
///
/// The rows by scope, group, name, thread, size, stack, function, line and crate are written by
/// `memledger_export::query`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The rule of the query.
    pub rule: Rule,
    /// The positions, as many as the rule has, where they were in this trace.
    pub positions: Vec<Reached>,
    /// All blocks that were found.
    pub total: Found,
    /// The same by the numbers of buckets: rows of [`Report::by_bucket`].
    pub by_bucket: Vec<Found>,
    /// The largest of them, the largest first.
    pub blocks: Vec<FoundBlock>,
    /// With [`Query::by_lifetime`]: the same by lifetime, the shortest first.
    pub by_lifetime: Vec<LifetimeRow>,
    /// The runs of the scope of [`Query::in_each`](super::Query::in_each).
    pub runs: Option<ScopeRuns>,
    /// The report at the last position. Its rows have what was found: see [`Found::of`].
    pub(crate) report: Report,
}

/// Blocks that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For [`Rule::GrownAndDeclined`], whose `blocks` have grown: how many have declined.
    pub declined_blocks: u64,
    /// The bytes of these.
    pub declined_bytes: u64,
}

impl Found {
    /// What the figures of a row of an answer say. NOTE: an answer's rows are those of a report, so
    /// that the tables of reports show them: allocations and bytes at the peak are what was found,
    /// frees and allocated bytes are what has declined. The other columns are 0.
    #[doc(hidden)]
    pub fn of(figures: &Figures) -> Self {
        Self {
            blocks: figures.allocations,
            bytes: figures.live_bytes_at_peak,
            declined_blocks: figures.frees,
            declined_bytes: figures.allocated_bytes,
        }
    }

    /// Adds what was found elsewhere.
    #[doc(hidden)]
    pub fn add_found(&mut self, other: Self) {
        let mut figures = self.figures();
        figures.add(&other.figures());
        *self = Self::of(&figures);
    }

    /// The other way round.
    #[doc(hidden)]
    pub fn figures(self) -> Figures {
        made!(Figures {
            allocations: self.blocks,
            live_bytes_at_peak: self.bytes,
            frees: self.declined_blocks,
            allocated_bytes: self.declined_bytes
        })
    }

    pub(super) fn add(&mut self, (blocks, bytes): (u64, u64), has_declined: bool) {
        let (of_blocks, of_bytes) = match has_declined {
            true => (&mut self.declined_blocks, &mut self.declined_bytes),
            false => (&mut self.blocks, &mut self.bytes),
        };
        *of_blocks = of_blocks.wrapping_add(blocks);
        *of_bytes = of_bytes.wrapping_add(bytes);
    }
}

/// The blocks that were found of one class of lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LifetimeRow {
    /// The shortest lifetime in it, in nanoseconds. 0 in the first class, which has all that the times of the
    /// trace do not tell apart.
    pub from_ns: u64,
    /// The shortest lifetime above it.
    pub below_ns: u64,
    /// What was found.
    pub found: Found,
}

/// One block that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundBlock {
    /// The block, as it was when the rule found it.
    pub block: LiveBlock,
    /// Its life, and why it was found.
    pub single: SingleBlock,
}

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The trace has no bookmark of this name.
    NoBookmark {
        /// The name.
        name: String,
        /// The bookmarks that it has.
        set: Vec<String>,
    },
    /// The position with this number (A is 0) is before the one that should precede it.
    Disordered {
        /// Its number.
        position: usize,
    },
    /// Nothing was allocated in a scope of this name.
    NoScope {
        /// The name.
        name: String,
        /// The names of the scopes in which something was.
        scopes: Vec<String>,
    },
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBookmark { name, set } => {
                write!(f, "the trace has no bookmark {name:?} among its {}", set.len())
            }
            Self::Disordered { position } => {
                let name = |number| ["A", "B", "C", "D"].get(number).copied().unwrap_or("?");
                let before = name(position.saturating_sub(1));
                write!(f, "{} is before {before} in this trace", name(*position))
            }
            Self::NoScope { name, scopes } => {
                write!(f, "the trace has no scope {name:?} among its {}", scopes.len())
            }
        }
    }
}

impl std::error::Error for Unanswered {}

impl Answer {
    /// See [`Report::symbolize`].
    pub fn symbolize(&mut self, symbolizer: &mut dyn Symbolizer) {
        self.report.symbolize(symbolizer);
    }

    /// The report at the last position, for what it says of the trace: its rows have other figures.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The answer with what was found by bucket, in a report with all buckets.
    pub(super) fn of_buckets(
        mut report: Report,
        rule: Rule,
        positions: Vec<Reached>,
        by_bucket: Vec<Found>,
        total: Found,
    ) -> Self {
        Self::fill(&mut report, &by_bucket, Vec::new(), &BTreeMap::new());
        report.totals.peak_bytes = total.bytes;
        let (blocks, by_lifetime, runs) = (Vec::new(), Vec::new(), None);
        Self { rule, positions, total, by_bucket, blocks, by_lifetime, runs, report }
    }

    /// Puts what was found, by bucket and by size class, into the rows of the report.
    /// `weights` are what a sample says of each stack.
    fn fill(
        report: &mut Report,
        found: &[Found],
        weights: Vec<Option<Weights>>,
        by_size: &BTreeMap<u8, Found>,
    ) {
        let none = Figures::default();
        report.by_scope.iter_mut().for_each(|row| (row.figures, row.inclusive) = (none, none));
        report.by_group.iter_mut().for_each(|row| (row.figures, row.inclusive) = (none, none));
        report.by_name.iter_mut().for_each(|row| row.figures = none);
        report.by_thread.iter_mut().for_each(|row| row.figures = none);
        report.by_heap.iter_mut().for_each(|row| row.figures = none);
        let mut by_stack = HashMap::<usize, Figures>::new();
        for (bucket, found) in report.by_bucket.iter().zip(found) {
            let figures = found.figures();
            report.by_scope[bucket.scope].figures.add(&figures);
            report.by_name[bucket.name].figures.add(&figures);
            report.by_thread[bucket.thread].figures.add(&figures);
            report.by_heap[bucket.heap].figures.add(&figures);
            if let Some(stack) = bucket.stack.filter(|_| figures != none) {
                by_stack.entry(stack).or_default().add(&figures);
            }
        }
        let found = |row| by_stack.get(&row).copied().unwrap_or_default();
        let rows = (0..report.by_stack.len()).map(found);
        report.by_stack.set_figures(rows, weights);
        let groups: HashMap<_, _> =
            report.by_group.iter().enumerate().map(|(at, row)| (row.group.clone(), at)).collect();
        for row in &report.by_name {
            if let Some(&at) = groups.get(&row.group) {
                report.by_group[at].figures.add(&row.figures);
            }
            for depth in 1..=row.group.len() {
                if let Some(&at) = groups.get(&row.group[..depth]) {
                    report.by_group[at].inclusive.add(&row.figures);
                }
            }
        }
        let scopes: HashMap<_, _> =
            report.by_scope.iter().enumerate().map(|(at, row)| (row.path.clone(), at)).collect();
        for (path, &at) in &scopes {
            let figures = report.by_scope[at].figures;
            for depth in 1..=path.len() {
                if let Some(&at) = scopes.get(&path[..depth]) {
                    report.by_scope[at].inclusive.add(&figures);
                }
            }
        }
        let rows = by_size.iter().map(|(&class, found)| {
            let (min_bytes, max_bytes) = class_bounds(class.into());
            made!(SizeRow { min_bytes, max_bytes, figures: found.figures() })
        });
        report.by_size = rows.collect();
    }
}

impl<O: BlockObserver> Analyzer<O> {
    /// Where the positions are that were asked for, in the same order; those that the trace does not come to
    /// are at its end. Fails with [`Unanswered::NoBookmark`] if it does not have a bookmark that one of them
    /// is at.
    pub fn reached(&self) -> Result<Vec<Reached>, Unanswered> {
        let reached = |stop: &Stop| match (&stop.at, stop.reached) {
            (Position::Bookmark(name), None) => {
                let set = self.bookmarks().all().into_iter().map(|bookmark| bookmark.name);
                Err(Unanswered::NoBookmark { name: name.clone(), set: set.collect() })
            }
            (_, here) => Ok(here.unwrap_or_else(|| self.end())),
        };
        self.cutoff().stops().iter().map(reached).collect()
    }
}

impl Analyzer<QueryObserver> {
    /// What the query has found in the trace that was read. Costs what a report costs.
    pub fn answer(&mut self) -> Result<Answer, Unanswered> {
        self.flush();
        let positions = self.found_positions()?;
        if self.is_counting() {
            self.observe_live();
        }
        let mut report = self.report();
        if !self.observer().has_scope(report.by_scope.iter().map(|row| &row.path)) {
            let name = self.observer().query.each.clone().unwrap_or_default();
            return Err(Unanswered::NoScope { name, scopes: names_of(&report) });
        }
        let runs = self.stop_runs(&report, positions.last());
        let observer = self.observer();
        let Query { rule, scope, by_class, .. } = &observer.query;
        let has_scope = |path: &[String]| {
            let has = |scope: &String| path.join(" > ").to_lowercase().contains(scope);
            scope.as_ref().is_none_or(has)
        };
        let is_in_scope: Vec<_> = report.by_scope.iter().map(|row| has_scope(&row.path)).collect();
        let is_wanted =
            |bucket: usize| report.by_bucket.get(bucket).is_some_and(|row| is_in_scope[row.scope]);
        let mut by_bucket = vec![Found::default(); report.by_bucket.len()];
        let mut total = Found::default();
        for (bucket, found) in observer.found().all().filter(|(bucket, _)| is_wanted(*bucket)) {
            by_bucket[bucket].add_found(*found);
            total.add_found(*found);
        }
        let mut classes = BTreeMap::<u8, Found>::new();
        for (_, class, found) in observer.found().classes().filter(|row| is_wanted(row.0)) {
            classes.entry(class).or_default().add_found(*found);
        }
        let of_lifetimes = *by_class == Some(Class::Lifetime);
        let of_lifetimes = if of_lifetimes { take(&mut classes) } else { BTreeMap::new() };
        let by_lifetime = lifetimes(&of_lifetimes, report.trace.time_resolution_ns);
        let mut largest = observer.found().largest(|bucket| is_wanted(bucket as usize));
        let found_block = |single: &SingleBlock| found_block(&report, single);
        let blocks = largest.blocks().iter().map(found_block).collect();
        let rule = *rule;
        let sizes = observer.found().sizes().unwrap_or_default().into_iter();
        let weights = weights(&report, sizes.filter(|row| is_wanted(row.0)));
        Answer::fill(&mut report, &by_bucket, weights, &classes);
        report.totals.peak_bytes = total.bytes;
        Ok(Answer { rule, positions, total, by_bucket, blocks, by_lifetime, runs, report })
    }

    /// The numbers of the events that allocated the blocks which the query of [`Query::numbers`] has found:
    /// of a block that was reallocated, the first. Empties them.
    pub fn block_numbers(&mut self) -> Result<HashSet<u64>, Unanswered> {
        self.flush();
        self.found_positions()?;
        if self.is_counting() {
            self.observe_live();
        }
        Ok(self.observer_mut().found_mut().take_numbers())
    }

    /// The runs of the scope that is asked for, up to the last position.
    fn stop_runs(&mut self, report: &Report, last: Option<&Reached>) -> Option<ScopeRuns> {
        let Reached { event, at_ns } = *last?;
        let event = BlockEvent { number: event, at_ns, ..BlockEvent::default() };
        let (mut runs, actors) = self.observer_mut().stop_runs(&event)?;
        for (run, by) in runs.largest.iter_mut().zip(actors) {
            let (id, name) = self.thread_of(by);
            (run.thread_id, run.thread) = (id, name.to_owned());
        }
        let rows = report.by_scope.iter();
        let rows = rows.filter(|row| self.observer().is_outermost(&row.path));
        runs.entries = rows.map(|row| row.entries).sum();
        Some(runs)
    }

    /// Where the positions were.
    fn found_positions(&self) -> Result<Vec<Reached>, Unanswered> {
        let reached = self.reached()?;
        let (mut last_event, mut last_time, mut is_after_end) = (0, 0, false);
        for (position, (stop, here)) in self.cutoff().stops().iter().zip(&reached).enumerate() {
            let time = if let Position::Time(time) = stop.at { time } else { last_time };
            let returns = is_after_end && stop.reached.is_some();
            if here.event < last_event || time < last_time || returns {
                return Err(Unanswered::Disordered { position });
            }
            is_after_end |= stop.reached.is_none() && time > last_time;
            (last_event, last_time) = (here.event, time);
        }
        Ok(reached)
    }
}

/// By row of stacks: what the sample of blocks with stacks says of all, which are given by bucket and size.
/// None in a trace with the stacks of all blocks.
fn weights(
    report: &Report,
    blocks: impl Iterator<Item = (usize, u64, [u64; 2])>,
) -> Vec<Option<Weights>> {
    if report.stack_sampling_bytes.is_none() {
        return Vec::new();
    }
    let is_taken = |row: usize| report.by_stack.weights(row).is_some();
    let weights = (0..report.by_stack.len()).map(|row| is_taken(row).then(Weights::default));
    let mut weights: Vec<_> = weights.collect();
    for (bucket, bytes, blocks) in blocks {
        let row = &report.by_bucket[bucket];
        let Some(sum) = row.stack.and_then(|stack| weights.get_mut(stack)?.as_mut()) else {
            continue;
        };
        for (has_declined, count) in [false, true].into_iter().zip(blocks) {
            let mut found = Found::default();
            found.add((1, bytes), has_declined);
            let one = found.figures();
            for _ in 0..count {
                match row.sampling {
                    0 => sum.add_exact(&one),
                    mean => sum.add_sample(&one, Sample::of(bytes, mean)),
                }
            }
        }
    }
    weights
}

/// Rows of these classes; one for all that are within the resolution of times.
fn lifetimes(classes: &BTreeMap<u8, Found>, resolution: u64) -> Vec<LifetimeRow> {
    let mut rows = Vec::<LifetimeRow>::new();
    for (&class, found) in classes {
        // The first class has those of no measurable time, too.
        let from_ns = if class == 0 { 0 } else { shortest_of(class) };
        let below_ns = shortest_of(class + 1);
        match rows.last_mut() {
            Some(row) if from_ns < resolution => {
                row.below_ns = below_ns;
                row.found.add_found(*found);
            }
            _ => rows.push(LifetimeRow { from_ns, below_ns, found: *found }),
        }
    }
    if let Some(first) = rows.first_mut().filter(|row| row.from_ns < resolution) {
        first.from_ns = 0;
    }
    rows
}

fn names_of(report: &Report) -> Vec<String> {
    let names = report.by_scope.iter().filter_map(|row| row.path.last().cloned());
    let names: std::collections::BTreeSet<_> = names.collect();
    names.into_iter().collect()
}

fn found_block(report: &Report, single: &SingleBlock) -> FoundBlock {
    let life = &single.life;
    let row = &report.by_bucket[life.bucket as usize];
    let (thread, name) = (&report.by_thread[row.thread], &report.by_name[row.name]);
    let block = made!(LiveBlock {
        address: life.address,
        bytes: life.bytes,
        thread: thread.name.clone(),
        thread_id: thread.id,
        group: name.group.clone(),
        name: name.name.clone(),
        path: report.by_scope[row.scope].path.clone(),
        allocated_at_ns: life.allocated_at_ns,
        stack: row.stack,
    });
    FoundBlock { block, single: *single }
}
