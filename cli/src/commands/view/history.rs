//! What has happened to one block.

use super::lives_file::By;
use memledger::analysis::{BlockChange, HistoryEntry};

/// One event of a block.
#[derive(Clone, Debug)]
pub struct Entry {
    pub what: &'static str,
    /// `None` for an allocation before a reallocation that a pass has found.
    pub event: Option<u64>,
    pub at_ns: u64,
    pub address: u64,
    pub bytes: u64,
    /// Of a reallocation.
    pub bytes_before: Option<u64>,
    pub bucket: u32,
    /// Who has freed or reallocated it, which may be another thread, in another scope.
    pub by: Option<By>,
}

impl Entry {
    pub fn of(entry: &HistoryEntry, by: Option<By>) -> Self {
        let block = &entry.block;
        let what = match entry.change {
            BlockChange::Allocated => "allocated",
            BlockChange::Freed { .. } => "freed",
            BlockChange::ReallocBegun => "reallocation begun",
            BlockChange::Reallocated { .. } => "reallocated",
            BlockChange::ReallocFailed { .. } => "reallocation failed",
            BlockChange::Corrected { .. } => "corrected",
            BlockChange::Moved { .. } => "moved",
            BlockChange::Left => "left",
            BlockChange::Returned => "returned",
            _ => "changed",
        };
        let bytes_before = match entry.change {
            BlockChange::Reallocated { bytes_before, .. } => Some(bytes_before),
            _ => None,
        };
        Self {
            what,
            event: Some(block.number).filter(|&number| number > 0),
            at_ns: block.at_ns,
            address: block.address,
            bytes: block.bytes,
            bytes_before,
            bucket: block.bucket,
            by,
        }
    }
}
