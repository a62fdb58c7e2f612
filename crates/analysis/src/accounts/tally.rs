//! What each event adds to the columns that are counted: the computation of a column of
//! `columns.rs`.

use crate::columns::Tally;

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
