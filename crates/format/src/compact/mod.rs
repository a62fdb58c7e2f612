//! The compact coding of a thread's packet, for memory events: one to six bytes for each instead
//! of 13 or 22. [`docs/formats.md`] has the rules, and a packet byte by byte.
//!
//! The coding is an alternative to LZ4: a packet decodes to exactly its payload, without the
//! packets or the type records before it. A packet lists the shapes of its events (`shape.rs`).
//! Encoder and decoder compute the same expectation of each event from the events before it in the
//! packet (`model.rs`), and the packet has only the differences from it. Bytes without a shape are
//! copied.
//!
//! ```text
//! u16 size   u16 stream id | 0x4000   u16 decoded size   u32 checksum   body
//! body       u8 shapes | table of stacks << 3 | shift << 4   the shapes   the events
//! event      u8 shape << 5 | code << 2 | escape << 1 | layout
//!            0 to 6 or 8 bytes, by the code: distance of the address from the last one >> shift
//!            in a packet with a table of stacks: the call stack, 1 to 5 bytes (`stacks.rs`)
//!            u16, if there is a new layout: size and alignment
//!            if the escape bit is set: all other fields that are not as expected (`escape.rs`)
//! ```
//!
//! PERF: the tracker's thread encodes while the program runs. So the coding has whole bytes, no
//! tables of earlier events apart from that of stacks, and no branch that depends on the order of
//! allocations and frees. This adds one to two bytes to each event, but saving those bytes would
//! cost more time than it is worth. With the table, which adds half of that time and more, the stacks of
//! a program take no more bytes than the layouts that they predict.
//!
//! [`docs/formats.md`]: https://github.com/memledger/memledger/blob/main/docs/formats.md
#![forbid(unsafe_code)]

mod bytes;
mod decode;
mod encode;
mod escape;
mod model;
mod shape;
mod stacks;
mod types;

pub use decode::CompactDecoder;
pub use encode::CompactEncoder;
pub(crate) use shape::{Body, Shape};
pub(crate) use types::Types;

/// Set in the stream id of a compact packet.
pub(super) const COMPACT: u16 = 0x4000;
/// Bytes before the body.
pub const COMPACT_HEADER: usize = 10;
/// The position of the checksum, which covers all other bytes of the packet.
const CHECKSUM: std::ops::Range<usize> = 6..COMPACT_HEADER;
/// The maximum number of bytes of a packet or a payload.
const MAX_PACKET_BYTES: usize = 1 << 16;
/// The number of bytes after the end of a packet or a payload that may be read or written.
const SLACK: usize = 64;

/// A 32-bit checksum of all of `packet` but the checksum itself.
///
/// PERF: words alternate between two lanes, so an event costs a fraction of a nanosecond. A change
/// in one word always changes its lane: xor and multiplication by an odd number lose nothing.
fn checksum(packet: &[u8]) -> u32 {
    let (head, body) = packet.split_at(COMPACT_HEADER.min(packet.len()));
    let mut start = [0; 8];
    start[..CHECKSUM.start].copy_from_slice(head.get(..CHECKSUM.start).unwrap_or(&[0; 6]));
    checksum_of(u64::from_le_bytes(start), body)
}

/// The checksum of `body`, after a word.
pub(crate) fn checksum_of(start: u64, body: &[u8]) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |lane: u64, word: [u8; 8]| {
        (lane ^ u64::from_le_bytes(word)).wrapping_mul(MIX).rotate_left(29)
    };
    let (mut even, mut odd) = (step(1, start.to_le_bytes()), 2);
    let (pairs, rest) = body.as_chunks::<16>();
    for pair in pairs {
        let (words, _) = pair.as_chunks::<8>();
        even = step(even, words[0]);
        odd = step(odd, words[1]);
    }
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let (words, _) = last.as_chunks::<8>();
    let all = step(step(step(even, words[0]), words[1]), odd.to_le_bytes());
    (all ^ all >> 32) as u32
}
