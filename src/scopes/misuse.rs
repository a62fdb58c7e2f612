//! Scopes that were left out of order, or never left: their number, and the source location at
//! which the first was entered.
#![expect(unsafe_code, reason = "a pointer to a static")]

use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static FIRST: AtomicPtr<Location<'static>> = AtomicPtr::new(ptr::null_mut());

/// The number of scopes that were left while another scope was the innermost, or never left.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// The source location at which the first of these scopes was entered.
pub(crate) fn first() -> Option<&'static Location<'static>> {
    // SAFETY: only pointers to `'static` locations are stored there.
    unsafe { FIRST.load(Ordering::Acquire).as_ref() }
}

/// Resets the count to 0 for a new recording.
pub(crate) fn reset() {
    COUNT.store(0, Ordering::Relaxed);
    FIRST.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Counts `scopes`, one of which was entered at `site`.
#[cold]
pub(super) fn add(scopes: u32, site: &'static Location<'static>) {
    COUNT.fetch_add(scopes.into(), Ordering::Relaxed);
    let site = ptr::from_ref(site).cast_mut();
    let _ = FIRST.compare_exchange(ptr::null_mut(), site, Ordering::AcqRel, Ordering::Relaxed);
}
