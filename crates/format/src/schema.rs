//! Event types: a name, flags and fields, as the stream itself announces them.
//!
//! The stream describes itself: the writer sends every event type once, as a *type record*, before
//! its first event, so a reader needs no knowledge of the program. The writer declares its types as
//! statics; the reader rebuilds them from the records.

use std::borrow::Cow;

/// The event is kept by the writer and sent again to every late reader.
pub const IMPORTANT: u8 = 1;
/// The type has at least one array or string field, so pieces of arrays follow its events.
pub const MAYBE_HAS_AUX: u8 = 2;
/// The event carries no serial number: it is ordered within its thread only.
pub const NO_SYNC: u8 = 4;
/// The last field identifies the event, so that other events can refer to it.
pub const DEFINITION: u8 = 8;

/// The first uid a declared type may have; smaller ones are built into the protocol.
pub const FIRST_UID: u16 = 16;
/// The largest uid a declared type may have.
pub const LAST_UID: u16 = 32_766;

/// Bits of a serial that an event carries. A reader completes them from the serials that it read
/// before.
pub const SERIAL_BITS: u32 = 24;
/// The bits of a serial that an event carries. The hook writes these bits of its epoch instead; the
/// worker replaces them by those of the serial.
pub const SERIAL_MASK: u64 = (1 << SERIAL_BITS) - 1;

/// What has happened to addresses, in an event of mapped memory.
#[doc(hidden)]
pub mod mapping {
    /// They are reserved, and take no memory.
    pub const RESERVED: u8 = 0;
    /// What was reserved of them is a block from here on.
    pub const COMMITTED: u8 = 1;
    /// They are a block from here on.
    pub const MAPPED: u8 = 2;
    /// They are no longer mapped; with a size of 0, the whole block at the address.
    pub const FREED: u8 = 3;
    /// They are moved: the first half.
    pub const MOVED_FROM: u8 = 4;
    /// The second half: where they are now.
    pub const MOVED_TO: u8 = 5;
    /// They take memory as the program writes to them, and are no block: a private mapping of a file, or one
    /// without reservation.
    pub const LAZY: u8 = 6;
}

/// Why blocks of the program are not recorded, in an event of our writer.
#[doc(hidden)]
pub mod untracked {
    /// The `malloc` that the program calls is another one.
    pub const MALLOC: u8 = 1;
    /// C++'s `operator new` is that of an allocator's library.
    pub const NEW: u8 = 2;
    /// The program has an allocator in itself, or asks for one by its own names.
    pub const ALLOCATOR: u8 = 3;
    /// It is a program of Go, whose runtime asks the system for memory.
    pub const GO: u8 = 4;
    /// None: an allocator in the program is recorded, but not what it maps, by functions of its own.
    pub const RECORDED: u8 = 5;
    /// Scopes of another copy of memledger are not recorded.
    pub const SCOPES: u8 = 6;
    /// The process was replaced by a program, the file, which has no trace: at the time in the place of the
    /// function, in cycles.
    pub const REPLACED: u8 = 7;
    /// A program was started as a child, not by a fork that is followed: the process in the place of the
    /// function, none where it is not known. Without a file, the program before it in that process could not
    /// be executed.
    pub const STARTED: u8 = 8;
    /// The program has asked for the function by a handle of its library, and calls it there.
    pub const HANDLE: u8 = 9;
    /// The program's file cannot be read: an allocator in it would not be found.
    pub const UNREADABLE: u8 = 10;
    /// None: the file is a program that was started as a child, or [`FORK`], where children are not followed.
    /// The first 16, each once.
    pub const NOT_FOLLOWED: u8 = 11;
    /// In place of a program: a fork of the process.
    pub const FORK: &str = "(fork)";
}

/// The type of one field's values.
///
/// The discriminants are the type codes of the wire: bits 0-1 are the binary logarithm of the
/// element size, 0x08 marks a string, 0x10 a signed integer, 0x40 a float, 0x80 an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FieldType {
    /// `bool` or `u8`
    U8 = 0x00,
    /// `u16`
    U16 = 0x01,
    /// `u32`
    U32 = 0x02,
    /// `u64` or a pointer
    U64 = 0x03,
    /// `i8`
    I8 = 0x10,
    /// `i16`
    I16 = 0x11,
    /// `i32`
    I32 = 0x12,
    /// `i64`
    I64 = 0x13,
    /// `f32`
    F32 = 0x42,
    /// `f64`
    F64 = 0x43,
    /// A byte string; ASCII from Unreal, UTF-8 from us.
    AnsiString = 0x88,
    /// A string of UTF-16 code units.
    WideString = 0x89,
    /// `[u8]`
    U8Array = 0x80,
    /// `[u16]`
    U16Array = 0x81,
    /// `[u32]`
    U32Array = 0x82,
    /// `[u64]`
    U64Array = 0x83,
    /// `[i8]`
    I8Array = 0x90,
    /// `[i16]`
    I16Array = 0x91,
    /// `[i32]`
    I32Array = 0x92,
    /// `[i64]`
    I64Array = 0x93,
    /// `[f32]`
    F32Array = 0xc2,
    /// `[f64]`
    F64Array = 0xc3,
}

impl FieldType {
    /// The type with the wire code `code`, or `None` if there is none.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::U8,
            0x01 => Self::U16,
            0x02 => Self::U32,
            0x03 => Self::U64,
            0x10 => Self::I8,
            0x11 => Self::I16,
            0x12 => Self::I32,
            0x13 => Self::I64,
            0x42 => Self::F32,
            0x43 => Self::F64,
            0x88 => Self::AnsiString,
            0x89 => Self::WideString,
            0x80 => Self::U8Array,
            0x81 => Self::U16Array,
            0x82 => Self::U32Array,
            0x83 => Self::U64Array,
            0x90 => Self::I8Array,
            0x91 => Self::I16Array,
            0x92 => Self::I32Array,
            0x93 => Self::I64Array,
            0xc2 => Self::F32Array,
            0xc3 => Self::F64Array,
            _ => return None,
        })
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Bytes of one element.
    pub const fn element_size(self) -> usize {
        1 << (self.code() & 3)
    }

    /// Whether the values are in pieces after the event instead of in its fixed part.
    pub const fn is_array(self) -> bool {
        self.code() & 0x80 != 0
    }

    /// Bytes the field takes in the fixed part of an event: none for arrays and strings.
    pub const fn fixed_size(self) -> usize {
        if self.is_array() { 0 } else { self.element_size() }
    }
}

/// How a field takes part in references between events (protocol 6 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldFamily {
    /// A plain value.
    Regular,
    /// The id of an event of the type with this uid.
    Reference(u16),
    /// The id that other events refer to.
    DefinitionId,
}

/// One field of an event type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, unique within the type.
    pub name: Cow<'static, str>,
    /// The type of its values.
    pub field_type: FieldType,
    /// Its part in references between events.
    pub family: FieldFamily,
    /// Byte offset in the fixed part of the event: the sum of the sizes of the fields before it.
    pub offset: u16,
}

/// An event type as the stream announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// The number that identifies the type in events, from [`FIRST_UID`] to [`LAST_UID`].
    pub uid: u16,
    /// First part of the name: `Memory` in `Memory.Alloc`.
    pub logger: Cow<'static, str>,
    /// Second part of the name: `Alloc` in `Memory.Alloc`.
    pub event: Cow<'static, str>,
    /// [`IMPORTANT`], [`MAYBE_HAS_AUX`], [`NO_SYNC`], [`DEFINITION`].
    pub flags: u8,
    /// The fields in order of declaration.
    pub fields: Cow<'static, [Field]>,
}

impl EventType {
    /// `Logger.Event`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.logger, self.event)
    }

    /// Whether this is `logger.event`.
    pub fn is(&self, logger: &str, event: &str) -> bool {
        self.logger == logger && self.event == event
    }

    /// Whether its events carry a serial number.
    pub fn is_synced(&self) -> bool {
        self.flags & NO_SYNC == 0
    }

    /// Whether its events are sent on the stream of important events.
    pub fn is_important(&self) -> bool {
        self.flags & IMPORTANT != 0
    }

    /// Whether pieces of arrays, and their end, follow the fixed part of its events.
    pub fn has_aux(&self) -> bool {
        self.flags & MAYBE_HAS_AUX != 0
    }

    /// Bytes of the fixed part of its events, without uid and serial.
    pub fn fixed_size(&self) -> usize {
        self.fields
            .iter()
            .map(|field| field.offset as usize + field.field_type.fixed_size())
            .max()
            .unwrap_or(0)
    }

    /// The position of the field called `name`.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_code_survives_a_round_trip() {
        let known = (0..=255).filter_map(FieldType::from_code).collect::<Vec<_>>();
        assert_eq!(known.len(), 22);
        for field_type in known {
            assert_eq!(FieldType::from_code(field_type.code()), Some(field_type));
        }
    }
}
