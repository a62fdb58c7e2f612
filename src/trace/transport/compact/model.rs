//! What both sides expect of the next event, from the events before it in the packet.
//!
//! - **Which shape**: the one that followed this one last time.
//! - **Serial**: the next.
//! - **Address**: an allocation gets a block that was freed lately, a free has one that was
//!   allocated lately: named by how many frees or allocations ago. Otherwise it lies near the
//!   last of its kind: an allocation right behind it, where the system's allocator puts it.
//! - **Size**: of the same number of bits as others; **alignment**: that of the last block whose
//!   size was like this one; **call stack and heap**: those of the last event of this shape.

use super::shape::{LARGEST_EVENT, MAX_SHAPES, Shape};

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
    /// The first four bytes of its events, as far as the head goes, and which bits those are.
    pub head: u32,
    pub head_mask: u32,
    pub shape: Shape,
    /// Call stack, and above it the heap.
    pub stack: u64,
    pub value: u64,
    /// Its head, call stack and heap, and zeros.
    pub template: [u8; LARGEST_EVENT],
}

impl Slot {
    /// One that no event fits.
    pub(super) fn free() -> Self {
        Self { head: 1, ..Self::default() }
    }

    pub(super) fn new(shape: Shape) -> Self {
        let [a, b, c] = shape.head;
        let head_mask = !(u32::MAX << (8 * u32::from(shape.head_size)));
        let head = u32::from_le_bytes([a, b, c, 0]) & head_mask;
        let mut template = [0; LARGEST_EVENT];
        template[..4].copy_from_slice(&head.to_le_bytes());
        Self { shape, head, head_mask, template, ..Self::default() }
    }
}

/// The slots of a packet; the last one stands for [`LITERAL`] and fits nothing.
pub(super) struct Slots {
    all: [Slot; 16],
    count: usize,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { all: [Slot::free(); 16], count: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.all[..self.count].fill(Slot::free());
        self.count = 0;
    }

    /// Adds one; returns its number, or `None` if there are [`MAX_SHAPES`].
    pub(super) fn add(&mut self, shape: Shape) -> Option<usize> {
        let slot = self.all[..MAX_SHAPES].get_mut(self.count)?;
        *slot = Slot::new(shape);
        self.count += 1;
        Some(self.count - 1)
    }

    #[inline(always)]
    pub(super) fn at(&mut self, index: usize) -> &mut Slot {
        &mut self.all[index & 15]
    }

    pub(super) fn used(&self) -> &[Slot] {
        self.all.get(..self.count).unwrap_or_default()
    }
}

/// What is expected of the next event. PERF: the numbers that each event changes, on the stack of
/// the loop; [`Tables`] has the rest.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// The slot of the event before.
    pub last: usize,
    pub serial: u32,
    pub block_size: u64,
    /// How many allocated and freed addresses there were.
    pub counts: [u32; 2],
    /// Where the next allocation and the next free are expected.
    pub expected: [u64; 2],
    /// All addresses that are given by distance are multiples of 2 to this.
    pub shift: u32,
}

impl State {
    /// As at the start of a packet.
    pub(super) fn new(shift: u32) -> Self {
        Self {
            last: LITERAL,
            serial: SERIAL_MASK,
            block_size: 0,
            counts: [0; 2],
            expected: [0; 2],
            shift,
        }
    }

    /// An event has this address; `block_size` counts for an allocation.
    #[inline(always)]
    pub(super) fn saw<const SIDE: usize>(
        &mut self,
        tables: &mut Tables,
        address: u64,
        block_size: u64,
    ) {
        tables.rings[SIDE][self.counts[SIDE] as usize % RECENT] = address;
        self.counts[SIDE] += 1;
        // The system's allocator puts a block behind the last one with 8 bytes between them, at
        // multiples of 16, and at a distance of 32 at least.
        let behind = if SIDE == ALLOCS { ((block_size + 23) & !15).max(32) } else { 0 };
        self.expected[SIDE] = address.wrapping_add(behind);
    }
}

/// Which half of the tables is of allocations.
pub(super) const ALLOCS: usize = 0;
/// Which half of the tables is of frees.
pub(super) const FREES: usize = 1;

/// What is expected, by what came before.
pub(super) struct Tables {
    /// The slot that followed each, last time.
    pub next: [u8; 16],
    /// Alignments by the low bits of the size.
    pub alignments: [u8; 64],
    /// Allocated and freed addresses.
    pub rings: [[u64; RECENT]; 2],
}

impl Tables {
    pub(super) fn new() -> Self {
        Self { next: [0; 16], alignments: [0; 64], rings: [[0; RECENT]; 2] }
    }

    /// As at the start of a packet. The rings stay: what they held no longer counts.
    pub(super) fn reset(&mut self) {
        self.next = [0; 16];
        self.alignments = [0; 64];
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
