//! The tracks of a trace and their numbers.
//!
//! A number is derived from names as Perfetto's own writers derive it, so the same program has the same
//! numbers in each trace. They can collide; then one is taken that is free.

use super::slices::ThreadTrack;
use memledger_document::{Report, ThreadRow};
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::sequence::Sequence;
use memledger_format::protobuf::perfetto::track::{self, Process, Unit};
use memledger_format::protobuf::perfetto::{
    counter_track_uuid, fnv1a, named_track_uuid, packet, track_event,
};
use std::collections::HashSet;

/// Writes the descriptors of tracks.
#[derive(Debug)]
pub(super) struct Tracks {
    pub(super) process: Process,
    used: HashSet<u64>,
    /// All that were written, but for those of threads.
    descriptors: Vec<Vec<u8>>,
}

impl Tracks {
    /// Writes the track of the process of a report.
    pub(super) fn new(report: &Report, sequence: &mut Sequence, out: &mut Vec<u8>) -> Self {
        let name = report.trace.program.clone().unwrap_or_else(|| "unknown program".to_owned());
        // NOTE: process 0 is the idle one.
        let pid = report.trace.pid.filter(|pid| *pid > 0).unwrap_or(1);
        let uuid = fnv1a(name.as_bytes()) ^ fnv1a(b"memledger") ^ u64::from(pid);
        Self::of_process(Process { pid, uuid, name, command: Vec::new() }, sequence, out)
    }

    /// Writes the track of a process.
    pub(super) fn of_process(process: Process, sequence: &mut Sequence, out: &mut Vec<u8>) -> Self {
        let used = HashSet::from([0, process.uuid]);
        let mut descriptor = Vec::new();
        process.describe(&mut Message::new(&mut descriptor));
        let mut tracks = Self { process, used, descriptors: Vec::new() };
        tracks.write(descriptor, sequence, out);
        tracks
    }

    pub(super) fn thread(&mut self, row: &ThreadRow) -> ThreadTrack {
        let tid = row.system_id.unwrap_or(row.id);
        let uuid = self.unused(self.process.uuid ^ u64::from(tid));
        let mut descriptor = Vec::new();
        self.process.describe_thread(&mut Message::new(&mut descriptor), uuid, tid, &row.name);
        ThreadTrack { uuid, descriptors: vec![descriptor] }
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
        let mut descriptor = Vec::new();
        track::named(&mut Message::new(&mut descriptor), uuid, parent, name);
        self.write(descriptor, sequence, out);
        uuid
    }

    /// Writes the track of a counter of `count` or `bytes`.
    pub(super) fn counter(
        &mut self,
        name: &str,
        unit: Unit<'_>,
        parent: u64,
        sequence: &mut Sequence,
        out: &mut Vec<u8>,
    ) -> u64 {
        let uuid = self.unused(counter_track_uuid(name, parent));
        let mut descriptor = Vec::new();
        let message = &mut Message::new(&mut descriptor);
        track::named(message, uuid, parent, name);
        track::counter(message, Some(unit));
        self.write(descriptor, sequence, out);
        uuid
    }

    fn write(&mut self, descriptor: Vec<u8>, sequence: &Sequence, out: &mut Vec<u8>) {
        sequence.timeless(out, |packet| packet.bytes(packet::TRACK_DESCRIPTOR, &descriptor));
        self.descriptors.push(descriptor);
    }

    /// Writes all tracks again.
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

/// Writes a point of the counter of a track.
pub(super) fn point(
    sequence: &mut Sequence,
    at_ns: u64,
    track: u64,
    value: i64,
    out: &mut Vec<u8>,
) {
    sequence.packet(out, at_ns, |packet| {
        packet.nested(packet::TRACK_EVENT, |event| {
            event.uint(track_event::TYPE, track_event::COUNTER);
            event.uint(track_event::TRACK_UUID, track);
            event.int(track_event::COUNTER_VALUE, value);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_whose_numbers_collide_get_others() {
        let (mut sequence, mut out) = (Sequence::new(1), Vec::new());
        let mut tracks = Tracks::new(&Report::default(), &mut sequence, &mut out);
        let process = tracks.process.uuid;
        let mut named =
            |name: &str, parent: u64| tracks.named(name, parent, &mut sequence, &mut out);
        let (a, b) = (named("a", process), named("b", process));
        // The hashes of names are combined by XOR: a/b is b/a.
        assert_eq!(a ^ fnv1a(b"b"), b ^ fnv1a(b"a"));
        let all = HashSet::from([process, a, b, named("b", a), named("a", b), named("a", process)]);
        assert_eq!(all.len(), 6);
    }
}
