//! What the tracking allocator does at each call.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use super::TrackingAllocator;
use super::events::RUST;
use super::hook::{self, FreeMode, Mode};
use crate::stacks::capture::Registers;
use std::alloc::{GlobalAlloc, Layout};
use std::any::type_name;

/// Whether `A` is a tracker.
///
/// PERF: few types have a tracker's alignment, so a build without optimisation, too, compares no names for
/// any other.
#[inline(always)]
fn is_tracker<A>() -> bool {
    align_of::<A>() == align_of::<TrackingAllocator>()
        && type_name::<A>().split('<').next() == type_name::<TrackingAllocator>().split('<').next()
}

// SAFETY: each call is forwarded to the inner allocator with its arguments unchanged, and the
// result is returned unchanged. The hook does not unwind or allocate.
//
// PERF: each method is a test of the state and a tail call, either of the inner allocator or of the
// function with the same name below. So while nothing is recorded, no register is saved around the
// inner call: the cost is a load and a branch that is predicted.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for TrackingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Self::mode() {
            Mode::Off => {}
            // SAFETY: the caller makes the same promise, here and below.
            Mode::Recorded => return unsafe { Self::alloc_recorded(layout, self) },
            // SAFETY: as above.
            Mode::WithStacks => return unsafe { Self::alloc_with_stack(layout, self) },
        }
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Self::mode() {
            Mode::Off => {}
            // SAFETY: the caller makes the same promise, here and below.
            Mode::Recorded => return unsafe { Self::alloc_zeroed_recorded(layout, self) },
            // SAFETY: as above.
            Mode::WithStacks => return unsafe { Self::alloc_zeroed_with_stack(layout, self) },
        }
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match Self::free_mode() {
            FreeMode::Off => {}
            // SAFETY: the caller makes the same promise, here and below.
            FreeMode::Recorded => return unsafe { Self::dealloc_recorded(pointer, layout, self) },
            FreeMode::WithScope => {
                // SAFETY: as above.
                return unsafe { Self::dealloc_with_scope(pointer, layout, self) };
            }
        }
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        match Self::mode() {
            Mode::Off => {}
            Mode::Recorded => {
                // SAFETY: the caller makes the same promise.
                return unsafe { Self::realloc_recorded(pointer, layout, new_size, self) };
            }
            Mode::WithStacks => {
                // SAFETY: the caller makes the same promise.
                return unsafe { Self::realloc_with_stack(pointer, layout, new_size, self) };
            }
        }
        // SAFETY: the caller makes the same promise.
        unsafe { self.inner.realloc(pointer, layout, new_size) }
    }
}

/// The methods of the allocator while something is recorded. Arguments precede the allocator, as in
/// `malloc` and `free`, so a tail call keeps them in their registers.
impl<A: GlobalAlloc + 'static> TrackingAllocator<A> {
    /// A tracker around a tracker leaves each block to that one.
    #[inline(always)]
    fn mode() -> Mode {
        if is_tracker::<A>() { Mode::Off } else { hook::mode() }
    }

    #[inline(always)]
    fn free_mode() -> FreeMode {
        if is_tracker::<A>() { FreeMode::Off } else { hook::free_mode() }
    }

    #[inline(never)]
    unsafe fn alloc_recorded(layout: Layout, this: &Self) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        this.record(unsafe { this.inner.alloc(layout) }, layout)
    }

    #[inline(never)]
    unsafe fn alloc_zeroed_recorded(layout: Layout, this: &Self) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        this.record(unsafe { this.inner.alloc_zeroed(layout) }, layout)
    }

    // NOTE: the stack is taken in a function that has not returned yet, so these are no tail calls.

    #[inline(never)]
    unsafe fn alloc_with_stack(layout: Layout, this: &Self) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        this.record_with_stack(unsafe { this.inner.alloc(layout) }, layout)
    }

    #[inline(never)]
    unsafe fn alloc_zeroed_with_stack(layout: Layout, this: &Self) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        this.record_with_stack(unsafe { this.inner.alloc_zeroed(layout) }, layout)
    }

    #[inline(never)]
    unsafe fn realloc_with_stack(
        pointer: *mut u8,
        layout: Layout,
        new_size: usize,
        this: &Self,
    ) -> *mut u8 {
        let at = Registers::here();
        // SAFETY: the caller makes the same promise.
        let new = unsafe {
            hook::realloc_with_stack::<_, RUST>(&this.inner, pointer, layout, new_size, &at)
        };
        if new.is_null() { hook::failed(new_size) } else { new }
    }

    #[inline(always)]
    fn record_with_stack(&self, pointer: *mut u8, layout: Layout) -> *mut u8 {
        if pointer.is_null() {
            return hook::not_allocated(layout, self.ignore_environment);
        }
        hook::allocated_with_stack(pointer, layout, self.ignore_environment);
        pointer
    }

    #[inline(never)]
    unsafe fn dealloc_recorded(pointer: *mut u8, layout: Layout, this: &Self) {
        // SAFETY: the caller makes the same promise.
        unsafe { hook::free::<_, false, RUST>(&this.inner, pointer, layout) };
    }

    #[inline(never)]
    unsafe fn dealloc_with_scope(pointer: *mut u8, layout: Layout, this: &Self) {
        // SAFETY: the caller makes the same promise.
        unsafe { hook::free::<_, true, RUST>(&this.inner, pointer, layout) };
    }

    #[inline(never)]
    unsafe fn realloc_recorded(
        pointer: *mut u8,
        layout: Layout,
        new_size: usize,
        this: &Self,
    ) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        let new = unsafe { hook::realloc::<_, RUST>(&this.inner, pointer, layout, new_size) };
        if new.is_null() { hook::failed(new_size) } else { new }
    }

    #[inline(always)]
    fn record(&self, pointer: *mut u8, layout: Layout) -> *mut u8 {
        if pointer.is_null() {
            return hook::not_allocated(layout, self.ignore_environment);
        }
        hook::allocated(pointer, layout, &self.ignore_environment)
    }
}
