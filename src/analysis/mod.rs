//! From events to a report: who holds which memory, now and at the peak.
//!
//! An [`Analyzer`] is a [`Visitor`]: it receives events in the one order all readers share, from
//! a file or from the process itself, and can give a [`Report`] at any time.
//!
//! ```text
//! event ──► role          what its type means, found once by name       roles.rs
//!       ──► stream        which thread, in which context                streams.rs
//!       ──► context       which scopes, group and name that is          contexts.rs, tree.rs
//!       ──► usual         allocations and frees as most writers lay them out usual.rs
//!       ──► step          an allocation or free, applied with others    steps.rs
//!       ──► live set      the block at this address                     live.rs, pages.rs, chunks.rs
//!       ──► book          the rows the block counts in                  rows.rs
//!                         ... and on demand a report from all of it     build.rs, report.rs
//! ```
//!
//! One event costs one look-up in the live set and a handful of additions; memory grows with live
//! blocks (22 to 40 bytes each, as a rule) and rows, not with events. Events are known by *name*, so traces of other writers are
//! read too; what this writer adds is described at [`Analyzer`].
//!
//! Nothing here panics on strange input. What does not fit is counted in [`Losses`] or noted in
//! [`Analyzer::problems`].
#![forbid(unsafe_code)]

#[cfg(feature = "enable")]
mod alive;
mod blocks;
mod bookmarks;
mod build;
mod channel;
mod chunks;
mod clock;
mod contexts;
mod hash;
mod live;
mod measured;
mod pages;
mod report;
mod roles;
mod rows;
mod steps;
mod streams;
mod tree;
mod usual;

#[cfg(feature = "enable")]
pub(crate) use alive::{Alive, AliveBlock};
pub use bookmarks::bookmark_text;
#[cfg(feature = "enable")]
pub(crate) use measured::{Baseline, Figures as MeasuredFigures, Holder};
pub use report::{
    AfterReport, Bookmark, Figures, GroupRow, LiveBlock, Losses, Moves, NameRow, PeakMoment,
    Report, ScopeRow, SizeRow, ThreadRow, TimeSpan, Totals, TraceInfo,
};

use crate::trace::format::schema::EventType;
use crate::trace::read::{Damage, Event, Hole, Row, Visitor};
use bookmarks::Bookmarks;
use channel::{MEMORY_CHANNEL, SCOPE_CHANNEL, ScopesOff};
use clock::Clock;
use contexts::{Contexts, Kind, OUTERMOST, Spec};
use hash::IntMap;
use live::LiveSet;
use roles::{Role, u8_at, u32_at, u64_at};
use rows::{Book, Moment};
use std::borrow::Cow;
use steps::{StepKind, Steps};
use streams::{Away, Cells, Stream, Threads};
use usual::{Guess, Usual};

/// Root heaps: separate address spaces.
const HEAPS: usize = 16;

/// Problems kept; the others are only like them.
const MOST_PROBLEMS: usize = 32;

/// Where an [`Analyzer`] stops counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// Nowhere: at the writer's own report, or where the trace ends.
    #[default]
    End,
    /// Before the first event later than this many nanoseconds after the start.
    Time(u64),
    /// After this many events.
    Event(u64),
}

/// Replays a trace and accounts for every block.
///
/// Beyond Unreal's memory events it understands those of our writer: `Memledger.Trace`,
/// `ThreadStart`, `Lost`, `LargeSize`, `ReallocFailed`, `ScopeEntries` and `Report`, and the fields `Kind` and
/// `Owner` of `Memory.TagSpec`. All figures stop at `Memledger.Report`, so that a report made
/// from the file equals the one the program made of itself; what follows it is in
/// [`Report::after_report`] only.
///
/// How odd cases are counted:
/// - The two halves of a reallocation are separate steps for peaks. Between them the block
///   counts as freed; after the second half it is one reallocation and no free.
/// - A block that is reallocated into another size class moves to it (`moved_in`, `moved_out`), and
///   the reallocation counts in its new class.
/// - A reallocation of an unknown block is an allocation: the block is first seen there.
/// - A block allocated over a live one ends the old block, which leaves the ledger without a
///   free (`moved_out`), so that in every row
///   `live_blocks = allocations - frees + moved_in - moved_out`. The same holds for a block that
///   the program declares to be a heap.
/// - `Memory.UpdateAlloc` moves a block to the tag that is current on its stream; the scope
///   stack of our own traces stays, it is where the block was first allocated. What was counted
///   before stays in the old row.
#[derive(Clone, Debug)]
pub struct Analyzer {
    roles: Vec<Role>,
    /// By uid.
    usual: Vec<Usual>,
    guess: Guess,
    clock: Clock,
    streams: Vec<Stream>,
    threads: Threads,
    cells: Cells,
    contexts: Contexts,
    book: Book,
    /// Boxed: 11 KiB, which an unoptimised build would copy from one stack frame to the next.
    heaps: Box<[LiveSet; HEAPS]>,
    /// Events that were taken in but not applied yet.
    steps: Steps,
    /// Blocks that `HeapMarkAlloc` took out of the ledger, by heap and address.
    marked: IntMap<(u8, u64), Away>,
    size_shift: u8,
    /// The number of the last new maximum of the total, and the first time in the stream after it.
    peak_before: (u64, u64),
    bookmarks: Bookmarks,
    scopes_off: ScopesOff,
    trace: TraceInfo,
    losses: Losses,
    /// The sum of `Memledger.Lost`, the number in `Memledger.Report`, and serials missing.
    lost: (u64, u64, u64),
    damaged: bool,
    /// Whether `Memledger.Report` was seen.
    told_all: bool,
    /// Whether the reader has reached the end of the trace.
    ended: bool,
    /// Whether the writer counts scope entries.
    tells_entries: bool,
    overhead: Option<u64>,
    /// The time in `Memledger.Report`.
    reported_at: Option<u64>,
    until: Until,
    /// The report as it was where counting stopped.
    finished: Option<Box<Report>>,
    after: AfterReport,
    largest_live: usize,
    problems: Vec<String>,
}

fn empty_heaps() -> Box<[LiveSet; HEAPS]> {
    // NOTE: constructed in place, not on the stack.
    let heaps = (0..HEAPS).map(|_| LiveSet::default()).collect::<Box<[_]>>();
    heaps.try_into().unwrap_or_else(|_| unreachable!("there are {HEAPS} of them"))
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    pub fn new() -> Self {
        let mut book = Book::default();
        Self {
            roles: Vec::new(),
            usual: Vec::new(),
            guess: Guess::default(),
            clock: Clock::default(),
            streams: Vec::new(),
            threads: Threads::default(),
            cells: Cells::default(),
            contexts: Contexts::new(&mut book),
            book,
            heaps: empty_heaps(),
            steps: Steps::default(),
            marked: IntMap::default(),
            size_shift: 3,
            peak_before: (0, 0),
            bookmarks: Bookmarks::default(),
            scopes_off: ScopesOff::default(),
            trace: TraceInfo::default(),
            losses: Losses::default(),
            lost: (0, 0, 0),
            damaged: false,
            told_all: false,
            ended: false,
            tells_entries: false,
            overhead: None,
            reported_at: None,
            until: Until::End,
            finished: None,
            after: AfterReport::default(),
            largest_live: 100,
            problems: Vec::new(),
        }
    }

    /// Stops counting at `until`: the report is as it stood then.
    pub fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// How many blocks [`Report::largest_live`] has at most (100 unless told).
    pub fn largest_live(mut self, blocks: usize) -> Self {
        self.largest_live = blocks;
        self
    }

    /// What did not fit together, one sentence each; like ones only once, the first 32.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The number of the event that first reached the largest total, for [`Until::Event`].
    pub fn peak_event(&self) -> u64 {
        self.settled().book.total.peak_at_event
    }

    /// The number of the event that first set the bookmark `name`, for [`Until::Event`]; `None` if
    /// none did.
    pub fn bookmark_event(&self, name: &str) -> Option<u64> {
        self.bookmarks.event(name)
    }

    /// Bytes that the table of live blocks takes: 22 to 40 for each that lies near others, up to 100
    /// for one that is alone in 2 KiB of addresses, and up to 1.2 MiB for blocks that are gone.
    pub fn live_set_bytes(&self) -> u64 {
        self.heaps.iter().map(|set| set.bytes() as u64).sum()
    }

    /// This analyzer with every event applied. A decoder settles a visitor where it pauses, so
    /// that only who hands in events by hand pays for the copy.
    fn settled(&self) -> Cow<'_, Self> {
        if self.steps.is_empty() && self.book.is_told() {
            return Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.settle_steps();
        Cow::Owned(settled)
    }

    #[cold]
    fn problem(&mut self, what: String) {
        if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(&what) {
            self.problems.push(what);
        }
    }

    /// Whether events still count.
    #[inline]
    fn counting(&self) -> bool {
        self.finished.is_none()
    }

    /// Keeps the report as it is now.
    #[cold]
    fn finish(&mut self) {
        if self.counting() {
            self.finished = Some(Box::new(self.build()));
            for stream in &mut self.streams {
                stream.last = None;
            }
        }
    }

    #[inline]
    fn moment(&self) -> Moment {
        Moment { time: self.clock.now(), event: self.trace.events }
    }

    /// The stream with this id, made if it is new.
    #[inline]
    fn stream(&mut self, id: u16) -> &mut Stream {
        let index = usize::from(id);
        if index >= self.streams.len() {
            self.add_streams(index);
        }
        &mut self.streams[index]
    }

    #[cold]
    #[inline(never)]
    fn add_streams(&mut self, last: usize) {
        for id in self.streams.len()..=last {
            let thread = self.threads.by_stream(id as u32, &mut self.book);
            self.streams.push(Stream::new(thread));
        }
    }

    fn thread_start(&mut self, stream: u16, id: u32, system_id: u32, name: &str) {
        let thread = self.threads.by_id(id, &mut self.book);
        self.threads.describe(thread, system_id, name);
        let stream = self.stream(stream);
        if stream.thread != thread {
            *stream = Stream::new(thread);
        }
    }

    /// The stream gives the time.
    fn tell_time(&mut self, cycle: u64) {
        if let Until::Time(time) = self.until
            && self.clock.nanoseconds(cycle) > time
        {
            self.reported_at.get_or_insert(time);
            self.note_peak_before(time);
            self.finish();
        }
        self.clock.mark(cycle);
        if self.counting() {
            self.note_peak_before(self.clock.now());
        }
        if self.trace.from_process_start == Some(false) {
            self.trace.recording_since_ns.get_or_insert(self.clock.now());
        }
    }

    /// The last new maximum was reached before `time`, the first time that the trace gives after it.
    fn note_peak_before(&mut self, time: u64) {
        let peak = self.book.total.epoch;
        if self.peak_before.0 != peak {
            self.peak_before = (peak, time);
        }
    }

    fn our_trace(&mut self, version: u8) {
        if version > 1 {
            self.problem(format!(
                "this trace was made by a newer memledger (version {version} of its own events; \
                 this one knows 1)"
            ));
        }
    }

    /// The rare events: everything but allocations and frees.
    #[inline(never)]
    fn other_event(&mut self, role: Role, event: &Event<'_>) {
        self.settle_steps();
        let fixed = event.fixed;
        match role {
            Role::Ignored | Role::Alloc { .. } | Role::Free { .. } => {
                if event.enters_scope {
                    let stream = self.stream(event.stream);
                    stream.enter(stream.context);
                }
            }
            Role::MemoryScope { tag } if event.enters_scope => {
                let context = self.contexts.by_id(u32_at(fixed, tag) as i32, &mut self.book);
                self.stream(event.stream).enter(context);
            }
            Role::MemoryScopePtr { address, heap } if event.enters_scope => {
                let block =
                    self.heaps.get(heap.of(fixed)).and_then(|h| h.get(u64_at(fixed, address)));
                let context =
                    block.map_or(OUTERMOST, |block| self.book.cells[block.owner as usize].context);
                self.stream(event.stream).enter(context);
            }
            Role::MemoryScope { .. } | Role::MemoryScopePtr { .. } => {}
            Role::Marker { cycle } => self.tell_time(u64_at(fixed, cycle)),
            Role::Update { address, heap } => {
                self.update(event.stream, heap.of(fixed), u64_at(fixed, address));
            }
            Role::HeapMark { address } => self.mark_heap(u64_at(fixed, address)),
            Role::HeapUnmark { address } => self.unmark_heap(u64_at(fixed, address)),
            Role::NewTrace { start, frequency } => {
                self.clock.begin(u64_at(fixed, start), u64_at(fixed, frequency));
            }
            Role::ThreadInfo { thread, system, name } => {
                let id = u32_at(fixed, thread);
                let thread = self.threads.by_stream(id, &mut self.book);
                self.threads.describe(thread, u32_at(fixed, system), &event.text(name));
            }
            Role::Session { program } => {
                let program = event.text(program);
                if !program.is_empty() {
                    self.trace.program = Some(program.into_owned());
                }
            }
            Role::Init { shift } => match u8_at(fixed, shift) {
                shift @ 0..=8 => self.size_shift = shift,
                shift => self.problem(format!(
                    "Memory.Init says that sizes are shifted by {shift} bits, more than their \
                     lower byte holds; 3 is assumed"
                )),
            },
            Role::TagSpec { tag, parent, name, kinds } => {
                let (kind, owner) = match kinds {
                    Some((kind, owner)) => {
                        self.contexts.has_kinds = true;
                        (Kind::from_wire(u8_at(fixed, kind)), u32_at(fixed, owner) as i32)
                    }
                    None => (Kind::Scope, -1),
                };
                let name = event.text(name).into();
                let parent = u32_at(fixed, parent) as i32;
                let spec = Spec { kind, parent, owner, name };
                self.contexts.announce(u32_at(fixed, tag) as i32, spec);
            }
            Role::OurTrace { version, pid, from_start, optimized } => {
                self.our_trace(u8_at(fixed, version));
                self.trace.pid = Some(u32_at(fixed, pid));
                let from_start = u8_at(fixed, from_start) != 0;
                self.trace.from_process_start = Some(from_start);
                if from_start {
                    // A later event may still say that the stream joined a recording.
                    self.trace.recording_since_ns = Some(0);
                    self.trace.initial_live_blocks = Some(0);
                }
                self.trace.tracker_optimized = optimized.map(|at| u8_at(fixed, at) != 0);
            }
            Role::ThreadStart { id, system, name } => {
                let (id, system) = (u32_at(fixed, id), u32_at(fixed, system));
                self.thread_start(event.stream, id, system, &event.text(name));
            }
            Role::Lost { events } => {
                self.lost.0 = self.lost.0.saturating_add(u64_at(fixed, events));
            }
            Role::LargeSize { address, size } => {
                self.large_size(event.stream, u64_at(fixed, address), u64_at(fixed, size));
            }
            Role::ReallocFailed { address } => {
                self.realloc_failed(event.stream, u64_at(fixed, address));
            }
            Role::Alive { blocks } => {
                // The stream reports all earlier events at one time, however long they took.
                self.clock.forget_resolution();
                self.scopes_off.begin(self.clock.now());
                self.trace.recording_since_ns = Some(self.clock.now());
                // A stream of a recording that keeps no account begins without live blocks.
                let known =
                    |blocks: &u64| *blocks > 0 || self.trace.from_process_start != Some(false);
                self.trace.initial_live_blocks = Some(u64_at(fixed, blocks)).filter(known);
            }
            Role::Channel { id, enabled, name } => {
                let (id, is_on) = (u32_at(fixed, id), u8_at(fixed, enabled) != 0);
                let now = self.clock.now();
                match name.map(|name| event.text(name)) {
                    Some(name) if name == SCOPE_CHANNEL => {
                        self.scopes_off.announced(id, is_on, now)
                    }
                    Some(name) if name == MEMORY_CHANNEL => {
                        self.trace.memory_recorded = Some(is_on);
                    }
                    None if self.counting() => self.scopes_off.toggled(id, is_on, now),
                    _ => {}
                }
            }
            Role::ScopeEntries { tag, entries, before } => {
                let (tag, entries) = (u32_at(fixed, tag) as i32, u64_at(fixed, entries));
                self.contexts.entered(tag, entries, u8_at(fixed, before) != 0);
            }
            Role::Report { cycle, overhead, lost, misuses } if !self.told_all => {
                self.told_all = true;
                self.lost.1 = u64_at(fixed, lost);
                self.losses.scope_misuses = u64_at(fixed, misuses);
                if self.counting() {
                    self.overhead = Some(u64_at(fixed, overhead));
                    self.reported_at = Some(self.clock.nanoseconds(u64_at(fixed, cycle)));
                    self.finish();
                }
            }
            Role::Report { .. } => {}
            Role::BookmarkSpec { point, format } => {
                self.bookmarks.describe(u64_at(fixed, point), &event.text(format));
            }
            Role::Bookmark { cycle, point, arguments } => {
                let cycle = u64_at(fixed, cycle);
                let mut at = self.clock.nanoseconds(cycle);
                if event.serial.is_some() {
                    // A bookmark has a place in the order: events after it are later, and events
                    // before it earlier.
                    self.tell_time(cycle);
                    at = at.max(self.clock.now());
                }
                let (point, arguments) = (u64_at(fixed, point), event.bytes(arguments));
                if self.counting() && !self.bookmarks.set(point, &arguments, at, self.trace.events)
                {
                    self.problem("only the first 10000 bookmarks are shown".into());
                }
                // A report as of this event knows its time, which else moves at markers only.
                if self.until == Until::Event(self.trace.events) {
                    self.reported_at.get_or_insert(at);
                }
            }
        }
    }
}

impl Visitor for Analyzer {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        let role = roles::role_of(event_type).unwrap_or_else(|problem| {
            self.problem(problem);
            Role::Ignored
        });
        if index >= self.roles.len() {
            self.roles.resize(index + 1, Role::Ignored);
        }
        self.roles[index] = role;
        self.tells_entries |= matches!(role, Role::ScopeEntries { .. });
        self.learn(event_type, role, index);
    }

    // PERF: where it is inlined no `Event` is made: 50 instead of 54 ns an event from file to report.
    #[inline(always)]
    fn event(&mut self, event: &Event<'_>) {
        if self.counting() {
            self.trace.events += 1;
        }
        let fixed = event.fixed;
        match *self.roles.get(event.type_index).unwrap_or(&Role::Ignored) {
            Role::Alloc { address, size, low, heap, realloc } => {
                let high = u64::from(u32_at(fixed, size)) << self.size_shift;
                let low = u64::from(u8_at(fixed, low)) & ((1 << self.size_shift) - 1);
                let kind = if realloc { StepKind::ReallocAlloc } else { StepKind::Alloc };
                let address = u64_at(fixed, address);
                self.put_off(kind, event.stream, heap.of(fixed), address, high | low);
            }
            Role::Free { address, heap, realloc } => {
                let kind = if realloc { StepKind::ReallocFree } else { StepKind::Free };
                let address = u64_at(fixed, address);
                self.put_off(kind, event.stream, heap.of(fixed), address, 0);
            }
            role => self.other_event(role, event),
        }
        if let Until::Event(last) = self.until
            && self.trace.events >= last
        {
            self.settle_steps();
            self.finish();
        }
    }

    #[inline]
    fn row(&mut self, row: &mut Row<'_>) {
        self.take_usual(row);
    }

    fn leave_scope(&mut self, stream: u16) {
        self.settle_steps();
        self.stream(stream).leave();
    }

    fn settle(&mut self) {
        self.settle_steps();
    }

    fn end(&mut self, whole: bool) {
        self.ended = whole;
    }

    fn hole(&mut self, hole: Hole) {
        self.losses.serial_holes += 1;
        self.losses.lost_unknown |= hole.count == 0;
        self.lost.2 = self.lost.2.saturating_add(hole.count);
    }

    fn damage(&mut self, damage: &Damage) {
        self.damaged = true;
        self.losses.truncated_bytes = self.losses.truncated_bytes.saturating_add(damage.skipped);
        self.problem(damage.what.clone());
    }
}
