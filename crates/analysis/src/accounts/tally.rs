//! What is counted of each event: the computation of the columns that are counted.

use memledger_document::{Figures, Totals};

/// What was counted in one bucket or one size class. The fields are those of [`Figures`].
///
/// All sums are modulo 2^64. A valid trace never comes near that, and in any other trace
/// the rows still add up to the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub allocations: u64,
    pub frees: u64,
    pub reallocations: u64,
    pub allocated_bytes: u64,
    pub short_lived: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.allocations = self.allocations.wrapping_add(other.allocations);
        self.frees = self.frees.wrapping_add(other.frees);
        self.reallocations = self.reallocations.wrapping_add(other.reallocations);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(other.allocated_bytes);
        self.short_lived = self.short_lived.wrapping_add(other.short_lived);
    }

    /// What was counted since the state `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            allocations: self.allocations.wrapping_sub(before.allocations),
            frees: self.frees.wrapping_sub(before.frees),
            reallocations: self.reallocations.wrapping_sub(before.reallocations),
            allocated_bytes: self.allocated_bytes.wrapping_sub(before.allocated_bytes),
            short_lived: self.short_lived.wrapping_sub(before.short_lived),
        }
    }

    /// The columns of a row that are counted.
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        figures.allocations = self.allocations;
        figures.frees = self.frees;
        figures.reallocations = self.reallocations;
        figures.allocated_bytes = self.allocated_bytes;
        figures.short_lived = self.short_lived;
        figures
    }

    /// Sets those of the total.
    pub(crate) fn set(&self, totals: &mut Totals) {
        totals.allocations = self.allocations;
        totals.frees = self.frees;
        totals.reallocations = self.reallocations;
        totals.allocated_bytes = self.allocated_bytes;
        totals.short_lived = self.short_lived;
    }
}

/// The lower 32 bits of a [`Tally`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LowTally {
    allocations: u32,
    frees: u32,
    reallocations: u32,
    allocated_bytes: u32,
    short_lived: u32,
}

/// Adds `change` to a number of which only the lower 32 bits are here; `upper` and the result are
/// what its upper bits change by.
#[inline(always)]
pub(crate) fn add_low(low: &mut u32, change: u64, upper: &mut u64) -> u64 {
    let sum = u64::from(*low).wrapping_add(change);
    *low = sum as u32;
    *upper = sum & !u64::from(u32::MAX);
    *upper
}

impl LowTally {
    /// Adds `tally`. Returns what the upper bits change by, if they do.
    #[inline(always)]
    pub(crate) fn add(&mut self, tally: &Tally) -> Option<Tally> {
        let mut upper = Tally::default();
        let mut any = add_low(&mut self.allocations, tally.allocations, &mut upper.allocations);
        any |= add_low(&mut self.frees, tally.frees, &mut upper.frees);
        any |= add_low(&mut self.reallocations, tally.reallocations, &mut upper.reallocations);
        any |=
            add_low(&mut self.allocated_bytes, tally.allocated_bytes, &mut upper.allocated_bytes);
        any |= add_low(&mut self.short_lived, tally.short_lived, &mut upper.short_lived);
        (any != 0).then_some(upper)
    }

    /// The whole columns, with these upper bits.
    pub(crate) fn with(&self, upper: &Tally) -> Tally {
        Tally {
            allocations: upper.allocations.wrapping_add(self.allocations.into()),
            frees: upper.frees.wrapping_add(self.frees.into()),
            reallocations: upper.reallocations.wrapping_add(self.reallocations.into()),
            allocated_bytes: upper.allocated_bytes.wrapping_add(self.allocated_bytes.into()),
            short_lived: upper.short_lived.wrapping_add(self.short_lived.into()),
        }
    }
}

// NOTE: subtractions wrap: the sum of combined events can be below zero, even if the counts that it
// is added to never are.
impl Tally {
    #[inline]
    pub(crate) fn allocated(&mut self, bytes: u64) {
        self.allocations += 1;
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
    }

    #[inline]
    pub(crate) fn freed(&mut self, short_lived: bool) {
        self.frees = self.frees.wrapping_add(1);
        self.short_lived += u64::from(short_lived);
    }

    /// The second half of a reallocation; its first half was counted as a free.
    pub(crate) fn reallocated(&mut self, bytes: u64) {
        self.frees = self.frees.wrapping_sub(1);
        self.reallocations = self.reallocations.wrapping_add(1);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
    }

    /// Moves a free that was counted here to `there`.
    pub(crate) fn move_free(&mut self, there: &mut Self) {
        self.frees = self.frees.wrapping_sub(1);
        there.frees = there.frees.wrapping_add(1);
    }

    /// Takes back a free.
    pub(crate) fn take_free(&mut self) {
        self.frees = self.frees.wrapping_sub(1);
    }

    /// A reallocation that was counted has failed.
    pub(crate) fn not_reallocated(&mut self, bytes: u64) {
        self.reallocations = self.reallocations.wrapping_sub(1);
        self.allocated_bytes = self.allocated_bytes.wrapping_sub(bytes);
    }

    /// An allocation that was counted with `old` bytes has `new` bytes.
    pub(crate) fn corrected(&mut self, old: u64, new: u64) {
        self.allocated_bytes = self.allocated_bytes.wrapping_sub(old).wrapping_add(new);
    }
}
