//! What each protocol version defines here: the fields of its type records. The items of a stream
//! are in `format/layout.rs`.

use memledger_format::schema::FieldFamily;

/// One field of a type record of any protocol.
pub(super) struct FieldRecord {
    pub family: FieldFamily,
    pub offset: u16,
    /// The size in the record; only regular fields have one.
    pub size: Option<u16>,
    pub code: u8,
    pub name_size: u8,
}
