//! Platforms on which the resident memory is not read.

use super::{AllocatorStatistics, ResidentMemory};
use crate::nothing::does_nothing;
use std::io;

does_nothing! {
    pub(crate) fn rss_now_and_most() -> Option<(u64, u64)>;
    pub(crate) fn resident_memory() -> io::Result<ResidentMemory> = Err(io::ErrorKind::Unsupported.into());
    pub(crate) fn allocator_statistics() -> Vec<AllocatorStatistics>;
}
