//! Track events: what is in the file of a session. A name in the comment of a test is that of the test of
//! Perfetto's C library that shows the same.

mod many;
mod memory;
mod sessions;
mod upstream;

use crate::harness::{Case, Run, case};
use memledger::perfetto::{
    CategoryChange, DYNAMIC, Fixed64, FlowId, Track, TrackEventConfig, Unit, ZigZag,
};
use memledger::perfetto::{counter, instant, slice, state, track_event};
use memledger::{Destination, DestinationHandle, DestinationState, Ledger};
use memledger_test_support::packets::{Field, Trace, TrackEvent};
use std::num::NonZeroU64;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::task::{self, Poll};

const FILE: &str = "run.pftrace";

memledger::perfetto::categories! {
    CAT1 = "cat1": "The first" ["tag"];
    CAT2 = "cat2";
    CAT3 = "cat3";
    LATE = "late";
    COUNTED = "counted";
}

pub(crate) const CASES: &[Case] = &[
    case("nothing is evaluated without a session", without_a_session, ends_well),
    case("a configuration decides which categories are enabled", enabled_categories, ends_well),
    case("callbacks hear of each session in order", callbacks, ends_well),
    case("events have their names, categories and arguments", events, events_test),
    case("tracks are described once, before their first event", tracks, tracks_test),
    case("each session decides on dynamic categories", dynamic, dynamic_test),
    case("scoped slices end where their block ends", scoped, scoped_test),
    case("fields of the program are in the event", proto_fields, proto_fields_test),
    case("times are those of the clocks they are on", times, times_test),
    case("times have the unit of the session", units, units_test),
    case(
        "a trace has track events if its channels say so",
        sessions::traced,
        sessions::traced_test,
    ),
    case(
        "a sequence starts anew after the clear period",
        sessions::clear_period,
        sessions::clear_period_test,
    ),
    case("a ring keeps the last events, and always opens", many::ring, many::ring_test),
    case(
        "events in the allocator, in signal handlers and at the end of threads",
        many::places,
        many::places_test,
    ),
    case("many threads and sessions at once", many::crowd, many::crowd_test),
    case("tracks with one uuid are reported once", many::collision, many::collision_test),
    case("other events of the program are in the session", many::program, many::program_test),
    case("spans are slices", many::spans, many::spans_test),
    case("the environment starts a session", many::environment, many::environment_test),
    case("a ring is written when the program panics", many::panics, many::panics_test),
    case("a recording can begin with track events", sessions::built, sessions::built_test),
    case("what cannot be is refused in a sentence", sessions::refusals, ends_well),
    case("a session with memory has the totals of the report", memory::whole, memory::whole_test),
    case("a late session has the heap that exists", memory::late, memory::late_test),
    case("commands start, flush, dump and stop sessions", sessions::commands, ends_well),
    case("a session ends after its time", sessions::duration, sessions::duration_test),
    #[cfg(unix)]
    case("a session whose output is read slowly drops events", sessions::blocked, ends_well),
    case("losses are in the sequence of their thread", sessions::losses, sessions::losses_test),
    case(
        "names of tracks and arguments can be texts of the program",
        sessions::runtime_names,
        sessions::runtime_names_test,
    ),
    case(
        "nested tracks have an order, and keys to merge by",
        upstream::nested,
        upstream::nested_test,
    ),
    case("each session that runs has an event once", upstream::enabled, upstream::enabled_test),
    case("events of a place are written as its first", upstream::again, upstream::again_test),
];

fn ends_well(run: Run) {
    run.run().exited(0);
}

fn ledger() -> Ledger {
    Ledger::builder().start().unwrap()
}

fn session(ledger: &Ledger, config: TrackEventConfig) -> DestinationHandle {
    ledger.trace_to(Destination::track_events(FILE, config)).unwrap()
}

/// A session that keeps its last 64 KiB in memory.
fn ring(ledger: &Ledger, config: TrackEventConfig) -> Result<DestinationHandle, memledger::Error> {
    ledger.trace_to(Destination::track_event_ring(0, config))
}

/// Runs the child, and reads its file.
fn read(run: Run) -> Trace {
    let outcome = run.run();
    outcome.exited(0);
    Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap())
}

fn named<'a>(trace: &'a Trace, name: &str) -> &'a TrackEvent {
    let event = trace.events.iter().find(|event| event.name.as_deref() == Some(name));
    event.unwrap_or_else(|| panic!("no event is called {name}: {:?}", trace.events))
}

/// `NonInitialized.TeMacro`, `FastpathOtherDsCatDisabled`.
fn without_a_session() {
    assert!(!CAT1.is_enabled());
    track_event!(CAT1, instant("a"), arg("x", unreachable::<u64>()));
    let _ledger = ledger();
    track_event!(CAT1, instant("a"), arg("x", unreachable::<u64>()));
    assert!(!CAT1.is_enabled());
}

fn unreachable<T>() -> T {
    panic!("the value of a disabled event is evaluated")
}

/// `FastpathEmptyConfigDisablesAllCats`, `FastpathOneCatEnabled`, `IsCategoryEnabled`.
fn enabled_categories() {
    let ledger = ledger();
    let enabled = || [&CAT1, &CAT2, &CAT3].map(|category| category.is_enabled());
    let session = session(&ledger, TrackEventConfig::default());
    assert_eq!(enabled(), [false; 3]);
    session.stop();
    let session = ring(&ledger, TrackEventConfig::default().enable("cat1").disable("*")).unwrap();
    assert_eq!(enabled(), [true, false, false]);
    // A second session enables more; what it enables is off again when it ends.
    let second = ring(&ledger, TrackEventConfig::default().enable("cat2")).unwrap();
    assert_eq!(enabled(), [true, true, false]);
    // A category that is used for the first time while sessions run.
    let third = ring(&ledger, TrackEventConfig::default().enable("la*")).unwrap();
    assert!(LATE.is_enabled());
    session.stop();
    assert_eq!(enabled(), [false, true, false]);
    second.stop();
    // The end of the recording ends what still runs.
    drop(ledger);
    assert_eq!(third.status().state, DestinationState::Ended);
    assert_eq!((enabled(), LATE.is_enabled()), ([false; 3], false));
}

static CHANGES: Mutex<Vec<(bool, bool)>> = Mutex::new(Vec::new());

fn take_changes() -> Vec<(bool, bool)> {
    std::mem::take(&mut CHANGES.lock().unwrap())
}

/// `CategoryCallback`.
fn callbacks() {
    let note =
        |change: CategoryChange| CHANGES.lock().unwrap().push((change.enabled, change.is_global));
    static LEDGER: OnceLock<Ledger> = OnceLock::new();
    let start = |config| ring(LEDGER.get_or_init(ledger), config).unwrap();
    CAT1.on_change(Some(note));
    assert_eq!(take_changes(), []);
    let first = start(TrackEventConfig::default().enable("cat1"));
    assert_eq!(take_changes(), [(true, true)]);
    let other = start(TrackEventConfig::default().enable("cat2"));
    assert_eq!(take_changes(), []);
    let second = start(TrackEventConfig::default().enable("cat1"));
    assert_eq!(take_changes(), [(true, false)]);
    // A callback that is set late hears of the sessions that run.
    CAT1.on_change(Some(note));
    assert_eq!(take_changes(), [(true, true), (true, false)]);
    first.stop();
    assert_eq!(take_changes(), [(false, false)]);
    second.stop();
    assert_eq!(take_changes(), [(false, true)]);
    other.stop();
    // A callback can start a session itself, and emit events.
    static ONCE: AtomicBool = AtomicBool::new(true);
    CAT3.on_change(Some(|change| {
        if change.enabled && ONCE.swap(false, Ordering::Relaxed) {
            let config = TrackEventConfig::default().enable("cat1");
            let inner = ring(LEDGER.get_or_init(ledger), config).unwrap();
            instant!(CAT1, "from a callback");
            inner.flush();
            assert_eq!(inner.status().events, 1);
            inner.stop();
        }
    }));
    start(TrackEventConfig::default().enable("cat3")).stop();
    assert_eq!(take_changes(), [(true, true), (false, true)]);
    CAT1.on_change(None);
    start(TrackEventConfig::all()).stop();
    assert_eq!(take_changes(), []);
}

fn events() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all().disable("cat3"));
    instant!(CAT1, "instant");
    instant!(CAT1, "instant");
    track_event!(CAT1, instant("written out"), no_intern);
    let dynamic = String::from("made while it runs");
    track_event!(CAT2, instant(&dynamic));
    track_event!(CAT3, instant("of a disabled category"));
    let here = std::ptr::from_ref(&dynamic);
    track_event!(
        CAT1,
        slice_begin("arguments"),
        arg("bool", true),
        arg("u8", 42_u8),
        arg("u64", u64::MAX),
        arg("i32", -7_i32),
        arg("f64", 1.5_f64),
        arg("f32", 2.5_f32),
        arg("text", "Ümit"),
        arg("string", &dynamic),
        arg("pointer", here),
    );
    track_event!(CAT1, slice_end());
    let job = FlowId::process_scoped(7);
    track_event!(CAT1, instant("flow"), flow(job), flow(FlowId::global(9)));
    track_event!(CAT1, instant("flow's end"), terminating_flow(job));
    track_event!(CAT1, instant("correlated"), correlation(11_u64));
    track_event!(CAT1, instant("correlated by text"), correlation("request 5"));
    std::fs::write("job", job.get().to_string()).unwrap();
    session.stop();
}

/// `HlCategory`, `HlInstant`, `HlInstantNoIntern`, `HlDbgArg`, `HlCorrelationId`.
fn events_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let job = std::fs::read_to_string(outcome.path("job")).unwrap().parse::<u64>().unwrap();
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    let names = trace.events.iter().map(|event| event.name.as_deref().unwrap_or("-"));
    let expected = [
        "instant",
        "instant",
        "written out",
        "made while it runs",
        "arguments",
        "-",
        "flow",
        "flow's end",
        "correlated",
        "correlated by text",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    let instant = &trace.events[0];
    assert_eq!(
        (instant.kind, instant.interned, &*instant.categories),
        (3, true, &["cat1".into()][..])
    );
    assert!(!trace.events[2].interned && trace.events[3].interned);
    assert_eq!(trace.events[3].categories, ["cat2"]);
    let [begin, end] = [&trace.events[4], &trace.events[5]];
    assert_eq!((begin.kind, end.kind, &*end.categories), (1, 2, &[][..]));
    let number = |name: &str, field, value| (name.to_owned(), Field::Number(value), field);
    let text = |name: &str, value: &str| (name.to_owned(), Field::Bytes(value.into()), 6);
    let double = |name: &str, value: f64| (name.to_owned(), Field::Fixed64(value.to_bits()), 5);
    assert_eq!(
        begin.arguments[..8],
        [
            number("bool", 2, 1),
            number("u8", 3, 42),
            number("u64", 3, u64::MAX),
            number("i32", 4, -7_i64 as u64),
            double("f64", 1.5),
            double("f32", 2.5),
            text("text", "Ümit"),
            text("string", "made while it runs"),
        ]
    );
    assert_eq!((begin.arguments[8].0.as_str(), begin.arguments[8].2), ("pointer", 7));
    assert_eq!(named(&trace, "flow").message.numbers(47), [job, 9]);
    assert_eq!(named(&trace, "flow's end").message.numbers(48), [job]);
    assert_eq!(named(&trace, "correlated").message.number(52), Some(11));
    let correlated = named(&trace, "correlated by text");
    assert_eq!(correlated.message.text(53).as_deref(), Some("request 5"));
    assert_eq!((trace.starts, trace.lost), (1, 0));
}

fn tracks() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    track_event!(CAT1, instant("named"), named_track("MyTrack", 1, Track::from_uuid(2)));
    track_event!(CAT1, instant("named"), named_track("MyTrack", 1, Track::from_uuid(2)));
    let bytes = Track::counter("MyCounter")
        .parent(Track::from_uuid(2))
        .unit(Unit::Bytes)
        .register()
        .unwrap();
    counter!(CAT1, track(bytes), 42);
    counter!(CAT1, track(bytes), -1_i64);
    counter!(CAT1, track(bytes), 0.5);
    let state = Track::state("MyState").parent(Track::global()).register().unwrap();
    state!(CAT1, track(state), "RUNNING");
    state!(CAT1, track(state), "");
    track_event!(
        CAT1,
        instant("nested"),
        nested_tracks[process, named("outer", 1), named("inner", 2)],
    );
    track_event!(CAT1, instant("of the thread"), nested_tracks[thread, named("below", 3)]);
    track_event!(CAT1, instant("on a registered one"), nested_tracks[named("x", 1), track(bytes)]);
    track_event!(
        CAT1,
        instant("proto"),
        proto_track(
            77,
            [field(2, "a proto track"), field(12, 5_i32), message(8, [field(3, 3_u32)])]
        ),
    );
    // The last track counts.
    track_event!(
        CAT1,
        instant("last"),
        named_track("first", 0, Track::global()),
        named_track("second", 0, Track::global())
    );
    let threads = [Track::process().uuid(), Track::thread().uuid()];
    std::fs::write("threads", format!("{} {}", threads[0], threads[1])).unwrap();
    session.stop();
}

/// The uuid of a track with a name.
fn uuid_of(name: &str, id: u64, parent: u64) -> u64 {
    Track::named(name, id).parent(Track::from_uuid(parent)).register().unwrap().uuid()
}

/// `HlNamedTrack`, `HlRegisteredCounter`, `HlRegisteredState`, `HlNestedTrack`.
fn tracks_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let uuids = std::fs::read_to_string(outcome.path("threads")).unwrap();
    let uuids = uuids.split(' ').map(|uuid| uuid.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    let uuid = uuid_of("MyTrack", 1, 2);
    assert_eq!(named(&trace, "named").track, uuid);
    let fields = |name| trace.track(name).0.iter().map(|(field, _)| *field).collect::<Vec<_>>();
    assert_eq!(trace.tracks[&uuid], *trace.track("MyTrack"));
    assert_eq!(fields("MyTrack"), [1, 5, 2]);
    let counter = trace.track("MyCounter");
    let track = Track::counter("MyCounter").parent(Track::from_uuid(2)).register().unwrap();
    assert_eq!(counter.number(1), Some(track.uuid()));
    assert_eq!(counter.message(8).unwrap().number(3), Some(3), "its unit is bytes");
    let counts = trace.events.iter().filter(|event| event.kind == 4).collect::<Vec<_>>();
    let integers = counts.iter().filter_map(|event| event.message.number(30));
    assert_eq!(integers.collect::<Vec<_>>(), [42, u64::MAX]);
    assert_eq!(counts[2].message.number(44), Some(0.5_f64.to_bits()));
    assert!(counts.iter().all(|event| event.categories.is_empty() && event.name.is_none()));
    assert_eq!(fields("MyState"), [1, 2, 18]);
    let states = trace.events.iter().filter(|event| event.kind == 5).collect::<Vec<_>>();
    assert_eq!((states[0].name.as_deref(), states[1].name.as_deref()), (Some("RUNNING"), Some("")));
    assert_eq!(states[0].categories, ["cat1"]);

    let outer = uuid_of("outer", 1, uuids[0]);
    let inner = uuid_of("inner", 2, outer);
    assert_eq!(named(&trace, "nested").track, inner);
    assert_eq!(trace.track("inner").number(5), Some(outer));
    assert_eq!(trace.track("outer").number(5), Some(uuids[0]));
    assert_eq!(named(&trace, "of the thread").track, uuid_of("below", 3, uuids[1]));
    assert_eq!(named(&trace, "on a registered one").track, counter.number(1).unwrap());
    let proto = &trace.tracks[&77];
    assert_eq!((proto.text(2).as_deref(), proto.number(12)), (Some("a proto track"), Some(5)));
    assert_eq!(proto.message(8).unwrap().number(3), Some(3));
    assert_eq!(named(&trace, "last").track, uuid_of("second", 0, 0));
}

fn dynamic() {
    let ledger = ledger();
    let first = session(&ledger, TrackEventConfig::default().enable("dyn1"));
    let second = TrackEventConfig::default().enable("dyn2").enable("cat1");
    let second = ledger.trace_to(Destination::track_events("second.pftrace", second)).unwrap();
    for name in ["dyn1", "dyn2", "dyn3"] {
        track_event!(DYNAMIC, instant("dynamic"), category(name));
    }
    instant!(CAT1, "static");
    first.flush();
    second.flush();
    assert_eq!((first.status().events, second.status().events), (1, 2));
    first.stop();
    second.stop();
    track_event!(DYNAMIC, instant("late"), category(unreachable::<&str>()));
}

/// `HlDynamicCategory`, `HlDynamicCategoryMultipleSessions`.
fn dynamic_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    for (file, expected) in [
        (FILE, &[("dynamic", "dyn1")][..]),
        ("second.pftrace", &[("dynamic", "dyn2"), ("static", "cat1")]),
    ] {
        let trace = Trace::decode(&std::fs::read(outcome.path(file)).unwrap());
        let found = trace.events.iter();
        let found =
            found.map(|event| (event.name.as_deref().unwrap(), event.categories[0].as_str()));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{file}");
    }
}

fn scoped() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::default().enable("cat1"));
    {
        slice!(CAT1, "outer", arg("x", 1));
        if session.status().events < 1_000_000 {
            slice!(CAT1, "inner");
        }
        slice!(CAT2, "disabled", arg("x", unreachable::<u64>()));
    }
    assert_eq!(slice!(CAT1, "with a block", { 7 }), 7);
    assert_eq!(slice!(CAT1, "labelled", 'a: { break 'a 7 }), 7);
    assert_eq!(slice!(CAT1, "a call", early(true)), 1);
    let awaited = String::from("awaited");
    poll_twice(slice!(CAT1, &awaited, async { YieldOnce::default().await }));
    fn early(leave: bool) -> u32 {
        slice!(CAT1, "left early");
        if leave {
            return 1;
        }
        2
    }
    early(true);
    // A slice whose category is off when it ends has no end.
    let name = String::from("never ended");
    slice!(CAT1, &name);
    session.stop();
}

/// A future that is ready when it is polled again.
#[derive(Default)]
struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn poll_twice(future: impl Future<Output = ()> + Send) {
    let mut future = pin!(future);
    let mut context = task::Context::from_waker(task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert!(future.poll(&mut context).is_ready());
}

/// `Scoped`, `ScopedDisabled`, `ScopedSingleLine`, `ScopedCapture`, `ScopedFunc`.
fn scoped_test(run: Run) {
    let trace = read(run);
    let mut depth = 0_i32;
    let seen = trace.events.iter().map(|event| match event.kind {
        1 => {
            depth += 1;
            format!("{depth} {}", event.name.as_deref().unwrap())
        }
        2 => {
            depth -= 1;
            "end".into()
        }
        other => panic!("{other}"),
    });
    let expected = [
        "1 outer",
        "2 inner",
        "end",
        "end",
        "1 with a block",
        "end",
        "1 labelled",
        "end",
        "1 a call",
        "2 left early",
        "end",
        "end",
        "1 awaited",
        "end",
        "1 awaited",
        "end",
        "1 left early",
        "end",
        "1 never ended",
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

fn proto_fields() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    track_event!(
        CAT1,
        instant("fields"),
        field(1000, "text"),
        message(
            1001,
            [
                field(1, 7_u32),
                message(2, [field(1, ZigZag(-3)), field(2, Fixed64(5)), field(3, 1.5_f64)]),
                field(3, 2.5_f32),
                field(4, -1_i32),
            ]
        ),
        interned(1002, 30, "once"),
        arg("after", 1),
    );
    track_event!(CAT1, instant("fields again"), interned(1002, 30, "once"));
    session.stop();
}

/// `HlProtoFieldString`, `HlProtoFieldNested`, `HlProtoFieldInterned`.
fn proto_fields_test(run: Run) {
    let trace = read(run);
    let message = &named(&trace, "fields").message;
    assert_eq!(message.text(1000).as_deref(), Some("text"));
    let nested = message.message(1001).unwrap();
    assert_eq!(nested.0.iter().map(|(field, _)| *field).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!((nested.number(1), nested.number(4)), (Some(7), Some(u64::MAX)));
    let inner = nested.message(2).unwrap();
    let expected =
        [(1, Field::Number(5)), (2, Field::Fixed64(5)), (3, Field::Fixed64(1.5_f64.to_bits()))];
    assert_eq!(inner.0, expected);
    assert_eq!(nested.0[2].1, Field::Fixed32(2.5_f32.to_bits()));
    assert_eq!(message.number(1002), Some(1));
    assert_eq!(named(&trace, "fields again").message.number(1002), Some(1));
    assert_eq!(named(&trace, "fields").arguments.len(), 1);
}

/// Nanoseconds since the system was started.
#[cfg(windows)]
fn since_boot() -> u64 {
    use windows_sys::Win32::System::Performance::{
        QueryPerformanceCounter, QueryPerformanceFrequency,
    };
    let (mut ticks, mut per_second) = (0, 0);
    // SAFETY: both are valid for writing.
    #[expect(unsafe_code, reason = "system calls")]
    unsafe {
        QueryPerformanceCounter(&raw mut ticks);
        QueryPerformanceFrequency(&raw mut per_second);
    }
    (i128::from(ticks) * 1_000_000_000 / i128::from(per_second)) as u64
}

/// Nanoseconds since the system was started.
#[cfg(unix)]
fn since_boot() -> u64 {
    #[cfg(target_os = "linux")]
    use libc::CLOCK_BOOTTIME as CLOCK;
    #[cfg(target_os = "macos")]
    use libc::CLOCK_MONOTONIC_RAW as CLOCK;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    #[expect(unsafe_code, reason = "a system call")]
    unsafe {
        libc::clock_gettime(CLOCK, &raw mut time)
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn times() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    let before = since_boot();
    instant!(CAT1, "now");
    let after = since_boot();
    std::fs::write("times", format!("{before} {after}")).unwrap();
    track_event!(CAT1, instant("on clock 3"), timestamp(3, 123));
    track_event!(CAT1, instant("on the default clock"), timestamp(64, after + 1_000_000_000));
    // Time goes back: written as it is.
    track_event!(CAT1, instant("earlier"), timestamp(64, before));
    track_event!(CAT1, instant("the last counts"), timestamp(3, 1), timestamp(3, 2));
    session.stop();
}

/// `GetTimestamp`.
fn times_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let times = std::fs::read_to_string(outcome.path("times")).unwrap();
    let times = times.split(' ').map(|time| time.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    let at = |name| {
        let event = named(&trace, name);
        (event.clock, event.time)
    };
    // The counter of the processor was compared with the clock only a moment before.
    let (clock, now) = at("now");
    let slack = 1_000_000;
    assert!(clock == 6 && now + slack > times[0] && now < times[1] + slack, "{now} {times:?}");
    assert_eq!(at("on clock 3"), (3, 123));
    assert_eq!(at("on the default clock"), (6, times[1] + 1_000_000_000));
    assert_eq!(at("earlier"), (6, times[0]));
    assert_eq!(at("the last counts"), (3, 2));
}

fn units() {
    let ledger = ledger();
    let unit = |config: TrackEventConfig| config.timestamp_unit_ns(NonZeroU64::new(1000).unwrap());
    let first = session(&ledger, unit(TrackEventConfig::all()));
    let absolute = unit(TrackEventConfig::all()).absolute_timestamps(true);
    let absolute =
        ledger.trace_to(Destination::track_events("absolute.pftrace", absolute)).unwrap();
    let plain = TrackEventConfig::all().absolute_timestamps(true);
    let plain = ledger.trace_to(Destination::track_events("plain.pftrace", plain)).unwrap();
    for _ in 0..100 {
        instant!(CAT1, "tick");
    }
    first.stop();
    absolute.stop();
    plain.stop();
}

fn units_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let times = |file: &str| {
        let trace = Trace::decode(&std::fs::read(outcome.path(file)).unwrap());
        trace.events.iter().map(|event| event.time).collect::<Vec<_>>()
    };
    let [micros, absolute, nanos] = [FILE, "absolute.pftrace", "plain.pftrace"].map(times);
    assert_eq!((micros.len(), absolute.len(), nanos.len()), (100, 100, 100));
    for times in [&micros, &absolute, &nanos] {
        assert!(times.is_sorted(), "{times:?}");
    }
    for (micros, nanos) in micros.iter().chain(&absolute).zip(nanos.iter().chain(&nanos)) {
        assert_eq!(micros % 1000, 0);
        // Each session compares the clocks itself.
        assert!(micros.abs_diff(*nanos) < 2_000_000, "{micros} {nanos}");
    }
}
