//! Makes an index while a trace is read.
//!
//! A life gets the steps of its events when it has ended: which events begin a step is known by then, but for
//! the peak. A step begins after the event that reached it, and which event that is is not known before the
//! end. So lives that end after an event that could be it are kept aside, until the step ends or another
//! event reaches more.

use super::QueryIndex;
use super::rows::{IndexRow, Key};
use super::steps::{StepMoment, StepStart};
use crate::hash::IntMap;
use crate::observer::{BlockChange, BlockEvent, BlockObserver};
use crate::query::lives::{BlockLife, Lives};
use crate::query::rules::Span;

/// How large an index gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexLimits {
    /// The most steps.
    pub steps: usize,
    /// The most rows, of 48 bytes; some more, if the trace has nearly as many buckets.
    pub rows: usize,
    /// Maximum number of lives, of 170 bytes each, that are buffered after a candidate peak.
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

/// Makes a [`QueryIndex`], as an observer of an [`Analyzer`](crate::Analyzer).
///
/// Its memory is limited ([`IndexLimits`]), but for some 50 bytes for each live block.
#[derive(Clone, Debug)]
pub struct QueryIndexer {
    lives: Lives,
    made: IndexParts,
}

/// What there is of the index.
#[derive(Clone, Debug)]
struct IndexParts {
    limits: IndexLimits,
    steps: Vec<StepStart>,
    /// The events after which a step begins in any case.
    bookmarks: Vec<u64>,
    /// How many times of the trace a step has, and how many the present one has.
    times_per_step: u32,
    times_in_step: u32,
    /// The last event.
    last: StepMoment,
    live_bytes: u64,
    peak_bytes: u64,
    /// The last event that reached the peak, and the one after it.
    peak: StepStart,
    /// What has ended since, if that event is in this step.
    aside: Option<Vec<BlockLife>>,
    /// In their order: each step adds its own.
    rows: Vec<IndexRow>,
    /// What has ended in this step.
    ended: IntMap<Key, IndexRow>,
    /// What is not passed on yet where counting stopped last.
    open: IntMap<Key, IndexRow>,
}

impl Default for QueryIndexer {
    fn default() -> Self {
        Self::new(IndexLimits::default())
    }
}

impl QueryIndexer {
    /// An indexer that has seen no event.
    pub fn new(limits: IndexLimits) -> Self {
        let start = StepStart::new(StepMoment::default(), StepMoment::NEVER);
        let made = IndexParts {
            limits,
            steps: vec![start],
            bookmarks: Vec::new(),
            times_per_step: 1,
            times_in_step: 0,
            last: StepMoment::default(),
            live_bytes: 0,
            peak_bytes: 0,
            peak: start,
            aside: None,
            rows: Vec::new(),
            ended: IntMap::default(),
            open: IntMap::default(),
        };
        Self { lives: Lives::default(), made }
    }

    /// The index of everything up to the last [`stop`](BlockObserver::stop).
    pub(super) fn index(&self, bookmarks: Vec<(String, u64)>) -> QueryIndex {
        let IndexParts { steps, rows, open, .. } = &self.made;
        let mut rows: Vec<_> = rows.iter().chain(open.values()).copied().collect();
        rows.sort_by_key(IndexRow::key);
        QueryIndex { steps: steps.clone(), rows, bookmarks }
    }
}

impl IndexParts {
    #[inline]
    fn end(&mut self, life: &BlockLife) {
        match &mut self.aside {
            Some(aside) => aside.push(*life),
            None => add(&mut self.ended, &row(&self.steps, life)),
        }
    }

    /// An event that others precede.
    #[inline]
    fn next(&mut self, next: StepMoment) {
        if self.live_bytes > self.peak_bytes {
            self.reach_peak(next);
        }
        if next.at_ns != self.last.at_ns {
            self.times_in_step += 1;
            if self.times_in_step >= self.times_per_step {
                self.begin_step_after(self.last, next);
            }
        } else if self.aside.as_ref().is_some_and(|aside| aside.len() >= self.limits.aside) {
            self.begin_step_at_peak();
        }
        if let Some(start) = self.steps.last_mut().filter(|at| at.after == StepMoment::NEVER) {
            start.after = next;
        }
    }

    /// The last event has reached the peak.
    #[inline(never)]
    fn reach_peak(&mut self, next: StepMoment) {
        self.peak_bytes = self.live_bytes;
        self.peak = StepStart::new(self.last, next);
        let mut before = self.aside.take().unwrap_or_default();
        before.drain(..).for_each(|life| self.end(&life));
        self.aside = Some(before);
    }

    /// What follows the event that reached the peak is in a step of its own.
    fn begin_step_at_peak(&mut self) {
        let Some(aside) = self.aside.take() else { return };
        if self.peak.before.event < self.last.event {
            self.begin_step(self.peak);
        }
        aside.iter().for_each(|life| self.end(life));
    }

    /// A step ends with the event `last`, and one begins with `next`.
    #[cold]
    fn begin_step_after(&mut self, last: StepMoment, next: StepMoment) {
        self.begin_step_at_peak();
        if self.steps.last().is_some_and(|start| start.after == StepMoment::NEVER) {
            // There was no event since a step began.
            return;
        }
        self.begin_step(StepStart { before: last, after: next });
        if self.steps.len() > self.limits.steps || self.rows.len() > self.limits.rows {
            self.join_steps();
        }
    }

    fn begin_step(&mut self, start: StepStart) {
        let first = self.rows.len();
        self.rows.extend(self.ended.drain().map(|(_, row)| row));
        self.rows[first..].sort_unstable_by_key(IndexRow::key);
        self.steps.push(start);
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
                let is_wanted = event == self.peak.before.event || is_bookmark;
                let is_outer = number == 0 || number + 1 == self.steps.len();
                is_kept = is_outer || is_wanted || !is_kept;
                if is_kept {
                    kept.push(start);
                }
                to.push(kept.len() as u32 - 1);
            }
            let before = self.steps.len();
            self.steps = kept;
            self.join_rows(&to);
            let has_room = self.rows.len() <= self.limits.rows / 2
                && self.steps.len() <= self.limits.steps / 2;
            if has_room || self.steps.len() == before {
                return;
            }
        }
    }

    /// Each step has got another number: makes one row of those of the same steps and bucket.
    fn join_rows(&mut self, to: &[u32]) {
        let new = |step: u32| to.get(step as usize).copied().unwrap_or(step);
        for row in &mut self.rows {
            (row.begun, row.since, row.ended) = (new(row.begun), new(row.since), new(row.ended));
            row.allocation_until = new(row.allocation_until);
            row.free_until = new(row.free_until);
        }
        // PERF: nearly in this order already, which a stable sort makes use of.
        self.rows.sort_by_key(IndexRow::key);
        self.rows.dedup_by(|next, row| {
            let is_same = next.key() == row.key();
            if is_same {
                row.add(next);
            }
            is_same
        });
    }

    fn end_step(&mut self) {
        if self.live_bytes > self.peak_bytes {
            self.reach_peak(StepMoment::NEVER);
        }
        self.begin_step_after(self.last, StepMoment::NEVER);
    }
}

/// The row of a life, by the steps that there are now.
#[inline]
fn row(steps: &[StepStart], life: &BlockLife) -> IndexRow {
    let Span { begun, since, ended, allocation_until, free_until } = life.span();
    let step = |event: u64| step_of(steps, event);
    let until = |event: u64| match event {
        0 => 0,
        BlockLife::ALWAYS => IndexRow::NEVER,
        event => step(event),
    };
    let first = step(begun);
    IndexRow {
        ended: until(ended),
        begun: first,
        since: if since == begun { first } else { step(since) },
        allocation_until: until(allocation_until),
        free_until: until(free_until),
        bucket: life.bucket,
        blocks: 1,
        bytes: life.bytes,
        most: life.bytes,
    }
}

#[inline]
fn add(rows: &mut IntMap<Key, IndexRow>, row: &IndexRow) {
    rows.entry(row.key()).and_modify(|sum| sum.add(row)).or_insert(*row);
}

#[inline]
pub(super) fn step_of(steps: &[StepStart], event: u64) -> u32 {
    // PERF: nearly all lives end in the step that they began in.
    let last = steps.len().saturating_sub(1);
    if steps.get(last).is_some_and(|start| start.before.event < event) {
        return last as u32;
    }
    steps.partition_point(|start| start.before.event < event).saturating_sub(1) as u32
}

impl BlockObserver for QueryIndexer {
    #[inline]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let Self { lives, made } = self;
        if event.number != made.last.event {
            let next = StepMoment { event: event.number, at_ns: event.at_ns };
            made.next(next);
            made.last = next;
        }
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } | BlockChange::Returned => {
                made.live_bytes = made.live_bytes.wrapping_add(event.bytes);
            }
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                made.live_bytes = made.live_bytes.wrapping_sub(event.bytes);
            }
            BlockChange::Corrected { bytes_before, is_live: true } => {
                let more = event.bytes.wrapping_sub(bytes_before);
                made.live_bytes = made.live_bytes.wrapping_add(more);
            }
            _ => {}
        }
        lives.observe(event, change, &mut |life| made.end(life));
    }

    fn bookmark(&mut self, _: u64) {
        let made = &mut self.made;
        if made.bookmarks.len() < MAX_BOOKMARKS {
            made.end_step();
            made.bookmarks.push(made.last.event);
        }
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        let Self { lives, made } = self;
        made.end_step();
        made.open.clear();
        lives.stop(live, |life, _| add(&mut made.open, &row(&made.steps, life)));
    }
}
