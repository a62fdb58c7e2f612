//! The peaks of rows and of the total.

/// The moment of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventTime {
    /// Nanoseconds since the start of the trace.
    pub(crate) time: u64,
    /// The number of the event.
    pub(crate) event: u64,
}

/// All live blocks together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) peak_blocks: u64,
    pub(crate) blocks_at_peak: u64,
    /// The time of the peak, and the number of its event.
    pub(crate) peak_at_ns: u64,
    pub(crate) peak_at_event: u64,
    /// The peak generation: the number of new maxima so far.
    pub(crate) generation: u64,
    /// The most bytes that were live since the last point of the timeline.
    pub(crate) most_bytes: u64,
}

/// In place of a peak tracker: the row has none.
pub(super) const NO_TRACKER: u32 = u32::MAX;

/// The live bytes of one row, and their maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeakTracker {
    pub(super) live: u64,
    pub(super) peak: u64,
}

impl PeakTracker {
    /// Adds `bytes`, which may be negative; `most` is the highest intermediate sum.
    #[inline]
    pub(super) fn apply(&mut self, bytes: i64, most: i64) {
        self.peak = self.peak.max(self.live.wrapping_add_signed(most));
        self.live = self.live.wrapping_add_signed(bytes);
    }

    fn subtract(&mut self, bytes: u64) {
        self.live = self.live.wrapping_sub(bytes);
    }
}

/// The peak trackers of all rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Peaks {
    trackers: Vec<PeakTracker>,
    /// The range of each context in `lists`: start and end.
    ranges: Vec<(u32, u32)>,
    /// The trackers of the scopes, groups and names of each context, one context after another.
    lists: Vec<u32>,
}

impl Peaks {
    /// Adds a tracker; returns its number.
    pub(super) fn add(&mut self) -> u32 {
        self.trackers.push(PeakTracker::default());
        self.trackers.len() as u32 - 1
    }

    /// Adds a tracker that starts as a copy of tracker `of`; returns its number.
    pub(super) fn copy(&mut self, of: u32) -> u32 {
        self.trackers.push(self.trackers[of as usize]);
        self.trackers.len() as u32 - 1
    }

    /// A new tracker for these bytes; its number.
    pub(super) fn add_live(&mut self, live: u64, peak: u64) -> u32 {
        self.trackers.push(PeakTracker { live, peak });
        self.trackers.len() as u32 - 1
    }

    /// The peak of a tracker, if there is one with this number.
    pub(super) fn peak(&self, tracker: u32) -> Option<u64> {
        self.trackers.get(tracker as usize).map(|tracker| tracker.peak)
    }

    /// The live bytes of a tracker, if there is one with this number.
    pub(super) fn live(&self, tracker: u32) -> Option<u64> {
        self.trackers.get(tracker as usize).map(|tracker| tracker.live)
    }

    /// Sets the trackers that blocks of `context` count in from now on. An earlier list of the
    /// context stays unused.
    pub(super) fn set_list(&mut self, context: u32, list: &[u32]) {
        let context = context as usize;
        if context >= self.ranges.len() {
            self.ranges.resize(context + 1, (0, 0));
        }
        let start = self.lists.len() as u32;
        self.lists.extend_from_slice(list);
        self.ranges[context] = (start, self.lists.len() as u32);
    }

    /// Adds `bytes`, which may be negative, to a tracker; `most` is the highest intermediate sum.
    #[inline(always)]
    pub(super) fn apply_to(&mut self, tracker: u32, bytes: i64, most: i64) {
        self.trackers[tracker as usize].apply(bytes, most);
    }

    /// Does the same to the trackers of a context.
    #[inline]
    pub(super) fn apply(&mut self, context: u32, bytes: i64, most: i64) {
        let (start, end) = self.ranges[context as usize];
        for &tracker in &self.lists[start as usize..end as usize] {
            self.trackers[tracker as usize].apply(bytes, most);
        }
    }

    /// Moves `bytes` from one context to another, on the same thread.
    pub(super) fn transfer(&mut self, from: u32, to: u32, bytes: u64) {
        let (start, end) = self.ranges[from as usize];
        for &tracker in &self.lists[start as usize..end as usize] {
            self.trackers[tracker as usize].subtract(bytes);
        }
        let (start, end) = self.ranges[to as usize];
        for &tracker in &self.lists[start as usize..end as usize] {
            self.trackers[tracker as usize].apply(bytes as i64, bytes as i64);
        }
    }
}
