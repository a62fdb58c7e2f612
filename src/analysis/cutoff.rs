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
    /// Earlier points that the caller wants a report of.
    points: Vec<Point>,
    /// How many of them counting has not come to.
    points_left: usize,
    /// The last event before the next of them that is at an event.
    next_point: NextPoint,
}

/// The number of an event; by default later than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextPoint(u64);

impl Default for NextPoint {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

/// A point that counting comes by.
#[derive(Clone, Debug)]
struct Point {
    until: Until,
    time: Option<u64>,
    report: Option<Box<Report>>,
}

impl Cutoff {
    pub(super) fn set_points(&mut self, points: &[Until]) {
        let point = |&until| Point { until, time: None, report: None };
        self.points = points.iter().map(point).collect();
        self.find_next_point();
    }

    fn find_next_point(&mut self) {
        let left = self.points.iter().filter(|point| point.report.is_none());
        let events = left.clone().filter_map(|point| match point.until {
            Until::Event(last) => Some(last),
            _ => None,
        });
        self.next_point = NextPoint(events.min().unwrap_or(u64::MAX));
        self.points_left = left.count();
    }

    /// Has `build` make the report of each point that is here: before an event of this time, if there is
    /// one, or after the event that was counted last. Returns whether counting has come to all points.
    pub(super) fn pass_points(
        &mut self,
        next: Option<u64>,
        mut build: impl FnMut(&Self) -> Report,
    ) -> bool {
        for at in 0..self.points.len() {
            let Point { until, time, report } = &self.points[at];
            let time = match (until, next) {
                _ if report.is_some() || !self.is_counting() => continue,
                (Until::Time(until), Some(next)) if next > *until => Some(*until),
                (Until::Event(last), None) if self.events >= *last => *time,
                _ => continue,
            };
            // The report is the one of an analyzer that stops here.
            let whole = (self.until, self.time);
            (self.until, self.time) = (*until, time);
            let mut report = build(self);
            if report.totals.peak_bytes > 0 {
                report.peak.to_ns = report.peak.to_ns.or(time.filter(|_| next.is_some()));
            }
            (self.until, self.time) = whole;
            self.points[at].report = Some(Box::new(report));
        }
        self.find_next_point();
        self.points_left == 0
    }

    /// Whether there are points that counting has not come to.
    pub(super) fn is_before_point(&self) -> bool {
        self.points_left > 0
    }

    /// Whether one of the points is after the event that was counted last.
    #[inline]
    pub(super) fn is_at_point(&self) -> bool {
        self.events >= self.next_point.0
    }

    /// The report of each point; `None` if counting did not come to it.
    pub(super) fn points(&self) -> impl Iterator<Item = Option<&Report>> {
        self.points.iter().map(|point| point.report.as_deref())
    }

    /// Nothing more counts.
    pub(super) fn stop_here(&mut self) {
        self.until = Until::Event(self.events);
    }

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
    /// counting, and no report is to be made after an event.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        let has_event = self.next_point != NextPoint::default();
        self.is_counting() && self.until == Until::End && !has_event
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
        let event = Until::Event(self.events);
        for point in self.points.iter_mut().filter(|point| point.until == event) {
            point.time.get_or_insert(time);
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
