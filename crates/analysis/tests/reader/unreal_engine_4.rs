//! Traces of Unreal Engine 4 (protocols 0 to 4), against totals that an independent program
//! computed. The samples are synthetic: no public trace of these engines was found.

mod generated;
mod naive;

use memledger_analysis::Analyzer;
use memledger_analysis::convert::convert;
use memledger_analysis::read::{self, Damage, Event, EventAnalyzer, Hole, Summary, Value, Visitor};
use memledger_format::ErrorKind;
use memledger_format::handshake::Magic;
use memledger_format::handshake::Transport;
use memledger_format::schema::{EventType, FieldType};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, HashMap};

pub const SAMPLES: [&str; 7] =
    ["p0-packet", "p0-raw", "p1-tid", "p2-tid", "p3-tid", "p4-tid-trc2", "p4-tid-ue426"];

pub fn sample(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/unreal4");
    std::fs::read(format!("{folder}/{name}.utrace")).unwrap()
}

#[derive(Default)]
struct Check {
    names: Vec<String>,
    types: Vec<EventType>,
    /// Events, events that open a scope, and ends of scopes, by name.
    counts: BTreeMap<String, [u64; 3]>,
    open: BTreeMap<u16, Vec<String>>,
    streams: BTreeMap<u16, u64>,
    serials: Vec<(u64, String, u16)>,
    shown: BTreeMap<String, Vec<Json>>,
    problems: Vec<String>,
}

/// An event in the form of the expectation. Only the expectation knows which integers are signed.
fn shown(event: &Event<'_>) -> Json {
    let number = |value: &Value<'_>| match value {
        Value::Unsigned(n) => json!(n),
        Value::Signed(n) => json!(n),
        Value::Float(n) => json!(n),
        Value::Text(text) => json!(text),
        _ => unreachable!(),
    };
    let mut fields = Map::new();
    for (index, field) in event.event_type.fields.iter().enumerate() {
        let value = match event.value(index).unwrap() {
            Value::Array(all) => Json::Array(all.iter().map(number).collect()),
            value => number(&value),
        };
        fields.insert(field.name.to_string(), value);
    }
    let mut shown = json!({"tid": event.stream, "fields": fields});
    if let Some(serial) = event.serial {
        shown["serial"] = json!(serial);
    }
    if !event.attachment().is_empty() {
        let hex: String = event.attachment().iter().map(|byte| format!("{byte:02x}")).collect();
        shown["attachment"] = json!(hex);
    }
    shown
}

impl Visitor for Check {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        assert_eq!(index, self.types.len());
        self.types.push(event_type.clone());
        self.names.push(event_type.name());
    }

    fn event(&mut self, event: &Event<'_>) {
        let name = event.event_type.name();
        assert_eq!(name, self.names[event.type_index]);
        assert_eq!(event.fixed.len(), event.event_type.fixed_size());
        self.counts.entry(name.clone()).or_default()[usize::from(event.enters_scope)] += 1;
        if event.enters_scope {
            self.open.entry(event.stream).or_default().push(name.clone());
        }
        *self.streams.entry(event.stream).or_default() += 1;
        if let Some(serial) = event.serial {
            self.serials.push((serial, name.clone(), event.stream));
        }
        self.shown.entry(name).or_default().push(shown(event));
    }

    fn leave_scope(&mut self, stream: u16) {
        let name = self.open.get_mut(&stream).unwrap().pop().unwrap();
        self.counts.entry(name).or_default()[2] += 1;
        *self.streams.entry(stream).or_default() += 1;
    }

    fn hole(&mut self, hole: Hole) {
        self.problems.push(format!("{hole:?}"));
    }

    fn damage(&mut self, damage: &Damage) {
        self.problems.push(format!("{damage:?}"));
    }
}

/// Whether a value of a trace without sign bits is the expected one.
fn same(found: &Json, expected: &Json) -> bool {
    match (found, expected) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Number(a), Json::Number(b)) => {
            let (Some(found), Some(negative)) = (a.as_u64(), b.as_i64().filter(|&n| n < 0)) else {
                return a == b || a.as_f64() == b.as_f64();
            };
            [8, 16, 32, 64].iter().any(|bits| found == negative as u64 & (u64::MAX >> (64 - bits)))
        }
        _ => found == expected,
    }
}

fn same_event(found: &Json, expected: &Json, bits: u32) -> bool {
    let fields = expected["fields"].as_object().unwrap();
    let serial = |event: &Json| event["serial"].as_u64().map(|serial| serial & ((1 << bits) - 1));
    found["tid"] == expected["tid"]
        && serial(found) == serial(expected)
        && found["attachment"] == expected["attachment"]
        && found["fields"].as_object().unwrap().len() == fields.len()
        && fields.iter().all(|(name, value)| same(&found["fields"][name], value))
}

fn check(name: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/unreal4");
    let expected = std::fs::read(format!("{folder}/{name}.expected.json")).unwrap();
    let expected: Json = serde_json::from_slice(&expected).unwrap();
    let mut check = Check::default();
    let summary = read::read(&sample(name)[..], &mut check).unwrap();
    assert_eq!(check.problems, [""; 0], "{name}");
    assert!(summary.is_complete());
    // The expectation also counts the ends of scopes.
    let leaves: u64 = check.counts.values().map(|counts| counts[2]).sum();
    assert_eq!(summary.counts.events + leaves, expected["total_events"].as_u64().unwrap());
    for (name, counts) in expected["events"].as_object().unwrap() {
        let count = |key: &str| counts[key].as_u64().unwrap();
        let expected = [count("normal"), count("enter"), count("leave")];
        assert_eq!(check.counts.remove(name), Some(expected), "{name}");
    }
    assert!(check.counts.is_empty(), "{:?}", check.counts);
    for (stream, count) in expected["per_thread"].as_object().unwrap() {
        assert_eq!(check.streams.remove(&stream.parse().unwrap()), count.as_u64(), "{stream}");
    }
    assert!(check.streams.is_empty(), "{:?}", check.streams);
    assert!(check.serials.iter().map(|serial| serial.0).is_sorted_by(|a, b| a < b));
    assert_eq!(summary.counts.first_serial, check.serials.first().map(|first| first.0));
    let bits = match expected["protocol"].as_u64().unwrap() {
        0 => 0,
        1 => 16,
        _ => 24,
    };
    let low =
        |serial: &(u64, String, u16)| json!([serial.0 & ((1 << bits) - 1), serial.1, serial.2]);
    let listed = |key: &str| expected[key].as_array().cloned().unwrap_or_default();
    let (first, last) = (listed("serial_order_first_40"), listed("serial_order_last_10"));
    if bits > 0 {
        assert_eq!(check.serials.len() as u64, expected["synced_events"].as_u64().unwrap());
        let found: Vec<_> = check.serials.iter().take(first.len()).map(low).collect();
        assert_eq!(found, first);
        let found = &check.serials[check.serials.len() - last.len()..];
        assert_eq!(found.iter().map(low).collect::<Vec<_>>(), last);
    }
    for declared in listed("types") {
        let uid = declared["uid"].as_u64().unwrap();
        let found = check.types.iter().find(|t| u64::from(t.uid) == uid).unwrap();
        assert!(
            found.is(declared["logger"].as_str().unwrap(), declared["event"].as_str().unwrap())
        );
        assert_eq!(declared["flags"], found.flags);
        assert_eq!(declared["fixed_size"], found.fixed_size());
        let fields = declared["fields"].as_array().unwrap();
        assert_eq!(fields.len(), found.fields.len());
        for (field, found) in fields.iter().zip(found.fields.iter()) {
            assert_eq!(field["name"], *found.name);
            let code = field["code"].as_u64().unwrap();
            assert_eq!(FieldType::from_code(code as u8), Some(found.field_type));
        }
    }
    for (name, events) in expected["first_of_type"].as_object().unwrap() {
        let found = &check.shown[name];
        let ordered = found.iter().all(|event| event.get("serial").is_some()) || bits == 0;
        let last = [(found.len() - 1, &expected["last_of_type"][name])];
        for (index, event) in events.as_array().unwrap().iter().enumerate().chain(last) {
            let same = |found| same_event(found, event, bits);
            // The order of events without serials is that of their thread only.
            let there = if ordered { same(&found[index]) } else { found.iter().any(same) };
            assert!(there, "{name}: {} instead of {event}", found[index]);
        }
    }
}

#[test]
fn every_event_of_each_sample_is_delivered() {
    SAMPLES.iter().for_each(|name| check(name));
}

/// Reads, and checks what holds for any input.
fn read_any(bytes: &[u8]) -> Option<Summary> {
    let mut check = Any::default();
    let summary = read::read(bytes, &mut check).ok()?;
    assert_eq!(check.events, summary.counts.events);
    assert_eq!(summary.input_bytes, bytes.len() as u64);
    Some(summary)
}

#[derive(Default)]
struct Any {
    events: u64,
}

impl Visitor for Any {
    fn event(&mut self, event: &Event<'_>) {
        assert_eq!(event.fixed.len(), event.event_type.fixed_size());
        self.events += 1;
    }
}

#[test]
fn damage_anywhere_does_no_harm() {
    // PERF: each sample is read some hundred times.
    damaged(61, 53);
}

#[test]
#[ignore = "takes minutes; the other test does the same for some of the bytes"]
fn damage_at_each_byte_does_no_harm() {
    damaged(1, 1);
}

/// Cuts each sample, and flips a byte of it, at each position that is a multiple of these.
fn damaged(cut: usize, flipped: usize) {
    for name in SAMPLES {
        let whole = sample(name);
        let events = read_any(&whole).unwrap().counts.events;
        for end in (0..whole.len()).step_by(cut) {
            let seen = read_any(&whole[..end]).map_or(0, |summary| summary.counts.events);
            assert!(seen <= events, "{name} cut at {end}");
        }
        let mut bytes = whole.clone();
        for at in (0..whole.len()).step_by(flipped) {
            let flip = if at % 9 == 8 { 0xff } else { 1 << (at % 9) };
            bytes[at] ^= flip;
            if let Some(summary) = read_any(&bytes) {
                assert!(summary.counts.events <= 2 * events, "{name}: {at} ^ {flip}");
            }
            bytes[at] = whole[at];
        }
    }
}

#[test]
fn damage_in_a_payload_costs_a_few_events() {
    for name in SAMPLES {
        let whole = sample(name);
        let events = read_any(&whole).unwrap().counts.events;
        // Behind the types that the samples begin with, which nothing can be read without.
        let from = whole.len() / 2;
        let mut bytes = whole.clone();
        let mut seen = Vec::new();
        for at in (from..whole.len()).step_by(97) {
            bytes[at] ^= 0x40;
            seen.push(read_any(&bytes).unwrap().counts.events);
            bytes[at] = whole[at];
        }
        seen.sort_unstable();
        let median = seen[seen.len() / 2];
        // An LZ4 packet is lost as a whole.
        assert!(median > events - events / 8, "{name}: {median} of {events}");
    }
}

/// The live blocks, from the first form of the events: no heap, and 3 bits of a size in a byte of
/// their own.
#[derive(Default)]
struct Live(HashMap<u64, u64>);

impl Visitor for Live {
    fn event(&mut self, event: &Event<'_>) {
        let number = |name: &str| {
            let field = &event.event_type.fields[event.event_type.field(name).unwrap()];
            event.unsigned(field.offset.into(), field.field_type.fixed_size())
        };
        match event.event_type.name().as_str() {
            "Memory.Alloc" | "Memory.ReallocAlloc" => {
                let size = number("Size") << 3 | number("Alignment_SizeLower") & 7;
                self.0.insert(number("Address"), size);
            }
            "Memory.Free" | "Memory.ReallocFree" => {
                self.0.remove(&number("Address"));
            }
            _ => {}
        }
    }
}

#[test]
fn a_report_takes_the_first_form_of_memory_events() {
    for (name, allocations, frees, live, thread) in
        [("p4-tid-ue426", 454, 303, 151, 1), ("p4-tid-trc2", 522, 294, 228, 2)]
    {
        let mut naive = Live::default();
        read::read(&sample(name)[..], &mut naive).unwrap();
        let mut analyzer = Analyzer::new();
        read::read(&sample(name)[..], &mut analyzer).unwrap();
        assert_eq!(analyzer.problems(), [""; 0], "{name}");
        let report = analyzer.report();
        let mut document = Vec::new();
        memledger_export::json::write(&report, &mut document).unwrap();
        let document: Json = serde_json::from_slice(&document).unwrap();
        let totals = &document["totals"];
        assert_eq!(totals["allocations"], allocations);
        assert_eq!(totals["frees"], frees);
        assert_eq!(totals["live_blocks"], live);
        assert_eq!(totals["live_bytes"], naive.0.values().sum::<u64>());
        let row = report.by_thread.iter().find(|row| row.id == thread).unwrap();
        assert_eq!(row.name, "GameThread", "{name}");
        assert!(report.trace.complete && report.trace.program.as_deref() == Some("SampleGame"));
    }
}

#[test]
fn handlers_get_attachments_threads_and_names() {
    let messages =
        EventAnalyzer::new(Vec::new()).on("Logging", "LogMessage", [], |all, event, []| {
            let thread = event.thread().map(|thread| (thread.id, thread.name.clone()));
            all.push((thread, event.event.attachment().len()));
        });
    let mut messages = messages;
    read::read(&sample("p4-tid-ue426")[..], &mut messages).unwrap();
    assert_eq!(messages.state.len(), 222);
    assert!(messages.state.iter().any(|(_, attachment)| *attachment > 0));
    assert!(messages.state.contains(&(Some((1, "GameThread".into())), 6)), "{:?}", messages.state);
}

#[test]
fn a_trace_that_no_later_protocol_can_carry_is_not_converted() {
    for name in SAMPLES {
        let mut out = Vec::new();
        let error = convert(&sample(name)[..], &mut out, Transport::Unreal).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotConvertible), "{error:?}");
        assert!(error.to_string().contains("no later protocol can carry"), "{error}");
        assert!(out.is_empty());
    }
}

#[test]
fn a_trace_without_a_magic_number_is_known_by_its_first_type() {
    let with = sample("p0-raw");
    let without = &with[4..];
    let (found, expected) = (read_any(without).unwrap(), read_any(&with).unwrap());
    assert_eq!(found.handshake.magic, Magic::Missing);
    assert_eq!(found.counts, expected.counts);
    for bytes in [&b"\x01\0\0\0\x07\0garbage"[..], b"\x01\0\0\0\x01\0\0", b"\x01\0\0\0\0\0"] {
        let error = read::read(bytes, &mut Any::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotATrace), "{error}");
    }
}
