//! The events about the stream itself: its program, its threads, losses and times.
//!
//! The `$Trace`, `Diagnostics` and `Memory.Marker` types are Unreal's; readers know them by name.
//! The `Memledger` types are ours; other readers skip them.

use super::encode::{Declaration, SYNCED_HEADER};
use super::schema::{
    FieldType::{AnsiString, I32, U8, U16, U32, U32Array, U64},
    IMPORTANT, NO_SYNC,
};

/// The start of the clock. Important.
pub static NEW_TRACE: Declaration = Declaration {
    uid: 16,
    logger: "$Trace",
    event: "NewTrace",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("StartCycle", U64), ("CycleFrequency", U64), ("Endian", U16), ("PointerSize", U8)],
};

/// The name of the thread of a stream, for Unreal's readers.
pub static THREAD_INFO: Declaration = Declaration {
    uid: 17,
    logger: "$Trace",
    event: "ThreadInfo",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("ThreadId", U32), ("SystemId", U32), ("SortHint", I32), ("Name", AnsiString)],
};

/// A channel and whether its events are in the stream.
pub static CHANNEL_ANNOUNCE: Declaration = Declaration {
    uid: 18,
    logger: "Trace",
    event: "ChannelAnnounce",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Id", U32), ("IsEnabled", U8), ("ReadOnly", U8), ("Name", AnsiString)],
};

/// A channel was turned on or off.
pub static CHANNEL_TOGGLE: Declaration = Declaration {
    uid: 26,
    logger: "Trace",
    event: "ChannelToggle",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Id", U32), ("IsEnabled", U8)],
};

/// The channels of the log sites of a type of the program: an event of the type with this uid is on all of
/// them. Precedes the events of the type.
pub static TYPE_CHANNELS: Declaration = Declaration {
    uid: 47,
    logger: "Memledger",
    event: "TypeChannels",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Uid", U16), ("Channels", U32Array)],
};

/// The program.
pub static SESSION: Declaration = Declaration {
    uid: 19,
    logger: "Diagnostics",
    event: "Session2",
    flags: IMPORTANT | NO_SYNC,
    fields: &[
        ("Platform", AnsiString),
        ("AppName", AnsiString),
        ("ConfigurationType", U8),
        ("TargetType", U8),
    ],
};

/// The time at this position in the order of serials.
pub static MARKER: Declaration =
    Declaration { uid: 20, logger: "Memory", event: "Marker", flags: 0, fields: &[("Cycle", U64)] };

/// The facts that our reader needs first: the first serial, whether the stream has all events since
/// the start of the process, whether the tracker was built with optimisation,
/// and the process that has started this one.
pub static TRACE: Declaration = Declaration {
    uid: 21,
    logger: "Memledger",
    event: "Trace",
    flags: IMPORTANT | NO_SYNC,
    fields: &[
        ("Version", U8),
        ("Pid", U32),
        ("FirstSerial", U64),
        ("FromProcessStart", U8),
        ("Optimized", U8),
        ("ParentPid", U32),
    ],
};

/// From this event on, this stream belongs to the thread with this id.
pub static THREAD_START: Declaration = Declaration {
    uid: 22,
    logger: "Memledger",
    event: "ThreadStart",
    flags: NO_SYNC,
    fields: &[("Id", U32), ("SystemId", U32), ("Name", AnsiString)],
};

/// All events with a lower serial precede this one.
pub static SETTLED: Declaration = Declaration {
    uid: 23,
    logger: "Memledger",
    event: "Settled",
    flags: NO_SYNC,
    fields: &[("Serial", U64)],
};

/// The number of events that a thread could not record. `ThreadId` is 0 for threads without an id.
pub static LOST: Declaration = Declaration {
    uid: 24,
    logger: "Memledger",
    event: "Lost",
    flags: NO_SYNC,
    fields: &[("ThreadId", U32), ("Events", U64)],
};

/// The in-process report covers all events up to this one.
pub static REPORT: Declaration = Declaration {
    uid: 25,
    logger: "Memledger",
    event: "Report",
    flags: NO_SYNC,
    fields: &[
        ("Serial", U64),
        ("Cycle", U64),
        ("OverheadBytes", U64),
        ("LostEvents", U64),
        ("ScopeMisuses", U64),
        ("FailedAllocations", U64),
        ("InFlight", U64),
    ],
};

/// The end of the initial live-set snapshot. The allocations before this event, on the same stream
/// id, happened before this trace began. Other traces of the process, which began earlier, have
/// them at their own times. `Missed` events between these blocks and the beginning are missing.
pub static LIVE_SET_END: Declaration = Declaration {
    uid: 30,
    logger: "Memledger",
    event: "Alive",
    flags: NO_SYNC,
    fields: &[("Blocks", U64), ("Missed", U64)],
};

/// Replaces the event of a scope that was entered before this stream started.
pub static SCOPE_GOES_ON: Declaration =
    Declaration { uid: 31, logger: "Memledger", event: "ScopeGoesOn", flags: NO_SYNC, fields: &[] };

/// All of the above.
pub static TYPES: &[&Declaration] = &[
    &NEW_TRACE,
    &THREAD_INFO,
    &CHANNEL_ANNOUNCE,
    &CHANNEL_TOGGLE,
    &TYPE_CHANNELS,
    &SESSION,
    &MARKER,
    &TRACE,
    &THREAD_START,
    &SETTLED,
    &LOST,
    &REPORT,
    &LIVE_SET_END,
    &SCOPE_GOES_ON,
];

/// The upper bound of the number of events between two markers, as the stream announces it.
pub const MARKER_PERIOD: u32 = 1 << 20;
/// Bytes of a marker.
pub const MARKER_BYTES: usize = SYNCED_HEADER + 8;

/// A marker.
pub fn marker(serial: u64, cycle: u64) -> [u8; MARKER_BYTES] {
    let mut bytes = [0; MARKER_BYTES];
    let head = u64::from(MARKER.wire()) | serial << 16;
    bytes[..8].copy_from_slice(&head.to_le_bytes());
    bytes[SYNCED_HEADER..].copy_from_slice(&cycle.to_le_bytes());
    bytes
}
