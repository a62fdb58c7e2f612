//! Where counting stops, and the report as it was there.

use super::report::{AfterReport, Report};

/// Where an [`Analyzer`](super::Analyzer) stops counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// At the writer's own report, or at the end of a trace without one.
    #[default]
    End,
    /// Before the first event whose time is more than this many nanoseconds after the start.
    Time(u64),
    /// After this many events.
    Event(u64),
}

/// Where counting stops, and what is known about that point.
#[derive(Clone, Debug, Default)]
pub(super) struct Cutoff {
    until: Until,
    /// Events counted so far.
    events: u64,
    /// The time at which counting stops, or that of the writer's own report.
    time: Option<u64>,
    /// The report as it was where counting stopped.
    report: Option<Box<Report>>,
    /// The counts of events after the writer's own report.
    after: AfterReport,
}

impl Cutoff {
    pub(super) fn set_until(&mut self, until: Until) {
        self.until = until;
    }

    /// Whether events still count.
    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        self.report.is_none()
    }

    /// Whether the caller has set where counting stops, and counting has stopped there.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        !self.is_counting() && self.until != Until::End
    }

    /// Whether events can be counted without checking each: no event number and no time ends the
    /// counting.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_counting() && self.until == Until::End
    }

    /// Counts an event if events still count.
    #[inline]
    pub(super) fn count_event(&mut self) {
        if self.is_counting() {
            self.events += 1;
        }
    }

    /// Counts an event; [`is_open`](Self::is_open) must hold.
    #[inline]
    pub(super) fn count_open_event(&mut self) {
        self.events += 1;
    }

    /// The number of events counted so far, which is also the number of the last one.
    #[inline]
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Whether counting stops after the event that was counted last.
    #[inline]
    pub(super) fn is_after_last_event(&self) -> bool {
        matches!(self.until, Until::Event(last) if self.events >= last)
    }

    /// The time that the caller has set as the end of counting, if `time` is later. It is then the
    /// time of the report.
    pub(super) fn is_before(&mut self, time: u64) -> Option<u64> {
        let Until::Time(until) = self.until else { return None };
        (time > until).then(|| {
            self.time.get_or_insert(until);
            until
        })
    }

    /// Notes that the event counted last has this time. If counting stops after that event, `time`
    /// is the time of the report.
    pub(super) fn note_time(&mut self, time: u64) {
        if self.until == Until::Event(self.events) {
            self.time.get_or_insert(time);
        }
    }

    /// The time of the writer's own report, at which counting stops.
    pub(super) fn set_time(&mut self, time: u64) {
        self.time = Some(time);
    }

    /// The duration of the trace up to where counting stopped, or `now`.
    pub(super) fn duration(&self, now: u64) -> u64 {
        match self.time {
            Some(time) if self.until != Until::End => time,
            time => time.unwrap_or(0).max(now),
        }
    }

    /// Counting stops here, with this report.
    pub(super) fn stop(&mut self, report: Report) {
        self.report = Some(Box::new(report));
    }

    /// The report as it was where counting stopped, if it has.
    pub(super) fn report(&self) -> Option<&Report> {
        self.report.as_deref()
    }

    /// Where events after the writer's own report are counted.
    pub(super) fn after_mut(&mut self) -> &mut AfterReport {
        &mut self.after
    }

    /// The counts of events after the writer's own report; zero if the caller has set where
    /// counting stops.
    pub(super) fn after(&self) -> AfterReport {
        if self.until == Until::End { self.after } else { AfterReport::default() }
    }
}
