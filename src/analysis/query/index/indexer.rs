//! Makes an index while a trace is read.
//!
//! The step in which a block became live follows from the time of its first allocation, which is kept
//! with it anyway. A table has the other blocks: those that were reallocated in a later step, and those
//! that became live after a step that began between two times of the trace.
//!
//! A step begins after the event that reached the peak. It is not known before the end which event that
//! is. So what follows an event that could be it is kept aside, until the step ends or another event
//! reaches more.

use super::QueryIndex;
use super::begun::Begun;
use super::rows::{Amendment, Blocks, IndexRow, key_in_step, key_of, row, row_of};
use super::steps::{StepMoment, StepStart};
use crate::analysis::cutoff::Position;
use crate::analysis::hash::IntMap;
use crate::analysis::observer::{BlockChange, BlockEvent, BlockObserver};

/// How large an index gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexLimits {
    /// The most steps.
    pub steps: usize,
    /// The most rows, of 40 bytes; some more, if the trace has nearly as many buckets.
    pub rows: usize,
    /// How many events are kept aside, of 112 bytes, that follow an event that may be the peak.
    pub aside: usize,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self { steps: 4096, rows: 4 << 20, aside: 1 << 16 }
    }
}

/// At most this many bookmarks begin a step in any case.
const MAX_BOOKMARKS: usize = 1000;

/// The fewest steps that are left when steps become one.
const MIN_STEPS: usize = 16;

/// At most this many reallocations are open at once on one stream.
const MAX_OPEN: usize = 16;

/// A block of fewer bytes has a size that is not corrected.
const LARGE: u64 = 1 << 30;

/// Makes a [`QueryIndex`], as an observer of an [`Analyzer`](crate::analysis::Analyzer).
///
/// Its memory is limited ([`IndexLimits`]), but for a table of blocks that were reallocated later than
/// they were allocated, 24 bytes each.
#[derive(Clone, Debug)]
pub struct QueryIndexer {
    limits: IndexLimits,
    steps: Vec<StepStart>,
    /// Of each step but the first: the last time before it.
    times: Vec<u64>,
    /// PERF: the last time that was searched in `times`, and its step: blocks that end one after the other often
    /// began at the same time.
    found: (u64, u32),
    /// The events after which a step begins in any case.
    bookmarks: Vec<u64>,
    /// If these are not `None`, a step begins nowhere else: positions that are still to come.
    only: Option<Vec<Position>>,
    /// How many times of the trace a step has, and how many the present one has.
    times_per_step: u32,
    times_in_step: u32,
    /// The last event.
    last: StepMoment,
    live_bytes: u64,
    peak_bytes: u64,
    /// The last event that reached the peak.
    peak: StepMoment,
    /// What has happened since, if that was in this step.
    aside: Option<Vec<(BlockEvent, BlockChange)>>,
    begun: Begun,
    /// In their order: each step adds its own.
    rows: Vec<IndexRow>,
    amendments: IntMap<AmendmentKey, (i64, i64)>,
    /// By bucket: blocks that have begun and ended in this step.
    short: Vec<Blocks>,
    /// The buckets with such blocks.
    short_of: Vec<u32>,
    /// By step and bucket: older blocks that have ended in this step.
    ended: IntMap<u64, Blocks>,
    /// By step and bucket: the blocks that are live.
    live: IntMap<u64, Blocks>,
    streams: Vec<Stream>,
}

/// Begun, ended, bucket, until, and whether it is about allocations.
type AmendmentKey = (u32, u32, u32, u32, u8);

/// The reallocations of one stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Those of which the first half has happened.
    open: Vec<Ended>,
    /// The last one that has happened.
    last: Realloc,
    /// The step of the last block so large that its size may be corrected.
    large: u32,
}

/// A block that was ended by a reallocation, event `event`.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    event: u64,
    begun: u32,
    ended: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Realloc {
    before: Ended,
    bucket_before: u32,
    bytes_before: u64,
    step: u32,
}

impl Default for QueryIndexer {
    fn default() -> Self {
        Self::new(IndexLimits::default())
    }
}

impl QueryIndexer {
    /// An indexer that has seen no event.
    pub fn new(limits: IndexLimits) -> Self {
        Self {
            limits,
            steps: vec![StepStart::new(StepMoment::default(), StepMoment::NEVER)],
            times: Vec::new(),
            // A time that no trace has.
            found: (u64::MAX, 0),
            bookmarks: Vec::new(),
            only: None,
            times_per_step: 1,
            times_in_step: 0,
            last: StepMoment::default(),
            live_bytes: 0,
            peak_bytes: 0,
            peak: StepMoment::default(),
            aside: None,
            begun: Begun::default(),
            rows: Vec::new(),
            amendments: IntMap::default(),
            short: Vec::new(),
            short_of: Vec::new(),
            ended: IntMap::default(),
            live: IntMap::default(),
            streams: Vec::new(),
        }
    }

    /// An indexer whose steps begin at these positions only, exactly, which are times and events.
    pub fn at(positions: &[Position]) -> Self {
        let mut indexer = Self::new(IndexLimits::default());
        indexer.only = Some(positions.to_vec());
        indexer
    }

    /// Whether one of the positions to come is before this event, which is none of them any more.
    fn passes(&mut self, next: StepMoment) -> bool {
        let Some(only) = &mut self.only else { return false };
        let before = only.len();
        only.retain(|position| match *position {
            Position::Time(time) => next.at_ns <= time,
            Position::Event(event) => next.event <= event,
            Position::Bookmark(_) | Position::End => false,
        });
        only.len() < before
    }

    /// The number of the present step.
    #[inline]
    fn step(&self) -> u32 {
        self.times.len() as u32
    }

    /// The step that blocks of this time become live in, unless they are in the table.
    #[inline]
    fn step_of(&mut self, at_ns: u64) -> u32 {
        if self.times.last().is_none_or(|&last| last < at_ns) {
            return self.step();
        }
        if at_ns != self.found.0 {
            self.found = (at_ns, self.times.partition_point(|&time| time < at_ns) as u32);
        }
        self.found.1
    }

    #[inline]
    fn begun(&mut self, event: &BlockEvent) -> u32 {
        let step = self.begun.get((event.heap, event.address));
        step.unwrap_or_else(|| self.step_of(event.allocated_at_ns))
    }

    /// A block becomes live, since this step.
    #[inline]
    fn begin(&mut self, event: &BlockEvent, step: u32) {
        if event.bytes >= LARGE {
            self.stream(event.stream).large = step;
        }
        if self.step_of(event.allocated_at_ns) != step {
            self.begun.insert((event.heap, event.address), step);
        }
    }

    /// A block ends. Returns the step in which it became live.
    #[inline]
    fn end(&mut self, event: &BlockEvent) -> u32 {
        let step = self.step();
        let begun = self.begun.remove((event.heap, event.address));
        let begun = begun.unwrap_or_else(|| self.step_of(event.allocated_at_ns));
        let sum = if begun == step {
            let bucket = event.bucket as usize;
            if bucket >= self.short.len() {
                self.short.resize(bucket + 1, Blocks::default());
            }
            let sum = &mut self.short[bucket];
            if sum.blocks == 0 {
                self.short_of.push(event.bucket);
            }
            sum
        } else {
            self.ended.entry(key_of(begun, event.bucket)).or_default()
        };
        sum.add(event.bytes);
        begun
    }

    fn stream(&mut self, stream: u16) -> &mut Stream {
        let index = usize::from(stream);
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }

    /// Adds blocks that count for some rules or positions only.
    fn amend(
        &mut self,
        (begun, ended, bucket): (u32, u32, u32),
        (blocks, bytes): (i64, u64),
        until: u32,
        is_allocation: bool,
    ) {
        let key = (begun, ended, bucket, until, u8::from(is_allocation));
        let bytes = (bytes as i64).wrapping_mul(if blocks < 0 { -1 } else { 1 });
        let sum = self.amendments.entry(key).or_default();
        *sum = (sum.0.wrapping_add(blocks), sum.1.wrapping_add(bytes));
    }

    /// What happens to a block, in this step.
    #[inline]
    fn apply(&mut self, event: &BlockEvent, change: BlockChange) {
        let step = self.step();
        match change {
            BlockChange::Allocated => self.begin(event, step),
            BlockChange::Freed { .. } | BlockChange::Left => {
                self.end(event);
            }
            BlockChange::ReallocBegun => {
                let begun = self.end(event);
                let open = &mut self.stream(event.stream).open;
                if open.len() == MAX_OPEN {
                    open.remove(0);
                }
                open.push(Ended { event: event.number, begun, ended: step });
            }
            BlockChange::Reallocated { begun, bytes_before, bucket_before, .. } => {
                let stream = self.stream(event.stream);
                let open = stream.open.iter().rposition(|ended| ended.event == begun);
                let before = open.map_or(Ended::default(), |at| stream.open.remove(at));
                stream.last = Realloc { before, bucket_before, bytes_before, step };
                self.begin(event, step);
            }
            BlockChange::Returned => {
                self.begin(event, step);
                // It becomes live, but is not allocated.
                self.amend(
                    (step, IndexRow::NEVER, event.bucket),
                    (-1, event.bytes),
                    IndexRow::NEVER,
                    true,
                );
            }
            change => self.apply_rare(event, change),
        }
    }

    #[cold]
    fn apply_rare(&mut self, event: &BlockEvent, change: BlockChange) {
        const NEVER: u32 = IndexRow::NEVER;
        let (step, bytes) = (self.step(), event.bytes);
        match change {
            BlockChange::Moved { from } => {
                let begun = self.begun(event);
                for (bucket, blocks) in [(event.bucket, -1), (from, 1)] {
                    // It was allocated in the bucket before, and was live in it until here.
                    self.amend((begun, NEVER, bucket), (blocks, bytes), NEVER, true);
                    if begun < step {
                        self.amend((begun, NEVER, bucket), (blocks, bytes), step, false);
                    }
                }
            }
            BlockChange::Corrected { bytes_before, is_live } => {
                let begun = self.stream(event.stream).large;
                let more = bytes.wrapping_sub(bytes_before);
                let row = (begun, NEVER, event.bucket);
                if !is_live {
                    // The row of the block has the size before.
                    self.amend(row, (0, more), NEVER, true);
                }
                if begun < step {
                    self.amend(row, (0, more.wrapping_neg()), step, true);
                    if is_live {
                        self.amend(row, (0, more.wrapping_neg()), step, false);
                    }
                }
            }
            BlockChange::ReallocFailed { is_live } => {
                let Realloc { before, bucket_before, bytes_before, step: made } =
                    self.stream(event.stream).last;
                // Until here, a block had ended and another had become live. Neither has happened.
                let ended = (before.begun, before.ended, bucket_before);
                self.amend(ended, (-1, bytes_before), NEVER, false);
                self.amend(ended, (1, bytes_before), step, false);
                // The row of the block that had ended counts as an allocation, rightly. So does that of
                // the block that continues, which is another one only until here.
                if is_live {
                    let continued = (before.begun, NEVER, event.bucket);
                    self.amend(continued, (-1, bytes), NEVER, true);
                    self.begun.insert((event.heap, event.address), before.begun);
                    self.amend(continued, (-1, bytes), step, false);
                    self.amend((made, NEVER, event.bucket), (1, bytes), step, false);
                } else {
                    self.amend((made, NEVER, event.bucket), (-1, bytes), NEVER, true);
                }
                self.amend((made, NEVER, event.bucket), (1, bytes), step, true);
            }
            _ => {}
        }
    }

    /// An event that others precede.
    #[inline]
    fn next(&mut self, event: &BlockEvent) {
        let next = StepMoment { event: event.number, at_ns: event.at_ns };
        if self.only.is_some() {
            if self.passes(next) {
                self.begin_step_after(self.last, next);
            }
        } else {
            if self.live_bytes > self.peak_bytes {
                self.reach_peak();
            }
            if event.at_ns != self.last.at_ns {
                self.advance(next);
            } else if self.aside.as_ref().is_some_and(|aside| aside.len() >= self.limits.aside) {
                self.begin_step_at_peak();
            }
        }
        let begins = self.steps.last_mut().filter(|start| start.after == StepMoment::NEVER);
        if let Some(start) = begins {
            start.after = next;
        }
    }

    /// The last event has reached the peak.
    #[inline(never)]
    fn reach_peak(&mut self) {
        self.peak_bytes = self.live_bytes;
        self.peak = self.last;
        match &mut self.aside {
            None => self.aside = Some(Vec::new()),
            Some(aside) if aside.is_empty() => {}
            Some(aside) => {
                let mut events = std::mem::take(aside);
                events.drain(..).for_each(|(event, change)| self.apply(&event, change));
                self.aside = Some(events);
            }
        }
    }

    /// What follows the event that reached the peak is in a step of its own.
    #[inline(never)]
    fn begin_step_at_peak(&mut self) {
        let aside = self.aside.take().unwrap_or_default();
        if let Some((first, _)) = aside.first() {
            let after = StepMoment { event: first.number, at_ns: first.at_ns };
            self.begin_step(self.peak, after);
            aside.iter().for_each(|(event, change)| self.apply(event, *change));
        }
    }

    /// The time of the trace has advanced, to that of the next event.
    #[cold]
    fn advance(&mut self, next: StepMoment) {
        self.times_in_step += 1;
        if self.times_in_step >= self.times_per_step {
            self.begin_step_after(self.last, next);
        }
    }

    /// A step ends with the event `last`, and one begins with `next`.
    fn begin_step_after(&mut self, last: StepMoment, next: StepMoment) {
        self.begin_step_at_peak();
        if self.steps.last().is_some_and(|start| start.after == StepMoment::NEVER) {
            // There was no event since a step began.
            return;
        }
        self.begin_step(last, next);
        let rows = self.rows.len() + self.amendments.len();
        if self.steps.len() > self.limits.steps || rows > self.limits.rows {
            self.join_steps();
        }
    }

    fn begin_step(&mut self, before: StepMoment, after: StepMoment) {
        let (step, first) = (self.step(), self.rows.len());
        for bucket in self.short_of.drain(..) {
            let sum = std::mem::take(&mut self.short[bucket as usize]);
            self.rows.push(row((step, step), bucket, sum));
        }
        let ended = self.ended.drain();
        self.rows.extend(ended.map(|(key, sum)| row_of(key, step, sum)));
        self.rows[first..].sort_unstable_by_key(key_in_step);
        self.steps.push(StepStart { before, after });
        self.times.push(before.at_ns);
        self.times_in_step = 0;
    }

    /// Makes one of every two steps, so that there are fewer rows.
    #[cold]
    fn join_steps(&mut self) {
        while self.steps.len() > MIN_STEPS {
            self.times_per_step = self.times_per_step.saturating_mul(2);
            let mut to = Vec::with_capacity(self.steps.len());
            let (mut kept, mut is_kept) = (Vec::<StepStart>::new(), false);
            for (number, &start) in self.steps.iter().enumerate() {
                let event = start.before.event;
                let is_bookmark = self.bookmarks.binary_search(&event).is_ok();
                let is_wanted = event == self.peak.event || is_bookmark;
                let is_outer = number == 0 || number + 1 == self.steps.len();
                is_kept = is_outer || is_wanted || !is_kept;
                if is_kept {
                    kept.push(start);
                }
                to.push(kept.len() as u32 - 1);
            }
            let before = self.steps.len();
            self.times = kept[1..].iter().map(|start| start.before.at_ns).collect();
            self.found = (u64::MAX, 0);
            self.steps = kept;
            self.renumber(&to);
            let has_room = self.rows.len() + self.amendments.len() <= self.limits.rows / 2
                && self.steps.len() <= self.limits.steps / 2;
            if has_room || self.steps.len() == before {
                return;
            }
        }
    }

    /// Each step has got another number.
    fn renumber(&mut self, to: &[u32]) {
        let new = |step: u32| to.get(step as usize).copied().unwrap_or(step);
        for row in &mut self.rows {
            (row.begun, row.ended) = (new(row.begun), new(row.ended));
        }
        sum_rows(&mut self.rows);
        let amendments = std::mem::take(&mut self.amendments);
        for ((begun, ended, bucket, until, kind), sum) in amendments {
            let key = (new(begun), new(ended), bucket, new(until), kind);
            let of = self.amendments.entry(key).or_default();
            *of = (of.0.wrapping_add(sum.0), of.1.wrapping_add(sum.1));
        }
        self.amendments.retain(|_, sum| *sum != (0, 0));
        self.begun.values_mut().for_each(|step| *step = new(*step));
        for stream in &mut self.streams {
            for ended in stream.open.iter_mut().chain([&mut stream.last.before]) {
                (ended.begun, ended.ended) = (new(ended.begun), new(ended.ended));
            }
            (stream.last.step, stream.large) = (new(stream.last.step), new(stream.large));
        }
    }

    /// A step ends here.
    fn end_step(&mut self) {
        if self.live_bytes > self.peak_bytes && self.only.is_none() {
            self.reach_peak();
        }
        self.begin_step_after(self.last, StepMoment::NEVER);
    }

    /// The index of everything up to the last [`stop`](BlockObserver::stop).
    pub(super) fn index(&self, bookmarks: Vec<(String, u64)>) -> QueryIndex {
        let ended = self.rows.len();
        let mut rows = Vec::with_capacity(ended + self.live.len());
        rows.extend_from_slice(&self.rows);
        let live = self.live.iter();
        rows.extend(live.map(|(&key, &sum)| row_of(key, IndexRow::NEVER, sum)));
        rows[ended..].sort_unstable_by_key(key_in_step);
        let amendments = self.amendments.iter().filter(|(_, sum)| **sum != (0, 0));
        let amendments = amendments.map(|(&(begun, ended, bucket, until, kind), &sum)| {
            Amendment::new(IndexRow::new((begun, ended), bucket, sum), until, kind != 0)
        });
        let mut amendments: Vec<_> = amendments.collect();
        amendments.sort_unstable();
        QueryIndex { steps: self.steps.clone(), rows, amendments, bookmarks }
    }
}

/// Makes one row of those of the same steps and bucket.
fn sum_rows(rows: &mut Vec<IndexRow>) {
    // PERF: they are in the order of the steps in which they have ended: short sorts, rather than one of all.
    for step in rows.chunk_by_mut(|one, next| one.ended == next.ended) {
        step.sort_unstable_by_key(key_in_step);
    }
    rows.dedup_by(|next, row| {
        let is_same = (next.begun, next.ended, next.bucket) == (row.begun, row.ended, row.bucket);
        if is_same {
            row.blocks = row.blocks.wrapping_add(next.blocks);
            row.bytes = row.bytes.wrapping_add(next.bytes);
            row.most = row.most.max(next.most);
        }
        is_same
    });
}

impl BlockObserver for QueryIndexer {
    #[inline]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        if event.number != self.last.event {
            self.next(event);
            self.last = StepMoment { event: event.number, at_ns: event.at_ns };
        }
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } | BlockChange::Returned => {
                self.live_bytes = self.live_bytes.wrapping_add(event.bytes);
            }
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                self.live_bytes = self.live_bytes.wrapping_sub(event.bytes);
            }
            BlockChange::Corrected { bytes_before, is_live: true } => {
                let more = event.bytes.wrapping_sub(bytes_before);
                self.live_bytes = self.live_bytes.wrapping_add(more);
            }
            _ => {}
        }
        match &mut self.aside {
            Some(aside) => aside.push((*event, change)),
            None => self.apply(event, change),
        }
    }

    fn bookmark(&mut self, _: u64) {
        if self.only.is_none() && self.bookmarks.len() < MAX_BOOKMARKS {
            self.end_step();
            self.bookmarks.push(self.last.event);
        }
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        self.end_step();
        self.live.clear();
        for block in live {
            let begun = self.begun(&block);
            let sum = self.live.entry(key_of(begun, block.bucket)).or_default();
            sum.add(block.bytes);
        }
    }
}
