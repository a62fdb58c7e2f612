//! The expectation of the next event, which encoder and decoder compute from the events before it
//! in the packet.
//!
//! - **Serial**: the next.
//! - **Address**: near the last one, whether that was allocated or freed.
//! - **Layout** (size and alignment), **call stack and heap, value**: those of the last event of
//!   this shape. If the packet has a table of stacks (`stacks.rs`), the layout is that of the last
//!   event with this stack.

use super::shape::{Body, MAX_EVENT_BYTES, MAX_SHAPES, Shape};
use super::stacks::NO_STACK;
use crate::protobuf::zigzag;
use crate::schema;

/// The number that the control byte has, in place of a shape's number, for bytes without a shape.
pub(super) const LITERAL: usize = MAX_SHAPES;
/// Bits of a control byte below the code of an address or a value.
pub(super) const CODE_SHIFT: u32 = 2;
/// Bits of a control byte below the number of the shape.
pub(super) const SHAPE_SHIFT: u32 = 5;
/// [`schema::SERIAL_MASK`] in the width that this codec computes with.
pub(super) const SERIAL_MASK: u32 = schema::SERIAL_MASK as u32;
/// The largest shift of addresses. The system's allocator returns multiples of 2 to the power of
/// this.
pub(super) const MAX_SHIFT: u32 = 4;

/// The code for the address itself instead of its distance. By [`SIZES`] it has 8 bytes.
pub(super) const ADDRESS: u8 = 7;
/// Bytes of the distance of an address or a value, by its code.
pub(super) const SIZES: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 8];
/// The mask of the bytes of a number, by its code.
pub(super) const MASKS: [u64; 8] = {
    let mut masks = [u64::MAX; 8];
    let mut code = 0;
    while code < 7 {
        masks[code] = !(u64::MAX << (SIZES[code] * 8));
        code += 1;
    }
    masks
};
/// The code and the size of a number, by its number of bits. The low byte is the code, at its
/// position in the control byte; the high byte is the size in bytes of control byte and number
/// together.
const CODES: [u16; 64] = {
    let mut codes = [0; 64];
    let mut bits = 0;
    while bits < 64 {
        let mut code = 0;
        while (SIZES[code] as usize) * 8 < bits {
            code += 1;
        }
        codes[bits] = (code << CODE_SHIFT) as u16 | (SIZES[code] as u16 + 1) << 8;
        bits += 1;
    }
    codes
};

/// The bit of the byte before the shapes that is set if the packet has a table of stacks
/// (`stacks.rs`).
pub(super) const HAS_STACKS: u8 = 1 << 3;
/// The bit of a control byte that is set if the layout follows, in two bytes.
pub(super) const LAYOUT: u8 = 1;
/// The bit of a control byte that is set if other fields differ from the expectation (`escape.rs`).
pub(super) const ESCAPE: u8 = 2;

/// The distance of a 4-byte value from the last one, as a [`zigzag`] code.
#[inline(always)]
pub(super) fn steps_of_value(value: u64, last: u64) -> u64 {
    zigzag(i64::from(value.wrapping_sub(last) as i32) as u64)
}

/// The entry of [`CODES`] for a number below 2^63. All zigzag codes in the fast path are below
/// 2^63, because distances of addresses are divided by two or more, and values have 4 bytes.
#[inline(always)]
pub(super) fn code_of_steps(steps: u64) -> u16 {
    CODES[(steps << 1 | 1).ilog2() as usize & 63]
}

pub(super) fn code_of(number: u64) -> u8 {
    let bits = u64::BITS - number.leading_zeros();
    bits.div_ceil(8).min(7) as u8
}

/// Size and alignment as one number, which is compared and written. From the lowest byte: the low
/// byte of the size in units of 8 bytes, the byte of the alignment, and the other three bytes of
/// the size. So the layout of a block below 2 KiB has two bytes.
#[inline(always)]
pub(super) fn layout(upper: u32, lower: u8) -> u64 {
    u64::from(upper & 0xff | u32::from(lower) << 8) | u64::from(upper >> 8) << 16
}

/// The size and the alignment of a [`layout`].
#[inline(always)]
pub(super) fn unlayout(layout: u64) -> (u32, u8) {
    ((layout >> 16 << 8) as u32 | layout as u32 & 0xff, (layout >> 8) as u8)
}

/// A shape, and the fields of its last event.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct ShapeSlot {
    /// The first two bytes of its events, if those are memory events without a heap; otherwise a
    /// value that no event begins with.
    pub head: u32,
    /// All bytes of its head, and the mask of their bits.
    pub whole_head: u32,
    pub head_mask: u32,
    /// Its events are those of scopes: without a serial, with a value of 4 bytes or none.
    pub is_scope: bool,
    /// Its number, at its position in the control byte.
    pub name: u8,
    /// Bytes of its events.
    pub size: u8,
    /// The offset of the heap, or of a byte that is overwritten later.
    pub heap_at: u8,
    pub heap: u8,
    /// Where the value begins.
    pub start: u8,
    /// The mask of the call stack and the size, as far as its events have them; for a scope, the
    /// mask of the value. `layout_mask` is the mask of the alignment.
    pub mask: u64,
    pub layout_mask: u16,
    /// Bytes of a known stack in a packet with a table: 1 or none. `without_stack` is 0 or
    /// [`NO_STACK`].
    pub stack_bytes: u8,
    pub without_stack: u8,
    pub stack: u64,
    /// Size and alignment, in the form that [`layout`] returns.
    pub layout: u64,
    pub value: u64,
    pub shape: Shape,
}

impl ShapeSlot {
    /// The `head` of a slot that is not found by its head.
    const NONE: u32 = u32::MAX;

    fn new(shape: Shape, index: usize) -> Self {
        let is_usual = shape.body == Body::HeapBlock && !shape.heap;
        let [a, b, c] = shape.head;
        let size = shape.size();
        let mask = if shape.stack || shape.body == Body::Value4 { u32::MAX.into() } else { 0 };
        Self {
            head: if is_usual { u16::from_le_bytes([a, b]).into() } else { Self::NONE },
            whole_head: u32::from_le_bytes([a, b, c, 0]),
            head_mask: !(u32::MAX << (8 * u32::from(shape.head_size))),
            is_scope: !shape.synced && matches!(shape.body, Body::None | Body::Value4),
            name: (index as u8) << SHAPE_SHIFT,
            size,
            start: shape.start(),
            heap_at: if shape.heap { size - 1 } else { MAX_EVENT_BYTES as u8 },
            mask: if shape.layout { u64::MAX } else { mask },
            stack_bytes: u8::from(shape.stack),
            without_stack: if shape.stack { 0 } else { NO_STACK },
            layout_mask: if shape.layout { u16::MAX } else { 0 },
            shape,
            ..Self::default()
        }
    }

    /// Whether an event that begins with `word` has this shape.
    #[inline(always)]
    pub(super) fn fits(&self, word: u64) -> bool {
        word as u32 & self.head_mask == self.whole_head
    }
}

/// The slots of a packet; the last one is for [`LITERAL`].
pub(super) struct ShapeSlots {
    pub all: [ShapeSlot; MAX_SHAPES + 1],
    /// The slot that an event probably has, by its first byte.
    pub guess: [u8; 256],
    /// The size in bytes of an event of that slot, by the same byte. PERF: this is a copy, so that
    /// the next event is found without a load from the slot.
    pub sizes: [u8; 256],
    count: usize,
}

impl ShapeSlots {
    pub(super) fn new() -> Self {
        let none = ShapeSlot {
            head: ShapeSlot::NONE,
            whole_head: ShapeSlot::NONE,
            ..ShapeSlot::default()
        };
        Self { all: [none; MAX_SHAPES + 1], guess: [LITERAL as u8; 256], sizes: [0; 256], count: 0 }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Adds a shape; returns its number, or `None` if there are [`MAX_SHAPES`].
    pub(super) fn add(&mut self, shape: Shape) -> Option<usize> {
        let slot = self.all[..MAX_SHAPES].get_mut(self.count)?;
        *slot = ShapeSlot::new(shape, self.count);
        self.count += 1;
        Some(self.count - 1)
    }

    /// The slot of the event that begins with `word` and has at most `size` bytes.
    pub(super) fn find(&self, word: u64, size: usize) -> Option<usize> {
        let fits = |slot: &ShapeSlot| slot.fits(word) && usize::from(slot.size) <= size;
        self.used().iter().position(fits)
    }

    /// Makes this slot the guess for events that begin with its first byte.
    pub(super) fn expect(&mut self, index: usize) {
        let slot = &self.all[index & LITERAL];
        let first = usize::from(slot.shape.head[0]);
        self.guess[first] = index as u8;
        self.sizes[first] = slot.size;
    }

    pub(super) fn used(&self) -> &[ShapeSlot] {
        self.all.get(..self.count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::unzigzag;

    #[test]
    fn a_code_has_room_for_its_numbers_and_none_below_has() {
        for bits in 0..=64_u32 {
            let number = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            let code = usize::from(code_of(number));
            assert!(number & MASKS[code] == number, "{bits}");
            assert!(code == 0 || number & MASKS[code - 1] != number, "{bits}");
            if bits < 64 {
                let expected = (code << CODE_SHIFT) as u16 | (u16::from(SIZES[code]) + 1) << 8;
                assert_eq!(code_of_steps(number), expected);
            }
        }
    }

    #[test]
    fn what_is_put_otherwise_comes_back() {
        for distance in [0, 1, u64::MAX, 1 << 63, !(1 << 63), 77] {
            assert_eq!(unzigzag(zigzag(distance)), distance);
        }
        assert_eq!([0_i64, -1, 1, -2].map(|distance| zigzag(distance as u64)), [0, 1, 2, 3]);
        for (upper, lower, expected) in [
            (0x12, 0x34, 0x3412),
            (0x0102_0304, 0x05, 0x01_0203_0504),
            (u32::MAX, 0, 0xff_ffff_00ff),
        ] {
            assert_eq!(layout(upper, lower), expected);
            assert_eq!(unlayout(expected), (upper, lower));
        }
    }
}
