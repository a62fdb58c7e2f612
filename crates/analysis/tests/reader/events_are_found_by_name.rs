//! `EventAnalyzer`: subscriptions by name over exact streams, with every field type, threads, time,
//! scopes, other versions of a type, and damage.

mod ending;
mod surroundings;

use memledger_analysis as analysis;
use memledger_analysis::read::{
    Decoder, DefinitionRef, EventAnalyzer, FieldValue, Occurrence, Scalar, Visitor, read,
};
use memledger_format::schema::FieldType::{self, *};
use memledger_test_support::wire::*;

/// A decoder of protocol 7 that knows these types, and the analyzer it delivers to.
struct Feed<'a, S> {
    decoder: Decoder,
    analyzer: EventAnalyzer<'a, S>,
}

impl<'a, S> Feed<'a, S> {
    fn new(analyzer: EventAnalyzer<'a, S>, types: &[Vec<u8>]) -> Self {
        let mut feed = Self { decoder: Decoder::new(7), analyzer };
        feed.packet(TYPES, &types.concat());
        feed
    }

    fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.decoder.packet(stream, payload, &mut self.analyzer);
    }

    fn finish(mut self) -> EventAnalyzer<'a, S> {
        self.decoder.finish(&mut self.analyzer);
        self.analyzer
    }
}

const DEMO: u16 = 40;

fn demo(fields: &[(&str, FieldType)]) -> Vec<u8> {
    let arrays = fields.iter().any(|(_, field_type)| field_type.is_array());
    let flags = if arrays { NO_SYNC | AUX } else { NO_SYNC };
    type_record(7, DEMO, "Demo.Event", flags, fields)
}

/// What the handler makes of the field `A` of one event.
fn ask<T>(
    field_type: FieldType,
    data: &[u8],
    handler: impl FnMut(&mut Vec<T>, &Occurrence<'_>, [FieldValue<'_>; 1]) + Send,
) -> T {
    let analyzer = EventAnalyzer::new(Vec::new()).on("Demo", "Event", ["A"], handler);
    let mut feed = Feed::new(analyzer, &[demo(&[("A", field_type)])]);
    let event = if field_type.is_array() {
        [plain(DEMO, &[]), aux(0, data), TERMINAL.to_vec()].concat()
    } else {
        plain(DEMO, data)
    };
    feed.packet(2, &event);
    feed.finish().state.pop().unwrap()
}

fn number(field_type: FieldType, data: &[u8]) -> [String; 4] {
    ask(field_type, data, |out, _, [a]| {
        let show = |result: Result<String, _>| result.unwrap_or_else(|error: String| error);
        out.push([
            show(a.u64().map(|v| v.to_string()).map_err(|e| e.to_string())),
            show(a.i64().map(|v| v.to_string()).map_err(|e| e.to_string())),
            show(a.f64().map(|v| v.to_string()).map_err(|e| e.to_string())),
            show(a.bool().map(|v| v.to_string()).map_err(|e| e.to_string())),
        ]);
    })
}

#[test]
fn numbers_of_every_width_convert_where_they_fit() {
    let negative = |v: &str| format!("the field A of Demo.Event is {v}, which is below 0");
    for (field_type, data, u64, i64, f64, bool) in [
        (U8, &[0][..], "0", "0", "0", "false"),
        (U8, &[200], "200", "200", "200", "true"),
        (U16, &[0xff, 0xff], "65535", "65535", "65535", "true"),
        (U32, &[0, 0, 0, 0x80], "2147483648", "2147483648", "2147483648", "true"),
        (I8, &[0x7f], "127", "127", "127", "true"),
        (I16, &[2, 1], "258", "258", "258", "true"),
        (I32, &[0, 0, 0, 0], "0", "0", "0", "false"),
        (U64, &[1, 0, 0, 0, 0, 0, 0, 0], "1", "1", "1", "true"),
    ] {
        assert_eq!(number(field_type, data), [u64, i64, f64, bool], "{field_type:?} {data:?}");
    }
    let unsigned = number(U64, &[0xff; 8]);
    assert_eq!(unsigned[0], u64::MAX.to_string());
    assert_eq!(
        unsigned[1],
        "the field A of Demo.Event is 18446744073709551615, which is above i64::MAX"
    );
    for (field_type, width) in [(I8, 1), (I16, 2), (I32, 4), (I64, 8)] {
        let minus_one = number(field_type, &[0xff; 8][..width]);
        assert_eq!(minus_one, [&negative("-1")[..], "-1", "-1", "true"], "{field_type:?}");
    }
    let lowest = number(I64, &i64::MIN.to_le_bytes());
    assert_eq!(lowest[1], i64::MIN.to_string());
    for (field_type, data) in
        [(F32, 1.5_f32.to_le_bytes().to_vec()), (F64, 1.5_f64.to_le_bytes().to_vec())]
    {
        let is = format!("the field A of Demo.Event is of type {field_type:?} and not an integer");
        assert_eq!(number(field_type, &data), [&is[..], &is, "1.5", &is]);
    }
}

#[test]
fn strings_are_utf8_latin1_or_utf16() {
    let text = |field_type, data: &[u8]| {
        ask(field_type, data, |out, _, [a]| out.push(a.text().unwrap().into_owned()))
    };
    assert_eq!(text(AnsiString, b""), "");
    assert_eq!(text(AnsiString, b"worker\0"), "worker");
    assert_eq!(text(AnsiString, "größe".as_bytes()), "größe");
    assert_eq!(text(AnsiString, b"gr\xf6\xdfe"), "größe");
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    assert_eq!(text(WideString, &wide("𝄞 größe\0")), "𝄞 größe");
    assert_eq!(text(WideString, &[0x41, 0, 0x34, 0xd8, 0x42, 0]), "A\u{fffd}B");
    assert_eq!(text(WideString, &[0x41, 0, 0x42]), "A", "half a code unit is none");
    let long = "x".repeat(100_000);
    assert_eq!(text(AnsiString, long.as_bytes()), long);
}

#[test]
fn arrays_are_iterators_of_typed_values_however_they_are_cut() {
    let all = |field_type, data: &[u8]| {
        ask(field_type, data, |out, _, [a]| {
            let elements = a.elements().unwrap();
            assert_eq!(elements.len(), elements.clone().count());
            out.push(elements.collect::<Vec<_>>());
        })
    };
    use Scalar::{Float, Signed, Unsigned};
    assert_eq!(all(U8Array, &[1, 2]), [Unsigned(1), Unsigned(2)]);
    assert_eq!(all(U16Array, &[1, 2, 3]), [Unsigned(0x201)], "half an element is none");
    assert_eq!(all(I8Array, &[0xff]), [Signed(-1)]);
    assert_eq!(all(I64Array, &(-5_i64).to_le_bytes()), [Signed(-5)]);
    assert_eq!(all(F32Array, &0.5_f32.to_le_bytes()), [Float(0.5)]);
    assert_eq!(all(U64Array, &[]), []);

    // 700 doubles, as Unreal cuts them: in the middle of one.
    let doubles = (0..700).map(f64::from).collect::<Vec<_>>();
    let bytes = doubles.iter().flat_map(|d| d.to_le_bytes()).collect::<Vec<_>>();
    let analyzer =
        EventAnalyzer::new(Vec::new()).on("Demo", "Event", ["A"], |out: &mut Vec<f64>, _, [a]| {
            out.extend(a.elements().unwrap().map(Scalar::as_f64));
        });
    let mut feed = Feed::new(analyzer, &[demo(&[("A", F64Array)])]);
    feed.packet(2, &[plain(DEMO, &[]), aux(0, &bytes[..3945])].concat());
    feed.packet(2, &[aux(0, &bytes[3945..]), TERMINAL.to_vec()].concat());
    assert_eq!(feed.finish().state, doubles);
}

#[test]
fn what_is_not_there_or_of_another_kind_is_said_in_a_sentence() {
    let analyzer = EventAnalyzer::new(Vec::<String>::new())
        .on("Demo", "Event", ["Url", "Bytes", "Gone"], |out, event, [url, bytes, gone]| {
            assert!(url.exists() && bytes.exists() && !gone.exists());
            assert_eq!(gone.value(), None);
            assert_eq!(gone.u64().unwrap_or_default(), 0);
            out.push(gone.u64().unwrap_err().to_string());
            out.push(gone.text().unwrap_err().to_string());
            out.push(url.u64().unwrap_err().to_string());
            out.push(url.reference().unwrap_err().to_string());
            out.push(bytes.text().unwrap_err().to_string());
            out.push(bytes.elements().unwrap_err().to_string());
            out.push(bytes.nanoseconds().unwrap_err().to_string());
            assert_eq!(event.nanoseconds(), None);
            assert_eq!(event.field("Bytes").u64().unwrap(), 7);
        })
        .on("Demo", "Never", [], |_, _, []| unreachable!())
        .on_leave("Demo", "Nor", |_, _| unreachable!());
    let mut feed = Feed::new(analyzer, &[demo(&[("Url", AnsiString), ("Bytes", U16)])]);
    feed.packet(2, &[plain(DEMO, &[7, 0]), TERMINAL.to_vec()].concat());
    let analyzer = feed.finish();
    assert_eq!(
        analyzer.state,
        [
            "Demo.Event has no field Gone",
            "Demo.Event has no field Gone",
            "the field Url of Demo.Event is of type AnsiString and not an integer",
            "the field Url of Demo.Event is of type AnsiString and not a reference",
            "the field Bytes of Demo.Event is of type U16 and not a string",
            "the field Bytes of Demo.Event is of type U16 and not an array",
            "the field Bytes of Demo.Event is a time, but the trace has not said how fast its clock is",
        ]
    );
    assert_eq!(
        analyzer.problems(),
        [
            "the trace has not declared an event Demo.Never",
            "the trace has not declared an event Demo.Nor",
            "Demo.Event has no field Gone; its fields are: Url, Bytes",
        ]
    );
}

#[test]
fn every_version_of_a_type_is_read_with_its_own_fields() {
    let analyzer =
        EventAnalyzer::new(Vec::new()).on("Demo", "Event", ["B", "A"], |out, _, [b, a]| {
            out.push((a.u64().unwrap(), b.i64().ok()));
        });
    let mut feed = Feed::new(analyzer, &[demo(&[("A", U8)])]);
    feed.packet(2, &plain(DEMO, &[1]));
    // The same again is no new type. Then wider, in another order, with a field more.
    feed.packet(TYPES, &demo(&[("A", U8)]));
    feed.packet(2, &plain(DEMO, &[2]));
    feed.packet(TYPES, &demo(&[("B", I8), ("C", U32), ("A", U16)]));
    feed.packet(2, &plain(DEMO, &[0xff, 9, 9, 9, 9, 3, 1]));
    // Another event under the same uid.
    feed.packet(TYPES, &type_record(7, DEMO, "Other.Event", NO_SYNC, &[("A", U8)]));
    feed.packet(2, &plain(DEMO, &[4]));
    // And the first one under another.
    feed.packet(TYPES, &type_record(7, 50, "Demo.Event", NO_SYNC, &[("A", U64)]));
    feed.packet(3, &plain(50, &5_u64.to_le_bytes()));
    let analyzer = feed.finish();
    assert_eq!(analyzer.state, [(1, None), (2, None), (0x103, Some(-1)), (5, None)]);
    assert_eq!(analyzer.event_types().len(), 4);
}

#[test]
fn a_star_stands_for_any_name_and_several_may_ask_for_one_event() {
    let analyzer = EventAnalyzer::new(String::new())
        .on("*", "*", [], |out, event, []| {
            *out += &format!("{}(", event.event.event_type.name());
            for field in event.fields() {
                *out += &format!("{}={:?} ", field.name(), field.value().unwrap());
            }
            *out += ") ";
        })
        .on("T", "*", ["V"], |out, _, [v]| *out += &format!("T:{} ", v.u64().unwrap()))
        .on("*", "Sync", ["Gone"], |out, _, [gone]| *out += &format!("S:{} ", gone.exists()));
    let mut feed = Feed::new(analyzer, &[types(7)]);
    feed.packet(2, &[plain(17, &[1]), synced(16, 1, &[2])].concat());
    feed.packet(IMPORTANTS, &important(20, &[3], &[(1, b"ab")], 2));
    let analyzer = feed.finish();
    // The synchronised event comes last: nothing has said where serials begin.
    assert_eq!(
        analyzer.state,
        "T.Free(V=Unsigned(1) ) T:1 \
         T.Important(V=Unsigned(3) A=Array([Unsigned(97), Unsigned(98)]) ) T:3 \
         T.Sync(V=Unsigned(2) ) T:2 S:false "
    );
    assert_eq!(analyzer.problems(), ["T.Sync has no field Gone; its fields are: V"]);
}

/// A type record whose fields have families, made by hand: `Demo.Thing {Name u8, id u32}` 70 is a
/// definition, `Demo.Use {What reference to 70}` 71 refers to it.
fn family_types() -> Vec<u8> {
    let thing = [
        &[70, 0, 2, NO_SYNC | 8, 4, 5][..],
        &[0, 0, 0, 0, 1, 0, U8.code(), 4],
        &[2, 0, 1, 0, 0, 0, 0, U32.code()],
        b"DemoThingName",
    ];
    let uses = [
        &[71, 0, 2, NO_SYNC, 4, 3][..],
        &[1, 0, 0, 0, 70, 0, U32.code(), 4],
        &[0, 0, 4, 0, 1, 0, U8.code(), 1],
        b"DemoUseWhatN",
    ];
    [framed(0, &thing.concat()), framed(0, &uses.concat())].concat()
}

#[test]
fn references_lead_to_their_definitions() {
    use std::collections::HashMap;
    let analyzer = EventAnalyzer::new((HashMap::<DefinitionRef, u64>::new(), Vec::new()))
        .on("Demo", "Thing", ["Name", "DefinitionId"], |state, event, [name, id]| {
            let key = event.definition().unwrap();
            assert_eq!(id.u64().unwrap(), key.id);
            state.0.insert(key, name.u64().unwrap());
        })
        .on("Demo", "Use", ["What", "N"], |state, event, [what, n]| {
            assert_eq!(event.definition(), None);
            assert!(n.reference().is_err());
            state.1.push(state.0.get(&what.reference().unwrap()).copied());
        });
    let mut feed = Feed::new(analyzer, &[family_types()]);
    let thing = |name: u8, id: u32| plain(70, &[&[name][..], &id.to_le_bytes()].concat());
    let uses = |id: u32| plain(71, &[&id.to_le_bytes()[..], &[0]].concat());
    feed.packet(2, &[thing(b'a', 1000), thing(b'b', 1001)].concat());
    feed.packet(2, &[uses(1001), uses(1000), uses(7)].concat());
    assert_eq!(feed.finish().state.1, [Some(u64::from(b'b')), Some(u64::from(b'a')), None]);
}

#[test]
fn damage_and_holes_come_between_the_events_they_lie_between() {
    let analyzer = EventAnalyzer::new(Vec::new())
        .on("T", "Sync", ["V"], |out: &mut Vec<String>, _, [v]| {
            out.push(v.u64().unwrap().to_string());
        })
        .on_hole(|out, hole| out.push(format!("hole {}+{}", hole.first, hole.count)))
        .on_damage(|out, damage| out.push(damage.what.clone()));
    let mut feed = Feed::new(analyzer, &[types(7)]);
    feed.packet(IMPORTANTS, &framed(31, &[&[1][..], &1_u64.to_le_bytes()].concat()));
    feed.packet(2, &serials([1, 2]));
    feed.packet(2, &serials([5]));
    feed.packet(3, &[&serials([6])[..], &[0x22]].concat());
    // An event of a type that is never declared.
    feed.packet(4, &plain(999, &[1, 2]));
    let state = feed.finish().state;
    assert_eq!(state[..2], ["1", "2"]);
    assert!(state.contains(&"hole 3+2".into()), "{state:?}");
    assert!(state.iter().any(|line| line.contains("unknown type 999")), "{state:?}");
    let five = state.iter().position(|line| line == "5").unwrap();
    let hole = state.iter().position(|line| line == "hole 3+2").unwrap();
    assert!(hole < five && state.iter().any(|line| line == "6"), "{state:?}");
}

#[test]
fn a_damaged_trace_never_gives_a_handler_more_than_the_whole_one() {
    let sample = include_bytes!("../../../../tests/samples/ue511-smoke.utrace");
    let count = |bytes: &[u8]| {
        let mut count = EventAnalyzer::new((0_u64, 0_u64))
            .on("*", "*", [], |(events, _), event, []| {
                // Every conversion of every field: none panics, whatever the bytes.
                for field in event.fields() {
                    let numbers = field.elements().map(Iterator::count).unwrap_or_default();
                    let text = field.text().map_or(0, |text| text.len());
                    let _ = (field.u64(), field.f64(), field.nanoseconds(), field.reference());
                    std::hint::black_box((numbers, text, event.definition(), event.thread()));
                }
                *events += 1;
            })
            .on_damage(|(_, damages), _| *damages += 1);
        let summary = read(bytes, &mut count).ok()?;
        assert_eq!(summary.counts.events, count.state.0);
        Some(count.state)
    };
    let (events, damages) = count(sample).unwrap();
    assert_eq!((events, damages), (1149, 0));
    for end in (12..sample.len()).step_by(997) {
        let (cut, _) = count(&sample[..end]).unwrap();
        assert!(cut <= events);
    }
    for at in (12..sample.len()).step_by(1009) {
        let mut bytes = sample.to_vec();
        bytes[at] ^= 0x55;
        count(&bytes);
    }
}

#[test]
fn several_analyzers_share_one_pass() {
    let sample = include_bytes!("../../../../tests/samples/mem-2t-40k.utrace");
    let counter = || {
        EventAnalyzer::new(0_u64).on("Memory", "Alloc", [], |count, _, []| *count += 1).on(
            "Memory",
            "AllocSystem",
            [],
            |count, _, []| *count += 1,
        )
    };
    let (mut memory, mut first, mut second) = (analysis::Analyzer::new(), counter(), counter());
    read(&sample[..], &mut (&mut memory, &mut first, &mut second)).unwrap();
    let report = memory.report();
    assert_eq!(first.state, report.totals.allocations);
    assert_eq!(second.state, first.state);
    // The memory analyzer gives what it gives alone.
    let mut alone = analysis::Analyzer::new();
    read(&sample[..], &mut alone).unwrap();
    assert_eq!(alone.report(), report);
    // Chosen at run time, so that both have one type.
    let (mut memory, mut first) = (analysis::Analyzer::new(), counter());
    let mut chosen: Vec<Box<dyn Visitor + '_>> = vec![Box::new(&mut first), Box::new(&mut memory)];
    read(&sample[..], &mut chosen).unwrap();
    drop(chosen);
    assert_eq!((first.state, memory.report()), (second.state, report));
}
