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

use super::tracker::process_track_uuid;
use memledger_format::protobuf::perfetto;

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

/// A flow's id that no other process has: for [`flow`](crate::perfetto::track_event).
pub fn process_scoped(flow: u64) -> u64 {
    flow ^ process_track_uuid()
}

/// A track that is registered once, and then costs nothing to name.
///
/// ```
/// use memledger::perfetto::{Track, process_track_uuid};
/// memledger::perfetto::categories! { GAME = "game"; }
///
/// let score = Track::counter("score", process_track_uuid()).unit("points").register()?;
/// memledger::perfetto::counter!(GAME, track(score), 42);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Track {
    pub(crate) uuid: u64,
}

/// A track before it is registered.
#[derive(Clone, Copy, Debug)]
#[must_use = "no session knows the track until `register`"]
pub struct TrackBuilder<'a> {
    pub(crate) name: &'a str,
    pub(crate) uuid: u64,
    pub(crate) parent: u64,
    pub(crate) kind: TrackKind,
    pub(crate) unit: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackKind {
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
}
