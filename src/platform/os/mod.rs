//! Everything that is specific to a platform.
//!
//! The tracker works, and is tested, on Linux on 64-bit machines. Elsewhere none of this is compiled
//! (`build.rs` does not set `tracking`), nothing is recorded, and starting a ledger returns
//! `ErrorKind::UnsupportedPlatform`. `RUSTFLAGS="--cfg memledger_portable"` does the same on Linux, so that
//! it can be checked there.

mod linux;
mod own;
mod target_file;

pub(crate) use linux::*;
pub(crate) use own::OwnDescriptor;
pub(crate) use target_file::TargetFile;

/// The name of a thread as the kernel keeps it: at most 15 bytes, padded with NULs.
pub(crate) type ThreadName = [u8; 16];

/// Anonymous memory that no other kind explains: addresses, and how much of it is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnonymousRange {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) resident_bytes: u64,
}

/// What an allocator says of itself: its name, and figures in bytes with their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllocatorStatistics {
    pub(crate) allocator: &'static str,
    pub(crate) figures: Vec<(&'static str, u64)>,
}

/// The resident memory of this process in bytes. The sum of all parts is the sum of the lines `Rss` of
/// `/proc/self/smaps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResidentMemory {
    /// Pages that the tracker has mapped.
    pub(crate) tracker: u64,
    pub(crate) stacks: u64,
    /// Programs and libraries: their files, and the memory that was mapped with them.
    pub(crate) binaries: u64,
    pub(crate) files: u64,
    /// Memory that other processes can share.
    pub(crate) shared: u64,
    /// What the kernel maps (`[vdso]`).
    pub(crate) other: u64,
    /// In the order of their addresses.
    pub(crate) anonymous: Vec<AnonymousRange>,
}
