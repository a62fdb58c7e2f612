//! Destinations in a program without the tracker: there are none.

#[path = "../../../ledger/destinations/destination.rs"]
mod destination;
#[path = "../../../ledger/destinations/handle.rs"]
mod handle;
mod running;
#[cfg(feature = "perfetto")]
#[path = "../../../ledger/destinations/track_events.rs"]
mod track_events;

pub use destination::Destination;
pub(crate) use destination::Target;
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
