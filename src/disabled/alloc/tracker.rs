//! The tracking allocator records nothing.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use super::TrackingAllocator;
use std::alloc::{GlobalAlloc, Layout};

// SAFETY: each call is forwarded to the inner allocator.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for TrackingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.dealloc(pointer, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.realloc(pointer, layout, new_size) }
    }
}
