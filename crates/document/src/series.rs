//! How the figures of all blocks went.

/// How live and allocated memory went, from the start of the trace to the moment of the report.
///
/// Points are at times of the trace, and between times that are far apart after a fixed number of events: at
/// most 2,050 points, however long the trace is. The last is the moment of the report. Only
/// [`peak_bytes`](TimePoint::peak_bytes) of a point is about more than one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSeries {
    /// The points, in the order of events.
    pub points: Vec<TimePoint>,
    /// The threads that have allocated most, and then the others together: at each point, they sum to
    /// the figures of the point.
    pub threads: Vec<ThreadSeries>,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimePoint {
    /// The last time in the trace before it, in nanoseconds since the start.
    pub at_ns: u64,
    /// The number of events before it.
    pub events: u64,
    /// Bytes live then.
    pub live_bytes: u64,
    /// Blocks live then.
    pub live_blocks: u64,
    /// The most bytes that were live at any event since the point before.
    pub peak_bytes: u64,
    /// All bytes allocated so far.
    pub allocated_bytes: u64,
    /// All allocations so far.
    pub allocations: u64,
    /// All frees so far. A reallocation of which only the first half has happened counts as one.
    pub frees: u64,
    /// All reallocations so far.
    pub reallocations: u64,
}

/// One thread, or the threads that have no series of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadSeries {
    /// The thread: an index of [`Report::by_thread`](crate::Report::by_thread). `None`: all others.
    pub thread: Option<usize>,
    /// At each point, the live bytes that it has allocated.
    pub live_bytes: Vec<u64>,
    /// At each point, all bytes that it has allocated so far.
    pub allocated_bytes: Vec<u64>,
}
