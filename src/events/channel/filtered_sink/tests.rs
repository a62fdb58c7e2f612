use super::*;
use crate::trace::format::arrays::piece_head;
use crate::trace::format::layout::{
    ARRAYS_END, ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT,
};
use crate::trace::format::schema::FieldType::{AnsiString, U8, U64};
use crate::trace::format::schema::NO_SYNC;
use crate::trace::format::stream_events::THREAD_START;
use crate::trace::worker::{CONTROL, preamble, settled_below};
use crate::trace::write::declared::{Declared, DeclaredField, Family, Logged};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

static WANTED: Channel = Channel::new("FilterWanted", false);
static UNWANTED: Channel = Channel::new("FilterUnwanted", false);

const fn ours(uid: u16, flags: u8) -> Declaration {
    Declaration { uid, logger: "Test", event: "Ours", flags, fields: &[("F", U64)] }
}

static OURS: [Declaration; 4] = [ours(40, 0), ours(41, NO_SYNC), ours(42, 0), ours(43, NO_SYNC)];
static NEEDS: [Needs; 2] =
    [(&[&WANTED], &[&OURS[0], &OURS[1]]), (&[&WANTED, &UNWANTED], &[&OURS[2], &OURS[3]])];

/// No type has this field but those of its own test.
static CLEARED: Cleared = (&UNWANTED, "Stack");

static SHORT: Declared = Declared::new("FilteredSink", "Short", 0, &[]);
static LONG: Declared = Declared::new(
    "FilteredSink",
    "Long",
    0,
    &[
        DeclaredField { name: "Small", field_type: U8, family: Family::Regular },
        DeclaredField { name: "Name", field_type: AnsiString, family: Family::Regular },
    ],
);
static PROGRAMS: [Logged; 4] = [
    Logged::new(|| &SHORT, &[WANTED.id()]),
    Logged::new(|| &LONG, &[WANTED.id()]),
    Logged::new(|| &SHORT, &[WANTED.id(), UNWANTED.id()]),
    Logged::new(|| &LONG, &[UNWANTED.id()]),
];

/// For each kind of event, whether it is wanted, and whether it has a serial: first the kinds in
/// `OURS`, then the kinds in `PROGRAMS`.
const KINDS: [(bool, bool); 8] = [
    (true, true),
    (true, false),
    (false, true),
    (false, false),
    (true, true),
    (true, true),
    (false, true),
    (false, true),
];

/// The parts of an event. A packet can end between two of them.
fn event(kind: usize, serial: u64) -> Vec<Vec<u8>> {
    let serial = &serial.to_le_bytes()[..3];
    let of_ours = |at: usize| OURS[at].wire().to_le_bytes();
    match kind {
        0 | 2 => vec![[&of_ours(kind)[..], serial, &[0x08; 8]].concat()],
        1 | 3 => vec![[&of_ours(kind)[..], &[0x0a; 8]].concat()],
        4 | 6 => vec![[&PROGRAMS[kind - 4].register().to_le_bytes()[..], serial].concat()],
        _ => vec![
            [&PROGRAMS[kind - 4].register().to_le_bytes()[..], serial, &[7]].concat(),
            [&piece_head(1, 3, 1)[..], &[0x08, 0x0a, 0x06]].concat(),
            [&piece_head(1, 1, 1)[..], &[0x51]].concat(),
            vec![ARRAYS_END],
        ],
    }
}

type Packet = (u16, Vec<u8>);

#[derive(Clone, Default)]
struct Collect(Arc<Mutex<Vec<Packet>>>);

impl Sink for Collect {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.0.lock().unwrap().push((stream, payload.to_vec()));
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

fn no_problem(error: Error) {
    panic!("{error}");
}

/// A filter that excludes `UNWANTED`, and the output of its sink.
fn filter() -> (FilteredSink, Collect) {
    for channel in [&WANTED, &UNWANTED] {
        channel.is_enabled();
    }
    let out = Collect::default();
    let filter = ChannelFilter::parse("-filterunwanted").unwrap();
    (FilteredSink::new(filter, &NEEDS, &CLEARED, Box::new(out.clone()), no_problem), out)
}

impl Collect {
    /// All bytes that a stream has received.
    fn stream(&self, stream: u16) -> Vec<u8> {
        let packets = self.0.lock().unwrap();
        packets
            .iter()
            .filter(|(of, _)| *of == stream)
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    }
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
    let steps = prop::collection::vec((5..9_u16, step(), any::<u8>()), 0..40);
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
        let (wanted, synced) = KINDS[kind];
        if let Step::Enter(_, timed) = step {
            open.push(wanted);
            if wanted {
                out.extend(enter(*timed));
            }
        }
        if wanted {
            out.extend(event(kind, self.serial).concat());
            self.serial += u64::from(synced);
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
        const CONTROL: u16 = 2;
        // The 24 bits of the serials wrap during the test, in the input and in the output.
        let first = (1 << 24) - 30;
        let (mut filter, out) = filter();
        let (mut naive, mut serial) = (Naive { serial: first, ..Naive::default() }, first);
        filter.packet(CONTROL, &settled_below(first));
        let mut told = settled_below(first);
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
                        serial += u64::from(KINDS[kind].1);
                    }
                    Step::Event(kind) => {
                        parts.extend(event(kind, serial));
                        serial += u64::from(KINDS[kind].1);
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
                packets.iter().for_each(|packet| filter.packet(thread, packet));
            }
            filter.packet(CONTROL, &settled_below(serial));
            told.extend(settled_below(naive.serial));
            // Now no event is held back.
            prop_assert_eq!(&out.stream(CONTROL), &told);
            for (thread, bytes) in &naive.out {
                prop_assert_eq!(&out.stream(*thread), bytes);
            }
        }
        // All open scopes are closed, as at the end of a recording.
        for (thread, open) in open {
            filter.packet(thread, &vec![LEAVE_SCOPE; open]);
            (0..open).for_each(|_| naive.take(thread, &Step::Leave(false)));
        }
        let report = |serial: u64| {
            let mut bytes = Vec::new();
            let zero = || 0_u64.into();
            let values = [serial.into(), zero(), zero(), zero(), zero(), zero(), zero()];
            REPORT.append(&values, &mut bytes);
            bytes
        };
        filter.packet(3, &report(serial));
        filter.finish().unwrap();
        prop_assert_eq!(out.stream(3), report(naive.serial));
        for (thread, bytes) in &naive.out {
            prop_assert_eq!(&out.stream(*thread), bytes);
        }
    }
}

#[test]
fn exact_bytes_and_what_is_held_back_until_when() {
    let (mut filter, out) = filter();
    filter.packet(2, &settled_below(3));
    // Two threads: one has the serials 3 and 5, the other 4.
    filter.packet(5, &[event(0, 3), event(1, 0), event(0, 5)].concat().concat());
    filter.packet(6, &event(2, 4)[0]);
    filter.sync().unwrap();
    assert_eq!(out.stream(5), [0; 0], "how many are left out before is not known yet");
    filter.packet(2, &settled_below(6));
    assert_eq!(out.stream(5), [event(0, 3), event(1, 0), event(0, 4)].concat().concat());
    assert_eq!(
        (out.stream(6), out.stream(2)),
        (vec![], [settled_below(3), settled_below(5)].concat())
    );
}

#[test]
fn events_without_serials_are_held_back_until_the_next_sync_only() {
    let (mut filter, out) = filter();
    filter.packet(CONTROL, &settled_below(3));
    // The worker writes no watermark after a cycle without a serial.
    for count in 1..4 {
        filter.packet(5, &[event(1, 0), event(3, 0)].concat().concat());
        filter.sync().unwrap();
        assert_eq!(out.stream(5), event(1, 0).concat().repeat(count));
    }
}

#[test]
fn what_was_alive_is_not_held_back() {
    let (mut filter, out) = filter();
    filter.packet(2, &settled_below(7));
    let mut start = Vec::new();
    THREAD_START.append(&[1_u32.into(), 2_u32.into(), "name".into()], &mut start);
    filter.packet(5, &start);
    // In a scope that is not wanted.
    let block =
        |serial| [vec![ENTER_SCOPE], event(3, 0).concat(), event(0, serial).concat()].concat();
    for serial in 7..10 {
        filter.packet(BLOCKS, &[block(serial), vec![LEAVE_SCOPE]].concat());
        assert_eq!(
            out.stream(BLOCKS),
            (7..=serial).flat_map(|s| event(0, s).concat()).collect::<Vec<_>>()
        );
    }
    filter.packet(2, &settled_below(10));
    assert_eq!(out.stream(5), start);
    filter.packet(5, &[event(2, 10), event(0, 11)].concat().concat());
    filter.packet(2, &settled_below(12));
    assert_eq!(out.stream(5), [start, event(0, 10).concat()].concat());
}

#[test]
fn channels_are_told_as_they_are_in_this_stream() {
    let (mut filter, out) = filter();
    let mut expected = preamble(1, true);
    let mut all = expected.clone();
    for (channel, wanted) in [(&WANTED, true), (&UNWANTED, false)] {
        let announce = |on: bool, out: &mut Vec<u8>| {
            let (on, name) = (u32::from(on).into(), channel.name().into());
            CHANNEL_ANNOUNCE.append(&[channel.id().into(), on, 0_u32.into(), name], out);
        };
        announce(true, &mut all);
        announce(wanted, &mut expected);
        for list in [Some(&mut all), wanted.then_some(&mut expected)].into_iter().flatten() {
            CHANNEL_TOGGLE.append(&[channel.id().into(), 0_u32.into()], list);
        }
    }
    // Important events of the program, as they lie in the cache.
    for (logged, wanted) in PROGRAMS.iter().zip([true, true, false, false]) {
        let event = [&(logged.register() >> 1).to_le_bytes()[..], &[3, 0], &[1, 2, 3]].concat();
        all.extend(&event);
        expected.extend(if wanted { event } else { Vec::new() });
    }
    filter.packet(IMPORTANTS, &all);
    assert_eq!(out.stream(IMPORTANTS), expected);
}

#[test]
fn bytes_that_no_thread_writes_end_it_with_a_message() {
    for bytes in [&[0xff, 0xff, 1][..], &event(0, 1)[0][..12], &[0x10]] {
        let (mut filter, out) = filter();
        filter.packet(2, &settled_below(1));
        filter.packet(5, bytes);
        let error = filter.sync().unwrap_err().to_string();
        assert!(error.contains(&format!("{} bytes of stream 5", bytes.len())), "{error}");
        assert_eq!(out.stream(5), [0; 0]);
    }
}

#[test]
fn a_name_that_no_channel_has_is_told_at_the_end() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let filter = ChannelFilter::parse("gmae,-filterunwanted").unwrap();
    let tell = |error: Error| TOLD.lock().unwrap().push(error.to_string());
    FilteredSink::new(filter, &NEEDS, &CLEARED, Box::new(Collect::default()), tell)
        .finish()
        .unwrap();
    let told = TOLD.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("[\"gmae\"]"), "{told:?}");
}

#[test]
fn a_field_of_a_channel_that_is_not_wanted_is_0() {
    use crate::trace::format::schema::FieldType::U32;
    static TYPE: Declaration = Declaration {
        uid: 44,
        logger: "Test",
        event: "Stack",
        flags: 0,
        fields: &[("Address", U64), ("Stack", U32), ("Size", U32)],
    };
    static NEEDS: [Needs; 1] = [(&[&WANTED], &[&TYPE])];
    let passed = |text: &str| {
        for channel in [&WANTED, &UNWANTED] {
            channel.is_enabled();
        }
        let out = Collect::default();
        let filter = ChannelFilter::parse(text).unwrap();
        let mut sink =
            FilteredSink::new(filter, &NEEDS, &CLEARED, Box::new(out.clone()), no_problem);
        let event = [&TYPE.wire().to_le_bytes()[..], &[0; 3], &[1; 8], &[2; 4], &[3; 4]].concat();
        sink.packet(5, &event);
        sink.packet(CONTROL, &settled_below(1));
        sink.sync().unwrap();
        (event, out.stream(5))
    };
    let (event, all) = passed("filterwanted,filterunwanted");
    assert_eq!(all, event);
    let (event, cleared) = passed("-filterunwanted");
    assert_eq!(cleared, [&event[..13], &[0; 4], &[3; 4]].concat());
}
