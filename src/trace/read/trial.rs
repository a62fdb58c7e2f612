//! Whether bytes could be the payload of a packet, without taking anything in.

use super::protocol::Builtin;
use super::schemas::{Protocol, Types};
use crate::trace::format::schema::FIRST_UID;

/// What looking at one event costs, compared with decoding one byte.
const EVENT_COST: usize = 16;

/// Whether `payload` is a row of whole events of known types, as every writer sends them to a
/// thread's stream. Array data may belong to an event of the packet before. What it costs, in
/// bytes looked at, is taken off `budget`.
pub(super) fn is_events(
    payload: &[u8],
    protocol: &Protocol,
    types: &Types,
    budget: &mut usize,
) -> bool {
    let mut rest = payload;
    while let Some(&first) = rest.first() {
        *budget = budget.saturating_sub(EVENT_COST);
        if *budget == 0 {
            return false;
        }
        let uid_size = if first & 1 != 0 { 2 } else { 1 };
        let uid = match (rest.first_chunk::<2>(), uid_size) {
            (_, 1) => u16::from(first >> 1),
            (Some(&uid), _) => u16::from_le_bytes(uid) >> 1,
            (None, _) => return false,
        };
        let size = if uid >= FIRST_UID {
            let Some(layout) = types.layout(uid) else { return false };
            uid_size + if layout.synced { 3 } else { 0 } + usize::from(layout.fixed_size)
        } else {
            match protocol.builtin.get(usize::from(uid)).filter(|_| uid_size == 1) {
                Some(Builtin::Terminal) => 1,
                Some(Builtin::Enter { size } | Builtin::Leave { size }) => *size,
                Some(Builtin::Aux) => {
                    let Some(&header) = rest.first_chunk::<4>() else { return false };
                    4 + (u32::from_le_bytes(header) >> 13) as usize
                }
                Some(Builtin::Illegal) | None => return false,
            }
        };
        let Some(after) = rest.get(size..) else { return false };
        rest = after;
    }
    !payload.is_empty()
}
