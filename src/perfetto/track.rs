//! Tracks: the rows of a timeline, to which events belong.
//!
//! A track is known by a uuid of 64 bits, which is derived as Perfetto's C library does:
//!
//! ```text
//! process    FNV-1a of the start of the process and its id
//! thread     process ^ thread id                 named      parent ^ FNV-1a(name) ^ id
//! counter    0xb1a4a67d7970839e ^ parent ^ FNV-1a(name)
//! state      0x9b6c5d2f1e3a47c8 ^ parent ^ FNV-1a(name)
//! ```
//! Exclusive or does not see an order, so different tracks can have one uuid: `a` in `b` has that of `b`
//! in `a`. A session reports this.

#[cfg(tracking)]
use super::registered::{self, MAX_TRACKS};
use crate::error::Error;
#[cfg(tracking)]
use crate::platform::{clock, os};
#[cfg(tracking)]
use crate::trace::write::{state, untracked};
use memledger_format::protobuf::perfetto;
#[cfg(tracking)]
use memledger_format::protobuf::{
    Message,
    perfetto::{track, track_descriptor},
};

/// The uuid of a track with a name: `parent` is the uuid of the track around it, or 0.
pub const fn named_track_uuid(name: &str, id: u64, parent: u64) -> u64 {
    perfetto::named_track_uuid(name, id, parent)
}

/// The uuid of a counter: `parent` is the uuid of the track around it, or 0.
pub const fn counter_track_uuid(name: &str, parent: u64) -> u64 {
    perfetto::counter_track_uuid(name, parent)
}

/// The uuid of a state: `parent` is the uuid of the track around it, or 0.
pub const fn state_track_uuid(name: &str, parent: u64) -> u64 {
    perfetto::state_track_uuid(name, parent)
}

/// The uuid of the track of this process. Costs a system call.
pub fn process_track_uuid() -> u64 {
    #[cfg(tracking)]
    {
        let start = clock::process_start().to_le_bytes();
        let [a, b, c, d] = std::process::id().to_le_bytes();
        let [e, f, g, h, i, j, k, l] = start;
        perfetto::fnv1a(&[e, f, g, h, i, j, k, l, a, b, c, d])
    }
    #[cfg(not(tracking))]
    0
}

/// The uuid of the track of the calling thread. Costs two system calls.
pub fn thread_track_uuid() -> u64 {
    #[cfg(tracking)]
    return process_track_uuid() ^ u64::from(os::thread_id());
    #[cfg(not(tracking))]
    0
}

/// A flow's id that no other process has: for [`flow`](crate::track_event).
pub fn process_scoped(flow: u64) -> u64 {
    flow ^ process_track_uuid()
}

/// A track that is registered once, and then costs nothing to name.
///
/// ```
/// use memledger::perfetto::{Track, process_track_uuid};
/// memledger::categories! { GAME = "game"; }
///
/// let score = Track::counter("score", process_track_uuid()).unit("points").register()?;
/// memledger::counter!(GAME, track(score), 42);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Track {
    uuid: u64,
}

/// A track before it is registered.
#[derive(Clone, Copy, Debug)]
pub struct TrackBuilder<'a> {
    name: &'a str,
    uuid: u64,
    parent: u64,
    kind: TrackKind,
    unit: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrackKind {
    Named,
    Counter,
    State,
}

impl Track {
    /// A track with a name, for slices and instants.
    pub const fn named(name: &str, id: u64, parent: u64) -> TrackBuilder<'_> {
        let uuid = named_track_uuid(name, id, parent);
        TrackBuilder { name, uuid, parent, kind: TrackKind::Named, unit: "" }
    }

    /// A counter.
    pub const fn counter(name: &str, parent: u64) -> TrackBuilder<'_> {
        let uuid = counter_track_uuid(name, parent);
        TrackBuilder { name, uuid, parent, kind: TrackKind::Counter, unit: "" }
    }

    /// A state.
    pub const fn state(name: &str, parent: u64) -> TrackBuilder<'_> {
        let uuid = state_track_uuid(name, parent);
        TrackBuilder { name, uuid, parent, kind: TrackKind::State, unit: "" }
    }

    /// Its uuid, which can be the parent of others.
    pub const fn uuid(self) -> u64 {
        self.uuid
    }
}

impl<'a> TrackBuilder<'a> {
    /// The unit of a counter; `bytes`, `ns` and `count` are those that Perfetto knows.
    pub const fn unit(mut self, unit: &'a str) -> Self {
        self.unit = unit;
        self
    }

    /// Registers it for the rest of the process. Each thread's part of a file that has an event on
    /// it describes the track once.
    ///
    /// # Errors
    /// [`Error::InvalidSession`] if there are 65 536 others. A track that is registered again, with another unit, counts
    /// again.
    pub fn register(self) -> Result<Track, Error> {
        #[cfg(tracking)]
        if !state::is_forked() {
            let is_kept = untracked(|| registered::register(self.uuid, self.descriptor()));
            if !is_kept {
                return Err(Error::InvalidSession(format!(
                    "the track {:?} cannot be registered: there are {MAX_TRACKS} others",
                    self.name
                )));
            }
        }
        #[cfg(not(tracking))]
        let _ = (self.name, self.parent, self.kind, self.unit);
        Ok(Track { uuid: self.uuid })
    }

    /// The fields of its `TrackDescriptor`.
    #[cfg(tracking)]
    fn descriptor(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        track::named(&mut message, self.uuid, self.parent, self.name);
        match self.kind {
            TrackKind::Named => {}
            TrackKind::Counter => track::counter(&mut message, self.unit),
            TrackKind::State => message.nested(track_descriptor::STATE, |_| {}),
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(tracking)]
    #[test]
    fn a_counter_is_described_with_its_unit() {
        let bytes = Track::counter("a", 2).unit("bytes").descriptor();
        let mut expected = vec![0x08];
        let mut uuid = counter_track_uuid("a", 2);
        while uuid >= 0x80 {
            expected.push(uuid as u8 | 0x80);
            uuid >>= 7;
        }
        expected.push(uuid as u8);
        expected.extend([0x28, 2, 0x12, 1, b'a', 0x42, 2, 0x18, 3]);
        assert_eq!(bytes, expected);
    }
}
