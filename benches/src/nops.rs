//! A yardstick for the hook: an allocator that records nothing, and only has the processor pass as
//! many instructions as the hook does.
//!
//! A load whose memory is in the caches hardly feels them. One that waits for memory does: while
//! it waits, the processor works ahead by as many instructions as fit its window, and those of a
//! tracker take the room of the program's next loads. What this costs, every tracker of that many
//! instructions costs, whatever they do.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with 40 instructions more at an allocation and 30 at a free.
pub struct Nops;

// SAFETY: every call is passed on as it is.
#[expect(unsafe_code, reason = "a global allocator")]
unsafe impl GlobalAlloc for Nops {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { System.alloc(layout) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: they do nothing.
        unsafe {
            std::arch::asm!(".rept 40", "nop", ".endr", options(nomem, nostack, preserves_flags));
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: they do nothing.
        unsafe {
            std::arch::asm!(".rept 30", "nop", ".endr", options(nomem, nostack, preserves_flags));
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) };
    }
}
