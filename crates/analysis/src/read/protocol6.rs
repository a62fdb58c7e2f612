//! Protocol 6 (Unreal Engine 5.1) and protocol 7 (5.2 and later, and this crate's writer): field
//! records of eight bytes with a family.

use super::protocol::FieldRecord;
use memledger_format::schema::FieldFamily;

/// Bytes of one field in a type record: u8 family, u8 unused, then six bytes whose meaning
/// depends on the family.
pub(super) const FIELD: usize = 8;

const REGULAR: u8 = 0;
const REFERENCE: u8 = 1;
const DEFINITION_ID: u8 = 2;

/// Reads one field.
///
/// NOTE: ignores the second byte, which Unreal's writer does not initialise.
pub(super) fn field(bytes: &[u8]) -> Option<FieldRecord> {
    let &[family, _, o0, o1, a0, a1, b0, b1] = bytes.first_chunk()?;
    let (offset, middle) = (u16::from_le_bytes([o0, o1]), u16::from_le_bytes([a0, a1]));
    Some(match family {
        REGULAR => FieldRecord {
            family: FieldFamily::Regular,
            offset,
            size: Some(middle),
            code: b0,
            name_size: b1,
        },
        REFERENCE => FieldRecord {
            family: FieldFamily::Reference(middle),
            offset,
            size: None,
            code: b0,
            name_size: b1,
        },
        // It has no name, and its type code is the last byte.
        DEFINITION_ID => FieldRecord {
            family: FieldFamily::DefinitionId,
            offset,
            size: None,
            code: b1,
            name_size: 0,
        },
        _ => return None,
    })
}
