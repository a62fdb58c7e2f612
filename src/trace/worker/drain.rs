//! One tick: what every thread has committed goes to the sinks.
//!
//! The order of a tick is a rule, since an event must never come before what it refers to:
//! 1. read every thread's commit cursor,
//! 2. read the tables of names and threads,
//! 3. send the important events that come of 2,
//! 4. send the threads' bytes up to 1.
#![expect(unsafe_code, reason = "reads the blocks of other threads")]

use super::Instrument;
use super::replay::{History, Importants};
use super::streams::{CONTROL, StreamIds, WORKER};
use crate::error::Error;
use crate::trace::channel::Channel;
use crate::trace::events;
use crate::trace::pages::{self, Block};
use crate::trace::sink::Sink;
use crate::trace::transport::packet::TYPES;
use crate::trace::write::registry::{self, FINISHED, LIVE, Slot};
use crate::trace::write::{buffer, loss, serial, state};
use crate::trace::{clock, os};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Readers ignore a marker that comes five minutes after the one before.
const MARKER_AT_LEAST: Duration = Duration::from_secs(60);
/// Threads that ended without saying so are looked for this often.
const LOOK_FOR_DEAD: Duration = Duration::from_secs(1);
/// Waiting threads are woken whenever this much has been drained.
const WAKE_EVERY: usize = 1 << 20;

/// What the worker knows of the occupant of one slot.
#[derive(Clone, Copy, Default)]
struct Occupant {
    /// The stream its packets carry, 0 before its first.
    stream: u16,
    /// How far its first block is drained; null for its start.
    drained: Option<NonNull<u8>>,
}

/// A thread's commit cursor as it stood at step 1.
struct Cursor {
    slot: &'static Slot,
    number: usize,
    block: NonNull<Block>,
    end: *mut u8,
    finished: bool,
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
    first_serial: u64,
    settled: u64,
    /// The serial after the last marker of the worker: if it has not moved, nothing happened.
    marked: u64,
    last_marker: Instant,
    last_look: Instant,
    on_problem: fn(Error),
    failed: bool,
}

// SAFETY: the pointers point into blocks that are never unmapped, and whoever holds the session
// (under its lock) is the only one that drains them.
unsafe impl Send for Session {}

impl Session {
    /// A session whose first event has the serial `first_serial`.
    pub(crate) fn new(
        sinks: Vec<Box<dyn Sink>>,
        instruments: Vec<Box<dyn Instrument>>,
        channels: &[Channel],
        first_serial: u64,
        from_process_start: bool,
        on_problem: fn(Error),
    ) -> Self {
        let mut session = Self {
            sinks,
            instruments,
            importants: Importants::new(),
            history: None,
            occupants: Vec::new(),
            streams: StreamIds::new(),
            first_serial,
            settled: first_serial,
            marked: first_serial,
            last_marker: Instant::now(),
            last_look: Instant::now(),
            on_problem,
            failed: false,
        };
        serial::settle(first_serial);
        session.describe(channels, first_serial, from_process_start);
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
        records
    }

    /// Sends what a stream starts with: types, the start of the clock, the program, our streams.
    fn describe(&mut self, channels: &[Channel], first_serial: u64, from_process_start: bool) {
        let records = self.type_records();
        self.sinks.iter_mut().for_each(|sink| sink.packet(TYPES, &records));
        let start = if from_process_start { clock::process_start() } else { clock::now() };
        let pid = os::process_id();
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
        channels.iter().for_each(|channel| channel.announce(importants));
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

    /// Steps 2 and 3, but for the threads.
    fn announce(&mut self) -> bool {
        for instrument in &mut self.instruments {
            instrument.announce(&mut self.importants);
        }
        self.importants.send(&mut self.sinks)
    }

    fn packet(&mut self, stream: u16, payload: &[u8]) {
        for sink in &mut self.sinks {
            sink.packet(stream, payload);
        }
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

    /// Collects once.
    pub(crate) fn tick(&mut self) {
        buffer::answer_call();
        if self.failed {
            return;
        }
        if self.last_look.elapsed() >= LOOK_FOR_DEAD {
            registry::finish_dead();
            self.last_look = Instant::now();
        }
        let serial = serial::peek();
        state::barrier();
        let settled = state::is_settled();
        let mut sent = self.collect();
        if settled && serial > self.settled {
            self.settle(serial);
            sent = true;
        }
        sent |= self.mark();
        if sent {
            self.sync();
        }
    }

    /// Steps 1 to 4; whether anything was sent.
    fn collect(&mut self) -> bool {
        let cursors = self.read_cursors();
        let starts = cursors.iter().filter_map(|cursor| self.introduce(cursor)).collect::<Vec<_>>();
        let mut sent = self.announce();
        for (stream, start) in starts {
            self.packet(stream, &start);
        }
        let mut drained = 0;
        for cursor in cursors {
            drained += self.drain(&cursor);
            sent |= drained > 0;
            if drained >= WAKE_EVERY {
                drained = 0;
                buffer::wake_waiters();
            }
        }
        buffer::all_collected();
        sent | self.tell_losses()
    }

    /// Step 1: how far each thread has got.
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
            while let Some(next) = NonNull::new(header(block).next.load(Ordering::Acquire)) {
                block = next;
            }
            let end = header(block).committed.load(Ordering::Acquire);
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

    /// Step 4 for one thread; returns how many bytes of blocks became free.
    fn drain(&mut self, cursor: &Cursor) -> usize {
        let Some(&Occupant { stream, drained }) = self.occupants.get(cursor.number) else {
            return 0;
        };
        let slot = cursor.slot;
        let (mut freed, mut told) = (0, 0);
        let mut from = drained.map(NonNull::as_ptr);
        let mut block = NonNull::new(slot.first.load(Ordering::Acquire));
        while let Some(current) = block {
            let last = current == cursor.block;
            let start = from.take().unwrap_or_else(|| Block::start(current));
            let end =
                if last { cursor.end } else { header(current).committed.load(Ordering::Acquire) };
            let size = end.addr() - start.addr();
            if size > 0 {
                // SAFETY: the bytes lie in the block and are committed; nobody writes there again
                // before the block is given back, which only we do.
                let bytes = unsafe { std::slice::from_raw_parts(start, size) };
                self.packet(stream, bytes);
            }
            if last {
                if cursor.finished {
                    self.retire(cursor, current);
                } else if let Some(occupant) = self.occupants.get_mut(cursor.number) {
                    occupant.drained = NonNull::new(end);
                }
                return freed + size;
            }
            let next = header(current).next.load(Ordering::Acquire);
            slot.first.store(next, Ordering::Release);
            freed += header(current).size.load(Ordering::Relaxed) as usize;
            buffer::release(slot, current);
            // NOTE: within one thread's blocks too. They can be the whole buffer, and threads that
            // wait give up after a second in which nothing was freed.
            if freed - told >= WAKE_EVERY {
                told = freed;
                buffer::wake_waiters();
            }
            block = NonNull::new(next);
        }
        freed
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
        if closing != 0 {
            self.packet(stream, &[closing]);
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

    fn settle(&mut self, serial: u64) {
        self.settled = serial;
        self.packet(CONTROL, &settled_below(serial));
        serial::settle(serial);
        buffer::made_progress();
        buffer::wake_waiters();
    }

    /// Writes a marker if something happened since the last one, or long ago.
    fn mark(&mut self) -> bool {
        if serial::peek() == self.marked && self.last_marker.elapsed() < MARKER_AT_LEAST {
            state::set_marker_due();
            return false;
        }
        self.write_marker()
    }

    fn write_marker(&mut self) -> bool {
        let Some(marker) = serial::try_marker() else { return false };
        self.packet(WORKER, &marker);
        self.marked = serial::peek();
        self.last_marker = Instant::now();
        true
    }

    /// Ends the stream: recording is paused, so everything that will ever come is there.
    pub(crate) fn finish(mut self, last: &Final) {
        if self.failed {
            return;
        }
        self.collect();
        for (number, slot) in registry::slots().enumerate() {
            let stream = self.occupants.get(number).map_or(0, |occupant| occupant.stream);
            // Of a thread that is still inside its hook, nobody knows where it stands.
            if stream != 0 && last.quiet {
                self.close(slot, stream);
            }
        }
        // Another thread can be at its marker for some nanoseconds; one stuck in it does not count.
        let _ = (0..1000).any(|_| self.write_marker() || (std::thread::yield_now(), false).1);
        let serial = serial::peek();
        self.settle(serial);
        let mut report = Vec::new();
        events::REPORT.append(
            &[
                serial.into(),
                clock::now().into(),
                last.overhead_bytes.into(),
                loss::total().into(),
                last.scope_misuses.into(),
                last.failed_allocations.into(),
            ],
            &mut report,
        );
        self.packet(WORKER, &report);
        for mut sink in std::mem::take(&mut self.sinks) {
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

fn header(block: NonNull<Block>) -> &'static Block {
    // SAFETY: blocks are never unmapped, and their headers are atomics.
    unsafe { block.as_ref() }
}
