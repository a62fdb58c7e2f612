//! The header of a chunk, and the list of the chunks of a file.

use crate::compact::checksum_of;

/// Bytes of a header.
pub const CHUNK_HEADER: usize = 48;
/// The first four bytes of each chunk.
pub const CHUNK_MAGIC: [u8; 4] = *b"MLPK";
/// The most bytes of a chunk, header included.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;
/// The most bytes that the payloads of a chunk have together.
pub const MAX_CHUNK_PAYLOAD: usize = 16 << 20;
/// The most packets of a chunk.
pub const MAX_CHUNK_PACKETS: u32 = 1 << 16;
/// The most events of a chunk that are coded by their fields.
pub const MAX_CHUNK_EVENTS: u32 = (1 << 18) + (1 << 16);

const HAS_SERIAL: u32 = 1 << 31;
const HAS_TYPES: u32 = 1 << 30;
const HAS_IMPORTANTS: u32 = 1 << 29;

/// What a chunk has, without its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkHeader {
    /// Its number: 0 for the first one of a file.
    pub number: u32,
    /// Bytes of the chunk without the header.
    pub body_bytes: u32,
    /// The checksum of these bytes.
    pub body_checksum: u32,
    /// Bytes of the payloads of its packets.
    pub payload_bytes: u32,
    /// Packets, sync packets included.
    pub packets: u32,
    /// Events that are coded by their fields: memory events and scopes.
    pub events: u32,
    /// The number of those in all chunks before.
    pub events_before: u64,
    /// The 24 bits of the first serial, if an event has one.
    pub first_serial: Option<u32>,
    /// Whether it has type records; a reader needs all of them before the events of a later chunk.
    pub has_types: bool,
    /// Whether it has important events.
    pub has_importants: bool,
}

impl ChunkHeader {
    /// Its bytes.
    pub(super) fn encode(&self) -> [u8; CHUNK_HEADER] {
        let flag = |is_there: bool, flag: u32| if is_there { flag } else { 0 };
        let facts = flag(self.has_types, HAS_TYPES)
            | flag(self.has_importants, HAS_IMPORTANTS)
            | self.first_serial.map_or(0, |serial| serial | HAS_SERIAL);
        let mut bytes = [0; CHUNK_HEADER];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        let fields = [
            self.number,
            self.body_bytes,
            self.body_checksum,
            self.payload_bytes,
            self.packets,
            self.events,
            facts,
        ];
        bytes[8..36].copy_from_slice(fields.map(u32::to_le_bytes).as_flattened());
        bytes[36..44].copy_from_slice(&self.events_before.to_le_bytes());
        let sum = checksum_of(0, &bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header that `bytes` begin with; `None` if they begin with none, or it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<CHUNK_HEADER>()?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        if words[0] != CHUNK_MAGIC || word(1) != checksum_of(0, &bytes[8..]) {
            return None;
        }
        let facts = word(8);
        let header = Self {
            number: word(2),
            body_bytes: word(3),
            body_checksum: word(4),
            payload_bytes: word(5),
            packets: word(6),
            events: word(7),
            events_before: u64::from(word(9)) | u64::from(word(10)) << 32,
            first_serial: (facts & HAS_SERIAL != 0).then_some(facts & 0xff_ffff),
            has_types: facts & HAS_TYPES != 0,
            has_importants: facts & HAS_IMPORTANTS != 0,
        };
        let is_possible = header.size() <= MAX_CHUNK_BYTES
            && header.payload_bytes as usize <= MAX_CHUNK_PAYLOAD
            && header.packets <= MAX_CHUNK_PACKETS
            && header.events <= MAX_CHUNK_EVENTS;
        is_possible.then_some(header)
    }

    /// Bytes of the chunk, header included.
    pub fn size(&self) -> usize {
        CHUNK_HEADER + self.body_bytes as usize
    }

    /// Whether `body` is undamaged.
    pub fn fits(&self, body: &[u8]) -> bool {
        body.len() == self.body_bytes as usize && checksum_of(1, body) == self.body_checksum
    }
}

/// The offset of the first chunk that begins in `bytes`, from `from` on. Only its header is looked
/// at.
pub fn find_chunk(bytes: &[u8], from: usize) -> Option<usize> {
    (from..bytes.len().saturating_sub(CHUNK_HEADER - 1))
        .find(|&at| bytes[at] == CHUNK_MAGIC[0] && ChunkHeader::decode(&bytes[at..]).is_some())
}

/// The chunks of a file, without decoding them: the offset of each, and its header. `bytes` are
/// those of the file, `start` is the size of its handshake. Bytes that are no chunk are passed over.
///
/// # Examples
/// ```
/// use memledger_format::packed::{ChunkDecoder, PackedEncoder, chunks};
///
/// let (mut encoder, mut out) = (PackedEncoder::new(7), Vec::new());
/// encoder.packet(5, &[1, 2, 3], &mut out);
/// encoder.finish(&mut out);
/// let (offset, header) = chunks(&out, 0).next().unwrap();
/// assert_eq!((offset, header.packets), (0, 1));
/// let mut decoder = ChunkDecoder::new();
/// decoder.open(&out[offset..])?;
/// assert_eq!(decoder.packet()?, Some((5, &[1, 2, 3][..])));
/// # Ok::<(), String>(())
/// ```
pub fn chunks(bytes: &[u8], start: usize) -> impl Iterator<Item = (usize, ChunkHeader)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let offset = find_chunk(bytes, at)?;
        let header = ChunkHeader::decode(bytes.get(offset..)?)?;
        at = offset + header.size();
        Some((offset, header))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::ChunkDecoder;

    fn header() -> ChunkHeader {
        ChunkHeader {
            number: 3,
            body_bytes: 0x0405,
            body_checksum: 7,
            payload_bytes: 9,
            packets: 11,
            events: 13,
            events_before: 0x0102_0304_0506,
            first_serial: Some(0x0a_0b0c),
            has_types: true,
            has_importants: false,
        }
    }

    #[test]
    fn exact_bytes_and_back() {
        let bytes = header().encode();
        assert_eq!(bytes[..4], *b"MLPK");
        assert_eq!(bytes[8..16], [3, 0, 0, 0, 5, 4, 0, 0]);
        assert_eq!(bytes[32..44], [0x0c, 0x0b, 0x0a, 0xc0, 6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!(ChunkHeader::decode(&bytes), Some(header()));
    }

    #[test]
    fn a_header_with_any_damage_is_none() {
        let bytes = header().encode();
        for at in 0..CHUNK_HEADER * 8 {
            let mut damaged = bytes;
            damaged[at / 8] ^= 1 << (at % 8);
            assert_eq!(ChunkHeader::decode(&damaged), None, "bit {at}");
        }
        assert_eq!(ChunkHeader::decode(&bytes[1..]), None);
    }

    #[test]
    fn what_is_larger_than_a_chunk_can_be_is_none() {
        let too_large = [
            ChunkHeader { body_bytes: MAX_CHUNK_BYTES as u32, ..header() },
            ChunkHeader { payload_bytes: MAX_CHUNK_PAYLOAD as u32 + 1, ..header() },
            ChunkHeader { packets: MAX_CHUNK_PACKETS + 1, ..header() },
            ChunkHeader { events: MAX_CHUNK_EVENTS + 1, ..header() },
        ];
        for header in too_large {
            assert_eq!(ChunkHeader::decode(&header.encode()), None);
        }
    }

    #[test]
    fn a_chunk_that_claims_events_has_packets() {
        let empty = ChunkHeader {
            body_bytes: 0,
            body_checksum: checksum_of(1, &[]),
            payload_bytes: 0,
            packets: 0,
            ..header()
        };
        let mut decoder = ChunkDecoder::new();
        assert_eq!(decoder.open(&empty.encode()), Ok(CHUNK_HEADER));
        assert_eq!(decoder.packet(), Err("it has events and no packets".to_owned()));
        let empty = ChunkHeader { events: 0, ..empty };
        assert_eq!(decoder.open(&empty.encode()), Ok(CHUNK_HEADER));
        assert_eq!(decoder.packet(), Ok(None));
    }

    #[test]
    fn chunks_are_found_among_other_bytes() {
        let chunk = ChunkHeader { body_bytes: 2, ..header() };
        let bytes =
            [&b"MLPKMLPK"[..], &chunk.encode(), &[1, 2], &chunk.encode(), &[1], &[0; 9]].concat();
        let found: Vec<_> = chunks(&bytes, 0).collect();
        assert_eq!(found, [(8, chunk), (8 + CHUNK_HEADER + 2, chunk)]);
    }
}
