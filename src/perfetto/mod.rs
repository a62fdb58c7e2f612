//! Track events: slices, counters, instants and states, written from anywhere in a program, to any
//! number of sessions at once, as Perfetto's packets.
//!
//! ```
//! use memledger::perfetto::TrackEventConfig;
//! use memledger::perfetto::{instant, slice};
//! use memledger::{Destination, Ledger};
//!
//! memledger::perfetto::categories! { GAME = "game": "What the game does"; }
//!
//! # let path = std::env::temp_dir().join(format!("memledger-doc-{}.pftrace", std::process::id()));
//! let ledger = Ledger::builder().start()?;
//! let session = ledger.trace_to(Destination::track_events(&path, TrackEventConfig::all()))?;
//! for frame in 0..3 {
//!     slice!(GAME, "frame", arg("number", frame));
//!     instant!(GAME, "drawn");
//! }
//! session.stop();
//! # assert!(std::fs::metadata(&path).map_or(true, |file| file.len() > 0));
//! # let _ = std::fs::remove_file(path);
//! # Ok::<(), memledger::Error>(())
//! ```
//! [`categories!`](crate::perfetto::categories) declares categories,
//! [`track_event!`](crate::perfetto::track_event) and its short forms emit events, a session
//! ([`Destination::track_events`](crate::Destination::track_events)) writes those of the categories that it
//! enables.
//! <https://ui.perfetto.dev> shows the files. The guide is [`docs/events.md`].
//!
//! # From Perfetto's C and C++ libraries
//! | Perfetto | here |
//! |---|---|
//! | `PERFETTO_TE_CATEGORIES_DEFINE(C(cat, "name", "about", "tag"))` | `categories! { CAT = "name": "about" ["tag"]; }`, in any module |
//! | `PERFETTO_TE(cat, PERFETTO_TE_SLICE_BEGIN("n"), ..)`, `TRACE_EVENT_BEGIN` | `track_event!(CAT, slice_begin("n"), ..)` |
//! | `PERFETTO_TE_SLICE_END()` | `track_event!(CAT, slice_end())` |
//! | `PERFETTO_TE_SCOPED(cat, PERFETTO_TE_SLICE("n"))`, `TRACE_EVENT` | `slice!(CAT, "n", ..)` |
//! | `PERFETTO_TE_INSTANT("n")` | `instant!(CAT, "n", ..)` |
//! | `PERFETTO_TE_COUNTER()`, `TRACE_COUNTER` | `counter!(CAT, track(t), value)` |
//! | `PERFETTO_TE_STATE("v")` | `state!(CAT, track(t), "v")`; `""` clears |
//! | `PERFETTO_TE_ARG_UINT64("n", v)` and its siblings | `arg("n", v)`, by the type of `v` |
//! | `REGISTERED_TRACK(&t)` | `track(t)`, of `Track::named`, `counter` or `state` and `.register()`; the process is the parent unless `.parent(track)` is called |
//! | `PerfettoTeProcessTrackUuid()`, `PerfettoTeThreadTrackUuid(tid)`, `PerfettoTeGlobalTrackUuid()` | `Track::process()`, `Track::thread()`, `Track::global()`; `Track::from_uuid(uuid)` for any other |
//! | `NAMED_TRACK("n", id, parent)` | `named_track("n", id, parent)` |
//! | `PROTO_TRACK(uuid, ..)` | `proto_track(uuid, [field(..), ..])` |
//! | `NESTED_TRACKS(NAMED("a", 1), THREAD(), ..)` | `nested_tracks[named("a", 1), thread, ..]` |
//! | `NAMED_ORDERED`, `NAMED_MERGED` | `named("a", 1, [child_order(ChildOrder::Explicit), order(3)])`, `named("a", 1, [merge_by("key")])`; of a registered track `.child_order(..)`, `.order(3)`, `.merge_by("key")` |
//! | `TIMESTAMP(ts)` | `timestamp(clock, time)` |
//! | `PERFETTO_TE_DYNAMIC_CATEGORY`, `DYNAMIC_CATEGORY_STRING(s)` | category `DYNAMIC` and `category(s)` |
//! | `FLOW`, `TERMINATING_FLOW`, `ProcessScopedFlow(id)`, `GlobalFlow(id)` | `flow(f)`, `terminating_flow(f)`, `FlowId::process_scoped(id)`, `FlowId::global(id)` |
//! | `CORRELATION_ID`, `CORRELATION_ID_STR` | `correlation(id)`, of a number or a text |
//! | `PROTO_FIELDS(VARINT(1, v), NESTED(2, ..), CSTR_INTERNED(..))` | `field(1, v)`, `message(2, [..])`, `interned(field, list, "text")`; `ZigZag`, `Fixed64`, `Fixed32` |
//! | `NO_INTERN()`, `FLUSH()` | `no_intern`, `flush` |
//! | `PerfettoTeRegisterCategories`, callbacks | at the first use; `CATEGORY.on_change(..)` |
//!
//! Uuids of tracks are derived as in the C library, so files of both agree. That derivation does not see an
//! order (`a` in `b` has the uuid of `b` in `a`); two different tracks with one uuid are reported once, by
//! name. The rules for categories are those of the C library; the C++ library has others.
//!
//! [`docs/events.md`]: https://github.com/memledger/memledger/blob/main/docs/events.md

mod category;
mod config;
mod macros;
mod site;
#[cfg(feature = "tracing")]
mod spans;
mod track;
#[cfg(tracking)]
mod tracker;
#[cfg(not(tracking))]
#[path = "../disabled/perfetto/tracker/mod.rs"]
mod tracker;
mod value;

#[doc(inline)]
pub use crate::{
    __perfetto_categories as categories, __perfetto_counter as counter,
    __perfetto_instant as instant, __perfetto_slice as slice, __perfetto_state as state,
    __perfetto_track_event as track_event,
};
pub use category::{Category, CategoryChange, DYNAMIC};
pub use config::{TrackEventConfig, TrackEvents};
pub use memledger_format::protobuf::perfetto::track::{ChildOrder, Unit};
pub use site::Slice;
#[doc(hidden)]
pub use site::{EventKind, Role, Site};
#[cfg(feature = "tracing")]
pub use spans::SliceLayer;
pub use track::{FlowId, Track, TrackBuilder};
#[cfg(tracking)]
pub(crate) use tracker::{
    EVENT_TYPES, EventCounter, MemoryWriter, Output, Ring, Session, SessionWriter, SiteEvents,
    TRACK, refused,
};
pub use value::{Fixed32, Fixed64, TrackValue, ZigZag};
#[doc(hidden)]
pub use value::{Values, many_values, value};
