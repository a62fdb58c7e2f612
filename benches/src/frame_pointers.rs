//! An allocator that follows the frame pointers of each allocation, and checks nothing: what a stack takes at
//! least, in a program that is built with `-C force-frame-pointers=yes`. It does nothing with the frames but
//! add them up.
#![expect(unsafe_code, reason = "an allocator, and the frames of its callers")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

/// See the top of the file. Its stacks have this many frames.
pub struct FramePointers {
    /// The number of frames.
    pub frames: usize,
}

// SAFETY: all blocks are those of `System`.
unsafe impl GlobalAlloc for FramePointers {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut frame: *const [u64; 2];
        // SAFETY: only reads a register.
        unsafe {
            std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags));
        }
        let mut sum = 0;
        for _ in 0..self.frames {
            // SAFETY: each function of the program saves the frame pointer of its caller where its own
            // points, below the return address.
            let [caller, return_address] = unsafe { *frame };
            sum ^= return_address;
            frame = caller as *const [u64; 2];
        }
        black_box(sum);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
    }
}
