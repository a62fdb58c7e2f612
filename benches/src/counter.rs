//! The least a tracker of `tracking-allocator` can do.

use std::sync::atomic::{AtomicU64, Ordering};
use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker};

/// Counts allocations and frees.
pub struct Counter;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

impl AllocationTracker for Counter {
    fn allocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId) {
        ALLOCATED.fetch_add(1, Ordering::Relaxed);
    }

    fn deallocated(
        &self,
        _: usize,
        _: usize,
        _: usize,
        _: AllocationGroupId,
        _: AllocationGroupId,
    ) {
        FREED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    /// Makes it the tracker of this process, and starts tracking.
    pub fn start() {
        // Refused if it was set before, by this very function.
        let _ = AllocationRegistry::set_global_tracker(Self);
        AllocationRegistry::enable_tracking();
    }

    /// The allocations and frees it has counted.
    pub fn calls() -> (u64, u64) {
        (ALLOCATED.load(Ordering::Relaxed), FREED.load(Ordering::Relaxed))
    }
}
