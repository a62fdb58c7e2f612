//! Random streams of protocols 0 to 4, against what was written and against a naive reader.

use super::{naive, sample};
use memledger_analysis::read::{self, Damage, Event, Hole, Reader, Visitor};
use memledger_test_support::unreal4::{
    AUX, BYTES, Cut, IMPORTANT, Item, Made, NO_SYNC, Streams, TEXT, Type, U8, U32, U64, U64_ARRAY,
};
use proptest::collection::vec;
use proptest::prelude::*;

const TRC2: &[u8] = b"2CRT";
const TRCE: &[u8] = b"ECRT";

/// Magic, transport, protocol.
const FORMATS: [(&[u8], u8, u8); 8] = [
    (b"", 1, 0),
    (TRCE, 1, 0),
    (TRCE, 2, 0),
    (TRCE, 3, 1),
    (TRCE, 3, 2),
    (TRCE, 3, 3),
    (TRCE, 3, 4),
    (TRC2, 3, 4),
];

const SYNCED: Type<'_> = (6, "T.Synced", 0, &[("A", U32)]);
const FREE: Type<'_> = (7, "T.Free", NO_SYNC, &[("A", U32)]);
const ARRAYS: Type<'_> = (8, "T.Arrays", AUX, &[("A", U32), ("B", BYTES), ("C", TEXT)]);
const NOTABLE: Type<'_> = (9, "T.Notable", IMPORTANT | AUX, &[("A", U32), ("B", BYTES)]);
const TAG_VALUE: Type<'_> = (
    10,
    "LLM.TagValue",
    AUX,
    &[("TrackerId", U8), ("Cycle", U64), ("Tags", U64_ARRAY), ("Values", U64_ARRAY)],
);

/// What a thread does next.
#[derive(Clone, Debug)]
enum Act {
    Event(usize, u8, u8),
    /// Uses a type that another thread has just declared.
    Late(u8),
    Enter(Option<u16>),
    Leave(Option<u16>),
    Tags(Vec<(u64, i64)>),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        9 => (0..4usize, 0..20u8, 0..90u8).prop_map(|(t, attached, array)| Act::Event(t, attached, array)),
        1 => (0..10u8).prop_map(Act::Late),
        1 => any::<Option<u16>>().prop_map(Act::Enter),
        1 => any::<Option<u16>>().prop_map(Act::Leave),
        1 => vec((0..5u64, -9..9i64), 0..5).prop_map(Act::Tags),
    ]
}

fn cut() -> impl Strategy<Value = Cut> {
    (0..4usize, 1..600usize, any::<bool>()).prop_map(|(stream, size, is_lz4)| Cut {
        stream,
        size,
        is_lz4,
    })
}

/// Streams of four threads that act so. `start`: how far below the wrap serials go on after the
/// start of the trace. `hint`: how far the serial in `$Trace.NewTrace` of protocol 4 is from it.
fn streams(format: usize, acts: &[(usize, Act)], start: Option<u64>, hint: i64) -> Streams {
    let (magic, transport, protocol) = FORMATS[format];
    let mut streams = Streams::new(magic, transport, protocol, 4);
    // The threads that have events, the one with types, and the one with important events.
    let first = match format {
        ..3 => 0,
        7 => 2,
        _ => 1,
    };
    let types = if protocol == 4 { 0 } else { first };
    let notable = |stream| if magic == TRC2 { 1 } else { stream };
    let new_trace: Type<'_> = match protocol {
        4 if magic == TRC2 => (5, "$Trace.NewTrace", IMPORTANT | NO_SYNC, &[("Serial", U32)]),
        4 => (5, "$Trace.NewTrace", NO_SYNC, &[("Serial", U32)]),
        _ => (5, "$Trace.NewTrace", 0, &[("Version", U32)]),
    };
    for declared in [&new_trace, &SYNCED, &FREE, &ARRAYS, &NOTABLE, &TAG_VALUE] {
        streams.declare(types, declared);
    }
    let count = Streams::serials(protocol);
    let after = start.map(|below| count - below);
    let expected = after.unwrap_or(streams.next).wrapping_add_signed(hint) % count;
    let stream = if protocol == 4 { notable(0) } else { first };
    streams.event(stream, &new_trace, &(expected as u32).to_le_bytes(), &[], &[], 0);
    streams.next = after.unwrap_or(streams.next);
    let mut depths = [0; 4];
    for (number, (stream, act)) in acts.iter().enumerate() {
        let stream = if format < 3 { 0 } else { first + stream % (4 - first) };
        let fixed = (number as u32).to_le_bytes();
        let has_scopes = protocol == 4;
        match act {
            Act::Event(kind, attached, array) => {
                let attached = vec![number as u8; (*attached).into()];
                let array = vec![!number as u8; (*array).into()];
                let arrays = match (array.len(), protocol) {
                    (0, _) | (_, 0) => vec![],
                    (..30, _) => vec![(1, &array[..])],
                    _ => vec![(1, &array[..9]), (2, &array[9..])],
                };
                match kind {
                    0 => streams.event(stream, &SYNCED, &fixed, &attached, &[], 0),
                    1 => streams.event(stream, &FREE, &fixed, &attached, &[], 0),
                    2 => streams.event(stream, &ARRAYS, &fixed, &attached, &arrays, 0),
                    // One with arrays inside its size has no attachment.
                    _ => {
                        let only = &arrays[..arrays.len().min(1)];
                        streams.event(notable(stream), &NOTABLE, &fixed, &[], only, attached.len());
                    }
                }
            }
            Act::Late(attached) => {
                let uid = 300 + number as u16;
                let name = format!("T.Late{number}");
                let late: Type<'_> = (uid, &name, 0, &[("A", U32)]);
                streams.declare(if protocol == 4 { 0 } else { first }, &late);
                let attached = vec![7; (*attached).into()];
                streams.event(stream, &late, &fixed, &attached, &[], 0);
            }
            Act::Enter(stamp) if has_scopes => {
                streams.enter(stream, stamp.map(u64::from));
                depths[stream] += 1;
                streams.event(stream, &SYNCED, &fixed, &[], &[], 0);
            }
            Act::Leave(stamp) if depths[stream] > 0 => {
                depths[stream] -= 1;
                streams.leave(stream, stamp.map(u64::from));
            }
            Act::Tags(tags) if protocol > 0 => {
                let fixed = [&[1][..], &(number as u64).to_le_bytes()].concat();
                let ids: Vec<u8> = tags.iter().flat_map(|(id, _)| id.to_le_bytes()).collect();
                let values: Vec<u8> = tags.iter().flat_map(|(_, v)| v.to_le_bytes()).collect();
                let arrays = [(2, &ids[..]), (3, &values[..])];
                let arrays = if tags.is_empty() { &[][..] } else { &arrays };
                streams.event(stream, &TAG_VALUE, &fixed, &[], arrays, 0);
            }
            Act::Enter(_) | Act::Leave(_) | Act::Tags(_) => {}
        }
    }
    streams
}

#[derive(Default)]
struct Seen {
    by_stream: Vec<Vec<Item>>,
    ordered: Vec<Made>,
    problems: Vec<String>,
}

impl Seen {
    fn push(&mut self, stream: u16, item: Item) {
        let stream = usize::from(stream);
        self.by_stream.resize(self.by_stream.len().max(stream + 1), Vec::new());
        self.by_stream[stream].push(item);
    }
}

impl Visitor for Seen {
    fn event(&mut self, event: &Event<'_>) {
        let is_array = |piece: &&(u8, &[u8])| piece.0 != read::ATTACHMENT;
        let pieces = event.aux.iter().filter(is_array);
        let made = Made {
            stream: event.stream,
            uid: event.event_type.uid,
            serial: event.serial,
            enters: event.enters_scope,
            fixed: event.fixed.to_vec(),
            attachment: event.attachment().to_vec(),
            arrays: pieces.map(|&(field, data)| (field, data.to_vec())).collect(),
        };
        if event.serial.is_some() {
            self.ordered.push(made.clone());
        }
        self.push(event.stream, Some(made));
    }

    fn leave_scope(&mut self, stream: u16) {
        self.push(stream, None);
    }

    fn hole(&mut self, hole: Hole) {
        self.problems.push(format!("{hole:?}"));
    }

    fn damage(&mut self, damage: &Damage) {
        self.problems.push(damage.what.clone());
    }
}

/// What the reader delivers.
fn seen(file: &[u8]) -> Seen {
    let mut seen = Seen::default();
    read::read(file, &mut seen).unwrap();
    seen
}

/// The streams up to the last one that has events.
fn used(mut by_stream: Vec<Vec<Item>>) -> Vec<Vec<Item>> {
    while by_stream.last().is_some_and(Vec::is_empty) {
        by_stream.pop();
    }
    by_stream
}

proptest! {
    #[test]
    fn every_event_is_delivered_in_the_order_of_serials(
        format in 0..FORMATS.len(),
        acts in vec((0..4usize, act()), 1..200),
        cuts in vec(cut(), 1..50),
        start in prop_oneof![Just(None), (1..300u64).prop_map(Some), (300..9000u64).prop_map(Some)],
        hint in -200..200i64,
    ) {
        let streams = streams(format, &acts, start, hint);
        let file = streams.file(&cuts);
        let (seen, naive) = (seen(&file), naive::read(&file));
        prop_assert_eq!(&naive.ordered, &streams.ordered);
        prop_assert_eq!(used(naive.by_stream), used(streams.by_stream.clone()));
        prop_assert_eq!(seen.problems, Vec::<String>::new());
        prop_assert_eq!(&seen.ordered, &streams.ordered);
        prop_assert_eq!(used(seen.by_stream), used(streams.by_stream));
    }
}

#[test]
fn each_sample_is_read_as_a_naive_reader_reads_it() {
    for name in super::SAMPLES {
        let file = sample(name);
        let (seen, naive) = (seen(&file), naive::read(&file));
        assert!(seen.by_stream.iter().map(Vec::len).sum::<usize>() > 900, "{name}");
        assert_eq!(seen.ordered.len(), naive.ordered.len(), "{name}");
        assert!(seen.ordered == naive.ordered, "{name}: another order");
        assert!(used(seen.by_stream) == used(naive.by_stream), "{name}: another event");
    }
}

#[test]
fn a_missing_type_is_reported_and_a_gap_is_passed() {
    let mut streams = Streams::new(TRCE, 3, 3, 3);
    streams.declare(1, &(5, "$Trace.NewTrace", 0, &[]));
    streams.declare(1, &SYNCED);
    streams.event(1, &(5, "", 0, &[]), &[], &[], &[], 0);
    streams.event(1, &SYNCED, &[1; 4], &[9; 3], &[], 0);
    streams.event(2, &SYNCED, &[2; 4], &[], &[], 0);
    streams.next += 5;
    streams.event(1, &SYNCED, &[3; 4], &[], &[], 0);
    streams.event(2, &(77, "", 0, &[]), &[0; 4], &[], &[], 0);
    streams.ordered.pop();
    let cuts = [2, 1].map(|stream| Cut { stream, size: 999, is_lz4: false });
    let seen = seen(&streams.file(&cuts));
    assert_eq!(seen.ordered, streams.ordered);
    assert_eq!(seen.problems.len(), 2, "{:?}", seen.problems);
    assert!(seen.problems[0].contains("unknown type 77"), "{:?}", seen.problems);
    assert_eq!(seen.problems[1], "Hole { first: 3, count: 5 }");
}

/// After the start of the trace, serials go on shortly before they wrap. A thread's first event can then have
/// the serial that is next to that of the start.
#[test]
fn a_serial_after_a_wrap_can_be_next_to_the_first() {
    for protocol in 1..=3 {
        let new_trace: Type<'_> = (5, "$Trace.NewTrace", 0, &[]);
        let mut streams = Streams::new(TRCE, 3, protocol, 3);
        streams.declare(1, &new_trace);
        streams.declare(1, &SYNCED);
        streams.event(1, &new_trace, &[], &[], &[], 0);
        let next = streams.next;
        streams.next = Streams::serials(protocol) - 2;
        while streams.next < Streams::serials(protocol) + next {
            streams.event(1, &SYNCED, &[1; 4], &[], &[], 0);
        }
        streams.event(2, &SYNCED, &[2; 4], &[], &[], 0);
        let seen = seen(&streams.file(&[Cut { stream: 2, size: 999, is_lz4: false }]));
        assert_eq!(seen.problems, [""; 0]);
        assert_eq!(seen.ordered, streams.ordered);
    }
}

/// A reader of a trace that is still being written cannot wait for its end.
#[test]
fn a_gap_is_passed_long_before_the_end_of_the_input() {
    // In protocol 1 a gap is given up by the number of serials, in the others by the number of bytes.
    for (protocol, attached, bytes) in
        [(1, 0, 400_000), (3, 60_000, 30 << 20), (4, 60_000, 30 << 20)]
    {
        let mut streams = Streams::new(TRCE, 3, protocol, 3);
        let types = usize::from(protocol != 4);
        let new_trace: Type<'_> = (5, "$Trace.NewTrace", 0, &[]);
        streams.declare(types, &new_trace);
        streams.declare(types, &SYNCED);
        streams.event(1, &new_trace, &[], &[], &[], 0);
        let attachment = vec![7; attached];
        let mut number = 0_u32;
        while (number as usize) * (attached + 10) < 2 * bytes {
            streams.next += 3 * u64::from(number == 9);
            streams.event(
                1 + number as usize % 2,
                &SYNCED,
                &number.to_le_bytes(),
                &attachment,
                &[],
                0,
            );
            number += 1;
        }
        let cuts = [0, 1, 2].map(|stream| Cut { stream, size: 1 << 15, is_lz4: false });
        let file = streams.file(&cuts);
        let mut seen = Seen::default();
        let mut reader = Reader::open(&file[..]).unwrap();
        while reader.bytes_read() < bytes as u64 {
            assert!(reader.packet(&mut seen));
        }
        // What was given up is what has waited for two rounds and some bytes.
        let so_far = seen.ordered.len();
        assert!(so_far > number as usize / 16, "protocol {protocol}: {so_far} of {number}");
        let gap = streams.ordered[9].serial.unwrap() + 1;
        assert_eq!(seen.problems, [format!("Hole {{ first: {gap}, count: 3 }}")]);
        while reader.packet(&mut seen) {}
        reader.finish(&mut seen);
        assert_eq!(seen.ordered.len(), streams.ordered.len());
        assert!(seen.ordered == streams.ordered, "protocol {protocol}: another order");
        assert_eq!(seen.problems.len(), 1);
    }
}
