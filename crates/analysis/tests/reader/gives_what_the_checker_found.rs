//! The samples of Unreal's own runtime, against totals that an independent program computed.

use memledger_analysis::read::{self, Damage, Event, Hole, Visitor};
use memledger_format::schema::EventType;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Default)]
struct Check {
    names: Vec<String>,
    counts: BTreeMap<String, u64>,
    last: Option<u64>,
    synced: u64,
    scopes: i64,
}

impl Visitor for Check {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        assert_eq!(index, self.names.len());
        self.names.push(event_type.name());
    }

    fn event(&mut self, event: &Event<'_>) {
        assert_eq!(event.event_type.name(), self.names[event.type_index]);
        assert_eq!(event.fixed.len(), event.event_type.fixed_size());
        assert_eq!(event.serial.is_some(), event.event_type.is_synced());
        *self.counts.entry(event.event_type.name()).or_default() += 1;
        if event.serial.is_some() {
            assert!(event.serial > self.last, "{:?} after {:?}", event.serial, self.last);
            self.last = event.serial;
            self.synced += 1;
        }
        self.scopes += i64::from(event.enters_scope);
    }

    fn leave_scope(&mut self, _: u16) {
        self.scopes -= 1;
    }

    fn hole(&mut self, hole: Hole) {
        panic!("{hole:?}");
    }

    fn damage(&mut self, damage: &Damage) {
        panic!("{damage:?}");
    }
}

fn check(name: &str) {
    let path = format!("{}/../../tests/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read(format!("{path}.expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let bytes = std::fs::read(format!("{path}.utrace")).unwrap();
    let mut check = Check::default();
    let summary = read::read(&bytes[..], &mut check).unwrap();

    assert!(summary.is_complete());
    assert_eq!(summary.input_bytes, expected["file_bytes"].as_u64().unwrap());
    assert_eq!(summary.counts.events, expected["events_total"].as_u64().unwrap());
    assert_eq!(serde_json::to_value(&check.counts).unwrap(), expected["events"]);
    assert_eq!(check.synced, expected["serials"]["count"].as_u64().unwrap());
    assert_eq!(summary.counts.first_serial, expected["serials"]["first"].as_u64());
    assert_eq!(summary.counts.last_serial, expected["serials"]["last"].as_u64());
    assert_eq!((summary.counts.late, check.scopes), (0, 0));
    assert_eq!(summary.packets.plain, expected["packets"]["raw"].as_u64().unwrap());
    assert_eq!(summary.packets.encoded, expected["packets"]["encoded"].as_u64().unwrap());
    assert_eq!(summary.packets.sync, expected["packets"]["sync"].as_u64().unwrap());
    let types = summary.types.iter().filter(|t| t.events > 0);
    let types = types.map(|t| (t.event_type.name(), t.events)).collect::<BTreeMap<_, _>>();
    assert_eq!(types, check.counts);
    for (stream, thread) in expected["threads"].as_object().unwrap() {
        let found = summary.streams.iter().find(|s| s.stream.to_string() == *stream);
        assert_eq!(found.map_or(0, |s| s.events), thread["events"].as_u64().unwrap());
        if let Some(found) = found {
            assert_eq!(found.bytes, thread["stream_bytes"].as_u64().unwrap());
        }
    }
}

#[test]
fn smoke() {
    check("ue511-smoke");
}

#[test]
fn two_threads_whose_serials_interleave() {
    check("mem-2t-40k");
}
