//! What only a program with the tracker has: from an event to the buffer of its thread, and on the thread of
//! each session from there to Perfetto's packets. A build without the tracker has
//! `src/disabled/perfetto/tracker/` instead.

mod active;
mod clock;
mod emit;
mod events;
mod memory;
mod output;
mod process;
mod registered;
mod sequence;
mod session;
mod writer;

pub(crate) use active::{TRACK, refused};
pub(crate) use events::{EVENT_TYPES, SiteEvents};
pub(crate) use memory::MemoryWriter;
pub(crate) use output::{Output, Ring};
pub(crate) use session::Session;
pub(crate) use writer::{EventCounter, SessionWriter};
