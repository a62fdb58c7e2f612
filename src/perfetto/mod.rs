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
//! [`categories!`](crate::perfetto::categories) declares categories, [`track_event!`](crate::perfetto::track_event) and its
//! short forms emit events, a session ([`Destination::track_events`](crate::Destination::track_events)) writes those of
//! the categories that it enables.
//! <https://ui.perfetto.dev> shows the files. The guide is [`docs/perfetto.md`].
//!
//! [`docs/perfetto.md`]: https://github.com/memledger/memledger/blob/main/docs/perfetto.md

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
    TRACK, parse_trace_config, refused,
};
pub use value::{Fixed32, Fixed64, TrackValue, ZigZag};
#[doc(hidden)]
pub use value::{Values, many_values, value};
