//! Traces in compact packets: the same stream of events as plain ones, there and back, and what
//! damage to them costs.

use memledger_analysis::Analyzer;
use memledger_analysis::convert::convert;
use memledger_analysis::read::{self, Damage, Event, Reader, Summary, Visitor};
use memledger_format::ErrorKind;
use memledger_format::handshake::Transport;
use memledger_format::schema::FieldType::{U8, U32, U64};
use memledger_test_support::wire::{
    ENTER, LEAVE, NO_SYNC, SYNC, handshake, packet, plain, synced, type_record,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::PathBuf;

/// Events, damages, and the packets they came in.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Seen {
    events: Vec<(u16, Option<u64>, String, Vec<u8>)>,
    pub damages: Vec<String>,
}

impl Visitor for Seen {
    fn event(&mut self, event: &Event<'_>) {
        let bytes =
            [event.fixed, &event.aux.iter().flat_map(|(_, b)| *b).copied().collect::<Vec<_>>()]
                .concat();
        self.events.push((event.stream, event.serial, event.event_type.name(), bytes));
    }

    fn damage(&mut self, damage: &Damage) {
        self.damages.push(damage.what.clone());
    }
}

pub(crate) type Packets = Vec<(u16, Vec<u8>)>;

pub(crate) fn read(bytes: &[u8]) -> (Seen, Packets, Summary) {
    let (mut seen, mut packets) = (Seen::default(), Vec::new());
    let mut reader = Reader::open(bytes).unwrap();
    while reader
        .packet_with(&mut seen, &mut |stream, payload| packets.push((stream, payload.to_vec())))
    {
    }
    let summary = reader.finish(&mut seen);
    (seen, packets, summary)
}

pub(crate) fn converted(bytes: &[u8], to: Transport) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let summary = convert(bytes, &mut out, to).unwrap();
    (out, summary)
}

pub(crate) fn report(bytes: &[u8]) -> String {
    let mut analyzer = Analyzer::new();
    read::read(bytes, &mut analyzer).unwrap();
    let mut out = Vec::new();
    memledger_export::json::write(&analyzer.report(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Where each packet begins, and the end.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut at = 8 + usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    let mut offsets = vec![at];
    while at < bytes.len() {
        at += usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        offsets.push(at);
    }
    offsets
}

/// The samples in the repository, and those beside it, if there are some.
pub(crate) fn samples() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["tests/samples", "../shared/samples/unreal", "../shared/samples"];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(root.join(folder)).ok());
    let mut found = files.flatten().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "utrace"));
    assert!(found.len() >= 2);
    found
}

#[test]
fn samples_are_the_same_both_ways() {
    for path in samples() {
        let bytes = std::fs::read(&path).unwrap();
        let (compact, summary) = converted(&bytes, Transport::Compact);
        assert!(summary.is_complete(), "{path:?}");
        assert!(compact.len() < bytes.len(), "{path:?}: {} of {}", compact.len(), bytes.len());
        let (back, _) = converted(&compact, Transport::Unreal);
        let (again, _) = converted(&back, Transport::Compact);
        assert!(again == compact, "{path:?}: nothing is left to chance");
        let (seen, packets, summary) = read(&bytes);
        for other in [&compact, &back] {
            let (seen_there, packets_there, there) = read(other);
            assert!(packets_there == packets, "{path:?}");
            assert!(seen_there == seen, "{path:?}");
            assert_eq!(there.handshake.protocol, summary.handshake.protocol);
            assert_eq!(there.handshake.trace_guid, summary.handshake.trace_guid);
            assert_eq!(there.handshake.control_port, summary.handshake.control_port);
            assert_eq!(report(other), report(&bytes), "{path:?}");
        }
        assert!(read(&compact).2.packets.compact > 0);
        assert_eq!(read(&back).2.packets.compact, 0);
    }
}

fn types() -> Vec<u8> {
    let address = ("Address", U64);
    let alloc = [address, ("CallstackId", U32), ("Size", U32), ("AlignmentPow2_SizeLower", U8)];
    [
        type_record(7, 33, "Memory.AllocSystem", 0, &alloc),
        type_record(7, 34, "Memory.FreeSystem", 0, &[address]),
        type_record(7, 49, "Memory.MemoryScope", NO_SYNC, &[("Tag", U32)]),
        type_record(7, 60, "T.Odd", NO_SYNC, &[("A", U8), ("B", U8)]),
    ]
    .concat()
}

fn alloc(serial: u64, address: u64) -> Vec<u8> {
    synced(33, serial, &[&address.to_le_bytes()[..], &[0; 4], &[8, 0, 0, 0, 24]].concat())
}

fn free(serial: u64, address: u64) -> Vec<u8> {
    synced(34, serial, &address.to_le_bytes())
}

/// A small trace of three threads: `count` packets of 20 events each, and syncs.
pub(crate) fn small(count: u64) -> Vec<u8> {
    let mut bytes = [handshake(7), packet(0, &types()), SYNC.repeat(3)].concat();
    for number in 0..count {
        let first = number * 20;
        let events = (0..10).flat_map(|i| {
            let address = 0x5581_0000_0000 + (number * 7 + i) * 48;
            [alloc(first + 2 * i, address), free(first + 2 * i + 1, address)]
        });
        let scope = [ENTER, &plain(49, &[number as u8, 0, 0, 1]), LEAVE].concat();
        let payload = [events.flatten().collect::<Vec<_>>(), scope].concat();
        bytes.extend(packet(2 + (number % 3) as u16, &payload));
        bytes.extend(SYNC);
    }
    bytes
}

#[test]
fn a_lost_packet_costs_its_own_events_and_nothing_else() {
    let (compact, _) = converted(&small(12), Transport::Compact);
    let (whole, ..) = read(&compact);
    assert_eq!(whole.events.len(), 12 * 21);
    let offsets = offsets(&compact);
    // The packet of the types, three syncs; then each second one is a sync.
    for at in (4..offsets.len() - 1).step_by(2) {
        let number = (at as u64 - 4) / 2;
        let without = [&compact[..offsets[at]], &compact[offsets[at + 1]..]].concat();
        let (seen, _, summary) = read(&without);
        assert_eq!(summary.counts.damages, 0);
        let own = |event: &(u16, Option<u64>, String, Vec<u8>)| match event.1 {
            Some(serial) => serial / 20 == number,
            None => u64::from(event.3[0]) == number,
        };
        let left = whole.events.iter().filter(|event| !own(event)).cloned().collect::<Vec<_>>();
        assert_eq!(seen.events, left, "packet {number}");
    }
}

#[test]
fn each_flipped_byte_of_a_compact_packet_is_told_and_costs_that_packet() {
    let (compact, _) = converted(&small(12), Transport::Compact);
    let (_, packets, _) = read(&compact);
    let offsets = offsets(&compact);
    // Without the type records no reader can read anything.
    for (index, pair) in offsets.windows(2).enumerate().skip(1) {
        let is_compact = compact[pair[0] + 3] & 0x40 != 0;
        for at in pair[0]..pair[1] {
            for flip in [1, 0x10, 0x40, 0x80, 0xff] {
                let mut bad = compact.clone();
                bad[at] ^= flip;
                let (seen, there, summary) = read(&bad);
                let what = format!("packet {index} byte {at} ^ {flip}: {:?}", seen.damages);
                if is_compact {
                    assert!(summary.counts.damages > 0, "{what}");
                }
                // All others are delivered; if a header is damaged, the next packet may be lost as
                // well.
                let most = if is_compact { 1 } else { 3 };
                let mut left = packets.clone();
                left.remove(index);
                let lost = left
                    .iter()
                    .filter(|packet| !packet.1.is_empty() && !there.contains(packet))
                    .count();
                assert!(lost < most, "{what}, {lost} lost");
                let strangers = there.iter().filter(|packet| !packets.contains(packet)).count();
                assert!(strangers <= usize::from(!is_compact), "{what}");
            }
        }
    }
}

#[test]
fn one_compact_packet_is_enough_to_go_on_at() {
    // Without syncs; only the last of three packets is whole, and noise precedes it.
    let (compact, _) = converted(&small(3), Transport::Compact);
    let offsets = offsets(&compact);
    let packet = |index: usize| &compact[offsets[index]..offsets[index + 1]];
    let noise = (0..5000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    let bytes =
        [&compact[..offsets[1]], packet(4), &noise.collect::<Vec<_>>(), packet(8), &[9; 40]];
    let (seen, _, summary) = read(&bytes.concat());
    assert_eq!(summary.packets.compact, 2, "{:?}", seen.damages);
    assert_eq!(seen.events.len(), 2 * 21);
}

#[test]
fn cut_anywhere_all_whole_packets_are_delivered() {
    let (compact, _) = converted(&small(6), Transport::Compact);
    let (_, packets, _) = read(&compact);
    let offsets = offsets(&compact);
    for end in 0..compact.len() {
        if end < offsets[0] {
            let error = Reader::open(&compact[..end]).err();
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::NotATrace));
            continue;
        }
        let (seen, there, summary) = read(&compact[..end]);
        let whole = offsets.iter().filter(|&&offset| offset <= end).count() - 1;
        assert_eq!(there, packets[..whole], "cut at {end}");
        assert_eq!(summary.truncated_bytes, (end - offsets[whole]) as u64);
        assert_eq!(seen.damages.len(), usize::from(end > offsets[whole]));
    }
}

#[test]
fn damage_is_left_out_of_what_is_converted() {
    let (compact, _) = converted(&small(12), Transport::Compact);
    let offsets = offsets(&compact);
    let mut bad = compact[..compact.len() - 7].to_vec();
    bad[offsets[10] + 12] ^= 4;
    let (_, packets, _) = read(&bad);
    for to in [Transport::Unreal, Transport::Compact] {
        let (out, summary) = converted(&bad, to);
        assert_eq!((summary.counts.damages, summary.packets.damaged), (2, 1));
        let (seen, there, _) = read(&out);
        assert!(there == packets && seen.damages.is_empty());
    }
}

#[test]
fn what_fails_on_the_way_is_told_apart() {
    /// Takes this number of bytes and no more.
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(std::io::Error::other("no room")) } else { Ok(taken) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for room in [0, 1, 100, 300_000] {
        let error = convert(&small(400)[..], Full(room), Transport::Unreal);
        match error {
            Err(error) => {
                assert_eq!(format!("{error:?}"), "Write: writing the result failed: no room");
            }
            Ok(_) => assert_eq!(room, 300_000),
        }
    }
    let mut out = Vec::new();
    let error = convert(&b"PK\x03\x04 no trace"[..], &mut out, Transport::Compact).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotATrace) && out.is_empty());
}

#[test]
fn a_payload_only_lz4_can_carry_is_carried_on() {
    // One byte more than a plain packet has room for.
    let large = (0..65_532_u32).map(|i| (i / 700) as u8).collect::<Vec<_>>();
    let block = lz4_of(&large);
    let header = [(block.len() + 6) as u16, 1 | 0x8000, large.len() as u16];
    let encoded = [header.map(u16::to_le_bytes).concat(), block].concat();
    let bytes = [handshake(7), encoded].concat();
    let (_, packets, _) = read(&bytes);
    assert_eq!(packets, [(1, large)]);
    for to in [Transport::Unreal, Transport::Compact] {
        assert_eq!(read(&converted(&bytes, to).0).1, packets);
    }
}

/// An LZ4 block of literals only, each run of equal bytes as one match.
fn lz4_of(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    let more = |out: &mut Vec<u8>, mut count: usize| {
        while count >= 255 {
            out.push(255);
            count -= 255;
        }
        out.push(count as u8);
    };
    let mut at = 0;
    while at + 1000 < bytes.len() {
        // One literal, then 699 times the byte before.
        block.push(0x1f);
        block.push(bytes[at]);
        block.extend([1, 0]);
        more(&mut block, 699 - 4 - 15);
        at += 700;
    }
    block.push(0xf0);
    more(&mut block, bytes.len() - at - 15);
    block.extend(&bytes[at..]);
    block
}

/// Any run of events, scopes, noise.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let event = prop_oneof![
        4 => (0..1_u64 << 24, 0..60_u64).prop_map(|(serial, i)| alloc(serial, 0x1000 + i * 32)),
        3 => (0..1_u64 << 24, 0..60_u64).prop_map(|(serial, i)| free(serial, 0x1000 + i * 32)),
        1 => any::<[u8; 2]>().prop_map(|bytes| plain(60, &bytes)),
        1 => any::<u32>().prop_map(|tag| [ENTER, &plain(49, &tag.to_le_bytes())].concat()),
        1 => Just(LEAVE.to_vec()),
    ];
    vec(event, 1..60).prop_map(|events| events.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_is_the_same_both_ways(payloads in vec((2..9_u16, payload(), any::<bool>()), 1..12)) {
        let mut bytes = [handshake(7), packet(0, &types())].concat();
        for (stream, payload, sync) in &payloads {
            bytes.extend(packet(*stream, payload));
            bytes.extend(if *sync { SYNC } else { &[] });
        }
        let (seen, packets, _) = read(&bytes);
        let (compact, _) = converted(&bytes, Transport::Compact);
        let (back, _) = converted(&compact, Transport::Unreal);
        for other in [&compact, &back] {
            let (seen_there, packets_there, _) = read(other);
            prop_assert_eq!(&packets_there, &packets);
            prop_assert_eq!(&seen_there, &seen);
        }
    }
}
