//! A sequence of packets: its number, its clock, and the packet that it begins with.
//!
//! A trace is a row of packets. Each belongs to a sequence, whose numbers for names, callstacks and times
//! mean something in this sequence only:
//!
//! ```text
//! packet { sequence 2, flags CLEARED, defaults { track, clock 64 }, clocks { 6: now, 64: now } }
//! packet { sequence 2, flags NEEDS, time +1500, track_event { name 1 }, interned { 1: "load level" } }
//! packet { sequence 2, flags NEEDS, time +200, track_event { .. } }
//! ```
//! The sessions of a program and the export of a trace write their packets through this.

use super::{clock, clock_snapshot, interned, packet, packet_defaults, trace, track_event};
use crate::protobuf::{Message, Prepared};

/// A moment: nanoseconds since the system was started, and how many of them it has slept.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at_ns: u64,
    pub asleep_ns: u64,
}

/// A time, and its clock if that is not the one of the sequence.
pub type Time = (u64, Option<u64>);

/// See the [module](self).
#[derive(Debug)]
pub struct Sequence {
    id: u32,
    /// The fields of a packet that needs those before: the id and the flags.
    common: Prepared,
    /// The clock of times that name none, and its unit.
    clock: u64,
    unit_ns: u64,
    /// Whether the next packet can rely on those before.
    has_begun: bool,
    /// The time of the last packet with a time, on the clock of this sequence.
    last_ns: u64,
    /// The latest time.
    latest_ns: u64,
}

impl Sequence {
    /// A sequence whose packets have whole times.
    pub fn new(id: u32) -> Self {
        Self {
            id,
            common: Prepared::new(|packet| {
                packet.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, id.into());
                packet.uint(packet::SEQUENCE_FLAGS, packet::NEEDS_INCREMENTAL_STATE);
            }),
            clock: clock::BOOTTIME,
            unit_ns: 1,
            has_begun: false,
            last_ns: 0,
            latest_ns: 0,
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The clock of times that name none.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Whether the next packet can rely on those before.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Makes the next packet independent of those before.
    pub fn restart(&mut self) {
        self.has_begun = false;
    }

    /// This time, or the latest one if that is later.
    pub fn not_before(&self, at_ns: u64) -> u64 {
        at_ns.max(self.latest_ns)
    }

    /// Makes this the latest time, unless that is later; returns the latest.
    #[inline]
    pub fn advance(&mut self, at_ns: u64) -> u64 {
        self.latest_ns = self.latest_ns.max(at_ns);
        self.latest_ns
    }

    /// Begins the sequence here, on a clock of its own. The next packet is the [`first`](Self::first) one.
    pub fn begin(&mut self, clock: u64, unit_ns: u64, at_ns: u64) {
        (self.clock, self.unit_ns) = (clock, unit_ns);
        self.last_ns = at_ns / unit_ns * unit_ns;
        self.advance(at_ns);
        self.has_begun = true;
    }

    /// The time of the next packet on the clock of the sequence.
    #[inline]
    pub fn time(&mut self, at_ns: u64) -> Time {
        let unit = self.unit_ns;
        if self.clock != clock::OF_SEQUENCE {
            return (at_ns / unit, None);
        }
        match at_ns.checked_sub(self.last_ns) {
            Some(distance) if unit == 1 => {
                self.last_ns = at_ns;
                (distance, None)
            }
            Some(distance) => {
                self.last_ns += distance / unit * unit;
                (distance / unit, None)
            }
            None if unit == 1 => (at_ns, Some(clock::BOOTTIME)),
            None => (at_ns / unit, Some(clock::OF_SEQUENCE_IN_UNITS)),
        }
    }

    /// Writes a packet at a time, or at that of the packet before if that is later.
    pub fn packet(&mut self, out: &mut Vec<u8>, at_ns: u64, write: impl FnOnce(&mut Message<'_>)) {
        let at_ns = self.advance(at_ns);
        let time = self.time(at_ns);
        match std::mem::replace(&mut self.has_begun, true) {
            true => self.timed(out, time, write),
            false => self.first(out, time, write),
        }
    }

    /// Writes the packet that says that what was interned before is forgotten.
    pub fn first(&self, out: &mut Vec<u8>, time: Time, write: impl FnOnce(&mut Message<'_>)) {
        Message::new(out).nested(trace::PACKET, |packet| {
            packet.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, self.id.into());
            packet.uint(packet::SEQUENCE_FLAGS, packet::INCREMENTAL_STATE_CLEARED);
            write_time(packet, time);
            write(packet);
        });
    }

    /// Writes a packet at a time that [`time`](Self::time) has returned.
    #[inline]
    pub fn timed(&self, out: &mut Vec<u8>, time: Time, write: impl FnOnce(&mut Message<'_>)) {
        Message::new(out).nested(trace::PACKET, |packet| {
            packet.prepared(&self.common);
            write_time(packet, time);
            write(packet);
        });
    }

    /// Writes a packet without a time.
    pub fn timeless(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Message<'_>)) {
        Message::new(out).nested(trace::PACKET, |packet| {
            packet.prepared(&self.common);
            write(packet);
        });
    }

    /// Writes what packets take for granted: their clock, and the track of events that name none.
    pub fn defaults(&self, packet: &mut Message<'_>, track: u64, at_ns: u64) {
        let (clock, unit) = (self.clock, self.unit_ns);
        packet.nested(packet::TRACE_PACKET_DEFAULTS, |defaults| {
            defaults.uint(packet_defaults::TIMESTAMP_CLOCK_ID, clock);
            defaults.nested(packet_defaults::TRACK_EVENT_DEFAULTS, |event| {
                event.uint(track_event::TRACK_UUID, track);
            });
        });
        if clock == clock::BOOTTIME {
            return;
        }
        packet.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
            clock_at(snapshot, clock::BOOTTIME, at_ns, None);
            if clock == clock::OF_SEQUENCE {
                clock_at(snapshot, clock, at_ns / unit, Some((true, unit)));
            }
            if unit > 1 {
                let own = Some((false, unit));
                clock_at(snapshot, clock::OF_SEQUENCE_IN_UNITS, at_ns / unit, own);
            }
        });
    }
}

#[inline]
fn write_time(packet: &mut Message<'_>, (time, clock): Time) {
    packet.uint(packet::TIMESTAMP, time);
    if let Some(clock) = clock {
        packet.uint(packet::TIMESTAMP_CLOCK_ID, clock);
    }
}

/// Writes what the clocks of the whole trace say at one moment: their numbers and times.
pub fn clocks(packet: &mut Message<'_>, clocks: impl IntoIterator<Item = (u64, u64)>) {
    packet.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
        clocks.into_iter().for_each(|(id, time)| clock_at(snapshot, id, time, None));
        snapshot.uint(clock_snapshot::PRIMARY_TRACE_CLOCK, clock::BOOTTIME);
    });
}

/// A clock of a `ClockSnapshot`; for those of a sequence, whether it is incremental, and its unit.
fn clock_at(snapshot: &mut Message<'_>, id: u64, time: u64, own: Option<(bool, u64)>) {
    snapshot.nested(clock_snapshot::CLOCKS, |message| {
        message.uint(clock::CLOCK_ID, id);
        message.uint(clock::TIMESTAMP, time);
        if let Some((is_incremental, unit_ns)) = own {
            message.flag(clock::IS_INCREMENTAL, is_incremental);
            message.uint(clock::UNIT_MULTIPLIER_NS, unit_ns);
        }
    });
}

/// Adds a text with a number to interned data.
pub fn intern(data: &mut Message<'_>, list: u32, iid: u64, text: &[u8]) {
    data.nested(list, |entry| {
        entry.uint(interned::IID, iid);
        entry.bytes(interned::TEXT, text);
    });
}
