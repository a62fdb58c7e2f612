//! Track events: slices, counters, instants and states, written from anywhere in a program, to any
//! number of sessions at once, as Perfetto's packets.
//!
//! ```
//! use memledger::perfetto::{TracingSession, TrackEventConfig};
//! use memledger::{Ledger, instant, slice};
//!
//! memledger::categories! { GAME = "game": "What the game does"; }
//!
//! # let path = std::env::temp_dir().join(format!("memledger-doc-{}.pftrace", std::process::id()));
//! let ledger = Ledger::builder().start()?;
//! let session = TracingSession::to_file(&path, TrackEventConfig::all())?;
//! for frame in 0..3 {
//!     slice!(GAME, "frame", arg("number", frame));
//!     instant!(GAME, "drawn");
//! }
//! session.stop();
//! # assert!(std::fs::metadata(&path).map_or(true, |file| file.len() > 0));
//! # let _ = std::fs::remove_file(path);
//! # Ok::<(), memledger::Error>(())
//! ```
//! [`categories!`](crate::categories) declares categories, [`track_event!`](crate::track_event) and its
//! short forms emit events, a [`TracingSession`] writes those of the categories that it enables.
//! <https://ui.perfetto.dev> shows the files. The guide is [`docs/perfetto.md`].
//!
//! [`docs/perfetto.md`]: https://github.com/memledger/memledger/blob/main/docs/perfetto.md

#[cfg(tracking)]
mod active;
mod category;
#[cfg(tracking)]
mod clock;
mod config;
#[cfg(tracking)]
mod emit;
#[cfg(tracking)]
mod events;
mod macros;
#[cfg(tracking)]
mod memory;
#[cfg(tracking)]
mod output;
#[cfg(tracking)]
mod registered;
#[cfg(tracking)]
mod sequence;
mod site;
#[cfg(feature = "tracing")]
mod spans;
#[cfg(tracking)]
mod trace_config;
mod track;
mod value;
#[cfg(tracking)]
mod writer;

#[cfg(tracking)]
pub(crate) use active::{Active, Notifications, refused};
pub use category::{Category, CategoryChange, DYNAMIC};
pub use config::TrackEventConfig;
#[cfg(tracking)]
pub(crate) use emit::TRACK;
#[cfg(tracking)]
pub(crate) use events::{EVENT_TYPES, SiteEvents};
#[cfg(tracking)]
pub(crate) use memory::MemoryWriter;
#[cfg(tracking)]
pub(crate) use output::{Output, Ring};
pub use site::Slice;
#[doc(hidden)]
pub use site::{EventKind, Role, Site};
#[cfg(feature = "tracing")]
pub use spans::SliceLayer;
#[cfg(tracking)]
pub(crate) use trace_config::SessionConfig;
pub use track::{
    Track, TrackBuilder, counter_track_uuid, named_track_uuid, process_scoped, process_track_uuid,
    state_track_uuid, thread_track_uuid,
};
#[doc(hidden)]
pub use value::Values;
pub use value::{Fixed32, Fixed64, TrackValue, ZigZag};
#[cfg(tracking)]
pub(crate) use writer::{Counts, EventCounter, SessionSetup, SessionWriter};

pub use crate::ledger::{TracingSession, TracingSessionBuilder};
