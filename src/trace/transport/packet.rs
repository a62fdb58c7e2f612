//! Packets: a header of four or six bytes, then a piece of one stream.
//!
//! ```text
//! plain    u16 size (header included)   u16 stream id            payload
//! encoded  u16 size (header included)   u16 stream id | 0x8000   u16 decoded size   LZ4 block
//! sync     04 00 ff 3f
//! ```

/// Bytes of a plain header, and of the part that both headers share.
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
/// The last stream that belongs to a thread.
pub const LAST_THREAD: u16 = 0x3ff0;
/// Events of a thread stream's form that belong to no thread (protocol 7).
pub const PSEUDO_IMPORTANTS: u16 = 0x3ffe;
/// The stream id of sync packets, which have no payload.
pub const SYNC: u16 = 0x3fff;

const STREAM_MASK: u16 = 0x3fff;
/// Set in the stream id of a compact packet.
pub(super) const COMPACT: u16 = 0x4000;
const ENCODED: u16 = 0x8000;

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole packet, header included.
    pub size: usize,
    /// Which stream the payload belongs to.
    pub stream: u16,
    /// Whether the payload is an LZ4 block behind a `u16` decoded size.
    pub encoded: bool,
}

impl Header {
    /// Reads the four bytes that every packet starts with; `None` if no writer writes them.
    pub fn decode(bytes: [u8; HEADER]) -> Option<Self> {
        let size = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let tag = u16::from_le_bytes([bytes[2], bytes[3]]);
        let header = Self { size, stream: tag & STREAM_MASK, encoded: tag & ENCODED != 0 };
        let least = if header.encoded { ENCODED_HEADER + 1 } else { HEADER };
        let known = match header.stream {
            SYNC => size == HEADER && !header.encoded,
            stream => stream <= LAST_THREAD || stream == PSEUDO_IMPORTANTS,
        };
        (known && size >= least && tag & COMPACT == 0).then_some(header)
    }
}

/// Appends packets to a buffer of bytes.
#[cfg(feature = "enable")]
pub(crate) struct PacketWriter {
    compressor: super::lz4::Compressor,
}

#[cfg(feature = "enable")]
impl PacketWriter {
    pub(crate) fn new() -> Self {
        Self { compressor: super::lz4::Compressor::new() }
    }

    /// Appends one packet, encoded where that is smaller. `payload` has at most [`MAX_PAYLOAD`]
    /// bytes and is not empty.
    pub(crate) fn packet(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(!payload.is_empty() && payload.len() <= MAX_PAYLOAD);
        let start = out.len();
        out.extend_from_slice(&[0; ENCODED_HEADER]);
        let tag = if self.compressor.append(payload, out) {
            out[start + HEADER..start + ENCODED_HEADER]
                .copy_from_slice(&(payload.len() as u16).to_le_bytes());
            stream | ENCODED
        } else {
            out.truncate(start + HEADER);
            out.extend_from_slice(payload);
            stream
        };
        let size = (out.len() - start) as u16;
        out[start..start + 2].copy_from_slice(&size.to_le_bytes());
        out[start + 2..start + HEADER].copy_from_slice(&tag.to_le_bytes());
    }

    /// Appends a sync packet.
    pub(crate) fn sync(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[4, 0, 0xff, 0x3f]);
    }
}

#[cfg(all(test, feature = "enable"))]
mod tests {
    use super::*;
    use crate::trace::transport::lz4;

    #[test]
    fn exact_bytes_of_a_plain_packet_and_a_sync() {
        let (mut writer, mut out) = (PacketWriter::new(), Vec::new());
        writer.packet(5, &[1, 2, 3], &mut out);
        writer.sync(&mut out);
        assert_eq!(out, [7, 0, 5, 0, 1, 2, 3, 4, 0, 0xff, 0x3f]);
        let header = Header::decode([4, 0, 0xff, 0x3f]).unwrap();
        assert_eq!(header, Header { size: 4, stream: SYNC, encoded: false });
    }

    #[test]
    fn round_trip_around_the_compression_limit_and_at_the_largest_size() {
        for size in [1, 383, 384, 385, 4096, 32 * 1024, MAX_PAYLOAD] {
            for fill in [|_| 7, |i: usize| (i.wrapping_mul(2_654_435_761) >> 11) as u8] {
                let payload = (0..size).map(fill).collect::<Vec<u8>>();
                let (mut writer, mut out) = (PacketWriter::new(), Vec::new());
                writer.packet(9, &payload, &mut out);
                let header = Header::decode(out[..4].try_into().unwrap()).unwrap();
                assert_eq!((header.size, header.stream), (out.len(), 9));
                if header.encoded {
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
    fn headers_that_no_writer_writes_are_refused() {
        for bytes in
            [[3, 0, 2, 0], [6, 0, 2, 0x80], [8, 0, 2, 0x40], [8, 0, 0xf1, 0x3f], [5, 0, 0xff, 0x3f]]
        {
            assert_eq!(Header::decode(bytes), None, "{bytes:?}");
        }
    }
}
