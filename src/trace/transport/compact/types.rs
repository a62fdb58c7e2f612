//! What the type records that pass by say about the events to come.
//!
//! Nothing depends on it but how well a packet is coded: a record that makes no sense is left to
//! the reader to complain about.

use super::shape::{Kind, Shape};
use crate::trace::event::schema::{FieldType, IMPORTANT, LAST_UID, MAYBE_HAS_AUX, NO_SYNC};

/// One-byte events of a thread's stream.
const AUX: u8 = 1 << 1;
const TERMINAL: u8 = 3 << 1;
const ENTER: u8 = 4 << 1;
const LEAVE: u8 = 5 << 1;

/// Memory events with a size, and without.
const ALLOCS: [&str; 5] =
    ["Alloc", "AllocSystem", "AllocVideo", "ReallocAlloc", "ReallocAllocSystem"];
const FREES: [&str; 5] = ["Free", "FreeSystem", "FreeVideo", "ReallocFree", "ReallocFreeSystem"];

/// What is known of one uid.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Bytes of its events in a payload, without arrays; 0: not known.
    size: u16,
    shape: Option<Shape>,
}

/// The types of one stream, by uid.
pub(super) struct Types {
    protocol: u8,
    known: Vec<Known>,
    /// The start of a record whose end the next packet brings.
    partial: Vec<u8>,
}

impl Types {
    pub(super) fn new(protocol: u8) -> Self {
        Self { protocol, known: Vec::new(), partial: Vec::new() }
    }

    /// Takes in a piece of the stream of type records.
    pub(super) fn learn(&mut self, piece: &[u8]) {
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(piece);
        let mut rest = &partial[..];
        while let Some((&[u0, u1, s0, s1], body)) = rest.split_first_chunk()
            && let Some((record, after)) =
                body.split_at_checked(u16::from_le_bytes([s0, s1]).into())
        {
            if [u0, u1] == [0, 0] {
                // No record of a type we know how to read: its events are carried as they are.
                let _ = self.record(record);
            }
            rest = after;
        }
        let left = rest.len();
        partial.drain(..partial.len() - left);
        self.partial = partial;
    }

    fn record(&mut self, record: &[u8]) -> Option<()> {
        let (&[u0, u1, count, flags, logger, event], rest) = record.split_first_chunk()?;
        let uid = u16::from_le_bytes([u0, u1]);
        // Family and an unused byte stand in front since protocol 6.
        let family = if self.protocol >= 6 { 2 } else { 0 };
        let (fields, names) = rest.split_at_checked(usize::from(count) * (family + 6))?;
        let (logger, names) = names.split_at_checked(logger.into())?;
        let (event, mut names) = names.split_at_checked(event.into())?;
        let head_size: u16 = if flags & NO_SYNC == 0 { 5 } else { 2 };
        let mut size = head_size;
        let mut found = Fields::default();
        for field in fields.chunks_exact(family + 6) {
            let (kind, field) = field.split_at_checked(family)?;
            let &[o0, o1, _, _, c0, c1] = field.first_chunk()?;
            // A definition has no name, and its type code where others have the name's size.
            let definition = kind.first() == Some(&2);
            let (code, name_size) = if definition { (c1, 0) } else { (c0, c1) };
            let field_type = FieldType::from_code(code)?;
            let (name, after) = names.split_at_checked(name_size.into())?;
            names = after;
            let offset = head_size.checked_add(u16::from_le_bytes([o0, o1]))?;
            size = size.max(offset.checked_add(field_type.fixed_size() as u16)?);
            found.add(name, offset, field_type);
        }
        if uid > LAST_UID || flags & IMPORTANT != 0 {
            return None;
        }
        let plain = flags & MAYBE_HAS_AUX == 0;
        let shape =
            (plain.then(|| found.shape(logger, event, head_size == 5, uid, size)).flatten())
                .filter(Shape::is_all);
        if self.known.len() <= usize::from(uid) {
            self.known.resize(usize::from(uid) + 1, Known::default());
        }
        *self.known.get_mut(usize::from(uid))? = Known { size, shape };
        Some(())
    }

    fn known(&self, wire: [u8; 2]) -> Option<&Known> {
        self.known.get(usize::from(u16::from_le_bytes(wire) >> 1)).filter(|known| known.size > 0)
    }

    /// The shape of the event that `bytes` start with, if it has one.
    pub(super) fn shape(&self, bytes: &[u8]) -> Option<Shape> {
        match *bytes.first_chunk::<3>()? {
            [LEAVE, ..] => {
                Some(Shape { head: [LEAVE, 0, 0], head_size: 1, size: 1, ..Shape::default() })
            }
            [ENTER, low, high] if low & 1 != 0 => {
                let shape = self.known([low, high])?.shape?;
                let moves = matches!(shape.kind, Kind::Bare | Kind::Value) && !shape.synced;
                moves.then_some(Shape {
                    head: [ENTER, low, high],
                    head_size: 3,
                    size: shape.size + 1,
                    value: shape.value + u8::from(shape.value > 0),
                    ..shape
                })
            }
            [low, high, _] if low & 1 != 0 => self.known([low, high])?.shape,
            _ => None,
        }
    }

    /// Bytes up to the next event of what `bytes` start with; `None` if that is not known.
    pub(super) fn size(&self, bytes: &[u8]) -> Option<usize> {
        let first = *bytes.first()?;
        Some(match (first, self.protocol) {
            (_, _) if first & 1 != 0 => self.known(*bytes.first_chunk()?)?.size.into(),
            (AUX, _) => 4 + (u32::from_le_bytes(*bytes.first_chunk()?) >> 13) as usize,
            (TERMINAL | ENTER | LEAVE, _) => 1,
            // Scopes with a stamp.
            (0x0c | 0x0e, 7) => 9,
            (0x10 | 0x12, 7) | (0x10 | 0x18, ..7) => 8,
            _ => return None,
        })
    }
}

/// The fields of one type, by what they mean; offsets from the start of the event.
#[derive(Default)]
struct Fields {
    count: usize,
    address: Option<u16>,
    stack: u16,
    heap: u16,
    block_size: Option<u16>,
    alignment: Option<u16>,
    /// The first of all, and its size.
    first: (u16, usize),
}

impl Fields {
    fn add(&mut self, name: &[u8], offset: u16, field_type: FieldType) {
        if self.count == 0 {
            self.first = (offset, field_type.fixed_size());
        }
        self.count += 1;
        match (name, field_type.fixed_size()) {
            (b"Address", 8) => self.address = Some(offset),
            (b"CallstackId", 4) => self.stack = offset,
            (b"RootHeap", 1) => self.heap = offset,
            (b"Size", 4) => self.block_size = Some(offset),
            (b"AlignmentPow2_SizeLower", 1) => self.alignment = Some(offset),
            _ => {}
        }
    }

    fn shape(
        &self,
        logger: &[u8],
        event: &[u8],
        synced: bool,
        uid: u16,
        size: u16,
    ) -> Option<Shape> {
        let [low, high] = (uid << 1 | 1).to_le_bytes();
        let byte = |offset: u16| u8::try_from(offset).ok();
        let mut shape = Shape {
            head: [low, high, 0],
            head_size: 2,
            synced,
            size: byte(size)?,
            ..Shape::default()
        };
        let is_one_of =
            |names: [&str; 5]| logger == b"Memory" && names.iter().any(|n| n.as_bytes() == event);
        let (alloc, free) = (is_one_of(ALLOCS), is_one_of(FREES));
        if alloc || free {
            shape.kind = Kind::Free;
            (shape.address, shape.stack, shape.heap) =
                (byte(self.address?)?, byte(self.stack)?, byte(self.heap)?);
            if alloc {
                shape.kind = Kind::Alloc;
                (shape.block_size, shape.alignment) =
                    (byte(self.block_size?)?, byte(self.alignment?)?);
            }
        } else if self.count == 1 && matches!(self.first.1, 4 | 8) {
            shape.kind = Kind::Value;
            (shape.value, shape.value_size) = (byte(self.first.0)?, self.first.1 as u8);
        } else if self.count > 0 {
            return None;
        }
        Some(shape)
    }
}
