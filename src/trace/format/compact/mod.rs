//! The compact coding of a thread's packet, for memory events: one to six bytes for each instead
//! of 13 or 22. [`docs/format.md`] draws every byte.
//!
//! A sibling of LZ4: a packet decodes to exactly the payload it was made of, by itself, without
//! the packets or the type records before it. It says what its events look like (`shape.rs`), and
//! codes each by how it differs from what both sides expect after the events before it in the
//! packet (`model.rs`). What does not fit into that is carried as it is.
//!
//! ```text
//! u16 size   u16 stream id | 0x4000   u16 decoded size   u32 checksum   body
//! body       u8 shapes | shift << 4   the shapes   the events
//! event      u8 shape << 5 | code << 2 | strange << 1 | layout
//!            0 to 6 or 8 bytes, by the code: distance of the address from the last one >> shift
//!            u16, if there is a new layout: size and alignment
//!            if it is strange, anything else that is not as expected (`strange.rs`)
//! ```
//!
//! PERF: encoding is what a program pays for, on the tracker's thread. So there are whole bytes, no
//! tables of what came before, and no branch that depends on what the program did; packets are
//! larger for it, by one to two bytes an event, which costs less than to find them.
//!
//! [`docs/format.md`]: https://github.com/memledger/memledger/blob/main/docs/format.md
#![forbid(unsafe_code)]

mod bytes;
mod decode;
mod encode;
mod model;
mod shape;
mod strange;
mod types;

pub use decode::CompactDecoder;
pub use encode::CompactEncoder;

/// Bytes in front of the body.
pub const COMPACT_HEADER: usize = 10;
/// Where the checksum lies, which covers all that stands before and behind it.
const CHECKSUM: std::ops::Range<usize> = 6..COMPACT_HEADER;
/// Most bytes a packet or a payload can have.
const LARGEST: usize = 1 << 16;
/// What may be read or written behind the last byte of either.
const SLACK: usize = 64;

/// 32 well mixed bits of all of `packet` but the checksum itself.
///
/// PERF: over words in two lanes, so that an event costs a fraction of a nanosecond. A change in
/// one word always changes its lane: xor and multiplication by an odd number lose nothing.
fn checksum(packet: &[u8]) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let (head, body) = packet.split_at(COMPACT_HEADER.min(packet.len()));
    let mut start = [0; 8];
    start[..CHECKSUM.start].copy_from_slice(head.get(..CHECKSUM.start).unwrap_or(&[0; 6]));
    let step = |lane: u64, word: [u8; 8]| {
        (lane ^ u64::from_le_bytes(word)).wrapping_mul(MIX).rotate_left(29)
    };
    let (mut even, mut odd) = (step(1, start), 2);
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
