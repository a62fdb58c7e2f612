//! The allocator that records: every call of the program passes through here.

#[cfg(feature = "enable")]
pub(crate) mod events;
#[cfg(feature = "enable")]
pub(crate) mod hook;
#[cfg(feature = "enable")]
pub(crate) mod linked;
#[cfg(feature = "enable")]
pub(crate) mod stats;
mod tracker;

#[cfg(feature = "enable")]
pub(crate) use events::CHANNEL;
pub use tracker::TrackingAllocator;
