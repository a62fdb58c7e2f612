//! Where the trace goes: the destinations that a program sets, and their state while the recording
//! runs.

#[cfg(tracking)]
pub(super) mod add;
mod destination;
mod handle;
#[cfg(tracking)]
pub(super) mod initial;
#[cfg(tracking)]
pub(super) mod restart;
#[cfg(tracking)]
pub(super) mod running;
#[cfg(not(tracking))]
#[path = "../../disabled/destinations.rs"]
mod running;
#[cfg(all(tracking, feature = "perfetto"))]
pub(super) mod session;
#[cfg(feature = "perfetto")]
mod track_events;

pub use destination::Destination;
pub(crate) use destination::Target;
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
