//! What both sides expect of the next event, from the events before it in the packet.
//!
//! - **Which shape**: the one that followed this one last time.
//! - **Serial**: the next.
//! - **Address**: an allocation gets a block that was freed lately, a free has one that was
//!   allocated lately: named by how many frees or allocations ago. Otherwise it lies near the
//!   last of its kind: an allocation right behind it, where the system's allocator puts it.
//! - **Size**: of the same number of bits as others; **alignment**: that of the last block whose
//!   size was like this one; **call stack and heap**: those of the last event of this shape.

use super::shape::{Kind, LARGEST_EVENT, MAX_SHAPES, Shape};

/// The number that stands for bytes without a shape; also of what a packet begins after.
pub(super) const LITERAL: usize = MAX_SHAPES;
/// Serials count to here and begin again.
pub(super) const SERIAL_MASK: u32 = 0x00ff_ffff;
/// Addresses that can be named by their age.
pub(super) const RECENT: usize = 256;

/// The codes of an address, three bits.
pub(super) const NEWEST: u64 = 0;
/// By age, 8 bits.
pub(super) const BY_AGE: u64 = 1;
/// From here to [`FAR`], by distance, in this many bits for an allocation and a free.
pub(super) const DISTANCE_BITS: [[u32; 8]; 2] =
    [[0, 8, 0, 4, 9, 16, 22, 0], [0, 8, 3, 7, 9, 16, 22, 0]];
/// Two bits follow that say how many more.
pub(super) const FAR: u64 = 7;
/// The last is not a distance but the address itself.
pub(super) const FAR_BITS: [u32; 4] = [26, 32, 44, 64];

/// Bits of a block's size, by its three bits of code; 0 is: as last time.
pub(super) const SIZE_BITS: [u32; 8] = [0, 3, 5, 7, 9, 12, 20, 35];
/// Bits by the two bits of code, of how many serials are passed over ...
pub(super) const GAP_BITS: [u32; 4] = [2, 5, 12, 24];
/// ... of call stacks; the last is call stack and heap ...
pub(super) const STACK_BITS: [u32; 4] = [6, 12, 20, 40];
/// ... and of the distance of a value from the last of its shape.
pub(super) const VALUE_BITS: [u32; 4] = [0, 8, 24, 64];
/// Bits of the length of bytes without a shape, by one bit of code.
pub(super) const LITERAL_BITS: [u32; 2] = [6, 16];

/// What follows an event that has something unexpected.
pub(super) const GAP: u64 = 1;
/// See [`GAP`].
pub(super) const ALIGNMENT: u64 = 2;
/// See [`GAP`].
pub(super) const STACK: u64 = 4;

/// A shape with what its last event had.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub shape: Shape,
    /// Call stack, and above it the heap.
    pub stack: u64,
    pub value: u64,
    /// The first four bytes of its events, as far as the head goes, and which bits those are.
    pub head: u32,
    pub head_mask: u32,
    /// Its head, call stack and heap, and zeros.
    pub template: [u8; LARGEST_EVENT],
}

impl Slot {
    pub(super) fn new(shape: Shape) -> Self {
        let [a, b, c] = shape.head;
        let head_mask = !(u32::MAX << (8 * u32::from(shape.head_size)));
        let head = u32::from_le_bytes([a, b, c, 0]) & head_mask;
        let mut template = [0; LARGEST_EVENT];
        template[..4].copy_from_slice(&head.to_le_bytes());
        Self { shape, head, head_mask, template, ..Self::default() }
    }
}

/// What is expected.
pub(super) struct Model {
    /// The shape that followed each, last time.
    pub next: [u8; 16],
    /// The shape of the event before.
    pub last: usize,
    pub serial: u32,
    pub block_size: u64,
    alignments: [u8; 64],
    /// Freed and allocated addresses, each ring with how many there were.
    rings: [[u64; RECENT]; 2],
    counts: [u32; 2],
    /// Where the next allocation and the next free are expected.
    expected: [u64; 2],
    /// All addresses are multiples of 2 to this.
    pub shift: u32,
}

/// Which half of the tables an event uses: 0 allocations, 1 frees.
#[inline(always)]
pub(super) fn side(kind: Kind) -> usize {
    usize::from(kind == Kind::Free)
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            next: [0; 16],
            last: LITERAL,
            serial: 0,
            block_size: 0,
            alignments: [0; 64],
            rings: [[0; RECENT]; 2],
            counts: [0; 2],
            expected: [0; 2],
            shift: 0,
        }
    }

    /// As at the start of a packet. The rings stay: what they held no longer counts.
    pub(super) fn reset(&mut self, shift: u32) {
        self.next = [0; 16];
        self.last = LITERAL;
        self.serial = SERIAL_MASK;
        self.block_size = 0;
        self.alignments = [0; 64];
        self.counts = [0; 2];
        self.expected = [0; 2];
        self.shift = shift;
    }

    /// An event of this shape, or bytes without one, came next.
    #[inline(always)]
    pub(super) fn follow(&mut self, slot: usize) {
        self.next[self.last & 15] = slot as u8;
        self.last = slot;
    }

    /// The alignment expected of a block of this size.
    #[inline(always)]
    pub(super) fn alignment(&mut self, block_size: u64) -> &mut u8 {
        &mut self.alignments[block_size as usize & 63]
    }

    /// How many addresses the other side has had.
    #[inline(always)]
    pub(super) fn others(&self, side: usize) -> u32 {
        self.counts[(side ^ 1) & 1]
    }

    /// The address of number `index` of the other side, if it is among the last [`RECENT`].
    #[inline(always)]
    pub(super) fn other(&self, side: usize, index: u32) -> u64 {
        self.rings[(side ^ 1) & 1][index as usize % RECENT]
    }

    /// The address that distances of this side start from.
    #[inline(always)]
    pub(super) fn expected(&self, side: usize) -> u64 {
        self.expected[side & 1]
    }

    /// An event has this address; returns the number of it on its side. `block_size` counts for
    /// an allocation.
    #[inline(always)]
    pub(super) fn saw(&mut self, side: usize, address: u64, block_size: u64) -> u32 {
        let index = self.counts[side & 1];
        self.rings[side & 1][index as usize % RECENT] = address;
        self.counts[side & 1] = index + 1;
        // The system's allocator puts a block behind the last one with 8 bytes between them, at
        // multiples of 16, but at 32 at least.
        let behind = if side == 0 { ((block_size + 23) & !15).max(32) } else { 0 };
        self.expected[side & 1] = address.wrapping_add(behind);
        index
    }
}

/// Small for small distances of either sign.
#[inline(always)]
pub(super) fn zigzag(distance: u64) -> u64 {
    distance << 1 ^ ((distance as i64) >> 63) as u64
}

/// The distance again.
#[inline(always)]
pub(super) fn unzigzag(code: u64) -> u64 {
    code >> 1 ^ (code & 1).wrapping_neg()
}
