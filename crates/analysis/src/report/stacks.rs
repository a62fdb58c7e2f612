//! The rows of stacks, and the frames that they consist of.

use super::build::{Sources, order};
use super::rows::{Frame, StackKind, StackRow};
use super::sums::by_row;
use super::types::Report;
use crate::accounts::Bucket;
use crate::callstacks::{Location, NO_FILE, NO_STACK, StackEnd};
use crate::columns::{Figures, Weights};
use crate::hash::{FoldHash, IntMap};
use crate::symbols::Module;
use std::hash::{BuildHasher, Hash, Hasher};

/// The rows of stacks, with what they refer to. All are empty in a trace without stacks.
#[derive(Default)]
pub(super) struct StackTable {
    pub(super) rows: Vec<StackRow>,
    pub(super) frames: Vec<Frame>,
    pub(super) modules: Vec<Module>,
    /// By stack: its row.
    pub(super) row_of: Vec<Option<usize>>,
}

/// The key of a row: no two rows have the same.
type Key = (StackKind, Vec<u32>, StackEnd);

impl StackTable {
    pub(super) fn of(sources: &Sources<'_>) -> Self {
        let (accounts, stacks) = (sources.model.accounts(), sources.model.callstacks());
        if !accounts.has_stacks() {
            return Self::default();
        }
        let contexts = sources.model.contexts();
        let is_in_scope = sources.scope.as_ref().map(|scope| {
            let all = contexts.scopes();
            let shows = |node| all.path(node).join(" > ").to_lowercase().contains(scope);
            (0..all.nodes().len() as u32).map(shows).collect::<Vec<_>>()
        });
        let stack_of = |bucket: &Bucket| {
            let scope = contexts.get(bucket.context).scope as usize;
            is_in_scope.as_ref().is_none_or(|shows| shows[scope]).then_some(bucket.stack)
        };
        let figures = by_row(accounts, stacks.len(), stack_of);
        let mut weights = vec![None; stacks.len()];
        if accounts.sampling() > 0 {
            for (number, bucket) in accounts.buckets().iter().enumerate() {
                let Some(stack) = stack_of(bucket).filter(|&stack| stack != NO_STACK) else {
                    continue;
                };
                let sum: &mut Weights = weights[stack as usize].get_or_insert_default();
                match accounts.weights(number as u32) {
                    Some(sampled) => sum.add(&sampled),
                    None => sum.add_exact(&bucket.figures(accounts.total().generation)),
                }
            }
        }
        let mut builder = Builder { table: Self::default(), sources, numbers: Numbers::default() };
        for (stack, (figures, weights)) in figures.into_iter().zip(weights).enumerate() {
            builder.add(stack as u32, figures, weights, is_in_scope.is_some());
        }
        builder.finish(stacks.len())
    }
}

impl Sources<'_> {
    /// A report of these stacks only, in their order and without figures.
    pub(crate) fn stacks(&self, stacks: &[u32]) -> Report {
        let numbers = Numbers::default();
        let mut builder = Builder { table: StackTable::default(), sources: self, numbers };
        let row = |&stack| {
            let (kind, frames, end) = builder.key(stack);
            StackRow { kind, frames, end, ..StackRow::default() }
        };
        let by_stack = stacks.iter().map(row).collect();
        let StackTable { frames, modules, .. } = builder.table;
        let accounts = self.model.accounts();
        let stack_sampling_bytes = Some(accounts.sampling()).filter(|&mean| mean > 0);
        Report { by_stack, frames, modules, stack_sampling_bytes, ..Report::default() }
    }
}

/// The frames and modules that have a number in the report.
#[derive(Default)]
struct Numbers {
    by_location: IntMap<u32, u32>,
    frames: IntMap<(u32, u64), u32>,
    modules: IntMap<u32, usize>,
    /// Rows by a hash of their key; one whose hash is taken has the next that is not.
    rows: IntMap<u64, usize>,
    /// What keys are hashed with.
    hash: FoldHash,
}

struct Builder<'a> {
    table: StackTable,
    sources: &'a Sources<'a>,
    numbers: Numbers,
}

impl Builder<'_> {
    /// Adds the figures of a stack to its row. Stacks that have the same frames share one: their ids
    /// were used before their specs were read, or their modules were announced later.
    fn add(
        &mut self,
        stack: u32,
        figures: Option<Figures>,
        weights: Option<Weights>,
        is_part: bool,
    ) {
        let figures = figures.filter(|figures| *figures != Figures::default());
        self.table.row_of.push(None);
        let Some(mut figures) = figures else { return };
        // NOTE: the peaks of a stack's part in some scopes are not kept.
        figures.peak_bytes =
            if is_part { 0 } else { self.sources.model.accounts().stack_peak(stack) };
        let weights = weights.map(Box::new);
        let key = self.key(stack);
        let index = self.row(&key);
        self.table.row_of[stack as usize] = Some(index);
        match self.table.rows.get_mut(index) {
            None => {
                let (kind, frames, end) = key;
                self.table.rows.push(StackRow { kind, frames, end, figures, weights });
            }
            Some(row) => {
                row.figures.add(&figures);
                row.figures.add_moves(&figures);
                // NOTE: not more than it was; the accounts have the two peaks apart.
                let Figures { live_bytes, live_bytes_at_peak, peak_bytes, .. } = row.figures;
                let least = live_bytes.max(live_bytes_at_peak);
                row.figures.peak_bytes = peak_bytes.max(figures.peak_bytes).max(least);
                if let (Some(sum), Some(weights)) = (&mut row.weights, weights) {
                    sum.add(&weights);
                }
            }
        }
    }

    /// The number of the row of a key, or the next number for a new row.
    ///
    /// PERF: the map has no copy of the frames, which the rows have already.
    fn row(&mut self, key: &Key) -> usize {
        let (kind, frames, end) = key;
        let mut hasher = self.numbers.hash.build_hasher();
        (*kind as u32, *end as u32).hash(&mut hasher);
        frames.iter().for_each(|&frame| hasher.write_u32(frame));
        let mut hash = hasher.finish();
        loop {
            let next = self.table.rows.len();
            let index = *self.numbers.rows.entry(hash).or_insert(next);
            let row = self.table.rows.get(index);
            if row.is_none_or(|row| (row.kind, &row.frames, row.end) == (*kind, frames, *end)) {
                return index;
            }
            hash = hash.wrapping_add(1);
        }
    }

    fn key(&mut self, stack: u32) -> Key {
        let stacks = self.sources.model.callstacks();
        let Some(node) = stacks.node(stack) else {
            let kind = if stack == NO_STACK { StackKind::NotTaken } else { StackKind::Unknown };
            return (kind, Vec::new(), StackEnd::Complete);
        };
        let (locations, end) = stacks.locations(node);
        // A stack without frames says why it has none.
        let is_other = locations.is_empty() && end == StackEnd::Complete;
        let kind = if is_other { StackKind::Other } else { StackKind::Known };
        (kind, locations.into_iter().map(|location| self.frame(location)).collect(), end)
    }

    fn frame(&mut self, location: u32) -> u32 {
        if let Some(&frame) = self.numbers.by_location.get(&location) {
            return frame;
        }
        let stacks = self.sources.model.callstacks();
        let Location { file, offset } = stacks.location(location);
        let (frames, modules) = (&mut self.table.frames, &mut self.table.modules);
        let frame = *self.numbers.frames.entry((file, offset)).or_insert_with(|| {
            let module = (file != NO_FILE).then(|| {
                *self.numbers.modules.entry(file).or_insert_with(|| {
                    modules.push(stacks.files()[file as usize].clone());
                    modules.len() - 1
                })
            });
            frames.push(Frame { module, offset, functions: Vec::new() });
            frames.len() as u32 - 1
        });
        self.numbers.by_location.insert(location, frame);
        frame
    }

    /// Sorts the rows.
    fn finish(self, stacks: usize) -> StackTable {
        let mut table = self.table;
        let mut numbers: Vec<_> = (0..table.rows.len()).collect();
        // NOTE: a stable sort: equal rows are in the order in which their stacks were first seen.
        numbers.sort_by(|&a, &b| order(&table.rows[a].figures, &table.rows[b].figures));
        let mut place = vec![0; numbers.len()];
        for (at, &number) in numbers.iter().enumerate() {
            place[number] = at;
        }
        let mut rows: Vec<_> = std::mem::take(&mut table.rows).into_iter().map(Some).collect();
        table.rows = numbers.iter().filter_map(|&number| rows[number].take()).collect();
        table.row_of.resize(stacks, None);
        for row in table.row_of.iter_mut().flatten() {
            *row = place[*row];
        }
        table
    }
}
