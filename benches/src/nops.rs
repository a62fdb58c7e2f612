//! A yardstick for the hook: an allocator that records nothing, and only has the processor pass as
//! many instructions as the hook does.
//!
//! A load whose memory is in the caches hardly feels them. One that waits for memory does: while
//! it waits, the processor works ahead by as many instructions as fit its window, and those of a
//! tracker take the room of the program's next loads. What this costs, every tracker of that many
//! instructions costs, whatever they do.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with 40 instructions more at an allocation, 30 at a free, and both at a
/// reallocation.
pub struct Nops;

/// So many instructions that do nothing.
macro_rules! nops {
    ($count:literal) => {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: they do nothing.
        unsafe {
            std::arch::asm!(
                concat!(".rept ", $count),
                "nop",
                ".endr",
                options(nomem, nostack, preserves_flags)
            );
        }
    };
}

// SAFETY: every call is passed on as it is.
#[expect(unsafe_code, reason = "a global allocator")]
unsafe impl GlobalAlloc for Nops {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { System.alloc(layout) };
        nops!(40);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        nops!(30);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { System.alloc_zeroed(layout) };
        nops!(40);
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        nops!(30);
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { System.realloc(block, layout, size) };
        nops!(40);
        block
    }
}
