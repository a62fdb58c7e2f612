//! The allocator, which without a tracker only calls the one below it.

#[path = "../../alloc/below.rs"]
mod below;
#[cfg(feature = "c-malloc")]
#[doc(hidden)]
#[path = "../../alloc/c_malloc.rs"]
pub mod c_malloc;
#[cfg(feature = "c-malloc")]
#[doc(hidden)]
#[path = "../../alloc/c_mmap.rs"]
pub mod c_mmap;
mod tracker;
#[path = "../../alloc/tracking_allocator.rs"]
mod tracking_allocator;

pub use tracking_allocator::TrackingAllocator;
