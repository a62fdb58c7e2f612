use super::*;
use crate::convert::convert;
use crate::read::read;
use memledger_format::callstacks::{
    CALLSTACK_END, CALLSTACK_SPEC, CALLSTACKS, Callstack, CallstackWriter, Inner, Outer,
};
use memledger_format::encode::{Declaration, Value};
use memledger_format::handshake::Handshake;
use memledger_format::layout::ARRAYS_END;
use memledger_format::packet::PacketWriter;
use memledger_format::schema::FieldType::{self, AnsiString, U8, U32, U64};
use memledger_format::schema::NO_SYNC;
use memledger_format::stream_events::{
    self, CHANNEL_ANNOUNCE, CHANNEL_TOGGLE, REPORT, SETTLED, TRACE, TYPE_CHANNELS,
};
use proptest::prelude::*;

const CONTROL: u16 = 2;
const WORKER: u16 = 3;
const THREAD: u16 = 5;
/// The channels of the test's trace.
const NAMES: [&str; 3] = ["Memory", "Callstack", "Other"];

const fn kind(number: u16, flags: u8, fields: &'static [(&'static str, FieldType)]) -> Declaration {
    Declaration { uid: 64 + number, logger: "Test", event: "Kind", flags, fields }
}

/// The types of the program, whether events of them are on [`NAMES`] without `Other`, and the channels.
static KINDS: [(Declaration, bool, &[&str]); 8] = [
    (kind(0, 0, &[("F", U64)]), true, &["memory"]),
    (kind(1, NO_SYNC, &[("F", U64)]), true, &["memory"]),
    (kind(2, 0, &[("F", U64)]), false, &["memory", "other"]),
    (kind(3, NO_SYNC, &[("F", U64)]), false, &["memory", "other"]),
    (kind(4, 0, &[]), true, &["memory", "callstack"]),
    (kind(5, 0, LONG), true, &["memory"]),
    (kind(6, 0, &[]), false, &["other"]),
    (kind(7, 0, LONG), false, &["other"]),
];
const LONG: &[(&str, FieldType)] = &[("Small", U8), ("Name", AnsiString)];

/// A type of the tracker.
static ALLOC: Declaration = Declaration {
    uid: 33,
    logger: "Memory",
    event: "AllocSystem",
    flags: 0,
    fields: &[("Address", U64), ("CallstackId", U32), ("Size", U32)],
};

fn is_synced(kind: usize) -> bool {
    KINDS[kind].0.layout().synced
}

/// The parts of an event. A packet can end between two of them.
fn event(kind: usize, serial: u64) -> Vec<Vec<u8>> {
    let (wire, serial) = (KINDS[kind].0.wire().to_le_bytes(), &serial.to_le_bytes()[..3]);
    match kind {
        0 | 2 => vec![[&wire[..], serial, &[0x08; 8]].concat()],
        1 | 3 => vec![[&wire[..], &[0x0a; 8]].concat()],
        4 | 6 => vec![[&wire[..], serial].concat()],
        _ => vec![
            [&wire[..], serial, &[7]].concat(),
            [&piece_head(1, 3, 1)[..], &[0x08, 0x0a, 0x06]].concat(),
            [&piece_head(1, 1, 1)[..], &[0x51]].concat(),
            vec![ARRAYS_END],
        ],
    }
}

fn settled(serial: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    SETTLED.append(&[serial.into()], &mut bytes);
    bytes
}

fn report(serial: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let zero = || 0_u64.into();
    REPORT.append(&[serial.into(), zero(), zero(), zero(), zero(), zero(), zero()], &mut bytes);
    bytes
}

/// What is said about the channels, each of which is turned off later.
fn announcements(is_on: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in NAMES {
        let on = u32::from(is_on(name)).into();
        CHANNEL_ANNOUNCE.append(&[id(name).into(), on, 0_u32.into(), name.into()], &mut bytes);
        if is_on(name) {
            CHANNEL_TOGGLE.append(&[id(name).into(), 0_u32.into()], &mut bytes);
        }
    }
    bytes
}

/// The important events of a trace whose first serial is `first`, but for the channels.
fn important(first: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let one = || 1_u32.into();
    TRACE.append(&[one(), one(), first.into(), one(), one(), one()], &mut bytes);
    for (declaration, _, channels) in &KINDS {
        let ids: Vec<_> = channels.iter().flat_map(|name| id(name).to_le_bytes()).collect();
        let uid = u32::from(declaration.uid).into();
        TYPE_CHANNELS.append(&[uid, Value::Elements(&ids, 4)], &mut bytes);
    }
    bytes
}

/// A trace of these packets, after its types.
fn trace(packets: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let types = stream_events::TYPES.iter().copied().chain(KINDS.iter().map(|kind| &kind.0));
    let mut records = Vec::new();
    types.chain([&ALLOC]).for_each(|declaration| declaration.append_record(&mut records));
    let mut out = handshake().encode();
    let mut writer = PacketWriter::new(Transport::Unreal, PROTOCOL);
    writer.packet(TYPES, &records, &mut out);
    for (stream, bytes) in packets.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        writer.packet(*stream, bytes, &mut out);
    }
    writer.sync(&mut out);
    out
}

fn handshake() -> Handshake {
    Reader::open(sample()).unwrap().handshake().clone()
}

fn sample() -> &'static [u8] {
    include_bytes!("../../../../../tests/samples/memledger-small.utrace")
}

fn export(trace: &[u8], list: &str) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let channels = ChannelList::parse(list).unwrap();
    convert_channels(trace, &mut out, Transport::Compact, &channels)?;
    Ok(out)
}

struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &Event<'_>) {}
}

fn streams(trace: &[u8]) -> HashMap<u16, Vec<u8>> {
    let mut streams = HashMap::<u16, Vec<u8>>::new();
    let mut reader = Reader::open(trace).unwrap();
    while reader.packet_with(&mut Ignore, &mut |stream, payload| {
        streams.entry(stream).or_default().extend_from_slice(payload);
    }) {}
    streams
}

#[derive(Clone, Debug)]
enum Step {
    Event(usize),
    Enter(usize, bool),
    Leave(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..KINDS.len()).prop_map(Step::Event),
        1 => (0..KINDS.len(), any::<bool>()).prop_map(|(kind, timed)| Step::Enter(kind, timed)),
        1 => any::<bool>().prop_map(Step::Leave),
    ]
}

/// Batches of steps of four threads. Each step has a flag: whether a packet of its thread ends
/// there.
fn batches() -> impl Strategy<Value = Vec<Vec<(u16, Step, u8)>>> {
    let steps = prop::collection::vec((THREAD..THREAD + 4, step(), any::<u8>()), 0..40);
    prop::collection::vec(steps, 0..6)
}

/// The simple model: the streams of four threads, as the bytes of whole events, and the number of
/// serials in them.
#[derive(Default)]
struct Naive {
    /// For each open scope of each stream, whether it is wanted.
    open: HashMap<u16, Vec<bool>>,
    out: HashMap<u16, Vec<u8>>,
    serial: u64,
}

impl Naive {
    fn take(&mut self, thread: u16, step: &Step) {
        let open = self.open.entry(thread).or_default();
        let out = self.out.entry(thread).or_default();
        let (Step::Event(kind) | Step::Enter(kind, _)) = *step else {
            if open.pop() == Some(true) {
                out.extend(leave(matches!(step, Step::Leave(true))));
            }
            return;
        };
        let wanted = KINDS[kind].1;
        if let Step::Enter(_, timed) = step {
            open.push(wanted);
            if wanted {
                out.extend(enter(*timed));
            }
        }
        if wanted {
            out.extend(event(kind, self.serial).concat());
            self.serial += u64::from(is_synced(kind));
        }
    }
}

fn enter(timed: bool) -> Vec<u8> {
    if timed { [&[ENTER_SCOPE_AT][..], &[9; 8]].concat() } else { vec![ENTER_SCOPE] }
}

fn leave(timed: bool) -> Vec<u8> {
    if timed { [&[LEAVE_SCOPE_AT][..], &[9; 8]].concat() } else { vec![LEAVE_SCOPE] }
}

proptest! {
    #[test]
    fn what_is_left_is_what_a_naive_filter_leaves(batches in batches()) {
        // The 24 bits of the serials wrap during the test, in the input and in the output.
        let first = (1 << 24) - 30;
        let (mut naive, mut serial) = (Naive { serial: first, ..Naive::default() }, first);
        let start = [important(first), announcements(|_| true)].concat();
        let mut input = vec![(IMPORTANTS, start), (CONTROL, settled(first))];
        let mut told = settled(first);
        let mut open = HashMap::<u16, usize>::new();
        for batch in &batches {
            let mut packets = HashMap::<u16, Vec<Vec<u8>>>::new();
            for (thread, step, cuts) in batch {
                let open = open.entry(*thread).or_default();
                let mut parts = Vec::new();
                match *step {
                    Step::Leave(_) if *open == 0 => continue,
                    Step::Leave(timed) => {
                        *open -= 1;
                        parts.push(leave(timed));
                    }
                    Step::Enter(kind, timed) => {
                        *open += 1;
                        parts.push(enter(timed));
                        parts.extend(event(kind, serial));
                        serial += u64::from(is_synced(kind));
                    }
                    Step::Event(kind) => {
                        parts.extend(event(kind, serial));
                        serial += u64::from(is_synced(kind));
                    }
                }
                naive.take(*thread, step);
                let packets = packets.entry(*thread).or_insert_with(|| vec![Vec::new()]);
                for (number, part) in parts.iter().enumerate() {
                    packets.last_mut().unwrap().extend(part);
                    if cuts >> number & 1 == 1 {
                        packets.push(Vec::new());
                    }
                }
            }
            // The map has an arbitrary order of the threads.
            for (thread, packets) in packets {
                input.extend(packets.into_iter().map(|packet| (thread, packet)));
            }
            input.push((CONTROL, settled(serial)));
            told.extend(settled(naive.serial));
        }
        // All open scopes are closed, as at the end of a recording.
        for (thread, open) in open {
            input.push((thread, vec![LEAVE_SCOPE; open]));
            (0..open).for_each(|_| naive.take(thread, &Step::Leave(false)));
        }
        input.push((WORKER, report(serial)));
        let out = streams(&export(&trace(&input), "-other").unwrap());
        let start = [important(first), announcements(|name| name != "Other")].concat();
        prop_assert_eq!(&out[&IMPORTANTS], &start);
        prop_assert_eq!(&out[&CONTROL], &told);
        prop_assert_eq!(&out[&WORKER], &report(naive.serial));
        for (thread, bytes) in &naive.out {
            prop_assert_eq!(out.get(thread).map_or(&[][..], Vec::as_slice), bytes);
        }
    }
}

#[test]
fn exact_bytes() {
    // Two threads: one has the serials 3 and 5, the other 4.
    let input = trace(&[
        (IMPORTANTS, [important(3), announcements(|_| true)].concat()),
        (THREAD, [event(0, 3), event(1, 0), event(0, 5)].concat().concat()),
        (THREAD + 1, event(2, 4).concat()),
        (CONTROL, settled(6)),
    ]);
    let out = streams(&export(&input, "memory").unwrap());
    assert_eq!(out[&THREAD], [event(0, 3), event(1, 0), event(0, 4)].concat().concat());
    assert_eq!((out.get(&(THREAD + 1)), &out[&CONTROL]), (None, &settled(5)));
}

/// Every event of a trace in its order, without serials, and the number of events missing between.
#[derive(Default)]
struct Log(Vec<(String, Vec<u8>, Vec<u8>)>, u64);

impl Visitor for Log {
    fn event(&mut self, event: &Event<'_>) {
        let arrays =
            (0..event.event_type.fields.len()).flat_map(|index| event.bytes(index).to_vec());
        let fixed = if event.event_type.event == "Settled" { &[] } else { event.fixed };
        self.0.push((event.event_type.name(), fixed.to_vec(), arrays.collect()));
    }

    fn hole(&mut self, hole: Hole) {
        self.1 += hole.count;
    }
}

fn log(trace: &[u8]) -> Log {
    let mut log = Log::default();
    read(trace, &mut log).unwrap();
    log
}

#[test]
fn a_trace_with_all_its_channels_stays_the_same() {
    let out = export(sample(), "-bookmark").unwrap();
    assert_eq!(log(&out).0.len(), log(sample()).0.len());
    let mut same = Vec::new();
    convert(sample(), &mut same, Transport::Compact).unwrap();
    for (stream, bytes) in streams(&same).iter().filter(|(stream, _)| **stream != IMPORTANTS) {
        assert_eq!(streams(&out)[stream], *bytes, "{stream}");
    }
    // Without its end, too.
    let cut = &sample()[..sample().len() * 2 / 3];
    assert_eq!(log(&export(cut, "-bookmark").unwrap()).0.len(), log(cut).0.len());
}

#[test]
fn arrays_of_any_size_come_back() {
    for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 70_000, 300_000] {
        let data: Vec<u8> = (0..size).map(|at| (at >> 3) as u8).collect();
        let mut events = Vec::new();
        for serial in 0..3 {
            events.extend(&event(5, serial)[0]);
            events.extend(piece_head(1, size, 1));
            events.extend(&data);
            events.push(ARRAYS_END);
        }
        let start = [important(0), announcements(|_| true)].concat();
        let input = trace(&[(IMPORTANTS, start), (THREAD, events), (CONTROL, settled(3))]);
        let out = log(&export(&input, "memory").unwrap());
        let long: Vec<_> = out.0.iter().filter(|(name, ..)| name == "Test.Kind").collect();
        assert!(long.len() == 3 && long.iter().all(|(.., arrays)| *arrays == data), "{size}");
    }
}

#[test]
fn what_is_missing_stays_missing() {
    let start = [important(0), announcements(|_| true)].concat();
    // 2 and 3 are lost, and 6 at the end.
    let events = [event(0, 0), event(2, 1), event(2, 4), event(0, 5)].concat().concat();
    let input = trace(&[(IMPORTANTS, start), (THREAD, events), (CONTROL, settled(7))]);
    let out = export(&input, "memory").unwrap();
    assert_eq!((log(&input).1, log(&out).1), (3, 3));
    // The reader knows what is missing after the watermark only.
    assert_eq!(streams(&out)[&CONTROL], [settled(1), settled(5)].concat());
}

#[test]
fn types_of_the_tracker_have_their_channels() {
    let start = [important(0), announcements(|_| true)].concat();
    let alloc = [&ALLOC.wire().to_le_bytes()[..], &[0; 3], &[1; 8], &[2; 4], &[3; 4]].concat();
    let input = trace(&[(IMPORTANTS, start), (THREAD, alloc.clone()), (CONTROL, settled(1))]);
    let of_thread = |list| streams(&export(&input, list).unwrap()).remove(&THREAD);
    assert_eq!(of_thread("memory,callstack"), Some(alloc.clone()));
    assert_eq!(of_thread("memory"), Some([&alloc[..13], &[0; 4], &[3; 4]].concat()));
    assert_eq!(of_thread("other"), None);
}

/// Lists that are larger than a piece, and two of which are larger than a packet.
#[test]
fn lists_of_call_stacks_are_there_for_unreals_readers() {
    const STACKS: u32 = 1_800;
    let list = |first: u32| {
        let (mut writer, mut out) = (CallstackWriter::default(), Vec::new());
        for id in first..first + STACKS {
            let (outer, frames) = (Outer::End(0), [u64::from(id).wrapping_mul(0x9e37_79b9_7f4a)]);
            writer.add(&Callstack { id, outer, inner: Inner::Frames(&frames) }, &mut out);
        }
        writer.end_event(&mut out);
        assert!((16 << 10..24 << 10).contains(&out.len()), "{}", out.len());
        out
    };
    let mut records = Vec::new();
    let types = stream_events::TYPES.iter().copied().chain(KINDS.iter().map(|kind| &kind.0));
    let types = types.chain([&ALLOC, &CALLSTACKS, &CALLSTACK_SPEC, &CALLSTACK_END]);
    types.for_each(|declaration| declaration.append_record(&mut records));
    let mut start = handshake();
    start.transport = Transport::Compact;
    let mut input = start.encode();
    let mut writer = PacketWriter::new(Transport::Compact, PROTOCOL);
    writer.packet(TYPES, &records, &mut input);
    let important = [important(0), announcements(|_| true)].concat();
    writer.packet(IMPORTANTS, &important, &mut input);
    writer.packet(CONTROL, &list(7), &mut input);
    writer.packet(CONTROL, &list(7 + STACKS), &mut input);
    writer.packet(CONTROL, &settled(0), &mut input);
    writer.sync(&mut input);
    let mut out = Vec::new();
    let channels = ChannelList::parse("memory,callstack").unwrap();
    convert_channels(&input[..], &mut out, Transport::Unreal, &channels).unwrap();
    let count = |wanted| log(&out).0.iter().filter(|(name, ..)| name == wanted).count();
    assert_eq!(count("Memory.CallstackSpec"), 2 * STACKS as usize);
    assert_eq!(count("Memledger.Callstacks"), 0);
}

#[test]
fn what_cannot_be_told_is_refused() {
    let refused = |trace: &[u8], list| export(trace, list).unwrap_err().to_string();
    let unreal = include_bytes!("../../../../../tests/samples/ue511-smoke.utrace");
    assert!(refused(unreal, "-memory").contains("was not written by memledger"));
    let why = refused(sample(), "gmae,-scope");
    assert!(why.contains("no channel [\"gmae\"]; it has "), "{why}");
    let mut start = Vec::new();
    let one = || 1_u32.into();
    TRACE.append(&[one(), one(), 0_u64.into(), one(), one(), one()], &mut start);
    start.extend(announcements(|_| true));
    let input = trace(&[(IMPORTANTS, start), (THREAD, event(0, 0).concat())]);
    let why = refused(&input, "memory");
    assert!(why.contains("earlier memledger") && why.contains("Test.Kind"), "{why}");
}

#[test]
fn names_say_what_is_wanted_or_what_is_not() {
    let has = |text: &str| {
        let list = ChannelList::parse(text).unwrap();
        ["Memory", "Scope", "Bookmark"].map(|name| list.has(id(name)))
    };
    assert_eq!(has("memory"), [true, false, true]);
    assert_eq!(has("Memories , memoryChannel"), [true, false, true]);
    assert_eq!(has("Default"), [true, true, true]);
    assert_eq!(has("-memory,"), [false, true, true]);
    assert_eq!(has("-memory,-Scope"), [false, false, true]);
    assert_eq!(has("memory,-bookmark"), [true, false, false]);
    assert_eq!(has("memory,scope,-scope"), [true, false, true]);
    for (text, says) in [
        ("", "\"\" names no channel"),
        (" , ", "names no channel"),
        ("-", "called \"\""),
        ("--memory", "called \"-memory\""),
        ("memory,a b", "called \"a b\""),
    ] {
        let reason = ChannelList::parse(text).unwrap_err().to_string();
        assert!(reason.contains(says), "{text:?}: {reason}");
    }
}
