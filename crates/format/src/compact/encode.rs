//! Encodes a payload as a compact packet.

use super::bytes::{Buffer, part, store, zeroed};
use super::escape::Escape;
use super::model::{
    ADDRESS, CODE_SHIFT, ESCAPE, HAS_STACKS, LITERAL, MAX_SHIFT, SERIAL_MASK, SHAPE_SHIFT, SIZES,
    ShapeSlot, ShapeSlots, code_of, code_of_steps, layout, steps_of_value,
};
use super::shape::Body;
use super::stacks::{Entry, IndexedStacks, NO_STACK};
use super::types::Types;
use super::{CHECKSUM, COMPACT, COMPACT_HEADER, MAX_PACKET_BYTES, checksum};
use crate::protobuf::zigzag;

/// Bytes of the payload that the fast path reads for an event. No event with a shape is larger.
const WINDOW: usize = 24;
/// Payloads below this size in bytes are not encoded: the list of shapes would take more than the
/// coding saves.
const MIN_PAYLOAD_BYTES: usize = 48;
/// The longest run of bytes without a shape whose length fits in the control byte.
const MAX_SHORT_RUN: usize = !(u8::MAX << SHAPE_SHIFT) as usize;

/// A payload of this many bytes shows whether the next one needs a table of stacks: if it has one
/// itself, whether there are more new stacks than `FEW_NEW`, otherwise whether the stack has changed
/// more often than `FEW_OTHER`.
const REPRESENTATIVE: usize = 1 << 10;
const FEW_NEW: u32 = 2;
const FEW_OTHER: u32 = 16;

/// Encodes the payloads of one trace, whose types it learns, as compact packets.
///
/// Takes 66 KiB. A memory event costs some 75 instructions, 5 to 8 ns, about a fifth of LZ4's time.
/// An event that needs an escape costs 40 to 50 ns: a block of 2 KiB or more, skipped serials. If the
/// allocations have call stacks that differ from one to the next, an event costs 1.3 to 1.8 times as much.
pub struct CompactEncoder {
    types: Types,
    slots: ShapeSlots,
    stacks: Box<IndexedStacks>,
    /// Whether packets have a table of stacks. They are smaller with it if most allocations have
    /// another stack than the one before.
    has_stacks: bool,
    out: Box<Buffer>,
    /// Distances of addresses are coded in steps of 2 to the power of this. All distances so far
    /// were multiples of the step, unless this is 1.
    shift: u32,
}

impl std::fmt::Debug for CompactEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactEncoder").finish_non_exhaustive()
    }
}

impl CompactEncoder {
    /// An encoder for the payloads of a trace of this protocol, 5 to 7.
    pub fn new(protocol: u8) -> Self {
        Self {
            types: Types::new(protocol),
            slots: ShapeSlots::new(),
            stacks: Box::new(IndexedStacks::new()),
            has_stacks: false,
            out: zeroed(),
            shift: MAX_SHIFT,
        }
    }

    /// Learns the types that a payload of stream 0 announces.
    pub fn learn(&mut self, types: &[u8]) {
        self.types.learn(types);
    }

    /// Appends `payload` as a packet of `stream` to `out` and returns `true`; or leaves `out` as
    /// it was, if that is not smaller than a plain packet.
    pub fn append(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) -> bool {
        if payload.len() < MIN_PAYLOAD_BYTES || payload.len() >= MAX_PACKET_BYTES {
            return false;
        }
        self.slots.clear();
        let (shift, has_stacks) = (self.shift, self.has_stacks);
        if has_stacks {
            self.stacks.clear();
        }
        let mut work = Work {
            types: &self.types,
            slots: &mut self.slots,
            stacks: &mut self.stacks,
            has_stacks,
            other_stacks: 0,
            out: &mut self.out,
            payload,
            shift,
            misaligned: 1 << shift,
        };
        let done = work.all();
        // The next packet's addresses probably have the same common alignment.
        self.shift = work.misaligned.trailing_zeros().max(1);
        // Probably, its stacks are like those of this packet, too.
        let other_stacks = if has_stacks { work.stacks.table.added } else { work.other_stacks };
        if payload.len() >= REPRESENTATIVE {
            self.has_stacks = other_stacks > if has_stacks { FEW_NEW } else { FEW_OTHER };
        }
        let start = out.len();
        out.extend_from_slice(&[0; COMPACT_HEADER]);
        let slots = self.slots.used();
        let flag = if has_stacks { HAS_STACKS } else { 0 };
        out.push(slots.len() as u8 | flag | (shift as u8) << 4);
        slots.iter().for_each(|slot| slot.shape.append(out));
        let size = out.len() - start + done.size;
        if size >= payload.len() {
            out.truncate(start);
            return false;
        }
        out.extend_from_slice(self.out.get(..done.size).unwrap_or_default());
        let packet = out.get_mut(start..).unwrap_or_default();
        let header = [size as u16, stream | COMPACT, payload.len() as u16];
        packet[..6].copy_from_slice(header.map(u16::to_le_bytes).as_flattened());
        let sum = checksum(packet);
        packet[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        true
    }
}

/// The progress, and the expected serial and address. PERF: it is passed by value, so that it stays
/// in registers.
#[derive(Clone, Copy, Default)]
struct State {
    /// Bytes of the payload that are coded.
    at: usize,
    /// Bytes of their encoding. NOTE: an encoding that exceeds the buffer overwrites its beginning;
    /// such a packet is larger than its payload, and is refused.
    size: usize,
    serial: u32,
    last: u64,
}

/// The encoding of one payload.
struct Work<'a> {
    types: &'a Types,
    slots: &'a mut ShapeSlots,
    stacks: &'a mut IndexedStacks,
    /// Whether the packet has a table of stacks.
    has_stacks: bool,
    /// If not: how often the stack was not that of the last event of the shape.
    other_stacks: u32,
    out: &'a mut Buffer,
    payload: &'a [u8],
    /// Distances of addresses are coded in steps of 2 to the power of this.
    shift: u32,
    /// The bitwise or of the step, and of all distances so far that were not multiples of it.
    misaligned: u64,
}

impl Work<'_> {
    /// Encodes the whole payload; returns the final state.
    fn all(&mut self) -> State {
        let mut state = State::default();
        loop {
            state = if self.has_stacks {
                self.fast_path::<true>(state)
            } else {
                self.fast_path::<false>(state)
            };
            if state.at >= self.payload.len() {
                return state;
            }
            state = self.slow_path(state);
        }
    }

    /// Encodes memory events and scopes without an escape, up to the first other event, or to the
    /// last bytes. `STACKS`: the packet has a table of stacks.
    ///
    /// PERF: no branch here depends on whether an event is an allocation or a free, which no
    /// processor can predict: fields that an event lacks are masked. All state stays in registers.
    #[inline(never)]
    fn fast_path<const STACKS: bool>(&mut self, state: State) -> State {
        let Self { slots, stacks, out, payload, .. } = self;
        let shift = self.shift & 63;
        let odd = (1_u64 << shift) - 1;
        let State { at, mut size, serial: mut next, mut last } = state;
        let mut rest = payload.get(at..).unwrap_or_default();
        while let Some(window) = rest.first_chunk() {
            let word = u64::from_le_bytes(take(window, 0));
            let first = usize::from(word as u8);
            let slot = &mut slots.all[usize::from(slots.guess[first]) & LITERAL];
            if word as u32 & 0xffff != slot.head {
                if !slot.is_scope || !slot.fits(word) {
                    break;
                }
                size = scope(slot, window, out, size);
                let Some(after) = rest.get(usize::from(slot.size)..) else { break };
                rest = after;
                continue;
            }
            let serial = (word >> 16) as u32;
            let gap = serial.wrapping_sub(next) & SERIAL_MASK;
            let address = u64::from_le_bytes(take(window, 5));
            let distance = address.wrapping_sub(last);
            let unexpected = gap | (distance & odd) as u32;
            // The low half is the call stack, the high half the size.
            let fields = u64::from_le_bytes(take(window, 13)) & slot.mask;
            let (stack, upper) = (fields as u32, (fields >> 32) as u32);
            let (layout, mut is_new, mut index, entry);
            if STACKS {
                let [lower] = take(window, 21);
                let lower = lower & slot.layout_mask as u8;
                entry = Entry { fields, lower: lower.into() };
                index = stacks.guess(stack) | slot.without_stack;
                let is_large = upper >> 8 != 0;
                if unexpected != 0 || is_large && *stacks.table.entry(index) != entry {
                    break;
                }
                (layout, is_new) = (u16::from_le_bytes([upper as u8, lower]), false);
            } else {
                if (fields ^ slot.stack) as u32 | upper >> 8 | unexpected != 0 {
                    break;
                }
                // The first of these two bytes is the highest of the size, 0; the second is the
                // alignment.
                layout = u16::from_le_bytes(take(window, 20)) & slot.layout_mask | upper as u16;
                is_new = slot.layout != u64::from(layout);
                slot.layout = u64::from(layout);
                (index, entry) = (NO_STACK, Entry::default());
            }
            let steps = zigzag((distance as i64 >> shift) as u64);
            let code = code_of_steps(steps);
            let start = size;
            let Some(place) = part::<9>(out, start) else { break };
            place[1..].copy_from_slice(&steps.to_le_bytes());
            size += usize::from(code >> 8);
            if STACKS {
                if stacks.table.entry(index).stack() == stack {
                    store(out, size, [index]);
                    size += usize::from(slot.stack_bytes);
                } else {
                    (index, size) = stacks.write_new(stack, out, size);
                }
                let known = stacks.table.entry(index);
                // PERF: not `!=`, for which the compiler would make a branch.
                is_new = known.fields ^ entry.fields | known.lower ^ entry.lower != 0;
                *known = entry;
            }
            store(out, start, [slot.name | code as u8 | u8::from(is_new)]);
            store(out, size, layout.to_le_bytes());
            size += 2 * usize::from(is_new);
            next = serial.wrapping_add(1);
            last = address;
            // An event is never larger than the window.
            let Some(after) = rest.get(usize::from(slots.sizes[first])..) else { break };
            rest = after;
        }
        State { at: payload.len() - rest.len(), size, serial: next, last }
    }

    /// Encodes one event of any kind, or a run of bytes without a shape.
    #[inline(never)]
    fn slow_path(&mut self, mut state: State) -> State {
        let rest = self.payload.get(state.at..).unwrap_or_default();
        let Some(index) = self.slot_of(rest) else { return self.literal(state, rest) };
        self.slots.expect(index);
        let slot = &mut self.slots.all[index & LITERAL];
        let shape = slot.shape;
        let mut escape = Escape::default();
        if shape.synced {
            let serial = word(rest, shape.head_size) as u32;
            escape.gap = serial.wrapping_sub(state.serial) & SERIAL_MASK;
            state.serial = serial.wrapping_add(1);
        }
        let value = word(rest, slot.start);
        let (code, steps) = match shape.body {
            Body::None => (0, 0),
            Body::Value4 => of(steps_of_value(value, slot.value)),
            Body::Value8 => of(zigzag(value.wrapping_sub(slot.value))),
            Body::HeapBlock => self.block(&mut state, index, rest, &mut escape),
        };
        let slot = &mut self.slots.all[index & LITERAL];
        slot.value = if shape.body == Body::None { 0 } else { value };
        // A block of 2 KiB or more needs an escape even if its layout is that of the last event.
        let has_escape = escape != Escape::default() || slot.layout >> 16 != 0;
        let control = slot.name | code << CODE_SHIFT | if has_escape { ESCAPE } else { 0 };
        state.at += usize::from(slot.size);
        store(self.out, state.size, [control]);
        store(self.out, state.size + 1, steps.to_le_bytes());
        state.size += 1 + usize::from(SIZES[usize::from(code & 7)]);
        if self.has_stacks && shape.stack {
            state.size = self.stack(index, rest, state.size);
        }
        if has_escape {
            state.size = escape.write(self.out, state.size);
        }
        state
    }

    /// The code and the number for the address of a memory event. Stores the fields that differ
    /// from the expectation in `escape`.
    fn block(
        &mut self,
        state: &mut State,
        index: usize,
        rest: &[u8],
        escape: &mut Escape,
    ) -> (u8, u64) {
        let slot = &mut self.slots.all[index & LITERAL];
        let fields = word(rest, 13) & slot.mask;
        let lower = word(rest, 21) as u8 & slot.layout_mask as u8;
        let (stack, layout) = (fields as u32, layout((fields >> 32) as u32, lower));
        let heap = if slot.shape.heap { word(rest, slot.heap_at) as u8 } else { 0 };
        escape.heap = (heap != slot.heap).then_some(heap);
        slot.heap = heap;
        if self.has_stacks && slot.shape.stack {
            let expected = self.stacks.find(stack).map_or(0, |(_, entry)| entry.layout());
            let is_new = slot.shape.layout && layout != expected;
            escape.layout = is_new.then_some(layout);
        } else {
            escape.stack = (u64::from(stack) != slot.stack).then_some(stack);
            self.other_stacks += u32::from(escape.stack.is_some());
            escape.layout = (layout != slot.layout).then_some(layout);
            (slot.stack, slot.layout) = (stack.into(), layout);
        }
        let address = word(rest, 5);
        let distance = address.wrapping_sub(state.last);
        state.last = address;
        let shift = self.shift & 63;
        if distance & !(u64::MAX << shift) != 0 {
            self.misaligned |= distance;
            escape.address = true;
            return (ADDRESS, address);
        }
        of(zigzag((distance as i64 >> shift) as u64))
    }

    /// Writes the stack of a memory event at `at`; returns the end.
    fn stack(&mut self, index: usize, rest: &[u8], at: usize) -> usize {
        let slot = &self.slots.all[index & LITERAL];
        let fields = word(rest, 13) & slot.mask;
        let lower = word(rest, 21) & u64::from(slot.layout_mask & 0xff);
        let (index, end) = match self.stacks.find(fields as u32) {
            Some((index, _)) => {
                store(self.out, at, [index]);
                (index, at + 1)
            }
            None => self.stacks.write_new(fields as u32, self.out, at),
        };
        *self.stacks.table.entry(index) = Entry { fields, lower };
        end
    }

    /// The slot of the event that `rest` begins with; adds the slot for the first event of its
    /// shape.
    fn slot_of(&mut self, rest: &[u8]) -> Option<usize> {
        self.slots.find(word(rest, 0), rest.len()).or_else(|| {
            let shape = self.types.shape(rest)?;
            (rest.len() >= shape.size().into()).then(|| self.slots.add(shape))?
        })
    }

    /// Copies the bytes up to the next event that has a shape.
    fn literal(&mut self, mut state: State, rest: &[u8]) -> State {
        let mut size = 0;
        while let Some(bytes) = rest.get(size..).filter(|bytes| !bytes.is_empty()) {
            if self.slot_of(bytes).is_some() {
                break;
            }
            size += self.types.size(bytes).unwrap_or(bytes.len()).clamp(1, bytes.len());
        }
        let name = (LITERAL as u8) << SHAPE_SHIFT;
        let [low, high] = (size as u16).to_le_bytes();
        let is_short = size <= MAX_SHORT_RUN;
        store(self.out, state.size, [name | if is_short { low } else { 0 }, low, high]);
        state.size += if is_short { 1 } else { 3 };
        if let Some(room) = self.out.get_mut(state.size..state.size + size) {
            room.copy_from_slice(rest.get(..size).unwrap_or_default());
        }
        state.size += size;
        state.at += size;
        state
    }
}

/// Encodes an event of a scope; returns its end. PERF: out of line, so that the loop's registers
/// are for memory events.
#[inline(never)]
fn scope(slot: &mut ShapeSlot, window: &[u8; WINDOW], out: &mut Buffer, size: usize) -> usize {
    let value = load_at(window, slot.start) & slot.mask;
    let steps = steps_of_value(value, slot.value);
    slot.value = value;
    let code = code_of_steps(steps);
    store(out, size, [slot.name | code as u8]);
    store(out, size + 1, steps.to_le_bytes());
    size + usize::from(code >> 8)
}

/// The code of a number, and the number.
fn of(number: u64) -> (u8, u64) {
    (code_of(number), number)
}

/// Eight bytes of an event, padded with zeros.
fn word(bytes: &[u8], offset: u8) -> u64 {
    let bytes = bytes.get(offset.into()..).unwrap_or_default();
    let word = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        word
    });
    u64::from_le_bytes(word)
}

#[inline(always)]
fn take<const N: usize>(window: &[u8; WINDOW], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&window[at..at + N]);
    word
}

/// Eight bytes of `window` from `offset` on, which is below 8.
#[inline(always)]
fn load_at(window: &[u8; WINDOW], offset: u8) -> u64 {
    u64::from_le_bytes(take(window, usize::from(offset & 7)))
}
