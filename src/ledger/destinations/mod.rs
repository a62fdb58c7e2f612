//! Where the trace goes: the destinations that a program sets, and their state while the recording
//! runs.

#[cfg(tracking)]
pub(super) mod add;
mod destination;
mod handle;
#[cfg_attr(not(tracking), path = "../../disabled/ledger/destinations/running.rs")]
pub(super) mod running;
#[cfg(tracking)]
#[cfg_attr(not(feature = "perfetto"), path = "../../disabled/ledger/destinations/session/mod.rs")]
pub(super) mod session;
#[cfg(feature = "perfetto")]
mod track_events;

pub use destination::Destination;
pub(super) use destination::Target;
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
