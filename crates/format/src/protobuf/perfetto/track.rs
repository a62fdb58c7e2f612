//! Descriptors of tracks, and the events on them that have all names in themselves.

use super::{
    counter_descriptor, debug_annotation, process_descriptor, thread_descriptor, track_descriptor,
    track_event,
};
use crate::protobuf::Message;

/// The process, as its descriptor has it.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    pub uuid: u64,
    pub name: String,
    /// The words of its command line, if they are known.
    pub command: Vec<String>,
}

impl Process {
    /// Writes the track of the process.
    pub fn describe(&self, track: &mut Message<'_>) {
        track.uint(track_descriptor::UUID, self.uuid);
        track.nested(track_descriptor::PROCESS, |process| {
            process.uint(process_descriptor::PID, self.pid.into());
            for word in &self.command {
                process.text(process_descriptor::CMDLINE, word);
            }
            process.text(process_descriptor::PROCESS_NAME, &self.name);
        });
    }

    /// Writes the track of a thread.
    pub fn describe_thread(&self, track: &mut Message<'_>, uuid: u64, tid: u32, name: &str) {
        track.uint(track_descriptor::UUID, uuid);
        track.uint(track_descriptor::PARENT_UUID, self.uuid);
        track.nested(track_descriptor::THREAD, |thread| {
            thread.uint(thread_descriptor::PID, self.pid.into());
            thread.uint(thread_descriptor::TID, tid.into());
            if !name.is_empty() {
                thread.text(thread_descriptor::THREAD_NAME, name);
            }
        });
    }
}

/// The fields of a track with a name; `parent` is 0 if there is none around it.
pub fn named(track: &mut Message<'_>, uuid: u64, parent: u64, name: &str) {
    track.uint(track_descriptor::UUID, uuid);
    track.nonzero(track_descriptor::PARENT_UUID, parent);
    track.text(track_descriptor::NAME, name);
}

/// The unit of a counter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit<'a> {
    /// Nanoseconds.
    TimeNs,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// A unit that Perfetto does not know: its name.
    Named(&'a str),
}

/// In which order the tracks in a track are shown. The numbers are those of Perfetto's `ChildTracksOrdering`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildOrder {
    /// By their names.
    Lexicographic = 1,
    /// By the times of their first events.
    Chronological = 2,
    /// By the ranks that they have.
    Explicit = 3,
}

/// What makes a track that of a counter.
pub fn counter(track: &mut Message<'_>, unit: Option<Unit<'_>>) {
    track.nested(track_descriptor::COUNTER, |counter| match unit {
        None => {}
        Some(Unit::TimeNs) => counter.uint(counter_descriptor::UNIT, counter_descriptor::TIME_NS),
        Some(Unit::Count) => counter.uint(counter_descriptor::UNIT, counter_descriptor::COUNT),
        Some(Unit::Bytes) => counter.uint(counter_descriptor::UNIT, counter_descriptor::SIZE_BYTES),
        Some(Unit::Named(name)) => counter.text(counter_descriptor::UNIT_NAME, name),
    });
}

/// Shows a track as one with its siblings of this key.
pub fn merge_by(track: &mut Message<'_>, key: &[u8]) {
    track.uint(track_descriptor::SIBLING_MERGE_BEHAVIOR, track_descriptor::BY_SIBLING_MERGE_KEY);
    track.bytes(track_descriptor::SIBLING_MERGE_KEY, key);
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    Number(u64),
    Flag(bool),
    Text(&'a str),
}

/// The fields of an instant.
pub fn instant(
    event: &mut Message<'_>,
    track: u64,
    name: &str,
    arguments: &[(&str, Argument<'_>)],
) {
    event.uint(track_event::TYPE, track_event::INSTANT);
    event.uint(track_event::TRACK_UUID, track);
    event.text(track_event::NAME, name);
    for (name, value) in arguments {
        event.nested(track_event::DEBUG_ANNOTATIONS, |argument| {
            argument.text(debug_annotation::NAME, name);
            match value {
                Argument::Number(value) => argument.uint(debug_annotation::UINT_VALUE, *value),
                Argument::Flag(value) => argument.flag(debug_annotation::BOOL_VALUE, *value),
                Argument::Text(text) => argument.text(debug_annotation::STRING_VALUE, text),
            }
        });
    }
}
