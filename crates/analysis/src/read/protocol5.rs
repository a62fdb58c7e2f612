//! Protocol 5 (Unreal Engine 5.0): six-byte field records.

use super::protocol::FieldRecord;
use memledger_format::schema::FieldFamily;

/// Bytes of one field in a type record: u16 offset, u16 size, u8 type code, u8 name size.
pub(super) const FIELD: usize = 6;

pub(super) fn field(bytes: &[u8]) -> Option<FieldRecord> {
    let &[o0, o1, s0, s1, code, name_size] = bytes.first_chunk()?;
    Some(FieldRecord {
        family: FieldFamily::Regular,
        offset: u16::from_le_bytes([o0, o1]),
        size: Some(u16::from_le_bytes([s0, s1])),
        code,
        name_size,
    })
}
