//! Scopes that are measured.
//!
//! A measurement is a scope with a number. What is allocated in it, or in a scope inside it, counts
//! for it, on every thread.

use crate::accounts::Accounts;

/// The number that a context in no measurement has in place of a measurement's.
pub(super) const NO_MEASUREMENT: u32 = 0;

/// The deepest level at which measurements are distinguished; a deeper measurement counts for the
/// one around it at this level.
const MAX_DEPTH: u16 = 255;

#[derive(Clone, Debug)]
struct Measurement {
    /// The number of the measurement around it.
    parent: u32,
    depth: u16,
    /// Its number in the accounts.
    measured: u32,
    /// Reallocations in it of blocks that were allocated outside it.
    foreign: u64,
    /// Its id in the stream.
    id: i32,
}

/// All measurements in which something was allocated, outer ones first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurements(Vec<Measurement>);

impl Measurements {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, number: u32) -> Option<&Measurement> {
        self.0.get((number as usize).wrapping_sub(1))
    }

    /// Adds a measurement; returns its number.
    pub(super) fn add(&mut self, id: i32, parent: u32, accounts: &mut Accounts) -> u32 {
        let depth = self.get(parent).map_or(0, |parent| parent.depth) + 1;
        if depth > MAX_DEPTH {
            return parent;
        }
        let measured = accounts.measured_mut().add();
        self.0.push(Measurement { parent, depth, measured, foreign: 0, id });
        self.0.len() as u32
    }

    /// The numbers in the accounts of `measurement` and of all around it.
    pub(super) fn with_enclosing(&self, measurement: u32) -> impl Iterator<Item = u32> {
        let all = std::iter::successors(self.get(measurement), |inner| self.get(inner.parent));
        all.map(|measurement| measurement.measured)
    }

    /// A block of the measurement `owner` was reallocated in the measurement `here`. `here` and the
    /// measurements around it count that, except `owner` and the measurements around `owner`.
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

/// What figures of measurements are made from.
impl Measurements {
    /// The latest measurement with this id: after an id is announced again, it refers to another
    /// measurement.
    pub(crate) fn by_id(&self, id: i32) -> Option<u32> {
        let mut all = self.0.iter();
        all.rposition(|measurement| measurement.id == id).map(|index| index as u32 + 1)
    }

    /// The number of a measurement in the accounts.
    pub(crate) fn measured(&self, measurement: u32) -> Option<u32> {
        self.get(measurement).map(|found| found.measured)
    }

    /// Reallocations in a measurement of blocks that were allocated outside it.
    pub(crate) fn foreign(&self, measurement: u32) -> u64 {
        self.get(measurement).map_or(0, |found| found.foreign)
    }

    /// Returns a test for whether a measurement is `measurement` or within it.
    pub(crate) fn is_within(&self, measurement: u32) -> impl Fn(u32) -> bool {
        // NOTE: a measurement has a smaller number than those within it.
        let first = measurement as usize;
        let mut within = vec![true];
        for inner in self.0.iter().skip(first) {
            let parent = (inner.parent as usize).checked_sub(first);
            within.push(parent.is_some_and(|parent| within[parent]));
        }
        move |inner| (inner as usize).checked_sub(first).is_some_and(|inner| within[inner])
    }
}
