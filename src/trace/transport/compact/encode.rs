//! From a payload to the body of a compact packet.

use super::bits::{Buffer, Cursor, STEP, low, zeroed};
use super::model::{
    ALLOCS, BY_AGE, DISTANCE_BITS, FAR, FREES, LITERAL, LITERAL_BITS, NEWEST, RECENT, Slots, State,
    Tables, zigzag,
};
use super::parts::{
    DISTANCE_CODES, SIZE_CODES, far, fitting, gap, load, other, place, size_of, stack, unexpected,
};
use super::shape::{Kind, LARGEST_SHAPE};
use super::types::Types;
use super::{CHECKSUM, COMPACT_HEADER, LARGEST, checksum};
use crate::trace::transport::packet::COMPACT;

/// Bytes of the payload that are looked at for one event.
pub(super) const WINDOW: usize = 40;
/// Payloads with fewer bytes are not worth the shapes in front.
const SMALLEST: usize = 48;
/// Places of addresses by hash.
pub(super) const PLACES: usize = 2048;

/// Makes compact packets of the payloads of one trace, whose types it learns.
///
/// Costs 9 to 12 ns a memory event, about half of LZ4, and some 80 KiB.
pub struct Encoder {
    types: Types,
    tables: Tables,
    slots: Slots,
    bytes: Box<Buffer>,
    /// Numbers of addresses by hash, allocated and freed. What is stale is found out.
    places: Box<[[u16; PLACES]; 2]>,
    /// The low bits of all addresses of the packet before.
    low_bits: u64,
}

impl Encoder {
    /// An encoder for the payloads of a trace of this protocol, 5 to 7.
    pub fn new(protocol: u8) -> Self {
        Self {
            types: Types::new(protocol),
            tables: Tables::new(),
            slots: Slots::new(),
            bytes: zeroed(),
            places: Box::new([[0; PLACES]; 2]),
            low_bits: 0,
        }
    }

    /// Takes note of the types that a payload of stream 0 announces.
    pub fn learn(&mut self, types: &[u8]) {
        self.types.learn(types);
    }

    /// Appends `payload` as a packet of `stream` to `out` and returns `true`; or leaves `out` as
    /// it was, if that is not smaller than a plain packet.
    pub fn append(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) -> bool {
        if payload.len() < SMALLEST || payload.len() >= LARGEST {
            return false;
        }
        // What the addresses of the last packet had in common, these will have as well.
        let shift = (self.low_bits | 16).trailing_zeros().max(1);
        let Some(size) = self.encode(payload, shift) else { return false };
        let start = out.len();
        out.extend_from_slice(&[0; COMPACT_HEADER]);
        let slots = self.slots.used();
        out.push(slots.len() as u8 | (shift as u8) << 4);
        slots.iter().for_each(|slot| slot.shape.append(out));
        out.extend_from_slice(self.bytes.get(..size).unwrap_or_default());
        let packet = out.get_mut(start..).unwrap_or_default();
        let size = packet.len();
        if size >= payload.len() {
            out.truncate(start);
            return false;
        }
        let header = [size as u16, stream | COMPACT, payload.len() as u16];
        packet[..6].copy_from_slice(header.map(u16::to_le_bytes).as_flattened());
        let sum = checksum(packet);
        packet[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        true
    }

    /// Codes all of `payload` into `bytes` and returns how many that are; `None` if they become
    /// too many.
    fn encode(&mut self, payload: &[u8], shift: u32) -> Option<usize> {
        self.tables.reset();
        self.slots.clear();
        self.low_bits = 0;
        let mut state = State::new(shift);
        let mut cursor = Cursor::default();
        // So that there is room for one more event.
        let most = payload.len().saturating_sub(LARGEST_SHAPE * 4);
        let mut at = 0;
        // Up to here all is coded; between this and `at` lie bytes without a shape.
        let mut coded = 0;
        let mut last;
        while at < payload.len() && cursor.bytes() < most {
            let rest = payload.get(at..).unwrap_or_default();
            let window = match rest.first_chunk::<WINDOW>() {
                Some(window) => window,
                None => {
                    last = [0; WINDOW];
                    last[..rest.len()].copy_from_slice(rest);
                    &last
                }
            };
            let word = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
            // PERF: the processor goes on with the expected slot before it has compared anything.
            let mut index = usize::from(self.tables.next[state.last & 15]);
            let mut slot = self.slots.at(index);
            if word & slot.head_mask != slot.head {
                index = self.unexpected_slot(window, word);
                slot = self.slots.at(index);
            }
            let size = usize::from(slot.shape.size);
            if index == LITERAL || size > rest.len() {
                at += self.types.size(rest).unwrap_or(rest.len()).min(rest.len());
                continue;
            }
            if coded < at {
                let bytes = payload.get(coded..at).unwrap_or_default();
                let name = self.name(&mut state, LITERAL);
                cursor = self.literal(cursor, name, bytes);
            }
            at += size;
            coded = at;
            let name = self.name(&mut state, index);
            let slot = self.slots.at(index);
            let gap = gap(slot, &mut state, window);
            cursor = match slot.shape.kind {
                Kind::Alloc => self.block::<ALLOCS>(cursor, &mut state, index, name, gap, window),
                Kind::Free => self.block::<FREES>(cursor, &mut state, index, name, gap, window),
                Kind::Bare | Kind::Value => other(&mut self.bytes, cursor, slot, name, gap, window),
            };
        }
        if at < payload.len() || cursor.bytes() >= most {
            return None;
        }
        if coded < at {
            let name = self.name(&mut state, LITERAL);
            cursor = self.literal(cursor, name, payload.get(coded..at).unwrap_or_default());
        }
        Some(cursor.align(&mut self.bytes).bytes())
    }

    /// The slot of the event that `window` starts with, which is made if this is its first;
    /// [`LITERAL`] if it has none.
    #[inline(never)]
    fn unexpected_slot(&mut self, window: &[u8; WINDOW], word: u32) -> usize {
        let known = self.slots.used().iter().position(|slot| word & slot.head_mask == slot.head);
        known.or_else(|| self.slots.add(self.types.shape(window)?)).unwrap_or(LITERAL)
    }

    /// The bits that name the slot of the next event, and how many.
    #[inline(always)]
    fn name(&mut self, state: &mut State, index: usize) -> (u64, u32) {
        let next = &mut self.tables.next[state.last & 15];
        state.last = index;
        if usize::from(*next) == index {
            return (1, 1);
        }
        *next = index as u8;
        ((index as u64) << 1, 5)
    }

    #[inline(never)]
    fn literal(&mut self, cursor: Cursor, (name, count): (u64, u32), bytes: &[u8]) -> Cursor {
        let (code, bits) = fitting(bytes.len() as u64, LITERAL_BITS);
        cursor
            .put(&mut self.bytes, name, count)
            .put(&mut self.bytes, (bytes.len() as u64) << 1 | code, 1 + bits)
            .put_bytes(&mut self.bytes, bytes)
    }

    /// An allocation or a free.
    #[inline(always)]
    fn block<const SIDE: usize>(
        &mut self,
        mut cursor: Cursor,
        state: &mut State,
        index: usize,
        (name, name_bits): (u64, u32),
        gap: u32,
        window: &[u8; WINDOW],
    ) -> Cursor {
        let slot = self.slots.at(index);
        let shape = &slot.shape;
        let address = load(window, shape.address);
        let stack = match shape.stack | shape.heap {
            0 => 0,
            _ => stack(slot, window),
        };
        let (mut block_size, mut alignment, mut expected) = (0, 0, 0);
        if SIDE == ALLOCS {
            let lower = load(window, shape.alignment) as u8;
            block_size = low(load(window, shape.block_size), 32) << 3 | u64::from(lower & 7);
            alignment = lower >> 3;
            let known = &mut self.tables.alignments[block_size as usize & 63];
            expected = std::mem::replace(known, alignment);
        }
        let (mut prefix, mut prefix_bits) = (name, name_bits + 1);
        if gap != 0 || stack != slot.stack || alignment != expected {
            cursor = cursor.put(&mut self.bytes, name | 1 << name_bits, name_bits + 1);
            let alignment = (alignment != expected).then_some(alignment);
            cursor = unexpected(&mut self.bytes, cursor, slot, gap, stack, alignment);
            (prefix, prefix_bits) = (0, 0);
        }

        // Where it is.
        let others = state.counts[SIDE ^ 1];
        let place = place(address);
        let number = self.places[SIDE ^ 1][place];
        let age = (others as u16).wrapping_sub(1).wrapping_sub(number);
        let recent = self.tables.rings[SIDE ^ 1][usize::from(number) % RECENT];
        let (mut word, mut count);
        // NOTE: a number from a packet before is too high, or its place in the ring is taken.
        if recent == address && usize::from(age) < RECENT {
            (word, count) = match age {
                0 => (NEWEST, 3),
                age => (BY_AGE | u64::from(age) << 3, 3 + DISTANCE_BITS[SIDE][BY_AGE as usize]),
            };
        } else {
            let distance = address.wrapping_sub(state.expected[SIDE]);
            let code = match low(distance, state.shift) {
                0 => zigzag((distance as i64 >> state.shift) as u64),
                _ => u64::MAX >> 1,
            };
            let entry = DISTANCE_CODES[SIDE][size_of(code)];
            word = u64::from(entry & 7);
            count = u32::from(entry >> 8);
            if word == FAR {
                cursor = cursor.put(&mut self.bytes, prefix | FAR << prefix_bits, prefix_bits + 3);
                cursor = far(&mut self.bytes, cursor, code, address);
                (prefix, prefix_bits, word, count) = (0, 0, 0, 0);
            } else {
                word |= code << 3;
            }
        }
        self.places[SIDE][place] = state.counts[SIDE] as u16;
        self.low_bits |= address;
        state.saw::<SIDE>(&mut self.tables, address, block_size);

        if SIDE == ALLOCS {
            let same = block_size == state.block_size;
            state.block_size = block_size;
            let entry = SIZE_CODES[size_of(block_size)];
            let (code, bits) = match same {
                true => (0, 3),
                false => (u64::from(entry & 7) | block_size << 3, u32::from(entry >> 8)),
            };
            if prefix_bits + count + bits > STEP {
                cursor =
                    cursor.put(&mut self.bytes, prefix | word << prefix_bits, prefix_bits + count);
                (prefix, prefix_bits, word, count) = (0, 0, 0, 0);
            }
            word |= code << count;
            count += bits;
        }
        cursor.put(&mut self.bytes, prefix | word << prefix_bits, prefix_bits + count)
    }
}
