//! Protocol 5 (Unreal Engine 5.0): six-byte field records.

use super::protocol::{Builtin, FieldRecord};
use crate::trace::format::schema::FieldFamily;

/// Bytes of one field in a type record: u16 offset, u16 size, u8 type code, u8 name size.
pub(super) const FIELD: usize = 6;

/// The one-byte events of a thread's stream, by their uid. In scope events with a time, the time
/// has seven bytes.
pub(super) const BUILTIN: [Builtin; 16] = {
    let mut table = [Builtin::Illegal; 16];
    table[1] = Builtin::Aux;
    table[3] = Builtin::Terminal;
    table[4] = Builtin::Enter { size: 1 };
    table[5] = Builtin::Leave { size: 1 };
    table[8] = Builtin::Enter { size: 8 };
    table[12] = Builtin::Leave { size: 8 };
    table
};

/// Reads one field.
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
