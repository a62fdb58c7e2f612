//! A summary of what a reader delivers.

use memledger_analysis::read::{Damage, Event, Hole, Reader, Stamp, Summary, Visitor};
use memledger_format::schema::EventType;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

/// One item that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Type(u64),
    Event { stream: u16, serial: Option<u64>, enters: bool, content: u64 },
    Leave(u16),
    Stamp(u16, Stamp),
    Hole(Hole),
}

/// Everything that was delivered, in its order.
#[derive(Debug, Default)]
pub struct Log {
    pub entries: Vec<Entry>,
    pub damages: Vec<Damage>,
    pub events: u64,
    pub holes: (u64, u64),
    /// Whether a hole has an unknown number of events.
    pub unknown: bool,
}

impl Visitor for Log {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        let mut hasher = DefaultHasher::new();
        (index, event_type.uid, event_type.name(), event_type.fields.len()).hash(&mut hasher);
        self.entries.push(Entry::Type(hasher.finish()));
    }

    fn event(&mut self, event: &Event<'_>) {
        assert_eq!(event.fixed.len(), event.event_type.fixed_size());
        let mut hasher = DefaultHasher::new();
        (event.type_index, event.event_type.uid, event.fixed).hash(&mut hasher);
        for (index, field) in event.event_type.fields.iter().enumerate() {
            assert!(event.value(index).is_some(), "{field:?} of {}", event.event_type.name());
            event.bytes(index).hash(&mut hasher);
        }
        assert_eq!(event.value(event.event_type.fields.len()), None);
        let content = hasher.finish();
        let (stream, serial, enters) = (event.stream, event.serial, event.enters_scope);
        self.entries.push(Entry::Event { stream, serial, enters, content });
        self.events += 1;
    }

    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        self.entries.push(Entry::Stamp(stream, stamp));
    }

    fn leave_scope(&mut self, stream: u16) {
        self.entries.push(Entry::Leave(stream));
    }

    fn hole(&mut self, hole: Hole) {
        assert!(hole.first.checked_add(hole.count).is_some(), "{hole:?}");
        self.unknown |= hole.count == 0;
        self.holes.0 += 1;
        self.holes.1 += hole.count;
        self.entries.push(Entry::Hole(hole));
    }

    fn damage(&mut self, damage: &Damage) {
        assert!(!damage.what.is_empty() && !damage.what.contains(char::is_control), "{damage:?}");
        self.damages.push(damage.clone());
    }
}

impl Log {
    /// Whether all of the input could be read.
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty() && self.holes.0 == 0
    }

    /// The items of one stream. Serials are as on the wire, since the start of the order depends on
    /// the other streams.
    pub fn of(&self, stream: u16) -> impl Iterator<Item = Entry> {
        self.entries.iter().filter_map(move |entry| match *entry {
            Entry::Event { stream: s, serial, enters, content } if s == stream => {
                let serial = serial.map(|serial| serial & 0x00ff_ffff);
                Some(Entry::Event { stream, serial, enters, content })
            }
            Entry::Leave(s) | Entry::Stamp(s, _) if s == stream => Some(entry.clone()),
            _ => None,
        })
    }
}

/// Reads all of `source`; `None` if it does not start as a trace. Checks that the summary matches
/// the delivered items.
pub fn read(source: impl Read, size: usize) -> Option<(Log, Summary)> {
    let mut log = Log::default();
    let mut reader = Reader::open(source).ok()?;
    while reader.packet(&mut log) {}
    let summary = reader.finish(&mut log);
    let counts = &summary.counts;
    assert_eq!(counts.events, log.events);
    assert_eq!(counts.damages, log.damages.len() as u64);
    assert_eq!((counts.holes, counts.missing), log.holes);
    assert_eq!(counts.missing_unknown, log.unknown);
    assert_eq!(summary.input_bytes, size as u64);
    assert_eq!(summary.types.iter().map(|of| of.events).sum::<u64>(), counts.events);
    assert_eq!(summary.streams.iter().map(|of| of.events).sum::<u64>(), counts.events);
    let unread = summary.skipped_bytes + summary.truncated_bytes;
    assert!(unread <= summary.input_bytes);
    assert!(unread == 0 || counts.damages > 0, "{unread} bytes are not read, and nothing says so");
    assert!(summary.is_complete() <= log.is_whole(), "complete, with parts missing");
    Some((log, summary))
}
