//! The collector's state of each thread: its stream, and how far it is drained.

use super::buffer_cursor::{BufferCursor, ResumePoint};
use super::checkpoint::Checkpoints;
use super::importants::Importants;
use super::layouts::Layouts;
use super::output::Output;
use super::streams::StreamIds;
use crate::platform::os::{self, ThreadName};
use crate::trace::write::buffer::Buffer;
use crate::trace::write::slot::{FINISHED, LIVE, ThreadSlot};
use crate::trace::write::{backpressure, buffer_pool, registry};
use memledger_format::layout::LEAVE_SCOPE;
use memledger_format::stream_events;
use memledger_format::words::text_of;
use std::sync::atomic::Ordering;

/// The collector's state of the thread in one slot.
#[derive(Clone, Default)]
struct CollectorState {
    /// The stream that carries its packets; 0 until it has one.
    stream: u16,
    /// How far its first buffer is drained; `None` at the start of the buffer.
    drained: Option<ResumePoint>,
    /// How many scopes are open at that position.
    depth: u32,
    /// The bytes that its stream starts with, for sinks that join later.
    start: Vec<u8>,
    /// The id of the thread.
    thread: u32,
    /// `None` if its name is final, as that of the main thread.
    name: Option<Name>,
}

/// The name of a thread, which may not be its own yet: a new thread has that of its creator, or none.
#[derive(Clone, Copy)]
struct Name {
    described: ThreadName,
    /// That of its slot, when it was described. The slot has another one once the thread has ended, unless it
    /// ended without any of its own code.
    in_slot: ThreadName,
    /// In how many cycles it is still looked for while the thread runs.
    looks_left: u8,
}

impl Name {
    /// The cycles in which the name of a thread without one is looked for, and that of another thread.
    const LOOKS: (u8, u8) = (20, 1);

    fn new(described: ThreadName, in_slot: ThreadName) -> Self {
        let (without, with) = Self::LOOKS;
        let has_name = described[0] != 0;
        // NOTE: of a thread that has just ended, the slot has the last name already, and the system may have
        // none.
        let in_slot = if has_name { in_slot } else { described };
        Self { described, in_slot, looks_left: if has_name { with } else { without } }
    }

    /// Another name that the thread has now, or had when it ended.
    fn changed(
        &mut self,
        is_finished: bool,
        system_id: u32,
        slot: &ThreadSlot,
    ) -> Option<ThreadName> {
        let name = if is_finished {
            Some(slot.name()).filter(|name| *name != self.in_slot)
        } else {
            self.looks_left = self.looks_left.checked_sub(1)?;
            os::thread_name_of(system_id)
        };
        let name = name.filter(|name| name[0] != 0 && *name != self.described)?;
        self.described = name;
        Some(name)
    }
}

/// How far the events of a thread are in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The stream that carries its packets.
    pub(super) stream: u16,
    /// How many scopes are open there.
    pub(super) depth: u32,
    /// The id of the thread.
    pub(super) thread: u32,
    pub(super) drained: Option<ResumePoint>,
}

/// What waits until the file has the events that were sent: the buffers must keep them until then.
enum Release {
    /// The buffer of a thread that continues in `next`.
    Buffer { slot: &'static ThreadSlot, buffer: Buffer, next: Option<Buffer> },
    /// The slot of a thread that has ended, and its last buffer.
    Slot { slot: &'static ThreadSlot, number: usize, buffer: Buffer },
}

/// The events that one thread had committed when its commit cursor was read.
pub(super) struct CommittedRange {
    slot: &'static ThreadSlot,
    number: usize,
    /// The last buffer with events, and where they end.
    last: Buffer,
    end: *mut u8,
    finished: bool,
}

impl CommittedRange {
    pub(super) fn slot(&self) -> &'static ThreadSlot {
        self.slot
    }

    pub(super) fn is_last(&self, buffer: Buffer) -> bool {
        buffer == self.last
    }

    /// Whether the thread has ended, so that there are no events after the range.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(super) fn end_in(&self, buffer: Buffer) -> *mut u8 {
        if self.is_last(buffer) { self.end } else { buffer.committed.load(Ordering::Acquire) }
    }
}

/// A thread whose stream is open, as a sink that joins needs it.
pub(super) struct OpenThread<'a> {
    pub(super) stream: u16,
    /// The bytes that its stream starts with.
    pub(super) start: &'a [u8],
    /// How many scopes are open.
    pub(super) depth: u32,
    slot: &'static ThreadSlot,
    drained: Option<ResumePoint>,
}

impl OpenThread<'_> {
    /// The events of the thread's present buffer that were sent.
    pub(super) fn sent(&self) -> Option<&[u8]> {
        let buffer = self.slot.first.load(Ordering::Acquire)?;
        self.drained.as_ref()?.before(buffer)
    }
}

/// The name of a thread. It can record its first events before it has its name: a system may even take memory
/// to name it.
fn name_of(range: &CommittedRange) -> ThreadName {
    let system_id = range.slot.system_id.load(Ordering::Relaxed);
    let current = if range.finished { None } else { os::thread_name_of(system_id) };
    current.unwrap_or_else(|| range.slot.name())
}

/// Adds the name of a thread to the important events; returns what its stream starts with, or goes on with.
fn describe(
    stream: u16,
    (id, system_id): (u32, u32),
    name: &ThreadName,
    importants: &mut Importants,
) -> Vec<u8> {
    let size = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = text_of(&name[..size]);
    importants.add(
        &stream_events::THREAD_INFO,
        &[u32::from(stream).into(), system_id.into(), id.into(), (&*name).into()],
    );
    let mut start = Vec::new();
    stream_events::THREAD_START.append(&[id.into(), system_id.into(), (&*name).into()], &mut start);
    start
}

/// The state of all threads, by the number of their slot.
pub(super) struct Threads {
    states: Vec<CollectorState>,
    streams: StreamIds,
    /// The process whose threads these are. A watcher is another one.
    process: u32,
    /// If a watcher shares the buffers: what is released once the file has what was sent.
    later: Option<Vec<Release>>,
}

impl Threads {
    pub(super) fn new() -> Self {
        let process = os::process_id();
        Self { states: Vec::new(), streams: StreamIds::new(), process, later: None }
    }

    /// From now on, buffers and slots are kept until [`release`](Self::release), and nothing in them is
    /// changed.
    pub(super) fn keep_until_release(&mut self) {
        self.later = Some(Vec::new());
    }

    /// Reverts [`keep_until_release`](Self::keep_until_release).
    pub(super) fn keep_nothing(&mut self) {
        self.later = None;
    }

    /// Whether something waits for [`release`](Self::release).
    pub(super) fn has_to_release(&self) -> bool {
        self.later.as_ref().is_some_and(|later| !later.is_empty())
    }

    /// Releases what was sent, once a checkpoint of it is active.
    pub(super) fn release(&mut self, checkpoints: &Checkpoints) {
        for release in self.later.iter_mut().flat_map(std::mem::take) {
            match release {
                Release::Buffer { slot, buffer, next } => {
                    slot.first.store(next, Ordering::Release);
                    buffer_pool::release(slot, buffer);
                }
                Release::Slot { slot, number, buffer } => {
                    let state = self.states.get_mut(number).map(std::mem::take);
                    slot.first.store(None, Ordering::Release);
                    buffer_pool::release(slot, buffer);
                    state.into_iter().for_each(|state| self.streams.give_back(state.stream));
                    // NOTE: before another thread can have the slot.
                    checkpoints.note_freed(number as u32);
                    registry::free(slot);
                }
            }
        }
    }

    /// How far the events of each thread were sent, by the number of its slot.
    pub(super) fn progress(&self) -> impl Iterator<Item = (u32, Progress)> {
        let states = (0..).zip(&self.states).filter(|(_, state)| state.stream != 0);
        states.map(|(number, state)| {
            let &CollectorState { stream, drained, depth, thread, .. } = state;
            (number, Progress { stream, depth, thread, drained })
        })
    }

    /// The first stream that no thread has had.
    pub(super) fn fresh_stream(&self) -> u16 {
        self.streams.fresh()
    }

    /// In a watcher: continues where the process that has ended had sent its events up to.
    pub(super) fn continue_from(
        &mut self,
        process: u32,
        fresh_stream: u16,
        threads: Vec<(u32, Progress)>,
    ) {
        (self.process, self.later) = (process, None);
        let open = threads.iter().map(|(_, progress)| progress.stream).collect::<Vec<_>>();
        self.streams.continue_from(fresh_stream, &open);
        self.states.clear();
        for (number, Progress { stream, depth, thread, drained }) in threads {
            let Some(slot) = registry::numbered(number) else { continue };
            let index = number as usize;
            if self.states.len() <= index {
                self.states.resize(index + 1, CollectorState::default());
            }
            if let Some(drained) = drained {
                slot.first.store(Some(drained.buffer), Ordering::Release);
            }
            self.states[index] =
                CollectorState { stream, drained, depth, start: Vec::new(), thread, name: None };
        }
    }

    /// Reads every thread's commit cursor. Frees the slots of threads that have ended without
    /// events.
    pub(super) fn read_cursors(&mut self, output: &mut Output) -> Vec<CommittedRange> {
        let mut ranges = Vec::new();
        for (number, slot) in registry::slots().enumerate() {
            if self.states.len() <= number {
                self.states.push(CollectorState::default());
            }
            // NOTE: loads the state before the cursor: a finished thread has committed everything.
            let state = slot.state.load(Ordering::Acquire);
            if state != LIVE && state != FINISHED {
                continue;
            }
            let finished = state == FINISHED;
            let Some(mut last) = slot.first.load(Ordering::Acquire) else {
                if finished {
                    output.report_losses_of(slot);
                    registry::free(slot);
                }
                continue;
            };
            let end = loop {
                match slot.committed(last) {
                    (end, None) => break end,
                    (_, Some(next)) => last = next,
                }
            };
            ranges.push(CommittedRange { slot, number, last, end, finished });
        }
        ranges
    }

    /// Gives a new thread its stream and its name; returns the stream and what it starts with.
    pub(super) fn introduce(
        &mut self,
        range: &CommittedRange,
        importants: &mut Importants,
    ) -> Option<(u16, Vec<u8>)> {
        let state = self.states.get_mut(range.number)?;
        if state.stream != 0 {
            return self.name_again(range, importants);
        }
        let stream = self.streams.take()?;
        backpressure::note_progress();
        let slot = range.slot;
        let id = slot.thread_id.load(Ordering::Relaxed);
        let system_id = slot.system_id.load(Ordering::Relaxed);
        // NOTE: before the other name: the thread may end meanwhile.
        let in_slot = slot.name();
        let is_main = system_id == os::main_thread_of(self.process);
        let name = if is_main { *b"main\0\0\0\0\0\0\0\0\0\0\0\0" } else { name_of(range) };
        let start = describe(stream, (id, system_id), &name, importants);
        *state = CollectorState {
            stream,
            drained: None,
            depth: 0,
            start: start.clone(),
            thread: id,
            name: (!is_main).then(|| Name::new(name, in_slot)),
        };
        Some((stream, start))
    }

    /// The same for a thread that has another name now.
    fn name_again(
        &mut self,
        range: &CommittedRange,
        importants: &mut Importants,
    ) -> Option<(u16, Vec<u8>)> {
        let state = self.states.get_mut(range.number)?;
        let system_id = range.slot.system_id.load(Ordering::Relaxed);
        let name = state.name.as_mut()?.changed(range.finished, system_id, range.slot)?;
        state.start = describe(state.stream, (state.thread, system_id), &name, importants);
        Some((state.stream, state.start.clone()))
    }

    /// The stream of a thread, and a cursor at its first event that is not drained.
    pub(super) fn resume(&self, range: &CommittedRange) -> Option<(u16, BufferCursor)> {
        let &CollectorState { stream, drained, depth, .. } = self.states.get(range.number)?;
        let first = range.slot.first.load(Ordering::Acquire)?;
        let cursor = BufferCursor::new(first, drained, range.end_in(first), depth);
        Some((stream, self.prepared(cursor)))
    }

    /// A cursor for the events in the next buffer of a thread.
    pub(super) fn cursor(
        &self,
        range: &CommittedRange,
        buffer: Buffer,
        depth: u32,
    ) -> BufferCursor {
        self.prepared(BufferCursor::new(buffer, None, range.end_in(buffer), depth))
    }

    fn prepared(&self, cursor: BufferCursor) -> BufferCursor {
        if self.later.is_some() { cursor.copied() } else { cursor }
    }

    /// Gives back a buffer of a thread, all of whose events were sent.
    pub(super) fn give_back(&mut self, slot: &'static ThreadSlot, buffer: Buffer) {
        let next = buffer.next.load(Ordering::Acquire);
        match &mut self.later {
            Some(later) => later.push(Release::Buffer { slot, buffer, next }),
            None => {
                slot.first.store(next, Ordering::Release);
                buffer_pool::release(slot, buffer);
            }
        }
    }

    /// Stores how far a thread is drained.
    pub(super) fn note_drained(&mut self, range: &CommittedRange, cursor: &BufferCursor) {
        if let Some(state) = self.states.get_mut(range.number) {
            (state.drained, state.depth) = (Some(cursor.resume_point()), cursor.depth());
        }
    }

    /// Ends the stream of a finished thread, all of whose events were sent up to `cursor`: closes
    /// its open scopes, and frees its buffer, stream and slot.
    pub(super) fn retire(
        &mut self,
        range: &CommittedRange,
        cursor: &BufferCursor,
        output: &mut Output,
    ) {
        let Some(state) = self.states.get_mut(range.number) else { return };
        if cursor.depth() > 0 {
            output.packet(state.stream, &vec![LEAVE_SCOPE; cursor.depth() as usize]);
        }
        output.report_losses_of(range.slot);
        let (slot, buffer) = (range.slot, cursor.buffer());
        if let Some(later) = &mut self.later {
            (state.drained, state.depth) = (Some(cursor.resume_point()), 0);
            later.push(Release::Slot { slot, number: range.number, buffer });
            return;
        }
        let stream = std::mem::take(state).stream;
        slot.first.store(None, Ordering::Release);
        buffer_pool::release(slot, buffer);
        self.streams.give_back(stream);
        registry::free(slot);
    }

    /// The number of events in the buffers of threads that were not sent. A reallocation can count
    /// as two.
    pub(super) fn count_uncollected(&self, layouts: &Layouts) -> u64 {
        let mut count = 0;
        for (number, slot) in registry::slots().enumerate() {
            let mut buffer = slot.first.load(Ordering::Acquire);
            let mut from = self.states.get(number).and_then(|state| state.drained);
            while let Some(current) = buffer {
                let (end, next) = slot.committed(current);
                count += BufferCursor::new(current, from.take(), end, 0).count(layouts);
                buffer = next;
            }
        }
        count
    }

    /// The threads whose streams are open.
    pub(super) fn open(&self) -> impl Iterator<Item = OpenThread<'_>> {
        let states = registry::slots().zip(&self.states).filter(|(_, state)| state.stream != 0);
        states.map(|(slot, state)| {
            let &CollectorState { stream, drained, depth, ref start, .. } = state;
            OpenThread { stream, start, depth, slot, drained }
        })
    }

    /// The bytes that close all open scopes, for each stream that has some.
    pub(super) fn closings(&self) -> Vec<(u16, Vec<u8>)> {
        let close = |thread: OpenThread<'_>| {
            (thread.depth > 0).then(|| (thread.stream, vec![LEAVE_SCOPE; thread.depth as usize]))
        };
        self.open().filter_map(close).collect()
    }
}
