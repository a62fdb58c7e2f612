//! Packed traces: the same packets as in others, there and back; what damage to them costs; and that
//! reading can begin at any chunk.

use crate::compact_files::{Packets, converted, read, report, samples, small};
use crate::compact_packets::{alloc_fields, types};
use memledger_analysis::read::Reader;
use memledger_format::ErrorKind;
use memledger_format::handshake::Transport;
use memledger_format::packed::{CHUNK_HEADER, ChunkDecoder, ChunkHeader, PackedEncoder, chunks};
use memledger_test_support::wire::{ENTER, LEAVE, TERMINAL, aux, handshake, plain, synced};
use proptest::collection::vec;
use proptest::prelude::*;

const SYNC: u16 = 0x3fff;

/// The packets in chunks, each of at most `each` packets.
fn packed(packets: &[(u16, Vec<u8>)], each: usize) -> Vec<u8> {
    let (mut encoder, mut out) = (PackedEncoder::new(7), Vec::new());
    for part in packets.chunks(each) {
        for (stream, payload) in part {
            encoder.packet(*stream, payload, &mut out);
        }
        encoder.finish(&mut out);
    }
    out
}

/// The packets of all chunks.
fn unpacked(bytes: &[u8]) -> Packets {
    let (mut decoder, mut packets) = (ChunkDecoder::new(), Vec::new());
    for (offset, header) in chunks(bytes, 0) {
        assert_eq!(decoder.open(&bytes[offset..]), Ok(header.size()));
        while let Some((stream, payload)) = decoder.packet().unwrap() {
            packets.push((stream, payload.to_vec()));
        }
    }
    packets
}

/// A packed file of several chunks: its start, and its chunks.
fn file(count: u64) -> (Vec<u8>, Vec<u8>) {
    let (_, packets, _) = read(&small(count));
    let mut start = handshake(7);
    let at = start.len() - 2;
    start[at] = 79;
    (start, packed(&packets, 8))
}

#[test]
fn samples_are_the_same_both_ways() {
    for path in samples() {
        let bytes = std::fs::read(&path).unwrap();
        let (compact, _) = converted(&bytes, Transport::Compact);
        let (packed, summary) = converted(&compact, Transport::Packed);
        assert!(summary.is_complete(), "{path:?}");
        assert!(packed.len() < compact.len(), "{path:?}: {} of {}", packed.len(), compact.len());
        let (plain, _) = converted(&packed, Transport::Unreal);
        let (again, _) = converted(&plain, Transport::Packed);
        assert!(again == packed, "{path:?}: nothing is left to chance");
        let (seen, packets, _) = read(&bytes);
        for other in [&packed, &plain] {
            let (seen_there, packets_there, _) = read(other);
            assert!(packets_there == packets && seen_there == seen, "{path:?}");
            assert_eq!(report(other), report(&bytes), "{path:?}");
        }
        let all = read(&packed).2.packets;
        assert!(all.packed > 0 && all.plain + all.encoded + all.compact == 0);
        assert_eq!(all.packed + all.sync, packets.len() as u64);
    }
}

/// Files are kept, so what is written today must be read by later versions: a change of these bytes
/// needs a new transport.
#[test]
fn the_coding_stays_the_same() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/mem-2t-40k.utrace");
    let (packed, _) = converted(&std::fs::read(trace).unwrap(), Transport::Packed);
    let sums: Vec<_> =
        chunks(&packed, 0).map(|(_, header)| (header.body_bytes, header.body_checksum)).collect();
    assert_eq!(sums, [(98_362, 10_573_763)]);
}

#[test]
fn a_trace_repeats_itself_in_few_bits() {
    let (_, packets, _) = read(&small(2000));
    let bytes = packed(&packets, 4000);
    let events = 2000 * 22;
    assert!(bytes.len() < events / 3, "{} bytes for {events} events", bytes.len());
}

#[test]
fn chunks_are_listed_without_decoding_and_each_can_be_the_first() {
    let (_, packets, _) = read(&small(30));
    let bytes = packed(&packets, 8);
    let found: Vec<_> = chunks(&bytes, 0).collect();
    assert_eq!(found.len(), packets.len().div_ceil(8));
    let mut events = 0;
    for (number, (offset, header)) in found.iter().enumerate() {
        assert_eq!((header.number, header.events_before), (number as u32, events));
        assert_eq!((header.has_types, header.has_importants), (number == 0, false));
        events += u64::from(header.events);
        let own = &packets[number * 8..(number * 8 + 8).min(packets.len())];
        assert_eq!(unpacked(&bytes[*offset..])[..own.len()], *own);
        assert_eq!(header.packets as usize, own.len());
        let payloads = own.iter().map(|(_, payload)| payload.len()).sum::<usize>();
        assert_eq!(header.payload_bytes as usize, payloads);
        let first = own.iter().find(|(stream, _)| (2..0x3ff0).contains(stream));
        let first =
            first.map(|(_, payload)| u32::from_le_bytes([payload[2], payload[3], payload[4], 0]));
        assert_eq!(header.first_serial, first);
    }
    // The byte at the end of each that leaves a scope is too short for a shape.
    assert_eq!(events, 30 * 21);
}

#[test]
fn each_damaged_byte_costs_its_own_chunk_and_is_told() {
    let (start, body) = file(12);
    let whole = [&start[..], &body].concat();
    let (_, packets, summary) = read(&whole);
    assert_eq!(summary.counts.damages, 0);
    let found: Vec<_> = chunks(&body, 0).collect();
    for (offset, header) in &found {
        let from = header.number as usize * 8;
        let own = from..(from + 8).min(packets.len());
        for at in *offset..offset + header.size() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = whole.clone();
                bad[start.len() + at] ^= flip;
                let (seen, there, summary) = read(&bad);
                let left = [&packets[..own.start], &packets[own.end..]].concat();
                assert!(there == left, "chunk {} byte {at} ^ {flip}", header.number);
                assert!(summary.counts.damages > 0, "{:?}", seen.damages);
                assert_eq!(summary.skipped_bytes, header.size() as u64);
            }
        }
    }
}

#[test]
fn a_missing_chunk_is_told_with_the_number_of_its_events() {
    let (start, body) = file(12);
    let found: Vec<_> = chunks(&body, 0).collect();
    let second = found[1].0..found[2].0;
    let bytes = [&start[..], &body[..second.start], &body[second.end..]].concat();
    let (seen, ..) = read(&bytes);
    let says = format!(
        "chunk 2 follows where chunk 1 is expected; {} events are missing",
        found[1].1.events
    );
    assert!(seen.damages.contains(&says), "{:?}", seen.damages);
    assert!(read(&[&start[..], &body].concat()).0.damages.is_empty());
}

#[test]
fn bytes_that_a_chunk_lacks_cost_no_other_chunk() {
    let (start, body) = file(30);
    let (_, packets, _) = read(&[&start[..], &body].concat());
    let found: Vec<_> = chunks(&body, 0).collect();
    let end = found[1].0 + found[1].1.size();
    for lacks in [1, 7] {
        let bytes = [&start[..], &body[..end - lacks], &body[end..]].concat();
        let (_, there, summary) = read(&bytes);
        assert!(there == [&packets[..8], &packets[16..]].concat(), "{lacks} bytes");
        assert!(summary.counts.damages > 0);
    }
}

#[test]
fn cut_anywhere_all_whole_chunks_are_delivered() {
    let (start, body) = file(12);
    let (_, packets, _) = read(&[&start[..], &body].concat());
    let ends: Vec<_> = chunks(&body, 0).map(|(offset, header)| offset + header.size()).collect();
    for end in 0..body.len() {
        let (seen, there, summary) = read(&[&start[..], &body[..end]].concat());
        let whole = ends.iter().filter(|&&chunk| chunk <= end).count();
        let rest = end - if whole > 0 { ends[whole - 1] } else { 0 };
        assert_eq!(there, packets[..(8 * whole).min(packets.len())], "cut at {end}");
        assert_eq!(summary.truncated_bytes, rest as u64);
        assert_eq!(seen.damages.len(), usize::from(rest > 0));
    }
}

#[test]
fn bytes_between_chunks_are_passed_over() {
    let (start, body) = file(12);
    let (_, packets, _) = read(&[&start[..], &body].concat());
    let third = chunks(&body, 0).nth(2).unwrap().0;
    let noise: Vec<u8> =
        (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let bytes = [&start[..], &body[..third], &noise, &body[third..]].concat();
    let (seen, there, summary) = read(&bytes);
    assert!(there == packets);
    assert_eq!((summary.skipped_bytes, seen.damages.len()), (noise.len() as u64, 1));
}

/// What nothing predicts takes more bytes than in other packets, and chunks stay within their limits.
#[test]
fn noise_fits_in_chunks() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 24
    };
    let mut packets = vec![(0, types(7))];
    for number in 0..60 {
        let mut payload = Vec::new();
        while payload.len() < 65_535 {
            if number % 2 == 0 {
                payload.extend((random() as u32).to_le_bytes());
            } else {
                let address = random() << 30 ^ random();
                let alloc =
                    alloc_fields(address, random() as u32, random() >> 5, random() as u8 & 31);
                payload.extend(synced(33, random(), &alloc));
            }
        }
        payload.truncate(65_535);
        packets.push((2 + number % 5, payload));
    }
    let bytes = packed(&packets, 1000);
    let found: Vec<_> = chunks(&bytes, 0).collect();
    assert!(found.len() > 4 && found.iter().all(|(_, header)| header.size() < 3 << 18));
    assert!(unpacked(&bytes) == packets);
}

/// Large chunks are unpacked on other threads.
#[test]
fn large_chunks_come_in_their_order() {
    let (_, packets, _) = read(&small(10_000));
    let (start, _) = file(1);
    let body = packed(&packets, 7000);
    let found: Vec<_> = chunks(&body, 0).collect();
    assert!(found.len() == 3 && found.iter().all(|(_, header)| header.payload_bytes > 1 << 20));
    let mut bytes = [&start[..], &body].concat();
    let (seen, there, _) = read(&bytes);
    assert!(there == packets && seen.damages.is_empty(), "{:?}", seen.damages);
    bytes[start.len() + found[1].0 + 100] ^= 4;
    let (seen, there, summary) = read(&bytes);
    assert!(there == [&packets[..7000], &packets[14_000..]].concat());
    assert_eq!(summary.packets.damaged, 1);
    let says = format!(
        "chunk 1 is damaged: its checksum does not match; it has {} events",
        found[1].1.events
    );
    assert!(seen.damages.contains(&says), "{:?}", seen.damages);
}

#[test]
fn a_growing_file_is_read_as_far_as_it_goes() {
    let (start, body) = file(12);
    let ends: Vec<_> = chunks(&body, 0).map(|(offset, header)| offset + header.size()).collect();
    let bytes = [&start[..], &body[..ends[1] + CHUNK_HEADER + 3]].concat();
    let mut reader = Reader::open(&bytes[..]).unwrap();
    let mut packets = 0;
    struct Ignore;
    impl memledger_analysis::read::Visitor for Ignore {
        fn event(&mut self, _: &memledger_analysis::read::Event<'_>) {}
    }
    while reader.is_packet_ahead() {
        assert!(reader.packet(&mut Ignore));
        packets += 1;
    }
    assert_eq!(packets, 16);
    assert_eq!(reader.finish(&mut Ignore).counts.damages, 0);
}

#[test]
fn what_is_not_a_chunk_is_an_error() {
    let mut decoder = ChunkDecoder::new();
    assert_eq!(decoder.packet(), Ok(None));
    assert_eq!(decoder.open(&[0; 100]), Err("it has no header".to_owned()));
    let bytes = packed(&[(2, vec![7; 100])], 1);
    let header = ChunkHeader::decode(&bytes).unwrap();
    let short = decoder.open(&bytes[..bytes.len() - 1]);
    assert_eq!(short, Err(format!("it has {} bytes of {}", bytes.len() - 1, header.size())));
    let error = Reader::open(&b"2CRT\0\0\x4f\x04"[..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedTrace);
}

/// Events that a program could have sent, and bytes that none could.
fn item() -> impl Strategy<Value = Vec<u8>> {
    let address = (0_u64..40).prop_map(|block| 0x5581_0000_0000 + block * 48);
    let stack = prop_oneof![Just(0), 1_u32..6, any::<u32>()];
    let size = prop_oneof![0_u64..70, Just(1 << 35)];
    let memory = (0_usize..9, 0_u64..0x200, address, stack, size, 0_u8..32);
    let event = memory.prop_map(|(kind, serial, address, stack, size, align)| {
        let alloc = alloc_fields(address, stack, size, align);
        let heap = [&address.to_le_bytes()[..], &stack.to_le_bytes(), &[align]].concat();
        match kind {
            0 | 1 => synced(33, serial, &alloc),
            2 | 3 => synced(34, serial, &address.to_le_bytes()),
            4 => synced(36, serial, &address.to_le_bytes()),
            5 => synced(50, serial, &[&alloc[..], &[align]].concat()),
            6 => synced(51, serial, &heap),
            7 => synced(39, serial, &heap),
            _ => synced(20, serial, &address.to_le_bytes()),
        }
    });
    let scope = (0_u32..5).prop_map(|tag| [ENTER, &plain(49, &tag.to_le_bytes())].concat());
    let arrays = vec(any::<u8>(), 0..9)
        .prop_map(|data| [&plain(61, &[1])[..], &aux(1, &data), TERMINAL].concat());
    prop_oneof![
        8 => event,
        2 => scope,
        2 => Just(LEAVE.to_vec()),
        1 => arrays,
        1 => vec(any::<u8>(), 0..30),
    ]
}

/// Packets of any streams, the types among them, maybe in pieces.
fn some_packets() -> impl Strategy<Value = Packets> {
    let payload = vec(item(), 0..60).prop_map(|items| items.concat());
    let stream = prop_oneof![2_u16..6, Just(1), Just(0x3ffe), Just(0x3ff0)];
    let packet = prop_oneof![
        9 => (stream, payload),
        1 => Just((SYNC, Vec::new())),
        1 => vec(any::<u8>(), 0..40).prop_map(|piece| (0, piece)),
    ];
    (0..=400_usize, vec(packet, 0..20)).prop_map(|(at, packets)| {
        let types = types(7);
        let (first, second) = types.split_at(at.min(types.len()));
        [vec![(0, first.to_vec()), (0, second.to_vec())], packets].concat()
    })
}

proptest! {
    #[test]
    fn any_packets_come_back(packets in some_packets(), each in 1_usize..30) {
        prop_assert_eq!(unpacked(&packed(&packets, each)), packets);
    }

    #[test]
    fn any_body_gives_packets_or_an_error(
        packets in some_packets(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = packed(&packets, 100);
        for (at, byte) in damage {
            let body = bytes.len() - CHUNK_HEADER;
            if body > 0 {
                bytes[CHUNK_HEADER + at.index(body)] = byte;
            }
        }
        let mut decoder = ChunkDecoder::new();
        let header = ChunkHeader::decode(&bytes).unwrap();
        decoder.open_unchecked(&header, &bytes[CHUNK_HEADER..]);
        let (mut count, mut size) = (0, 0);
        while let Ok(Some((_, payload))) = decoder.packet() {
            count += 1;
            size += payload.len();
        }
        prop_assert!(count <= header.packets && size <= header.payload_bytes as usize);
        prop_assert_eq!(unpacked(&packed(&packets, 100)), packets);
    }
}
