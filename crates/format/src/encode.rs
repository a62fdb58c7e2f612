//! Event types as the writer declares them, and their bytes.

use super::arrays::{Aux, Source, piece_head};
use super::layout::{EventLayout, SERIAL_SIZE, UID_SIZE};
use super::schema::{FieldFamily, FieldType, IMPORTANT, MAYBE_HAS_AUX, NO_SYNC};

/// Bytes of uid and serial before the fields of a synchronised event.
pub const SYNCED_HEADER: usize = UID_SIZE + SERIAL_SIZE;

pub const AUX_TERMINAL: u8 = 3;

/// An event type of the tracker. The module that writes the events declares their types in its
/// `events.rs` and passes the list to the worker, which announces every type before the first
/// event.
#[derive(Debug)]
pub struct Declaration {
    pub uid: u16,
    pub logger: &'static str,
    pub event: &'static str,
    /// `IMPORTANT` and `NO_SYNC` only; `MAYBE_HAS_AUX` is derived from the fields.
    pub flags: u8,
    pub fields: &'static [(&'static str, FieldType)],
}

impl Declaration {
    /// The first two bytes of its events on a thread's stream: the uid, marked as two bytes long.
    pub const fn wire(&self) -> u16 {
        self.uid << 1 | 1
    }

    /// The layout of its events on a thread's stream.
    pub fn layout(&self) -> EventLayout {
        let fields = self.fields.iter().map(|(_, field_type)| field_type.fixed_size());
        EventLayout::new(fields.sum(), self.all_flags())
    }

    fn has_aux(&self) -> bool {
        self.fields.iter().any(|(_, field_type)| field_type.is_array())
    }

    fn all_flags(&self) -> u8 {
        self.flags | if self.has_aux() { MAYBE_HAS_AUX } else { 0 }
    }

    /// Appends the type record.
    pub fn append_record(&self, out: &mut Vec<u8>) {
        let fields = self.fields.iter();
        let fields = fields.map(|&(name, field_type)| (name, field_type, FieldFamily::Regular));
        append_record(out, self.uid, (self.logger, self.event), self.all_flags(), fields);
    }

    /// Appends an event without a serial, in the form of the stream of important events or of a
    /// thread's stream.
    pub fn append(&self, values: &[Value<'_>], out: &mut Vec<u8>) {
        debug_assert_eq!(values.len(), self.fields.len());
        debug_assert!(self.flags & NO_SYNC != 0);
        let important = self.flags & IMPORTANT != 0;
        let start = out.len();
        if important {
            out.extend(self.uid.to_le_bytes());
            out.extend([0; 2]);
        } else {
            out.extend(self.wire().to_le_bytes());
        }
        for (value, (name, field_type)) in values.iter().zip(self.fields) {
            debug_assert_eq!(!matches!(value, Value::Number(_)), field_type.is_array(), "{name}");
            if let Value::Number(number) = value {
                out.extend(&number.to_le_bytes()[..field_type.fixed_size()]);
            }
        }
        if self.has_aux() {
            // NOTE: in important events these bytes are unshifted; in others they are shifted left
            // by one bit.
            let shift = u8::from(!important);
            for (index, value) in values.iter().enumerate() {
                let aux = match *value {
                    Value::Number(_) => Aux::None,
                    Value::Text(text) => Aux::Elements(cut(text).as_bytes(), 1),
                    Value::Wide(text) => Aux::Widened(cut(text)),
                    Value::Elements(bytes, size) => Aux::Elements(bytes, size),
                };
                if aux.size() > 0 {
                    out.extend(piece_head(index, aux.size(), shift.into()));
                    let start = out.len();
                    out.resize(start + aux.size(), 0);
                    Source::new(aux).fill(&mut out[start..]);
                }
            }
            out.push(AUX_TERMINAL << shift);
        }
        if important {
            let size = (out.len() - start - 4) as u16;
            out[start + 2..start + 4].copy_from_slice(&size.to_le_bytes());
        }
    }
}

/// Appends the type record of any event type.
///
/// ```text
/// u16 0   u16 size   u16 uid   u8 fields   u8 flags   u8 logger size   u8 event size
/// a field      u8 0, u8 0, u16 offset, u16 size,       u8 type code, u8 name size
/// a reference  u8 1, u8 0, u16 offset, u16 target uid, u8 type code, u8 name size
/// an id        u8 2, u8 0, u16 offset, u16 0,          u8 0,         u8 type code
/// names, one after the other; an id has none
/// ```
pub fn append_record<'a>(
    out: &mut Vec<u8>,
    uid: u16,
    (logger, event): (&str, &str),
    flags: u8,
    fields: impl ExactSizeIterator<Item = (&'a str, FieldType, FieldFamily)> + Clone,
) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(uid.to_le_bytes());
    out.extend([fields.len() as u8, flags, logger.len() as u8, event.len() as u8]);
    let mut offset = 0_u16;
    for (name, field_type, family) in fields.clone() {
        let size = field_type.fixed_size() as u16;
        let (code, name_size) = (field_type.code(), name.len() as u8);
        let (family, middle, last) = match family {
            FieldFamily::Regular => (0, size, [code, name_size]),
            FieldFamily::Reference(target) => (1, target, [code, name_size]),
            FieldFamily::DefinitionId => (2, 0, [0, code]),
        };
        out.extend([family, 0]);
        out.extend(offset.to_le_bytes());
        out.extend(middle.to_le_bytes());
        out.extend(last);
        offset += size;
    }
    out.extend(logger.bytes().chain(event.bytes()));
    for (name, _, family) in fields {
        if family != FieldFamily::DefinitionId {
            out.extend(name.bytes());
        }
    }
    let size = (out.len() - start - 4) as u16;
    out[start + 2..start + 4].copy_from_slice(&size.to_le_bytes());
}

/// The longest text of a field, in bytes; longer texts are cut. Several texts of this size fit in
/// an important event, whose size has 16 bits.
pub const MAX_TEXT: usize = 8 << 10;

/// The value of one field.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Any integer; negative ones as the two's complement.
    Number(u64),
    /// A string.
    Text(&'a str),
    /// A string of UTF-16 code units.
    Wide(&'a str),
    /// The elements of an array, little-endian, and the bytes of one.
    Elements(&'a [u8], usize),
}

/// The first [`MAX_TEXT`] bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Declaration = Declaration {
        uid: 0x123,
        logger: "A",
        event: "Bc",
        flags: IMPORTANT | NO_SYNC,
        fields: &[("X", FieldType::U32), ("Name", FieldType::AnsiString)],
    };

    #[test]
    fn exact_bytes_of_a_record_and_an_important_event() {
        let mut out = Vec::new();
        SAMPLE.append_record(&mut out);
        let record = [
            &[0, 0, 30, 0, 0x23, 1, 2, 7, 1, 2][..],
            &[0, 0, 0, 0, 4, 0, 0x02, 1],
            &[0, 0, 4, 0, 0, 0, 0x88, 4],
            b"ABcXName",
        ];
        assert_eq!(out, record.concat());
        out.clear();
        SAMPLE.append(&[7_u32.into(), "hi".into()], &mut out);
        assert_eq!(out, [0x23, 1, 11, 0, 7, 0, 0, 0, 0x01, 0x41, 0, 0, b'h', b'i', 3]);
    }

    #[test]
    fn exact_bytes_of_an_event_on_a_thread() {
        let declaration = Declaration { flags: NO_SYNC, ..SAMPLE };
        let mut out = Vec::new();
        declaration.append(&[7_u32.into(), "".into()], &mut out);
        assert_eq!(out, [0x47, 2, 7, 0, 0, 0, 6]);
        out.clear();
        declaration.append(&[7_u32.into(), "é".into()], &mut out);
        assert_eq!(out, [0x47, 2, 7, 0, 0, 0, 0x02, 0x41, 0, 0, 0xc3, 0xa9, 6]);
    }
}
