//! What one kind of event looks like in a payload: where its bytes lie and what they mean.
//!
//! ```text
//! u8 kind | bytes of the head << 2 | synchronised << 4   the head   u8 bytes of the event
//! then by kind, a byte each, offsets in the event; 0: there is no such field
//! 0 bare     nothing
//! 1 value    value  bytes of the value (4 or 8)
//! 2 free     address  call stack  heap
//! 3 alloc    address  call stack  heap  size  alignment
//! ```
//! The head is the uid as it stands in the payload, with the byte before it that opens a scope,
//! if the event does. A serial follows it at once.

/// Most bytes an event can have that has a shape. PERF: it is written with two stores.
pub(super) const LARGEST_EVENT: usize = 32;
/// Most shapes of one packet; the number after the last stands for bytes without a shape.
pub(super) const MAX_SHAPES: usize = 15;
/// Most bytes of a shape in a packet.
pub(super) const LARGEST_SHAPE: usize = 10;

/// Which fields an event has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Bare,
    Value,
    Free,
    Alloc,
}

/// How one kind of event looks. Offsets are in bytes from its start; 0 is: there is no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub kind: Kind,
    pub head: [u8; 3],
    pub head_size: u8,
    pub synced: bool,
    pub size: u8,
    pub value: u8,
    pub value_size: u8,
    pub address: u8,
    pub stack: u8,
    pub heap: u8,
    pub block_size: u8,
    pub alignment: u8,
}

impl Shape {
    /// The offsets that are sent, by kind.
    fn offsets(&mut self) -> [Option<&mut u8>; 5] {
        let Self { kind, value, value_size, address, stack, heap, block_size, alignment, .. } =
            self;
        match kind {
            Kind::Bare => [None, None, None, None, None],
            Kind::Value => [Some(value), Some(value_size), None, None, None],
            Kind::Free => [Some(address), Some(stack), Some(heap), None, None],
            Kind::Alloc => {
                [Some(address), Some(stack), Some(heap), Some(block_size), Some(alignment)]
            }
        }
    }

    /// Bytes of the head and the serial.
    pub(super) fn start(&self) -> u8 {
        self.head_size + if self.synced { 3 } else { 0 }
    }

    /// Whether its fields lie inside the event, behind its start.
    fn is_sound(&self) -> bool {
        let lies_inside = |offset: u8, size: u8| {
            offset >= self.start() && usize::from(offset) + usize::from(size) <= self.size.into()
        };
        let optional = |offset: u8, size: u8| offset == 0 || lies_inside(offset, size);
        let block =
            || lies_inside(self.address, 8) && optional(self.stack, 4) && optional(self.heap, 1);
        let fields = match self.kind {
            Kind::Bare => true,
            Kind::Value => {
                matches!(self.value_size, 4 | 8) && lies_inside(self.value, self.value_size)
            }
            Kind::Free => block(),
            Kind::Alloc => {
                block() && lies_inside(self.block_size, 4) && lies_inside(self.alignment, 1)
            }
        };
        fields
            && (1..=3).contains(&self.head_size)
            && self.start() <= self.size
            && usize::from(self.size) <= LARGEST_EVENT
    }

    /// Whether its fields are all the bytes of the event there are, so that it can be rebuilt.
    pub(super) fn is_all(&self) -> bool {
        let optional = |offset: u8, size: u8| if offset == 0 { 0 } else { size };
        let block = 8 + optional(self.stack, 4) + optional(self.heap, 1);
        let fields = match self.kind {
            Kind::Bare => 0,
            Kind::Value => self.value_size,
            Kind::Free => block,
            Kind::Alloc => block + 5,
        };
        self.is_sound() && self.start() + fields == self.size
    }

    /// Appends it as a packet carries it.
    pub(super) fn append(mut self, out: &mut Vec<u8>) {
        out.push(self.kind as u8 | self.head_size << 2 | u8::from(self.synced) << 4);
        out.extend_from_slice(self.head.get(..self.head_size.into()).unwrap_or_default());
        out.push(self.size);
        out.extend(self.offsets().into_iter().flatten().map(|offset| *offset));
    }

    /// Reads one; returns it with what follows.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&first, mut rest) = bytes.split_first()?;
        let mut byte = || {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            Some(byte)
        };
        let kind = [Kind::Bare, Kind::Value, Kind::Free, Kind::Alloc][usize::from(first & 3)];
        let mut shape = Self {
            kind,
            head_size: first >> 2 & 3,
            synced: first >> 4 & 1 != 0,
            ..Self::default()
        };
        for index in 0..usize::from(shape.head_size) {
            shape.head[index] = byte()?;
        }
        shape.size = byte()?;
        for offset in shape.offsets().into_iter().flatten() {
            *offset = byte()?;
        }
        (first >> 5 == 0 && shape.is_sound()).then_some((shape, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_bytes_and_back() {
        let shape = Shape {
            kind: Kind::Alloc,
            head: [0x43, 0, 0],
            head_size: 2,
            synced: true,
            size: 22,
            address: 5,
            stack: 13,
            block_size: 17,
            alignment: 21,
            ..Shape::default()
        };
        assert!(shape.is_all());
        let mut bytes = Vec::new();
        shape.append(&mut bytes);
        assert_eq!(bytes, [0x1b, 0x43, 0, 22, 5, 13, 0, 17, 21]);
        assert!(bytes.len() <= LARGEST_SHAPE);
        bytes.push(9);
        assert_eq!(Shape::read(&bytes), Some((shape, &[9][..])));
        for end in 0..9 {
            assert_eq!(Shape::read(&bytes[..end]), None);
        }
        // Outside the event, in its head, too large, with bits nobody writes.
        for (at, value) in [(4, 15), (4, 4), (3, 33), (0, 0x3b), (7, 19), (8, 22), (5, 1)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(Shape::read(&bad), None, "{at}");
        }
    }
}
