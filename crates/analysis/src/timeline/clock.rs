//! Converts cycles of the trace to nanoseconds since its start.

use crate::read::Timebase;

/// The time of the trace: it moves at markers, and at bookmarks that have a place in the order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    timebase: Timebase,
    /// The time of the last marker or bookmark; 0 before the first.
    now: u64,
    marked: bool,
    /// Whether there was a memory event since the last marker.
    busy: bool,
    resolution: u64,
}

impl Clock {
    /// The trace starts at this cycle, and has this many in a second.
    pub(crate) fn begin(&mut self, start: u64, frequency: u64) {
        self.timebase = Timebase { start, frequency };
    }

    /// The start of the trace, in cycles.
    pub(crate) fn start_cycle(&self) -> u64 {
        self.timebase.start
    }

    /// Nanoseconds since the start; 0 for a cycle before it or without a known frequency.
    pub(crate) fn nanoseconds(&self, cycle: u64) -> u64 {
        self.timebase.nanoseconds(cycle).unwrap_or(0)
    }

    /// A marker or a bookmark at `cycle`. One before the current time does not change it.
    pub(crate) fn mark(&mut self, cycle: u64) {
        let time = self.nanoseconds(cycle).max(self.now);
        if self.marked && self.busy {
            self.resolution = self.resolution.max(time - self.now);
        }
        (self.now, self.marked, self.busy) = (time, true, false);
    }

    /// Notes a memory event.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.busy = true;
    }

    /// Nanoseconds since the start, at the last marker or bookmark.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Forgets the distances between earlier markers, which do not predict later ones.
    pub(crate) fn reset_resolution(&mut self) {
        (self.resolution, self.busy) = (0, false);
    }

    /// The largest distance between two markers with a memory event between them.
    pub(crate) fn resolution(&self) -> u64 {
        self.resolution
    }
}
