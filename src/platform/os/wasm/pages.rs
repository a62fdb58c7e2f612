//! Pages of memory, by the instruction `memory.grow`. The program's allocator uses the same instruction and
//! never assumes that what it gets follows what it had.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of a page, which WebAssembly lays down.
pub(crate) const SMALLEST_PAGE: usize = 65_536;

/// Memory cannot be given back, so ranges that are unmapped are kept for the next call of [`map_pages`]: the
/// start and the bytes of each; 0 bytes for an empty place. What does not fit stays unused.
static FREE: [(AtomicUsize, AtomicUsize); 16] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 16];

/// *Hook.* The bytes of a page.
pub(crate) fn page_bytes() -> usize {
    SMALLEST_PAGE
}

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the host has no more.
pub(in crate::platform::os) fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    let pages = bytes.div_ceil(SMALLEST_PAGE);
    for (start, free) in &FREE {
        if free.load(Ordering::Relaxed) == pages * SMALLEST_PAGE {
            free.store(0, Ordering::Relaxed);
            let start = std::ptr::with_exposed_provenance_mut(start.load(Ordering::Relaxed));
            // SAFETY: nothing uses these pages since `unmap_pages`.
            unsafe { std::ptr::write_bytes(start, 0, pages * SMALLEST_PAGE) };
            return NonNull::new(start);
        }
    }
    // The host says where the memory has ended before, or the largest number if it has no more.
    let before = core::arch::wasm32::memory_grow::<0>(pages);
    let start = (before != usize::MAX).then(|| before * SMALLEST_PAGE)?;
    NonNull::new(std::ptr::with_exposed_provenance_mut(start))
}

/// *Hook.* Keeps pages of [`map_pages`] for its next call.
pub(in crate::platform::os) fn unmap_pages(start: NonNull<u8>, bytes: usize) {
    let empty = FREE.iter().find(|(_, free)| free.load(Ordering::Relaxed) == 0);
    if let Some((place, free)) = empty {
        place.store(start.as_ptr().expose_provenance(), Ordering::Relaxed);
        free.store(bytes.next_multiple_of(SMALLEST_PAGE), Ordering::Relaxed);
    }
}
