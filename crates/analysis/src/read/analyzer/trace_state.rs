//! The state of a trace that is being read: its clock, its threads and their open scopes.

use super::occurrence::Thread;
use crate::read::event::{Event, Stamp};
use crate::read::timebase::Timebase;
use memledger_format::packet::{FIRST_THREAD, LAST_OWN, LAST_THREAD};
use memledger_format::schema::{EventType, FieldType};

/// The maximum number of open scopes of a thread that are kept; deeper ones are only counted.
const MAX_DEPTH: usize = 1 << 16;

/// A scope that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenScope {
    pub(super) type_index: usize,
    pub(super) entered: Option<u64>,
}

/// One stream, and the thread that currently sends on it.
#[derive(Clone, Debug, Default)]
struct Stream {
    thread: Thread,
    /// Whether a `Memledger.ThreadStart` has named the thread.
    named: bool,
    scopes: Vec<OpenScope>,
    too_deep: u64,
    /// The time of the next item.
    stamp: Option<u64>,
}

/// An event that changes the state, with the indexes of its fields.
#[derive(Clone, Copy, Debug)]
pub(super) enum StateEvent {
    NewTrace { start: usize, frequency: usize },
    Marker { cycle: usize },
    ThreadInfo { stream: Option<usize>, system: usize, name: usize },
    ThreadStart { id: usize, system: usize, name: usize },
    OurTrace,
}

impl StateEvent {
    /// The meaning of events of this type; `None` if they change nothing, or lack the expected
    /// fields.
    pub(super) fn of(event_type: &EventType) -> Option<Self> {
        let number = |name| {
            let index = event_type.field(name)?;
            let field_type = event_type.fields.get(index)?.field_type;
            (!field_type.is_array()).then_some(index)
        };
        let text = |name| {
            let index = event_type.field(name)?;
            let field_type = event_type.fields.get(index)?.field_type;
            matches!(field_type, FieldType::AnsiString | FieldType::WideString).then_some(index)
        };
        Some(match (event_type.logger.as_ref(), event_type.event.as_ref()) {
            ("$Trace", "NewTrace" | "Timing") => Self::NewTrace {
                start: number("StartCycle")?,
                frequency: number("CycleFrequency")?,
            },
            ("Memory", "Marker") => Self::Marker { cycle: number("Cycle")? },
            ("$Trace", "ThreadInfo") => Self::ThreadInfo {
                // Unreal Engine 4 has this event on the stream of the thread.
                stream: number("ThreadId"),
                system: number("SystemId")?,
                name: text("Name")?,
            },
            ("Memledger", "ThreadStart") => Self::ThreadStart {
                id: number("Id")?,
                system: number("SystemId")?,
                name: text("Name")?,
            },
            ("Memledger", "Trace") => Self::OurTrace,
            _ => return None,
        })
    }
}

/// The state of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceState {
    pub(super) types: Vec<EventType>,
    pub(super) timebase: Timebase,
    pub(super) now: Option<u64>,
    /// Whether this crate's writer made the trace. Then some of its streams belong to no thread.
    ours: bool,
    /// By stream id.
    streams: Vec<Stream>,
    /// The first stream that belongs to a thread, if it is not [`FIRST_THREAD`].
    first_thread: Option<u16>,
}

impl TraceState {
    pub(super) fn add_type(&mut self, event_type: &EventType) {
        // Unreal Engine 4 counts threads from 0, or from 1 if stream 0 has the types.
        if event_type.is("$Trace", "NewTrace") && event_type.field("StartCycle").is_none() {
            self.first_thread = Some(event_type.field("Serial").is_some().into());
        }
        self.types.push(event_type.clone());
    }

    /// Takes in an event that changes the state.
    pub(super) fn learn(&mut self, state_event: StateEvent, event: &Event<'_>) {
        let number = |index: usize| {
            let field = event.event_type.fields.get(index);
            field.map_or(0, |f| event.unsigned(usize::from(f.offset), f.field_type.fixed_size()))
        };
        match state_event {
            StateEvent::NewTrace { start, frequency } => {
                self.timebase = Timebase { start: number(start), frequency: number(frequency) };
            }
            // The time never goes back.
            StateEvent::Marker { cycle } => {
                self.now = self.now.max(self.timebase.nanoseconds(number(cycle)));
            }
            // NOTE: this important event may be delivered before earlier events, which still wait
            // in their streams. `ThreadStart` is delivered in order, so a thread that it has named
            // keeps that name.
            StateEvent::ThreadInfo { stream, system, name } => {
                let stream =
                    stream.map_or(Some(event.stream), |index| u16::try_from(number(index)).ok());
                if let Some(stream) = stream.and_then(|id| self.stream(id)).filter(|s| !s.named) {
                    stream.thread.system_id = Some(number(system) as u32);
                    stream.thread.name = event.text(name).into_owned();
                }
            }
            StateEvent::OurTrace => self.ours = true,
            StateEvent::ThreadStart { id, system, name } => {
                let id = number(id) as u32;
                let Some(stream) = self.stream(event.stream) else { return };
                if stream.thread.id != id || !stream.named {
                    stream.scopes.clear();
                    stream.too_deep = 0;
                }
                stream.named = true;
                stream.thread = Thread {
                    id,
                    system_id: Some(number(system) as u32),
                    name: event.text(name).into_owned(),
                };
            }
        }
    }

    /// Sets the time of the next item of this stream.
    pub(super) fn stamp(&mut self, stream: u16, stamp: Stamp) {
        let time = match stamp {
            Stamp::SinceStart(cycles) => {
                self.timebase.nanoseconds(self.timebase.start.saturating_add(cycles))
            }
            Stamp::Cycle(cycle) => self.timebase.nanoseconds(cycle),
        };
        if let Some(stream) = self.stream(stream) {
            stream.stamp = time;
        }
    }

    /// Takes the time of the current item. If it has none of its own, returns the time of the last
    /// marker.
    pub(super) fn take_time(&mut self, stream: u16) -> Option<u64> {
        let own = self.stream(stream).and_then(|stream| stream.stamp.take());
        own.or(self.now)
    }

    /// Opens a scope with an event of this type, at this time.
    pub(super) fn enter(&mut self, stream: u16, type_index: usize, entered: Option<u64>) {
        let Some(stream) = self.stream(stream) else { return };
        if stream.scopes.len() < MAX_DEPTH {
            stream.scopes.push(OpenScope { type_index, entered });
        } else {
            stream.too_deep += 1;
        }
    }

    /// Closes the innermost scope, and returns it; `None` if it was too deep to be kept.
    pub(super) fn leave(&mut self, stream: u16) -> Option<OpenScope> {
        let stream = self.stream(stream)?;
        if stream.too_deep > 0 {
            stream.too_deep -= 1;
            return None;
        }
        stream.scopes.pop()
    }

    pub(super) fn thread(&self, stream: u16) -> Option<&Thread> {
        let known = self.streams.get(usize::from(stream))?;
        if stream < self.first_thread.unwrap_or(FIRST_THREAD) {
            return None;
        }
        // NOTE: without this check, these streams would get threads with their stream ids, which
        // are also the thread ids of the program's first threads.
        let no_thread = self.ours && stream <= LAST_OWN && !known.named;
        (!no_thread).then_some(&known.thread)
    }

    pub(super) fn scopes(&self, stream: u16) -> &[OpenScope] {
        self.streams.get(usize::from(stream)).map_or(&[], |stream| &stream.scopes)
    }

    /// Adds the stream if it is new and belongs to a thread.
    #[inline]
    pub(super) fn see(&mut self, stream: u16) {
        if usize::from(stream) >= self.streams.len() {
            self.stream(stream);
        }
    }

    fn stream(&mut self, stream: u16) -> Option<&mut Stream> {
        if stream > LAST_THREAD {
            return None;
        }
        let index = usize::from(stream);
        for id in self.streams.len()..=index {
            let thread = Thread { id: id as u32, ..Thread::default() };
            self.streams.push(Stream { thread, ..Stream::default() });
        }
        self.streams.get_mut(index)
    }
}
