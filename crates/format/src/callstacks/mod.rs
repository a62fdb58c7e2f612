//! Call stacks in the stream. A stack has the outer frames of a stack before it, and inner frames of its own.
//! [`docs/format.md`] draws every byte.
//!
//! ```text
//! stack         outer inner
//! outer         0, u8 reason                            none but its own: `Memledger.CallstackEnd` has the reasons
//!               id - other id, frames to leave out      those of the other stack, without its innermost ones
//! inner         2 frames, the frames                    outermost first, each as its distance from the one before, zigzag
//!               2 frames + 1, id of another             as many as the other has itself
//!               1                                       not kept
//! ```
//! All numbers are varints; ids count up from `First`. The first frame of an event is the distance from 0.
//!
//! [`docs/format.md`]: https://github.com/memledger/memledger/blob/main/docs/format.md

mod expand;

pub use expand::Expander;

use crate::encode::{Declaration, Value};
use crate::protobuf::push_varint;
use crate::schema::{
    FieldType::{U8Array, U32},
    NO_SYNC,
};

/// The stacks with the ids from `First` on, without a gap.
pub static CALLSTACKS: Declaration = Declaration {
    uid: 58,
    logger: "Memledger",
    event: "Callstacks",
    flags: NO_SYNC,
    fields: &[("First", U32), ("Stacks", U8Array)],
};

/// A packet of stacks is complete at this many bytes; its last stack may exceed them.
pub const PACKET: usize = 24 << 10;

/// The most frames of a stack; a reader leaves further ones out.
pub const MOST_FRAMES: usize = 255;

/// The bit of an address that says that the frame is a guess: it was found by a frame pointer, or is further out than such
/// a frame.
pub const GUESS: u64 = 1 << 62;

/// The reason in `Memledger.CallstackEnd` for a stack that lacks its inner frames, because there was no memory for them.
pub const INNER_NOT_KEPT: u8 = 5;
/// The reason for a stack whose outer frames are those of a stack that the trace lacks.
pub const OUTER_LOST: u8 = 6;

/// The outer frames of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// None but its own. The reason why there are none further out, 0 if it is whole.
    End(u8),
    /// Those of another stack without its innermost ones.
    Of {
        /// The other stack.
        id: u32,
        /// The number of frames that are left out.
        without: u32,
    },
}

/// The frames of a stack that are further in than those of [`Outer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner<'a> {
    /// Return addresses, outermost first; with [`GUESS`] if they are one.
    Frames(&'a [u64]),
    /// As many as another stack was given itself, the same.
    SameAs {
        /// The other stack.
        id: u32,
        /// Their number.
        frames: u32,
    },
    /// There are some, but they were not kept.
    NotKept,
}

/// One stack of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callstack<'a> {
    /// Its `CallstackId`.
    pub id: u32,
    /// Its outer frames.
    pub outer: Outer,
    /// Its inner frames.
    pub inner: Inner<'a>,
}

/// Writes stacks to events.
#[derive(Debug, Default)]
pub struct CallstackWriter {
    first: u32,
    count: u32,
    stacks: Vec<u8>,
    last: u64,
}

impl CallstackWriter {
    /// Adds a stack. The event before it ends here if it cannot have this one.
    pub fn add(&mut self, stack: &Callstack<'_>, out: &mut Vec<u8>) {
        if stack.id != self.first.wrapping_add(self.count) {
            self.end_event(out);
            self.first = stack.id;
        }
        self.count += 1;
        match stack.outer {
            Outer::End(reason) => self.stacks.extend([0, reason]),
            Outer::Of { id, without } => {
                self.number(stack.id.wrapping_sub(id).into());
                self.number(without.into());
            }
        }
        match stack.inner {
            Inner::Frames(frames) => {
                self.number((frames.len() as u64) << 1);
                for &frame in frames {
                    let distance = frame.wrapping_sub(self.last) as i64;
                    self.number(((distance << 1) ^ (distance >> 63)) as u64);
                    self.last = frame;
                }
            }
            Inner::SameAs { id, frames } => {
                self.number(u64::from(frames) << 1 | 1);
                self.number(id.into());
            }
            Inner::NotKept => self.number(1),
        }
    }

    /// Ends the event of the stacks so far.
    pub fn end_event(&mut self, out: &mut Vec<u8>) {
        if self.count > 0 {
            let values = [self.first.into(), Value::Elements(&self.stacks, 1)];
            CALLSTACKS.append(&values, out);
        }
        self.stacks.clear();
        (self.count, self.last) = (0, 0);
    }

    /// The stacks in the event that has not ended.
    pub fn list(&self) -> &[u8] {
        &self.stacks
    }

    fn number(&mut self, value: u64) {
        push_varint(&mut self.stacks, value);
    }
}

/// Visits the stacks of an event, with `frames` as memory. Returns whether all of `bytes` could be read; a stack that
/// cannot be read whole is not visited.
pub fn visit(
    first: u32,
    mut bytes: &[u8],
    frames: &mut Vec<u64>,
    mut visit: impl FnMut(Callstack<'_>),
) -> bool {
    let (mut id, mut last) = (first, 0);
    while !bytes.is_empty() {
        let Some((outer, inner)) = read(id, &mut bytes, frames, &mut last) else { return false };
        let inner = match inner {
            Read::Own => Inner::Frames(frames),
            Read::SameAs { id, frames } => Inner::SameAs { id, frames },
            Read::NotKept => Inner::NotKept,
        };
        visit(Callstack { id, outer, inner });
        let Some(next) = id.checked_add(1) else { return bytes.is_empty() };
        id = next;
    }
    true
}

/// [`Inner`] before its frames are lent.
enum Read {
    Own,
    SameAs { id: u32, frames: u32 },
    NotKept,
}

fn read(
    id: u32,
    bytes: &mut &[u8],
    frames: &mut Vec<u64>,
    last: &mut u64,
) -> Option<(Outer, Read)> {
    let outer = match number(bytes)? {
        0 => {
            let (&reason, rest) = bytes.split_first()?;
            *bytes = rest;
            Outer::End(reason)
        }
        distance => {
            let other = id.checked_sub(u32::try_from(distance).ok()?)?;
            let without = number(bytes)?.try_into().ok()?;
            // 0 is no stack.
            if other == 0 { Outer::End(OUTER_LOST) } else { Outer::Of { id: other, without } }
        }
    };
    let code = number(bytes)?;
    let count = u32::try_from(code >> 1).ok()?;
    if code == 1 {
        return Some((outer, Read::NotKept));
    }
    if code & 1 != 0 {
        let id = number(bytes)?.try_into().ok()?;
        return Some((outer, Read::SameAs { id, frames: count }));
    }
    frames.clear();
    for _ in 0..count {
        let zigzag = number(bytes)?;
        *last = last.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg());
        frames.push(*last);
    }
    Some((outer, Read::Own))
}

/// The varint that `bytes` begin with, which are then without it.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
