//! The allocator below the tracker's.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

#[cfg(c_mmap)]
use crate::platform::os::next_malloc::in_allocator;
use std::alloc::{GlobalAlloc, Layout};

/// Runs a function of an allocator.
#[cfg(not(c_mmap))]
#[inline(always)]
fn in_allocator<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Forwards each call to `A`.
///
/// `System` calls `malloc`, and a program may have a `malloc` that also records
/// ([`track_c_malloc!`](crate::track_c_malloc)). So that no block is recorded twice, that of the next library
/// is called instead.
#[derive(Debug, Default)]
pub(super) struct Below<A>(pub(super) A);

// SAFETY: each call is forwarded with its arguments unchanged. `of_system` is what `System` is.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for Below<A> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        #[cfg(c_malloc)]
        if of_system::is::<A>() {
            // SAFETY: the caller makes the same promise, here and below.
            return unsafe { of_system::alloc(layout) };
        }
        // SAFETY: the caller makes the same promise.
        in_allocator(|| unsafe { self.0.alloc(layout) })
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        #[cfg(c_malloc)]
        if of_system::is::<A>() {
            // SAFETY: as above.
            return unsafe { of_system::alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        in_allocator(|| unsafe { self.0.alloc_zeroed(layout) })
    }

    #[inline(always)]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        #[cfg(c_malloc)]
        if of_system::is::<A>() {
            // SAFETY: as above.
            return unsafe { of_system::dealloc(pointer) };
        }
        // SAFETY: as above.
        in_allocator(|| unsafe { self.0.dealloc(pointer, layout) })
    }

    #[inline(always)]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        #[cfg(c_malloc)]
        if of_system::is::<A>() {
            // SAFETY: as above.
            return unsafe { of_system::realloc(pointer, layout, new_size) };
        }
        // SAFETY: as above.
        in_allocator(|| unsafe { self.0.realloc(pointer, layout, new_size) })
    }
}

/// What `System` does on Unix, with the next `malloc`.
#[cfg(c_malloc)]
mod of_system {
    use crate::platform::os::next_malloc::{self, MIN_ALIGN};
    use std::alloc::{Layout, System};
    use std::any::TypeId;
    use std::ptr;

    #[inline(always)]
    pub(super) fn is<A: 'static>() -> bool {
        TypeId::of::<A>() == TypeId::of::<System>()
    }

    /// Whether `malloc` aligns a block of this layout as required.
    #[inline(always)]
    fn is_aligned_anyway(layout: Layout) -> bool {
        layout.align() <= MIN_ALIGN && layout.align() <= layout.size()
    }

    #[inline(always)]
    pub(super) unsafe fn alloc(layout: Layout) -> *mut u8 {
        if is_aligned_anyway(layout) {
            // SAFETY: `malloc` has no condition.
            unsafe { next_malloc::malloc(layout.size()) }
        } else {
            aligned(layout)
        }
    }

    /// PERF: not inlined, so that it takes no registers of the usual path.
    #[cold]
    #[inline(never)]
    fn aligned(layout: Layout) -> *mut u8 {
        // SAFETY: the alignment is a power of two.
        let block = unsafe { next_malloc::aligned(layout.align(), layout.size()) };
        block.unwrap_or(ptr::null_mut())
    }

    #[inline(always)]
    pub(super) unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
        if is_aligned_anyway(layout) {
            // SAFETY: `calloc` has no condition.
            return unsafe { next_malloc::calloc(layout.size(), 1) };
        }
        let block = aligned(layout);
        if !block.is_null() {
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline(always)]
    pub(super) unsafe fn dealloc(pointer: *mut u8) {
        // SAFETY: the caller frees a live block of this allocator.
        unsafe { next_malloc::free(pointer) };
    }

    #[inline(always)]
    pub(super) unsafe fn realloc(pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is valid for a layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if is_aligned_anyway(new_layout) {
            // SAFETY: the caller reallocates a live block of this allocator.
            return unsafe { next_malloc::realloc(pointer, new_size) };
        }
        // SAFETY: as above.
        unsafe { realloc_aligned(pointer, layout, new_layout) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn realloc_aligned(pointer: *mut u8, layout: Layout, new_layout: Layout) -> *mut u8 {
        // SAFETY: the caller reallocates a live block; both blocks have the copied number of bytes.
        unsafe {
            let new = alloc(new_layout);
            if !new.is_null() {
                pointer.copy_to_nonoverlapping(new, layout.size().min(new_layout.size()));
                dealloc(pointer);
            }
            new
        }
    }
}
