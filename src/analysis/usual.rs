//! The usual events, allocations and frees as our writer and Unreal's lay them out, taken straight
//! from the bytes of a packet.
//!
//! ```text
//! u16 uid   u24 serial   u64 address                                       a free
//! u16 uid   u24 serial   u64 address   u32   u32 size   u8 lower bits      an allocation
//! ```
//! PERF: nearly all events of a trace, in half the time that fields at any offset take.

use super::roles::{Role, SYSTEM};
use super::steps::StepKind;
use super::{Analyzer, Until};
use crate::trace::format::schema::{EventType, SERIAL_MASK};
use crate::trace::read::Row;
use std::hint::select_unpredictable;

/// How the events of one uid lie, if they are of this kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    kind: StepKind,
    /// Bytes of an event with its header; 0 for any other kind.
    size: u8,
    type_index: u32,
    /// All ones for an allocation, 0 for a free.
    size_mask: u64,
}

/// What is guessed of an event by the lower 6 bits of its uid.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guess {
    /// Whether it is an allocation.
    is_alloc: u64,
    /// Bytes of a free and of an allocation.
    sizes: [usize; 2],
}

/// Bytes of a uid, a serial and an address.
const FREE: usize = 13;
/// Bytes up to the end of a size.
const ALLOC: usize = 22;

impl Usual {
    fn of(event_type: &EventType, role: Role, type_index: u32) -> Self {
        let kind = match role {
            Role::Alloc { address: 0, size: 12, low: 16, heap: SYSTEM, realloc } => {
                if realloc {
                    StepKind::ReallocAlloc
                } else {
                    StepKind::Alloc
                }
            }
            Role::Free { address: 0, heap: SYSTEM, realloc } => {
                if realloc {
                    StepKind::ReallocFree
                } else {
                    StepKind::Free
                }
            }
            _ => return Self::default(),
        };
        let size = u8::try_from(event_type.fixed_size() + 5);
        let plain = event_type.is_synced() && !event_type.has_aux();
        let size_mask = match kind {
            StepKind::Alloc | StepKind::ReallocAlloc => u64::MAX,
            StepKind::Free | StepKind::ReallocFree => 0,
        };
        Self { kind, size: size.ok().filter(|_| plain).unwrap_or(0), type_index, size_mask }
    }
}

impl Analyzer {
    /// Notes how the events of a type lie.
    pub(super) fn learn(&mut self, event_type: &EventType, role: Role, type_index: usize) {
        let uid = usize::from(event_type.uid);
        if uid >= self.usual.len() {
            self.usual.resize(uid + 1, Usual::default());
        }
        let usual = Usual::of(event_type, role, type_index as u32);
        self.usual[uid] = usual;
        if usual.size > 0 {
            let allocates = usual.size_mask != 0;
            self.guess.sizes[usize::from(allocates)] = usual.size.into();
            let bit = 1 << (uid & 63);
            self.guess.is_alloc =
                if allocates { self.guess.is_alloc | bit } else { self.guess.is_alloc & !bit };
        }
    }

    /// Takes in the events at the start of `row`, up to the first of another kind.
    #[inline]
    pub(super) fn take_usual(&mut self, row: &mut Row<'_>) {
        if !self.counting() || self.until != Until::End {
            return;
        }
        let Guess { is_alloc, sizes: [if_free, if_alloc] } = self.guess;
        let mut bytes = row.bytes;
        while let Some(&[u0, u1, s0, s1, s2, ref address @ ..]) = bytes.first_chunk::<FREE>() {
            let uid = u16::from_le_bytes([u0, u1]);
            // PERF: where the next event begins is guessed, and looked up while that is read already.
            let size =
                select_unpredictable(is_alloc >> (uid >> 1 & 63) & 1 != 0, if_alloc, if_free);
            let Some(&usual) = self.usual.get(usize::from(uid >> 1)) else { break };
            let serial = u64::from(u32::from_le_bytes([s0, s1, s2, 0]));
            let address = u64::from_le_bytes(*address);
            let is_next = (serial ^ row.next) & SERIAL_MASK == 0;
            let is_right = size == usize::from(usual.size) && size > 0;
            if uid & 1 == 0 || !is_next || address == 0 || !is_right || size > bytes.len() {
                break;
            }
            // PERF: what a free has in place of a size is read too: which of both it is cannot be guessed.
            let block = match bytes.first_chunk::<ALLOC>() {
                Some(&[.., a, b, c, d, low]) => {
                    let high = u64::from(u32::from_le_bytes([a, b, c, d])) << self.size_shift;
                    high | u64::from(low) & ((1 << self.size_shift) - 1)
                }
                None => 0,
            };
            row.count(usual.type_index);
            bytes = &bytes[size..];
            self.trace.events += 1;
            self.put_off(usual.kind, row.stream, 0, address, block & usual.size_mask);
        }
        row.bytes = bytes;
    }
}
