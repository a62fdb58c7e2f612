//! Counters of the allocator that are not in the stream.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static OWN_BYTES: AtomicI64 = AtomicI64::new(0);
static MAX_OWN_BYTES: AtomicI64 = AtomicI64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Counts bytes that the tracker's own code allocated, or freed if negative.
pub(crate) fn add_own_bytes(bytes: i64) {
    let before = OWN_BYTES.fetch_add(bytes, Ordering::Relaxed);
    MAX_OWN_BYTES.fetch_max(before + bytes, Ordering::Relaxed);
}

/// The number of bytes that the tracker's own code holds from the program's allocator.
pub(crate) fn own_bytes() -> u64 {
    OWN_BYTES.load(Ordering::Relaxed).max(0) as u64
}

/// The most that [`own_bytes`] has been. An allocator keeps pages of blocks that are freed.
pub(crate) fn most_own_bytes() -> u64 {
    MAX_OWN_BYTES.load(Ordering::Relaxed).max(0) as u64
}

/// All bytes that the program has mapped and that are in no event that counts: files, reserved addresses.
#[cfg(c_mmap)]
static MAPPED_BESIDE: AtomicU64 = AtomicU64::new(0);

#[cfg(c_mmap)]
pub(crate) fn note_mapped_beside(bytes: usize) {
    MAPPED_BESIDE.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// All bytes that the program has mapped so far and that are in no block. Where the functions that map memory
/// are not seen, it can be any number.
pub(crate) fn mapped_beside() -> u64 {
    #[cfg(c_mmap)]
    return MAPPED_BESIDE.load(Ordering::Relaxed);
    #[cfg(not(c_mmap))]
    u64::MAX
}

/// Counts a null of the inner allocator that is returned to the program.
pub(crate) fn count_failure() {
    FAILED.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count failures from 0, for a new recording.
pub(crate) fn reset_failures() {
    FAILED.store(0, Ordering::Relaxed);
}

/// The number of failed allocations of the program since the recording began, pauses included.
pub(crate) fn failures() -> u64 {
    FAILED.load(Ordering::Relaxed)
}
