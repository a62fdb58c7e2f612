//! Call stacks in the stream. A stack has the outer frames of a stack before it, and inner frames of its own.
//! [`docs/formats.md`] draws every byte.
//!
//! ```text
//! stack         outer inner
//! outer         0, u8 reason                            none but its own; reasons: `Memledger.CallstackEnd`
//!               id - other id, frames to leave out      the other stack's, without its innermost ones
//! inner         2 frames, the frames                    outermost first, each minus the one before, zigzag
//!               1                                       not kept
//!               3, id of another                        those of the other
//! ```
//! All numbers are varints; ids count up from `First`. The first frame of an event is the distance from 0.
//!
//! [`docs/formats.md`]: https://github.com/memledger/memledger/blob/main/docs/formats.md

mod expand;

pub use expand::Expander;

use crate::encode::{Declaration, Value};
use crate::protobuf::{push_varint, take_varint, unzigzag, zigzag};
use crate::schema::{
    FieldType::{U8, U8Array, U32, U64Array},
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

/// The return addresses of a stack, innermost first. Only for Unreal's readers: the writer of packets makes
/// these of [`CALLSTACKS`].
pub static CALLSTACK_SPEC: Declaration = Declaration {
    uid: 54,
    logger: "Memory",
    event: "CallstackSpec",
    flags: NO_SYNC,
    fields: &[("CallstackId", U32), ("Frames", U64Array)],
};

/// The stack before this event has more frames than it says, by `Reason`: 1 the limit on frames, 2 code
/// without unwind information, 3 memory that cannot be read, 4 a library that came or went. Or 5: it lacks
/// its inner frames, because there was no memory for them. Or 6: it lacks its outer frames, which were in a
/// part of the trace that is lost.
pub static CALLSTACK_END: Declaration = Declaration {
    uid: 55,
    logger: "Memledger",
    event: "CallstackEnd",
    flags: NO_SYNC,
    fields: &[("CallstackId", U32), ("Reason", U8)],
};

/// The frames of the stack before this event from the index `From` on, counted from the innermost one, were
/// found by a frame pointer or are further out than such a frame. Only for readers of [`CALLSTACK_SPEC`].
pub static CALLSTACK_GUESS: Declaration = Declaration {
    uid: 59,
    logger: "Memledger",
    event: "CallstackGuess",
    flags: NO_SYNC,
    fields: &[("CallstackId", U32), ("From", U8)],
};

/// A packet of stacks is complete at this many bytes; its last stack may exceed them.
pub const PACKET: usize = 24 << 10;

/// The most frames of a stack; a reader leaves further ones out.
pub const MAX_FRAMES: usize = 255;

/// The bit of an address that says that the frame is a guess: it was found by a frame pointer, or is further
/// out than such a frame.
pub const GUESS: u64 = 1 << 62;

/// The reason in `Memledger.CallstackEnd` for a stack that lacks its inner frames, because there was no
/// memory for them.
pub const INNER_NOT_KEPT: u8 = 5;
/// The reason for a stack whose outer frames are those of a stack that the trace lacks.
pub const OUTER_LOST: u8 = 6;

/// In place of the number of inner frames: there are some, but not in the trace; and those of another stack.
const NOT_KEPT: u64 = 1;
const SAME: u64 = 3;

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
    /// Those that this other stack was given.
    SameAs(u32),
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
                    self.number(zigzag(frame.wrapping_sub(self.last)));
                    self.last = frame;
                }
            }
            Inner::NotKept => self.number(NOT_KEPT),
            Inner::SameAs(id) => {
                self.number(SAME);
                self.number(id.into());
            }
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

/// Visits the stacks of an event, with `frames` as memory. Returns whether all of `bytes` could be read; a
/// stack that cannot be read whole is not visited.
pub fn visit(
    first: u32,
    mut bytes: &[u8],
    frames: &mut Vec<u64>,
    mut visit: impl FnMut(Callstack<'_>),
) -> bool {
    let (mut id, mut last) = (first, 0);
    while !bytes.is_empty() {
        let outer = read_outer(id, &mut bytes);
        let inner = read_inner(&mut bytes, frames, &mut last);
        let Some((outer, inner)) = outer.zip(inner) else { return false };
        visit(Callstack { id, outer, inner });
        let Some(next) = id.checked_add(1) else { return bytes.is_empty() };
        id = next;
    }
    true
}

fn read_outer(id: u32, bytes: &mut &[u8]) -> Option<Outer> {
    let distance = u32::try_from(take_varint(bytes)?).ok()?;
    if distance == 0 {
        let (&reason, rest) = bytes.split_first()?;
        *bytes = rest;
        return Some(Outer::End(reason));
    }
    let (other, without) = (id.checked_sub(distance)?, take_varint(bytes)?.try_into().ok()?);
    // 0 is no stack.
    Some(if other == 0 { Outer::End(OUTER_LOST) } else { Outer::Of { id: other, without } })
}

fn read_inner<'a>(
    bytes: &mut &[u8],
    frames: &'a mut Vec<u64>,
    last: &mut u64,
) -> Option<Inner<'a>> {
    match take_varint(bytes)? {
        NOT_KEPT => Some(Inner::NotKept),
        SAME => Some(Inner::SameAs(take_varint(bytes)?.try_into().ok()?)),
        odd if odd & 1 != 0 => None,
        twice => {
            frames.clear();
            for _ in 0..twice / 2 {
                *last = last.wrapping_add(unzigzag(take_varint(bytes)?));
                frames.push(*last);
            }
            Some(Inner::Frames(frames))
        }
    }
}

#[cfg(test)]
mod tests;
