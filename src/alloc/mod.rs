//! The allocator that records each call of the program.

#[cfg(tracking)]
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
#[cfg(tracking)]
pub(crate) mod events;
#[cfg(tracking)]
pub(crate) mod hook;
#[cfg(tracking)]
pub(crate) mod linked;
#[cfg(other_allocators)]
pub(crate) mod others;
#[cfg(c_malloc)]
mod own_blocks;
#[cfg(tracking)]
mod record;
#[cfg(redirects)]
pub(crate) mod redirected;
// The library of `preload/`, which alone needs these, has no tests.
#[cfg(any(redirects, all(test, tracking)))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod roles;
#[cfg(any(redirects, all(test, tracking)))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod sizes;
#[cfg(tracking)]
pub(crate) mod stats;
mod tracker;

#[cfg(tracking)]
pub(crate) use events::CHANNEL;
pub use tracker::TrackingAllocator;
