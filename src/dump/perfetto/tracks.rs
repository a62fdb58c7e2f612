//! The tracks of a trace and their numbers.
//!
//! A number is derived from names as Perfetto's own writers derive it, so the same program has the same
//! numbers in each trace. They can collide; then one is taken that is free.

use super::sequence::Sequence;
use super::slices::ThreadTrack;
use crate::analysis::{Report, ThreadRow};
use crate::protobuf::Message;
use crate::protobuf::perfetto::{
    counter_descriptor, counter_track_uuid, fnv1a, named_track_uuid, packet, process_descriptor,
    thread_descriptor, track_descriptor,
};
use std::collections::HashSet;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Bytes,
}

/// Writes the descriptors of tracks.
#[derive(Debug)]
pub(super) struct Tracks {
    pub(super) pid: u64,
    pub(super) process: u64,
    used: HashSet<u64>,
    /// All that were written, but for those of threads.
    descriptors: Vec<Vec<u8>>,
}

impl Tracks {
    /// Writes the track of the process of a report.
    pub(super) fn new(report: &Report, sequence: &mut Sequence, out: &mut Vec<u8>) -> Self {
        let name = report.trace.program.as_deref().unwrap_or("unknown program");
        // NOTE: process 0 is the idle one.
        let pid = report.trace.pid.filter(|pid| *pid > 0).unwrap_or(1).into();
        let process = fnv1a(name.as_bytes()) ^ fnv1a(b"memledger") ^ pid;
        Self::of_process(process, pid, name, sequence, out)
    }

    /// Writes the track of a process.
    pub(super) fn of_process(
        process: u64,
        pid: u64,
        name: &str,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) -> Self {
        let used = HashSet::from([0, process]);
        let mut tracks = Self { pid, process, used, descriptors: Vec::new() };
        tracks.write(sequence, out, |track| {
            track.uint(track_descriptor::UUID, process);
            track.nested(track_descriptor::PROCESS, |descriptor| {
                descriptor.uint(process_descriptor::PID, pid);
                descriptor.text(process_descriptor::PROCESS_NAME, name);
            });
        });
        tracks
    }

    /// The track of a thread.
    pub(super) fn thread(&mut self, row: &ThreadRow) -> ThreadTrack {
        let tid = u64::from(row.system_id.unwrap_or(row.id));
        let uuid = self.unused(self.process ^ tid);
        ThreadTrack { uuid, descriptors: vec![self.thread_descriptor(uuid, tid, &row.name)] }
    }

    /// The descriptor of the track of a thread.
    pub(super) fn thread_descriptor(&self, uuid: u64, tid: u64, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut track = Message::new(&mut bytes);
        track.uint(track_descriptor::UUID, uuid);
        track.uint(track_descriptor::PARENT_UUID, self.process);
        track.nested(track_descriptor::THREAD, |descriptor| {
            descriptor.uint(thread_descriptor::PID, self.pid);
            descriptor.uint(thread_descriptor::TID, tid);
            if !name.is_empty() {
                descriptor.text(thread_descriptor::THREAD_NAME, name);
            }
        });
        bytes
    }

    /// Writes a track with a name, below another one.
    pub(super) fn named(
        &mut self,
        name: &str,
        parent: u64,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) -> u64 {
        let uuid = self.unused(named_track_uuid(name, 0, parent));
        self.write(sequence, out, |track| named(track, uuid, parent, name));
        uuid
    }

    /// Writes the track of a counter.
    pub(super) fn counter(
        &mut self,
        name: &str,
        unit: Unit,
        parent: u64,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) -> u64 {
        let uuid = self.unused(counter_track_uuid(name, parent));
        let unit = match unit {
            Unit::Count => counter_descriptor::COUNT,
            Unit::Bytes => counter_descriptor::SIZE_BYTES,
        };
        self.write(sequence, out, |track| {
            named(track, uuid, parent, name);
            track.nested(track_descriptor::COUNTER, |counter| {
                counter.uint(counter_descriptor::UNIT, unit);
            });
        });
        uuid
    }

    fn write(
        &mut self,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Message<'_>),
    ) {
        let mut descriptor = Vec::new();
        write(&mut Message::new(&mut descriptor));
        sequence.timeless(out, |packet| packet.bytes(packet::TRACK_DESCRIPTOR, &descriptor));
        self.descriptors.push(descriptor);
    }

    /// Writes all tracks again.
    #[cfg(all(tracking, feature = "perfetto"))]
    pub(super) fn again(&self, sequence: &Sequence, out: &mut Vec<u8>) {
        for descriptor in &self.descriptors {
            sequence.timeless(out, |packet| packet.bytes(packet::TRACK_DESCRIPTOR, descriptor));
        }
    }

    /// This number, or the next one that no track has.
    fn unused(&mut self, uuid: u64) -> u64 {
        let mut uuid = uuid;
        while !self.used.insert(uuid) {
            uuid = uuid.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        uuid
    }
}

/// The fields of a track with a name.
pub(super) fn named(track: &mut Message<'_>, uuid: u64, parent: u64, name: &str) {
    track.uint(track_descriptor::UUID, uuid);
    track.uint(track_descriptor::PARENT_UUID, parent);
    track.text(track_descriptor::NAME, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_whose_numbers_collide_get_others() {
        let (mut sequence, mut out) = (Sequence::new(1), Vec::new());
        let mut tracks = Tracks::new(&Report::default(), &mut sequence, &mut out);
        let process = tracks.process;
        let mut named =
            |name: &str, parent: u64| tracks.named(name, parent, &mut sequence, &mut out);
        let (a, b) = (named("a", process), named("b", process));
        // The hashes of names are combined by XOR: a/b is b/a.
        assert_eq!(a ^ fnv1a(b"b"), b ^ fnv1a(b"a"));
        let all = HashSet::from([process, a, b, named("b", a), named("a", b), named("a", process)]);
        assert_eq!(all.len(), 6);
    }
}
