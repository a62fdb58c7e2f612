//! Sequences of packets.
//!
//! A trace is a row of packets. Each belongs to a sequence, whose numbers for names, callstacks and times
//! mean something in this sequence only:
//!
//! ```text
//! packet { sequence 2, flags CLEARED, defaults { track, clock 64 }, clocks { 6: now, 64: now } }
//! packet { sequence 2, flags NEEDS, time +1500, track_event { name 1 }, interned { 1: "load level" } }
//! packet { sequence 2, flags NEEDS, time +200, track_event { .. } }
//! ```

use crate::protobuf::Message;
use crate::protobuf::perfetto::{
    clock, clock_snapshot, interned, packet, packet_defaults, trace, track_event,
};

/// The time of the start of the trace. NOTE: not 0, which a reader may take for no time.
pub(super) const START_NS: u64 = 1_000_000_000;

/// The clock of a sequence's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// The time itself.
    Whole,
    /// The time since the packet before.
    SincePacketBefore,
}

/// A sequence, and what has been written of it.
#[derive(Debug)]
pub(super) struct Sequence {
    id: u32,
    times: Times,
    has_begun: bool,
    /// The time of the last packet. No packet is earlier than the one before.
    last_ns: u64,
}

impl Sequence {
    /// A sequence whose packets have whole times.
    pub(super) fn new(id: u32) -> Self {
        Self { id, times: Times::Whole, has_begun: false, last_ns: START_NS }
    }

    /// Writes the first packet of a sequence of events on one track: each has the time since the one before.
    pub(super) fn of_track(id: u32, track: u64, at_ns: u64, out: &mut Vec<u8>) -> Self {
        let last_ns = START_NS.saturating_add(at_ns);
        let sequence = Self { id, times: Times::SincePacketBefore, has_begun: true, last_ns };
        sequence.write(out, packet::INCREMENTAL_STATE_CLEARED, |packet| {
            packet.uint(packet::TIMESTAMP, last_ns);
            packet.uint(packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME);
            packet.nested(packet::TRACE_PACKET_DEFAULTS, |defaults| {
                defaults.uint(packet_defaults::TIMESTAMP_CLOCK_ID, clock::OF_SEQUENCE);
                defaults.nested(packet_defaults::TRACK_EVENT_DEFAULTS, |defaults| {
                    defaults.uint(track_event::TRACK_UUID, track);
                });
            });
            packet.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                clock_at(snapshot, clock::BOOTTIME, last_ns, false);
                clock_at(snapshot, clock::OF_SEQUENCE, last_ns, true);
            });
        });
        sequence
    }

    /// Its number.
    #[cfg(all(tracking, feature = "perfetto"))]
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Writes a point of the counter of a track.
    pub(super) fn counter(&mut self, out: &mut Vec<u8>, at_ns: u64, track: u64, value: i64) {
        self.packet(out, at_ns, |packet| {
            packet.nested(packet::TRACK_EVENT, |event| {
                event.uint(track_event::TYPE, track_event::COUNTER);
                event.uint(track_event::TRACK_UUID, track);
                event.int(track_event::COUNTER_VALUE, value);
            });
        });
    }

    /// Writes the clocks of the whole trace, which must be its first packet.
    pub(super) fn clocks(&mut self, out: &mut Vec<u8>) {
        self.packet(out, 0, |packet| {
            packet.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                for id in [clock::BOOTTIME, clock::MONOTONIC_COARSE] {
                    clock_at(snapshot, id, START_NS, false);
                }
                snapshot.uint(clock_snapshot::PRIMARY_TRACE_CLOCK, clock::BOOTTIME);
            });
        });
    }

    /// Writes a packet at a time of the trace, or at that of the packet before if that is later.
    pub(super) fn packet(
        &mut self,
        out: &mut Vec<u8>,
        at_ns: u64,
        write: impl FnOnce(&mut Message<'_>),
    ) {
        let before = self.last_ns;
        self.last_ns = before.max(START_NS.saturating_add(at_ns));
        let time = match self.times {
            Times::Whole => self.last_ns,
            Times::SincePacketBefore => self.last_ns - before,
        };
        let flags = match self.has_begun {
            true => packet::NEEDS_INCREMENTAL_STATE,
            false => packet::INCREMENTAL_STATE_CLEARED,
        };
        self.has_begun = true;
        self.write(out, flags, |packet| {
            packet.uint(packet::TIMESTAMP, time);
            write(packet);
        });
    }

    /// Starts again: the next packet needs none of those before. For sequences with whole times.
    #[cfg(all(tracking, feature = "perfetto"))]
    pub(super) fn restart(&mut self) {
        self.has_begun = false;
    }

    /// Writes a packet without a time.
    pub(super) fn timeless(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Message<'_>)) {
        self.write(out, packet::NEEDS_INCREMENTAL_STATE, write);
    }

    fn write(&self, out: &mut Vec<u8>, flags: u64, write: impl FnOnce(&mut Message<'_>)) {
        Message::new(out).nested(trace::PACKET, |packet| {
            packet.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, self.id.into());
            packet.uint(packet::SEQUENCE_FLAGS, flags);
            write(packet);
        });
    }
}

fn clock_at(snapshot: &mut Message<'_>, id: u64, at: u64, is_incremental: bool) {
    snapshot.nested(clock_snapshot::CLOCKS, |message| {
        message.uint(clock::CLOCK_ID, id);
        message.uint(clock::TIMESTAMP, at);
        if is_incremental {
            message.flag(clock::IS_INCREMENTAL, true);
            message.uint(clock::UNIT_MULTIPLIER_NS, 1);
        }
    });
}

/// Adds a string with a number to interned data.
pub(super) fn intern(data: &mut Message<'_>, field: u32, iid: u64, text: &[u8]) {
    data.nested(field, |entry| {
        entry.uint(interned::IID, iid);
        entry.bytes(interned::TEXT, text);
    });
}
