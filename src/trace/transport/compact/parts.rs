//! The parts of an event, as the encoder reads them from a payload and puts them into bits.

use super::bits::{Buffer, Cursor, low};
use super::encode::{PLACES, WINDOW};
use super::model::{
    ALIGNMENT, DISTANCE_BITS, FAR_BITS, GAP, GAP_BITS, SERIAL_MASK, SIZE_BITS, STACK, STACK_BITS,
    Slot, State, VALUE_BITS, zigzag,
};
use super::shape::Kind;

/// By the bits of a number, the first code from `from` on that has room for it, and above that
/// how many bits the code and its number take together.
const fn codes(bits: [u32; 8], from: usize) -> [u16; 64] {
    let mut codes = [0; 64];
    let mut size = 0;
    while size < 64 {
        let mut code = from;
        while code < 7 && (bits[code] as usize) < size {
            code += 1;
        }
        codes[size] = (code as u32 | (bits[code] + 3) << 8) as u16;
        size += 1;
    }
    codes
}

pub(super) const DISTANCE_CODES: [[u16; 64]; 2] =
    [codes(DISTANCE_BITS[0], 2), codes(DISTANCE_BITS[1], 2)];
pub(super) const SIZE_CODES: [u16; 64] = codes(SIZE_BITS, 1);

/// The bits of `value`, below 2^63, without the zeros above.
#[inline(always)]
pub(super) fn size_of(value: u64) -> usize {
    (value << 1 | 1).ilog2() as usize
}

/// The number of the first of `bits` into which `value` fits, and how many that are.
pub(super) fn fitting<const N: usize>(value: u64, bits: [u32; N]) -> (u64, u32) {
    let needed = u64::BITS - value.leading_zeros();
    let code = bits.iter().position(|&bits| needed <= bits).unwrap_or(N - 1);
    (code as u64, bits[code])
}

/// An event without an address.
#[inline(never)]
pub(super) fn other(
    bytes: &mut Buffer,
    mut cursor: Cursor,
    slot: &mut Slot,
    (name, bits): (u64, u32),
    gap: u32,
    window: &[u8; WINDOW],
) -> Cursor {
    cursor = cursor.put(bytes, name | u64::from(gap != 0) << bits, bits + 1);
    if gap != 0 {
        cursor = unexpected(bytes, cursor, slot, gap, 0, None);
    }
    if slot.shape.kind == Kind::Bare {
        return cursor;
    }
    let value = match slot.shape.value_size {
        8 => load(window, slot.shape.value),
        _ => low(load(window, slot.shape.value), 32),
    };
    let distance = zigzag(value.wrapping_sub(slot.value));
    slot.value = value;
    let (code, bits) = fitting(distance, VALUE_BITS);
    cursor = cursor.put(bytes, code, 2);
    match bits {
        64 => cursor.put_64(bytes, distance),
        bits => cursor.put(bytes, distance, bits),
    }
}

/// Eight bytes of an event.
#[inline(always)]
pub(super) fn load(window: &[u8; WINDOW], offset: u8) -> u64 {
    let offset = usize::from(offset & 31);
    let mut word = [0; 8];
    word.copy_from_slice(&window[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// How many serials this event passes over.
#[inline(always)]
pub(super) fn gap(slot: &Slot, state: &mut State, window: &[u8; WINDOW]) -> u32 {
    if !slot.shape.synced {
        return 0;
    }
    let serial = load(window, slot.shape.head_size) as u32 & SERIAL_MASK;
    let gap = serial.wrapping_sub(state.serial).wrapping_sub(1) & SERIAL_MASK;
    state.serial = serial;
    gap
}

/// Call stack, and above it the heap.
#[inline(always)]
pub(super) fn stack(slot: &Slot, window: &[u8; WINDOW]) -> u64 {
    let field = |offset, bits| if offset == 0 { 0 } else { low(load(window, offset), bits) };
    field(slot.shape.stack, 32) | field(slot.shape.heap, 8) << 32
}

/// Where the number of an address is kept.
#[inline(always)]
pub(super) fn place(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize & (PLACES - 1)
}

/// What an address far from the expected one is followed by.
#[cold]
#[inline(never)]
pub(super) fn far(bytes: &mut Buffer, cursor: Cursor, distance: u64, address: u64) -> Cursor {
    let (code, bits) = fitting(distance, FAR_BITS);
    let cursor = cursor.put(bytes, code, 2);
    match bits {
        64 => cursor.put_64(bytes, address),
        bits => cursor.put(bytes, distance, bits),
    }
}

/// What an event has that was not expected of it, behind a bit that says there is something.
#[inline(never)]
pub(super) fn unexpected(
    bytes: &mut Buffer,
    mut cursor: Cursor,
    slot: &mut Slot,
    gap: u32,
    stack: u64,
    alignment: Option<u8>,
) -> Cursor {
    let last = std::mem::replace(&mut slot.stack, stack);
    let flag = |holds: bool, flag: u64| if holds { flag } else { 0 };
    let what =
        flag(gap != 0, GAP) | flag(alignment.is_some(), ALIGNMENT) | flag(stack != last, STACK);
    cursor = cursor.put(bytes, what, 3);
    if gap != 0 {
        let (code, bits) = fitting(gap.into(), GAP_BITS);
        cursor = cursor.put(bytes, u64::from(gap) << 2 | code, 2 + bits);
    }
    if let Some(alignment) = alignment {
        cursor = cursor.put(bytes, alignment.into(), 5);
    }
    if stack != last {
        let needed = if stack >> 32 == last >> 32 { low(stack, 32) } else { u64::MAX };
        let (code, bits) = fitting(needed, STACK_BITS);
        cursor = cursor.put(bytes, low(stack, bits) << 2 | code, 2 + bits);
    }
    cursor
}
