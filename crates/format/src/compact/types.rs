//! The types that the encoder learns from type records.
//!
//! They affect only the size of packets, so an invalid record is ignored here; the reader reports
//! it.

use super::shape::{Body, Shape};
use crate::layout::{ByUid, ENTER_SCOPE, EventLayout, LEAVE_SCOPE, first_item};
use crate::records::{Record, Records, field_size};
use crate::schema::{FieldType, IMPORTANT, LAST_UID};

/// The facts that the encoder needs about one type.
#[derive(Clone, Copy)]
struct TypeInfo {
    layout: EventLayout,
    /// `None` if no shape has the fields of its events.
    shape: Option<Shape>,
    /// Its events say something of a block that stays.
    keeps_block: bool,
}

/// The types of one stream, by uid.
pub(crate) struct Types {
    protocol: u8,
    known: ByUid<TypeInfo>,
    records: Records,
}

impl Types {
    pub(crate) fn new(protocol: u8) -> Self {
        Self { protocol, known: ByUid::default(), records: Records::default() }
    }

    /// Reads a piece of the stream of type records.
    pub(crate) fn learn(&mut self, piece: &[u8]) {
        let mut records = std::mem::take(&mut self.records);
        records.visit(piece, |record| {
            // Events of a type whose record cannot be read are copied.
            let _ = self.record(record);
        });
        self.records = records;
    }

    fn record(&mut self, record: &[u8]) -> Option<()> {
        let Record { uid, flags, fields, event, mut names, .. } =
            Record::split(record, self.protocol)?;
        let header = EventLayout::new(0, flags).header() as u16;
        let mut size = header;
        let mut found = Vec::new();
        for field in fields.chunks_exact(field_size(self.protocol)) {
            let (kind, field) = field.split_at_checked(field.len() - 6)?;
            let &[o0, o1, _, _, c0, c1] = field.first_chunk()?;
            // A definition id has no name; its type code is in the byte in which other fields have
            // the size of the name.
            let definition = kind.first() == Some(&2);
            let (code, name_size) = if definition { (c1, 0) } else { (c0, c1) };
            let field_type = FieldType::from_code(code)?;
            let (name, after) = names.split_at_checked(name_size.into())?;
            names = after;
            let offset = header.checked_add(u16::from_le_bytes([o0, o1]))?;
            let bytes = field_type.fixed_size();
            size = size.max(offset.checked_add(bytes as u16)?);
            found.push((offset, name, bytes));
        }
        if uid > LAST_UID || flags & IMPORTANT != 0 {
            return None;
        }
        let layout = EventLayout::new(usize::from(size - header), flags);
        let shape = if layout.has_arrays { None } else { shape(&found, uid, layout.synced) };
        let shape = shape.filter(|shape| u16::from(shape.size()) == size);
        self.known.insert(uid, TypeInfo { layout, shape, keeps_block: event == b"UpdateAlloc" });
        Some(())
    }

    fn shape_of(&self, wire: [u8; 2]) -> Option<Shape> {
        self.known.get(u16::from_le_bytes(wire) >> 1)?.shape
    }

    /// The shape of the event that `bytes` start with, if it has one.
    pub(crate) fn shape(&self, bytes: &[u8]) -> Option<Shape> {
        match *bytes.first_chunk::<3>()? {
            [LEAVE_SCOPE, ..] => {
                Some(Shape { head: [LEAVE_SCOPE, 0, 0], head_size: 1, ..Shape::default() })
            }
            [ENTER_SCOPE, low, high] if low & 1 != 0 => {
                let shape = self.shape_of([low, high])?;
                let moves = shape.body != Body::HeapBlock && !shape.synced;
                let head = [ENTER_SCOPE, low, high];
                moves.then_some(Shape { head, head_size: 3, ..shape })
            }
            [low, high, _] if low & 1 != 0 => self.shape_of([low, high]),
            _ => None,
        }
    }

    /// Whether the memory event that `bytes` start with says something of a block that stays.
    pub(crate) fn keeps_block(&self, bytes: &[u8]) -> bool {
        let uid = bytes.first_chunk().map(|wire| u16::from_le_bytes(*wire) >> 1);
        uid.and_then(|uid| self.known.get(uid)).is_some_and(|known| known.keeps_block)
    }

    /// The size in bytes of the item that `bytes` begin with; `None` if it is unknown.
    pub(crate) fn size(&self, bytes: &[u8]) -> Option<usize> {
        let layout = |uid| self.known.get(uid).map(|known| known.layout);
        first_item(bytes, self.protocol, layout).map(|(_, size)| size)
    }
}

/// A field of a type: its offset in the event, its name, its size in bytes.
type Field<'a> = (u16, &'a [u8], usize);

/// The shape of events with these fields; `None` if no shape has exactly these fields in this
/// order, without gaps.
fn shape(mut fields: &[Field<'_>], uid: u16, synced: bool) -> Option<Shape> {
    let [low, high] = (uid << 1 | 1).to_le_bytes();
    let mut shape = Shape { head: [low, high, 0], head_size: 2, synced, ..Shape::default() };
    let mut next = usize::from(shape.start());
    for &(offset, _, bytes) in fields {
        if usize::from(offset) != next {
            return None;
        }
        next += bytes;
    }
    let mut has = |name: &str, bytes: usize| match fields.split_first() {
        Some((first, rest)) if (first.1, first.2) == (name.as_bytes(), bytes) => {
            fields = rest;
            true
        }
        _ => false,
    };
    if synced && has("Address", 8) {
        shape.body = Body::HeapBlock;
        shape.stack = has("CallstackId", 4);
        shape.layout = shape.stack && has("Size", 4);
        if shape.layout && !has("AlignmentPow2_SizeLower", 1) {
            return None;
        }
        shape.heap = shape.stack && has("RootHeap", 1);
    } else if let Some((first, rest)) = fields.split_first() {
        shape.body = match first.2 {
            4 => Body::Value4,
            8 => Body::Value8,
            _ => return None,
        };
        fields = rest;
    }
    fields.is_empty().then_some(shape)
}
