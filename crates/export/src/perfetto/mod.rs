//! Traces for Perfetto's UI and its trace processor, with what a program did with memory.
//!
//! | in the UI | from | file |
//! |---|---|---|
//! | a heap profile for each root heap, with callstacks, dumped at intervals | blocks by stack | `heap.rs`, `callsites.rs` |
//! | counters of live bytes, by group and by scope | blocks by scope and group | `counters.rs` |
//! | slices on the threads' tracks | scopes in which a thread allocates | `slices.rs` |
//! | instants | bookmarks, exact totals, what the trace lacks | `mod.rs` |
//!
//! `tracks.rs` has tracks; packets are written by `protobuf::perfetto`.
//!
//! `live.rs` has the same for a session of a program that runs, from its reports.
//!
//! A trace is read twice: dumps are at shares of its duration, and callstacks need symbols. The second time,
//! packets are written as events come, so the memory is that of the report and of one dump.

mod callsites;
mod counters;
mod heap;
mod live;
mod slices;
#[cfg(test)]
mod tests;
mod tracks;

// For memledger only: no interface.
#[doc(hidden)]
pub use live::LiveMemory;
#[doc(hidden)]
pub use memledger_format::protobuf::perfetto::sequence::Moment;
#[doc(hidden)]
pub use memledger_format::protobuf::perfetto::track::Process;

use crate::buckets::notes;
use counters::{Counters, POINTS};
use heap::HeapProfile;
use memledger_analysis::{Actor, Analyzer, BlockChange, BlockEvent, BlockObserver};
use memledger_document::{Frames, Report, ScopeRow, TOTALS};
use memledger_format::protobuf::perfetto::sequence::{Sequence, clocks};
use memledger_format::protobuf::perfetto::track::{Argument, instant};
use memledger_format::protobuf::perfetto::{clock, packet};
use slices::{NO_SCOPE, STEPS, Slices};
use std::collections::HashMap;
use std::io::{self, Write};
use tracks::Tracks;

/// The number of dumps of a heap profile at intervals, beside those at the peak and at the end.
const DUMPS: u64 = 100;

/// The time of the start of the trace. NOTE: not 0, which a reader may take for no time.
const START_NS: u64 = 1_000_000_000;

/// The number of the first sequence; those of heaps, and those of threads.
const FIRST_SEQUENCE: u32 = 1;
const HEAP_SEQUENCES: u32 = 2;
const THREAD_SEQUENCES: u32 = HEAP_SEQUENCES + 256;

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Which frames of call stacks are shown.
    pub frames: Frames,
    /// The time from one dump of the heap profile to the next, in nanoseconds. `None`: a hundredth of the
    /// trace.
    pub interval_ns: Option<u64>,
}

/// Collects what happens to blocks, for [`Export::events`].
#[derive(Debug, Default)]
pub struct Events(Vec<(BlockEvent, BlockChange)>);

impl BlockObserver for Events {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        self.0.push((*event, change));
    }
}

/// The id of the thread and the scope stack of an actor.
type Who<'a> = dyn Fn(Actor) -> (u32, Option<Vec<String>>) + 'a;

/// Writes a trace for Perfetto, while the trace of a report is read again.
///
/// ```
/// use memledger_analysis::{Analyzer, Position};
/// use memledger_export::perfetto::{Events, Export, ExportOptions};
/// use memledger_analysis::read::{Reader, read};
/// use std::fs::File;
///
/// let trace = "../../tests/samples/memledger-small.utrace";
/// let mut analyzer = Analyzer::new().by_bucket();
/// read(File::open(trace)?, &mut analyzer)?;
/// let report = analyzer.report();
///
/// let mut out = Vec::new();
/// let mut export = Export::new(&report, analyzer.peak_event(), &ExportOptions::default());
/// // Up to the same event, if the trace has grown since.
/// let until = Position::Event(report.trace.events);
/// let mut analyzer = Analyzer::observing(Events::default()).until(until);
/// let mut reader = Reader::open(File::open(trace)?)?;
/// while reader.packet(&mut analyzer) {
///     export.events(&mut analyzer, &mut out)?;
/// }
/// reader.finish(&mut analyzer);
/// export.finish(&mut analyzer, &mut out)?;
/// assert_eq!(out[0], 0x0a);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Export<'a> {
    report: &'a Report,
    /// Packets that are not written yet.
    buffer: Vec<u8>,
    sequence: Sequence,
    tracks: Tracks,
    heaps: HeapProfile<'a>,
    counters: Counters,
    slices: Slices,
    /// By row of `by_scope`: the scope of its slices.
    slice_scopes: Vec<u32>,
    /// The row of `by_thread` and of `by_scope` of an actor.
    actors: HashMap<Actor, (Option<usize>, Option<usize>)>,
    threads: HashMap<u32, usize>,
    scopes: HashMap<&'a [String], usize>,
    /// The events after which there is a dump and a point, the first one last: the peak, and the blocks
    /// that the trace begins with.
    moments: Vec<u64>,
    dump_every_ns: u64,
    next_dump_ns: u64,
    point_every_ns: u64,
    next_point_ns: u64,
    /// The time of the last event.
    at_ns: u64,
}

impl<'a> Export<'a> {
    /// `report` is that of the whole trace, with [`Report::by_bucket`] and with symbols; `peak_event` is
    /// [`Analyzer::peak_event`].
    pub fn new(report: &'a Report, peak_event: u64, options: &ExportOptions) -> Self {
        let mut buffer = Vec::new();
        let mut sequence = Sequence::new(FIRST_SEQUENCE);
        // The first packet of the trace has its clocks.
        sequence.packet(&mut buffer, START_NS, |packet| {
            clocks(packet, [clock::BOOTTIME, clock::MONOTONIC_COARSE].map(|id| (id, START_NS)));
        });
        let mut tracks = Tracks::new(report, &mut sequence, &mut buffer);
        let counters = Counters::new(report, &mut tracks, &mut sequence, &mut buffer);
        let heaps = HeapProfile::new(report, options.frames, tracks.process.pid, HEAP_SEQUENCES);
        let since_ns = report.trace.recording_since_ns.unwrap_or(0);
        let duration_ns = report.trace.duration_ns.saturating_sub(since_ns);
        let since_ns = START_NS.saturating_add(since_ns);
        let dump_every_ns = options.interval_ns.unwrap_or(duration_ns / DUMPS).max(1);
        let mut moments = vec![peak_event, report.trace.initial_live_blocks.unwrap_or(0)];
        moments.retain(|event| *event > 0);
        moments.sort_unstable_by_key(|event| std::cmp::Reverse(*event));
        moments.dedup();
        let by_thread = report.by_thread.iter().enumerate();
        let by_scope = report.by_scope.iter().enumerate();
        let mut slices = Slices::new(THREAD_SEQUENCES, report.trace.duration_ns / STEPS);
        let path = |row: &'a ScopeRow| row.path.iter().map(String::as_str);
        let slice_scopes = report.by_scope.iter().map(|row| slices.scope(path(row))).collect();
        Self {
            report,
            buffer,
            sequence,
            tracks,
            heaps,
            counters,
            slices,
            slice_scopes,
            actors: HashMap::new(),
            threads: by_thread.map(|(number, row)| (row.id, number)).collect(),
            scopes: by_scope.map(|(number, row)| (&*row.path, number)).collect(),
            moments,
            dump_every_ns,
            next_dump_ns: since_ns.saturating_add(dump_every_ns),
            point_every_ns: (duration_ns / POINTS).max(1),
            next_point_ns: 0,
            at_ns: since_ns,
        }
    }

    /// Writes what has happened since the call before.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn events(
        &mut self,
        analyzer: &mut Analyzer<Events>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut events = std::mem::take(&mut analyzer.observer_mut().0);
        let who = |actor| (analyzer.thread_of(actor).0, analyzer.scope_path(actor));
        for (event, change) in &events {
            self.event(event, *change, &who);
            self.write(1 << 16, out)?;
        }
        events.clear();
        analyzer.observer_mut().0 = events;
        Ok(())
    }

    /// Writes the end of the trace, after the last events.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(
        mut self,
        analyzer: &mut Analyzer<Events>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.events(analyzer, out)?;
        if !self.moments.is_empty() {
            self.moment();
        }
        let end_ns = START_NS.saturating_add(self.report.trace.duration_ns).max(self.at_ns);
        self.slices.finish(end_ns, &mut self.buffer);
        self.counters.point(end_ns, &mut self.sequence, &mut self.buffer);
        self.heaps.dump(end_ns, &mut self.buffer);
        self.bookmarks();
        self.totals(end_ns);
        self.write(0, out)
    }

    /// Writes the buffer, if it has more bytes than this.
    fn write(&mut self, bytes: usize, out: &mut dyn Write) -> io::Result<()> {
        if self.buffer.len() > bytes {
            out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn event(&mut self, event: &BlockEvent, change: BlockChange, who: &Who<'_>) {
        while self.moments.last().is_some_and(|moment| event.number > *moment) {
            self.moments.pop();
            self.moment();
        }
        let at_ns = START_NS.saturating_add(event.at_ns);
        // Points, dumps and steps are between the events of one time and those of the next.
        if at_ns >= self.next_point_ns {
            self.counters.point(at_ns, &mut self.sequence, &mut self.buffer);
            self.next_point_ns = at_ns.saturating_add(self.point_every_ns);
        }
        if at_ns >= self.next_dump_ns {
            self.heaps.dump(at_ns, &mut self.buffer);
            let since = (at_ns - self.next_dump_ns) % self.dump_every_ns;
            self.next_dump_ns = (at_ns - since).saturating_add(self.dump_every_ns);
        }
        if self.slices.begins_step(at_ns) {
            self.slices.step(at_ns, &mut self.buffer);
        }
        self.at_ns = at_ns;
        self.counters.observe(event, change);
        self.heaps.observe(event, change);
        self.slice(event, change, who);
    }

    /// A dump and a point at the time of the last event.
    fn moment(&mut self) {
        self.counters.point(self.at_ns, &mut self.sequence, &mut self.buffer);
        self.heaps.dump(self.at_ns, &mut self.buffer);
    }

    /// Counts what was allocated, in the scope and on the thread that did it.
    fn slice(&mut self, event: &BlockEvent, change: BlockChange, who: &Who<'_>) {
        let bytes = event.bytes as i64;
        let (by, sum) = match change {
            BlockChange::Allocated => (None, (bytes, 1)),
            BlockChange::Reallocated { by, .. } => (Some(by), (bytes, 1)),
            BlockChange::ReallocFailed { .. } => (None, (bytes.wrapping_neg(), -1)),
            BlockChange::Corrected { bytes_before, .. } => {
                (None, (bytes.wrapping_sub(bytes_before as i64), 0))
            }
            _ => return,
        };
        let Some(bucket) = self.report.by_bucket.get(event.bucket as usize) else { return };
        let (thread, scope) = by.map_or((None, None), |by| {
            *self.actors.entry(by).or_insert_with(|| {
                let (thread, scope) = who(by);
                let scope = scope.and_then(|path| self.scopes.get(path.as_slice()).copied());
                (self.threads.get(&thread).copied(), scope)
            })
        });
        let (thread, scope) = (thread.unwrap_or(bucket.thread), scope.unwrap_or(bucket.scope));
        let Some(row) = self.report.by_thread.get(thread) else { return };
        let scope = self.slice_scopes.get(scope).copied().unwrap_or(NO_SCOPE);
        let track = || self.tracks.thread(row);
        self.slices.allocated(thread as u32, scope, sum, track, &mut self.buffer);
    }

    /// Writes the bookmarks of the program, on a track of their own.
    fn bookmarks(&mut self) {
        let Self { report, sequence, tracks, buffer, .. } = self;
        if report.bookmarks.is_empty() {
            return;
        }
        let track = tracks.named("bookmarks", tracks.process.uuid, sequence, buffer);
        // The time of the last packet is that of the end.
        let mut sequence = Sequence::new(BOOKMARK_SEQUENCE);
        for bookmark in &report.bookmarks {
            sequence.packet(buffer, START_NS.saturating_add(bookmark.at_ns), |packet| {
                packet.nested(packet::TRACK_EVENT, |event| {
                    instant(event, track, &bookmark.name, &[]);
                });
            });
        }
    }

    /// Writes the figures of the whole trace, which no callstack or counter need add up to, and what the
    /// trace lacks.
    fn totals(&mut self, end_ns: u64) {
        let Self { report, sequence, tracks, buffer, .. } = self;
        let process = tracks.process.uuid;
        totals(report, &notes(report, false), process, end_ns, sequence, tracks, buffer);
    }
}

/// Writes the figures of a whole recording, and what it lacks, on a track below `parent`.
fn totals(
    report: &Report,
    notes: &[String],
    parent: u64,
    at_ns: u64,
    sequence: &mut Sequence,
    tracks: &mut Tracks,
    out: &mut Vec<u8>,
) {
    let (totals, losses) = (&report.totals, &report.losses);
    let known = TOTALS.iter().filter(|figure| figure.key != "unnamed_bytes_at_peak");
    let mut figures: Vec<_> =
        known.filter_map(|figure| Some((figure.key, (figure.of)(totals)?))).collect();
    figures.extend([
        ("lost_events", losses.lost_events),
        ("serial_holes", losses.serial_holes),
        ("unmatched_frees", losses.unmatched_frees),
        ("frees_of_earlier_blocks", losses.frees_of_earlier_blocks),
        ("duplicate_allocations", losses.duplicate_allocations),
        ("truncated_bytes", losses.truncated_bytes),
    ]);
    let mut arguments: Vec<_> =
        figures.into_iter().map(|(name, value)| (name, Argument::Number(value))).collect();
    arguments.push(("lost_unknown", Argument::Flag(losses.lost_unknown)));
    arguments.push(("complete", Argument::Flag(report.trace.complete)));
    arguments.extend(notes.iter().map(|note| ("note", Argument::Text(note))));
    let track = tracks.named("memory totals", parent, sequence, out);
    let notes = notes.iter().map(|note| (&**note, &[][..]));
    for (name, arguments) in std::iter::once(("totals", &arguments[..])).chain(notes) {
        sequence.packet(out, at_ns, |packet| {
            packet.nested(packet::TRACK_EVENT, |event| instant(event, track, name, arguments));
        });
    }
}

/// The sequence of bookmarks, whose packets are written last and are earlier.
const BOOKMARK_SEQUENCE: u32 = THREAD_SEQUENCES - 1;
