//! The columns that only grow, but for corrections.

/// What was counted in one bucket or one size class.
///
/// Bytes are summed modulo 2^64: a sane trace never comes near, and in any other the rows still
/// add up to the total.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) allocations: u64,
    /// Includes reallocations between their two halves.
    pub(crate) frees: u64,
    pub(crate) reallocations: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) short_lived: u64,
}

// NOTE: combined events can have a sum below zero, whatever the counts that it is added to.
impl Tally {
    #[inline]
    pub(in crate::analysis) fn allocated(&mut self, bytes: u64) {
        self.allocations += 1;
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
    }

    #[inline]
    pub(in crate::analysis) fn freed(&mut self, short_lived: bool) {
        self.frees = self.frees.wrapping_add(1);
        self.short_lived += u64::from(short_lived);
    }

    /// The second half of a reallocation; its first half was counted as a free.
    pub(in crate::analysis) fn reallocated(&mut self, bytes: u64) {
        self.frees = self.frees.wrapping_sub(1);
        self.reallocations = self.reallocations.wrapping_add(1);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
    }

    /// Moves a free that was counted here to `there`.
    pub(in crate::analysis) fn move_free(&mut self, there: &mut Self) {
        self.frees = self.frees.wrapping_sub(1);
        there.frees = there.frees.wrapping_add(1);
    }

    /// A reallocation that was counted has failed.
    pub(in crate::analysis) fn not_reallocated(&mut self, bytes: u64) {
        self.reallocations = self.reallocations.wrapping_sub(1);
        self.allocated_bytes = self.allocated_bytes.wrapping_sub(bytes);
    }

    /// An allocation that was counted with `old` bytes has `new` bytes.
    pub(in crate::analysis) fn corrected(&mut self, old: u64, new: u64) {
        self.allocated_bytes = self.allocated_bytes.wrapping_sub(old).wrapping_add(new);
    }

    pub(in crate::analysis) fn add(&mut self, other: &Self) {
        let add = |to: &mut u64, by: u64| *to = to.wrapping_add(by);
        add(&mut self.allocations, other.allocations);
        add(&mut self.frees, other.frees);
        add(&mut self.reallocations, other.reallocations);
        add(&mut self.allocated_bytes, other.allocated_bytes);
        add(&mut self.short_lived, other.short_lived);
    }

    /// What was counted since it was `before`.
    #[cfg(feature = "enable")]
    pub(in crate::analysis) fn since(&self, before: &Self) -> Self {
        Self {
            allocations: self.allocations.wrapping_sub(before.allocations),
            frees: self.frees.wrapping_sub(before.frees),
            reallocations: self.reallocations.wrapping_sub(before.reallocations),
            allocated_bytes: self.allocated_bytes.wrapping_sub(before.allocated_bytes),
            short_lived: self.short_lived.wrapping_sub(before.short_lived),
        }
    }
}
