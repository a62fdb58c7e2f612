//! From the bytes of a file to packets: `0a`, a length, and as many bytes.
//!
//! A damaged length leads to the middle of another packet. So a packet is believed if all its fields can be
//! read, or if another one begins where it ends. Otherwise the next place is searched where a packet
//! begins that looks like one of Perfetto's, and is followed by another one or by the end of the file.

use super::schema::TRACE_PACKET;
use super::wire::Fields;
use prost::encoding::decode_varint;
use std::io::{self, Read};
use std::ops::Range;

/// The key of a packet: field 1, bytes.
const PACKET: u8 = 0x0a;

/// The longest packet that is read.
const MAX_PACKET: usize = 256 << 20;

/// The longest packet that is looked for after damage.
const MAX_RESYNC: usize = 16 << 20;

/// The number of bytes that a search may look at before it gives up.
const SEARCH_BUDGET: usize = 256 << 20;

/// What is next in a file.
#[derive(Debug)]
pub enum Frame {
    /// A packet: where it begins, and its bytes in [`Framing::bytes`].
    Packet { offset: u64, range: Range<usize> },
    /// Bytes that are no packet.
    Damage { offset: u64, bytes: u64, what: &'static str },
}

/// Reads packets. The memory is that of the largest packet, but for damage.
pub struct Framing<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where the next packet begins in the buffer, and in the file.
    at: usize,
    offset: u64,
    is_at_end: bool,
    /// Why the source could not be read further.
    pub error: Option<io::Error>,
}

impl<R: Read> Framing<R> {
    pub fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), at: 0, offset: 0, is_at_end: false, error: None }
    }

    /// How many bytes have been read as packets, or skipped.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes of a packet. They stay until the next call of [`next`](Self::next).
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// What is next; `None` at the end of the file.
    pub fn next(&mut self) -> Option<Frame> {
        // PERF: bytes are moved only if more are used than are left.
        if self.at > 1 << 16 && self.at > self.buffer.len() / 2 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        if !self.fill(1) {
            return None;
        }
        let header = self.header(self.at, MAX_PACKET);
        let Some((header, body)) = header else { return Some(self.search("not a packet")) };
        if !self.fill(header + body) {
            return Some(self.search("the file ends inside a packet"));
        }
        let range = self.at + header..self.at + header + body;
        let is_followed = self.is_followed(range.end);
        if !is_followed && Fields::of(self.bytes(&range)).any(|field| field.is_err()) {
            return Some(self.search("not a packet"));
        }
        let offset = self.offset;
        self.advance(header + body);
        Some(Frame::Packet { offset, range })
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    /// Reads until the buffer has this many bytes more than are used; `false` if the file ends before.
    fn fill(&mut self, bytes: usize) -> bool {
        while self.buffer.len() - self.at < bytes && !self.is_at_end {
            let missing = bytes - (self.buffer.len() - self.at);
            let mut part = (&mut self.source).take(missing.max(1 << 16) as u64);
            match part.read_to_end(&mut self.buffer) {
                Ok(0) => self.is_at_end = true,
                Ok(_) => {}
                Err(error) => (self.is_at_end, self.error) = (true, Some(error)),
            }
        }
        self.buffer.len() - self.at >= bytes
    }

    /// The sizes of a packet's key and length, and of its body.
    fn header(&mut self, at: usize, longest: usize) -> Option<(usize, usize)> {
        self.fill(at - self.at + 11);
        let bytes = self.buffer.get(at..)?;
        let mut rest = bytes.strip_prefix(&[PACKET])?;
        let body = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
        (body <= longest).then_some((bytes.len() - rest.len(), body))
    }

    /// Whether a packet, or nothing, begins at a place in the buffer.
    fn is_followed(&mut self, at: usize) -> bool {
        !self.fill(at - self.at + 1) || self.buffer.get(at) == Some(&PACKET)
    }

    /// Skips what cannot be read.
    fn search(&mut self, what: &'static str) -> Frame {
        let (offset, mut budget) = (self.offset, SEARCH_BUDGET);
        self.advance(1);
        while self.fill(1) {
            let next = self.buffer[self.at..].iter().position(|byte| *byte == PACKET);
            let Some(next) = next.filter(|_| budget > 0) else {
                let skipped = self.buffer.len() - self.at;
                self.advance(skipped);
                self.buffer.clear();
                self.at = 0;
                continue;
            };
            self.advance(next);
            if self.is_packet(&mut budget) {
                break;
            }
            self.advance(1);
        }
        Frame::Damage { offset, bytes: self.offset - offset, what }
    }

    /// Whether what begins here looks like a packet, with fields of the kinds that a packet has.
    fn is_packet(&mut self, budget: &mut usize) -> bool {
        let Some((header, body)) = self.header(self.at, MAX_RESYNC) else { return false };
        if body < 2 || !self.fill(header + body) {
            return false;
        }
        let range = self.at + header..self.at + header + body;
        let mut looked = 0;
        let is_plausible = Fields::of(self.bytes(&range)).all(|field| {
            looked += 1;
            field.is_ok_and(|(number, value)| TRACE_PACKET.has(number, value))
        });
        *budget = budget.saturating_sub(looked * 16);
        is_plausible && self.is_followed(range.end)
    }
}

/// The number of bytes that [`is_perfetto`] looks at, at most.
pub const HEAD: usize = 4096;

/// Whether a file that begins like this is one of Perfetto's: a packet whose fields are those of packets.
pub fn is_perfetto(head: &[u8]) -> bool {
    let Some(mut rest) = head.strip_prefix(&[PACKET]) else { return false };
    let Some(length) =
        decode_varint(&mut rest).ok().and_then(|length| usize::try_from(length).ok())
    else {
        return false;
    };
    let (body, is_whole) = match rest.get(..length) {
        Some(body) => (body, true),
        None => (rest, false),
    };
    let mut fields = 0;
    for field in Fields::of(body) {
        match field {
            Ok((number, value)) if TRACE_PACKET.has(number, value) => fields += 1,
            // A writer that is newer than the table here.
            Ok((number, _)) if number < 2_000 && fields > 0 => {}
            Err(_) if !is_whole && head.len() >= HEAD => return true,
            _ => return false,
        }
    }
    fields > 0
}
