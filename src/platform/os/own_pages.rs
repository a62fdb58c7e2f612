//! The pages that the tracker has mapped, to tell them from those of the program.

use super::{KeepErrno, is_kernel_closed, pages};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of mappings that are kept. A program with 500 threads at once has some 2,000.
const MAX_MAPPINGS: usize = 8192;

/// The start and the bytes of each mapping. PERF: pages of this table that are not used are not resident.
static MAPPINGS: [(AtomicUsize, AtomicUsize); MAX_MAPPINGS] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MAX_MAPPINGS];
/// The number of mappings so far. Those that do not fit into the table are not kept.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the system has none, or may not be asked.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    if is_kernel_closed() {
        return None;
    }
    let _errno = KeepErrno::new();
    let mapped = pages::map_pages(bytes)?;
    add(mapped.as_ptr().addr(), bytes);
    Some(mapped)
}

/// *Hook.* Unmaps pages of [`map`] that no other thread has seen.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    let _errno = KeepErrno::new();
    remove(start.as_ptr().addr());
    pages::unmap_pages(start, bytes);
}

/// *Hook.* Adds a mapping.
fn add(start: usize, bytes: usize) {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    if let Some(mapping) = MAPPINGS.get(number) {
        mapping.0.store(start, Ordering::Relaxed);
        mapping.1.store(bytes, Ordering::Release);
    }
}

/// *Hook.* Removes the mapping that begins at `start`. Rare: only where another thread has mapped the same
/// before.
fn remove(start: usize) {
    let count = COUNT.load(Ordering::Relaxed).min(MAX_MAPPINGS);
    let mut mappings = MAPPINGS.iter().take(count).rev();
    if let Some(mapping) = mappings.find(|mapping| mapping.0.load(Ordering::Relaxed) == start) {
        mapping.1.store(0, Ordering::Relaxed);
    }
}

/// The start and the bytes of each mapping.
pub(super) fn own_pages() -> impl Iterator<Item = (u64, u64)> {
    let count = COUNT.load(Ordering::Relaxed).min(MAX_MAPPINGS);
    let mappings = MAPPINGS.iter().take(count);
    let mappings = mappings
        .map(|(start, bytes)| (bytes.load(Ordering::Acquire), start.load(Ordering::Relaxed)));
    mappings.filter(|(bytes, _)| *bytes > 0).map(|(bytes, start)| (start as u64, bytes as u64))
}

/// Whether an address is in one of these ranges, which are sorted.
#[cfg(not(any(target_os = "linux", wasm)))]
pub(super) fn is_in(ranges: &[(u64, u64)], address: u64) -> bool {
    let next = ranges.partition_point(|(start, _)| *start <= address);
    let last = next.checked_sub(1).and_then(|last| ranges.get(last));
    last.is_some_and(|(start, bytes)| address - start < *bytes)
}
