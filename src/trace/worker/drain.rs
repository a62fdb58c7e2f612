//! One tick: what every thread has committed gets its place in the order, and goes to the sinks.
//!
//! The order of a tick is a rule, since an event must never come before what it refers to:
//! 1. find the epoch up to which all events are committed,
//! 2. read every thread's commit cursor,
//! 3. read the tables of names and threads,
//! 4. send the important events that come of 3,
//! 5. number and send the threads' events up to 1 and 2.
#![expect(unsafe_code, reason = "reads the blocks of other threads")]

use super::Instrument;
use super::merge::{Piece, Shapes};
use super::replay::{History, Importants};
use super::streams::{CONTROL, StreamIds, WORKER};
use super::world::World;
use crate::error::Error;
use crate::trace::event::declared;
use crate::trace::event::encode::LEAVE_SCOPE;
use crate::trace::events;
use crate::trace::pages::{self, Block};
use crate::trace::sink::Sink;
use crate::trace::transport::packet::TYPES;
use crate::trace::write::registry::{self, FINISHED, LIVE, Slot};
use crate::trace::write::{buffer, loss, state};
use crate::trace::{clock, os};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Readers ignore a marker that comes five minutes after the one before.
const MARKER_AT_LEAST: Duration = Duration::from_secs(60);
/// Threads that ended without saying so are looked for this often.
const LOOK_FOR_DEAD: Duration = Duration::from_secs(1);
/// After so many bytes of events the sinks get what they have not got of any thread, and the blocks
/// are free again. Small enough to stay in the cache until they are coded, and for all of it to be
/// written at once: what a process that is killed has written should have few holes.
const SEND_EVERY: usize = 256 << 10;

/// The serial of the next event, in all recordings of the process.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// How many events have been collected since the start of the process.
pub(crate) fn collected() -> u64 {
    SERIAL.load(Ordering::Relaxed)
}

/// What the worker knows of the occupant of one slot.
#[derive(Clone, Copy, Default)]
struct Occupant {
    /// The stream its packets carry, 0 before its first.
    stream: u16,
    /// How far its first block is drained, and an epoch it was in there; `None` for its start.
    drained: Option<(NonNull<u8>, u64)>,
}

/// A thread's commit cursor as it stood at step 2.
struct Cursor {
    slot: &'static Slot,
    number: usize,
    block: NonNull<Block>,
    end: *mut u8,
    finished: bool,
}

/// What a thread has committed, on its way.
struct Feed {
    cursor: Cursor,
    stream: u16,
    /// Its blocks, oldest first. All but the last are numbered.
    pieces: Vec<Piece>,
}

/// What the stream says at its end.
pub(crate) struct Final {
    /// No thread is inside a hook any more.
    pub(crate) quiet: bool,
    pub(crate) overhead_bytes: u64,
    pub(crate) scope_misuses: u64,
    pub(crate) failed_allocations: u64,
}

/// What one recording knows, from its start to its end.
pub(crate) struct Session {
    sinks: Vec<Box<dyn Sink>>,
    instruments: Vec<Box<dyn Instrument>>,
    importants: Importants,
    /// Everything sent so far, while that is little and a sink may still join.
    history: Option<History>,
    occupants: Vec<Occupant>,
    streams: StreamIds,
    shapes: Shapes,
    /// How many types of the program were announced.
    program_types: usize,
    world: World,
    first_serial: u64,
    /// The serial of the next event.
    serial: u64,
    settled: u64,
    /// The serial after the last marker: if it has not moved, nothing happened.
    marked: u64,
    last_marker: Instant,
    /// Bytes of events numbered since the last were sent.
    unsent: usize,
    last_look: Instant,
    on_problem: fn(Error),
    failed: bool,
}

// SAFETY: the pointers point into blocks that are never unmapped, and whoever holds the session
// (under its lock) is the only one that drains them.
unsafe impl Send for Session {}

impl Session {
    /// A session that begins with the next event, or with the first of the process.
    pub(crate) fn new(
        sinks: Vec<Box<dyn Sink>>,
        instruments: Vec<Box<dyn Instrument>>,
        from_process_start: bool,
        on_problem: fn(Error),
    ) -> Self {
        let types = instruments.iter().flat_map(|instrument| instrument.types());
        let shapes = Shapes::new(types);
        let start = if from_process_start { clock::process_start() } else { clock::now() };
        let first_serial = collected();
        let mut session = Self {
            sinks,
            instruments,
            importants: Importants::new(),
            history: None,
            occupants: Vec::new(),
            streams: StreamIds::new(),
            shapes,
            program_types: 0,
            world: World::new(start),
            first_serial,
            serial: first_serial,
            settled: first_serial,
            marked: u64::MAX,
            last_marker: Instant::now(),
            unsent: 0,
            last_look: Instant::now(),
            on_problem,
            failed: false,
        };
        session.describe(start, from_process_start);
        session
    }

    /// Keeps what is sent, up to `limit` bytes, so that a sink can join as if from the start.
    pub(crate) fn keep_history(&mut self, limit: usize) {
        self.history = Some(History::new(limit));
    }

    /// Adds a sink that receives everything since the start; gives it back if that is gone.
    pub(crate) fn join(&mut self, mut sink: Box<dyn Sink>) -> Result<(), Box<dyn Sink>> {
        let Some(history) = &self.history else { return Err(sink) };
        sink.packet(TYPES, &self.type_records());
        self.importants.replay(&mut *sink);
        // As in `describe`.
        sink.packet(CONTROL, &settled_below(self.first_serial));
        for _ in 0..3 {
            if let Err(error) = sink.sync() {
                (self.on_problem)(error);
                return Ok(());
            }
        }
        history.replay(&mut *sink);
        self.sinks.push(sink);
        self.sync();
        Ok(())
    }

    fn type_records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        let instruments = self.instruments.iter().map(|instrument| instrument.types());
        for declaration in [events::TYPES].into_iter().chain(instruments).flatten() {
            declaration.append_record(&mut records);
        }
        let programs = (0..self.program_types).filter_map(declared::registered);
        programs.for_each(|declared| declared.append_record(&mut records));
        records
    }

    /// Sends the types that the program has used since it was last asked.
    fn announce_types(&mut self) {
        let mut records = Vec::new();
        while let Some(declared) = declared::registered(self.program_types) {
            declared.append_record(&mut records);
            self.shapes.add(declared);
            self.program_types += 1;
        }
        if !records.is_empty() {
            self.sinks.iter_mut().for_each(|sink| sink.packet(TYPES, &records));
        }
    }

    /// Sends what a stream starts with: types, the start of the clock, the program, our streams.
    fn describe(&mut self, start: u64, from_process_start: bool) {
        let records = self.type_records();
        self.sinks.iter_mut().for_each(|sink| sink.packet(TYPES, &records));
        let pid = os::process_id();
        let first_serial = self.first_serial;
        let importants = &mut self.importants;
        importants.add(
            &events::NEW_TRACE,
            &[start.into(), clock::FREQUENCY.into(), 0x524d_u32.into(), 8_u32.into()],
        );
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        importants.add(
            &events::SESSION,
            &["Linux".into(), (&*program.to_string_lossy()).into(), 3_u32.into(), 5_u32.into()],
        );
        importants.add(
            &events::TRACE,
            &[1_u32.into(), pid.into(), first_serial.into(), u32::from(from_process_start).into()],
        );
        for (stream, name) in [(CONTROL, "memledger control"), (WORKER, "memledger worker")] {
            let hint = (stream as u32).into();
            importants.add(
                &events::THREAD_INFO,
                &[u32::from(stream).into(), pid.into(), hint, name.into()],
            );
        }
        self.announce();
        // NOTE: before anything else. A reader that has never met this event takes the stream for
        // one without it, and what is late in the first ticks for lost.
        self.packet(CONTROL, &settled_below(first_serial));
        // Unreal's readers trust serials after a group of three syncs.
        (0..3).for_each(|_| self.sync());
    }

    /// Steps 3 and 4, but for the threads.
    fn announce(&mut self) -> bool {
        for instrument in &mut self.instruments {
            instrument.announce(&mut self.importants);
        }
        // NOTE: after the important events were collected, before they are sent.
        self.announce_types();
        self.importants.send(&mut self.sinks)
    }

    fn packet(&mut self, stream: u16, payload: &[u8]) {
        for sink in &mut self.sinks {
            sink.packet(stream, payload);
        }
        self.keep(stream, payload);
    }

    fn keep(&mut self, stream: u16, payload: &[u8]) {
        if let Some(history) = &mut self.history
            && !history.add(stream, payload)
        {
            self.history = None;
        }
    }

    fn sync(&mut self) {
        self.sinks.retain_mut(|sink| match sink.sync() {
            Ok(()) => true,
            Err(error) => {
                (self.on_problem)(error);
                false
            }
        });
    }

    /// Whom problems are told.
    pub(crate) fn on_problem(&self) -> fn(Error) {
        self.on_problem
    }

    /// Ends the recording for a fault of the tracker's own.
    pub(crate) fn fail(&mut self, why: String) {
        self.failed = true;
        self.sinks.clear();
        state::pause();
        (self.on_problem)(Error::Unsupported(why));
    }

    /// Collects once. Waits for threads that are inside the hook for `patience`.
    pub(crate) fn tick(&mut self, patience: Duration) {
        buffer::answer_call();
        if self.failed {
            return;
        }
        if self.last_look.elapsed() >= LOOK_FOR_DEAD {
            registry::finish_dead();
            self.last_look = Instant::now();
        }
        let bound = self.world.tick(patience);
        let mut sent = self.collect(bound);
        if self.serial > self.settled {
            self.settle();
            sent = true;
        }
        if sent {
            self.sync();
        }
    }

    /// Steps 2 to 5; whether anything was sent.
    fn collect(&mut self, bound: u64) -> bool {
        let cursors = self.read_cursors();
        let starts = cursors.iter().filter_map(|cursor| self.introduce(cursor)).collect::<Vec<_>>();
        let mut sent = self.announce();
        for (stream, start) in starts {
            self.packet(stream, &start);
            sent = true;
        }
        sent |= self.merge(cursors, bound);
        self.mark_until(bound);
        buffer::all_collected();
        sent | self.tell_losses()
    }

    /// Step 2: how far each thread has got.
    fn read_cursors(&mut self) -> Vec<Cursor> {
        let mut cursors = Vec::new();
        for (number, slot) in registry::slots().enumerate() {
            if self.occupants.len() <= number {
                self.occupants.push(Occupant::default());
            }
            // NOTE: the state first: of a finished thread everything is committed.
            let state = slot.state.load(Ordering::Acquire);
            if state != LIVE && state != FINISHED {
                continue;
            }
            let finished = state == FINISHED;
            let Some(mut block) = NonNull::new(slot.first.load(Ordering::Acquire)) else {
                if finished {
                    self.take_losses_of(slot);
                    registry::free(slot);
                }
                continue;
            };
            let end = loop {
                match slot.committed(header(block)) {
                    (end, None) => break end,
                    (_, Some(next)) => block = next,
                }
            };
            cursors.push(Cursor { slot, number, block, end, finished });
        }
        cursors
    }

    /// Gives a new thread its stream and its name; returns what its stream starts with.
    fn introduce(&mut self, cursor: &Cursor) -> Option<(u16, Vec<u8>)> {
        let occupant = self.occupants.get_mut(cursor.number)?;
        if occupant.stream != 0 {
            return None;
        }
        let stream = self.streams.take()?;
        occupant.stream = stream;
        occupant.drained = None;
        let slot = cursor.slot;
        let id = slot.thread_id.load(Ordering::Relaxed);
        let system_id = slot.system_id.load(Ordering::Relaxed);
        let name = if system_id == os::process_id() {
            *b"main\0\0\0\0\0\0\0\0\0\0\0\0"
        } else {
            // A thread records its first events before it is given its name, so ask again.
            let alive = if cursor.finished { None } else { os::thread_name_of(system_id) };
            alive.unwrap_or_else(|| slot.name())
        };
        let size = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..size]);
        let hint = id.into();
        self.importants.add(
            &events::THREAD_INFO,
            &[u32::from(stream).into(), system_id.into(), hint, (&*name).into()],
        );
        let mut start = Vec::new();
        events::THREAD_START.append(&[id.into(), system_id.into(), (&*name).into()], &mut start);
        Some((stream, start))
    }

    /// Step 5; whether anything was sent that no serial tells of.
    fn merge(&mut self, cursors: Vec<Cursor>, bound: u64) -> bool {
        let feeds = cursors.into_iter().filter_map(|cursor| self.feed(cursor));
        let mut feeds = feeds.collect::<Vec<_>>();
        let mut queue = BinaryHeap::with_capacity(feeds.len());
        for (index, feed) in feeds.iter_mut().enumerate() {
            if let Some(epoch) = self.next_epoch(feed) {
                queue.push(Reverse((epoch, index)));
            }
        }
        while let Some(mut first) = queue.peek_mut() {
            let Reverse((epoch, index)) = *first;
            let Some(feed) = feeds.get_mut(index).filter(|_| epoch <= bound) else { break };
            self.mark_before(epoch);
            match self.run(feed, epoch) {
                Some(next) => *first = Reverse((next, index)),
                None => drop(PeekMut::pop(first)),
            }
            if self.unsent >= SEND_EVERY {
                self.send(&mut feeds);
                self.settle();
                self.sync();
                self.world.pulse();
                // NOTE: in the midst of a tick. The blocks can be the whole buffer, and threads
                // that wait give up after a second in which nothing was freed.
                buffer::wake_waiters();
            }
        }
        let sent = self.unsent > 0;
        self.send(&mut feeds);
        feeds.iter().for_each(|feed| self.leave(feed));
        sent
    }

    fn feed(&self, cursor: Cursor) -> Option<Feed> {
        let &Occupant { stream, drained } = self.occupants.get(cursor.number)?;
        let block = NonNull::new(cursor.slot.first.load(Ordering::Acquire))?;
        let piece = Piece::new(block, drained, committed(&cursor, block));
        Some(Feed { cursor, stream, pieces: vec![piece] })
    }

    /// Numbers the events of one thread in `epoch`, which is its next; returns the one after.
    fn run(&mut self, feed: &mut Feed, epoch: u64) -> Option<u64> {
        loop {
            let piece = feed.pieces.last_mut()?;
            self.serial = piece.number(epoch, self.serial, &self.shapes);
            self.pass_run(feed.stream, piece);
            let next = self.next_epoch(feed)?;
            if next != epoch || self.unsent >= SEND_EVERY {
                return Some(next);
            }
        }
    }

    /// The epoch of a thread's next event, which may be in another block; `None` if all of them
    /// have been numbered.
    fn next_epoch(&mut self, feed: &mut Feed) -> Option<u64> {
        loop {
            let piece = feed.pieces.last_mut()?;
            if let Some(epoch) = piece.next_epoch(&self.shapes) {
                return Some(epoch);
            }
            self.pass_run(feed.stream, piece);
            if piece.block == feed.cursor.block {
                return None;
            }
            let next = NonNull::new(header(piece.block).next.load(Ordering::Acquire))?;
            feed.pieces.push(Piece::new(next, None, committed(&feed.cursor, next)));
        }
    }

    /// Passes on what has just been numbered, to the sinks that want order.
    fn pass_run(&mut self, stream: u16, piece: &mut Piece) {
        let run = piece.take_run();
        self.unsent += run.len();
        for sink in self.sinks.iter_mut().filter(|sink| !run.is_empty() && sink.wants_order()) {
            sink.packet(stream, run);
        }
    }

    /// Sends what has been numbered, to the sinks that have not got it, and gives blocks back.
    fn send(&mut self, feeds: &mut [Feed]) {
        for feed in feeds {
            for piece in &mut feed.pieces {
                // What stands before an event that is not numbered yet: a switch of context.
                self.pass_run(feed.stream, piece);
                let bytes = piece.take_sent();
                if !bytes.is_empty() {
                    for sink in self.sinks.iter_mut().filter(|sink| !sink.wants_order()) {
                        sink.packet(feed.stream, bytes);
                    }
                    self.keep(feed.stream, bytes);
                }
            }
            let slot = feed.cursor.slot;
            for piece in feed.pieces.drain(..feed.pieces.len() - 1) {
                let next = header(piece.block).next.load(Ordering::Acquire);
                slot.first.store(next, Ordering::Release);
                buffer::release(slot, piece.block);
            }
        }
        self.unsent = 0;
    }

    /// Notes how far a thread is drained; if it is at its end, retires it.
    fn leave(&mut self, feed: &Feed) {
        let Some(piece) = feed.pieces.last() else { return };
        let last = piece.is_done() && piece.block == feed.cursor.block;
        if last && feed.cursor.finished {
            self.retire(&feed.cursor, piece.block);
        } else if let Some(occupant) = self.occupants.get_mut(feed.cursor.number) {
            occupant.drained = piece.rest();
        }
    }

    /// The last of a finished thread: closes what is open, frees its block, stream and slot.
    fn retire(&mut self, cursor: &Cursor, block: NonNull<Block>) {
        let Some(occupant) = self.occupants.get_mut(cursor.number) else { return };
        let stream = std::mem::take(occupant).stream;
        self.close(cursor.slot, stream);
        self.take_losses_of(cursor.slot);
        cursor.slot.first.store(std::ptr::null_mut(), Ordering::Release);
        buffer::release(cursor.slot, block);
        self.streams.give_back(stream);
        registry::free(cursor.slot);
    }

    /// Sends what closes the context a stream stands in.
    fn close(&mut self, slot: &Slot, stream: u16) {
        let closing = slot.closing.load(Ordering::Acquire);
        let mut leaves = vec![LEAVE_SCOPE; slot.depth.load(Ordering::Acquire) as usize];
        if closing != 0 {
            leaves.insert(0, closing);
        }
        if !leaves.is_empty() {
            self.packet(stream, &leaves);
        }
    }

    fn tell_losses(&mut self) -> bool {
        let before = loss::total();
        for slot in registry::slots() {
            self.take_losses_of(slot);
        }
        self.tell_loss(0, loss::take_without_slot());
        loss::total() != before
    }

    fn take_losses_of(&mut self, slot: &Slot) {
        if slot.lost.load(Ordering::Relaxed) > 0 {
            let lost = slot.lost.swap(0, Ordering::Relaxed);
            self.tell_loss(slot.thread_id.load(Ordering::Relaxed), lost);
        }
    }

    fn tell_loss(&mut self, thread: u32, lost: u64) {
        if lost > 0 {
            loss::told(lost);
            let mut event = Vec::new();
            events::LOST.append(&[thread.into(), lost.into()], &mut event);
            self.packet(CONTROL, &event);
        }
    }

    /// Says that everything collected has been sent.
    fn settle(&mut self) {
        self.settled = self.serial;
        SERIAL.store(self.serial, Ordering::Relaxed);
        self.packet(CONTROL, &settled_below(self.serial));
    }

    /// Writes markers for the times between the events so far and those of `epoch`.
    fn mark_before(&mut self, epoch: u64) {
        if self.world.has_moment_in(epoch.saturating_sub(1)) {
            self.world.moments_before(epoch).for_each(|cycle| self.mark(cycle));
        }
    }

    /// Writes a marker behind the events up to `bound`, if there were any since the last marker, or
    /// that is long ago.
    fn mark_until(&mut self, bound: u64) {
        let due = self.serial != self.marked || self.last_marker.elapsed() >= MARKER_AT_LEAST;
        if due && self.world.has_moment_in(bound) {
            self.world.moments_before(bound + 1).for_each(|cycle| self.mark(cycle));
        }
    }

    fn mark(&mut self, cycle: u64) {
        self.packet(WORKER, &events::marker(self.serial, cycle));
        self.serial += 1;
        self.marked = self.serial;
        self.last_marker = Instant::now();
    }

    /// Ends the stream: recording is paused, so everything that will ever come is there.
    pub(crate) fn finish(&mut self, last: &Final) {
        if self.failed {
            return;
        }
        self.collect(u64::MAX - 1);
        for (number, slot) in registry::slots().enumerate() {
            let stream = self.occupants.get(number).map_or(0, |occupant| occupant.stream);
            // Of a thread that is still inside its hook, nobody knows where it stands.
            if stream != 0 && last.quiet {
                self.close(slot, stream);
            }
        }
        self.mark(clock::now_since_start());
        self.settle();
        let mut report = Vec::new();
        events::REPORT.append(
            &[
                self.serial.into(),
                clock::now().into(),
                last.overhead_bytes.into(),
                loss::total().into(),
                last.scope_misuses.into(),
                last.failed_allocations.into(),
            ],
            &mut report,
        );
        self.packet(WORKER, &report);
        for sink in &mut self.sinks {
            if let Err(error) = sink.finish() {
                (self.on_problem)(error);
            }
        }
    }
}

/// Says that every event below `serial` that will ever come has come.
fn settled_below(serial: u64) -> Vec<u8> {
    let mut event = Vec::new();
    events::SETTLED.append(&[serial.into()], &mut event);
    event
}

/// Bytes of pages the tracker has mapped.
pub(crate) fn mapped_bytes() -> u64 {
    pages::mapped() + registry::mapped()
}

/// The end of what `cursor` covers of a block of its thread.
fn committed(cursor: &Cursor, block: NonNull<Block>) -> *mut u8 {
    if block == cursor.block { cursor.end } else { header(block).committed.load(Ordering::Acquire) }
}

fn header(block: NonNull<Block>) -> &'static Block {
    // SAFETY: blocks are never unmapped, and their headers are atomics.
    unsafe { block.as_ref() }
}
