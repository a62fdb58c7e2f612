//! Everything that is specific to a platform.
//!
//! The tracker works, and is tested, on Linux on 64-bit machines. Elsewhere the same functions
//! exist, but [`SUPPORTED`] is false and nothing is ever recorded: starting a ledger returns
//! [`Error::UnsupportedPlatform`](crate::Error::UnsupportedPlatform). `RUSTFLAGS="--cfg
//! memledger_portable"` selects those functions on Linux, too, so that they can be checked there.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(memledger_portable)))]
mod linux;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(memledger_portable)))]
pub(crate) use linux::*;

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(memledger_portable)))]
mod target_file;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(memledger_portable)))]
pub(crate) use target_file::TargetFile;

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(memledger_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(memledger_portable))))]
pub(crate) use portable::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(memledger_portable))))]
mod no_resident;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(memledger_portable))))]
pub(crate) use no_resident::{AnonymousRange, ResidentMemory, resident_memory, rss_now_and_most};

/// The name of a thread as the kernel keeps it: at most 15 bytes, padded with NULs.
pub(crate) type ThreadName = [u8; 16];
