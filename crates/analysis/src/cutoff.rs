//! Where counting stops, and the report as it was there.
//!
//! Counting can go through several positions of the trace before it stops at the last.

use super::report::{AfterReport, Report};
use std::collections::VecDeque;

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

/// A position in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// Before the first event whose time is more than this many nanoseconds after the start.
    Time(u64),
    /// After this many events.
    Event(u64),
    /// Where the program first sets the bookmark of this name.
    Bookmark(String),
    /// At the writer's own report, or at the end of a trace without one.
    End,
}

impl Position {
    /// Where counting stops for this position; a bookmark is looked for.
    fn until(&self) -> Until {
        match *self {
            Self::Time(time) => Until::Time(time),
            Self::Event(event) => Until::Event(event),
            Self::Bookmark(_) | Self::End => Until::End,
        }
    }
}

/// A position that counting has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reached {
    /// How many events are before it.
    pub event: u64,
    /// Its time, in nanoseconds since the start.
    pub at_ns: u64,
}

/// Where counting stops, and what is known about that point.
#[derive(Clone, Debug, Default)]
pub(super) struct Cutoff {
    until: Until,
    /// The positions that are still to be reached, in their order; none if only `until` matters. The
    /// last is where counting stops.
    ahead: VecDeque<Position>,
    /// Those that have been reached.
    reached: Vec<Reached>,
    /// The number of a position that is before the one that should precede it.
    disordered: Option<usize>,
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
    /// The event after which the timeline has a point.
    next_sample: u64,
    /// The earlier of these two.
    next_stop: u64,
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
        self.next_stop = self.next_point.0.min(self.next_sample);
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
    pub(super) fn is_at_point(&self) -> bool {
        self.events >= self.next_point.0
    }

    /// The timeline has its next point after this event, or before.
    pub(super) fn set_next_sample(&mut self, event: u64) {
        self.next_sample = event;
        self.next_stop = self.next_point.0.min(event);
    }

    /// Whether the timeline has a point after the event that was counted last.
    pub(super) fn is_at_sample(&self) -> bool {
        self.is_counting() && self.events >= self.next_sample
    }

    /// Whether one of both is there.
    #[inline]
    pub(super) fn is_at_stop(&self) -> bool {
        self.events >= self.next_stop
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

    /// Sets several positions to be reached, in their order.
    pub(super) fn set_positions(&mut self, positions: Vec<Position>) {
        self.ahead = positions.into();
        self.until = self.ahead.front().map_or(Until::End, Position::until);
    }

    /// The bookmark that is the next position.
    pub(super) fn wanted_bookmark(&self) -> Option<&str> {
        match self.ahead.front() {
            Some(Position::Bookmark(name)) => Some(name),
            _ => None,
        }
    }

    /// The event counted last is the next position.
    pub(super) fn set_until_here(&mut self) {
        self.until = Until::Event(self.events);
    }

    /// Whether counting stops at the next position.
    pub(super) fn is_last(&self) -> bool {
        self.ahead.len() <= 1
    }

    /// Notes that the next position is here. Returns whether counting goes on to another; it stops
    /// if not. `bookmarked` is the event of a bookmark.
    pub(super) fn reach(
        &mut self,
        here: Reached,
        bookmarked: impl Fn(&str) -> Option<u64>,
    ) -> bool {
        if self.ahead.is_empty() {
            return false;
        }
        self.ahead.pop_front();
        self.reached.push(here);
        let Some(next) = self.ahead.front() else { return false };
        self.until = next.until();
        let is_before = match next {
            Position::Time(time) => *time < here.at_ns,
            Position::Event(event) => *event < here.event,
            Position::Bookmark(name) => bookmarked(name).is_some_and(|event| event < here.event),
            Position::End => false,
        };
        if is_before {
            self.disordered.get_or_insert(self.reached.len());
        }
        if let Position::Bookmark(name) = next
            && bookmarked(name) == Some(here.event)
        {
            self.until = Until::Event(here.event);
        }
        true
    }

    /// The positions that have been reached.
    pub(super) fn reached(&self) -> &[Reached] {
        &self.reached
    }

    /// The positions that have not been reached.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &Position> {
        self.ahead.iter()
    }

    /// The number of a position that is before the one that should precede it.
    pub(super) fn disordered(&self) -> Option<usize> {
        self.disordered
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

    /// How many events of allocations and frees can be counted without checking each: they have no
    /// times of their own, so only an event number ends the counting among them, or has a report made.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        let last = match self.until {
            _ if !self.is_counting() => return 0,
            Until::End | Until::Time(_) => u64::MAX,
            Until::Event(last) => last,
        };
        last.min(self.next_stop).saturating_sub(self.events).saturating_sub(1)
    }

    /// Counts an event if events still count.
    #[inline]
    pub(super) fn count_event(&mut self) {
        if self.is_counting() {
            self.events += 1;
        }
    }

    /// Counts an event; there must be [`room`](Self::room) for it.
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
            if self.is_last() {
                self.time.get_or_insert(until);
            }
            until
        })
    }

    /// Notes that the event counted last has this time. If counting stops after that event, `time`
    /// is the time of the report.
    pub(super) fn note_time(&mut self, time: u64) {
        if self.until == Until::Event(self.events) && self.is_last() {
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

    /// The same, taken out.
    pub(super) fn take_report(&mut self) -> Option<Box<Report>> {
        self.report.take()
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
