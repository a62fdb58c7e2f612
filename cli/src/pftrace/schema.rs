//! What is known of Perfetto's messages: the numbers, names and kinds of their fields.
//!
//! A field that is missing here is shown by its number.

use super::wire::Raw;

/// A message.
#[derive(Debug)]
pub struct Schema {
    fields: &'static [Field],
}

/// A field: its number, its name, and what it holds.
#[derive(Debug)]
pub struct Field(pub u32, pub &'static str, pub Kind);

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Uint,
    Int,
    Flag,
    /// A number of 64 bits that is shown in hexadecimal; fixed or not.
    Id,
    Double,
    Text,
    Bytes,
    /// A number with names for some values.
    Name(&'static [(u64, &'static str)]),
    Message(&'static Schema),
}

impl Schema {
    pub fn field(&self, number: u32) -> Option<&'static Field> {
        let fields: &'static [Field] = self.fields;
        fields.iter().find(|field| field.0 == number)
    }

    /// Whether a field with this number and this value on the wire can be one of this message.
    pub fn has(&self, number: u32, value: Raw<'_>) -> bool {
        let Some(Field(.., kind)) = self.field(number) else { return false };
        match value {
            Raw::Varint(_) => {
                matches!(kind, Kind::Uint | Kind::Int | Kind::Flag | Kind::Id | Kind::Name(_))
            }
            Raw::Fixed64(_) => matches!(kind, Kind::Id | Kind::Double),
            Raw::Fixed32(_) => false,
            Raw::Bytes(_) => matches!(kind, Kind::Text | Kind::Bytes | Kind::Message(_)),
        }
    }
}

/// Declares messages: each field has its number, its name and its kind.
macro_rules! messages {
    ($($(#[$doc:meta])* $schema:ident { $($number:literal $field:literal $kind:expr,)* })*) => {
        $($(#[$doc])* pub static $schema: Schema = {
            #[allow(unused_imports)]
            use Kind::{Bytes, Double, Flag, Id, Int, Message, Name, Text, Uint};
            Schema { fields: &[$(Field($number, $field, $kind),)*] }
        };)*
    };
}

/// The types of track events.
pub const EVENT_TYPES: &[(u64, &str)] =
    &[(1, "SLICE_BEGIN"), (2, "SLICE_END"), (3, "INSTANT"), (4, "COUNTER"), (5, "STATE")];

messages! {
    /// One packet.
    TRACE_PACKET {
        1 "ftrace_events" Bytes, 2 "process_tree" Bytes, 3 "trusted_uid" Int, 4 "inode_file_map" Bytes,
        5 "chrome_events" Bytes, 6 "clock_snapshot" Message(&CLOCK_SNAPSHOT), 7 "sys_stats" Bytes,
        8 "timestamp" Uint, 9 "process_stats" Bytes, 10 "trusted_packet_sequence_id" Uint,
        11 "track_event" Message(&TRACK_EVENT), 12 "interned_data" Message(&INTERNED_DATA),
        13 "sequence_flags" Uint, 33 "trace_config" Bytes, 34 "ftrace_stats" Bytes, 35 "trace_stats" Bytes,
        36 "synchronization_marker" Bytes, 37 "profile_packet" Message(&PROFILE_PACKET), 38 "battery" Bytes,
        39 "android_log" Bytes, 40 "power_rails" Bytes, 41 "incremental_state_cleared" Flag,
        42 "previous_packet_dropped" Uint, 43 "process_descriptor" Message(&PROCESS_DESCRIPTOR),
        44 "thread_descriptor" Message(&THREAD_DESCRIPTOR), 45 "system_info" Bytes, 46 "trigger" Bytes,
        47 "packages_list" Bytes, 49 "perfetto_metatrace" Bytes, 50 "compressed_packets" Bytes,
        51 "chrome_metadata" Bytes, 54 "streaming_profile_packet" Bytes, 58 "timestamp_clock_id" Uint,
        59 "trace_packet_defaults" Message(&PACKET_DEFAULTS), 60 "track_descriptor" Message(&TRACK_DESCRIPTOR),
        61 "module_symbols" Message(&MODULE_SYMBOLS), 66 "perf_sample" Bytes, 67 "cpu_info" Bytes,
        68 "smaps_packet" Bytes, 69 "service_event" Bytes, 72 "extension_descriptor" Bytes,
        74 "streaming_allocation" Message(&STREAMING_ALLOCATION), 75 "streaming_free" Message(&STREAMING_FREE),
        78 "ui_state" Bytes, 79 "trusted_pid" Int, 87 "first_packet_on_sequence" Flag,
        89 "trace_uuid" Message(&TRACE_UUID), 98 "machine_id" Uint, 107 "remote_clock_sync" Bytes,
        113 "clone_snapshot_trigger" Bytes, 124 "trace_provenance" Bytes, 126 "trace_attributes" Bytes,
        133 "zstd_compressed_packets" Bytes, 135 "stack_sample" Message(&STACK_SAMPLE),
        900 "for_testing" Bytes,
    }
    CLOCK_SNAPSHOT { 1 "clocks" Message(&CLOCK), 2 "primary_trace_clock" Name(CLOCKS), }
    CLOCK { 1 "clock_id" Name(CLOCKS), 2 "timestamp" Uint, 3 "is_incremental" Flag, 4 "unit_multiplier_ns" Uint, }
    TRACE_UUID { 1 "msb" Int, 2 "lsb" Int, }
    PACKET_DEFAULTS {
        11 "track_event_defaults" Message(&EVENT_DEFAULTS), 12 "perf_sample_defaults" Bytes,
        58 "timestamp_clock_id" Name(CLOCKS), 100 "stack_sample_defaults" Bytes,
    }
    EVENT_DEFAULTS { 11 "track_uuid" Id, 31 "extra_counter_track_uuids" Id, 45 "extra_double_counter_track_uuids" Id, }
    TRACK_EVENT {
        3 "category_iids" Uint, 4 "debug_annotations" Message(&DEBUG_ANNOTATION), 9 "type" Name(EVENT_TYPES),
        10 "name_iid" Uint, 11 "track_uuid" Id, 12 "extra_counter_values" Int, 22 "categories" Text,
        23 "name" Text, 30 "counter_value" Int, 31 "extra_counter_track_uuids" Id,
        33 "source_location" Message(&SOURCE_LOCATION), 34 "source_location_iid" Uint,
        36 "flow_ids_old" Id, 42 "terminating_flow_ids_old" Id, 44 "double_counter_value" Double,
        45 "extra_double_counter_track_uuids" Id, 46 "extra_double_counter_values" Double, 47 "flow_ids" Id,
        48 "terminating_flow_ids" Id, 52 "correlation_id" Uint, 53 "correlation_id_str" Text,
        54 "correlation_id_str_iid" Uint, 55 "callstack" Message(&INLINE_CALLSTACK), 56 "callstack_iid" Uint,
        57 "callstack_weight" Double,
    }
    DEBUG_ANNOTATION {
        1 "name_iid" Uint, 2 "bool_value" Flag, 3 "uint_value" Uint, 4 "int_value" Int, 5 "double_value" Double,
        6 "string_value" Text, 7 "pointer_value" Id, 9 "legacy_json_value" Text, 10 "name" Text,
        11 "dict_entries" Message(&DEBUG_ANNOTATION), 12 "array_values" Message(&DEBUG_ANNOTATION),
        13 "proto_type_name_iid" Uint, 14 "proto_value" Bytes, 16 "proto_type_name" Text, 17 "string_value_iid" Uint,
    }
    SOURCE_LOCATION { 1 "iid" Uint, 2 "file_name" Text, 3 "function_name" Text, 4 "line_number" Uint, }
    INLINE_CALLSTACK { 1 "frames" Message(&INLINE_FRAME), }
    INLINE_FRAME { 1 "function_name" Text, 2 "source_file" Text, 3 "line_number" Uint, }
    TRACK_DESCRIPTOR {
        1 "uuid" Id, 2 "name" Text, 3 "process" Message(&PROCESS_DESCRIPTOR), 4 "thread" Message(&THREAD_DESCRIPTOR),
        5 "parent_uuid" Id, 8 "counter" Message(&COUNTER_DESCRIPTOR), 9 "disallow_merging_with_system_tracks" Flag,
        10 "static_name" Text, 11 "child_ordering" Name(&[(1, "LEXICOGRAPHIC"), (2, "CHRONOLOGICAL"), (3, "EXPLICIT")]),
        12 "sibling_order_rank" Int, 13 "atrace_name" Text, 14 "description" Text,
        15 "sibling_merge_behavior" Name(&[(1, "BY_TRACK_NAME"), (2, "NONE"), (3, "BY_SIBLING_MERGE_KEY")]),
        16 "sibling_merge_key" Text, 17 "sibling_merge_key_int" Uint, 18 "state" Message(&STATE_DESCRIPTOR),
        19 "process_ordering" Uint, 20 "thread_ordering" Uint,
    }
    STATE_DESCRIPTOR {}
    PROCESS_DESCRIPTOR {
        1 "pid" Int, 2 "cmdline" Text, 6 "process_name" Text, 7 "start_timestamp_ns" Uint, 8 "process_labels" Text,
    }
    THREAD_DESCRIPTOR { 1 "pid" Int, 2 "tid" Int, 5 "thread_name" Text, }
    COUNTER_DESCRIPTOR {
        1 "type" Uint, 2 "categories" Text, 3 "unit" Name(&[(1, "TIME_NS"), (2, "COUNT"), (3, "SIZE_BYTES")]),
        4 "unit_multiplier" Int, 5 "is_incremental" Flag, 6 "unit_name" Text, 7 "y_axis_share_key" Text,
    }
    INTERNED_DATA {
        1 "event_categories" Message(&INTERNED), 2 "event_names" Message(&INTERNED),
        3 "debug_annotation_names" Message(&INTERNED), 4 "source_locations" Message(&SOURCE_LOCATION),
        5 "function_names" Message(&INTERNED), 6 "frames" Message(&FRAME), 7 "callstacks" Message(&CALLSTACK),
        16 "build_ids" Message(&INTERNED_BYTES), 17 "mapping_paths" Message(&INTERNED),
        18 "source_paths" Message(&INTERNED), 19 "mappings" Message(&MAPPING),
        29 "debug_annotation_string_values" Message(&INTERNED), 43 "correlation_id_str" Message(&INTERNED),
        48 "stack_sample_task_contexts" Bytes, 49 "stack_sample_execution_contexts" Bytes,
        50 "stack_sample_counter_descriptors" Bytes, 51 "stack_sample_async_context_descriptors" Bytes,
    }
    /// A text with a number.
    INTERNED { 1 "iid" Uint, 2 "name" Text, }
    INTERNED_BYTES { 1 "iid" Uint, 2 "str" Bytes, }
    MAPPING {
        1 "iid" Uint, 2 "build_id" Uint, 3 "start_offset" Uint, 4 "start" Id, 5 "end" Id, 6 "load_bias" Uint,
        7 "path_string_ids" Uint, 8 "exact_offset" Uint,
    }
    FRAME {
        1 "iid" Uint, 2 "function_name_id" Uint, 3 "mapping_id" Uint, 4 "rel_pc" Id, 5 "source_path_iid" Uint,
        6 "line_number" Uint, 7 "kind" Uint, 8 "kind_str" Text,
    }
    CALLSTACK { 1 "iid" Uint, 2 "frame_ids" Uint, }
    MODULE_SYMBOLS { 1 "path" Text, 2 "build_id" Bytes, 3 "address_symbols" Message(&ADDRESS_SYMBOLS), }
    ADDRESS_SYMBOLS { 1 "address" Id, 2 "lines" Message(&LINE), }
    LINE { 1 "function_name" Text, 2 "source_file_name" Text, 3 "line_number" Uint, }
    PROFILE_PACKET {
        1 "strings" Message(&INTERNED), 2 "frames" Message(&FRAME), 3 "callstacks" Message(&CALLSTACK),
        4 "mappings" Message(&MAPPING), 5 "process_dumps" Message(&PROCESS_HEAP_SAMPLES), 6 "continued" Flag,
        7 "index" Uint,
    }
    PROCESS_HEAP_SAMPLES {
        1 "pid" Uint, 2 "samples" Message(&HEAP_SAMPLE), 3 "from_startup" Flag, 4 "rejected_concurrent" Flag,
        5 "stats" Bytes, 6 "disconnected" Flag, 7 "buffer_overran" Flag, 8 "buffer_corrupted" Flag,
        9 "timestamp" Uint, 10 "hit_guardrail" Flag, 11 "heap_name" Text, 12 "sampling_interval_bytes" Uint,
        13 "orig_sampling_interval_bytes" Uint, 14 "client_error" Uint, 15 "start_timestamp" Uint,
    }
    HEAP_SAMPLE {
        1 "callstack_id" Uint, 2 "self_allocated" Uint, 3 "self_freed" Uint, 4 "timestamp" Uint,
        5 "alloc_count" Uint, 6 "free_count" Uint, 8 "self_max" Uint, 9 "self_max_count" Uint,
    }
    STREAMING_ALLOCATION {
        1 "address" Id, 2 "size" Uint, 3 "sample_size" Uint, 4 "clock_monotonic_coarse_timestamp" Uint,
        5 "heap_id" Uint, 6 "sequence_number" Uint,
    }
    STREAMING_FREE { 1 "address" Id, 2 "heap_id" Uint, 3 "sequence_number" Uint, }
    STACK_SAMPLE {
        1 "task_context" Bytes, 2 "task_context_iid" Uint, 3 "execution_context" Bytes, 4 "execution_context_iid" Uint,
        5 "callstack" Message(&INLINE_CALLSTACK), 6 "callstack_iid" Uint, 9 "primary_descriptor" Bytes,
        10 "primary_descriptor_iid" Uint, 11 "primary_weight" Uint, 12 "follower_descriptors" Bytes,
        13 "follower_descriptor_iids" Uint, 14 "follower_weights" Uint,
    }
}

/// The clocks that have names.
pub const CLOCKS: &[(u64, &str)] = &[
    (1, "REALTIME"),
    (2, "REALTIME_COARSE"),
    (3, "MONOTONIC"),
    (4, "MONOTONIC_COARSE"),
    (5, "MONOTONIC_RAW"),
    (6, "BOOTTIME"),
    (9, "TSC"),
    (10, "PERF"),
    (11, "TRACE_FILE"),
];
