//! The functions of C, and of other allocators, that lead to the hook in place of the next library's.
#![doc(hidden)]

#[cfg(redirects)]
pub mod c_dlopen;
#[cfg(redirects)]
pub mod c_dlsym;
#[cfg(feature = "c-malloc")]
pub mod c_malloc;
#[cfg(feature = "c-malloc")]
pub mod c_mmap;
#[cfg(c_mmap)]
mod c_threads;
#[cfg(tracking)]
pub(crate) mod others;
#[cfg(redirects)]
pub(crate) mod redirected;
// The library of `preload/`, which alone needs these, has no tests.
#[cfg(any(redirects, test))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod roles;
#[cfg(any(redirects, test))]
#[cfg_attr(not(redirects), allow(dead_code))]
mod sizes;
