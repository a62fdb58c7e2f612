//! Where the trace goes: the destinations that a program sets, and their state while the recording
//! runs.

pub(super) mod add;
mod destination;
mod handle;
pub(super) mod initial;
pub(super) mod restart;
pub(super) mod running;
#[cfg_attr(not(feature = "perfetto"), path = "../../disabled/ledger/destinations/session.rs")]
pub(super) mod session;
#[cfg(feature = "perfetto")]
mod track_events;

pub use destination::Destination;
pub(crate) use destination::Target;
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
