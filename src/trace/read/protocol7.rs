//! Protocol 7 (Unreal Engine 5.2 and later, and this crate's writer). Its field records are those
//! of protocol 6. The times of scopes are absolute (eight bytes) or relative to the start of the
//! trace (seven bytes), not relative to the last time.

use super::protocol::Builtin;
pub(super) use super::protocol6::{FIELD, field};

/// The one-byte events of a thread stream by their uid.
pub(super) const BUILTIN: [Builtin; 16] = {
    let mut table = [Builtin::Illegal; 16];
    table[1] = Builtin::Aux;
    table[3] = Builtin::Terminal;
    table[4] = Builtin::Enter { size: 1 };
    table[5] = Builtin::Leave { size: 1 };
    table[6] = Builtin::Enter { size: 9 };
    table[7] = Builtin::Leave { size: 9 };
    table[8] = Builtin::Enter { size: 8 };
    table[9] = Builtin::Leave { size: 8 };
    table
};
