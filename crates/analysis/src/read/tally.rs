//! The counts of a decoder, and its reports of damage.

use super::event::{Damage, Visitor};

/// Counts over all streams.
#[derive(Default)]
pub(super) struct Tally {
    pub events: u64,
    /// By type index.
    pub by_type: Vec<u64>,
    pub damages: u64,
    pub syncs: u64,
    pub holes: u64,
    pub missing: u64,
    /// Whether the number of events of some hole is unknown.
    pub missing_unknown: bool,
    pub late: u64,
    pub first_serial: Option<u64>,
    pub last_serial: Option<u64>,
    /// Offset in the input of the packet being decoded.
    pub offset: Option<u64>,
}

impl Tally {
    /// Reports damage noticed in the packet at `offset`.
    #[cold]
    pub(super) fn damage(
        &mut self,
        visitor: &mut impl Visitor,
        offset: Option<u64>,
        skipped: usize,
        what: String,
    ) {
        self.damages += 1;
        visitor.damage(&Damage { offset, skipped: skipped as u64, what });
    }

    /// Counts one event that is about to be delivered.
    #[inline]
    pub(super) fn event(&mut self, type_index: u32) {
        self.events += 1;
        if let Some(count) = self.by_type.get_mut(type_index as usize) {
            *count += 1;
        }
    }
}
