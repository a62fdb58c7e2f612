//! From a payload to the body of a compact packet.

use super::bits::{BitWriter, STEP, low};
use super::model::{
    ALIGNMENT, BY_AGE, DISTANCE_BITS, FAR, FAR_BITS, GAP, GAP_BITS, LITERAL, LITERAL_BITS, Model,
    NEWEST, RECENT, SERIAL_MASK, SIZE_BITS, STACK, STACK_BITS, Slot, VALUE_BITS, side, zigzag,
};
use super::shape::{Kind, LARGEST_SHAPE, MAX_SHAPES};
use super::types::Types;
use super::{CHECKSUM, COMPACT_HEADER, LARGEST, checksum};
use crate::trace::transport::packet::COMPACT;

/// Bytes of the payload that are looked at for one event.
const WINDOW: usize = 40;
/// Payloads with fewer bytes are not worth the shapes in front.
const SMALLEST: usize = 48;
/// Places of addresses by hash.
const PLACES: usize = 2048;

/// The code with the fewest bits for a number of so many bits, for tables of bits in rising order.
const fn codes(bits: [u32; 8], from: usize) -> [u8; 65] {
    let mut codes = [FAR as u8; 65];
    let mut size = 0;
    while size <= 64 {
        let mut code = from;
        while code < 7 && (bits[code] as usize) < size {
            code += 1;
        }
        codes[size] = code as u8;
        size += 1;
    }
    codes
}

const DISTANCE_CODES: [[u8; 65]; 2] = [codes(DISTANCE_BITS[0], 2), codes(DISTANCE_BITS[1], 2)];
const SIZE_CODES: [u8; 65] = codes(SIZE_BITS, 1);

/// The bits of `value` without the zeros above.
#[inline(always)]
fn size_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// The number of the first of `bits` into which `value` fits.
fn fitting<const N: usize>(value: u64, bits: [u32; N]) -> usize {
    bits.iter().position(|&bits| size_of(value) <= bits as usize).unwrap_or(N - 1)
}

/// Makes compact packets of the payloads of one stream of packets, whose types it learns.
///
/// Costs about 6 ns an event, and 150 KiB.
pub struct Encoder {
    types: Types,
    model: Model,
    slots: Vec<Slot>,
    bits: BitWriter,
    /// Numbers of addresses by hash, allocated and freed. What is stale is found out.
    places: Box<[[u16; PLACES]; 2]>,
    /// The low bits of all addresses of the packet before.
    low_bits: u64,
}

impl Encoder {
    /// An encoder for the payloads of a stream of this protocol, 5 to 7.
    pub fn new(protocol: u8) -> Self {
        Self {
            types: Types::new(protocol),
            model: Model::new(),
            slots: Vec::with_capacity(MAX_SHAPES),
            bits: BitWriter::new(),
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
        if payload.len() < SMALLEST || payload.len() >= LARGEST || !self.encode(payload) {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&[0; COMPACT_HEADER]);
        out.push(self.slots.len() as u8 | (self.model.shift as u8) << 4);
        self.slots.iter().for_each(|slot| slot.shape.append(out));
        let Some(bits) = self.bits.finish() else { return false };
        out.extend_from_slice(bits);
        let packet = out.get_mut(start..).unwrap_or_default();
        let size = packet.len();
        if size >= payload.len() {
            out.truncate(start);
            return false;
        }
        packet[..2].copy_from_slice(&(size as u16).to_le_bytes());
        packet[2..4].copy_from_slice(&(stream | COMPACT).to_le_bytes());
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_le_bytes());
        let sum = checksum(packet);
        packet[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        true
    }

    /// Codes all of `payload` into `bits`; `false` if that becomes too long.
    fn encode(&mut self, payload: &[u8]) -> bool {
        // What the addresses of the last packet had in common, these will have as well.
        self.model.reset((self.low_bits | 16).trailing_zeros());
        self.low_bits = 0;
        self.slots.clear();
        self.bits.clear();
        // So that there is room for one event and for all shapes.
        let most = payload.len().saturating_sub(MAX_SHAPES * LARGEST_SHAPE / 4);
        let mut at = 0;
        // Up to here all is coded; between this and `at` lie bytes without a shape.
        let mut coded = 0;
        while at < payload.len() && self.bits.len() < most {
            let rest = payload.get(at..).unwrap_or_default();
            let mut last = [0; WINDOW];
            let window = match rest.first_chunk::<WINDOW>() {
                Some(window) => window,
                None => {
                    last[..rest.len()].copy_from_slice(rest);
                    &last
                }
            };
            match self.slot(window) {
                Some((slot, size)) if size <= rest.len() => {
                    if coded < at {
                        self.literal(payload.get(coded..at).unwrap_or_default());
                    }
                    self.event(slot, window);
                    at += size;
                    coded = at;
                }
                _ => at += self.types.size(rest).unwrap_or(rest.len()).min(rest.len()),
            }
        }
        if coded < at && self.bits.len() < most {
            self.literal(payload.get(coded..at).unwrap_or_default());
        }
        at == payload.len() && self.bits.len() < payload.len()
    }

    /// The slot of the event that `window` starts with, and its size; the slot is made if this is
    /// its first.
    #[inline(always)]
    fn slot(&mut self, window: &[u8; WINDOW]) -> Option<(usize, usize)> {
        let word = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
        // PERF: the processor goes on with the expected size before it has compared anything.
        let expected = usize::from(self.model.next[self.model.last & 15]);
        match self.slots.get(expected) {
            Some(slot) if word & slot.head_mask == slot.head => {
                Some((expected, slot.shape.size.into()))
            }
            _ => self.unexpected_slot(window, word),
        }
    }

    #[inline(never)]
    fn unexpected_slot(&mut self, window: &[u8; WINDOW], word: u32) -> Option<(usize, usize)> {
        let known = self.slots.iter().position(|slot| word & slot.head_mask == slot.head);
        let slot = match known {
            Some(slot) => slot,
            None if self.slots.len() < MAX_SHAPES => {
                self.slots.push(Slot::new(self.types.shape(window)?));
                self.slots.len() - 1
            }
            None => return None,
        };
        Some((slot, self.slots.get(slot)?.shape.size.into()))
    }

    /// The bits that say which slot comes, and how many.
    #[inline(always)]
    fn name(&mut self, slot: usize) -> (u64, u32) {
        let expected = usize::from(self.model.next[self.model.last & 15]) == slot;
        self.model.follow(slot);
        if expected { (1, 1) } else { ((slot as u64) << 1, 5) }
    }

    fn literal(&mut self, bytes: &[u8]) {
        let (name, count) = self.name(LITERAL);
        self.bits.put(name, count);
        let code = fitting(bytes.len() as u64, LITERAL_BITS);
        self.bits.put((bytes.len() as u64) << 1 | code as u64, 1 + LITERAL_BITS[code]);
        self.bits.put_bytes(bytes);
    }

    #[inline(always)]
    fn event(&mut self, index: usize, window: &[u8; WINDOW]) {
        let Some(&Slot { shape, stack: last_stack, .. }) = self.slots.get(index) else { return };
        let load = |offset: u8| {
            let mut word = [0; 8];
            let offset = usize::from(offset & 31);
            word.copy_from_slice(&window[offset..offset + 8]);
            u64::from_le_bytes(word)
        };
        let (mut word, mut count) = self.name(index);
        let gap = match shape.synced {
            true => {
                let serial = load(shape.head_size) as u32 & SERIAL_MASK;
                let gap = serial.wrapping_sub(self.model.serial).wrapping_sub(1) & SERIAL_MASK;
                self.model.serial = serial;
                gap
            }
            false => 0,
        };
        let stack = if shape.stack == 0 { 0 } else { low(load(shape.stack), 32) }
            | if shape.heap == 0 { 0 } else { low(load(shape.heap), 8) << 32 };
        let (mut block_size, mut alignment, mut expected) = (0, 0, 0);
        if shape.kind == Kind::Alloc {
            let lower = load(shape.alignment) as u8;
            block_size = low(load(shape.block_size), 32) << 3 | u64::from(lower & 7);
            alignment = lower >> 3;
            expected = std::mem::replace(self.model.alignment(block_size), alignment);
        }
        if gap != 0 || stack != last_stack || alignment != expected {
            self.bits.put(word | 1 << count, count + 1);
            (word, count) = (0, 0);
            self.unexpected(index, gap, stack, (alignment != expected).then_some(alignment));
        } else {
            count += 1;
        }
        match shape.kind {
            Kind::Bare => self.bits.put(word, count),
            Kind::Value => {
                let value = load(shape.value);
                let value = if shape.value_size == 8 { value } else { low(value, 32) };
                self.bits.put(word, count);
                self.value(index, value);
            }
            Kind::Free | Kind::Alloc => {
                let address = load(shape.address);
                let side = side(shape.kind);
                let (code, bits, distance) = self.address(side, address);
                self.remember(side, address, block_size);
                word |= code << count;
                count += bits;
                if code & 7 == FAR {
                    self.bits.put(word, count);
                    (word, count) = (0, 0);
                    self.far(distance, address);
                }
                if shape.kind == Kind::Alloc {
                    let same = block_size == self.model.block_size;
                    self.model.block_size = block_size;
                    let code = if same { 0 } else { SIZE_CODES[size_of(block_size)] & 7 };
                    let bits = SIZE_BITS[usize::from(code)];
                    let block_size = if same { 0 } else { block_size };
                    if count + 3 + bits > STEP {
                        self.bits.put(word, count);
                        (word, count) = (0, 0);
                    }
                    word |= (u64::from(code) | block_size << 3) << count;
                    count += 3 + bits;
                }
                self.bits.put(word, count);
            }
        }
    }

    /// The code of an address and its bits, how many there are, and the distance if it counts.
    #[inline(always)]
    fn address(&self, side: usize, address: u64) -> (u64, u32, u64) {
        let others = self.model.others(side);
        let place = u32::from(self.places[side ^ 1][place(address)]);
        let age = (others as u16).wrapping_sub(1).wrapping_sub(place as u16);
        if (age as usize) < RECENT
            && u32::from(age) < others
            && self.model.other(side, place) == address
        {
            return match age {
                0 => (NEWEST, 3, 0),
                age => (BY_AGE | u64::from(age) << 3, 3 + 8, 0),
            };
        }
        let shift = self.model.shift;
        let distance = address.wrapping_sub(self.model.expected(side));
        let distance = match low(distance, shift) {
            0 => zigzag((distance as i64 >> shift) as u64),
            _ => u64::MAX,
        };
        let code = DISTANCE_CODES[side][size_of(distance)] & 7;
        let bits = DISTANCE_BITS[side][usize::from(code)];
        (u64::from(code) | low(distance, bits) << 3, 3 + bits, distance)
    }

    #[inline(always)]
    fn remember(&mut self, side: usize, address: u64, block_size: u64) {
        self.low_bits |= address;
        self.places[side][place(address)] = self.model.saw(side, address, block_size) as u16;
    }

    #[cold]
    #[inline(never)]
    fn far(&mut self, distance: u64, address: u64) {
        let code = fitting(distance, FAR_BITS);
        self.bits.put(code as u64, 2);
        match FAR_BITS[code] {
            64 => self.put_64(address),
            bits => self.bits.put(distance, bits),
        }
    }

    fn value(&mut self, index: usize, value: u64) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let distance = zigzag(value.wrapping_sub(slot.value));
        slot.value = value;
        let code = fitting(distance, VALUE_BITS);
        self.bits.put(code as u64, 2);
        match VALUE_BITS[code] {
            64 => self.put_64(distance),
            bits => self.bits.put(distance, bits),
        }
    }

    fn put_64(&mut self, value: u64) {
        self.bits.put(low(value, 32), 32);
        self.bits.put(value >> 32, 32);
    }

    /// What an event has that was not expected of it, behind a bit that says there is something.
    #[inline(never)]
    fn unexpected(&mut self, index: usize, gap: u32, stack: u64, alignment: Option<u8>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let last = std::mem::replace(&mut slot.stack, stack);
        let flag = |holds: bool, flag: u64| if holds { flag } else { 0 };
        let what =
            flag(gap != 0, GAP) | flag(alignment.is_some(), ALIGNMENT) | flag(stack != last, STACK);
        self.bits.put(what, 3);
        if gap != 0 {
            let code = fitting(gap.into(), GAP_BITS);
            self.bits.put(u64::from(gap) << 2 | code as u64, 2 + GAP_BITS[code]);
        }
        if let Some(alignment) = alignment {
            self.bits.put(alignment.into(), 5);
        }
        if stack != last {
            let code = match stack >> 32 == last >> 32 {
                true => fitting(low(stack, 32), STACK_BITS),
                false => STACK_BITS.len() - 1,
            };
            let bits = STACK_BITS[code];
            self.bits.put(low(stack, bits) << 2 | code as u64, 2 + bits);
        }
    }
}

/// Where the number of an address is kept.
#[inline(always)]
fn place(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize & (PLACES - 1)
}
