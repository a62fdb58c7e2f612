//! Points of the trace and the figures there, at most [`MAX_POINTS`] however long the trace is.
//!
//! A point is taken where the trace has a time, if it is far enough from the point before, and after an event
//! that is far enough from that point. When there are too many points, one of the two distances doubles:
//! the one that more points are kept for. Points that are too near the one before are then merged into the
//! next one. So one pass is enough, and which points there are depends on the order of events only.

use memledger_document::internal::sort;
use memledger_document::{ThreadSeries, TimePoint, TimeSeries, made};

/// The maximum number of points that are kept.
const MAX_POINTS: usize = 2_048;

/// The maximum number of points that are left after points were merged.
const POINTS_LEFT: usize = MAX_POINTS / 4 * 3;

/// The maximum number of threads that have a series.
const MAX_THREADS: usize = 64;

/// The number of these that a report has; the others are summed.
const SHOWN_THREADS: usize = 15;

/// What a thread has allocated up to a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadPoint {
    pub(crate) live_bytes: u64,
    pub(crate) allocated_bytes: u64,
}

/// The points so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    points: Vec<TimePoint>,
    threads: Vec<Thread>,
    /// Threads with a number below this have a series, or had one and are among the others.
    seen: u32,
    /// A point is far enough from the one before if there are more events between them than this,
    events_apart: u64,
    /// or at least this many nanoseconds.
    time_apart: u64,
}

/// The series of a thread: 0 at all points before its own first.
#[derive(Clone, Debug)]
struct Thread {
    number: u32,
    points: Vec<ThreadPoint>,
}

impl Series {
    /// The number of the event after which a point is taken, unless a time comes before.
    pub(crate) fn next_event(&self) -> u64 {
        let last = self.points.last().map_or(0, |point| point.events);
        last.saturating_add(self.events_apart).saturating_add(1)
    }

    /// Whether a point is taken at this time, after `events` events.
    #[inline]
    pub(crate) fn wants(&self, at_ns: u64, events: u64) -> bool {
        let last = self.points.last().copied().unwrap_or_default();
        let is_new = at_ns > last.at_ns || events > last.events;
        is_new && at_ns.saturating_sub(last.at_ns) >= self.time_apart
    }

    /// Takes a point. `thread` has the figures of the thread with a number, of which there are `threads`.
    pub(crate) fn take(
        &mut self,
        point: TimePoint,
        threads: usize,
        thread: impl Fn(u32) -> ThreadPoint,
    ) {
        for number in self.seen..threads as u32 {
            self.add_thread(number, &thread);
        }
        self.seen = threads as u32;
        self.points.push(point);
        let count = self.points.len();
        for series in &mut self.threads {
            series.points.resize(count - 1, ThreadPoint::default());
            series.points.push(thread(series.number));
        }
        if count > MAX_POINTS {
            self.thin();
        }
    }

    /// Adds a thread. If there are too many, the one that has allocated least has no series any more.
    fn add_thread(&mut self, number: u32, thread: impl Fn(u32) -> ThreadPoint) {
        if self.threads.len() >= MAX_THREADS {
            let allocated = |at: &usize| thread(self.threads[*at].number).allocated_bytes;
            let least = (0..self.threads.len()).min_by_key(allocated);
            least.map(|at| self.threads.remove(at));
        }
        self.threads.push(Thread { number, points: Vec::new() });
    }

    /// Whether `to` is far enough from `from`, by the time and by the events between them.
    fn is_far(&self, from: &TimePoint, to: &TimePoint) -> [bool; 2] {
        let (time, events) = (to.at_ns - from.at_ns, to.events - from.events);
        [time >= self.time_apart, events > self.events_apart]
    }

    /// Doubles distances until enough points are merged.
    #[cold]
    fn thin(&mut self) {
        while self.points.len() > POINTS_LEFT {
            let neighbours = self.points.iter().zip(&self.points[1..]);
            let kept_for = neighbours.map(|(from, to)| self.is_far(from, to));
            let by_one = kept_for.fold([0, 0], |[by_time, by_events], far| match far {
                [true, false] => [by_time + 1, by_events],
                [false, true] => [by_time, by_events + 1],
                _ => [by_time, by_events],
            });
            let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
            let doubled = |apart: u64, range: u64| {
                apart.saturating_mul(2).max(range / MAX_POINTS as u64).max(1)
            };
            if by_one[0] > by_one[1] {
                self.time_apart = doubled(self.time_apart, last.at_ns - first.at_ns);
            } else {
                self.events_apart = doubled(self.events_apart, last.events - first.events);
            }
            self.merge();
        }
    }

    /// Merges each point that is too near the one before into the next one.
    fn merge(&mut self) {
        let mut kept: Vec<usize> = Vec::with_capacity(self.points.len());
        let mut peak = 0;
        for at in 0..self.points.len() {
            let point = self.points[at];
            peak = point.peak_bytes.max(peak);
            let before = kept.last().map(|&before| &self.points[before]);
            let is_far = before.is_none_or(|before| self.is_far(before, &point) != [false; 2]);
            if is_far || at + 1 == self.points.len() {
                self.points[at].peak_bytes = std::mem::take(&mut peak);
                kept.push(at);
            }
        }
        pick(&mut self.points, &kept);
        self.threads.iter_mut().for_each(|thread| pick(&mut thread.points, &kept));
    }

    /// An upper estimate of the bytes needed to make a report of them and to write it.
    pub(crate) fn report_bytes(&self) -> usize {
        let point = size_of::<TimePoint>() + self.threads.len() * size_of::<ThreadPoint>();
        4 * point * self.points.len()
    }

    /// The points so far, and `now` as the last. `thread` has the figures of the thread with a
    /// number, of which there are `threads`; `row` is its row in the report.
    pub(crate) fn report(
        &self,
        mut now: TimePoint,
        threads: usize,
        thread: impl Fn(u32) -> ThreadPoint,
        row: impl Fn(u32) -> usize,
    ) -> TimeSeries {
        let mut with_now = self.clone();
        let last = self.points.last().copied();
        now.at_ns = now.at_ns.max(last.map_or(0, |last| last.at_ns));
        if last.map(|last| (last.at_ns, last.events)) != Some((now.at_ns, now.events)) {
            with_now.take(now, threads, thread);
        }
        let Self { points, mut threads, .. } = with_now;
        threads.retain(|thread| thread.points.iter().any(|at| *at != ThreadPoint::default()));
        // A stable sort: threads are in the order in which they were first seen.
        sort::by_key(&mut threads, |thread| {
            std::cmp::Reverse(thread.points.last().map(|last| last.allocated_bytes))
        });
        threads.truncate(SHOWN_THREADS);
        let mut others = made!(ThreadSeries {
            thread: None,
            live_bytes: points.iter().map(|point| point.live_bytes).collect(),
            allocated_bytes: points.iter().map(|point| point.allocated_bytes).collect(),
        });
        let series = threads.iter().map(|thread| {
            let figures = || thread.points.iter();
            let sums = others.live_bytes.iter_mut().zip(&mut others.allocated_bytes);
            for (point, (live, allocated)) in figures().zip(sums) {
                *live = live.wrapping_sub(point.live_bytes);
                *allocated = allocated.wrapping_sub(point.allocated_bytes);
            }
            made!(ThreadSeries {
                thread: Some(row(thread.number)),
                live_bytes: figures().map(|point| point.live_bytes).collect(),
                allocated_bytes: figures().map(|point| point.allocated_bytes).collect(),
            })
        });
        let mut threads: Vec<_> = series.collect();
        let is_zero = |figures: &[u64]| figures.iter().all(|&figure| figure == 0);
        if !is_zero(&others.live_bytes) || !is_zero(&others.allocated_bytes) {
            threads.push(others);
        }
        made!(TimeSeries { points, threads })
    }
}

/// Leaves the elements at these positions, which ascend.
fn pick<T: Copy>(all: &mut Vec<T>, kept: &[usize]) {
    for (to, &from) in kept.iter().enumerate() {
        all[to] = all[from];
    }
    all.truncate(kept.len());
}
