//! Perfetto's messages: the numbers of the fields that are written, the values that have names, and the uuids
//! of tracks. Both who writes such files need them: the sessions of a program, and the export of a trace.
#![allow(dead_code, reason = "each of both needs only some of them")]

pub mod sequence;
pub mod track;

/// The hash that uuids of tracks are made of: FNV-1a with 64 bits.
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// The uuid of a track with a name.
pub const fn named_track_uuid(name: &str, id: u64, parent: u64) -> u64 {
    parent ^ fnv1a(name.as_bytes()) ^ id
}

/// The uuid of a counter.
pub const fn counter_track_uuid(name: &str, parent: u64) -> u64 {
    0xb1a4_a67d_7970_839e ^ parent ^ fnv1a(name.as_bytes())
}

/// The uuid of a state.
pub const fn state_track_uuid(name: &str, parent: u64) -> u64 {
    0x9b6c_5d2f_1e3a_47c8 ^ parent ^ fnv1a(name.as_bytes())
}

pub mod trace {
    pub const PACKET: u32 = 1;
}
pub mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const PROFILE_PACKET: u32 = 37;
    pub const PREVIOUS_PACKET_DROPPED: u32 = 42;
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub const TRACE_PACKET_DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const FIRST_PACKET_ON_SEQUENCE: u32 = 87;

    /// In [`SEQUENCE_FLAGS`]: what the sequence has interned so far is forgotten.
    pub const INCREMENTAL_STATE_CLEARED: u64 = 1;
    /// In [`SEQUENCE_FLAGS`]: the packet refers to what the sequence has interned.
    pub const NEEDS_INCREMENTAL_STATE: u64 = 2;
}
pub mod clock_snapshot {
    pub const CLOCKS: u32 = 1;
    pub const PRIMARY_TRACE_CLOCK: u32 = 2;
}
pub mod clock {
    pub const CLOCK_ID: u32 = 1;
    pub const TIMESTAMP: u32 = 2;
    pub const IS_INCREMENTAL: u32 = 3;
    pub const UNIT_MULTIPLIER_NS: u32 = 4;

    /// The clock of dumps of a heap profile.
    pub const MONOTONIC_COARSE: u64 = 4;
    /// The clock of a time without the number of a clock.
    pub const BOOTTIME: u64 = 6;
    /// The first clock that a sequence may define for itself.
    pub const OF_SEQUENCE: u64 = 64;
    /// The second.
    pub const OF_SEQUENCE_IN_UNITS: u64 = 65;
}
pub mod packet_defaults {
    pub const TRACK_EVENT_DEFAULTS: u32 = 11;
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
}
pub mod track_event {
    pub const CATEGORY_IIDS: u32 = 3;
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK_UUID: u32 = 11;
    pub const CATEGORIES: u32 = 22;
    pub const NAME: u32 = 23;
    pub const COUNTER_VALUE: u32 = 30;
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub const FLOW_IDS: u32 = 47;
    pub const TERMINATING_FLOW_IDS: u32 = 48;
    pub const CORRELATION_ID: u32 = 52;
    pub const CORRELATION_ID_STR: u32 = 53;

    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}
pub mod debug_annotation {
    pub const NAME_IID: u32 = 1;
    pub const BOOL_VALUE: u32 = 2;
    pub const UINT_VALUE: u32 = 3;
    pub const INT_VALUE: u32 = 4;
    pub const DOUBLE_VALUE: u32 = 5;
    pub const STRING_VALUE: u32 = 6;
    pub const POINTER_VALUE: u32 = 7;
    pub const NAME: u32 = 10;
    pub const ARRAY_VALUES: u32 = 12;
}
pub mod track_descriptor {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT_UUID: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const CHILD_ORDERING: u32 = 11;
    pub const SIBLING_ORDER_RANK: u32 = 12;
    pub const SIBLING_MERGE_BEHAVIOR: u32 = 15;
    pub const SIBLING_MERGE_KEY: u32 = 16;
    pub const STATE: u32 = 18;

    /// In [`SIBLING_MERGE_BEHAVIOR`].
    pub const BY_SIBLING_MERGE_KEY: u64 = 3;
}
pub mod process_descriptor {
    pub const PID: u32 = 1;
    pub const CMDLINE: u32 = 2;
    pub const PROCESS_NAME: u32 = 6;
}
pub mod thread_descriptor {
    pub const PID: u32 = 1;
    pub const TID: u32 = 2;
    pub const THREAD_NAME: u32 = 5;
}
pub mod counter_descriptor {
    pub const UNIT: u32 = 3;
    pub const UNIT_NAME: u32 = 6;

    pub const TIME_NS: u64 = 1;
    pub const COUNT: u64 = 2;
    pub const SIZE_BYTES: u64 = 3;
}
pub mod interned_data {
    pub const EVENT_CATEGORIES: u32 = 1;
    pub const EVENT_NAMES: u32 = 2;
    pub const DEBUG_ANNOTATION_NAMES: u32 = 3;
    pub const FUNCTION_NAMES: u32 = 5;
    pub const FRAMES: u32 = 6;
    pub const CALLSTACKS: u32 = 7;
    pub const BUILD_IDS: u32 = 16;
    pub const MAPPING_PATHS: u32 = 17;
    pub const SOURCE_PATHS: u32 = 18;
    pub const MAPPINGS: u32 = 19;
}
/// A string with a number, of whatever kind.
pub mod interned {
    pub const IID: u32 = 1;
    pub const TEXT: u32 = 2;
}
pub mod mapping {
    pub const IID: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const START_OFFSET: u32 = 3;
    pub const START: u32 = 4;
    pub const END: u32 = 5;
    pub const LOAD_BIAS: u32 = 6;
    pub const PATH_STRING_IDS: u32 = 7;
    pub const EXACT_OFFSET: u32 = 8;
}
pub mod frame {
    pub const IID: u32 = 1;
    pub const FUNCTION_NAME_ID: u32 = 2;
    pub const MAPPING_ID: u32 = 3;
    pub const REL_PC: u32 = 4;
    pub const SOURCE_PATH_IID: u32 = 5;
    pub const LINE_NUMBER: u32 = 6;
}
pub mod callstack {
    pub const IID: u32 = 1;
    /// The outermost first.
    pub const FRAME_IDS: u32 = 2;
}
pub mod profile_packet {
    pub const PROCESS_DUMPS: u32 = 5;
    pub const CONTINUED: u32 = 6;
    pub const INDEX: u32 = 7;
}
pub mod process_heap_samples {
    pub const PID: u32 = 1;
    pub const SAMPLES: u32 = 2;
    pub const FROM_STARTUP: u32 = 3;
    pub const TIMESTAMP: u32 = 9;
    pub const HEAP_NAME: u32 = 11;
    pub const SAMPLING_INTERVAL_BYTES: u32 = 12;
    pub const ORIG_SAMPLING_INTERVAL_BYTES: u32 = 13;
    pub const START_TIMESTAMP: u32 = 15;
}
pub mod heap_sample {
    pub const CALLSTACK_ID: u32 = 1;
    pub const SELF_ALLOCATED: u32 = 2;
    pub const SELF_FREED: u32 = 3;
    pub const ALLOC_COUNT: u32 = 5;
    pub const FREE_COUNT: u32 = 6;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a trace of the C library (v59).
    #[test]
    fn uuids_are_those_of_the_c_library() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"MyTrack"), 0x1056_8bfe_b6ff_d272);
        assert_eq!(fnv1a(b"MyCounter"), 0xa04e_2866_ee40_64c5);
        let process = 0xc2d0_9adb_b375_7850;
        assert_eq!(process ^ 3315, 0xc2d0_9adb_b375_74a3, "a thread");
        assert_eq!(named_track_uuid("MyTrack", 1, process), 0xd286_1125_058a_aa23);
        assert_eq!(counter_track_uuid("live_bytes", process), 0xf4f0_70dd_185b_5a95);
        assert_eq!(state_track_uuid("MyState", process), 0x529f_0624_de3c_2c3c);
    }
}
