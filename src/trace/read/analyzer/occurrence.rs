//! One event as a handler sees it: with the thread, the time and the scopes it happened in.

use super::field::{DefinitionRef, FieldValue};
use super::surroundings::{OpenScope, Surroundings};
use crate::trace::format::schema::{EventType, FieldFamily};
use crate::trace::read::event::{Event, Scalar};
use std::cell::Cell;

/// A thread of the traced program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// The trace's own id, never used for another thread: what `Memledger.ThreadStart` says, and
    /// the number of the stream in traces of other writers, which use that only once.
    pub id: u32,
    /// The id that the system gave it, and may give to another thread after it; `None` if the
    /// trace has not said.
    pub system_id: Option<u32>,
    /// Its name, empty if the trace has not said.
    pub name: String,
}

/// What a handler asks of its analyzer during one call.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) unsubscribes: Cell<bool>,
    pub(super) ends_pass: Cell<bool>,
}

/// An event that a subscription asked for, for the length of one call.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence<'e> {
    /// The event itself, with its type, serial and bytes.
    pub event: &'e Event<'e>,
    pub(super) around: &'e Surroundings,
    pub(super) time: Option<u64>,
    pub(super) request: &'e Request,
}

impl<'e> Occurrence<'e> {
    /// The thread it happened on; `None` for events that belong to no thread of the program:
    /// important events, and events about memledger's tracker itself, as `Memory.Marker` and
    /// `Memledger.Settled`.
    pub fn thread(&self) -> Option<&'e Thread> {
        self.around.thread(self.event.stream)
    }

    /// When it happened, in nanoseconds since the start of the trace: the time that stands at the
    /// beginning of its scope, if one does. Otherwise as far as the order of events tells, which is
    /// the last `Memory.Marker` before it: the writer of this crate sets one in each tick of its
    /// worker, every 10 ms. `None` before the first.
    ///
    /// An event that carries a time of its own has it in a field, mostly `Cycle`: see
    /// [`FieldValue::nanoseconds`].
    pub fn nanoseconds(&self) -> Option<u64> {
        self.time
    }

    /// Nanoseconds from the start of the trace to this cycle of the writer's clock; `None` if the
    /// trace has not said how fast that is.
    pub fn nanoseconds_at(&self, cycle: u64) -> Option<u64> {
        self.around.timebase.nanoseconds(cycle)
    }

    /// Ends this subscription: its handler is not called again.
    pub fn unsubscribe(&self) {
        self.request.unsubscribes.set(true);
    }

    /// Ends the pass for this analyzer: no handler of it is called again.
    /// [`read`](crate::trace::read::read()) returns after the packet that it has in hand (64 KiB at
    /// most, and the events that waited for it), if all visitors of the pass want no more.
    pub fn end_pass(&self) {
        self.request.ends_pass.set(true);
    }

    /// The types of the events whose scopes are open on the thread, the outermost first; its own
    /// is not among them.
    pub fn scopes(&self) -> impl Iterator<Item = &'e EventType> {
        let around = self.around;
        around.scopes(self.event.stream).iter().filter_map(|s| around.types.get(s.type_index))
    }

    /// What other events refer to this one by; `None` if its type declares no id.
    pub fn definition(&self) -> Option<DefinitionRef> {
        let event_type = self.event.event_type;
        let field = event_type.fields.iter().find(|f| f.family == FieldFamily::DefinitionId)?;
        let start = usize::from(field.offset);
        let bytes = self.event.fixed.get(start..start + field.field_type.fixed_size())?;
        let id = Scalar::from_bytes(field.field_type, bytes).as_u64()?;
        Some(DefinitionRef { uid: event_type.uid, id })
    }

    /// The field called `name`. Searches the names each time: a subscription that names its
    /// fields has them found once per type.
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

/// A scope that closes, for the length of one call.
#[derive(Clone, Copy, Debug)]
pub struct Left<'e> {
    pub(super) scope: OpenScope,
    pub(super) stream: u16,
    pub(super) event_type: &'e EventType,
    pub(super) around: &'e Surroundings,
    pub(super) time: Option<u64>,
    pub(super) request: &'e Request,
}

impl<'e> Left<'e> {
    /// The type of the event that opened it.
    pub fn event_type(&self) -> &'e EventType {
        self.event_type
    }

    /// The thread it is on.
    pub fn thread(&self) -> Option<&'e Thread> {
        self.around.thread(self.stream)
    }

    /// When it was entered, in nanoseconds since the start: see [`Occurrence::nanoseconds`].
    pub fn entered(&self) -> Option<u64> {
        self.scope.entered
    }

    /// When it is left, in nanoseconds since the start.
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

    /// How many scopes stay open around it.
    pub fn depth(&self) -> usize {
        self.around.scopes(self.stream).len()
    }
}
