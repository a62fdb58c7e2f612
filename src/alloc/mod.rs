//! The allocator that records each call of the program.

pub(crate) mod append;
mod below;
pub(crate) mod events;
pub(crate) mod hook;
pub(crate) mod linked;
#[cfg(c_malloc)]
pub(crate) mod own_blocks;
pub(crate) mod record;
pub(crate) mod stats;
mod tracker;
mod tracking_allocator;

pub(crate) use events::CHANNEL;
pub use tracking_allocator::TrackingAllocator;
