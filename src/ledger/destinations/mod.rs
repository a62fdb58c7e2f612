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

pub use destination::Destination;
pub(crate) use destination::Target;
#[cfg(tracking)]
pub(super) use handle::{DRAIN_TIMEOUT, all};
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
