//! The values of Unreal's memory tags.

/// One tag of Unreal's low-level memory tracker (LLM), in one of its trackers, with the values that the
/// engine wrote. Nothing here is a sum of blocks: the engine counts, and a trace can have these values
/// without a single allocation. Whether the value of a tag includes those of the tags inside it is the
/// engine's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlmTagRow {
    /// The name of the tracker: `Default` counts what the engine allocates, `Platform` what the system gives.
    pub tracker: String,
    /// The names of the tags from the outermost inwards; at most 64.
    pub path: Vec<String>,
    /// How many values the trace has.
    pub samples: u64,
    /// The first of them.
    pub first: LlmValue,
    /// The last of them, up to the moment of the report.
    pub last: LlmValue,
    /// The smallest.
    pub min: LlmValue,
    /// The largest.
    pub peak: LlmValue,
    /// How the value went: at most 65 points.
    pub series: LlmTagSeries,
}

/// The value of a tag at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlmValue {
    /// Nanoseconds since the trace began.
    pub at_ns: u64,
    /// Bytes. An engine can count below 0: memory that is freed under another tag than it was allocated.
    pub bytes: i64,
}

/// Points of a tag's values, in their order. Each is the largest of some consecutive values, with its
/// time; the last is the last value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlmTagSeries {
    /// When each was counted, in nanoseconds since the trace began.
    pub at_ns: Vec<u64>,
    /// The bytes of each.
    pub bytes: Vec<i64>,
}
