//! What the tests of Perfetto's C library show of nested tracks and of its data sources; their names are in
//! the comments. The tests of the library's map of interned texts are in
//! `src/perfetto/tracker/sequence/interner.rs`.
//!
//! Of its tests of data sources, these are ours: `DisabledNotExecuted`, `EnabledOnce`, `EnabledTwice`,
//! `FlushDone`, `LifetimeCallbacks`, `DropCount` (a session whose output is not read), `ThreadLocalState` and
//! `IncrementalState` (each thread is a sequence of its own), `IncrementalStateClearSuccess`, `GetTimestamp`
//! (a time is within 1 ms of the clock). The others are about what a session of ours does not have:
//!
//! | test | why not |
//! |---|---|
//! | `Serialization`, `Break`, `GetInstanceLocked..`, `FlushCb`, `IncrementalStateClearFailure` | a program cannot define data sources, so there are no callbacks for their instances and state |
//! | `StopDone` | a stop is never postponed: `stop` returns when all events before it are in the output |
//! | `ProtoVm`, `ActivateTriggers` | they are of Perfetto's service; a ring is written by `dump`, on request or at a panic |
//! | `PbDecoder..`, packed fields | memledger reads no protobuf; of a file of Perfetto it says which tools do |

use super::{CAT1, FILE, ledger, named, read, session};
use crate::harness::Run;
use memledger::perfetto::{CategoryChange, ChildOrder, Fixed64, FlowId, Track, TrackEventConfig};
use memledger::perfetto::{counter, instant, track_event};
use memledger::{Destination, DestinationState};
use memledger_test_support::packets::{Field, Trace, TrackEvent};
use std::sync::Mutex;

pub(super) fn nested() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    track_event!(
        CAT1,
        instant("ordered"),
        nested_tracks[
            process,
            named("parent", 1, [child_order(ChildOrder::Explicit)]),
            named("child", 2, [order(7)]),
        ],
    );
    track_event!(
        CAT1,
        instant("merged by text"),
        nested_tracks[process, named("text", 1, [merge_by("key")])],
    );
    track_event!(
        CAT1,
        instant("merged by number"),
        nested_tracks[process, named("number", 1, [field(15, 3), field(17, 42)])],
    );
    session.stop();
}

/// `HlNestedTrackOrdered`, `HlNestedTrackMerged`.
pub(super) fn nested_test(run: Run) {
    let trace = read(run);
    let (parent, child) = (trace.track("parent"), trace.track("child"));
    assert_eq!(parent.number(11), Some(3), "its children have an explicit order");
    assert_eq!((child.number(12), child.number(5)), (Some(7), parent.number(1)));
    assert_eq!(Some(named(&trace, "ordered").track), child.number(1));
    let by_key = trace.track("text");
    assert_eq!((by_key.number(15), by_key.text(16).as_deref()), (Some(3), Some("key")));
    assert_eq!((by_key.number(17), by_key.number(12), by_key.number(11)), (None, None, None));
    let by_number = trace.track("number");
    assert_eq!((by_number.number(15), by_number.number(17)), (Some(3), Some(42)));
    assert_eq!(by_number.text(16), None);
}

static CHANGES: Mutex<Vec<CategoryChange>> = Mutex::new(Vec::new());

pub(super) fn enabled() {
    let ledger = ledger();
    let mut executed = 0;
    let mut emit = |name: &str| {
        instant!(
            CAT1,
            name,
            arg("count", {
                executed += 1;
                executed
            })
        )
    };
    emit("disabled");
    CAT1.on_change(Some(|change| CHANGES.lock().unwrap().push(change)));
    let first = session(&ledger, TrackEventConfig::all());
    emit("once");
    first.flush();
    assert_eq!(first.status().events, 1, "it is in the file when a flush returns");
    let second = Destination::track_events("second.pftrace", TrackEventConfig::all());
    let second = ledger.trace_to(second).unwrap();
    emit("twice");
    assert_eq!(first.status().state, DestinationState::Sending);
    // What was emitted before the end is in the file, without a flush.
    first.stop();
    emit("of the second");
    second.stop();
    emit("late");
    let changes = std::mem::take(&mut *CHANGES.lock().unwrap());
    let seen = changes.iter().map(|change| (change.session, change.enabled));
    let [one, two] = [changes[0].session, changes[1].session];
    assert_ne!(one, two);
    // Each session begins before it ends, with the same number.
    let expected = [(one, true), (two, true), (one, false), (two, false)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(executed, 3);
}

/// `DisabledNotExecuted`, `EnabledOnce`, `EnabledTwice`, `FlushDone`, `LifetimeCallbacks`.
pub(super) fn enabled_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let events = |file: &str| {
        let trace = Trace::decode(&std::fs::read(outcome.path(file)).unwrap());
        let event =
            |event: &TrackEvent| (event.name.clone().unwrap(), event.arguments[0].1.clone());
        trace.events.iter().map(event).collect::<Vec<_>>()
    };
    let event = |name: &str, count| (name.to_owned(), Field::Number(count));
    assert_eq!(events(FILE), [event("once", 1), event("twice", 2)]);
    assert_eq!(events("second.pftrace"), [event("twice", 2), event("of the second", 3)]);
}

/// How often each place emits.
const ROUNDS: usize = 3;

/// The first event of a place says what is known of it, and others are written from what was found out then.
pub(super) fn again() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    let bytes = Track::counter("bytes").parent(Track::global()).register().unwrap();
    let row = Track::named("row", 1).parent(Track::global()).register().unwrap();
    for _ in 0..ROUNDS {
        instant!(
            CAT1,
            "arguments",
            arg("bool", true),
            arg("u64", u64::MAX),
            arg("i64", -1_i64),
            arg("f64", -1.5_f64),
            arg("f32", 2.5_f32),
        );
        instant!(
            CAT1,
            "texts",
            arg("text", "Ümit"),
            arg("n", 300),
            arg("pointer", std::ptr::null::<u8>())
        );
        instant!(
            CAT1,
            "flows",
            flow(FlowId::global(7)),
            terminating_flow(FlowId::global(u64::MAX)),
            arg("n", 0)
        );
        counter!(CAT1, track(bytes), i64::MIN);
        counter!(CAT1, track(bytes), 300);
        counter!(CAT1, track(bytes), 0.25);
        instant!(CAT1, "registered", arg("before", 1), track(row), arg("after", 2));
        let [two, four] = [2, 4].map(Track::from_uuid);
        instant!(
            CAT1,
            "named",
            named_track("first", 1, two),
            named_track("last", 3, four),
            arg("n", 5)
        );
        instant!(CAT1, "fields", field(1000, 300_u32), arg("n", 1), field(1001, Fixed64(9)));
    }
    // A place in a generic function has values of several kinds.
    fn of_any<T: memledger::perfetto::TrackValue>(value: T) {
        instant!(CAT1, "generic", arg("value", value));
    }
    for _ in 0..ROUNDS {
        of_any(7_u64);
        of_any(-7_i64);
        of_any(1.5_f64);
        of_any("text");
    }
    session.stop();
}

pub(super) fn again_test(run: Run) {
    let trace = read(run);
    let (each, generic) = trace.events.split_at(9 * ROUNDS);
    for (round, events) in each.chunks(9).enumerate() {
        for (first, event) in each.iter().zip(events) {
            let what = |event: &TrackEvent| (event.message.clone(), event.track);
            assert_eq!(what(event), what(first), "in round {round}");
        }
    }
    let first = &each[0].arguments;
    let number = |name: &str, field, value| (name.to_owned(), Field::Number(value), field);
    let double = |name: &str, value: f64| (name.to_owned(), Field::Fixed64(value.to_bits()), 5);
    let expected = [
        number("bool", 2, 1),
        number("u64", 3, u64::MAX),
        number("i64", 4, u64::MAX),
        double("f64", -1.5),
        double("f32", 2.5),
    ];
    assert_eq!(*first, expected);
    assert_eq!(each[2].message.numbers(47), [7]);
    assert_eq!(each[2].message.numbers(48), [u64::MAX]);
    assert_eq!(each[3].message.number(30), Some(i64::MIN as u64));
    assert_eq!(each[7].track, super::uuid_of("last", 3, 4));
    assert_eq!((trace.starts, generic.len()), (1, 4 * ROUNDS));
    for values in generic.chunks(4) {
        let values =
            values.iter().map(|event| (event.arguments[0].1.clone(), event.arguments[0].2));
        let expected = [
            (Field::Number(7), 3),
            (Field::Number(-7_i64 as u64), 4),
            (Field::Fixed64(1.5_f64.to_bits()), 5),
            (Field::Bytes("text".into()), 6),
        ];
        assert_eq!(values.collect::<Vec<_>>(), expected);
    }
}
