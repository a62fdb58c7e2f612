//! Cycles of the trace to nanoseconds since its start.

use crate::trace::read::Timebase;

/// The time of the trace: it moves at markers only.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    timebase: Timebase,
    /// The time of the last marker; 0 before the first.
    now: u64,
    marked: bool,
    /// Whether a memory event came since the last marker.
    busy: bool,
    resolution: u64,
}

impl Clock {
    pub(super) fn begin(&mut self, start: u64, frequency: u64) {
        self.timebase = Timebase { start, frequency };
    }

    /// Nanoseconds since the start; 0 for a cycle before it or without a known frequency.
    pub(super) fn nanoseconds(&self, cycle: u64) -> u64 {
        self.timebase.nanoseconds(cycle).unwrap_or(0)
    }

    /// A marker at `cycle`. One that goes back leaves the time where it is.
    pub(super) fn mark(&mut self, cycle: u64) {
        let time = self.nanoseconds(cycle).max(self.now);
        if self.marked && self.busy {
            self.resolution = self.resolution.max(time - self.now);
        }
        (self.now, self.marked, self.busy) = (time, true, false);
    }

    /// Notes a memory event.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.busy = true;
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// The distances between markers so far say nothing about those to come.
    pub(super) fn forget_resolution(&mut self) {
        (self.resolution, self.busy) = (0, false);
    }

    /// The largest distance between two markers with a memory event between them.
    pub(super) fn resolution(&self) -> u64 {
        self.resolution
    }
}
