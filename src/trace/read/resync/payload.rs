//! Whether bytes can be the payload of a packet of a thread's stream.

use super::super::protocol::Builtin;
use super::super::schemas::{Protocol, Types};
use crate::trace::format::schema::FIRST_UID;

/// The cost of an event, in bytes of the budget.
const EVENT_COST: usize = 16;

/// Whether `payload` consists of complete events of known types, as each writer sends them on a
/// thread's stream. Array data may also belong to an event of the packet before. Subtracts the cost
/// in bytes from `budget`.
pub(in crate::trace::read) fn is_events(
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
