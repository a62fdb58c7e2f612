//! One event as a handler gets it: with its thread, its time and its open scopes.

use super::field::{DefinitionRef, FieldValue};
use super::trace_state::{OpenScope, TraceState};
use crate::read::event::{Event, Scalar};
use memledger_format::schema::{EventType, FieldFamily};
use std::cell::Cell;

/// A thread of the traced program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// The id of the thread, unique in the trace. It is the `Id` of `Memledger.ThreadStart`; in
    /// traces of other writers it is the stream id, which they do not reuse.
    pub id: u32,
    /// The id that the system gave the thread; the system may reuse it for a later thread. `None`
    /// if the trace does not have it.
    pub system_id: Option<u32>,
    /// Its name; empty if the trace does not have it.
    pub name: String,
}

/// The requests of a handler to its analyzer during one call.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) unsubscribes: Cell<bool>,
    pub(super) ends_pass: Cell<bool>,
}

/// An event of a subscription, for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence<'e> {
    /// The event itself, with its type, serial and bytes.
    pub event: &'e Event<'e>,
    pub(super) trace: &'e TraceState,
    pub(super) time: Option<u64>,
    pub(super) request: &'e Request,
}

impl<'e> Occurrence<'e> {
    /// The thread of the event; `None` for events that belong to no thread of the program:
    /// important events, and events of the tracker itself, such as `Memory.Marker` and
    /// `Memledger.Settled`.
    pub fn thread(&self) -> Option<&'e Thread> {
        self.trace.thread(self.event.stream)
    }

    /// The time of the event, in nanoseconds since the start of the trace. If the event opens a
    /// scope with a time, this is that time. Otherwise it is the time of the last `Memory.Marker`
    /// before the event. `None` before the first marker. While there are events, this crate's
    /// writer sends a marker about every 10 ms, and every millisecond at the start of a recording.
    ///
    /// If the event has a time of its own, it is in a field, often named `Cycle`: see
    /// [`FieldValue::nanoseconds`].
    pub fn nanoseconds(&self) -> Option<u64> {
        self.time
    }

    /// Nanoseconds from the start of the trace to this cycle of the writer's clock; `None` if the
    /// frequency of the clock is unknown.
    pub fn nanoseconds_at(&self, cycle: u64) -> Option<u64> {
        self.trace.timebase.nanoseconds(cycle)
    }

    /// Ends this subscription: its handler is not called again.
    pub fn unsubscribe(&self) {
        self.request.unsubscribes.set(true);
    }

    /// Ends the pass for this analyzer: none of its handlers is called again. When all visitors of
    /// the pass are done, [`read`](crate::read::read()) returns after the current packet (at
    /// most 64 KiB, and the events that waited for it).
    pub fn end_pass(&self) {
        self.request.ends_pass.set(true);
    }

    /// The types of the events whose scopes are open on the thread, the outermost first, without
    /// the event's own scope.
    pub fn scopes(&self) -> impl Iterator<Item = &'e EventType> {
        let trace = self.trace;
        trace.scopes(self.event.stream).iter().filter_map(|s| trace.types.get(s.type_index))
    }

    /// The id by which other events refer to this one; `None` if its type declares no id.
    pub fn definition(&self) -> Option<DefinitionRef> {
        let event_type = self.event.event_type;
        let field = event_type.fields.iter().find(|f| f.family == FieldFamily::DefinitionId)?;
        let start = usize::from(field.offset);
        let bytes = self.event.fixed.get(start..start + field.field_type.fixed_size())?;
        let id = Scalar::from_bytes(field.field_type, bytes).as_u64()?;
        Some(DefinitionRef { uid: event_type.uid, id })
    }

    /// The field `name`. Searches the names each time; the fields of a subscription are found once
    /// for each type.
    pub fn field(&'e self, name: &'e str) -> FieldValue<'e> {
        let index = self.event.event_type.field(name);
        FieldValue { occurrence: self, name, index }
    }

    /// All fields in order of declaration.
    pub fn fields(&'e self) -> impl Iterator<Item = FieldValue<'e>> {
        let fields = self.event.event_type.fields.iter().enumerate();
        fields.map(|(index, field)| FieldValue {
            occurrence: self,
            name: &field.name,
            index: Some(index),
        })
    }
}

/// A scope that closes, for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct ClosedScope<'e> {
    pub(super) scope: OpenScope,
    pub(super) stream: u16,
    pub(super) event_type: &'e EventType,
    pub(super) trace: &'e TraceState,
    pub(super) time: Option<u64>,
    pub(super) request: &'e Request,
}

impl<'e> ClosedScope<'e> {
    /// The type of the event that opened it.
    pub fn event_type(&self) -> &'e EventType {
        self.event_type
    }

    /// The thread of the scope.
    pub fn thread(&self) -> Option<&'e Thread> {
        self.trace.thread(self.stream)
    }

    /// The time at which it was entered, in nanoseconds since the start: see
    /// [`Occurrence::nanoseconds`].
    pub fn entered(&self) -> Option<u64> {
        self.scope.entered
    }

    /// The time at which it is left, in nanoseconds since the start.
    pub fn left(&self) -> Option<u64> {
        self.time
    }

    /// See [`Occurrence::unsubscribe`].
    pub fn unsubscribe(&self) {
        self.request.unsubscribes.set(true);
    }

    /// See [`Occurrence::end_pass`].
    pub fn end_pass(&self) {
        self.request.ends_pass.set(true);
    }

    /// The number of scopes that are open around it.
    pub fn depth(&self) -> usize {
        self.trace.scopes(self.stream).len()
    }
}
