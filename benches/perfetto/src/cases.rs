//! The emissions, first through the C library, then through memledger.

use memledger::perfetto::{ChildOrder, DYNAMIC, Fixed32, Fixed64, FlowId, Track, ZigZag};
use memledger::perfetto::{counter, instant, slice, state, track_event};
use memledger_bench_perfetto::Extra::*;
use memledger_bench_perfetto::Kind::{Begin, Counter, End, Instant, State};
use memledger_bench_perfetto::{
    Category, Field, Nested, Registered, process_uuid, publish_categories, thread_uuid,
};
use memledger_format::protobuf::perfetto::counter_track_uuid;
use std::ffi::CString;
use std::hint::black_box;
use std::ptr;

memledger::perfetto::categories! {
    GOLDEN = "golden": "What is compared";
    OFF = "off";
    TAGGED = "tagged" ["other", "wanted"];
    UNWANTED = "unwanted" ["unwanted"];
}

/// Categories and tracks of the C library, and the same tracks of ours.
pub(crate) struct Peer {
    golden: Category,
    off: Category,
    tagged: Category,
    unwanted: Category,
    dynamic: Category,
    counter: (Registered, Track),
    state: (Registered, Track),
    row: (Registered, Track),
    child: (Registered, Track),
}

impl Peer {
    pub(crate) fn new() -> Self {
        let track = |track: memledger::perfetto::TrackBuilder<'_>| {
            track.register().expect("few tracks are registered")
        };
        let (theirs, ours) = (process_uuid(), Track::process());
        let row = (Registered::named("row", 3, theirs), track(Track::named("row", 3).parent(ours)));
        let peer = Self {
            golden: Category::register(c"golden", &[]),
            off: Category::register(c"off", &[]),
            tagged: Category::register(c"tagged", &[c"other", c"wanted"]),
            unwanted: Category::register(c"unwanted", &[c"unwanted"]),
            dynamic: Category::dynamic(),
            counter: (
                Registered::counter("registered", theirs),
                track(Track::counter("registered").parent(ours)),
            ),
            state: (
                Registered::state("mood", 0),
                track(Track::state("mood").parent(Track::global())),
            ),
            child: (
                Registered::counter("of the row", row.0.uuid()),
                track(Track::counter("of the row").parent(row.1)),
            ),
            row,
        };
        publish_categories();
        peer
    }
}

/// What is emitted on a thread of this name, which has at most 15 bytes.
type Case = (&'static str, fn(&Peer));

/// All cases.
pub(crate) const CASES: &[Case] = &[
    ("slices", slices),
    ("instants", instants),
    ("counters", counters),
    ("states", states),
    ("registered", registered),
    ("named tracks", named_tracks),
    ("proto tracks", proto_tracks),
    ("nested tracks", nested_tracks),
    ("nested order", nested_order),
    ("nested mixed", nested_mixed),
    ("last track", last_track),
    ("times", times),
    ("custom first", custom_first),
    ("dynamic", dynamic),
    ("tags", tags),
    ("arguments", arguments),
    ("texts", texts),
    ("many values", many_values),
    ("flows", flows),
    ("correlation", correlation),
    ("no intern", no_intern),
    ("flush", flush),
    ("proto fields", proto_fields),
    ("interned fields", interned_fields),
    ("misfits", misfits),
    ("own tracks", own_tracks),
];

fn slices(peer: &Peer) {
    peer.golden.emit(Begin, Some(c"outer"), &[]);
    peer.golden.emit(Begin, Some(c"inner"), &[]);
    peer.golden.emit(End, None, &[]);
    peer.golden.emit(Begin, Some(c"inner"), &[]);
    peer.golden.emit(End, None, &[]);
    peer.golden.emit(End, None, &[]);
    slice!(GOLDEN, "outer");
    slice!(GOLDEN, "inner", {});
    // Another place in the program, with a name that is made at run time.
    let name = black_box("inner").to_owned();
    track_event!(GOLDEN, slice_begin(&name));
    track_event!(GOLDEN, slice_end());
}

fn instants(peer: &Peer) {
    for _ in 0..3 {
        peer.golden.emit(Instant, Some(c"now"), &[]);
    }
    peer.golden.emit(Instant, Some(c""), &[]);
    for _ in 0..2 {
        instant!(GOLDEN, "now");
    }
    track_event!(GOLDEN, instant("now"));
    instant!(GOLDEN, "");
}

fn counters(peer: &Peer) {
    for value in [42, 0, -1, i64::MIN, i64::MAX] {
        peer.golden.emit(Counter, None, &[Track(&peer.counter.0), Int(value)]);
        counter!(GOLDEN, track(peer.counter.1), value);
    }
    for value in [0.0, -1.5, f64::INFINITY, f64::NAN] {
        peer.golden.emit(Counter, None, &[Track(&peer.counter.0), Double(value)]);
        counter!(GOLDEN, track(peer.counter.1), value);
    }
}

fn states(peer: &Peer) {
    peer.golden.emit(State, Some(c"RUNNING"), &[Track(&peer.state.0)]);
    peer.golden.emit(State, Some(c""), &[Track(&peer.state.0)]);
    peer.golden.emit(State, Some(c"RUNNING"), &[Track(&peer.state.0)]);
    state!(GOLDEN, track(peer.state.1), "RUNNING");
    state!(GOLDEN, track(peer.state.1), "");
    state!(GOLDEN, track(peer.state.1), black_box("RUNNING"));
}

fn registered(peer: &Peer) {
    peer.golden.emit(Instant, Some(c"a"), &[Track(&peer.row.0)]);
    peer.golden.emit(Instant, Some(c"b"), &[Track(&peer.row.0)]);
    peer.golden.emit(Counter, None, &[Track(&peer.child.0), Int(1)]);
    instant!(GOLDEN, "a", track(peer.row.1));
    instant!(GOLDEN, "b", track(peer.row.1));
    counter!(GOLDEN, track(peer.child.1), 1);
}

fn named_tracks(peer: &Peer) {
    let parents = [process_uuid(), thread_uuid(), 0, 77];
    for parent in parents {
        peer.golden.emit(Instant, Some(c"i"), &[NamedTrack(c"MyTrack", 1, parent)]);
    }
    peer.golden.emit(Instant, Some(c"i"), &[NamedTrack(c"MyTrack", 1, 0)]);
    peer.golden.emit(Instant, Some(c"i"), &[NamedTrack(c"", u64::MAX, 0)]);
    for parent in [Track::process(), Track::thread(), Track::global(), Track::from_uuid(77)] {
        instant!(GOLDEN, "i", named_track("MyTrack", 1, parent));
    }
    instant!(GOLDEN, "i", named_track("MyTrack", 1, Track::global()));
    instant!(GOLDEN, "i", named_track("", u64::MAX, Track::global()));
}

fn proto_tracks(peer: &Peer) {
    let fields = [
        Field::Varint(5, 99),
        Field::Text(2, c"proto"),
        Field::Nested(8, &[Field::Varint(3, 3), Field::Text(6, c"points")]),
    ];
    for value in [1, 2] {
        peer.golden.emit(Counter, None, &[ProtoTrack(1234, &fields), Int(value)]);
        track_event!(
            GOLDEN,
            counter(),
            proto_track(
                1234,
                [
                    field(5, 99_u64),
                    field(2, "proto"),
                    message(8, [field(3, 3), field(6, "points")])
                ]
            ),
            count(value),
        );
    }
    // `PERFETTO_TE_COUNTER_TRACK`.
    let counter = counter_track_uuid("sugar", 0);
    let fields = [Field::Varint(5, 0), Field::Text(2, c"sugar"), Field::Bytes(8, b"")];
    peer.golden.emit(Counter, None, &[ProtoTrack(counter, &fields), Double(0.5)]);
    track_event!(
        GOLDEN,
        counter(),
        proto_track(counter, [field(5, 0_u64), field(2, "sugar"), message(8, [])]),
        count(0.5),
    );
    peer.golden.emit(Instant, Some(c"bare"), &[ProtoTrack(4321, &[])]);
    instant!(GOLDEN, "bare", proto_track(4321, []));
}

fn nested_tracks(peer: &Peer) {
    let emit = |tracks| peer.golden.emit(Instant, Some(c"i"), &[Nested(tracks)]);
    emit(&[Nested::Process, Nested::Named(c"in process", 2)]);
    emit(&[Nested::Thread, Nested::Named(c"in thread", 3)]);
    emit(&[Nested::Named(c"outer", 4), Nested::Named(c"inner", 5)]);
    emit(&[Nested::Named(c"outer", 4), Nested::Named(c"other", 6)]);
    emit(&[Nested::Thread]);
    emit(&[Nested::Process]);
    instant!(GOLDEN, "i", nested_tracks[process, named("in process", 2)]);
    instant!(GOLDEN, "i", nested_tracks[thread, named("in thread", 3)]);
    instant!(GOLDEN, "i", nested_tracks[named("outer", 4), named("inner", 5)]);
    instant!(GOLDEN, "i", nested_tracks[named("outer", 4), named("other", 6)]);
    instant!(GOLDEN, "i", nested_tracks[thread]);
    instant!(GOLDEN, "i", nested_tracks[process]);
}

fn nested_order(peer: &Peer) {
    let emit = |tracks| peer.golden.emit(Instant, Some(c"i"), &[Nested(tracks)]);
    emit(&[Nested::Ordered(c"parent", 1, 0, 3), Nested::Ordered(c"child", 2, 7, 0)]);
    emit(&[Nested::Process, Nested::Ordered(c"before", 1, -5, 1)]);
    emit(&[Nested::Process, Nested::Merged(c"by text", 1, 3, Some(c"key"), 0)]);
    emit(&[Nested::Process, Nested::Merged(c"by number", 1, 3, None, 42)]);
    emit(&[Nested::Process, Nested::Merged(c"never", 1, 2, None, 0)]);
    instant!(GOLDEN, "i", nested_tracks[named("parent", 1, [child_order(ChildOrder::Explicit)]), named("child", 2, [order(7)])]);
    instant!(GOLDEN, "i", nested_tracks[process, named("before", 1, [order(-5), child_order(ChildOrder::Lexicographic)])]);
    instant!(GOLDEN, "i", nested_tracks[process, named("by text", 1, [merge_by("key")])]);
    instant!(GOLDEN, "i", nested_tracks[process, named("by number", 1, [field(15, 3), field(17, 42)])]);
    instant!(GOLDEN, "i", nested_tracks[process, named("never", 1, [field(15, 2)])]);
}

fn nested_mixed(peer: &Peer) {
    // `PERFETTO_TE_NESTED_TRACK_COUNTER`.
    let id = counter_track_uuid("nested counter", 0);
    let fields = [Field::Text(2, c"nested counter"), Field::Bytes(8, b"")];
    let tracks = [Nested::Registered(&peer.row.0), Nested::Proto(id, &fields)];
    peer.golden.emit(Counter, None, &[Nested(&tracks), Int(5)]);
    let tracks = [Nested::Proto(8, &[Field::Text(2, c"root")]), Nested::Named(c"leaf", 0)];
    peer.golden.emit(Instant, Some(c"i"), &[Nested(&tracks)]);
    // A registered track is where it was registered, whatever is around it.
    let tracks = [Nested::Named(c"elsewhere", 0), Nested::Registered(&peer.child.0)];
    peer.golden.emit(Counter, None, &[Nested(&tracks), Int(6)]);
    track_event!(
        GOLDEN,
        counter(),
        nested_tracks[
            track(peer.row.1),
            proto(id, [field(2, "nested counter"), message(8, [])]),
        ],
        count(5),
    );
    instant!(GOLDEN, "i", nested_tracks[proto(8, [field(2, "root")]), named("leaf", 0)]);
    track_event!(
        GOLDEN,
        counter(),
        nested_tracks[named("elsewhere", 0), track(peer.child.1)],
        count(6),
    );
}

fn last_track(peer: &Peer) {
    let named = |name| NamedTrack(name, 0, 0);
    peer.golden.emit(Instant, Some(c"i"), &[named(c"first"), named(c"last")]);
    peer.golden.emit(Instant, Some(c"i"), &[named(c"first, too"), Track(&peer.row.0)]);
    let tracks = [Nested::Named(c"nested", 0)];
    peer.golden.emit(Instant, Some(c"i"), &[Nested(&tracks), named(c"after"), ArgUint(c"a", 1)]);
    peer.golden.emit(Instant, Some(c"i"), &[ProtoTrack(5, &[]), named(c"last")]);
    instant!(
        GOLDEN,
        "i",
        named_track("first", 0, Track::global()),
        named_track("last", 0, Track::global())
    );
    instant!(GOLDEN, "i", named_track("first, too", 0, Track::global()), track(peer.row.1));
    instant!(
        GOLDEN,
        "i",
        nested_tracks[named("nested", 0)],
        named_track("after", 0, Track::global()),
        arg("a", 1_u64),
    );
    instant!(GOLDEN, "i", proto_track(5, []), named_track("last", 0, Track::global()));
}

/// Times of these events are given, so they must be the same to the unit.
fn times(peer: &Peer) {
    let far = 1 << 62;
    peer.golden.emit(Instant, Some(c"now"), &[]);
    instant!(GOLDEN, "now");
    let given = [
        (64, far + 5_000),
        (64, far + 9_999),
        // Back in time.
        (64, far + 7_000),
        (64, 1),
        (6, far + 8_000),
        (6, 3),
        (3, far),
        (1, 0),
        (65, 123_456),
        (100, 7),
        (64, far + 20_000),
    ];
    for (clock, time) in given {
        peer.golden.emit(Instant, Some(c"given"), &[Timestamp(clock, time)]);
        instant!(GOLDEN, "given", timestamp(u64::from(clock), time));
    }
    // Of several, the last one counts. The clock of the sequence is far in the future.
    let both = [Timestamp(3, 1), Timestamp(4, 2)];
    peer.golden.emit(Instant, Some(c"given"), &both);
    instant!(GOLDEN, "given", timestamp(3, 1), timestamp(4, 2));
    peer.golden.emit(Instant, Some(c"now"), &[]);
    instant!(GOLDEN, "now");
}

/// The first event of a sequence has a time of its own.
fn custom_first(peer: &Peer) {
    peer.golden.emit(Instant, Some(c"given"), &[Timestamp(3, 500)]);
    peer.golden.emit(Instant, Some(c"now"), &[]);
    instant!(GOLDEN, "given", timestamp(3, 500));
    instant!(GOLDEN, "now");
}

fn dynamic(peer: &Peer) {
    for name in [c"dyn.off", c"dyn.on", c"dyn.only", c"golden", c""] {
        let text = name.to_str().unwrap_or_default();
        peer.dynamic.emit(Instant, Some(c"i"), &[Dynamic(name)]);
        track_event!(DYNAMIC, instant("i"), category(text));
    }
    peer.dynamic.emit(End, None, &[Dynamic(c"dyn.on")]);
    track_event!(DYNAMIC, slice_end(), category("dyn.on"));
    peer.dynamic.emit(End, None, &[Dynamic(c"dyn.off")]);
    track_event!(DYNAMIC, slice_end(), category("dyn.off"));
    let counter = [Dynamic(c"dyn.on"), Track(&peer.counter.0), Int(1)];
    peer.dynamic.emit(Counter, None, &counter);
    track_event!(DYNAMIC, counter(), category("dyn.on"), track(peer.counter.1), count(1));
    // On an event with a category, and twice.
    peer.golden.emit(Instant, Some(c"i"), &[Dynamic(c"dyn.on")]);
    instant!(GOLDEN, "i", category("dyn.on"));
    peer.dynamic.emit(Instant, Some(c"i"), &[Dynamic(c"dyn.off"), Dynamic(c"dyn.on")]);
    track_event!(DYNAMIC, instant("i"), category("dyn.off"), category("dyn.on"));
    peer.dynamic.emit(Instant, Some(c"i"), &[Dynamic(c"dyn.on"), Dynamic(c"dyn.off")]);
    track_event!(DYNAMIC, instant("i"), category("dyn.on"), category("dyn.off"));
}

fn tags(peer: &Peer) {
    peer.off.emit(Instant, Some(c"off"), &[]);
    peer.tagged.emit(Instant, Some(c"tagged"), &[]);
    peer.unwanted.emit(Instant, Some(c"unwanted"), &[]);
    peer.golden.emit(Instant, Some(c"on"), &[]);
    instant!(OFF, "off");
    instant!(TAGGED, "tagged");
    instant!(UNWANTED, "unwanted");
    instant!(GOLDEN, "on");
}

fn arguments(peer: &Peer) {
    let pointer = ptr::without_provenance::<u8>(0xdead_beef);
    let all = [
        ArgBool(c"bool", true),
        ArgBool(c"no", false),
        ArgUint(c"uint", u64::MAX),
        ArgUint(c"zero", 0),
        ArgInt(c"int", -1),
        ArgInt(c"least", i64::MIN),
        ArgDouble(c"double", -0.5),
        ArgDouble(c"nan", f64::NAN),
        ArgDouble(c"float", 0.25),
        ArgText(c"text", c"a text"),
        ArgText(c"empty", c""),
        ArgPointer(c"pointer", pointer.addr()),
        ArgUint(c"uint", 1),
        ArgUint(c"", 2),
    ];
    peer.golden.emit(Begin, Some(c"b"), &all);
    peer.golden.emit(End, None, &[ArgInt(c"int", 7)]);
    peer.golden.emit(Counter, None, &[Track(&peer.counter.0), Int(3), ArgInt(c"why", 8)]);
    track_event!(
        GOLDEN,
        slice_begin("b"),
        arg("bool", true),
        arg("no", false),
        arg("uint", u64::MAX),
        arg("zero", 0_u8),
        arg("int", -1),
        arg("least", i64::MIN),
        arg("double", -0.5),
        arg("nan", f64::NAN),
        arg("float", 0.25_f32),
        arg("text", "a text"),
        arg("empty", ""),
        arg("pointer", pointer),
        arg("uint", 1_u16),
        arg("", 2_u32),
    );
    track_event!(GOLDEN, slice_end(), arg("int", 7));
    counter!(GOLDEN, track(peer.counter.1), 3, arg("why", 8));
}

fn texts(peer: &Peer) {
    for length in [1, 7, 8, 100, 127, 128, 300, 5_000, 20_000] {
        let text = "ä€x".repeat(length / 6 + 1);
        let theirs = CString::new(text.as_str()).unwrap_or_default();
        let extras = [ArgText(c"text", &theirs)];
        peer.golden.emit(Instant, Some(&theirs), &extras);
        instant!(GOLDEN, &text, arg("text", &text));
    }
}

fn many_values(peer: &Peer) {
    let theirs = (0..32).map(|value| ArgUint(c"a", value)).collect::<Vec<_>>();
    peer.golden.emit(Instant, Some(c"32"), &theirs);
    track_event!(
        GOLDEN,
        instant("32"),
        arg("a", 0_u64),
        arg("a", 1_u64),
        arg("a", 2_u64),
        arg("a", 3_u64),
        arg("a", 4_u64),
        arg("a", 5_u64),
        arg("a", 6_u64),
        arg("a", 7_u64),
        arg("a", 8_u64),
        arg("a", 9_u64),
        arg("a", 10_u64),
        arg("a", 11_u64),
        arg("a", 12_u64),
        arg("a", 13_u64),
        arg("a", 14_u64),
        arg("a", 15_u64),
        arg("a", 16_u64),
        arg("a", 17_u64),
        arg("a", 18_u64),
        arg("a", 19_u64),
        arg("a", 20_u64),
        arg("a", 21_u64),
        arg("a", 22_u64),
        arg("a", 23_u64),
        arg("a", 24_u64),
        arg("a", 25_u64),
        arg("a", 26_u64),
        arg("a", 27_u64),
        arg("a", 28_u64),
        arg("a", 29_u64),
        arg("a", 30_u64),
        arg("a", 31_u64),
    );
    let text = |name| ArgText(name, c"t");
    let theirs =
        [text(c"1"), text(c"2"), text(c"3"), text(c"4"), text(c"5"), text(c"6"), text(c"7")];
    peer.golden.emit(Instant, Some(c"8"), &theirs);
    let name = black_box("8");
    instant!(
        GOLDEN,
        name,
        arg("1", "t"),
        arg("2", "t"),
        arg("3", "t"),
        arg("4", "t"),
        arg("5", "t"),
        arg("6", "t"),
        arg("7", "t"),
    );
}

fn flows(peer: &Peer) {
    let scoped = 7 ^ process_uuid();
    peer.golden.emit(Instant, Some(c"sent"), &[Flow(scoped)]);
    peer.golden.emit(Instant, Some(c"got"), &[TerminatingFlow(scoped)]);
    let several = [Flow(1), TerminatingFlow(2), Flow(u64::MAX), Flow(0)];
    peer.golden.emit(Begin, Some(c"several"), &several);
    peer.golden.emit(End, None, &[Flow(3)]);
    instant!(GOLDEN, "sent", flow(FlowId::process_scoped(7)));
    instant!(GOLDEN, "got", terminating_flow(FlowId::process_scoped(7)));
    track_event!(
        GOLDEN,
        slice_begin("several"),
        flow(FlowId::global(1)),
        terminating_flow(FlowId::global(2)),
        flow(FlowId::global(u64::MAX)),
        flow(FlowId::global(0)),
    );
    track_event!(GOLDEN, slice_end(), flow(FlowId::global(3)));
}

fn correlation(peer: &Peer) {
    let emit = |extras: &[_]| peer.golden.emit(Instant, Some(c"i"), extras);
    emit(&[Correlation(1234)]);
    emit(&[CorrelationText(c"req-5678")]);
    emit(&[Correlation(1), CorrelationText(c"last")]);
    emit(&[CorrelationText(c"first"), Correlation(0)]);
    instant!(GOLDEN, "i", correlation(1234_u64));
    instant!(GOLDEN, "i", correlation("req-5678"));
    instant!(GOLDEN, "i", correlation(1_u64), correlation("last"));
    instant!(GOLDEN, "i", correlation("first"), correlation(0_u64));
}

fn no_intern(peer: &Peer) {
    peer.golden.emit(Instant, Some(c"once"), &[NoIntern, ArgInt(c"a", 1)]);
    peer.golden.emit(Begin, Some(c"made"), &[NoIntern]);
    peer.golden.emit(End, None, &[NoIntern]);
    peer.golden.emit(Instant, Some(c"once"), &[]);
    instant!(GOLDEN, "once", no_intern, arg("a", 1));
    track_event!(GOLDEN, slice_begin(black_box("made")), no_intern);
    track_event!(GOLDEN, slice_end(), no_intern);
    instant!(GOLDEN, "once");
}

fn flush(peer: &Peer) {
    peer.golden.emit(Instant, Some(c"i"), &[]);
    peer.golden.emit(Instant, Some(c"flushed"), &[Flush, ArgBool(c"a", true)]);
    peer.golden.emit(Instant, Some(c"i"), &[]);
    instant!(GOLDEN, "i");
    instant!(GOLDEN, "flushed", flush, arg("a", true));
    instant!(GOLDEN, "i");
}

/// Fields 4, 33, 49 and 55 are messages that a reader knows; those from 9000 on are unknown to it.
fn proto_fields(peer: &Peer) {
    let annotation = [Field::Text(10, c"name"), Field::Varint(3, 42)];
    let frames = [Field::Text(1, c"main"), Field::Varint(3, 7)];
    let theirs = [
        Field::Nested(4, &annotation),
        Field::Nested(55, &[Field::Nested(1, &frames), Field::Nested(1, &[])]),
        Field::Varint(9_000, u64::MAX),
        Field::Varint(9_001, -3_i64 as u64),
        Field::ZigZag(9_002, -3),
        Field::Fixed64(9_003, 5),
        Field::Fixed32(9_004, 6),
        Field::Double(9_005, 0.75),
        Field::Float(9_006, 0.75),
        Field::Text(9_007, c"text"),
        Field::Bytes(9_008, b"\xff\0bytes"),
        Field::Varint(9_009, 1),
        Field::Bytes(9_010, b""),
    ];
    peer.golden.emit(Instant, Some(c"i"), &[Fields(&theirs), ArgUint(c"after", 9)]);
    track_event!(
        GOLDEN,
        instant("i"),
        arg("after", 9_u64),
        message(4, [field(10, "name"), field(3, 42)]),
        message(55, [message(1, [field(1, "main"), field(3, 7)]), message(1, [])]),
        field(9_000, u64::MAX),
        field(9_001, -3),
        field(9_002, ZigZag(-3)),
        field(9_003, Fixed64(5)),
        field(9_004, Fixed32(6)),
        field(9_005, 0.75),
        field(9_006, 0.75_f32),
        field(9_007, "text"),
        field(9_008, &b"\xff\0bytes"[..]),
        field(9_009, true),
        field(9_010, ""),
    );
}

/// The text of field 54 is in list 43, those of field 34 in list 4.
fn interned_fields(peer: &Peer) {
    for text in [c"one", c"two", c"one"] {
        let ours = text.to_str().unwrap_or_default();
        peer.golden.emit(Instant, Some(c"i"), &[Fields(&[Field::Interned(54, 43, text)])]);
        instant!(GOLDEN, "i", interned(54, 43, ours));
    }
    let nested = [Field::Nested(9_000, &[Field::Interned(1, 43, c"three")])];
    peer.golden.emit(Instant, Some(c"i"), &[Fields(&nested)]);
    instant!(GOLDEN, "i", message(9_000, [interned(1, 43, "three")]));
    peer.golden.emit(Instant, Some(c"i"), &[Fields(&[Field::Interned(34, 4, c"file.rs")])]);
    instant!(GOLDEN, "i", interned(34, 4, "file.rs"));
}

/// Extras of which an event of this kind has no use.
fn misfits(peer: &Peer) {
    peer.golden.emit(Instant, Some(c"int"), &[Int(5)]);
    peer.golden.emit(Instant, Some(c"double"), &[Double(5.0)]);
    peer.golden.emit(Counter, None, &[Int(6)]);
    peer.golden.emit(Counter, None, &[Track(&peer.counter.0), Int(7), Double(8.0)]);
    peer.golden.emit(Counter, None, &[Track(&peer.counter.0), Double(8.0), Int(7)]);
    instant!(GOLDEN, "int", count(5));
    instant!(GOLDEN, "double", count(5.0));
    track_event!(GOLDEN, counter(), count(6));
    track_event!(GOLDEN, counter(), track(peer.counter.1), count(7), count(8.0));
    track_event!(GOLDEN, counter(), track(peer.counter.1), count(8.0), count(7));
}

/// A program describes the tracks of the process and of the thread itself.
fn own_tracks(peer: &Peer) {
    let fields = [Field::Varint(11, 3)];
    peer.golden.emit(Instant, Some(c"i"), &[ProtoTrack(process_uuid(), &fields)]);
    peer.golden.emit(Instant, Some(c"i"), &[ProtoTrack(thread_uuid(), &fields)]);
    instant!(GOLDEN, "i", proto_track(Track::process().uuid(), [field(11, 3)]));
    instant!(GOLDEN, "i", proto_track(Track::thread().uuid(), [field(11, 3)]));
}
