//! Whether bytes can be the payload of a packet of a thread's stream.

use super::super::schemas::{Protocol, Types};
use memledger_format::layout::split_item;

/// The cost of an event, in bytes of the budget.
const EVENT_COST: usize = 16;

/// Whether `payload` consists of complete events of known types, as each writer sends them on a
/// thread's stream. Array data may also belong to an event of the packet before. Subtracts the cost
/// in bytes from `budget`.
pub(in crate::read) fn is_events(
    payload: &[u8],
    protocol: &Protocol,
    types: &Types,
    budget: &mut usize,
) -> bool {
    let mut rest = payload;
    while !rest.is_empty() {
        *budget = budget.saturating_sub(EVENT_COST);
        if *budget == 0 {
            return false;
        }
        let item = split_item(rest, protocol.version, |uid| types.layout(uid));
        let Some((_, _, after)) = item else { return false };
        rest = after;
    }
    !payload.is_empty()
}

/// Whether `begins` finds what it looks for near the start of `payload`: an event that began in the packet
/// before usually ends soon, and most have less than 100 bytes. Subtracts the cost in bytes from
/// `budget`.
pub(in crate::read) fn begins_near_start(
    payload: &[u8],
    budget: &mut usize,
    begins: impl FnOnce(&[u8]) -> bool,
) -> bool {
    let start = payload.get(..payload.len().min(1024)).unwrap_or_default();
    match budget.checked_sub(start.len()) {
        Some(left) => {
            *budget = left;
            begins(start)
        }
        None => false,
    }
}
