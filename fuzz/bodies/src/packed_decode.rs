//! Any bytes as the body of a chunk. Its checksum is not looked at, because otherwise nearly all
//! inputs would be refused.

use crate::compact_encode::{example, types};
use memledger_format::packed::{CHUNK_HEADER, ChunkDecoder, ChunkHeader, PackedEncoder, chunks};
use std::cell::RefCell;

/// Bytes before the body: packets, bytes of their payloads, events.
const HEAD: usize = 8;
/// The most bytes of payloads, so that no input takes long.
const MAX_PAYLOAD: u32 = 1 << 20;

thread_local! {
    // One decoder for all inputs, as a reader has one for all chunks: no input may affect the next.
    static DECODER: RefCell<ChunkDecoder> = RefCell::new(ChunkDecoder::new());
}

type Packets = Vec<(u16, Vec<u8>)>;

/// The packets of the chunk that the decoder has begun, up to the first that is damaged.
fn packets(decoder: &mut ChunkDecoder) -> Packets {
    let mut packets = Vec::new();
    while let Ok(Some((stream, payload))) = decoder.packet() {
        packets.push((stream, payload.to_vec()));
    }
    packets
}

/// Decodes the body that `data` have after the first bytes, twice. The packets must come back when
/// they are packed again.
pub fn run(data: &[u8]) {
    let Some((&[p0, p1, b0, b1, b2, b3, e0, e1], body)) = data.split_first_chunk::<HEAD>() else {
        return;
    };
    let mut header = ChunkHeader::default();
    header.packets = u16::from_le_bytes([p0, p1]).into();
    header.payload_bytes = u32::from_le_bytes([b0, b1, b2, b3]) % MAX_PAYLOAD;
    header.events = u16::from_le_bytes([e0, e1]).into();
    DECODER.with_borrow_mut(|decoder| {
        let mut decode = || {
            decoder.open_unchecked(&header, body);
            packets(decoder)
        };
        let found = decode();
        assert!(decode() == found, "the same again");
        let size = found.iter().map(|(_, payload)| payload.len()).sum::<usize>();
        assert!(found.len() <= header.packets as usize && size <= header.payload_bytes as usize);
        let (mut encoder, mut out) = (PackedEncoder::new(7), Vec::new());
        for (stream, payload) in &found {
            encoder.packet(*stream, payload, &mut out);
        }
        encoder.finish(&mut out);
        let mut again = Vec::new();
        for (offset, header) in chunks(&out, 0) {
            assert_eq!(decoder.open(&out[offset..]), Ok(header.size()));
            again.extend(packets(decoder));
        }
        assert!(again == found, "packed anew");
    });
}

/// A chunk as the encoder makes it.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |protocol: u8| {
        let (mut encoder, mut out) = (PackedEncoder::new(protocol), Vec::new());
        encoder.packet(0, &types(protocol), &mut out);
        encoder.packet(2, &example(), &mut out);
        encoder.packet(3, &example(), &mut out);
        encoder.packet(0x3fff, &[], &mut out);
        encoder.finish(&mut out);
        let header = ChunkHeader::decode(&out).unwrap_or_default();
        let head = [
            &(header.packets as u16).to_le_bytes()[..],
            &header.payload_bytes.to_le_bytes(),
            &(header.events as u16).to_le_bytes(),
        ];
        [&head.concat()[..], &out[CHUNK_HEADER..]].concat()
    };
    (5..=7).map(seed).collect()
}
