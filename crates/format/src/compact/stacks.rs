//! The call stacks of a packet in which they differ from event to event: a table of the last stacks,
//! each with the layout of the last block that was allocated with it.
//!
//! ```text
//! 0 to 252   the stack of this entry
//! 253        a new stack: the last new stack + 1
//! 254        a new stack: u16, the zigzag code of its distance from the last new stack
//! 255        a new stack: u32
//! ```
//! A new stack takes the entry after that of the last new stack (252 is followed by 0; the first one takes
//! 0), with the layout 0. At first, the last new stack is 0, and all entries have the stack 0 and the
//! layout 0. Arithmetic is modulo 2^32.

use super::bytes::{Buffer, load, store};
use super::model::{layout, unlayout};
use crate::protobuf::{unzigzag, zigzag};

const ENTRIES: u8 = 253;
/// Bytes from here on announce new stacks.
pub(super) const FIRST_MARK: u8 = ENTRIES;
const NEXT: u8 = 253;
const NEAR: u8 = 254;
const FAR: u8 = 255;
/// The entry of events without a stack. No event refers to it.
pub(super) const NO_STACK: u8 = 255;
/// Bits of the hash by which the encoder finds entries.
const HASH_BITS: u32 = 12;

/// A stack, and the layout of its last block.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The stack in the low half, and the size in units of 8 bytes in the high half, as in an event.
    pub fields: u64,
    /// The byte of the alignment.
    pub lower: u64,
}

impl Entry {
    pub(super) fn stack(self) -> u32 {
        self.fields as u32
    }

    /// Size and alignment in the form that [`layout`] returns.
    pub(super) fn layout(self) -> u64 {
        layout((self.fields >> 32) as u32, self.lower as u8)
    }

    pub(super) fn set_layout(&mut self, layout: u64) {
        let (upper, lower) = unlayout(layout);
        self.fields = self.fields & u64::from(u32::MAX) | u64::from(upper) << 32;
        self.lower = lower.into();
    }
}

/// The table of a packet.
pub(super) struct Stacks {
    entries: [Entry; 256],
    /// The entry of the last new stack.
    newest: u8,
    /// The number of new stacks.
    pub added: u32,
}

impl Stacks {
    pub(super) fn new() -> Self {
        Self { entries: [Entry::default(); 256], newest: ENTRIES - 1, added: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.entries.fill(Entry::default());
        (self.newest, self.added) = (ENTRIES - 1, 0);
    }

    #[inline(always)]
    pub(super) fn entry(&mut self, index: u8) -> &mut Entry {
        &mut self.entries[usize::from(index)]
    }

    /// Adds a new stack; returns its entry.
    #[inline(always)]
    fn add(&mut self, stack: u32) -> u8 {
        self.newest = if self.newest + 1 == ENTRIES { 0 } else { self.newest + 1 };
        self.added += 1;
        *self.entry(self.newest) = Entry { fields: stack.into(), lower: 0 };
        self.newest
    }

    /// Reads a stack at `at`; returns its entry and the end.
    #[inline(always)]
    pub(super) fn read(&mut self, data: &Buffer, at: usize) -> (u8, usize) {
        let [mark] = load(data, at);
        if mark < ENTRIES {
            return (mark, at + 1);
        }
        let number = u32::from_le_bytes(load(data, at + 1));
        let newest = self.entry(self.newest).stack();
        let (stack, size) = match mark {
            NEXT => (newest.wrapping_add(1), 1),
            NEAR => (newest.wrapping_add(unzigzag(u64::from(number & 0xffff)) as u32), 3),
            _ => (number, 5),
        };
        (self.add(stack), at + size)
    }
}

/// The table, and an index of it by stack, for the encoder.
pub(super) struct IndexedStacks {
    pub table: Stacks,
    /// By the hash of a stack: the entry that has it, if any entry has.
    index: [u8; 1 << HASH_BITS],
}

impl IndexedStacks {
    pub(super) fn new() -> Self {
        Self { table: Stacks::new(), index: [0; 1 << HASH_BITS] }
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.index.fill(0);
    }

    #[inline(always)]
    fn place(&mut self, stack: u32) -> &mut u8 {
        &mut self.index[(stack.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize]
    }

    /// The only entry that can have this stack.
    #[inline(always)]
    pub(super) fn guess(&mut self, stack: u32) -> u8 {
        *self.place(stack)
    }

    pub(super) fn find(&mut self, stack: u32) -> Option<(u8, Entry)> {
        let index = self.guess(stack);
        let entry = *self.table.entry(index);
        (entry.stack() == stack).then_some((index, entry))
    }

    /// Writes a new stack at `at`, and adds it; returns its entry and the end. PERF: out of line, so
    /// that the loop's registers are for known stacks.
    #[inline(never)]
    pub(super) fn write_new(&mut self, stack: u32, out: &mut Buffer, at: usize) -> (u8, usize) {
        let newest = self.table.newest;
        let distance = stack.wrapping_sub(self.table.entry(newest).stack()) as i32;
        let code = zigzag(i64::from(distance) as u64);
        let (mark, number, size) = if distance == 1 {
            (NEXT, 0, 1)
        } else if code <= u16::MAX.into() {
            (NEAR, code as u32, 3)
        } else {
            (FAR, stack, 5)
        };
        store(out, at, [mark]);
        store(out, at + 1, number.to_le_bytes());
        let index = self.table.add(stack);
        *self.place(stack) = index;
        (index, at + size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::zeroed;
    use super::*;

    #[test]
    fn exact_bytes_and_back() {
        let mut encoder = IndexedStacks::new();
        let mut decoder = Stacks::new();
        let mut data = zeroed();
        let mut at = 0;
        for (stack, expected) in [
            (1, &[253][..]),
            (2, &[253]),
            (1, &[0]),
            (300, &[254, 0x54, 2]),
            (299, &[254, 1, 0]),
            (299 + 0x7fff, &[254, 0xfe, 0xff]),
            (u32::MAX, &[255, 0xff, 0xff, 0xff, 0xff]),
            (0, &[253]),
            (u32::MAX, &[5]),
        ] {
            let (index, end) = match encoder.find(stack) {
                Some((index, _)) => {
                    data[at] = index;
                    (index, at + 1)
                }
                None => encoder.write_new(stack, &mut data, at),
            };
            assert_eq!(&data[at..end], expected, "{stack}");
            assert_eq!(decoder.read(&data, at), (index, end));
            assert_eq!(decoder.entry(index).stack(), stack);
            at = end;
        }
    }
}
