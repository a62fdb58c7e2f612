//! The clocks of a sequence, and the times on them.

use crate::perfetto::config::TrackEventConfig;
use crate::protobuf::Message;
use crate::protobuf::perfetto::{clock, clock_snapshot};

/// The time of a packet of a sequence whose last one was at `last_ns`, and its clock if that is not `default`.
#[inline]
pub(super) fn time_of(
    last_ns: &mut u64,
    at_ns: u64,
    unit: u64,
    default: u64,
) -> (u64, Option<u64>) {
    if default != clock::OF_SEQUENCE {
        return (at_ns / unit, None);
    }
    match at_ns.checked_sub(*last_ns) {
        Some(distance) if unit == 1 => {
            *last_ns = at_ns;
            (distance, None)
        }
        Some(distance) => {
            *last_ns += distance / unit * unit;
            (distance / unit, None)
        }
        None if unit == 1 => (at_ns, Some(clock::BOOTTIME)),
        None => (at_ns / unit, Some(clock::OF_SEQUENCE_IN_UNITS)),
    }
}

/// The clock of packets that name none.
pub(super) fn default_clock(config: &TrackEventConfig) -> u64 {
    match (config.absolute_timestamps, config.unit_ns()) {
        (false, _) => clock::OF_SEQUENCE,
        (true, 1) => clock::BOOTTIME,
        (true, _) => clock::OF_SEQUENCE_IN_UNITS,
    }
}

/// A clock of a `ClockSnapshot`; for those of a sequence, whether it is incremental, and its unit.
pub(in crate::perfetto) fn clock_at(
    snapshot: &mut Message<'_>,
    id: u64,
    time: u64,
    own: Option<(bool, u64)>,
) {
    snapshot.nested(clock_snapshot::CLOCKS, |message| {
        message.uint(clock::CLOCK_ID, id);
        message.uint(clock::TIMESTAMP, time);
        if let Some((is_incremental, unit_ns)) = own {
            message.flag(clock::IS_INCREMENTAL, is_incremental);
            message.uint(clock::UNIT_MULTIPLIER_NS, unit_ns);
        }
    });
}
