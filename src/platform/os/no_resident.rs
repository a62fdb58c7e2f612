//! Platforms on which the resident memory is not read.

use std::io;

/// See the one of x86-64 Linux.
pub(crate) struct AnonymousRange {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) resident_bytes: u64,
}

/// See the one of x86-64 Linux.
pub(crate) struct ResidentMemory {
    pub(crate) tracker: u64,
    pub(crate) stacks: u64,
    pub(crate) binaries: u64,
    pub(crate) files: u64,
    pub(crate) shared: u64,
    pub(crate) other: u64,
    pub(crate) anonymous: Vec<AnonymousRange>,
}

pub(crate) fn rss_now_and_most() -> Option<(u64, u64)> {
    None
}

pub(crate) fn resident_memory() -> io::Result<ResidentMemory> {
    Err(io::ErrorKind::Unsupported.into())
}
