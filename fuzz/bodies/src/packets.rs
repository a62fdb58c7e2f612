//! A whole trace to packets and events.
//!
//! The events do not depend on the sizes of the pieces in which the trace arrives. A prefix of the
//! trace gives, for each thread, a part of that thread's events in the whole trace, in the same
//! order.

use crate::input::{Numbers, Slow};
use crate::log::{Entry, Log, read};
use crate::seeds;
use memledger_format::handshake::Transport;
use memledger_format::framing::Framing;
use memledger_format::handshake::Magic;

pub use seeds::traces as seeds;

/// Reads `data` at once, in pieces, and cut off somewhere.
pub fn run(data: &[u8]) {
    let Some((whole, summary)) = read(data, data.len()) else { return };
    let handshake = &summary.handshake;
    // A recorder refuses a stream without a magic number.
    if handshake.magic != Magic::Missing {
        let mut framing = Framing::new();
        assert!(framing.push(data).is_ok(), "what can be read, a recorder takes");
        let start = framing.start().map(|start| (start.transport, start.protocol));
        assert_eq!(start, Some((handshake.transport.version(), handshake.protocol)));
    }
    if !whole.damages.is_empty() {
        return;
    }
    if let Some((slow, _)) = read(Slow::new(data, 64), data.len()) {
        assert!(slow.damages.is_empty(), "{:?}", slow.damages);
        // Up to protocol 4, types are among the events of threads: how many are announced before an event
        // depends on how much was read.
        for is_type in [true, false] {
            let of = |log: &Log| -> Vec<Entry> {
                let entries = log.entries.iter().cloned();
                entries.filter(|entry| matches!(entry, Entry::Type(_)) == is_type).collect()
            };
            assert_eq!(of(&slow), of(&whole));
        }
        if handshake.protocol > 4 {
            assert_eq!(slow.entries, whole.entries);
        }
    }
    // The packets of a batch are in reverse order, so the last batch loses its first events.
    if handshake.transport == Transport::Batch {
        return;
    }
    let cut = Numbers::of(data).below(data.len());
    let Some((part, cut_summary)) = read(&data[..cut], cut) else { return };
    // If the cut removes a type, events before the cut are lost, too.
    let most = u64::from(cut_summary.truncated_bytes > 0);
    if cut_summary.counts.damages == most && whole.is_whole() {
        let late = summary.counts.late + cut_summary.counts.late;
        let same = match late + cut_summary.counts.holes {
            0 => |entry| entry,
            _ => without_serial,
        };
        for stream in cut_summary.streams {
            let mut all = whole.of(stream.stream).map(same);
            for entry in part.of(stream.stream).map(same) {
                assert_eq!(Some(entry), all.next(), "{cut} bytes, stream {}", stream.stream);
            }
        }
    }
}

/// The entry, without its serial. The reader corrects a serial that is not below the next serial of
/// its thread: the event gets the serial of a missing event. If the next event is cut off, the
/// reader keeps the wrong serial, and there is a hole before the event or the event is late. So the
/// serials of the part are those of the whole trace only if the part has no hole and no late event.
fn without_serial(entry: Entry) -> Entry {
    match entry {
        Entry::Event { stream, serial, enters, content } => {
            Entry::Event { stream, serial: serial.map(|_| 0), enters, content }
        }
        entry => entry,
    }
}
