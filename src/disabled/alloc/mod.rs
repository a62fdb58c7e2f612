//! The allocator, which without a tracker only calls the one below it.

#[path = "../../alloc/below.rs"]
mod below;
mod tracker;
#[path = "../../alloc/tracking_allocator.rs"]
mod tracking_allocator;

pub use tracking_allocator::TrackingAllocator;
