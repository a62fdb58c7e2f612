//! The figures of a measurement: those of a part of the scope tree since the measurement began.
//!
//! Most figures are sums over buckets. The peak is not: the accounts keep it for each measurement,
//! with the bytes that each bucket held at that peak, and reset it when the measurement's number is
//! used again.

use super::accounts::{Bucket, Counts, Tally};
use super::apply::Model;
use super::attribution::{Context, Stream};
use super::callstacks::NO_STACK;
use memledger_document::{Figures, Report};
use std::collections::BTreeMap;

/// The figures of one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredFigures {
    /// What was allocated and freed.
    pub tally: Tally,
    /// Reallocations of its blocks by other code.
    pub foreign_reallocations: u64,
    /// Blocks live now.
    pub live_blocks: u64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// The most bytes that were live at once.
    pub peak_bytes: u64,
}

/// The counts of a measurement's buckets before it began: an earlier measurement may have used the
/// same number.
#[derive(Debug, Default)]
pub struct Baseline {
    buckets: Vec<(u32, Counts)>,
    foreign: u64,
}

/// A scope or a tag, with the figures of the blocks allocated in it; their peak is the measurement's. For a
/// scope: the names from the measurement's own name inwards. For a tag: its groups and its name.
pub type Holder = (Vec<String>, Figures);

/// The scopes, tags and stacks of a measurement, in no order.
#[derive(Debug)]
pub struct Holders {
    /// Each scope.
    pub scopes: Vec<Holder>,
    /// Each tag.
    pub tags: Vec<Holder>,
    /// Rows of sampled stacks count only the blocks of the sample.
    pub by_stack: Vec<Figures>,
    /// The same stacks, in the same order.
    pub stacks: Report,
}

/// Measurements, by their ids in the stream.
impl Model {
    /// Whether a block is live that was allocated in the measurement `id`.
    pub(super) fn is_measurement_live(&self, id: i32) -> bool {
        let Some(measurement) = self.contexts().measurements().by_id(id) else { return false };
        self.buckets_of(measurement).any(|bucket| bucket.counts.live_blocks != 0)
            || self.being_reallocated_in(measurement).next().is_some()
    }

    /// The measurement `id` begins, perhaps not for the first time; none of its blocks is live.
    pub(super) fn begin_measurement(&mut self, id: i32) -> Baseline {
        let measurements = self.contexts().measurements();
        let Some(measurement) = measurements.by_id(id) else { return Baseline::default() };
        let (foreign, measured) =
            (measurements.foreign(measurement), measurements.measured(measurement));
        let buckets = self.buckets_of(measurement);
        let buckets = buckets.map(|bucket| (bucket.number, bucket.counts)).collect();
        if let Some(measured) = measured {
            self.accounts_mut().measured_mut().reset(measured);
        }
        Baseline { buckets, foreign }
    }

    /// What the measurement `id` has done since it began.
    pub(super) fn measured(&self, id: i32, before: &Baseline) -> MeasuredFigures {
        let mut figures = MeasuredFigures::default();
        let measurements = self.contexts().measurements();
        let Some(measurement) = measurements.by_id(id) else { return figures };
        for (_, counts) in self.counts_since(measurement, before) {
            figures.tally.add(&counts.tally);
            figures.live_blocks += counts.live_blocks;
            figures.live_bytes += counts.live_bytes;
        }
        for bytes in self.being_reallocated_in(measurement) {
            figures.tally.frees -= 1;
            figures.live_blocks += 1;
            figures.live_bytes += bytes;
        }
        if let Some(measured) = measurements.measured(measurement) {
            let foreign = measurements.foreign(measurement);
            figures.foreign_reallocations = foreign.wrapping_sub(before.foreign);
            figures.peak_bytes = self.accounts().measured().peak(measured);
        }
        figures
    }

    /// The scopes and the tags of the measurement `id`, and its stacks by their numbers, in no order.
    pub(super) fn holders(
        &self,
        id: i32,
        before: &Baseline,
    ) -> (Vec<Holder>, Vec<Holder>, Vec<(u32, Figures)>) {
        let contexts = self.contexts();
        let measurement = contexts.measurements().by_id(id);
        let measured = measurement.and_then(|number| contexts.measurements().measured(number));
        let (Some(measurement), Some(measured)) = (measurement, measured) else {
            return Default::default();
        };
        let (mut scopes, mut names) = (BTreeMap::new(), BTreeMap::new());
        let mut stacks = BTreeMap::new();
        for (bucket, counts) in self.counts_since(measurement, before) {
            let Context { scope, name, .. } = contexts.get(bucket.context);
            let mut figures = counts.tally.figures();
            figures.live_bytes_at_peak = self.accounts().held_at_peak(&bucket, measured);
            (figures.live_blocks, figures.live_bytes) = (counts.live_blocks, counts.live_bytes);
            scopes.entry(scope).or_insert_with(Figures::default).add(&figures);
            names.entry(name).or_insert_with(Figures::default).add(&figures);
            if bucket.stack != NO_STACK {
                stacks.entry(bucket.stack).or_insert_with(Figures::default).add(&figures);
            }
        }
        let outside = contexts.path_of(id).len().saturating_sub(1);
        let scope = |(scope, figures): (u32, Figures)| {
            let path = contexts.scopes().path(scope).into_iter();
            (path.skip(outside).collect(), figures)
        };
        let tag = |(name, figures): (u32, Figures)| {
            let name = &contexts.names()[name as usize];
            let mut path = contexts.groups().path(name.group);
            path.push(name.text.to_string());
            (path, figures)
        };
        let scopes = scopes.into_iter().map(scope).collect();
        (scopes, names.into_iter().map(tag).collect(), stacks.into_iter().collect())
    }

    /// The buckets of a measurement and of those within it.
    fn buckets_of(&self, measurement: u32) -> impl Iterator<Item = Bucket> {
        let is_of = self.is_of(measurement);
        self.accounts().buckets().filter(move |bucket| is_of(bucket.context))
    }

    /// Returns a test for whether a context is of `measurement` or of a measurement within it.
    fn is_of(&self, measurement: u32) -> impl Fn(u32) -> bool {
        let is_within = self.contexts().measurements().is_within(measurement);
        move |context| is_within(self.contexts().get(context).measurement)
    }

    /// The sizes of a measurement's blocks that are between the two halves of a reallocation, which
    /// another thread is about to complete. The accounts count these blocks as freed.
    fn being_reallocated_in(&self, measurement: u32) -> impl Iterator<Item = u64> {
        let is_of = self.is_of(measurement);
        let blocks = self.streams().all().iter().flat_map(Stream::being_reallocated);
        blocks
            .filter(move |block| is_of(self.accounts().owner(block.bucket).context))
            .map(|block| block.size())
    }

    /// The buckets of a measurement, each with what was counted since `before`.
    fn counts_since<'a>(
        &'a self,
        measurement: u32,
        before: &'a Baseline,
    ) -> impl Iterator<Item = (Bucket, Counts)> {
        self.buckets_of(measurement).map(|bucket| {
            let found = before.buckets.binary_search_by_key(&bucket.number, |(number, _)| *number);
            let before = found.ok().map_or(Counts::default(), |index| before.buckets[index].1);
            (bucket, bucket.counts.since(&before))
        })
    }
}
