//! The value of a field, converted to the type that the caller wants.

use super::occurrence::Occurrence;
use crate::read::event::{Scalar, Value};
use memledger_format::schema::{EventType, Field, FieldFamily, FieldType};
use std::borrow::Cow;
use std::fmt;

/// One field of one event, found by its name.
///
/// An integer of any width converts to any other if the value fits. If a field cannot be converted
/// or does not exist, the conversion returns a [`FieldError`], which displays as one sentence.
/// `unwrap_or_default()` gives 0 in both cases, which is usually right for a field that an older
/// writer did not have.
///
/// A conversion costs a load and a comparison. Strings and arrays are borrowed from the reader's
/// buffers if their bytes are in one piece, and copied otherwise.
#[derive(Clone, Copy, Debug)]
pub struct FieldValue<'e> {
    pub(super) occurrence: &'e Occurrence<'e>,
    pub(super) name: &'e str,
    pub(super) index: Option<usize>,
}

/// The identity of an event that other events refer to: the type, which has an id field
/// (`DefinitionId`), and the value of that field. The `DefinitionRef` of a reference equals that of
/// its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DefinitionRef {
    /// The uid of the type of the definition.
    pub uid: u16,
    /// Its id, unique among the events of that type.
    pub id: u64,
}

impl<'e> FieldValue<'e> {
    /// The name of the field.
    pub fn name(&self) -> &'e str {
        self.name
    }

    /// The declaration of the field, or `None` if the type has no such field.
    pub fn declaration(&self) -> Option<&'e Field> {
        self.occurrence.event.event_type.fields.get(self.index?)
    }

    /// Whether the type has the field. A newer or older writer may have declared the type without
    /// it.
    pub fn exists(&self) -> bool {
        self.declaration().is_some()
    }

    /// The value of an integer or float field.
    ///
    /// # Errors
    /// There is no such field, or it is a string or an array.
    #[inline]
    pub fn scalar(&self) -> Result<Scalar, FieldError<'e>> {
        self.number("a number")
    }

    /// The value of an integer field of any width.
    ///
    /// # Errors
    /// There is no such field, it is no integer, or its value is negative.
    #[inline]
    pub fn u64(&self) -> Result<u64, FieldError<'e>> {
        let scalar = self.number("an integer")?;
        scalar.as_u64().ok_or_else(|| self.unfit(scalar, "below 0"))
    }

    /// The value of an integer field of any width.
    ///
    /// NOTE: Unreal 5.0 announced signed integers as unsigned ones; in its traces -1 in an `i32`
    /// looks like 4294967295.
    ///
    /// # Errors
    /// There is no such field, it is no integer, or its value is above `i64::MAX`.
    #[inline]
    pub fn i64(&self) -> Result<i64, FieldError<'e>> {
        let scalar = self.number("an integer")?;
        scalar.as_i64().ok_or_else(|| self.unfit(scalar, "above i64::MAX"))
    }

    /// The value of a float or integer field. Integers beyond 2^53 are rounded to the nearest.
    ///
    /// # Errors
    /// There is no such field, or it is no number.
    #[inline]
    pub fn f64(&self) -> Result<f64, FieldError<'e>> {
        Ok(self.number("a number")?.as_f64())
    }

    /// Whether an integer field is not 0; the stream has no type for `bool`.
    ///
    /// # Errors
    /// There is no such field, or it is no integer.
    #[inline]
    pub fn bool(&self) -> Result<bool, FieldError<'e>> {
        let scalar = self.number("an integer")?;
        scalar.as_bool().ok_or_else(|| self.not("an integer"))
    }

    /// The time of an integer field that counts clock cycles, such as `Misc.Bookmark.Cycle`, in
    /// nanoseconds since the start of the trace.
    ///
    /// # Errors
    /// There is no such field, it is no integer, or the frequency of the clock is unknown.
    pub fn nanoseconds(&self) -> Result<u64, FieldError<'e>> {
        let cycle = self.u64()?;
        self.occurrence.nanoseconds_at(cycle).ok_or_else(|| self.error(Problem::NoClock))
    }

    /// The text of a string field. An `AnsiString` is UTF-8 if its bytes are valid UTF-8, else
    /// Latin-1; a `WideString` is UTF-16, with U+FFFD for invalid units. The NULs at the end of
    /// some of Unreal's strings are removed. A field without data is the empty string.
    ///
    /// # Errors
    /// There is no such field, or it is no string.
    pub fn text(&self) -> Result<Cow<'e, str>, FieldError<'e>> {
        let (index, field) = self.declared()?;
        match field.field_type {
            FieldType::AnsiString | FieldType::WideString => Ok(self.occurrence.event.text(index)),
            _ => Err(self.not("a string")),
        }
    }

    /// The elements of an array field, or the code units of a string, in order.
    ///
    /// ```
    /// # use memledger_analysis::read::{FieldError, FieldValue, Scalar};
    /// fn sum(frames: FieldValue<'_>) -> Result<u64, FieldError<'_>> {
    ///     Ok(frames.elements()?.filter_map(Scalar::as_u64).sum())
    /// }
    /// ```
    ///
    /// # Errors
    /// There is no such field, or it is no array.
    pub fn elements(&self) -> Result<Elements<'e>, FieldError<'e>> {
        let (index, field) = self.declared()?;
        if !field.field_type.is_array() {
            return Err(self.not("an array"));
        }
        let bytes = self.occurrence.event.bytes(index);
        Ok(Elements { field_type: field.field_type, bytes, at: 0 })
    }

    /// The bytes of a string or array field as they are on the wire, little-endian.
    ///
    /// # Errors
    /// There is no such field, or it is neither string nor array.
    pub fn bytes(&self) -> Result<Cow<'e, [u8]>, FieldError<'e>> {
        let (index, field) = self.declared()?;
        if !field.field_type.is_array() {
            return Err(self.not("a string or an array"));
        }
        Ok(self.occurrence.event.bytes(index))
    }

    /// The identity of the event that a reference field refers to. It equals
    /// [`Occurrence::definition`] of that event.
    ///
    /// # Errors
    /// There is no such field, or it is no reference.
    pub fn reference(&self) -> Result<DefinitionRef, FieldError<'e>> {
        match self.declared()?.1.family {
            FieldFamily::Reference(uid) => Ok(DefinitionRef { uid, id: self.u64()? }),
            _ => Err(self.not("a reference")),
        }
    }

    /// The value of any field; `None` if there is no such field.
    pub fn value(&self) -> Option<Value<'e>> {
        self.occurrence.event.value(self.index?)
    }

    fn declared(&self) -> Result<(usize, &'e Field), FieldError<'e>> {
        let declared = self.index.and_then(|i| Some((i, self.declaration()?)));
        declared.ok_or_else(|| self.error(Problem::Missing))
    }

    #[inline]
    fn number(&self, wanted: &'static str) -> Result<Scalar, FieldError<'e>> {
        let (_, field) = self.declared()?;
        let start = usize::from(field.offset);
        let bytes = self.occurrence.event.fixed.get(start..start + field.field_type.fixed_size());
        match bytes {
            Some(bytes) if !field.field_type.is_array() => {
                Ok(Scalar::from_bytes(field.field_type, bytes))
            }
            _ => Err(self.not(wanted)),
        }
    }

    /// The error of a number that does not fit the wanted type.
    #[cold]
    fn unfit(&self, scalar: Scalar, bound: &'static str) -> FieldError<'e> {
        match scalar {
            Scalar::Float(_) => self.not("an integer"),
            _ => self.error(Problem::Value { is: scalar, bound }),
        }
    }

    #[cold]
    fn not(&self, wanted: &'static str) -> FieldError<'e> {
        match self.declaration() {
            Some(field) => self.error(Problem::WrongType { is: field.field_type, wanted }),
            None => self.error(Problem::Missing),
        }
    }

    #[cold]
    fn error(&self, problem: Problem) -> FieldError<'e> {
        FieldError { event_type: self.occurrence.event.event_type, name: self.name, problem }
    }
}

/// The elements of an array, one by one. See [`FieldValue::elements`].
#[derive(Clone, Debug)]
pub struct Elements<'e> {
    field_type: FieldType,
    bytes: Cow<'e, [u8]>,
    at: usize,
}

impl Iterator for Elements<'_> {
    type Item = Scalar;

    #[inline]
    fn next(&mut self) -> Option<Scalar> {
        // An incomplete last element is ignored.
        let size = self.field_type.element_size();
        let element = self.bytes.get(self.at..self.at + size)?;
        self.at += size;
        Some(Scalar::from_bytes(self.field_type, element))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.bytes.len() - self.at) / self.field_type.element_size();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// The reason why a field has no value of the wanted type. [`Display`](fmt::Display) gives one
/// sentence.
#[derive(Clone, Copy, Debug)]
pub struct FieldError<'e> {
    event_type: &'e EventType,
    name: &'e str,
    problem: Problem,
}

#[derive(Clone, Copy, Debug)]
enum Problem {
    Missing,
    WrongType { is: FieldType, wanted: &'static str },
    Value { is: Scalar, bound: &'static str },
    NoClock,
}

impl fmt::Display for FieldError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event_type, name, problem } = self;
        let event = event_type.name();
        match problem {
            Problem::Missing => write!(f, "{event} has no field {name}"),
            Problem::WrongType { is, wanted } => {
                write!(f, "the field {name} of {event} is of type {is:?} and not {wanted}")
            }
            Problem::Value { is, bound } => {
                write!(f, "the field {name} of {event} is {is}, which is {bound}")
            }
            Problem::NoClock => write!(
                f,
                "the field {name} of {event} is a time, but the trace has not said how fast its clock is"
            ),
        }
    }
}

impl std::error::Error for FieldError<'_> {}
