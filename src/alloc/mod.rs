//! The allocator that records each call of the program.

pub(crate) mod append;
mod below;
#[cfg(redirects)]
#[doc(hidden)]
pub mod c_dlopen;
#[cfg(redirects)]
#[doc(hidden)]
pub mod c_dlsym;
#[cfg(feature = "c-malloc")]
#[doc(hidden)]
pub mod c_malloc;
#[cfg(feature = "c-malloc")]
#[doc(hidden)]
pub mod c_mmap;
#[cfg(c_mmap)]
mod c_threads;
pub(crate) mod events;
pub(crate) mod hook;
pub(crate) mod linked;
pub(crate) mod others;
#[cfg(c_malloc)]
mod own_blocks;
mod record;
#[cfg(redirects)]
pub(crate) mod redirected;
// The library of `preload/`, which alone needs these, has no tests.
#[cfg(any(redirects, test))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod roles;
#[cfg(any(redirects, test))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod sizes;
pub(crate) mod stats;
mod tracker;
mod tracking_allocator;

pub(crate) use events::CHANNEL;
pub use tracking_allocator::TrackingAllocator;
