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

use memledger_format::protobuf::perfetto::track::{ChildOrder, Unit};
use memledger_format::protobuf::perfetto::{
    counter_track_uuid, named_track_uuid, state_track_uuid,
};

/// A track of the timeline: that of the process or of a thread, or one that is registered once and then costs
/// nothing to name.
///
/// ```
/// use memledger::perfetto::{Track, Unit, counter, instant};
/// memledger::perfetto::categories! { GAME = "game"; }
///
/// let score = Track::counter("score").unit(Unit::Named("points")).register()?;
/// counter!(GAME, track(score), 42);
///
/// for track in [Track::process(), Track::thread(), Track::global(), Track::from_uuid(77)] {
///     instant!(GAME, "tick", track(track));
/// }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Track {
    pub(crate) uuid: u64,
}

/// The id of a flow, which is an arrow from event to event: for `flow` and `terminating_flow` of
/// [`track_event!`](crate::perfetto::track_event).
///
/// ```
/// use memledger::perfetto::{FlowId, instant};
/// memledger::perfetto::categories! { GAME = "game"; }
///
/// let job = FlowId::process_scoped(7);
/// instant!(GAME, "sent", flow(job));
/// instant!(GAME, "received", terminating_flow(job));
/// // The two processes agree on the number.
/// instant!(GAME, "asked", flow(FlowId::global(8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// An id that no other process has. Costs a system call. [`FlowId`] has an example.
    pub fn process_scoped(id: u64) -> Self {
        Self(id ^ Track::process().uuid)
    }

    /// An id that other processes can share, for a flow from one process to another.
    /// [`FlowId`] has an example.
    pub const fn global(id: u64) -> Self {
        Self(id)
    }

    /// The number in the file.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A track before it is registered. Without [`parent`](Self::parent), the process is around it.
///
/// ```
/// use memledger::perfetto::{ChildOrder, Track};
///
/// let stages = Track::named("stages", 0).child_order(ChildOrder::Explicit).register()?;
/// let second = Track::named("draw", 0).parent(stages).order(2).register()?;
/// let first = Track::named("simulate", 0).parent(stages).order(1).register()?;
/// # assert!(cfg!(not(feature = "enable")) || first != second);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "no session knows the track until `register`"]
pub struct TrackBuilder<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: TrackKind<'a>,
    pub(crate) parent: Option<Track>,
    pub(crate) order: i32,
    pub(crate) child_order: Option<ChildOrder>,
    pub(crate) merge_key: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TrackKind<'a> {
    /// With an id.
    Named(u64),
    Counter(Option<Unit<'a>>),
    State,
}

impl Track {
    /// The track around all others, which belongs to no process. Its uuid is 0. [`Track`] has an example.
    pub const fn global() -> Self {
        Self { uuid: 0 }
    }

    /// A track of the file with this uuid, for example that of a `proto_track`. No event describes it.
    ///
    /// ```
    /// use memledger::perfetto::{Track, track_event};
    /// memledger::perfetto::categories! { GAME = "game"; }
    ///
    /// // Field 2 of a `TrackDescriptor` is its name.
    /// track_event!(GAME, instant("begun"), proto_track(77, [field(2, "jobs")]));
    /// track_event!(GAME, instant("done"), track(Track::from_uuid(77)));
    /// ```
    pub const fn from_uuid(uuid: u64) -> Self {
        Self { uuid }
    }

    /// A track for slices and instants. Tracks of one name have different ids.
    ///
    /// ```
    /// use memledger::perfetto::{Track, instant};
    /// memledger::perfetto::categories! { GAME = "game"; }
    ///
    /// let front = Track::named("door", 1).register()?;
    /// let back = Track::named("door", 2).register()?;
    /// instant!(GAME, "opened", track(back));
    /// assert_ne!(front, back);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub const fn named(name: &str, id: u64) -> TrackBuilder<'_> {
        TrackBuilder::new(name, TrackKind::Named(id))
    }

    /// A counter. [`counter!`](crate::perfetto::counter) has an example.
    pub const fn counter(name: &str) -> TrackBuilder<'_> {
        TrackBuilder::new(name, TrackKind::Counter(None))
    }

    /// A state. [`state!`](crate::perfetto::state) has an example.
    pub const fn state(name: &str) -> TrackBuilder<'_> {
        TrackBuilder::new(name, TrackKind::State)
    }

    /// Its uuid in the file.
    pub const fn uuid(self) -> u64 {
        self.uuid
    }
}

impl<'a> TrackBuilder<'a> {
    const fn new(name: &'a str, kind: TrackKind<'a>) -> Self {
        Self { name, kind, parent: None, order: 0, child_order: None, merge_key: None }
    }

    /// The track around it. [`TrackBuilder`] has an example.
    pub const fn parent(mut self, track: Track) -> Self {
        self.parent = Some(track);
        self
    }

    /// The unit of a counter; other tracks have none. [`Track`] has an example.
    pub const fn unit(mut self, unit: Unit<'a>) -> Self {
        if let TrackKind::Counter(counted) = &mut self.kind {
            *counted = Some(unit);
        }
        self
    }

    /// Its rank among its siblings, the lowest first, if the parent has [`ChildOrder::Explicit`]. Default: 0.
    /// [`TrackBuilder`] has an example.
    pub const fn order(mut self, rank: i32) -> Self {
        self.order = rank;
        self
    }

    /// In which order the tracks in it are shown. Default: the viewer decides.
    /// [`TrackBuilder`] has an example.
    pub const fn child_order(mut self, order: ChildOrder) -> Self {
        self.child_order = Some(order);
        self
    }

    /// Shows it as one with the siblings that have the same key. Default: with those of the same name.
    ///
    /// ```
    /// use memledger::perfetto::Track;
    ///
    /// // One row, although their names differ.
    /// let build = Track::named("build 7", 7).merge_by("builds").register()?;
    /// let other = Track::named("build 8", 8).merge_by("builds").register()?;
    /// # let _ = (build, other);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub const fn merge_by(mut self, key: &'a str) -> Self {
        self.merge_key = Some(key);
        self
    }

    /// The uuids of the track, and of the one around it.
    pub(crate) fn uuids(&self) -> (u64, u64) {
        let parent = self.parent.unwrap_or_else(Track::process).uuid;
        let uuid = match self.kind {
            TrackKind::Named(id) => named_track_uuid(self.name, id, parent),
            TrackKind::Counter(_) => counter_track_uuid(self.name, parent),
            TrackKind::State => state_track_uuid(self.name, parent),
        };
        (uuid, parent)
    }
}
