//! Where the trace goes: the destinations that a program sets, and their state while the recording
//! runs.

#[cfg(feature = "enable")]
pub(super) mod add;
mod destination;
mod handle;
#[cfg(feature = "enable")]
pub(super) mod initial;
#[cfg(feature = "enable")]
pub(super) mod restart;

pub use destination::Destination;
pub(crate) use destination::Target;
#[cfg(feature = "enable")]
pub(super) use handle::{DRAIN_TIMEOUT, all};
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
