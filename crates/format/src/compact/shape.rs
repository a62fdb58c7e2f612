//! The shape of an event in a payload: its head, and the fields that follow it, in this order.
//!
//! ```text
//! head      1 to 3 bytes: the uid as in the payload (43 00), after the byte that opens a scope (08)
//!           if the event opens one; or only the byte that closes a scope (0a)
//! serial    3 bytes, if the event is synchronised
//! value     4 or 8 bytes; in a memory event the address, 8 bytes
//! then a memory event may have
//! stack     u32  call stack
//! layout    u32  size in units of 8   u8 logarithm of the alignment << 3 | low bits of the size
//! heap      u8
//! ```
//! Fields follow one another without gaps. A packet has a shape as one byte, followed by the head: `bytes of
//! the head | synchronised << 2 | body << 3 | stack << 5 | layout << 6 | heap << 7`. The body is 0 for no
//! value, 1 for a value of 4 bytes, 2 for one of 8, and 3 for a memory event, which has a head of 2 bytes and
//! is synchronised. Only a memory event has a stack; only one with a stack has a layout or a heap.

/// The most bytes that an event with a shape has: a memory event with all fields.
pub(crate) const MAX_EVENT_BYTES: usize = 23;
/// The most shapes of one packet. The number after the last shape represents bytes without a shape.
pub(crate) const MAX_SHAPES: usize = 7;

/// The fields that follow the head and the serial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Body {
    #[default]
    None,
    Value4,
    Value8,
    /// A memory event.
    HeapBlock,
}

/// The shape of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub body: Body,
    pub head: [u8; 3],
    pub head_size: u8,
    pub synced: bool,
    pub stack: bool,
    pub layout: bool,
    pub heap: bool,
}

impl Shape {
    /// Bytes before the value.
    pub(crate) fn start(&self) -> u8 {
        self.head_size + if self.synced { 3 } else { 0 }
    }

    /// Bytes of the event.
    pub(crate) fn size(&self) -> u8 {
        let value = match self.body {
            Body::None => 0,
            Body::Value4 => 4,
            Body::Value8 | Body::HeapBlock => 8,
        };
        let optional = |is_there, size| if is_there { size } else { 0 };
        let rest = optional(self.stack, 4) + optional(self.layout, 5) + optional(self.heap, 1);
        self.start() + value + rest
    }

    /// Whether the shape is valid. PERF: all memory events have the same field at the same offset,
    /// so the codec reads and writes it without a lookup.
    fn is_sound(&self) -> bool {
        match self.body {
            Body::HeapBlock => {
                self.synced && self.head_size == 2 && (self.stack || !(self.layout || self.heap))
            }
            _ => self.head_size > 0 && !(self.stack || self.layout || self.heap),
        }
    }

    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        let flag = |is_there: bool, bit: u8| u8::from(is_there) << bit;
        let fields = flag(self.stack, 5) | flag(self.layout, 6) | flag(self.heap, 7);
        out.push(self.head_size | flag(self.synced, 2) | (self.body as u8) << 3 | fields);
        out.extend_from_slice(self.head.get(..self.head_size.into()).unwrap_or_default());
    }

    /// Reads a shape; returns it and the bytes after it.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&first, rest) = bytes.split_first()?;
        let flag = |bit: u8| first >> bit & 1 != 0;
        let head_size = first & 3;
        let (bytes, rest) = rest.split_at_checked(head_size.into())?;
        let mut head = [0; 3];
        head.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let shape = Self {
            body: [Body::None, Body::Value4, Body::Value8, Body::HeapBlock]
                [usize::from(first >> 3 & 3)],
            head,
            head_size,
            synced: flag(2),
            stack: flag(5),
            layout: flag(6),
            heap: flag(7),
        };
        shape.is_sound().then_some((shape, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_bytes_and_back() {
        let shape = Shape {
            body: Body::HeapBlock,
            head: [0x43, 0, 0],
            head_size: 2,
            synced: true,
            stack: true,
            layout: true,
            heap: false,
        };
        assert_eq!((shape.start(), shape.size()), (5, 22));
        let mut bytes = Vec::new();
        shape.append(&mut bytes);
        assert_eq!(bytes, [0x7e, 0x43, 0]);
        bytes.push(9);
        assert_eq!(Shape::read(&bytes), Some((shape, &[9][..])));
        for end in 0..3 {
            assert_eq!(Shape::read(&bytes[..end]), None);
        }
    }

    #[test]
    fn every_byte_is_a_shape_that_comes_back_or_none() {
        let mut largest = 0;
        for first in 0..=255 {
            let bytes = [first, 1, 2, 3];
            let Some((shape, _)) = Shape::read(&bytes) else { continue };
            let mut again = Vec::new();
            shape.append(&mut again);
            assert_eq!(again, bytes[..again.len()]);
            largest = largest.max(shape.size());
            if shape.body == Body::HeapBlock {
                assert_eq!(shape.start(), 5, "where the codec looks for the address");
                assert!(shape.stack || shape.size() == 13);
            }
        }
        assert_eq!(usize::from(largest), MAX_EVENT_BYTES);
        // In order: no head; no serial; a layout without a call stack; a heap without a memory
        // event.
        for first in [0x7c, 0x7a, 0x5e, 0x86] {
            assert_eq!(Shape::read(&[first, 1, 2, 3]), None, "{first:x}");
        }
    }
}
