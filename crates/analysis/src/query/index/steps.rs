//! Where steps begin.

use super::IndexedPosition;

/// An event that changed a block, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepMoment {
    /// The number of the event.
    pub event: u64,
    /// The last time in the trace before it, in nanoseconds since the start.
    pub at_ns: u64,
}

impl StepMoment {
    /// The event with this number at this time.
    pub fn new(event: u64, at_ns: u64) -> Self {
        Self { event, at_ns }
    }

    /// Later than all events.
    pub(super) const NEVER: Self = Self { event: u64::MAX, at_ns: u64::MAX };
}

/// Where a step begins: between two events that changed a block. A position between these two is exactly
/// here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepStart {
    /// The last event of the step before.
    pub before: StepMoment,
    /// The first event of the step, as far as there is one.
    pub after: StepMoment,
}

impl StepStart {
    /// Between these two events.
    pub fn new(before: StepMoment, after: StepMoment) -> Self {
        Self { before, after }
    }
}

/// The steps of an index, to look positions up in.
pub(super) struct Steps<'a>(&'a [StepStart]);

impl<'a> Steps<'a> {
    pub(super) fn new(steps: &'a [StepStart]) -> Self {
        Self(steps)
    }

    fn last(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    fn position(&self, step: usize, asked_ns: Option<u64>, is_moved: bool) -> IndexedPosition {
        let own = self.0.get(step).map_or(0, |start| start.before.at_ns);
        let asked_ns = asked_ns.unwrap_or(own);
        let at_ns = if is_moved { own } else { asked_ns };
        IndexedPosition { asked_ns, at_ns, is_moved, step: step as u32 }
    }

    /// Before the first event whose time is more than `time`.
    pub(super) fn at_time(&self, time: u64) -> IndexedPosition {
        let next = self.0.partition_point(|start| start.after.at_ns <= time).min(self.last());
        let before = |step: usize| self.0.get(step).map_or(0, |start| start.before.at_ns);
        if before(next) <= time {
            return self.position(next, Some(time), false);
        }
        // The step begins later, and the one before it earlier.
        let is_later_nearer = before(next) - time < time.saturating_sub(before(next.max(1) - 1));
        let nearest = if next == 0 || is_later_nearer { next } else { next - 1 };
        self.position(nearest, Some(time), true)
    }

    /// After event `event`.
    pub(super) fn at_event(&self, event: u64) -> IndexedPosition {
        let next = self.0.partition_point(|start| start.after.event <= event).min(self.last());
        let before = |step: usize| self.0.get(step).map_or(0, |start| start.before.event);
        if before(next) <= event {
            return self.position(next, None, false);
        }
        let is_later_nearer = before(next) - event < event.saturating_sub(before(next.max(1) - 1));
        let nearest = if next == 0 || is_later_nearer { next } else { next - 1 };
        self.position(nearest, None, true)
    }

    /// After all events.
    pub(super) fn end(&self) -> IndexedPosition {
        self.position(self.last(), None, false)
    }
}
