//! What each protocol version defines: its one-byte events, and the fields of its type records.

use crate::trace::format::schema::FieldFamily;

/// A one-byte event of a thread's stream; `size` includes that byte and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Illegal,
    Aux,
    Terminal,
    Enter { size: usize },
    Leave { size: usize },
}

/// One field of a type record of any protocol.
pub(super) struct FieldRecord {
    pub family: FieldFamily,
    pub offset: u16,
    /// The size in the record; only regular fields have one.
    pub size: Option<u16>,
    pub code: u8,
    pub name_size: u8,
}
