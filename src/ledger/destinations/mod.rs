//! Where the trace goes: what a program asks for, and what becomes of it while the recording runs.

#[cfg(feature = "enable")]
pub(super) mod add;
mod destination;
#[cfg(feature = "enable")]
pub(super) mod filter;
mod handle;
#[cfg(feature = "enable")]
pub(super) mod initial;
#[cfg(feature = "enable")]
pub(super) mod restart;

pub use destination::Destination;
pub(crate) use destination::{Target, To};
#[cfg(feature = "enable")]
pub(super) use handle::{DRAIN_TIMEOUT, all};
pub use handle::{DestinationHandle, DestinationState, DestinationStatus};
