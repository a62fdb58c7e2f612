//! The fields of an event that differ from the expectation: a byte of flags, then the values of the
//! fields that the flags announce.
//!
//! ```text
//! bits 0 1  bytes of the number of serials that are skipped (0 to 3)
//! bits 2 3  bytes of the call stack (0: as expected, 1, 2, 4); 0 in a packet with a table of stacks
//!           if the shape has a call stack
//! bit  4    the heap, a byte
//! bits 5 6  bytes of the layout (0: as expected, 2, 3, 5): the low byte of the size in units of 8, the byte
//!           of the alignment, further bytes of the size
//! bit  7    the address itself replaces its distance
//! ```

use super::bytes::{Buffer, load, store};

const STACK_SIZES: [u8; 4] = [0, 1, 2, 4];
const LAYOUT_SIZES: [u8; 4] = [0, 2, 3, 5];
const HEAP: u8 = 1 << 4;
const ADDRESS: u8 = 1 << 7;

/// The fields that differ; `None` for those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Escape {
    /// The number of serials that are skipped.
    pub gap: u32,
    pub stack: Option<u32>,
    pub heap: Option<u8>,
    pub layout: Option<u64>,
    /// The event has the address itself instead of its distance.
    pub address: bool,
}

impl Escape {
    /// Writes the escape at `at`; returns its end.
    pub(super) fn write(&self, out: &mut Buffer, at: usize) -> usize {
        let mut end = at + 1;
        let mut put = |number: Option<u64>, sizes: [u8; 4]| {
            let Some(number) = number else { return 0 };
            let needed = (u64::BITS - number.leading_zeros()).div_ceil(8);
            let code = (1..4).find(|&code| u32::from(sizes[code]) >= needed).unwrap_or(3);
            store(out, end, number.to_le_bytes());
            end += usize::from(sizes[code]);
            code as u8
        };
        let gap = (self.gap > 0).then_some(u64::from(self.gap));
        let mut flags = put(gap, [0, 1, 2, 3]) | put(self.stack.map(u64::from), STACK_SIZES) << 2;
        if let Some(heap) = self.heap {
            flags |= HEAP;
            put(Some(heap.into()), [0, 1, 1, 1]);
        }
        flags |= put(self.layout, LAYOUT_SIZES) << 5;
        flags |= if self.address { ADDRESS } else { 0 };
        store(out, at, [flags]);
        end
    }

    /// Reads the escape at `at`; returns it and its end.
    pub(super) fn read(data: &Buffer, at: usize) -> (Self, usize) {
        let [flags] = load(data, at);
        let mut end = at + 1;
        let mut take = |code: u8, sizes: [u8; 4]| {
            let size = sizes[usize::from(code & 3)];
            let number = u64::from_le_bytes(load(data, end));
            end += usize::from(size);
            (size > 0).then_some(number & !(u64::MAX << (8 * u32::from(size))))
        };
        let gap = take(flags, [0, 1, 2, 3]).unwrap_or_default() as u32;
        let stack = take(flags >> 2, STACK_SIZES).map(|stack| stack as u32);
        let heap = take(flags >> 4 & 1, [0, 1, 1, 1]).map(|heap| heap as u8);
        let layout = take(flags >> 5, LAYOUT_SIZES);
        (Self { gap, stack, heap, layout, address: flags & ADDRESS != 0 }, end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::zeroed;
    use super::*;

    #[test]
    fn exact_bytes_and_back() {
        let nothing = Escape::default();
        let all = Escape {
            gap: 0x0102,
            stack: Some(0x0304_0506),
            heap: Some(7),
            layout: Some(0x0a_0b0c_0d0e),
            address: true,
        };
        let zeros = Escape { stack: Some(0), heap: Some(0), layout: Some(0), ..nothing };
        let small = Escape { gap: 1, stack: Some(256), layout: Some(0x1_0000), ..nothing };
        for (escape, expected) in [
            (nothing, &[0][..]),
            (all, &[0xfe, 2, 1, 6, 5, 4, 3, 7, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a]),
            (zeros, &[0x34, 0, 0, 0, 0]),
            (small, &[0x49, 1, 0, 1, 0, 0, 1]),
        ] {
            let mut data = zeroed();
            let end = escape.write(&mut data, 3);
            assert_eq!(&data[3..end], expected);
            data[end..].fill(0xee);
            assert_eq!(Escape::read(&data, 3), (escape, end));
        }
    }
}
