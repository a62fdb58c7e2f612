//! Counter tracks: the live bytes of all blocks, by group and by scope.
//!
//! A point is exact: the value there is that of all events before it. Points are at times of the trace that
//! are at least [`POINTS`]th of its duration apart, at the peak and at the end. A counter has a point where
//! its value is another one than at the point before.

use super::START_NS;
use super::tracks::{Tracks, point};
use memledger_analysis::{BlockChange, BlockEvent};
use memledger_document::internal::sort;
use memledger_document::{Figures, Report, RssPoint};
use memledger_format::protobuf::perfetto::sequence::Sequence;
use memledger_format::protobuf::perfetto::track::Unit;
use std::collections::HashMap;

/// The number of points of a counter, at most one more for the peak and one for the end.
pub(super) const POINTS: u64 = 2_000;

/// The number of groups and of scopes that have a counter: those with the largest peaks.
pub(super) const MAX_COUNTED_ROWS: usize = 40;

/// The first counters, of all blocks.
const LIVE_BYTES: usize = 0;
const LIVE_BLOCKS: usize = 1;
const ALLOCATED_BYTES: usize = 2;

#[derive(Debug)]
struct Counter {
    track: u64,
    value: i64,
    written: Option<i64>,
}

#[derive(Debug)]
pub(super) struct Counters {
    counters: Vec<Counter>,
    /// By bucket: which of `of_row` are its counters.
    of_bucket: Vec<u32>,
    /// The counters of a scope with a group.
    of_row: Vec<Box<[u32]>>,
    /// No two points have the same time.
    last_ns: Option<u64>,
    /// The track of the resident memory, and the points that are not written yet, the first one last.
    rss: (u64, Vec<RssPoint>),
}

impl Counters {
    pub(super) fn new(
        report: &Report,
        tracks: &mut Tracks,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) -> Self {
        let process = tracks.process.uuid;
        let mut counters = Vec::new();
        let mut add = |track| {
            counters.push(Counter { track, value: 0, written: None });
            counters.len() as u32 - 1
        };
        for (name, unit) in [
            ("live bytes", Unit::Bytes),
            ("live blocks", Unit::Count),
            ("allocated bytes", Unit::Bytes),
        ] {
            add(tracks.counter(name, unit, process, sequence, out));
        }
        let groups = report.by_group.iter().map(|row| (&*row.group, &row.inclusive));
        let mut by_group = largest(groups.filter(|(group, _)| *group != ["Unknown"]));
        let scopes = report.by_scope.iter().map(|row| (&*row.path, &row.inclusive));
        // The outermost scope has all blocks.
        let mut by_scope = largest(scopes.filter(|(path, _)| path.len() > 1));
        for (title, rows) in
            [("live bytes by group", &mut by_group), ("live bytes by scope", &mut by_scope)]
        {
            if rows.is_empty() {
                continue;
            }
            let parent = tracks.named(title, process, sequence, out);
            let mut order: Vec<_> = rows.iter_mut().collect();
            order.sort_unstable();
            for (path, counter) in order {
                let name = path.join(" > ");
                *counter = add(tracks.counter(&name, Unit::Bytes, parent, sequence, out));
            }
        }
        let mut rss = (0, Vec::new());
        if let Some(found) = &report.rss {
            let track = tracks.counter("RSS", Unit::Bytes, process, sequence, out);
            rss = (track, found.timeline.iter().rev().copied().collect());
        }
        let (of_bucket, of_row) = of_buckets(report, &by_group, &by_scope);
        Self { counters, of_bucket, of_row, last_ns: None, rss }
    }

    /// Counts what has happened to a block.
    pub(super) fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let (bucket, bytes) = (event.bucket, event.bytes as i64);
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } => {
                self.live(bucket, bytes, 1);
                self.allocated(bytes);
            }
            BlockChange::Returned => self.live(bucket, bytes, 1),
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                self.live(bucket, bytes.wrapping_neg(), -1);
            }
            BlockChange::ReallocFailed { .. } => self.allocated(bytes.wrapping_neg()),
            BlockChange::Corrected { bytes_before, is_live } => {
                let more = bytes.wrapping_sub(bytes_before as i64);
                self.allocated(more);
                if is_live {
                    self.live(bucket, more, 0);
                }
            }
            BlockChange::Moved { from } => {
                self.live(from, bytes.wrapping_neg(), -1);
                self.live(bucket, bytes, 1);
            }
        }
    }

    fn allocated(&mut self, bytes: i64) {
        self.add(ALLOCATED_BYTES, bytes);
    }

    fn live(&mut self, bucket: u32, bytes: i64, blocks: i64) {
        self.add(LIVE_BYTES, bytes);
        self.add(LIVE_BLOCKS, blocks);
        let row =
            self.of_bucket.get(bucket as usize).and_then(|row| self.of_row.get(*row as usize));
        for &counter in row.into_iter().flatten() {
            if let Some(counter) = self.counters.get_mut(counter as usize) {
                counter.value = counter.value.wrapping_add(bytes);
            }
        }
    }

    fn add(&mut self, counter: usize, by: i64) {
        if let Some(counter) = self.counters.get_mut(counter) {
            counter.value = counter.value.wrapping_add(by);
        }
    }

    /// Writes the values that have changed.
    pub(super) fn point(&mut self, at_ns: u64, sequence: &mut Sequence, out: &mut Vec<u8>) {
        let time = |point: &RssPoint| START_NS.saturating_add(point.at_ns);
        while let Some(rss) = self.rss.1.pop_if(|point| time(point) <= at_ns) {
            // The packets of a sequence are in the order of their times.
            let at_ns = time(&rss).max(self.last_ns.unwrap_or(0));
            self.last_ns = Some(at_ns);
            point(sequence, at_ns, self.rss.0, rss.bytes as i64, out);
        }
        let at_ns = self.last_ns.map_or(at_ns, |last| at_ns.max(last.saturating_add(1)));
        for counter in &mut self.counters {
            if counter.written == Some(counter.value) {
                continue;
            }
            counter.written = Some(counter.value);
            self.last_ns = Some(at_ns);
            point(sequence, at_ns, counter.track, counter.value, out);
        }
    }
}

/// The rows with the largest peaks, each with room for the number of its counter.
pub(super) fn largest<'a>(
    rows: impl Iterator<Item = (&'a [String], &'a Figures)>,
) -> HashMap<&'a [String], u32> {
    let mut rows: Vec<_> = rows.filter(|(_, figures)| figures.peak_bytes > 0).collect();
    sort::by_key(&mut rows, |(path, figures)| (std::cmp::Reverse(figures.peak_bytes), *path));
    rows.truncate(MAX_COUNTED_ROWS);
    rows.into_iter().map(|(path, _)| (path, 0)).collect()
}

/// The counters of each bucket: those of its scope, its group, and all around them.
fn of_buckets(
    report: &Report,
    by_group: &HashMap<&[String], u32>,
    by_scope: &HashMap<&[String], u32>,
) -> (Vec<u32>, Vec<Box<[u32]>>) {
    let mut numbers = HashMap::new();
    let mut of_row = Vec::<Box<[u32]>>::new();
    let around = |path: &[String], by: &HashMap<&[String], u32>| {
        let paths = (1..=path.len()).filter_map(|length| by.get(path.get(..length)?).copied());
        paths.collect::<Vec<_>>()
    };
    let of_bucket = report.by_bucket.iter().map(|bucket| {
        *numbers.entry((bucket.scope, bucket.name)).or_insert_with(|| {
            let scope = report.by_scope.get(bucket.scope).map_or(&[][..], |row| &row.path);
            let group = report.by_name.get(bucket.name).map_or(&[][..], |row| &row.group);
            of_row.push([around(scope, by_scope), around(group, by_group)].concat().into());
            of_row.len() as u32 - 1
        })
    });
    (of_bucket.collect(), of_row)
}
