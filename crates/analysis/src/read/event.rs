//! One event as the reader delivers it, and the trait that receives it.

use memledger_format::schema::{EventType, FieldType};
use std::borrow::Cow;

/// The index of an attachment among the [pieces](Event::aux) of an event. No array or string field
/// can have it: their indexes are at most 127.
pub const ATTACHMENT: u8 = 0x80;

/// One event, borrowed from the reader's buffers for the length of one call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// Its type, with the names of its fields.
    pub event_type: &'a EventType,
    /// The index of the type in this stream: 0, 1, 2 ... in the order of [`Visitor::event_type`].
    pub type_index: usize,
    /// The id of its stream: a thread's, or 1 for an important event.
    pub stream: u16,
    /// Its number in the order of all synchronised events, unwrapped from the 24 bits of the
    /// stream; `None` for an event without one.
    pub serial: Option<u64>,
    /// Whether it opens a scope on its thread, which [`Visitor::leave_scope`] closes.
    pub enters_scope: bool,
    /// The fixed part, exactly [`EventType::fixed_size`] bytes.
    pub fixed: &'a [u8],
    /// The pieces of its array and string fields: index of the field, bytes. If it has an
    /// [attachment](Self::attachment), that is the first one, with the index [`ATTACHMENT`].
    pub aux: &'a [(u8, &'a [u8])],
}

/// The rest of a packet, for [`Visitor::row`]. It begins with the next event in order.
///
/// To take a synchronised event (uid, the lower 24 bits of its serial, fixed part), a visitor
/// checks that its serial is `next`, [counts](Row::count) it, and removes its bytes from `bytes`.
#[derive(Debug)]
pub struct Row<'a> {
    /// The stream id of the packet.
    pub stream: u16,
    /// The rest of the packet.
    pub bytes: &'a [u8],
    /// The serial that the next synchronised event must have; only its lower 24 bits are in the
    /// stream.
    pub next: u64,
    /// Events of each type so far.
    pub(super) by_type: &'a mut [u64],
}

impl Row<'_> {
    /// Counts an event that the visitor takes, whose type has this index, and increments `next`.
    #[inline]
    pub fn count(&mut self, type_index: u32) {
        self.next += 1;
        if let Some(count) = self.by_type.get_mut(type_index as usize) {
            *count += 1;
        }
    }
}

/// The value of one field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Any float.
    Float(f64),
    /// A string, without the NUL bytes at the end of some of Unreal's strings.
    Text(Cow<'a, str>),
    /// The elements of an array.
    Array(Vec<Value<'a>>),
}

impl<'a> Event<'a> {
    /// An event without a serial and without pieces, which opens no scope.
    pub fn new(event_type: &'a EventType, type_index: usize, stream: u16, fixed: &'a [u8]) -> Self {
        Self { event_type, type_index, stream, serial: None, enters_scope: false, fixed, aux: &[] }
    }

    /// The integer at byte `offset` of the fixed part: 1, 2, 4 or 8 bytes, zero-extended. 0 if it
    /// is outside the fixed part, which is impossible for declared fields, because the reader
    /// checks their offsets.
    pub fn unsigned(&self, offset: usize, size: usize) -> u64 {
        let mut bytes = [0; 8];
        if let Some(value) = self.fixed.get(offset..offset + size) {
            bytes[..size].copy_from_slice(value);
        }
        u64::from_le_bytes(bytes)
    }

    /// The attachment: bytes after the fields, whose meaning the type does not describe. Only events
    /// of protocols 0 to 4 (Unreal Engine 4, and 5.0 Early Access) can have one; empty if this one
    /// has none.
    pub fn attachment(&self) -> &'a [u8] {
        match self.aux.first() {
            Some(&(ATTACHMENT, bytes)) => bytes,
            _ => &[],
        }
    }

    /// The bytes of the array or string field at `index`, empty if the event has none.
    pub fn bytes(&self, index: usize) -> Cow<'a, [u8]> {
        let mut pieces =
            self.aux.iter().filter(|(field, _)| usize::from(*field) == index).map(|&(_, b)| b);
        match (pieces.next(), pieces.next()) {
            (None, _) => Cow::Borrowed(&[]),
            (Some(one), None) => Cow::Borrowed(one),
            (Some(first), Some(second)) => {
                let mut all = [first, second].concat();
                pieces.for_each(|piece| all.extend_from_slice(piece));
                Cow::Owned(all)
            }
        }
    }

    /// The string field at `index`, without trailing NULs. A `WideString` is UTF-16. An
    /// `AnsiString` is UTF-8 if its bytes are valid UTF-8, else Latin-1.
    pub fn text(&self, index: usize) -> Cow<'a, str> {
        let wide = self
            .event_type
            .fields
            .get(index)
            .is_some_and(|f| f.field_type == FieldType::WideString);
        decode_text(self.bytes(index), wide)
    }

    /// The value of the field at `index`; `None` if there is no such field.
    pub fn value(&self, index: usize) -> Option<Value<'a>> {
        let field = self.event_type.fields.get(index)?;
        let field_type = field.field_type;
        Some(match field_type {
            FieldType::AnsiString | FieldType::WideString => Value::Text(self.text(index)),
            _ if field_type.is_array() => {
                let bytes = self.bytes(index);
                let elements = bytes.chunks_exact(field_type.element_size());
                Value::Array(elements.map(|e| Scalar::from_bytes(field_type, e).into()).collect())
            }
            _ => {
                let start = usize::from(field.offset);
                let bytes = self.fixed.get(start..start + field_type.element_size())?;
                Scalar::from_bytes(field_type, bytes).into()
            }
        })
    }
}

/// The text in the bytes of a string, without trailing NULs. `wide`: UTF-16; otherwise UTF-8 if the bytes
/// are valid UTF-8, else Latin-1.
pub(crate) fn decode_text(bytes: Cow<'_, [u8]>, wide: bool) -> Cow<'_, str> {
    let text = if wide {
        let units = bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_le_bytes(pair));
        Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect())
    } else {
        match bytes {
            Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => Cow::Owned(bytes.iter().map(|&b| char::from(b)).collect()),
            },
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|e| e.as_bytes().iter().map(|&b| char::from(b)).collect()),
            ),
        }
    };
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches('\0')),
        Cow::Owned(text) => Cow::Owned(text.trim_end_matches('\0').to_owned()),
    }
}

/// A number: the value of an integer or float field, or an element of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Scalar {
    /// Any unsigned integer, or a bool.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Any float.
    Float(f64),
}

impl Scalar {
    /// The little-endian number in `bytes`, the bytes of a field or an element of this type.
    /// Ignores bytes after the eighth.
    #[inline]
    pub fn from_bytes(field_type: FieldType, bytes: &[u8]) -> Self {
        let size = bytes.len().min(8);
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(&bytes[..size]);
        let unsigned = u64::from_le_bytes(wide);
        let unused = (64 - 8 * size as u32).min(63);
        match field_type.code() & 0x50 {
            0x10 => Self::Signed((unsigned << unused) as i64 >> unused),
            0x40 if size == 4 => Self::Float(f32::from_bits(unsigned as u32).into()),
            0x40 => Self::Float(f64::from_bits(unsigned)),
            _ => Self::Unsigned(unsigned),
        }
    }

    /// An integer that is not negative.
    #[inline]
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(value),
            Self::Signed(value) => value.try_into().ok(),
            Self::Float(_) => None,
        }
    }

    /// An integer up to `i64::MAX`.
    #[inline]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Unsigned(value) => value.try_into().ok(),
            Self::Signed(value) => Some(value),
            Self::Float(_) => None,
        }
    }

    /// Any number; integers beyond 2^53 are rounded to the nearest.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Unsigned(value) => value as f64,
            Self::Signed(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Whether an integer is anything but 0.
    #[inline]
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Self::Unsigned(value) => Some(value != 0),
            Self::Signed(value) => Some(value != 0),
            Self::Float(_) => None,
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsigned(value) => value.fmt(f),
            Self::Signed(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl From<Scalar> for Value<'_> {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Unsigned(value) => Self::Unsigned(value),
            Scalar::Signed(value) => Self::Signed(value),
            Scalar::Float(value) => Self::Float(value),
        }
    }
}

/// A range of serials that no event carries, because their events were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hole {
    /// The first missing serial.
    pub first: u64,
    /// The number of missing events; 0 if it is unknown.
    pub count: u64,
}

/// A part of the input that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The offset in the input of the packet with the damage; `None` inside a process.
    pub offset: Option<u64>,
    /// The number of bytes that were skipped: bytes of the input if a packet is damaged, bytes of
    /// the decoded stream if an event is.
    pub skipped: u64,
    /// One sentence that says what is wrong.
    pub what: String,
}

/// The time at the beginning or the end of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stamp {
    /// Cycles of the writer's clock since the start of the trace.
    SinceStart(u64),
    /// The cycle itself.
    Cycle(u64),
}

/// Receives the events of a trace, in the same order from each reader.
///
/// Synchronised events are delivered in the order of their serials, over all threads. An event
/// without a serial is delivered in the order of its thread, before the next synchronised event of
/// that thread.
pub trait Visitor {
    /// A type was announced; its events have `index` as their `type_index`. Another type with the
    /// same uid gets another index.
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        let _ = (index, event_type);
    }

    /// The next event.
    fn event(&mut self, event: &Event<'_>);

    /// The next events, as consecutive bytes. A visitor that knows the layout of some types can
    /// take their events from the start of the row, which costs less than a call of
    /// [`event`](Self::event) for each. Events that it does not take are passed to
    /// [`event`](Self::event).
    fn row(&mut self, row: &mut Row<'_>) {
        let _ = row;
    }

    /// The time of the next item of this stream, which is an event that opens a scope, or the end
    /// of a scope. Most scopes have no time.
    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        let _ = (stream, stamp);
    }

    /// The innermost open scope of this stream closes.
    fn leave_scope(&mut self, stream: u16) {
        let _ = stream;
    }

    /// No event follows for now. A visitor that has queued work does that work here.
    fn settle(&mut self) {}

    /// The trace has ended. `whole` means that the trace has its end, as in [`Counts::ended`], and
    /// that the source could be read to its end.
    ///
    /// [`Counts::ended`]: super::Counts::ended
    fn end(&mut self, whole: bool) {
        let _ = whole;
    }

    /// Whether the visitor needs no more events. Then the pass ends after the current packet, whose
    /// other events may still be delivered.
    fn is_done(&self) -> bool {
        false
    }

    /// Events are missing between the last event and the next one.
    fn hole(&mut self, hole: Hole) {
        let _ = hole;
    }

    /// Part of the input could not be read.
    fn damage(&mut self, damage: &Damage) {
        let _ = damage;
    }
}

/// The `u64` at `offset`; 0 if it lies outside, which the decoder of events rules out.
#[inline]
pub(crate) fn u64_at(fixed: &[u8], offset: u16) -> u64 {
    let start = usize::from(offset);
    fixed.get(start..start + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The `u32` at `offset`, like [`u64_at`]; 0 for a field that the type does not have.
#[inline]
pub(crate) fn u32_at(fixed: &[u8], offset: u16) -> u32 {
    let start = usize::from(offset);
    fixed.get(start..start + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The byte at `offset`, like [`u64_at`].
#[inline]
pub(crate) fn u8_at(fixed: &[u8], offset: u16) -> u8 {
    fixed.get(usize::from(offset)).copied().unwrap_or(0)
}
