//! Decodes a compact packet to its payload.

use super::bytes::{Buffer, load, part, store, zeroed};
use super::escape::Escape;
use super::model::{
    CODE_SHIFT, ESCAPE, HAS_STACKS, LAYOUT, LITERAL, MASKS, MAX_SHIFT, SERIAL_MASK, SHAPE_SHIFT,
    SIZES, ShapeSlot, ShapeSlots, unlayout,
};
use super::shape::{Body, MAX_EVENT_BYTES, Shape};
use super::stacks::{Entry, FIRST_MARK, NO_STACK, Stacks};
use super::{CHECKSUM, COMPACT, COMPACT_HEADER, MAX_PACKET_BYTES, checksum};
use crate::protobuf::unzigzag;

/// [`COMPACT`] in the second byte of the stream id.
const FLAG: u8 = (COMPACT >> 8) as u8;

/// The size of an encoded event without an escape, by its control byte. PERF: one load finds the
/// next event. All other loads wait for its position.
const FAST_SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut control = 0;
    while control < 256 {
        let layout = control as u8 & LAYOUT;
        sizes[control] = 1 + SIZES[control >> CODE_SHIFT & 7] + 2 * layout;
        control += 1;
    }
    sizes
};

/// Decodes compact packets, each by itself.
///
/// Takes 130 KiB. A memory event costs some 65 instructions, 4 to 5 ns; an event with an escape
/// costs some 40 ns. Any input gives a payload below 64 KiB or an error.
pub struct CompactDecoder {
    slots: ShapeSlots,
    stacks: Box<Stacks>,
    data: Box<Buffer>,
    payload: Box<Buffer>,
}

impl std::fmt::Debug for CompactDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactDecoder").finish_non_exhaustive()
    }
}

impl Default for CompactDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl CompactDecoder {
    /// A decoder.
    pub fn new() -> Self {
        Self {
            slots: ShapeSlots::new(),
            stacks: Box::new(Stacks::new()),
            data: zeroed(),
            payload: zeroed(),
        }
    }

    /// Whether the checksum in `packet`, which includes its header, is that of its bytes. For
    /// arbitrary bytes it is right by chance once in 4 billion cases.
    pub fn is_whole(packet: &[u8]) -> bool {
        packet.get(CHECKSUM).is_some_and(|sum| sum == checksum(packet).to_le_bytes())
    }

    /// Whether `packet` is not marked as compact, but would be whole if that bit were set.
    pub fn is_in_disguise(packet: &[u8]) -> bool {
        let mut packet = packet.to_vec();
        packet.get_mut(3).is_some_and(|tag| std::mem::replace(tag, *tag | FLAG) & FLAG == 0)
            && Self::is_whole(&packet)
    }

    /// The payload of `packet`, which includes its header.
    ///
    /// # Errors
    /// One clause that says what is wrong with the packet.
    pub fn decode(&mut self, packet: &[u8]) -> Result<&[u8], String> {
        let Some((header, body)) = packet.split_at_checked(COMPACT_HEADER) else {
            return Err("it has no body".to_owned());
        };
        if !Self::is_whole(packet) {
            return Err("its checksum does not match".to_owned());
        }
        let size = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let (has_stacks, shift, data) = self.shapes(body).ok_or("its event shapes are invalid")?;
        let data = data.get(..MAX_PACKET_BYTES).unwrap_or(data);
        // PERF: the data are copied to a buffer with slack, so that a load needs no check for the
        // end.
        self.data[..data.len()].copy_from_slice(data);
        if has_stacks {
            self.stacks.clear();
        }
        let work = Work {
            slots: &mut self.slots,
            stacks: &mut self.stacks,
            has_stacks,
            data: &self.data,
            data_size: data.len(),
            payload: &mut self.payload,
            size,
            shift,
        };
        work.all()?;
        Ok(self.payload.get(..size).unwrap_or_default())
    }

    /// Reads the shapes before the events in `body`; returns whether there is a table of stacks, the
    /// shift, and the rest.
    fn shapes<'a>(&mut self, body: &'a [u8]) -> Option<(bool, u32, &'a [u8])> {
        self.slots.clear();
        let (&first, mut rest) = body.split_first()?;
        for _ in 0..first & 7 {
            let (shape, after) = Shape::read(rest)?;
            self.slots.add(shape)?;
            rest = after;
        }
        let shift = u32::from(first >> 4);
        let has_stacks = first & HAS_STACKS != 0;
        (1..=MAX_SHIFT).contains(&shift).then_some((has_stacks, shift, rest))
    }
}

/// The progress, and the expected serial and address.
#[derive(Clone, Copy, Default)]
struct State {
    /// Bytes of data that are decoded.
    used: usize,
    /// Bytes of the payload that are written.
    at: usize,
    serial: u32,
    last: u64,
}

/// Decodes an event of a scope from `used` to `at`; returns the end of its encoding. PERF: out of
/// line, so that the loop's registers are for memory events.
#[inline(never)]
fn scope(
    slot: &mut ShapeSlot,
    data: &Buffer,
    used: usize,
    payload: &mut Buffer,
    at: usize,
) -> usize {
    let [control, number @ ..] = load::<9>(data, used);
    let steps = u64::from_le_bytes(number) & MASKS[usize::from(control >> CODE_SHIFT & 7)];
    slot.value = slot.value.wrapping_add(unzigzag(steps));
    store(payload, at, slot.whole_head.to_le_bytes());
    store(payload, at + usize::from(slot.start), (slot.value as u32).to_le_bytes());
    used + usize::from(FAST_SIZES[usize::from(control)])
}

/// The decoding of one packet.
struct Work<'a> {
    slots: &'a mut ShapeSlots,
    stacks: &'a mut Stacks,
    /// Whether the packet has a table of stacks.
    has_stacks: bool,
    data: &'a Buffer,
    data_size: usize,
    payload: &'a mut Buffer,
    size: usize,
    /// Distances of addresses are coded in steps of 2 to the power of this.
    shift: u32,
}

impl Work<'_> {
    /// Decodes all events.
    fn all(mut self) -> Result<(), String> {
        let mut state = State::default();
        let what = loop {
            state = if self.has_stacks {
                self.fast_path::<true>(state)
            } else {
                self.fast_path::<false>(state)
            };
            if state.used >= self.data_size {
                if state.used == self.data_size && state.at == self.size {
                    return Ok(());
                }
                break "is not where its events end";
            }
            match self.slow_path(state) {
                Ok(next) => state = next,
                Err(what) => break what,
            }
        };
        Err(format!("byte {} of its payload of {} bytes {what}", state.at, self.size))
    }

    /// Decodes memory events and scopes without an escape, up to the first other event. `STACKS`: the
    /// packet has a table of stacks. NOTE: whether the events fit is checked at the end: an event
    /// that does not fit overwrites other bytes of the buffer.
    ///
    /// PERF: no branch here depends on whether an event is an allocation or a free, which no
    /// processor can predict: the next event overwrites fields that an event lacks. All state stays
    /// in registers.
    #[inline(never)]
    fn fast_path<const STACKS: bool>(&mut self, state: State) -> State {
        let Self { slots, stacks, data, payload, .. } = self;
        let shift = self.shift & 63;
        let State { mut used, mut at, mut serial, mut last } = state;
        while used < self.data_size {
            let [control, number @ ..] = load::<9>(data, used);
            let slot = &mut slots.all[usize::from(control >> SHAPE_SHIFT)];
            if control & ESCAPE != 0 {
                break;
            }
            if slot.head >> 16 != 0 {
                if !slot.is_scope || control & LAYOUT != 0 {
                    break;
                }
                used = scope(slot, data, used, payload, at);
                at += usize::from(slot.size);
                continue;
            }
            let Some(event) = part::<MAX_EVENT_BYTES>(payload, at) else { break };
            let code = usize::from(control >> CODE_SHIFT & 7);
            let steps = u64::from_le_bytes(number) & MASKS[code];
            last = last.wrapping_add(unzigzag(steps) << shift);
            let stack_at = used + 1 + usize::from(SIZES[code]);
            used += usize::from(FAST_SIZES[usize::from(control)]);
            let mut index = NO_STACK;
            if STACKS {
                used += usize::from(slot.stack_bytes);
                let [mark] = load(data, stack_at);
                index = mark | slot.without_stack;
                if mark & slot.stack_bytes.wrapping_neg() >= FIRST_MARK {
                    let (new, end) = stacks.read(data, stack_at);
                    used += end - (stack_at + 1);
                    index = new;
                }
            }
            // The last two bytes of the encoded event, which are the layout if the event has a new
            // one.
            let [size, low] = load(data, used.wrapping_sub(2));
            // PERF: a mask; the compiler would make a branch that no processor can predict.
            let is_new = u64::from(control & LAYOUT).wrapping_neg();
            let (fields, lower);
            if STACKS {
                let entry = stacks.entry(index);
                let new = u64::from(entry.stack()) | u64::from(size) << 32;
                fields = (entry.fields ^ (entry.fields ^ new) & is_new) & slot.mask;
                let new = entry.lower ^ (entry.lower ^ u64::from(low)) & is_new;
                lower = new & u64::from(slot.layout_mask & 0xff);
                *entry = Entry { fields, lower };
            } else {
                let new = u64::from(u16::from_le_bytes([size, low]));
                slot.layout ^= (slot.layout ^ new) & is_new;
                fields = slot.stack | (slot.layout & 0xff) << 32;
                lower = slot.layout >> 8;
            }
            // Only three bytes of the serial remain: the address overwrites the others.
            let word = u64::from(slot.head) | u64::from(serial) << 16;
            serial += 1;
            event[..8].copy_from_slice(&word.to_le_bytes());
            event[5..13].copy_from_slice(&last.to_le_bytes());
            event[13..21].copy_from_slice(&fields.to_le_bytes());
            event[21] = lower as u8;
            at += usize::from(slot.size);
        }
        State { used, at, serial, last }
    }

    /// Decodes one event of any kind, or a run of bytes without a shape.
    #[inline(never)]
    fn slow_path(&mut self, mut state: State) -> Result<State, &'static str> {
        let [control, number @ ..] = load::<9>(self.data, state.used);
        let index = usize::from(control >> SHAPE_SHIFT);
        if index == LITERAL {
            return self.literal(state, control);
        }
        let slot = &mut self.slots.all[index];
        let (shape, at) = (slot.shape, state.at);
        if slot.size == 0 {
            return Err("begins an event of an undefined shape");
        }
        state.at += usize::from(slot.size);
        let code = usize::from(control >> CODE_SHIFT & 7);
        let steps = u64::from_le_bytes(number) & MASKS[code];
        state.used += 1 + usize::from(SIZES[code]);
        let has_stack = self.has_stacks && shape.stack;
        let mut entry = NO_STACK;
        if has_stack {
            (entry, state.used) = self.stacks.read(self.data, state.used);
        }
        let mut escape = Escape::default();
        if control & ESCAPE != 0 {
            (escape, state.used) = Escape::read(self.data, state.used);
            if has_stack && escape.stack.is_some() {
                return Err("begins an event that has two call stacks");
            }
        } else if control & LAYOUT != 0 {
            escape.layout = Some(u16::from_le_bytes(load(self.data, state.used)).into());
            state.used += 2;
        }
        let [a, b, c] = shape.head;
        store(self.payload, at, [a, b, c]);
        if shape.synced {
            let serial = state.serial.wrapping_add(escape.gap) & SERIAL_MASK;
            store(self.payload, at + usize::from(shape.head_size), serial.to_le_bytes());
            state.serial = serial + 1;
        }
        let value = match shape.body {
            Body::HeapBlock if escape.address => steps,
            Body::HeapBlock => state.last.wrapping_add(unzigzag(steps) << (self.shift & 63)),
            _ => slot.value.wrapping_add(unzigzag(steps)),
        };
        store(self.payload, at + usize::from(slot.start), value.to_le_bytes());
        slot.value = value;
        if shape.body == Body::HeapBlock {
            state.last = value;
            if has_stack {
                let entry = self.stacks.entry(entry);
                let layout = escape.layout.unwrap_or(entry.layout());
                entry.set_layout(if shape.layout { layout } else { 0 });
                (slot.stack, slot.layout) = (entry.stack().into(), entry.layout());
                escape.layout = None;
            }
            store_block(self.payload, at, slot, &escape);
        }
        Ok(state)
    }

    /// Copies bytes without a shape. The caller checks at the end that the packet has all of them.
    fn literal(&mut self, mut state: State, control: u8) -> Result<State, &'static str> {
        let mut size = usize::from(control & !(u8::MAX << SHAPE_SHIFT));
        state.used += 1;
        if size == 0 {
            size = u16::from_le_bytes(load(self.data, state.used)).into();
            state.used += 2;
        }
        let (used, at) = (state.used + size, state.at + size);
        match (self.data.get(state.used..used), self.payload.get_mut(state.at..at)) {
            (Some(bytes), Some(room)) if size > 0 => room.copy_from_slice(bytes),
            _ => return Err("begins a literal run of length 0 or beyond the payload"),
        }
        (state.used, state.at) = (used, at);
        Ok(state)
    }
}

/// Completes the event of a heap block at `at` by what its escape says, and by the event before it of its
/// slot.
#[inline(always)]
fn store_block(payload: &mut Buffer, at: usize, slot: &mut ShapeSlot, escape: &Escape) {
    slot.stack = escape.stack.map_or(slot.stack, u64::from);
    slot.heap = escape.heap.unwrap_or(slot.heap);
    slot.layout = escape.layout.unwrap_or(slot.layout);
    let (upper, lower) = unlayout(slot.layout);
    store(payload, at + 13, (slot.stack as u32).to_le_bytes());
    store(payload, at + 17, upper.to_le_bytes());
    store(payload, at + 21, [lower]);
    store(payload, at + usize::from(slot.heap_at), [slot.heap]);
}
