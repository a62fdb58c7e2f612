//! What a measured piece of the program did: the figures of a part of the tree, from a moment on.
//!
//! A measurement is a scope with a number. What is allocated in it, or in a scope inside it, counts
//! for it, on whichever thread. Most figures are sums over cells. The peak is not: the book keeps it
//! for each measurement, with what each cell held then, and resets it when the number is used again.

use super::rows::Book;

#[cfg(feature = "enable")]
use super::{
    Analyzer,
    contexts::Context,
    rows::{Cell, Counts},
    streams::Stream,
};
#[cfg(feature = "enable")]
use std::collections::BTreeMap;

/// In no measurement.
pub(super) const NO_MEASUREMENT: u32 = 0;

/// Measurements within each other that are kept apart; what is deeper counts for the last of them.
const DEEPEST: u16 = 255;

#[derive(Clone, Debug)]
struct Measurement {
    /// The one around it.
    parent: u32,
    depth: u16,
    /// Its number in the book.
    measured: u32,
    /// Reallocations made in it, of blocks that are not its own.
    foreign: u64,
    /// Its id in the stream.
    #[cfg_attr(not(feature = "enable"), expect(dead_code, reason = "nobody measures"))]
    id: i32,
}

/// All measurements in which something was allocated, outer ones first.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurements(Vec<Measurement>);

impl Measurements {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, number: u32) -> Option<&Measurement> {
        self.0.get((number as usize).wrapping_sub(1))
    }

    /// A new one; its number.
    pub(super) fn add(&mut self, id: i32, parent: u32, book: &mut Book) -> u32 {
        let depth = self.get(parent).map_or(0, |parent| parent.depth) + 1;
        if depth > DEEPEST {
            return parent;
        }
        let measured = book.new_measured();
        self.0.push(Measurement { parent, depth, measured, foreign: 0, id });
        self.0.len() as u32
    }

    /// The numbers in the book of `measurement` and of all around it.
    pub(super) fn around(&self, measurement: u32) -> impl Iterator<Item = u32> {
        let all = std::iter::successors(self.get(measurement), |inner| self.get(inner.parent));
        all.map(|measurement| measurement.measured)
    }

    /// A block of `owner` was reallocated in `here`: those around `here`, but not around `owner`,
    /// count it.
    pub(super) fn count_foreign(&mut self, here: u32, owner: u32, by: i64) {
        let (mut at, mut owner) = (here, owner);
        while at != owner {
            // NOTE: a measurement has a larger number than those around it.
            if owner > at {
                owner = self.get(owner).map_or(NO_MEASUREMENT, |owner| owner.parent);
                continue;
            }
            let Some(measurement) = self.0.get_mut((at as usize).wrapping_sub(1)) else { return };
            measurement.foreign = measurement.foreign.wrapping_add_signed(by);
            at = measurement.parent;
        }
    }
}

/// What was measured.
#[cfg(feature = "enable")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) reallocations: u64,
    pub(crate) foreign_reallocations: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak_bytes: u64,
}

/// What a measurement's cells had counted before it began: its number was used before.
#[cfg(feature = "enable")]
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    cells: Vec<(u32, Counts)>,
    foreign: u64,
}

/// A scope or a tag, with what was allocated in it.
#[cfg(feature = "enable")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// A scope's begins with the measurement's own name, a tag's is its group's and its name.
    pub(crate) path: Vec<String>,
    pub(crate) allocations: u64,
    pub(crate) reallocations: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    /// Bytes live when the measurement's total was at its peak.
    pub(crate) bytes_at_peak: u64,
}

#[cfg(feature = "enable")]
impl Analyzer {
    /// An analyzer for the program that it runs in, which may ask for measurements.
    pub(crate) fn measuring() -> Self {
        let mut analyzer = Self::new();
        analyzer.book.measures = true;
        analyzer
    }

    fn measurement(&self, id: i32) -> Option<u32> {
        // The latest: an id that is announced again stands for another.
        let mut all = self.contexts.measurements.0.iter();
        all.rposition(|measurement| measurement.id == id).map(|index| index as u32 + 1)
    }

    /// Whether a cell is of a measurement or one within it.
    fn is_of(&self, measurement: u32) -> impl Fn(&Cell) -> bool {
        // NOTE: a measurement stands before those within it.
        let first = measurement as usize;
        let mut within = vec![true];
        for inner in self.contexts.measurements.0.iter().skip(first) {
            let parent = (inner.parent as usize).checked_sub(first);
            within.push(parent.is_some_and(|parent| within[parent]));
        }
        move |cell| {
            let own = self.contexts.contexts[cell.context as usize].measurement as usize;
            own.checked_sub(first).is_some_and(|own| within[own])
        }
    }

    /// The cells of a measurement, by their numbers.
    fn cells_of(&self, measurement: u32) -> impl Iterator<Item = (u32, &Cell)> {
        let is_of = self.is_of(measurement);
        (0..).zip(&self.book.cells).filter(move |(_, cell)| is_of(cell))
    }

    /// Its blocks between the two halves of a reallocation, which another thread is about to make.
    /// They count as freed.
    fn halfway_of(&self, measurement: u32) -> impl Iterator<Item = u64> {
        let is_of = self.is_of(measurement);
        let halfway = self.streams.iter().flat_map(Stream::halfway);
        halfway
            .filter(move |block| is_of(&self.book.cells[block.owner as usize]))
            .map(|block| block.size())
    }

    /// Whether a block is live that was allocated in the measurement `id`, as far as is known yet.
    pub(crate) fn is_measurement_live(&mut self, id: i32) -> bool {
        self.settle_steps();
        let Some(measurement) = self.measurement(id) else { return false };
        self.cells_of(measurement).any(|(_, cell)| cell.counts.live_blocks != 0)
            || self.halfway_of(measurement).next().is_some()
    }

    /// The measurement `id` begins, perhaps not for the first time; none of its blocks is live.
    pub(crate) fn begin_measurement(&mut self, id: i32) -> Baseline {
        self.settle_steps();
        let Some(measurement) = self.measurement(id) else { return Baseline::default() };
        let cells = self.cells_of(measurement).map(|(number, cell)| (number, cell.counts));
        let cells = cells.collect();
        let Some(found) = self.contexts.measurements.get(measurement) else {
            return Baseline::default();
        };
        let (measured, foreign) = (found.measured, found.foreign);
        self.book.begin_again(measured);
        Baseline { cells, foreign }
    }

    /// What the measurement `id` has done since it began.
    pub(crate) fn measured(&mut self, id: i32, before: &Baseline) -> Figures {
        self.settle_steps();
        let mut figures = Figures::default();
        let Some(number) = self.measurement(id) else { return figures };
        for counts in self.counts_since(number, before).map(|(_, counts)| counts) {
            figures.allocations += counts.tally.allocations;
            figures.frees += counts.tally.frees;
            figures.reallocations += counts.tally.reallocations;
            figures.allocated_bytes += counts.tally.allocated_bytes;
            figures.live_blocks += counts.live_blocks;
            figures.live_bytes += counts.live_bytes;
        }
        for bytes in self.halfway_of(number) {
            figures.frees -= 1;
            figures.live_blocks += 1;
            figures.live_bytes += bytes;
        }
        if let Some(measurement) = self.contexts.measurements.get(number) {
            figures.foreign_reallocations = measurement.foreign.wrapping_sub(before.foreign);
            figures.peak_bytes = self.book.measured_peak(measurement.measured);
        }
        figures
    }

    fn counts_since<'a>(
        &'a self,
        measurement: u32,
        before: &'a Baseline,
    ) -> impl Iterator<Item = (&'a Cell, Counts)> {
        self.cells_of(measurement).map(|(number, cell)| {
            let found = before.cells.binary_search_by_key(&number, |(number, _)| *number);
            let before = found.ok().map_or(Counts::default(), |index| before.cells[index].1);
            (cell, cell.counts.since(&before))
        })
    }

    /// The scopes and the tags of the measurement `id`, in no order.
    pub(crate) fn holders(&mut self, id: i32, before: &Baseline) -> (Vec<Holder>, Vec<Holder>) {
        self.settle_steps();
        let Some(number) = self.measurement(id) else { return Default::default() };
        let measured = self.contexts.measurements.0[number as usize - 1].measured;
        let (mut scopes, mut names) = (BTreeMap::new(), BTreeMap::new());
        for (cell, counts) in self.counts_since(number, before) {
            let Context { scope, name, .. } = self.contexts.contexts[cell.context as usize];
            let at_peak = self.book.held_at_peak(cell, measured);
            add(scopes.entry(scope).or_default(), &counts, at_peak);
            add(names.entry(name).or_default(), &counts, at_peak);
        }
        let outside = self.contexts.path_of(id).len().saturating_sub(1);
        let scope = |(scope, holder): (u32, Holder)| {
            let path = self.contexts.scopes.path(scope).into_iter().skip(outside).collect();
            Holder { path, ..holder }
        };
        let tag = |(name, holder): (u32, Holder)| {
            let name = &self.contexts.names[name as usize];
            let mut path = self.contexts.groups.path(name.group);
            path.push(name.text.to_string());
            Holder { path, ..holder }
        };
        (scopes.into_iter().map(scope).collect(), names.into_iter().map(tag).collect())
    }
}

#[cfg(feature = "enable")]
fn add(holder: &mut Holder, counts: &Counts, bytes_at_peak: u64) {
    holder.bytes_at_peak += bytes_at_peak;
    holder.allocations += counts.tally.allocations;
    holder.reallocations += counts.tally.reallocations;
    holder.allocated_bytes += counts.tally.allocated_bytes;
    holder.live_blocks += counts.live_blocks;
    holder.live_bytes += counts.live_bytes;
}
