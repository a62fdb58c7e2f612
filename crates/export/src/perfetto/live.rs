//! The memory of a program that runs, for a session of track events: from its reports, one after the
//! other.
//!
//! The reports are those of the program's own analyzer. So a session keeps no blocks, a dump has the totals
//! of the report of its time, and the first one has the heap that existed before the session began.

use super::callsites::Callsites;
use super::counters::{MAX_COUNTED_ROWS, largest};
use super::heap::{Dump, Heap};
use super::slices::{Slices, ThreadTrack};
use super::totals;
use super::tracks::{Tracks, point};
use crate::buckets::{figures_of, notes};
use memledger_document::{BucketRow, Figures, Frames, Report};
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::named_track_uuid;
use memledger_format::protobuf::perfetto::sequence::{Moment, Sequence};
use memledger_format::protobuf::perfetto::track::{self, Process, Unit};
use std::collections::HashMap;

/// The numbers of the sequences, above those that 16 bits have.
const COUNTER_SEQUENCE: u32 = 1 << 16;
const HEAP_SEQUENCE: u32 = COUNTER_SEQUENCE + 1;
const PEAK_SEQUENCE: u32 = COUNTER_SEQUENCE + 2;
const PEAK_HEAP_SEQUENCE: u32 = COUNTER_SEQUENCE + 3;
const THREAD_SEQUENCES: u32 = COUNTER_SEQUENCE + 16;

/// The profile of all blocks, whatever root heap they are in.
const ALL_HEAPS: &str = "System memory";
/// The most counters of groups, and of scopes: which ones have the largest peaks changes.
const MAX_COUNTERS: usize = 4 * MAX_COUNTED_ROWS;
/// The time of a step of slices.
const STEP_NS: u64 = 10_000_000;
/// A thread that has allocated nothing for this time is forgotten.
const IDLE_NS: u64 = 10_000_000_000;

/// A counter, and its value in the last packet.
#[derive(Debug)]
struct Counter {
    track: u64,
    written: Option<u64>,
}

/// The counters of groups, or of scopes.
#[derive(Debug, Default)]
struct Rows {
    /// The track around them.
    parent: Option<u64>,
    counters: HashMap<Vec<String>, Counter>,
}

/// What a callstack had in the last dump: bytes allocated and freed, and how often.
type Sums = [u64; 4];

/// What a session with memory writes: counters, heap profiles and slices of scopes, from one report after the
/// other.
#[derive(Debug)]
pub struct LiveMemory {
    sequence: Sequence,
    tracks: Tracks,
    /// The track that all counters are below.
    memory: u64,
    /// Live bytes, live blocks, allocated bytes.
    totals: [Counter; 3],
    by_group: Rows,
    by_scope: Rows,
    callsites: Callsites,
    /// By bucket: its callstack.
    of_bucket: Vec<Option<u32>>,
    heap: Heap,
    /// By callstack.
    dumped: Vec<Option<Sums>>,
    /// The next dump has all callstacks, not only those that have changed.
    is_whole: bool,
    slices: Slices,
    /// By context: its scope.
    scopes: HashMap<u32, u32>,
    started_ns: u64,
    /// The time of the last dump.
    dumped_ns: u64,
}

impl LiveMemory {
    /// The memory from `now` on.
    pub fn new(process: Process, now: Moment, out: &mut Vec<u8>) -> Self {
        let mut sequence = Sequence::new(COUNTER_SEQUENCE);
        begin(&mut sequence, now, out);
        let uuid = process.uuid;
        let mut tracks = Tracks::of_process(process, &mut sequence, out);
        let memory = tracks.named("memory", uuid, &mut sequence, out);
        let mut counter = |name, unit| Counter {
            track: tracks.counter(name, unit, memory, &mut sequence, out),
            written: None,
        };
        let totals = [
            counter("live bytes", Unit::Bytes),
            counter("live blocks", Unit::Count),
            counter("allocated bytes", Unit::Bytes),
        ];
        let mut slices = Slices::new(THREAD_SEQUENCES, STEP_NS);
        slices.step(now.at_ns, out);
        Self {
            sequence,
            tracks,
            memory,
            totals,
            by_group: Rows::default(),
            by_scope: Rows::default(),
            callsites: Callsites::default(),
            of_bucket: Vec::new(),
            heap: Heap::new(ALL_HEAPS.to_owned(), HEAP_SEQUENCE, now.at_ns),
            dumped: Vec::new(),
            is_whole: false,
            slices,
            scopes: HashMap::new(),
            started_ns: now.at_ns,
            dumped_ns: now.at_ns,
        }
    }

    /// Counts what a thread has allocated in a context: bytes, and how often. The thread is its number, its
    /// id in the system, and its name; `path` has the names of the scopes of the context, outermost first.
    pub fn allocated<'p, P: IntoIterator<Item = &'p str>>(
        &mut self,
        (number, tid, thread_name): (u32, u32, &str),
        context: u32,
        sum: (i64, i64),
        path: impl FnOnce() -> P,
        out: &mut Vec<u8>,
    ) {
        let Self { slices, scopes, tracks: Tracks { process, .. }, .. } = self;
        let scope = *scopes.entry(context).or_insert_with(|| slices.scope(path()));
        let track = || {
            let around = process.uuid ^ u64::from(tid);
            // NOTE: not the track of the thread itself: slices of track events are there, and the two are
            // not within one another.
            let name = "memory scopes";
            let uuid = named_track_uuid(name, 0, around);
            let (mut of_thread, mut own) = (Vec::new(), Vec::new());
            let message = &mut Message::new(&mut of_thread);
            process.describe_thread(message, around, tid, thread_name);
            track::named(&mut Message::new(&mut own), uuid, around, name);
            ThreadTrack { uuid, descriptors: vec![of_thread, own] }
        };
        slices.allocated(number, scope, sum, track, out);
    }

    /// Writes the slices up to `now`, if that is a step.
    pub fn step(&mut self, now: Moment, out: &mut Vec<u8>) {
        if self.slices.begins_step(now.at_ns) {
            self.slices.step(now.at_ns, out);
            self.slices.rest(now.at_ns, IDLE_NS, out);
        }
    }

    /// Writes a point of each counter whose value has changed.
    pub fn point(&mut self, report: &Report, now: Moment, out: &mut Vec<u8>) {
        let figures = &report.totals;
        let values = [figures.live_bytes, figures.live_blocks, figures.allocated_bytes];
        for (counter, value) in self.totals.iter_mut().zip(values) {
            counter.point(value, &mut self.sequence, now, out);
        }
        let groups = report.by_group.iter().map(|row| (&*row.group, &row.inclusive));
        let groups: Vec<_> = groups.filter(|(group, _)| *group != ["Unknown"]).collect();
        let scopes = report.by_scope.iter().map(|row| (&*row.path, &row.inclusive));
        let scopes: Vec<_> = scopes.filter(|(path, _)| path.len() > 1).collect();
        for (rows, counters, title) in [
            (groups, &mut self.by_group, "live bytes by group"),
            (scopes, &mut self.by_scope, "live bytes by scope"),
        ] {
            let Self { sequence, tracks, memory, .. } = self;
            counters.add(&rows, title, *memory, tracks, sequence, out);
            for (path, figures) in rows {
                if let Some(counter) = counters.counters.get_mut(path) {
                    counter.point(figures.live_bytes, sequence, now, out);
                }
            }
        }
    }

    /// Writes a dump of the heap: `report` has [`Report::by_bucket`].
    pub fn dump(&mut self, report: &Report, now: Moment, out: &mut Vec<u8>) {
        let mut sums = vec![Sums::default(); self.callsites.len()];
        for (bucket, site) in report.by_bucket.iter().zip(&self.of_bucket) {
            let Some(figures) = figures_of(report, bucket) else { continue };
            if let Some(sum) = site.and_then(|site| sums.get_mut(site as usize)) {
                let Figures { allocations, reallocations, .. } = figures;
                let Figures { allocated_bytes, live_bytes, live_blocks, .. } = figures;
                let more = [allocated_bytes, live_bytes, allocations + reallocations, live_blocks];
                std::iter::zip(sum, more).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
            }
        }
        self.dumped.resize(sums.len(), None);
        let mut samples = Vec::new();
        for ((site, sums), dumped) in (0_u32..).zip(sums).zip(&mut self.dumped) {
            let sums = since_before(sums, dumped.unwrap_or_default());
            if sums != Sums::default() && (self.is_whole || *dumped != Some(sums)) {
                *dumped = Some(sums);
                samples.push((site, sums));
            }
        }
        self.is_whole = false;
        let at_ns = now.at_ns.max(self.dumped_ns.saturating_add(1));
        let dump = Dump::new(report, self.tracks.process.pid, Moment { at_ns, ..now }, &samples);
        if self.heap.dump(&dump, &self.callsites, out) {
            self.dumped_ns = at_ns;
        }
    }

    /// The buckets of a report that no dump has had: their frames need functions before the next
    /// [`learn`](Self::learn).
    pub fn new_buckets<'r>(&self, report: &'r Report) -> &'r [BucketRow] {
        report.by_bucket.get(self.of_bucket.len()..).unwrap_or_default()
    }

    /// Finds the callstacks of new buckets. A bucket stays what it is.
    pub fn learn(&mut self, report: &Report) {
        let new = self.new_buckets(report);
        if !new.is_empty() {
            let found = self.callsites.add(report, new, Frames::Folded);
            self.of_bucket.extend(found);
        }
    }

    /// Writes the last slices, points and dump, the peak if it was during the session, and the totals.
    pub fn finish(
        &mut self,
        report: &Report,
        peak: Option<Moment>,
        now: Moment,
        out: &mut Vec<u8>,
    ) {
        self.slices.finish(now.at_ns, out);
        self.point(report, now, out);
        self.dump(report, now, out);
        if let Some(peak) = peak {
            let at_ns = peak.at_ns.max(self.started_ns);
            self.peak(report, Moment { at_ns, ..peak }, out);
        }
        let Self { memory, sequence, tracks, .. } = self;
        totals(report, &notes(report, true), *memory, now.at_ns, sequence, tracks, out);
    }

    /// Writes what was live at the peak: a point of each counter, and a heap of its own.
    fn peak(&mut self, report: &Report, peak: Moment, out: &mut Vec<u8>) {
        // A sequence of its own, because its packets are earlier than the last ones.
        let mut sequence = Sequence::new(PEAK_SEQUENCE);
        begin(&mut sequence, peak, out);
        let totals = [report.totals.peak_bytes, report.totals.blocks_at_peak];
        for (counter, value) in self.totals.iter().zip(totals) {
            point(&mut sequence, peak.at_ns, counter.track, value as i64, out);
        }
        let groups = report.by_group.iter().map(|row| (&row.group, &row.inclusive));
        let scopes = report.by_scope.iter().map(|row| (&row.path, &row.inclusive));
        for (path, figures, rows) in groups
            .map(|(path, figures)| (path, figures, &self.by_group))
            .chain(scopes.map(|(path, figures)| (path, figures, &self.by_scope)))
        {
            if let Some(counter) = rows.counters.get(path) {
                let value = figures.live_bytes_at_peak;
                point(&mut sequence, peak.at_ns, counter.track, value as i64, out);
            }
        }
        let mut sums = vec![Sums::default(); self.callsites.len()];
        for (bucket, site) in report.by_bucket.iter().zip(&self.of_bucket) {
            let Some(figures) = figures_of(report, bucket) else { continue };
            if let Some(sum) = site.and_then(|site| sums.get_mut(site as usize)) {
                sum[0] = sum[0].wrapping_add(figures.live_bytes_at_peak);
                sum[2] = sum[2].wrapping_add(figures.live_blocks_at_peak);
            }
        }
        let samples: Vec<_> =
            (0_u32..).zip(sums).filter(|(_, sums)| *sums != Sums::default()).collect();
        let name = format!("{ALL_HEAPS} at the peak");
        let mut heap = Heap::new(name, PEAK_HEAP_SEQUENCE, self.started_ns);
        let at = Moment { at_ns: peak.at_ns.max(self.started_ns + 1), ..peak };
        let dump = Dump::new(report, self.tracks.process.pid, at, &samples);
        heap.dump(&dump, &self.callsites, out);
    }

    /// Starts all sequences again: no later packet needs those before.
    pub fn restart(&mut self, now: Moment, out: &mut Vec<u8>) {
        self.sequence.restart();
        begin(&mut self.sequence, now, out);
        self.tracks.again(&self.sequence, out);
        let counters = [&mut self.by_group, &mut self.by_scope];
        let counters = counters.into_iter().flat_map(|rows| rows.counters.values_mut());
        counters.chain(&mut self.totals).for_each(|counter| counter.written = None);
        self.heap.restart();
        // The next dump has all callstacks. Its sums are since the start, as those of all dumps.
        self.is_whole = true;
        self.slices.restart(now.at_ns, out);
    }
}

impl Rows {
    /// Adds counters of the rows with the largest peaks.
    fn add(
        &mut self,
        rows: &[(&[String], &Figures)],
        title: &str,
        memory: u64,
        tracks: &mut Tracks,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) {
        let mut new: Vec<_> = largest(rows.iter().copied()).into_keys().collect();
        new.retain(|path| !self.counters.contains_key(*path));
        new.sort_unstable();
        new.truncate(MAX_COUNTERS.saturating_sub(self.counters.len()));
        for path in new {
            let parent =
                *self.parent.get_or_insert_with(|| tracks.named(title, memory, sequence, out));
            let name = path.join(" > ");
            let track = tracks.counter(&name, Unit::Bytes, parent, sequence, out);
            self.counters.insert(path.to_vec(), Counter { track, written: None });
        }
    }
}

impl Counter {
    fn point(&mut self, value: u64, sequence: &mut Sequence, now: Moment, out: &mut Vec<u8>) {
        if self.written != Some(value) {
            self.written = Some(value);
            point(sequence, now.at_ns, self.track, value as i64, out);
        }
    }
}

/// Writes the first packet of a sequence, which says that its state is cleared.
fn begin(sequence: &mut Sequence, now: Moment, out: &mut Vec<u8>) {
    sequence.packet(out, now.at_ns, |_| {});
}

/// What a dump has: allocated and freed, of allocated and live. NOTE: a reader drops sums that fall. A block
/// that gets another tag is live where it was not allocated, so what a sum would fall by is added to both.
fn since_before([bytes, live_bytes, blocks, live_blocks]: Sums, before: Sums) -> Sums {
    let pair = |allocated: u64, live: u64, [was_allocated, was_freed]: [u64; 2]| {
        let allocated = allocated.max(live).max(was_allocated);
        let freed = (allocated - live).max(was_freed);
        (freed.saturating_add(live), freed)
    };
    let [was_bytes, was_freed_bytes, was_blocks, was_freed] = before;
    let (allocated, freed) = pair(bytes, live_bytes, [was_bytes, was_freed_bytes]);
    let (allocations, frees) = pair(blocks, live_blocks, [was_blocks, was_freed]);
    [allocated, freed, allocations, frees]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_never_fall_and_their_difference_is_what_is_live() {
        let mut dumped = Sums::default();
        // Allocated, live; then freed; then blocks with another tag arrive, and leave again.
        for [allocated, live] in [[100, 100], [100, 0], [100, 50], [150, 0], [150, 400]] {
            let now = since_before([allocated, live, allocated, live], dumped);
            for at in 0..4 {
                assert!(now[at] >= dumped[at], "{now:?} after {dumped:?}");
            }
            assert_eq!([now[0] - now[1], now[2] - now[3]], [live, live]);
            dumped = now;
        }
        assert_eq!(since_before([7, 3, 2, 1], Sums::default()), [7, 4, 2, 1]);
    }
}
