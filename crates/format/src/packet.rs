//! Packets: a header of four or six bytes, then a piece of one stream.
//!
//! ```text
//! plain    u16 size (header included)   u16 stream id            payload
//! encoded  u16 size (header included)   u16 stream id | 0x8000   u16 decoded size   LZ4 block
//! compact  u16 size (header included)   u16 stream id | 0x4000   see [`compact`](super::compact)
//! sync     04 00 ff 3f
//!
//! of Unreal Engine 4:
//! thread   as plain and encoded; the stream id has 15 bits, and there are no sync packets
//! batch    u16 serial (| 0x8000 if encoded)   u16 size (header included)   the same
//! ```

use super::callstacks::Expander;
use super::compact::{self, COMPACT, COMPACT_HEADER};
use super::handshake::Transport;
use super::lz4;

/// Bytes of a plain header, and of the common part of all headers.
pub const HEADER: usize = 4;
/// Bytes of the header of an encoded packet.
pub const ENCODED_HEADER: usize = 6;
/// The largest payload a plain packet can carry.
pub const MAX_PAYLOAD: usize = u16::MAX as usize - HEADER;

/// The stream of type records.
pub const TYPES: u16 = 0;
/// The stream of important events.
pub const IMPORTANTS: u16 = 1;
/// The first stream that belongs to a thread.
pub const FIRST_THREAD: u16 = 2;
/// The last stream of our writer's own events, which are on the streams from [`FIRST_THREAD`] to
/// this one. The streams of the program's threads follow.
pub const LAST_OWN: u16 = FIRST_THREAD + 2;
/// The last stream that belongs to a thread.
pub const LAST_THREAD: u16 = 0x3ff0;
/// The stream of events that have the form of a thread's events, but belong to no thread (protocol
/// 7).
pub const PSEUDO_IMPORTANTS: u16 = 0x3ffe;
/// The stream id of sync packets, which have no payload.
pub const SYNC: u16 = 0x3fff;

const STREAM_MASK: u16 = 0x3fff;
const ENCODED: u16 = 0x8000;

/// How the payload of a packet is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// The bytes of the payload, unchanged.
    Plain,
    /// A `u16` decoded size, then an LZ4 block.
    Lz4,
    /// [`compact`]; in our own transport only.
    Compact,
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Bytes of the whole packet, header included.
    pub size: usize,
    /// Which stream the payload belongs to.
    pub stream: u16,
    /// How the payload is coded.
    pub coding: Coding,
}

impl Header {
    /// Decodes the first four bytes of a packet; `None` if no writer writes such a header.
    pub fn decode(bytes: [u8; HEADER], transport: Transport) -> Option<Self> {
        let size = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let tag = u16::from_le_bytes([bytes[2], bytes[3]]);
        let (size, tag) = match transport {
            Transport::Unreal | Transport::Compact => (size, tag),
            Transport::Thread => return Self::of_engine_4(size, tag, tag & !ENCODED),
            Transport::Batch => return Self::of_engine_4(tag.into(), size as u16, 0),
            Transport::Raw | Transport::Packed => return None,
        };
        let (coding, least) = match (tag & ENCODED != 0, tag & COMPACT != 0) {
            (false, false) => (Coding::Plain, HEADER),
            (true, false) => (Coding::Lz4, ENCODED_HEADER + 1),
            (false, true) if transport == Transport::Compact => {
                (Coding::Compact, COMPACT_HEADER + 1)
            }
            _ => return None,
        };
        let header = Self { size, stream: tag & STREAM_MASK, coding };
        let known = match header.stream {
            SYNC => size == HEADER && coding == Coding::Plain,
            stream => stream <= LAST_THREAD || stream == PSEUDO_IMPORTANTS,
        };
        (known && size >= least).then_some(header)
    }

    /// A header whose highest bit of `tag` says whether the packet is encoded.
    fn of_engine_4(size: usize, tag: u16, stream: u16) -> Option<Self> {
        let (coding, least) = match tag & ENCODED {
            0 => (Coding::Plain, HEADER),
            _ => (Coding::Lz4, ENCODED_HEADER + 1),
        };
        (size >= least).then_some(Self { size, stream, coding })
    }

    /// Whether this is a sync packet.
    pub fn is_sync(&self, transport: Transport) -> bool {
        self.stream == SYNC && matches!(transport, Transport::Unreal | Transport::Compact)
    }
}

/// Appends packets to a vector. It chooses the smallest coding, but does not try LZ4 on a packet of a thread
/// that compact coding has halved. In Unreal's transport, it writes each call stack by itself, because
/// Unreal's readers do not know `Memledger.Callstacks`.
#[derive(Debug)]
pub struct PacketWriter {
    coder: Coder,
    /// In Unreal's transport.
    expander: Option<Expander>,
}

#[derive(Debug)]
struct Coder {
    compressor: lz4::Compressor,
    compact: Option<compact::CompactEncoder>,
}

impl PacketWriter {
    /// A writer for a stream of this transport and this protocol, 5 to 7. Not for
    /// [`Transport::Packed`], which has no packets of this kind.
    pub fn new(transport: Transport, protocol: u8) -> Self {
        let is_compact = transport == Transport::Compact;
        Self {
            coder: Coder {
                compressor: lz4::Compressor::new(),
                compact: is_compact.then(|| compact::CompactEncoder::new(protocol)),
            },
            expander: (!is_compact).then(|| Expander::new(protocol)),
        }
    }

    /// Appends `payload` as one packet, or as several if it is too large for one: the decoded size
    /// of a packet has 16 bits, and a plain packet carries at most [`MAX_PAYLOAD`] bytes.
    pub fn packet(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(stream < SYNC);
        let Self { coder, expander } = self;
        if let Some(expander) = expander {
            if stream == TYPES {
                expander.learn(payload);
            }
            // NOTE: a packet of these streams begins with an event.
            if (FIRST_THREAD..=LAST_OWN).contains(&stream)
                && expander.expand(payload, |payload| coder.packet(stream, payload, out))
            {
                return;
            }
        }
        coder.packet(stream, payload, out);
    }

    /// Appends a sync packet.
    pub fn sync(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[4, 0, 0xff, 0x3f]);
    }
}

impl Coder {
    fn packet(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) {
        let pieces = payload.chunks(u16::MAX.into()).chain(payload.is_empty().then_some(payload));
        pieces.for_each(|piece| self.piece(stream, piece, out));
    }

    fn piece(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(compact) = &mut self.compact {
            if stream == TYPES {
                compact.learn(payload);
            }
            // PERF: LZ4 costs several times as much, and memory events do not need it.
            if (FIRST_THREAD..=LAST_THREAD).contains(&stream)
                && compact.append(stream, payload, out)
            {
                let size = out.len() - start;
                if size <= payload.len() / 2 || !self.lz4(stream, payload, out) {
                    return;
                }
                let second = out.len() - start - size;
                if second < size {
                    out.drain(start..start + size);
                } else {
                    out.truncate(start + size);
                }
                return;
            }
        }
        if self.lz4(stream, payload, out) {
            return;
        }
        for payload in payload.chunks(MAX_PAYLOAD).chain(payload.is_empty().then_some(payload)) {
            out.extend_from_slice(&((payload.len() + HEADER) as u16).to_le_bytes());
            out.extend_from_slice(&stream.to_le_bytes());
            out.extend_from_slice(payload);
        }
    }

    /// Appends the packet as an LZ4 block, if that is smaller than a plain packet; returns whether
    /// it is.
    fn lz4(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.extend_from_slice(&[0; ENCODED_HEADER]);
        let smaller = self.compressor.append(payload, out);
        let size = out.len() - start;
        if !smaller || size > usize::from(u16::MAX) {
            out.truncate(start);
            return false;
        }
        let header = [size as u16, stream | ENCODED, payload.len() as u16];
        out[start..start + ENCODED_HEADER]
            .copy_from_slice(header.map(u16::to_le_bytes).as_flattened());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lz4;
    use crate::unpack::Unpacker;

    #[test]
    fn exact_bytes_of_a_plain_packet_and_a_sync() {
        let (mut writer, mut out) = (PacketWriter::new(Transport::Unreal, 7), Vec::new());
        writer.packet(5, &[1, 2, 3], &mut out);
        writer.sync(&mut out);
        assert_eq!(out, [7, 0, 5, 0, 1, 2, 3, 4, 0, 0xff, 0x3f]);
        let header = Header::decode([4, 0, 0xff, 0x3f], Transport::Unreal).unwrap();
        assert_eq!(header, Header { size: 4, stream: SYNC, coding: Coding::Plain });
    }

    #[test]
    fn round_trip_around_the_compression_limit_and_at_the_largest_size() {
        for size in [1, 383, 384, 385, 4096, 32 * 1024, MAX_PAYLOAD] {
            for fill in [|_| 7, |i: usize| (i.wrapping_mul(2_654_435_761) >> 11) as u8] {
                let payload = (0..size).map(fill).collect::<Vec<u8>>();
                let (mut writer, mut out) = (PacketWriter::new(Transport::Unreal, 7), Vec::new());
                writer.packet(9, &payload, &mut out);
                let header =
                    Header::decode(out[..4].try_into().unwrap(), Transport::Unreal).unwrap();
                assert_eq!((header.size, header.stream), (out.len(), 9));
                if header.coding == Coding::Lz4 {
                    let mut decoded = vec![0; u16::from_le_bytes([out[4], out[5]]).into()];
                    lz4::decode(&out[ENCODED_HEADER..], &mut decoded).unwrap();
                    assert_eq!(decoded, payload);
                    assert!(out.len() < payload.len() + HEADER);
                } else {
                    assert_eq!(out[HEADER..], payload);
                }
            }
        }
    }

    #[test]
    fn a_payload_of_any_size_comes_back() {
        for transport in [Transport::Unreal, Transport::Compact] {
            for size in [0, MAX_PAYLOAD + 1, 65_535, 65_536, 200_000] {
                let payload: Vec<u8> = (0..size).map(|at| (at >> 3) as u8 | 1).collect();
                let (mut writer, mut out) = (PacketWriter::new(transport, 7), Vec::new());
                writer.packet(IMPORTANTS, &payload, &mut out);
                let (mut unpacker, mut decoded) = (Unpacker::new(), Vec::new());
                let mut rest = &out[..];
                while !rest.is_empty() {
                    let header = Header::decode(rest[..4].try_into().unwrap(), transport).unwrap();
                    let (packet, after) = rest.split_at(header.size);
                    decoded.extend_from_slice(unpacker.payload(&header, packet).unwrap());
                    rest = after;
                }
                assert_eq!(decoded, payload, "{size} bytes");
            }
        }
    }

    #[test]
    fn headers_that_no_writer_writes_are_refused() {
        for bytes in
            [[3, 0, 2, 0], [6, 0, 2, 0x80], [8, 0, 2, 0x40], [8, 0, 0xf1, 0x3f], [5, 0, 0xff, 0x3f]]
        {
            assert_eq!(Header::decode(bytes, Transport::Unreal), None, "{bytes:?}");
        }
        let compact = |bytes| Header::decode(bytes, Transport::Compact);
        assert_eq!(compact([11, 0, 2, 0x40]).unwrap().coding, Coding::Compact);
        for bytes in [[10, 0, 2, 0x40], [11, 0, 2, 0xc0], [11, 0, 0xff, 0x7f]] {
            assert_eq!(compact(bytes), None, "{bytes:?}");
        }
    }
}
