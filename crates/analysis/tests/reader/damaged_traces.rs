//! Traces that were cut, overwritten or put together wrongly: everything that is whole is
//! delivered, and nothing else.

use memledger_analysis::Analyzer;
use memledger_analysis::read::{self, Damage, Event, Hole, Summary, Visitor};
use memledger_format::ErrorKind;
use memledger_test_support::wire::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::ops::Range;
use std::sync::OnceLock;

/// Everything delivered, one number for each event.
#[derive(Default)]
struct Seen {
    events: Vec<(u16, Option<u64>, u64)>,
    holes: u64,
    missing: u64,
    damages: Vec<Damage>,
}

impl Visitor for Seen {
    fn event(&mut self, event: &Event<'_>) {
        let mut hasher = DefaultHasher::new();
        (event.event_type.uid, event.fixed, event.aux).hash(&mut hasher);
        self.events.push((event.stream, event.serial, hasher.finish()));
    }

    fn hole(&mut self, hole: Hole) {
        self.holes += 1;
        self.missing += hole.count;
    }

    fn damage(&mut self, damage: &Damage) {
        assert!(!damage.what.is_empty());
        self.damages.push(damage.clone());
    }
}

fn read(bytes: &[u8]) -> (Seen, Summary) {
    let mut seen = Seen::default();
    let summary = read::read(bytes, &mut seen).unwrap();
    assert_eq!(summary.counts.events, seen.events.len() as u64);
    assert_eq!(summary.counts.holes, seen.holes);
    assert_eq!(summary.counts.damages, seen.damages.len() as u64);
    assert_eq!(summary.input_bytes, bytes.len() as u64);
    assert!(summary.skipped_bytes + summary.truncated_bytes <= summary.input_bytes);
    (seen, summary)
}

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../tests/samples/{name}.utrace", env!("CARGO_MANIFEST_DIR")))
        .unwrap()
}

fn smoke() -> &'static [u8] {
    static SMOKE: OnceLock<Vec<u8>> = OnceLock::new();
    SMOKE.get_or_init(|| sample("ue511-smoke"))
}

const HANDSHAKE: usize = 12;

/// Where each packet lies, and its stream.
fn packets(bytes: &[u8]) -> Vec<(Range<usize>, u16)> {
    let mut packets = Vec::new();
    let mut at = HANDSHAKE;
    while at < bytes.len() {
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let size = usize::from(number(at));
        packets.push((at..at + size, number(at + 2) & 0x3fff));
        at += size;
    }
    packets
}

fn without(bytes: &[u8], range: Range<usize>) -> Vec<u8> {
    [&bytes[..range.start], &bytes[range.end..]].concat()
}

fn is_subset(part: &[(u16, Option<u64>, u64)], whole: &[(u16, Option<u64>, u64)]) -> bool {
    let mut left: HashMap<_, i32> = HashMap::new();
    whole.iter().for_each(|event| *left.entry(event).or_default() += 1);
    part.iter().all(|event| {
        let count = left.entry(event).or_default();
        *count -= 1;
        *count >= 0
    })
}

fn count_of(events: &[(u16, Option<u64>, u64)], stream: u16) -> usize {
    events.iter().filter(|event| event.0 == stream).count()
}

/// The events of the streams for which `keep` says so, in an order that only they decide, with
/// serials as they are on the wire: a damaged first serial shifts them all by one round.
fn sorted(seen: &Seen, keep: impl Fn(u16) -> bool) -> Vec<(u16, Option<u64>, u64)> {
    let mut events = seen.events.clone();
    events.retain(|event| keep(event.0));
    events.iter_mut().for_each(|event| event.1 = event.1.map(|serial| serial & 0x00ff_ffff));
    events.sort_unstable();
    events
}

fn synced(seen: &Seen) -> u64 {
    seen.events.iter().filter(|event| event.1.is_some()).count() as u64
}

fn noise(seed: usize) -> impl Iterator<Item = u8> {
    let mut state = seed as u64 | 1;
    std::iter::from_fn(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 56) as u8)
    })
}

#[test]
fn cut_anywhere_all_whole_packets_are_delivered() {
    let bytes = smoke();
    for end in 0..HANDSHAKE {
        let error = read::read(&bytes[..end], &mut Seen::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotATrace), "{error}");
    }
    for (packet, _) in packets(bytes) {
        let (whole, summary) = read(&bytes[..packet.start]);
        assert_eq!(summary.truncated_bytes, 0);
        for end in packet.clone().skip(1) {
            let (seen, summary) = read(&bytes[..end]);
            assert_eq!(summary.truncated_bytes, (end - packet.start) as u64, "cut at {end}");
            assert!(seen.events == whole.events, "cut at {end}");
            let damage = &seen.damages[0];
            assert_eq!(damage.offset, Some(packet.start as u64));
            assert_eq!(damage.skipped, summary.truncated_bytes);
        }
    }
}

/// The events of each stream in any order: their count, and the sum of their numbers, each weighted
/// by its serial. Serials are as on the wire.
fn sums(seen: &Seen) -> BTreeMap<u16, (usize, u64)> {
    let mut sums = BTreeMap::new();
    for &(stream, serial, number) in &seen.events {
        let serial = serial.map_or(0, |serial| 1 + (serial & 0x00ff_ffff));
        let (count, sum) = sums.entry(stream).or_insert((0, 0_u64));
        *count += 1;
        // Multiplied, so that two events cannot swap serials unnoticed.
        *sum = sum.wrapping_add((number | 1).wrapping_mul(2 * serial + 1));
    }
    sums
}

#[test]
fn a_flipped_byte_in_a_payload_costs_other_threads_nothing() {
    let bytes = smoke();
    let (whole, _) = read(bytes);
    let whole_sums = sums(&whole);
    let mut flipped = bytes.to_vec();
    for (packet, stream) in packets(bytes) {
        let header = 4;
        // PERF: each fourth byte, 5,000 in all. One bit each, and now and then all: 4 and 9 have no
        // divisor in common.
        for at in packet.clone().step_by(4) {
            let flip = if at % 9 == 8 { 0xff } else { 1 << (at % 9) };
            flipped[at] ^= flip;
            let (seen, _) = read(&flipped);
            flipped[at] = bytes[at];
            assert!(seen.events.len() <= 2 * whole.events.len(), "{at} ^ {flip}");
            if stream != 0 && at - packet.start >= header {
                let mut sums = sums(&seen);
                // The damaged stream itself may have lost some.
                match whole_sums.get(&stream) {
                    Some(own) => sums.insert(stream, *own),
                    None => sums.remove(&stream),
                };
                assert!(sums == whole_sums, "{at} ^ {flip}");
            }
        }
    }
}

#[test]
fn a_flipped_byte_in_a_header_costs_a_few_packets() {
    let bytes = smoke();
    let (whole, _) = read(bytes);
    let all = packets(bytes);
    let mut least = HashMap::new();
    for (index, (packet, stream)) in all.iter().enumerate() {
        // Without the type records no reader can read anything.
        if *stream == 0 {
            continue;
        }
        let from = all[index.saturating_sub(1)].0.start;
        for at in packet.start..packet.start + 4 {
            for bit in 0..8 {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1 << bit;
                // What is left without all that lies in the packet as it is now, and without the
                // packets next to it.
                let size =
                    usize::from(u16::from_le_bytes([bytes[packet.start], bytes[packet.start + 1]]));
                let last = all.iter().rposition(|(p, _)| p.start <= packet.start + size);
                let to = all[(last.unwrap_or(index) + 1).min(all.len() - 1)].0.end;
                let least = *least.entry(from..to).or_insert_with(|| {
                    read(&without(smoke(), from..to)).0.events.len().min(whole.events.len())
                });
                let (seen, summary) = read(&bytes);
                let count = seen.events.len();
                assert!(count >= least, "{at} bit {bit}: {count} of {least}, {summary:?}");
            }
        }
    }
}

#[test]
fn a_missing_packet_costs_exactly_its_events() {
    for name in ["ue511-smoke", "mem-2t-40k"] {
        let bytes = sample(name);
        let (whole, _) = read(&bytes);
        let step = if name == "mem-2t-40k" { 3 } else { 1 };
        for (packet, stream) in packets(&bytes).into_iter().step_by(step) {
            if stream == 0 || stream == 0x3fff {
                continue;
            }
            let completed = read(&bytes[..packet.end]).1.counts.events
                - read(&bytes[..packet.start]).1.counts.events;
            let (seen, summary) = read(&without(&bytes, packet.clone()));
            let lost = (whole.events.len() - seen.events.len()) as u64;
            // An event may begin here and end in the next packet, and important ones do.
            let cut = u64::from(seen.damages.len() as u64 > 0);
            let what = format!("{name} {packet:?} {lost} {completed} {:?}", seen.damages);
            assert!(lost == completed || lost == completed + cut, "{what}");
            assert!(seen.events.iter().collect::<HashSet<_>>().len() == seen.events.len());
            // Unreal does not say where serials begin and end, so what is missing there is no hole.
            let (first, last) = (summary.counts.first_serial, summary.counts.last_serial);
            let missing = last.unwrap() + 1 - first.unwrap() - synced(&seen);
            assert_eq!(seen.missing, missing, "{name} {packet:?}");
            let others = |other| other != stream;
            assert!(sorted(&seen, others) == sorted(&whole, others), "{name} {packet:?}");
            let serials = seen.events.iter().filter_map(|event| event.1);
            assert!(serials.is_sorted_by(|a, b| a < b));
        }
    }
}

#[test]
fn an_overwritten_range_costs_exactly_the_packets_it_touches() {
    let bytes = sample("mem-2t-40k");
    let all = packets(&bytes);
    let first = all.iter().find(|(_, stream)| *stream > 3).unwrap().0.start;
    for start in (first..bytes.len() - 4096).step_by(9973) {
        let range = start..start + 4096;
        let touched = all.iter().filter(|(p, _)| p.start < range.end && range.start < p.end);
        let touched = touched.map(|(p, _)| p.clone()).collect::<Vec<_>>();
        let gone = touched[0].start..touched[touched.len() - 1].end;
        let (left, _) = read(&without(&bytes, gone.clone()));
        for fill in [false, true] {
            let mut bytes = bytes.clone();
            let noise = noise(start);
            bytes[range.clone()]
                .iter_mut()
                .zip(noise)
                .for_each(|(b, n)| *b = if fill { n } else { 0 });
            let (seen, summary) = read(&bytes);
            assert!(seen.events == left.events, "{range:?}");
            assert_eq!(summary.skipped_bytes, gone.len() as u64, "{range:?} {:?}", seen.damages);
            assert_eq!((seen.holes, seen.missing), (left.holes, left.missing));
        }
    }
}

#[test]
fn a_repeated_packet_is_delivered_as_late() {
    let bytes = smoke();
    let (whole, _) = read(bytes);
    for (packet, stream) in packets(bytes) {
        let twice = [&bytes[..packet.end], &bytes[packet.clone()], &bytes[packet.end..]].concat();
        let (seen, summary) = read(&twice);
        let others = |other| other != stream;
        assert!(sorted(&seen, others) == sorted(&whole, others), "{packet:?}");
        assert_eq!(seen.missing, 0);
        // One event is split over two packets: it gets some of its data twice.
        if stream > 2 {
            assert!(is_subset(&whole.events, &seen.events), "{packet:?}");
            assert_eq!(summary.counts.late, synced(&seen) - synced(&whole), "{packet:?}");
        }
    }
}

#[test]
fn two_traces_in_one_file_are_both_read() {
    let (whole, _) = read(smoke());
    let (seen, summary) = read(&[smoke(), smoke()].concat());
    assert_eq!(seen.events.len(), 2 * whole.events.len());
    assert_eq!(summary.skipped_bytes, HANDSHAKE as u64);
    assert_eq!(summary.counts.late, summary.counts.last_serial.unwrap() + 1);
}

/// A source that fails on the way.
struct Torn<'a>(&'a [u8]);

impl std::io::Read for Torn<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match std::io::Read::read(&mut self.0, buffer)? {
            0 => Err(std::io::Error::other("the cable was pulled")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_source_that_fails_gives_what_came_before() {
    let bytes = smoke();
    let (whole, _) = read(bytes);
    let mut seen = Seen::default();
    let summary = read::read(Torn(bytes), &mut seen).unwrap();
    assert_eq!(summary.error.unwrap().to_string(), "the cable was pulled");
    assert!(seen.events == whole.events && seen.damages.is_empty());
    let mut seen = Seen::default();
    let torn = read::read(Torn(&bytes[..7]), &mut seen).unwrap_err();
    assert_eq!(torn.kind(), ErrorKind::Read);
    let directory = std::fs::File::open("/").unwrap();
    assert_eq!(read::read(directory, &mut seen).unwrap_err().kind(), ErrorKind::Read);
}

#[test]
fn damage_between_packets_cuts_every_stream() {
    let rows = [&[8, 0, 2, 0, 0xff, 0xff, 0xff, 0xff].repeat(20)[..], &[0xff; 3]].concat();
    let filler = packet(3, &serials(100..140));
    let bytes = [
        handshake(7),
        packet(0, &types(7)),
        packet(2, &plain(17, &[0])),
        filler.repeat(9),
        packet(2, &[plain(17, &[1]), plain(17, &[])].concat()),
        // No header, then what looks like one small packet after the other.
        vec![0, 0, 0, 0],
        rows.clone(),
        filler.clone(),
        filler.repeat(9),
        packet(2, &plain(17, &[2])),
    ]
    .concat();
    let (seen, summary) = read(&bytes);
    assert_eq!(summary.skipped_bytes, 4 + rows.len() as u64, "{:?}", seen.damages);
    assert_eq!(count_of(&seen.events, 2), 3);
    assert_eq!(count_of(&seen.events, 3), 760);
    assert_eq!(seen.damages.len(), 2);
    assert_eq!(
        seen.damages[1].offset,
        Some(12 + 4 + (types(7).len() + 7 + 9 * filler.len()) as u64)
    );
}

fn complete(bytes: &[u8]) -> (bool, bool) {
    let mut analyzer = Analyzer::new();
    let summary = read::read(bytes, &mut analyzer).unwrap();
    (analyzer.report().trace.complete, summary.is_complete())
}

#[test]
fn a_trace_of_unreals_is_complete_only_behind_its_start() {
    let bytes = smoke();
    let packets = packets(bytes);
    let first_sync = packets.iter().position(|(_, stream)| *stream == 0x3fff).unwrap();
    for (number, (packet, _)) in packets.iter().enumerate() {
        // Unreal's writer marks no end, so a cut between two packets after the start shows only
        // where a serial is missing.
        if number <= first_sync {
            assert_eq!(complete(&bytes[..packet.start]), (false, false), "{number} packets");
        }
    }
    assert_eq!(complete(bytes), (true, true));
}

#[test]
fn a_trace_of_ours_is_complete_only_with_its_report() {
    use memledger_format::schema::FieldType::U64;
    let report =
        [("Cycle", U64), ("OverheadBytes", U64), ("LostEvents", U64), ("ScopeMisuses", U64)];
    let record = type_record(7, 40, "Memledger.Report", NO_SYNC, &report);
    let parts = [
        handshake(7),
        packet(TYPES, &[types(7), record].concat()),
        packet(IMPORTANTS, &framed(31, &[1, 0, 0, 0, 0, 0, 0, 0, 0])),
        SYNC.repeat(3),
        packet(2, &serials(0..9)),
        packet(9, &plain(30, &9_u64.to_le_bytes())),
        SYNC.to_vec(),
    ];
    for count in 1..=parts.len() {
        assert_eq!(complete(&parts[..count].concat()), (false, false), "{count} parts");
    }
    let end = packet(3, &plain(40, &[0; 32]));
    assert_eq!(complete(&[parts.concat(), end].concat()), (true, true));
}

#[test]
fn a_source_that_fails_makes_a_trace_incomplete() {
    let source = smoke().chain(Failing);
    let mut analyzer = Analyzer::new();
    let summary = read::read(source, &mut analyzer).unwrap();
    assert!(summary.error.is_some());
    assert!(!analyzer.report().trace.complete && !summary.is_complete());
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk is gone"))
    }
}
