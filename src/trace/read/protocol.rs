//! What each protocol version defines: its one-byte events, and the fields of its type records.

use crate::trace::format::schema::FieldFamily;

/// A one-byte event of a thread stream; `size` includes that byte and its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Illegal,
    Aux,
    Terminal,
    Enter { size: usize },
    Leave { size: usize },
}

/// One field of a type record, whatever the protocol.
pub(super) struct FieldRecord {
    pub family: FieldFamily,
    pub offset: u16,
    /// As the record states it; only regular fields have one.
    pub size: Option<u16>,
    pub code: u8,
    pub name_size: u8,
}
