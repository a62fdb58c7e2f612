//! The fields of an event with a shape.

use crate::compact::{Body, Shape};

/// Bytes that [`Event::write`] may write; no event with a shape is larger.
pub(super) const EVENT_ROOM: usize = 24;

/// What an event does to blocks, as far as the coding is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is no memory event.
    None,
    /// It has an address and a layout: a block begins.
    Allocates,
    /// It has an address and no layout: a block ends.
    Frees,
    /// The same, but the block stays.
    Keeps,
}

impl Role {
    /// That of events of this shape; `keeps` if they say something of a block that stays.
    pub(super) fn of(shape: &Shape, keeps: bool) -> Self {
        match (shape.body, shape.layout, keeps) {
            (Body::HeapBlock, true, _) => Self::Allocates,
            (Body::HeapBlock, false, false) => Self::Frees,
            (Body::HeapBlock, false, true) => Self::Keeps,
            _ => Self::None,
        }
    }
}

/// The fields; 0 for those that the shape lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// The number of the shape in the chunk.
    pub kind: u32,
    pub serial: u32,
    /// The address of a memory event; the value of another.
    pub value: u64,
    pub stack: u32,
    /// The size in units of 8 bytes << 8 | the byte of the alignment.
    pub layout: u64,
    pub heap: u8,
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(bytes) = bytes.get(at..at + size) {
        word[..size].copy_from_slice(bytes);
    }
    u64::from_le_bytes(word)
}

impl Event {
    /// The fields in the bytes of an event.
    pub(super) fn read(kind: u32, shape: &Shape, bytes: &[u8]) -> Self {
        let mut at = usize::from(shape.head_size);
        let mut take = |is_there: bool, size: usize| {
            let value = if is_there { number(bytes, at, size) } else { 0 };
            at += if is_there { size } else { 0 };
            value
        };
        let serial = take(shape.synced, 3) as u32;
        let value = match shape.body {
            Body::None => 0,
            Body::Value4 => take(true, 4),
            Body::Value8 | Body::HeapBlock => take(true, 8),
        };
        let stack = take(shape.stack, 4) as u32;
        let layout = take(shape.layout, 4) << 8 | take(shape.layout, 1);
        Self { kind, serial, value, stack, layout, heap: take(shape.heap, 1) as u8 }
    }

    /// Writes the event to the start of `out`. NOTE: it also overwrites bytes after the event.
    #[inline(always)]
    pub(super) fn write(&self, shape: &Shape, out: &mut [u8; EVENT_ROOM]) {
        let [a, b, _] = shape.head;
        if shape.body == Body::HeapBlock {
            // PERF: a memory event has its fields at fixed offsets, and what it lacks is after its
            // end, where the next event is written.
            let word = u64::from(u16::from_le_bytes([a, b])) | u64::from(self.serial) << 16;
            out[..8].copy_from_slice(&word.to_le_bytes());
            out[5..13].copy_from_slice(&self.value.to_le_bytes());
            let fields = u64::from(self.stack) | (self.layout >> 8) << 32;
            out[13..21].copy_from_slice(&fields.to_le_bytes());
            out[21] = self.layout as u8;
            if shape.heap {
                out[usize::from(shape.size() - 1) % EVENT_ROOM] = self.heap;
            }
            return;
        }
        out[..3].copy_from_slice(&shape.head);
        if shape.synced {
            let at = usize::from(shape.head_size & 3);
            out[at..at + 4].copy_from_slice(&self.serial.to_le_bytes());
        }
        let at = usize::from(shape.start()) % 8;
        out[at..at + 8].copy_from_slice(&self.value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_comes_back() {
        let bytes: Vec<u8> = (100..124).collect();
        let mut shapes = 0;
        for first in 0..=255 {
            let Some((shape, _)) = Shape::read(&[first, 100, 101, 102]) else { continue };
            let event = Event::read(3, &shape, &bytes);
            let mut out = [0; EVENT_ROOM];
            event.write(&shape, &mut out);
            let size = usize::from(shape.size());
            assert_eq!(out[..size], bytes[..size], "{shape:?}");
            shapes += 1;
        }
        assert_eq!(shapes, 23);
    }
}
