//! The positions at which counting makes a report, and at the last of which it stops (`--at`).

use memledger_document::{AfterReport, Report};

/// A position in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// Before the first event whose time is more than this many nanoseconds after the start.
    Time(u64),
    /// After this many events, without those that say which frames a call stack has.
    Event(u64),
    /// Where the program first sets the bookmark of this name.
    Bookmark(String),
    /// At the writer's own report, or at the end of a trace without one.
    #[default]
    End,
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

/// A position that was asked for, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    /// A bookmark that has been set is the event of it.
    pub(super) at: Position,
    pub(super) reached: Option<Reached>,
    /// The report there, if it is kept and is not the last.
    pub(super) report: Option<Box<Report>>,
}

/// Where counting is, where it stops, and the report as it was there.
#[derive(Clone, Debug)]
pub(super) struct Cutoff {
    /// In the order in which they were asked for.
    stops: Vec<Stop>,
    /// Whether the report of each is kept.
    keeps_reports: bool,
    /// How many of them have not been reached.
    ahead: usize,
    /// The earliest event after which one of them may be.
    next_event: u64,
    /// The earliest time of one of them.
    next_time: u64,
    /// The event after which the timeline has a point.
    next_sample: u64,
    /// The earlier of these two events.
    next_stop: u64,
    /// Events counted so far.
    events: u64,
    /// The last event with a time of its own, and this time.
    noted: (u64, u64),
    /// Where counting stopped.
    end: Option<Reached>,
    /// The report as it was there.
    report: Option<Box<Report>>,
    /// The counts of events after the writer's own report.
    after: AfterReport,
}

impl Default for Cutoff {
    fn default() -> Self {
        Self::new(&[Position::End], true)
    }
}

impl Cutoff {
    /// Counting stops at the last of these positions that the trace comes to.
    pub(super) fn new(positions: &[Position], keeps_reports: bool) -> Self {
        let stop = |at: &Position| Stop { at: at.clone(), reached: None, report: None };
        let mut cutoff = Self {
            stops: positions.iter().map(stop).collect(),
            keeps_reports,
            ahead: 0,
            next_event: 0,
            next_time: 0,
            next_sample: 0,
            next_stop: 0,
            events: 0,
            noted: (0, 0),
            end: None,
            report: None,
            after: AfterReport::default(),
        };
        cutoff.find_next();
        cutoff
    }

    fn find_next(&mut self) {
        (self.ahead, self.next_event, self.next_time) = (0, u64::MAX, u64::MAX);
        for stop in self.stops.iter().filter(|stop| stop.reached.is_none()) {
            self.ahead += 1;
            match stop.at {
                Position::Event(event) => self.next_event = event.min(self.next_event),
                Position::Time(time) => self.next_time = time.min(self.next_time),
                Position::Bookmark(_) | Position::End => {}
            }
        }
        self.next_stop = self.next_event.min(self.next_sample);
    }

    /// The next position that is here has been reached: one before the event counted last, if that has the
    /// time `next`, or else one after it, where the time is `now`. Returns its number and where it is.
    pub(super) fn pass(&mut self, next: Option<u64>, now: u64) -> Option<(usize, Reached)> {
        let (at, here) = match next {
            _ if !self.is_counting() => return None,
            Some(next) if next > self.next_time => {
                let event = self.events.saturating_sub(1);
                (Position::Time(self.next_time), Reached { event, at_ns: self.next_time })
            }
            None if self.events >= self.next_event => {
                let at_ns = if self.noted.0 == self.events { self.noted.1 } else { now };
                let event = self.next_event;
                (Position::Event(event), Reached { event, at_ns })
            }
            _ => return None,
        };
        let is_next = |stop: &Stop| stop.reached.is_none() && stop.at == at;
        let number = self.stops.iter().position(is_next)?;
        self.stops[number].reached = Some(here);
        self.find_next();
        Some((number, here))
    }

    /// The event counted last has set a bookmark; `is_it` if it is the first with this name.
    pub(super) fn bookmark(&mut self, is_it: impl Fn(&str) -> bool) {
        for stop in self.stops.iter_mut().filter(|stop| stop.reached.is_none()) {
            if matches!(&stop.at, Position::Bookmark(name) if is_it(name)) {
                stop.at = Position::Event(self.events);
            }
        }
        self.find_next();
    }

    /// Keeps the report of the position with this number.
    pub(super) fn keep(&mut self, number: usize, report: Report) {
        self.stops[number].report = Some(Box::new(report));
    }

    /// Whether the report of each position is kept.
    pub(super) fn keeps_reports(&self) -> bool {
        self.keeps_reports
    }

    /// The positions, in the order in which they were asked for.
    pub(super) fn stops(&self) -> &[Stop] {
        &self.stops
    }

    /// Whether a position is before an event of this time.
    #[inline]
    pub(super) fn is_before(&self, time: u64) -> bool {
        time > self.next_time
    }

    /// Whether a position is after the event that was counted last, or the timeline has a point there.
    #[inline]
    pub(super) fn is_at_stop(&self) -> bool {
        self.events >= self.next_stop
    }

    /// Whether the timeline has a point after the event that was counted last.
    pub(super) fn is_at_sample(&self) -> bool {
        self.is_counting() && self.events >= self.next_sample
    }

    /// The timeline has its next point after this event, or before.
    pub(super) fn set_next_sample(&mut self, event: u64) {
        self.next_sample = event;
        self.next_stop = self.next_event.min(event);
    }

    /// Whether events still count.
    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        self.report.is_none()
    }

    /// Whether all positions have been reached.
    #[inline]
    pub(super) fn has_passed_all(&self) -> bool {
        self.ahead == 0
    }

    /// Whether counting has stopped at the last of the positions.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.has_passed_all() && !self.is_counting()
    }

    /// How many events of allocations and frees can be counted without checking each: they have no
    /// times of their own, so only an event number is a position among them.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        if !self.is_counting() {
            return 0;
        }
        self.next_stop.saturating_sub(self.events).saturating_sub(1)
    }

    /// Counts an event if events still count.
    #[inline]
    pub(super) fn count_event(&mut self) {
        if self.is_counting() {
            self.events += 1;
        }
    }

    /// Counts events; there must be [`room`](Self::room) for them.
    #[inline]
    pub(super) fn count_open_events(&mut self, count: u64) {
        self.events += count;
    }

    /// The number of events counted so far, which is also the number of the last one.
    #[inline]
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Notes that the event counted last has this time.
    pub(super) fn note_time(&mut self, time: u64) {
        self.noted = (self.events, time);
    }

    /// Where counting stopped, or is if it is now `now`.
    pub(super) fn end(&self, now: u64) -> Reached {
        self.end.unwrap_or(Reached { event: self.events, at_ns: now })
    }

    /// Figures are as of here, until the next call.
    pub(super) fn set_end(&mut self, here: Option<Reached>) {
        self.end = here;
    }

    /// Counting stops here, with this report.
    pub(super) fn stop(&mut self, here: Reached, report: Report) {
        (self.end, self.report) = (Some(here), Some(Box::new(report)));
        (self.next_stop, self.next_time) = (u64::MAX, u64::MAX);
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

    /// The counts of events after the writer's own report.
    pub(super) fn after(&self) -> AfterReport {
        self.after
    }
}
