//! The types that a trace has announced so far, by uid and by index.

use super::protocol::FieldRecord;
use super::serials::Serials;
use super::{protocol0, protocol5, protocol6};
use memledger_format::layout::{ByUid, EventLayout};
use memledger_format::schema::{
    EventType, FIRST_UID, Field, FieldFamily, FieldType, IMPORTANT, LAST_UID, MAYBE_HAS_AUX,
    NO_SYNC, SERIAL_BITS,
};
use std::borrow::Cow;

/// The differences between the protocol versions.
#[derive(Clone, Copy)]
pub(super) struct Protocol {
    /// 0 to 7.
    pub version: u8,
    /// Where the arrays of important events are in protocol 4; `None` if it shows only in their
    /// sizes.
    pub arrays_inside: Option<bool>,
    field_size: usize,
    field: fn(&[u8]) -> Option<FieldRecord>,
    /// Whether a type record may have one byte more than its contents.
    padded: bool,
    /// Whether a time of seven bytes is relative to the thread's last time, not to the start of the
    /// trace.
    pub stamps_add_up: bool,
}

impl Protocol {
    /// The protocol with this number; any number above 6 is taken as 7.
    pub(super) fn new(version: u8) -> Self {
        match version {
            0..=5 => Self {
                version,
                arrays_inside: None,
                field_size: protocol5::FIELD,
                field: protocol5::field,
                padded: false,
                stamps_add_up: true,
            },
            6 => Self {
                version,
                arrays_inside: None,
                field_size: protocol6::FIELD,
                field: protocol6::field,
                padded: false,
                stamps_add_up: true,
            },
            _ => Self {
                version: 7,
                arrays_inside: None,
                field_size: protocol6::FIELD,
                field: protocol6::field,
                padded: true,
                stamps_add_up: false,
            },
        }
    }

    /// Whether events have a size in their header, which is so up to protocol 4.
    #[inline]
    pub(super) fn has_sizes(&self) -> bool {
        self.version < 5
    }

    /// The serials of a stream of this protocol.
    pub(super) fn serials(&self) -> Serials {
        match self.version {
            1 => Serials::collecting(16),
            2..=4 => Serials::collecting(SERIAL_BITS),
            _ => Serials::default(),
        }
    }

    fn layout(&self, event_type: &EventType, fixed_size: usize) -> EventLayout {
        let flags = match self.has_sizes() {
            true => protocol0::layout_flags(self, event_type.flags),
            false => event_type.flags,
        };
        EventLayout::new(fixed_size, flags)
    }

    /// Reads one type record, without the uid and size before it.
    pub(super) fn type_record(&self, record: &[u8]) -> Result<EventType, String> {
        let Some((&[u0, u1, count, flags, logger_size, event_size], mut rest)) =
            record.split_first_chunk()
        else {
            return Err(format!("a type record has only {} bytes", record.len()));
        };
        let uid = u16::from_le_bytes([u0, u1]);
        let uids = if self.has_sizes() { protocol0::UIDS } else { FIRST_UID..=LAST_UID };
        if !uids.contains(&uid) {
            return Err(format!("a type record declares uid {uid}"));
        }
        let illegal = |what: &str| format!("the type record of uid {uid} {what}");
        let mut records = Vec::new();
        for _ in 0..count {
            let Some((field, after)) = rest.split_at_checked(self.field_size) else {
                return Err(illegal("ends inside its fields"));
            };
            records
                .push((self.field)(field).ok_or_else(|| illegal("has an unknown field family"))?);
            rest = after;
        }
        let mut name = |size: u8| {
            let (name, after) = rest.split_at_checked(usize::from(size))?;
            rest = after;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let short = || illegal(ENDS_IN_NAMES);
        let logger = name(logger_size).ok_or_else(short)?;
        let event = name(event_size).ok_or_else(short)?;
        let fields = fields(records, &mut name).map_err(|what| illegal(&what))?;
        if rest.len() > usize::from(self.padded) {
            return Err(illegal(&format!("is followed by {} bytes", rest.len())));
        }
        let arrays = fields.iter().any(|field| field.field_type.is_array());
        // The first engines set no flags, and an important event was an ordinary one.
        let (important, arrays) = match self.has_sizes() {
            true => (false, false),
            false => (flags & IMPORTANT != 0, arrays),
        };
        if important && flags & NO_SYNC == 0 {
            return Err(illegal("is important and synchronised at once"));
        }
        if arrays && flags & MAYBE_HAS_AUX == 0 {
            return Err(illegal("has array fields without the flag for them"));
        }
        Ok(EventType {
            uid,
            logger: logger.into(),
            event: event.into(),
            flags,
            fields: Cow::Owned(fields),
        })
    }
}

const ENDS_IN_NAMES: &str = "ends inside its names";

/// The fields of a type record, whose names `name` takes from it by their sizes.
fn fields(
    records: Vec<FieldRecord>,
    name: &mut impl FnMut(u8) -> Option<String>,
) -> Result<Vec<Field>, String> {
    let mut fields = Vec::with_capacity(records.len());
    let mut offset = 0;
    for record in records {
        let Some(field_type) = FieldType::from_code(record.code) else {
            return Err(format!("has a field of type 0x{:02x}", record.code));
        };
        let size = field_type.fixed_size();
        if usize::from(record.offset) != offset
            || record.size.is_some_and(|stated| usize::from(stated) != size)
        {
            return Err("has fields that do not follow one another".to_owned());
        }
        offset += size;
        let name = match record.family {
            FieldFamily::DefinitionId => "DefinitionId".to_owned(),
            _ => name(record.name_size).ok_or(ENDS_IN_NAMES)?,
        };
        fields.push(Field {
            name: name.into(),
            field_type,
            family: record.family,
            offset: record.offset,
        });
    }
    Ok(fields)
}

/// The way in which the reader itself uses the events of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderRole {
    None,
    /// `Memledger.Settled`; the offset of its `Serial`.
    Settled(u16),
    /// `Memledger.Trace`; the offset of its `FirstSerial`.
    FirstSerial(u16),
    /// `$Trace.ThreadTiming`; the offset of its `BaseTimestamp`.
    ThreadTiming(u16),
    /// `$Trace.NewTrace` up to protocol 4.
    NewTrace,
}

impl ReaderRole {
    fn of(event_type: &EventType, protocol: &Protocol) -> Self {
        let offset = |name: &str| {
            let field = event_type.fields.get(event_type.field(name)?)?;
            (field.field_type == FieldType::U64).then_some(field.offset)
        };
        if protocol.has_sizes() && event_type.logger != "$Trace" {
            Self::None
        } else if protocol.has_sizes() && event_type.is("$Trace", "NewTrace") {
            Self::NewTrace
        } else if event_type.is("Memledger", "Settled") && !event_type.is_synced() {
            offset("Serial").map_or(Self::None, Self::Settled)
        } else if event_type.is("Memledger", "Trace") {
            offset("FirstSerial").map_or(Self::None, Self::FirstSerial)
        } else if event_type.is("$Trace", "ThreadTiming") {
            offset("BaseTimestamp").map_or(Self::None, Self::ThreadTiming)
        } else {
            Self::None
        }
    }
}

/// A type, with the values that are needed to deliver its events.
pub(super) struct KnownType {
    pub event_type: EventType,
    pub fixed_size: usize,
    pub role: ReaderRole,
}

/// The values of a type that are needed to parse its events. PERF: it has 12 bytes, so that the
/// types in use share a few cache lines.
#[derive(Clone, Copy, Default)]
pub(super) struct TypeInfo {
    pub type_index: u32,
    pub layout: EventLayout,
    /// Whether the reader itself uses its events.
    pub has_role: bool,
}

impl TypeInfo {
    /// Whether its events are only delivered.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !self.layout.has_arrays && !self.has_role
    }
}

/// The limit for the memory of all types, in bytes. A program has some thousands of types of some
/// hundred bytes each.
const MAX_BYTES: usize = 64 << 20;

/// The result of adding a type.
pub(super) enum Added {
    /// The type is new and has this index.
    New(u32),
    /// The same type is known already.
    Unchanged,
    /// The type is refused, because the types take as much memory as they may. `first` is true for
    /// the first type that is refused.
    Refused { first: bool },
}

/// All types of one stream.
#[derive(Default)]
pub(super) struct Types {
    types: Vec<KnownType>,
    by_uid: ByUid<TypeInfo>,
    /// An estimate of the bytes that all types take.
    bytes: usize,
    refused: bool,
}

impl Types {
    /// What parsing needs of the type that currently has this uid.
    #[inline]
    pub(super) fn info(&self, uid: u16) -> Option<TypeInfo> {
        self.by_uid.get(uid)
    }

    /// The layout of the type that currently has this uid.
    #[inline]
    pub(super) fn layout(&self, uid: u16) -> Option<EventLayout> {
        self.info(uid).map(|info| info.layout)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&KnownType> {
        self.types.get(index as usize)
    }

    /// The number of types.
    pub(super) fn len(&self) -> usize {
        self.types.len()
    }

    /// All types in order of their indexes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &EventType> {
        self.types.iter().map(|known| &known.event_type)
    }

    pub(super) fn add(&mut self, event_type: EventType, protocol: &Protocol) -> Added {
        let uid = event_type.uid;
        if let Some(same) = self.info(uid).and_then(|info| self.get(info.type_index))
            && same.event_type == event_type
        {
            return Added::Unchanged;
        }
        let index = self.types.len() as u32;
        let names = event_type.logger.len() + event_type.event.len();
        let fields = event_type.fields.iter().map(|field| size_of::<Field>() + field.name.len());
        self.bytes += size_of::<KnownType>() + names + fields.sum::<usize>();
        if self.bytes > MAX_BYTES {
            return Added::Refused { first: !std::mem::replace(&mut self.refused, true) };
        }
        let fixed_size = event_type.fixed_size();
        let role = ReaderRole::of(&event_type, protocol);
        let layout = protocol.layout(&event_type, fixed_size);
        self.by_uid.insert(
            uid,
            TypeInfo { type_index: index, layout, has_role: role != ReaderRole::None },
        );
        self.types.push(KnownType { event_type, fixed_size, role });
        Added::New(index)
    }
}
