//! The allocator that records each call of the program.

#[cfg(feature = "enable")]
pub(crate) mod append;
mod below;
#[cfg(redirects)]
#[doc(hidden)]
pub mod c_dlopen;
#[cfg(feature = "c-malloc")]
#[doc(hidden)]
pub mod c_malloc;
#[cfg(feature = "c-malloc")]
#[doc(hidden)]
pub mod c_mmap;
#[cfg(c_mmap)]
mod c_threads;
#[cfg(feature = "enable")]
pub(crate) mod events;
#[cfg(feature = "enable")]
pub(crate) mod hook;
#[cfg(feature = "enable")]
pub(crate) mod linked;
#[cfg(other_allocators)]
pub(crate) mod others;
#[cfg(c_malloc)]
mod own_blocks;
#[cfg(feature = "enable")]
mod record;
#[cfg(redirects)]
pub(crate) mod redirected;
// The library of `preload/`, which alone needs these, has no tests.
#[cfg(any(redirects, all(test, feature = "enable")))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod roles;
#[cfg(any(redirects, all(test, feature = "enable")))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod sizes;
#[cfg(feature = "enable")]
pub(crate) mod stats;
mod tracker;

#[cfg(feature = "enable")]
pub(crate) use events::CHANNEL;
pub use tracker::TrackingAllocator;
