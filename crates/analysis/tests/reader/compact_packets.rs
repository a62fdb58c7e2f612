//! The compact coding gives back what went into it, byte for byte, and nothing else.

mod stacks;

use memledger_format::compact::{CompactDecoder, CompactEncoder};
use memledger_format::schema::FieldType::{U8, U8Array, U32, U64};
use memledger_test_support::wire::{
    AUX, ENTER, LEAVE, NO_SYNC, TERMINAL, aux, plain, synced, type_record,
};
use proptest::collection::vec;
use proptest::prelude::*;
use stacks::encoder_with_table;

const ALLOC: u16 = 33;
const FREE: u16 = 34;
const REALLOC_ALLOC: u16 = 35;
const REALLOC_FREE: u16 = 36;
const SCOPE: u16 = 49;
const HEAP_ALLOC: u16 = 50;
const HEAP_FREE: u16 = 51;
const VIDEO_ALLOC: u16 = 52;
const UPDATE: u16 = 39;
const MARKER: u16 = 20;
/// Their first bytes are those of others.
const OTHER_SCOPE: u16 = SCOPE + 128;
const OTHER_FREE: u16 = ALLOC + 128;
const STRANGE: u16 = 60;
const ARRAYS: u16 = 61;

/// The memory events of both versions, some others, one with its fields in another order.
pub(crate) fn types(protocol: u8) -> Vec<u8> {
    let record = |uid, name, flags, fields: &[_]| type_record(protocol, uid, name, flags, fields);
    let (address, stack) = (("Address", U64), ("CallstackId", U32));
    let alloc = [address, stack, ("Size", U32), ("AlignmentPow2_SizeLower", U8)];
    let heap = ("RootHeap", U8);
    [
        record(MARKER, "Memory.Marker", 0, &[("Cycle", U64)]),
        record(ALLOC, "Memory.AllocSystem", 0, &alloc),
        record(FREE, "Memory.FreeSystem", 0, &[address]),
        record(REALLOC_ALLOC, "Memory.ReallocAllocSystem", 0, &alloc),
        record(REALLOC_FREE, "Memory.ReallocFreeSystem", 0, &[address]),
        record(SCOPE, "Memory.MemoryScope", NO_SYNC, &[("Tag", U32)]),
        record(HEAP_ALLOC, "Memory.Alloc", 0, &[&alloc[..], &[heap]].concat()),
        record(HEAP_FREE, "Memory.Free", 0, &[address, stack, heap]),
        record(UPDATE, "Memory.UpdateAlloc", 0, &[address, stack, heap]),
        record(VIDEO_ALLOC, "Memory.AllocVideo", 0, &[alloc[3], alloc[2], address, stack]),
        record(OTHER_SCOPE, "Memory.OtherScope", NO_SYNC, &[("Tag", U32)]),
        record(OTHER_FREE, "Memory.FreeVideo", 0, &[address]),
        record(STRANGE, "Memory.Strange", 0, &[("A", U8), ("B", U64), ("C", U8)]),
        record(ARRAYS, "Memory.Arrays", NO_SYNC | AUX, &[("A", U8), ("B", U8Array)]),
    ]
    .concat()
}

pub(crate) fn alloc_fields(address: u64, stack: u32, size: u64, align: u8) -> Vec<u8> {
    let mut bytes = address.to_le_bytes().to_vec();
    bytes.extend(stack.to_le_bytes());
    bytes.extend(((size >> 3) as u32).to_le_bytes());
    bytes.push(align << 3 | size as u8 & 7);
    bytes
}

fn alloc(serial: u64, address: u64, size: u64, align: u8) -> Vec<u8> {
    synced(ALLOC, serial, &alloc_fields(address, 0, size, align))
}

fn free(serial: u64, address: u64) -> Vec<u8> {
    synced(FREE, serial, &address.to_le_bytes())
}

/// Codes and decodes; returns the packet, or `None` if it would not be smaller.
fn coded(encoder: &mut CompactEncoder, stream: u16, payload: &[u8]) -> Option<Vec<u8>> {
    let mut packet = vec![0xee];
    if !encoder.append(stream, payload, &mut packet) {
        assert_eq!(packet, [0xee], "what is not coded leaves nothing behind");
        return None;
    }
    let packet = packet.split_off(1);
    assert!(packet.len() < payload.len());
    assert_eq!(
        packet[..4],
        [&(packet.len() as u16).to_le_bytes()[..], &(stream | 0x4000).to_le_bytes()].concat()
    );
    assert!(CompactDecoder::is_whole(&packet));
    assert!(CompactDecoder::new().decode(&packet).unwrap() == payload);
    Some(packet)
}

fn encoder(protocol: u8) -> CompactEncoder {
    let mut encoder = CompactEncoder::new(protocol);
    encoder.learn(&types(protocol));
    encoder
}

/// The payload of the worked example of `docs/formats.md`.
fn example() -> Vec<u8> {
    let address = 0x5581_0000_1230;
    [alloc(5, address, 8, 3), free(6, address), alloc(7, address, 8, 3), free(8, address)].concat()
}

#[test]
fn the_worked_example_of_the_document_is_what_is_written() {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md"))
            .unwrap();
    let part = document.split("### A worked packet").nth(1).unwrap();
    let block = part.split("```").nth(1).unwrap();
    // A line begins with its bytes, if it has some; their meaning follows.
    let hex = |word: &str| u8::from_str_radix(word, 16).ok().filter(|_| word.len() == 2);
    let bytes =
        block.lines().flat_map(|line| line.split_whitespace().map_while(hex)).collect::<Vec<u8>>();
    let packet = coded(&mut encoder(7), 4, &example()).unwrap();
    let shown = packet.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    assert_eq!(bytes, packet, "the packet is {shown}");
}

#[test]
fn a_pair_of_a_thousand_costs_two_bytes() {
    let pairs = (0..1000_u64).flat_map(|i| [alloc(2 * i, 0x7000, 64, 4), free(2 * i + 1, 0x7000)]);
    let packet = coded(&mut encoder(7), 2, &pairs.collect::<Vec<_>>().concat()).unwrap();
    assert!(packet.len() < 2030, "{}", packet.len());
}

#[test]
fn every_kind_of_event_becomes_smaller() {
    let address = |i: u64| 0x7f00_0000_0000 + i * 48;
    let heap = |i: u64| [alloc_fields(address(i), 7, 40, 4), vec![(i / 50) as u8]].concat();
    let freed =
        |i: u64| [&address(i).to_le_bytes()[..], &(i as u32 / 9).to_le_bytes(), &[0]].concat();
    type Make<'a> = &'a dyn Fn(u64) -> Vec<u8>;
    let kinds: [(&str, Make, usize); 7] = [
        ("alloc", &|i| alloc(i, address(i), 33, 3), 3),
        ("free", &|i| free(i, address(i)), 3),
        (
            "realloc",
            &|i| {
                [
                    synced(REALLOC_FREE, 2 * i, &address(i).to_le_bytes()),
                    synced(REALLOC_ALLOC, 2 * i + 1, &alloc_fields(address(i), 0, i * 100, 0)),
                ]
                .concat()
            },
            9,
        ),
        ("with a heap", &|i| synced(HEAP_ALLOC, i, &heap(i)), 4),
        ("free of version 2", &|i| synced(HEAP_FREE, i, &freed(i)), 4),
        (
            "scopes",
            &|i| {
                [ENTER, &plain(SCOPE, &(0x0100_0000 + i as u32 % 40).to_le_bytes()), LEAVE].concat()
            },
            4,
        ),
        ("markers", &|i| synced(MARKER, i * 4097, &(i * 1_000_003).to_le_bytes()), 8),
    ];
    for protocol in [5, 6, 7] {
        for (name, make, most) in kinds {
            let payload = (0..1000).flat_map(make).collect::<Vec<u8>>();
            let packet = coded(&mut encoder(protocol), 9, &payload).unwrap();
            assert!(packet.len() < most * 1000, "{name}: {}", packet.len());
        }
    }
}

#[test]
fn serials_wrap_and_extremes_survive() {
    let huge = [u64::MAX, 0, 1, 1 << 63, (1 << 47) - 16, 0x7fff_ffff_ffff_fff1];
    let mut payload = Vec::new();
    for (i, address) in huge.into_iter().cycle().take(90).enumerate() {
        let serial = (0x00ff_ffff - 20 + i as u64 * 7) & 0x00ff_ffff;
        payload.extend(alloc(serial, address, (1 << 35) - 1 - i as u64, 31));
        payload.extend(synced(
            HEAP_ALLOC,
            serial,
            &[alloc_fields(address, u32::MAX - i as u32, 0, 0), vec![i as u8]].concat(),
        ));
        payload.extend(free(serial, address));
        payload.extend(synced(MARKER, serial, &address.to_le_bytes()));
        payload.extend([ENTER, &plain(SCOPE, &(address as u32).to_le_bytes())].concat());
    }
    coded(&mut encoder(7), 2, &payload).unwrap();
}

#[test]
fn each_code_of_an_address_meets_each_of_a_size() {
    let mut payload = Vec::new();
    let (mut serial, mut address) = (0, 1_u64 << 46);
    for (number, size) in (0..36).map(|bits| (1_u64 << bits) - 1).enumerate() {
        // On both sides of where each code of a distance ends.
        for bits in (0..44).step_by(4).chain([7, 15, 23, 31, 39]) {
            for distance in [(1_u64 << bits) - 1, 1 << bits] {
                // Some serials are passed over, with and without anything else.
                serial += 1 + u64::from(number % 3 == 0);
                address = match bits % 8 {
                    0 => address.wrapping_add(distance * 16),
                    _ => address.wrapping_sub(distance * 16),
                };
                payload.extend(alloc(serial, address, size, 3));
                payload.extend(if bits == 7 { LEAVE } else { &[] });
                payload.extend(free(serial + 1, address ^ distance));
                serial += 1;
            }
        }
        if payload.len() > 30_000 {
            coded(&mut encoder(7), 2, &payload).unwrap();
            payload.clear();
        }
    }
    coded(&mut encoder(7), 2, &payload).unwrap();
}

#[test]
fn a_serial_passed_over_is_seen_between_any_two_events() {
    let all = [(ALLOC, 0), (FREE, 1), (REALLOC_ALLOC, 0), (REALLOC_FREE, 1), (MARKER, 1)];
    for (first, is_free) in all {
        for (second, is_other_free) in all {
            for gap in [0, 1, 2, 0x00ff_ffff] {
                let event = |uid, serial: u64, is_free| match is_free {
                    0 => synced(uid, serial & 0x00ff_ffff, &alloc_fields(0x5000, 0, 24, 3)),
                    _ => synced(uid, serial & 0x00ff_ffff, &0x5000_u64.to_le_bytes()),
                };
                let payload = (0..20_u64).flat_map(|i| {
                    let serial = i * (gap + 2);
                    [event(first, serial, is_free), event(second, serial + 1 + gap, is_other_free)]
                        .concat()
                });
                coded(&mut encoder(7), 2, &payload.collect::<Vec<_>>()).unwrap();
            }
        }
    }
}

#[test]
fn events_that_begin_alike_are_told_apart() {
    let scope = |uid, i: u64| {
        [ENTER, &plain(uid, &(0x0100_0000 + i as u32 % 3).to_le_bytes()), LEAVE].concat()
    };
    let payload = (0..200_u64).flat_map(|i| {
        let place = 0x7000 + i * 48;
        // One after the other, and in runs.
        let is_other = i % 2 == 0 || i > 150;
        let block = if is_other {
            synced(OTHER_FREE, i, &place.to_le_bytes())
        } else {
            alloc(i, place, 24, 3)
        };
        let uid = if is_other { OTHER_SCOPE } else { SCOPE };
        [scope(uid, i), block].concat()
    });
    let packet = coded(&mut encoder(7), 2, &payload.collect::<Vec<_>>()).unwrap();
    assert!(packet.len() < 200 * 7, "{}", packet.len());
}

#[test]
fn serials_begin_again_without_a_gap() {
    let serial = |i: u64| (0x00ff_ffff - 100 + i) & 0x00ff_ffff;
    let payload = (0..100).flat_map(|i| {
        let scope = [ENTER, &plain(SCOPE, &[i as u8, 0, 0, 1]), LEAVE].concat();
        [alloc(serial(2 * i), 0x7000, 24, 3), scope, free(serial(2 * i + 1), 0x7000)].concat()
    });
    let packet = coded(&mut encoder(7), 2, &payload.collect::<Vec<_>>()).unwrap();
    assert!(packet.len() < 100 * 5 + 40, "{}", packet.len());
}

#[test]
fn a_large_block_and_a_small_one_are_not_taken_for_each_other() {
    let sizes = [2047, 2048, 2047 + 2048, 2047, 0, 1 << 34, 1 << 34, 7, 2048, 2048, 0];
    for protocol in [5, 7] {
        let payload = (0..).zip(sizes.repeat(9)).flat_map(|(i, size)| {
            let fields = alloc_fields(0x7000, 0, size, 4);
            [
                alloc(2 * i, 0x7000, size, 4),
                synced(HEAP_ALLOC, 2 * i + 1, &[&fields[..], &[1]].concat()),
            ]
            .concat()
        });
        coded(&mut encoder(protocol), 2, &payload.collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn addresses_less_aligned_than_usual_cost_less_from_the_next_packet_on() {
    let mut encoder = encoder(7);
    for step in [48, 24, 12, 10, 7] {
        let payload = (0..500_u64).flat_map(|i| free(i, 0x5581_0000_0000 + i * step));
        let payload = payload.collect::<Vec<_>>();
        let sizes = [(); 3].map(|()| coded(&mut encoder, 2, &payload).unwrap().len());
        assert!(sizes[1] <= sizes[0] && sizes[2] == sizes[1], "{step}: {sizes:?}");
        // Odd addresses, which no allocator hands out, are given as they are.
        assert!(sizes[1] < if step % 2 == 0 { 1100 } else { 5100 }, "{step}: {sizes:?}");
    }
}

#[test]
fn what_a_packet_before_held_is_not_expected_of_this_one() {
    let mut encoder = encoder(7);
    for count in [300, 3, 200, 1, 5] {
        let payload = (0..300).flat_map(|i| {
            let known = free(2 * i, 0x1000 + (i % count) * 32);
            [known, alloc(2 * i + 1, 0x1000 + (i * 7 % 290) * 32, 24, 3)].concat()
        });
        coded(&mut encoder, 2, &payload.collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn what_has_no_shape_is_carried_as_it_is() {
    let known = |i: u64| alloc(i, 0x1000 + 32 * i, 24, 3);
    let mut encoder = encoder(7);
    let odd: [Vec<u8>; 7] = [
        synced(STRANGE, 5, &[7; 10]),
        synced(VIDEO_ALLOC, 5, &[[25, 5, 0, 0, 0], [0x30, 0x12, 0, 0, 0], [0; 5]].concat()),
        [&plain(ARRAYS, &[1])[..], &aux(1, b"text"), &aux(1, &[0x41; 300]), TERMINAL].concat(),
        vec![ENTER[0]],
        // Stamped scopes of protocol 7.
        [&[0x0c][..], &[1; 8], &[0x10], &[2; 7]].concat(),
        // Events of unknown length.
        synced(999, 5, &[1, 2, 3]),
        vec![0x1e, 0, 0],
    ];
    for odd in odd {
        let middle = [&(0..20).flat_map(known).collect::<Vec<_>>()[..], &odd].concat();
        let both = [&middle[..], &(20..40).flat_map(known).collect::<Vec<_>>()].concat();
        for payload in [middle, both] {
            coded(&mut encoder, 2, &payload).unwrap();
        }
    }
    // More shapes than a packet can have.
    let many =
        (0..40_u16).map(|i| type_record(7, 100 + i, "Memory.FreeSystem", 0, &[("Address", U64)]));
    encoder.learn(&many.collect::<Vec<_>>().concat());
    let payload =
        (0..400_u64).flat_map(|i| synced(100 + i as u16 % 40, i, &(i * 16).to_le_bytes()));
    coded(&mut encoder, 2, &payload.collect::<Vec<_>>()).unwrap();
}

#[test]
fn what_does_not_become_smaller_is_refused() {
    let mut encoder = encoder(7);
    let noise = |seed: u64| {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
    };
    for size in [0, 1, 12, 47, 48, 100, 4096, 65_531, 65_535, 65_536, 70_000] {
        let payload = noise(size as u64).take(size).collect::<Vec<_>>();
        assert_eq!(coded(&mut encoder, 2, &payload), None);
    }
    assert_eq!(coded(&mut encoder, 2, &alloc(1, 16, 8, 3)), None);
    // As large as can be.
    let payload = (0..65_535 / 22).flat_map(|i| alloc(i, i * 48, 24, 3)).collect::<Vec<_>>();
    coded(&mut encoder, 2, &payload).unwrap();
}

#[test]
fn types_are_learned_in_pieces_and_anew() {
    let payload = (0..50).flat_map(|i| free(i, i * 16)).collect::<Vec<_>>();
    for protocol in [5, 7] {
        let mut encoder = CompactEncoder::new(protocol);
        assert_eq!(coded(&mut encoder, 2, &payload), None, "nothing is known yet");
        types(protocol).iter().for_each(|byte| encoder.learn(&[*byte]));
        assert!(coded(&mut encoder, 2, &payload).is_some());
        // The same uid means something else from here on.
        encoder.learn(&type_record(protocol, FREE, "Other.Thing", 0, &[("A", U64), ("B", U8)]));
        assert_eq!(coded(&mut encoder, 2, &payload), None);
    }
}

/// Any event, with serials that mostly follow one another and addresses that come again.
fn event() -> impl Strategy<Value = Vec<u8>> {
    let address = prop_oneof![
        4 => (0..40_u64).prop_map(|i| 0x5581_0000_0010 + i * 48),
        1 => any::<u64>(),
        1 => any::<u64>().prop_map(|a| a & 0x7fff_ffff_fff8),
    ];
    let size = prop_oneof![3 => 0..600_u64, 1 => any::<u64>().prop_map(|s| s >> 29)];
    let stack = prop_oneof![3 => Just(0_u32), 2 => 0..200_u32, 1 => any::<u32>()];
    (0..14_usize, address, size, stack, 0..32_u8, vec(any::<u8>(), 0..40)).prop_map(
        |(kind, address, size, stack, align, bytes)| {
            let serial = u64::from(stack) << 3;
            let fields = alloc_fields(address, stack, size, align);
            let place = address.to_le_bytes();
            match kind {
                0..=2 => synced(ALLOC, serial, &alloc_fields(address, 0, size, 3)),
                3..=4 => synced(FREE, serial, &place),
                5 => synced(REALLOC_ALLOC, serial, &fields),
                6 => synced(REALLOC_FREE, serial, &place),
                7 => [ENTER, &plain(SCOPE, &stack.to_le_bytes())].concat(),
                8 => LEAVE.to_vec(),
                9 => synced(HEAP_ALLOC, serial, &[&fields[..], &[align]].concat()),
                10 => synced(
                    HEAP_FREE,
                    serial,
                    &[&place[..], &stack.to_le_bytes(), &[align]].concat(),
                ),
                11 => synced(MARKER, serial, &place),
                12 => [&plain(ARRAYS, &[align])[..], &aux(1, &bytes), TERMINAL].concat(),
                _ => bytes,
            }
        },
    )
}

/// Payloads of one stream, one after the other; some are cut.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let payload = (vec(event(), 0..200), any::<bool>(), any::<prop::sample::Index>(), any::<u32>());
    let payload = payload.prop_map(|(mut events, cut, end, first)| {
        // Serials that go on, but for some.
        for (index, event) in events.iter_mut().enumerate() {
            if event.len() >= 13 && event[0] & 1 != 0 && event[5] % 4 != 0 {
                let serial = first.wrapping_add(index as u32).to_le_bytes();
                event[2..5].copy_from_slice(&serial[..3]);
            }
        }
        let mut bytes = events.concat();
        if cut && !bytes.is_empty() {
            let end = end.index(bytes.len());
            bytes = if first & 1 == 0 { bytes[..end].to_vec() } else { bytes.split_off(end) };
        }
        bytes
    });
    vec(payload, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_payload_comes_back(protocol in 5..8_u8, payloads in payloads(), table in any::<bool>()) {
        let mut encoder = if table { encoder_with_table(protocol) } else { encoder(protocol) };
        let mut decoder = CompactDecoder::new();
        for payload in &payloads {
            let mut packet = Vec::new();
            if encoder.append(7, payload, &mut packet) {
                prop_assert!(packet.len() < payload.len());
                // With the tables as the packet before left them, and with new ones.
                prop_assert!(decoder.decode(&packet).unwrap() == payload);
                prop_assert!(CompactDecoder::new().decode(&packet).unwrap() == payload);
            }
        }
    }

    #[test]
    fn no_packet_brings_the_decoder_down(
        bytes in vec(any::<u8>(), 0..400),
        payloads in payloads(),
        table in any::<bool>(),
    ) {
        let mut decoder = CompactDecoder::new();
        let mut encoder = if table { encoder_with_table(7) } else { encoder(7) };
        let mut packets = vec![bytes];
        for payload in &payloads {
            let mut packet = Vec::new();
            if encoder.append(7, payload, &mut packet) {
                let noise = packets[0].clone();
                for (at, byte) in packet.iter_mut().skip(10).zip(noise) {
                    if byte & 7 == 0 {
                        *at ^= byte;
                    }
                }
                packets.push(packet);
            }
        }
        for mut packet in packets {
            let _ = decoder.decode(&packet);
            if packet.len() > 10 {
                sign(&mut packet);
                prop_assert!(CompactDecoder::is_whole(&packet));
                if let Ok(payload) = decoder.decode(&packet) {
                    prop_assert_eq!(payload.len(), usize::from(u16::from_le_bytes([packet[4], packet[5]])));
                }
            }
        }
    }
}

/// Gives a packet the checksum of its bytes, as `docs/formats.md` describes it.
fn sign(packet: &mut [u8]) {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |lane: u64, word: u64| (lane ^ word).wrapping_mul(MIX).rotate_left(29);
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    let mut lanes = [step(1, word(&packet[..6])), 2];
    let whole = (packet.len() - 10) / 16 * 16 + 10;
    for (index, bytes) in packet[10..whole].chunks(8).enumerate() {
        lanes[index % 2] = step(lanes[index % 2], word(bytes));
    }
    let rest = &packet[whole..];
    let (first, second) = rest.split_at(rest.len().min(8));
    let all = step(step(step(lanes[0], word(first)), word(second)), lanes[1]);
    packet[6..10].copy_from_slice(&((all ^ all >> 32) as u32).to_le_bytes());
}

#[test]
fn each_flipped_byte_and_each_cut_is_an_error() {
    let mut encoder = encoder(7);
    let packet = coded(&mut encoder, 4, &example()).unwrap();
    let mut decoder = CompactDecoder::new();
    for at in 0..packet.len() {
        for flip in 1..=255 {
            let mut bad = packet.clone();
            bad[at] ^= flip;
            assert!(decoder.decode(&bad).is_err(), "{at} ^ {flip}");
        }
        assert!(decoder.decode(&packet[..at]).is_err(), "cut at {at}");
    }
    let mut signed = packet.clone();
    sign(&mut signed);
    assert_eq!(signed, packet);
}

#[test]
fn a_packet_that_decodes_to_more_or_less_than_it_says_is_an_error() {
    let mut encoder = encoder(7);
    let odd = [&example()[..], &[0x1e; 20]].concat();
    let number = [&example()[..], &alloc(9, 0x1230, 8, 3)].concat();
    let layout = [&example()[..], &alloc(9, 0x5581_0000_1230, 9, 3)].concat();
    for payload in [example(), odd, number, layout] {
        let packet = coded(&mut encoder, 4, &payload).unwrap();
        for size in
            (0..payload.len() as u16 + 30).filter(|&size| usize::from(size) != payload.len())
        {
            let mut bad = packet.clone();
            bad[4..6].copy_from_slice(&size.to_le_bytes());
            sign(&mut bad);
            assert!(CompactDecoder::new().decode(&bad).is_err(), "{size}");
        }
        for more in [&[0][..], &[1], &[0; 9], &[0xc0], &[0xe0], &[0xe0, 0, 0]] {
            let mut bad = [&packet[..], more].concat();
            sign(&mut bad);
            assert!(CompactDecoder::new().decode(&bad).is_err(), "{more:?}");
        }
        for end in 11..packet.len() {
            let mut bad = packet[..end].to_vec();
            sign(&mut bad);
            assert!(CompactDecoder::new().decode(&bad).is_err(), "cut at {end}");
        }
    }
}
