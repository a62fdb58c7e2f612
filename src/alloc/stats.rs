//! Figures that are kept beside the stream.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static OWN_BYTES: AtomicI64 = AtomicI64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// The tracker's own code allocated (or freed, if negative) this many bytes.
pub(crate) fn own(bytes: i64) {
    OWN_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// Bytes the tracker's own code holds from the program's allocator.
pub(crate) fn own_bytes() -> u64 {
    OWN_BYTES.load(Ordering::Relaxed).max(0) as u64
}

/// The inner allocator returned null, which goes on to the program.
pub(crate) fn failed() {
    FAILED.fetch_add(1, Ordering::Relaxed);
}

/// A new recording begins.
pub(crate) fn forget_failures() {
    FAILED.store(0, Ordering::Relaxed);
}

/// How often the inner allocator returned null while something was recorded.
pub(crate) fn failures() -> u64 {
    FAILED.load(Ordering::Relaxed)
}
