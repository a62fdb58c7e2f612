//! Allocations and frees as our writer and Unreal's lay them out, taken straight from the bytes of
//! a packet.
//!
//! ```text
//! u16 uid   u24 serial   u64 address                                       a free
//! u16 uid   u24 serial   u64 address   u32 stack   u32 size   u8 lower bits   an allocation
//! ```
//! PERF: nearly all events of a trace take this path, which takes half the time of reading fields
//! at arbitrary offsets.

use super::operation::{Operation, OperationKind, StreamHeap};
use super::roles::{Role, SYSTEM};
use crate::read::Row;
use memledger_format::schema::EventType;
use std::hint::select_unpredictable;

/// Bytes up to the end of a size.
const ALLOC: usize = 22;
/// Bits before the serial, and before the first field.
const SERIAL_SHIFT: u32 = 16;
const HEAD_BITS: u32 = 40;
/// Types with the same lower 8 bits of their uids share an entry: the last one has it.
const LAYOUTS: usize = 256;

/// The layout of the events of one uid, if they are an allocation or a free with the fields above.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    type_index: u32,
    /// The first two bytes of an event.
    wire: u16,
    /// Bytes of an event with its header; 0 for any other layout.
    size: u8,
    kind: OperationKind,
}

impl Layout {
    fn of(event_type: &EventType, role: Role, type_index: u32) -> Self {
        let kind = match role {
            Role::Alloc { address: 0, stack: 8, size: 12, low: 16, heap: SYSTEM, realloc } => {
                if realloc {
                    OperationKind::ReallocAlloc
                } else {
                    OperationKind::Alloc
                }
            }
            Role::Free { address: 0, heap: SYSTEM, realloc } => {
                if realloc {
                    OperationKind::ReallocFree
                } else {
                    OperationKind::Free
                }
            }
            _ => return Self::default(),
        };
        let size = u8::try_from(event_type.fixed_size() + 5);
        let plain = event_type.is_synced() && !event_type.has_aux();
        let size = size.ok().filter(|_| plain).unwrap_or(0);
        Self { type_index, wire: event_type.uid << 1 | 1, size, kind }
    }
}

/// The layouts of a trace, and a guess at the layout of the next event by the lower 6 bits of its
/// uid.
#[derive(Clone, Debug)]
pub(super) struct FastPath {
    /// By the lower bits of the uid.
    layouts: [Layout; LAYOUTS],
    /// A bit for each value of the lower 6 bits of a uid: whether the event is an allocation.
    is_alloc: u64,
    /// Bytes of a free and of an allocation.
    sizes: [usize; 2],
}

impl Default for FastPath {
    fn default() -> Self {
        let layouts = [Layout::default(); LAYOUTS];
        Self { layouts, is_alloc: 0, sizes: [usize::MAX; 2] }
    }
}

impl FastPath {
    /// Notes the layout of the events of a type.
    pub(super) fn add_type(&mut self, event_type: &EventType, role: Role, type_index: usize) {
        let uid = usize::from(event_type.uid);
        let layout = Layout::of(event_type, role, type_index as u32);
        let known = &mut self.layouts[uid % LAYOUTS];
        if layout.size > 0 {
            *known = layout;
            let allocates = layout.kind.size_mask() != 0;
            self.sizes[usize::from(allocates)] = layout.size.into();
            let bit = 1 << (uid & 63);
            self.is_alloc = if allocates { self.is_alloc | bit } else { self.is_alloc & !bit };
        } else if known.wire == event_type.uid << 1 | 1 {
            *known = layout;
        }
    }

    /// Takes the next events of `row` out of `bytes`, the rest of the row, and puts their operations into
    /// `operations`, up to an event that has another layout; returns how many.
    #[inline(always)]
    pub(super) fn decode(
        &self,
        row: &mut Row<'_>,
        bytes: &mut &[u8],
        operations: &mut [Operation],
        size_shift: u8,
    ) -> usize {
        let place = StreamHeap::new(row.stream, 0);
        let (mut rest, mut count) = (*bytes, 0);
        for operation in operations {
            let Some(window) = rest.first_chunk() else {
                count += self.last(row, &mut rest, operation, size_shift);
                break;
            };
            let Some((size, type_index)) = self.one(window, place, row.next, size_shift, operation)
            else {
                break;
            };
            let Some(after) = rest.get(size..) else { break };
            row.count(type_index);
            rest = after;
            count += 1;
        }
        *bytes = rest;
        count
    }

    /// Does the same with the last bytes of a row, which can be one event at most.
    #[cold]
    #[inline(never)]
    fn last(
        &self,
        row: &mut Row<'_>,
        rest: &mut &[u8],
        operation: &mut Operation,
        size_shift: u8,
    ) -> usize {
        let mut window = [0; ALLOC];
        window[..rest.len()].copy_from_slice(rest);
        let place = StreamHeap::new(row.stream, 0);
        let Some((size, type_index)) = self.one(&window, place, row.next, size_shift, operation)
        else {
            return 0;
        };
        let Some(after) = rest.get(size..) else { return 0 };
        row.count(type_index);
        *rest = after;
        1
    }

    /// Stores the operation of the event that `window` begins with. Returns the bytes of the event and the
    /// index of its type; `None` if the event has another layout, or another serial than `next`.
    #[inline(always)]
    fn one(
        &self,
        window: &[u8; ALLOC],
        place: StreamHeap,
        next: u64,
        size_shift: u8,
        operation: &mut Operation,
    ) -> Option<(usize, u32)> {
        let &[ref head @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _] = window;
        let &[_, _, _, _, _, ref address @ .., _, _, _, _, _, _, _, _, _] = window;
        let &[.., i, j, k, l, a, b, c, d, low] = window;
        let head = u64::from_le_bytes(*head);
        // PERF: the size of this event, and so the start of the next one, is predicted from its
        // uid. The processor can read the next event while it looks up the layout of this one.
        let is_alloc = self.is_alloc >> (head >> 1 & 63) & 1 != 0;
        let size = select_unpredictable(is_alloc, self.sizes[1], self.sizes[0]);
        let layout = self.layouts[(head >> 1) as usize % LAYOUTS];
        let other = head ^ u64::from(layout.wire) ^ next << SERIAL_SHIFT;
        let address = u64::from_le_bytes(*address);
        if other << (u64::BITS - HEAD_BITS) != 0 || size != usize::from(layout.size) || address == 0
        {
            return None;
        }
        // PERF: the bytes at the place of a size are read for a free, too: a branch on the kind of
        // event would be mispredicted.
        let high = u64::from(u32::from_le_bytes([a, b, c, d])) << size_shift;
        let bytes = high | u64::from(low) & ((1 << size_shift) - 1);
        let bytes = bytes & layout.kind.size_mask();
        // NOTE: of a free, these are other bytes; a free has no use for a stack.
        let stack = u32::from_le_bytes([i, j, k, l]);
        *operation = Operation::new(layout.kind, place, address, bytes, stack);
        Some((size, layout.type_index))
    }
}
