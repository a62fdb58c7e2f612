//! From a compact packet to the payload it was made of.

use super::bits::{Bits, Buffer, STEP, low, zeroed};
use super::model::{
    ALIGNMENT, ALLOCS, BY_AGE, DISTANCE_BITS, FAR, FAR_BITS, FREES, GAP, GAP_BITS, LITERAL,
    LITERAL_BITS, NEWEST, RECENT, SERIAL_MASK, SIZE_BITS, STACK, STACK_BITS, Slot, Slots, State,
    Tables, VALUE_BITS, unzigzag,
};
use super::shape::{Kind, LARGEST_EVENT, Shape};
use super::{CHECKSUM, COMPACT_HEADER, LARGEST, checksum};
use crate::trace::transport::packet::COMPACT;

/// [`COMPACT`] in the second byte of the stream id.
const FLAG: u8 = (COMPACT >> 8) as u8;

/// Decodes compact packets, each by itself.
///
/// Costs 7 to 9 ns a memory event, and some 140 KiB. Any bytes give a payload below 64 KiB or an
/// error.
pub struct Decoder {
    tables: Tables,
    slots: Slots,
    bits: Bits,
    payload: Box<Buffer>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder.
    pub fn new() -> Self {
        Self { tables: Tables::new(), slots: Slots::new(), bits: Bits::new(), payload: zeroed() }
    }

    /// Whether `packet`, with its header, carries the checksum of its bytes. Other bytes do by
    /// chance once in 4 billion.
    pub fn is_whole(packet: &[u8]) -> bool {
        packet.get(CHECKSUM).is_some_and(|sum| sum == checksum(packet).to_le_bytes())
    }

    /// Whether `packet` would be a whole one, were the bit set that says it is compact.
    pub fn is_in_disguise(packet: &[u8]) -> bool {
        let mut packet = packet.to_vec();
        packet.get_mut(3).is_some_and(|tag| std::mem::replace(tag, *tag | FLAG) & FLAG == 0)
            && Self::is_whole(&packet)
    }

    /// The payload of `packet`, which is given with its header.
    ///
    /// # Errors
    /// One clause that says what is wrong with the packet.
    pub fn decode(&mut self, packet: &[u8]) -> Result<&[u8], String> {
        let Some((header, body)) = packet.split_at_checked(COMPACT_HEADER) else {
            return Err("it has no body".to_owned());
        };
        if !Self::is_whole(packet) {
            return Err("its checksum does not fit".to_owned());
        }
        let size = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let (shift, bits) = self.shapes(body).ok_or("the shapes of its events make no sense")?;
        self.bits.load(bits);
        let (mut state, mut at, mut end) = (State::new(shift), 0, 0);
        while end < size {
            (at, end) = self
                .event(&mut state, at, end, size)
                .map_err(|what| format!("byte {end} of its payload {what}"))?;
        }
        let left = self.bits.count().checked_sub(at).filter(|&left| left < 8);
        if left.is_none_or(|left| low(self.bits.peek(at), left as u32) != 0) {
            return Err(format!("its payload of {size} bytes ends before the packet does"));
        }
        Ok(self.payload.get(..size).unwrap_or_default())
    }

    /// Reads what stands in front of the bits in `body`; returns the shift, and the bits.
    fn shapes<'a>(&mut self, body: &'a [u8]) -> Option<(u32, &'a [u8])> {
        self.tables.reset();
        self.slots.clear();
        let (&first, mut rest) = body.split_first()?;
        for _ in 0..first & 15 {
            let (shape, after) = Shape::read(rest)?;
            self.slots.add(shape)?;
            rest = after;
        }
        let shift = u32::from(first >> 4);
        (shift <= 4).then_some((shift, rest))
    }

    /// Writes the event that begins at bit `at` to byte `start`; returns where both end.
    #[inline(always)]
    fn event(
        &mut self,
        state: &mut State,
        mut at: usize,
        start: usize,
        size: usize,
    ) -> Result<(usize, usize), &'static str> {
        let mut word = self.bits.peek(at);
        let next = &mut self.tables.next[state.last & 15];
        let index;
        if word & 1 != 0 {
            index = usize::from(*next);
            word >>= 1;
            at += 1;
        } else {
            index = (word >> 1) as usize & 15;
            *next = index as u8;
            word >>= 5;
            at += 5;
        }
        state.last = index;
        let slot = self.slots.at(index);
        let shape = &slot.shape;
        let end = start + usize::from(shape.size);
        if shape.size == 0 || end > size || at >= self.bits.count() {
            return match index {
                LITERAL => self.literal(at, start, size),
                _ => Err("begins an event that does not fit"),
            };
        }
        at += 1;
        let surprise = match word & 1 {
            0 => {
                word >>= 1;
                Surprise(0)
            }
            _ => {
                let surprise;
                (at, surprise) = unexpected(&self.bits, slot, at);
                word = self.bits.peek(at);
                surprise
            }
        };
        let shape = &slot.shape;
        let start = start & (LARGEST - 1);
        self.payload[start..start + LARGEST_EVENT].copy_from_slice(&slot.template);
        if shape.synced {
            let serial = state.serial.wrapping_add(1).wrapping_add(surprise.gap()) & SERIAL_MASK;
            state.serial = serial;
            let [a, b, c, _] = serial.to_le_bytes();
            let place = start + usize::from(shape.head_size & 3);
            self.payload[place..place + 3].copy_from_slice(&[a, b, c]);
        }
        let at = match shape.kind {
            Kind::Alloc => self.block::<ALLOCS>(state, at, word, index, start, surprise)?,
            Kind::Free => self.block::<FREES>(state, at, word, index, start, surprise)?,
            Kind::Bare => at,
            Kind::Value => value(&self.bits, at, slot, &mut self.payload, start),
        };
        Ok((at, end))
    }

    /// The fields of an allocation or a free, whose next bits are `word`.
    #[inline(always)]
    fn block<const SIDE: usize>(
        &mut self,
        state: &mut State,
        mut at: usize,
        mut word: u64,
        index: usize,
        start: usize,
        surprise: Surprise,
    ) -> Result<usize, &'static str> {
        let code = word & 7;
        let bits = DISTANCE_BITS[SIDE][code as usize];
        let mut used = 3 + bits;
        let number = low(word >> 3, bits);
        word = word >> 3 >> bits;
        let address = match code {
            NEWEST | BY_AGE => {
                let others = state.counts[SIDE ^ 1];
                if number >= u64::from(others) {
                    return Err("begins an event with an address before the first");
                }
                self.tables.rings[SIDE ^ 1][(others - 1 - number as u32) as usize % RECENT]
            }
            FAR => {
                let address;
                (at, address) =
                    far(&self.bits, at + used as usize, state.expected[SIDE], state.shift);
                used = 0;
                word = self.bits.peek(at);
                address
            }
            _ => at_distance(state.expected[SIDE], state.shift, number),
        };
        let shape = &self.slots.at(index).shape;
        store(&mut self.payload, start, shape.address, address.to_le_bytes());
        let mut block_size = 0;
        if SIDE == ALLOCS {
            let code = word & 7;
            let bits = SIZE_BITS[code as usize];
            if used + 3 + bits > STEP - 6 {
                // The first of the bits that were looked at may have been the name of the slot.
                at += used as usize;
                used = 0;
                word = self.bits.peek(at);
            }
            used += 3 + bits;
            block_size = if code == 0 { state.block_size } else { low(word >> 3, bits) };
            state.block_size = block_size;
            let expected = &mut self.tables.alignments[block_size as usize & 63];
            let alignment = surprise.alignment().unwrap_or(*expected);
            *expected = alignment;
            let upper = (block_size >> 3) as u32;
            store(&mut self.payload, start, shape.block_size, upper.to_le_bytes());
            let lower = alignment << 3 | block_size as u8 & 7;
            store(&mut self.payload, start, shape.alignment, [lower]);
        }
        state.saw::<SIDE>(&mut self.tables, address, block_size);
        Ok(at + used as usize)
    }

    /// Bytes without a shape.
    #[inline(never)]
    fn literal(
        &mut self,
        mut at: usize,
        start: usize,
        size: usize,
    ) -> Result<(usize, usize), &'static str> {
        let code = self.bits.take(&mut at, 1) as usize & 1;
        let length = self.bits.take(&mut at, LITERAL_BITS[code]) as usize;
        let bytes = self.bits.take_bytes(&mut at, length).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or("is in a run of bytes that are not there")?;
        let end = start + length;
        let room = self.payload.get_mut(start..end).filter(|_| end <= size);
        room.ok_or("begins a run of bytes that does not fit")?.copy_from_slice(bytes);
        Ok((at, end))
    }
}

/// Serials passed over, and above them, if it is another one than expected, the alignment + 1.
/// PERF: one word, which functions return in a register.
#[derive(Clone, Copy)]
struct Surprise(u64);

impl Surprise {
    #[inline(always)]
    fn gap(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    fn alignment(self) -> Option<u8> {
        ((self.0 >> 32) as u8).checked_sub(1)
    }
}

/// Writes a field of the event that begins at `start`.
#[inline(always)]
fn store<const N: usize>(payload: &mut Buffer, start: usize, offset: u8, bytes: [u8; N]) {
    let place = (start & (LARGEST - 1)) + usize::from(offset & 31);
    payload[place..place + N].copy_from_slice(&bytes);
}

#[inline(always)]
fn at_distance(expected: u64, shift: u32, code: u64) -> u64 {
    expected.wrapping_add(unzigzag(code) << shift)
}

#[cold]
#[inline(never)]
fn far(bits: &Bits, mut at: usize, expected: u64, shift: u32) -> (usize, u64) {
    let code = bits.take(&mut at, 2) as usize & 3;
    let address = match FAR_BITS[code] {
        64 => bits.take_64(&mut at),
        count => at_distance(expected, shift, bits.take(&mut at, count)),
    };
    (at, address)
}

/// The value of an event that has nothing else.
#[inline(never)]
fn value(bits: &Bits, mut at: usize, slot: &mut Slot, payload: &mut Buffer, start: usize) -> usize {
    let code = bits.take(&mut at, 2) as usize & 3;
    let distance = match VALUE_BITS[code] {
        64 => bits.take_64(&mut at),
        count => bits.take(&mut at, count),
    };
    let value = slot.value.wrapping_add(unzigzag(distance));
    if slot.shape.value_size == 8 {
        slot.value = value;
        store(payload, start, slot.shape.value, value.to_le_bytes());
    } else {
        slot.value = low(value, 32);
        store(payload, start, slot.shape.value, (value as u32).to_le_bytes());
    }
    at
}

/// What an event of this slot has that was not expected of it; the call stack goes into the slot.
#[inline(never)]
fn unexpected(bits: &Bits, slot: &mut Slot, mut at: usize) -> (usize, Surprise) {
    let what = bits.take(&mut at, 3);
    let mut surprise = 0;
    if what & GAP != 0 {
        let code = bits.take(&mut at, 2) as usize & 3;
        surprise = bits.take(&mut at, GAP_BITS[code]);
    }
    if what & ALIGNMENT != 0 {
        surprise |= (bits.take(&mut at, 5) + 1) << 32;
    }
    if what & STACK != 0 {
        let code = bits.take(&mut at, 2) as usize & 3;
        let new = bits.take(&mut at, STACK_BITS[code]);
        slot.stack = new | if code == 3 { 0 } else { slot.stack >> 32 << 32 };
        let Shape { stack, heap, .. } = slot.shape;
        if stack > 0 {
            let place = usize::from(stack);
            slot.template[place..place + 4].copy_from_slice(&(slot.stack as u32).to_le_bytes());
        }
        if heap > 0 {
            slot.template[usize::from(heap)] = (slot.stack >> 32) as u8;
        }
    }
    (at, Surprise(surprise))
}
