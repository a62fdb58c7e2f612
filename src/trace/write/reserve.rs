//! Memory for the tracker's own code when the allocator has none left.
//!
//! The tracker's code must not get null, because the library code that it calls would end the
//! process. So when the inner allocator returns null to it, the hook returns a block of the
//! reserve, whose addresses were mapped when recording started. [`is_used`] then makes the
//! worker end the recording after its cycle, or within the cycle when half of the reserve is used
//! ([`is_half_used`]). Until then the reserve serves small work: a cycle, an item of a queue, a
//! report. Allocations that can be large use `try_reserve`, and their work is skipped when that
//! fails.
//!
//! Block sizes are powers of two. New blocks are cut from the front of the reserve; a list for each
//! size holds the freed blocks. A thread of the program takes blocks only inside the tracker's own
//! code, so a lock is allowed.
//!
//! There are two alternatives. Separate memory for all of the tracker, not only for this case, rules
//! out the collections of the standard library. `try_reserve` everywhere misses the allocations of
//! other code: file names, strings, threads.
//!
//! After the first block from the reserve, the state is never off again, only paused: a free does not
//! reach the hook while it is off.
#![expect(unsafe_code, reason = "blocks are raw memory")]

use super::state;
use crate::platform::os;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Bytes of addresses; pages take memory only when they are touched.
const BYTES: usize = 16 << 20;
/// The binary logarithms of the smallest and the largest block.
const MIN_POWER: u32 = 4;
const MAX_POWER: u32 = 23;
const SIZES: usize = (MAX_POWER + 1 - MIN_POWER) as usize;
/// How many times a thread tries the lock before its allocation fails.
const LOCK_ATTEMPTS: u32 = 1 << 20;

/// Whether the inner allocator has returned null to the tracker's own code since the recording
/// began.
static USED: AtomicBool = AtomicBool::new(false);
/// Whether half of the reserve is used up, or it had no block for a request.
static HALF_USED: AtomicBool = AtomicBool::new(false);
static RESERVE: Reserve = Reserve::new();

/// Maps the reserve, once in a process. If the system has no addresses for it, the tracker runs
/// without a reserve.
pub(crate) fn prepare() {
    RESERVE.prepare();
}

/// Whether the inner allocator has returned null to the tracker's own code since [`reset`].
pub(crate) fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Whether the rest of the reserve is needed for ending the recording.
pub(crate) fn is_half_used() -> bool {
    HALF_USED.load(Ordering::Relaxed)
}

/// Resets the flags for a new recording.
pub(crate) fn reset() {
    USED.store(false, Ordering::Relaxed);
    HALF_USED.store(false, Ordering::Relaxed);
}

/// A block for the tracker's own code after the allocator returned null; null if the reserve is
/// used up.
pub(crate) fn take(layout: Layout) -> *mut u8 {
    USED.store(true, Ordering::Relaxed);
    // NOTE: set before a block is given out, because frees do not reach the hook while the state is
    // off.
    state::keep_hook_active();
    let block = RESERVE.take(layout);
    if block.addr().wrapping_sub(RESERVE.start.load(Ordering::Relaxed).addr()) >= BYTES / 2 {
        HALF_USED.store(true, Ordering::Relaxed);
    }
    block
}

/// Frees a block that [`take`] returned.
pub(crate) fn give_back(block: *mut u8, layout: Layout) {
    RESERVE.give_back(block, layout);
}

/// Whether [`take`] returned this block.
pub(crate) fn holds(block: *mut u8) -> bool {
    RESERVE.holds(block)
}

struct Reserve {
    start: AtomicPtr<u8>,
    locked: AtomicBool,
    free: UnsafeCell<Free>,
}

// SAFETY: `free` is accessed only by the thread that set `locked`.
unsafe impl Sync for Reserve {}

struct Free {
    /// Bytes cut from the front.
    used: usize,
    /// The first free block of each size; each block links to the next.
    first: [Option<NonNull<Link>>; SIZES],
}

struct Link(Option<NonNull<Link>>);

impl Reserve {
    const fn new() -> Self {
        Self {
            start: AtomicPtr::new(ptr::null_mut()),
            locked: AtomicBool::new(false),
            free: UnsafeCell::new(Free { used: 0, first: [const { None }; SIZES] }),
        }
    }

    fn prepare(&self) {
        if !self.start.load(Ordering::Acquire).is_null() {
            return;
        }
        let Some(pages) = os::map(BYTES) else { return };
        let none = ptr::null_mut();
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.start.compare_exchange(none, pages.as_ptr(), success, failure).is_err() {
            os::unmap(pages, BYTES);
        }
    }

    fn take(&self, layout: Layout) -> *mut u8 {
        let start = self.start.load(Ordering::Acquire);
        let (Some(power), false) = (power_of(layout), start.is_null()) else {
            return ptr::null_mut();
        };
        let block = self.with(|free| {
            let first = free.first.get_mut((power - MIN_POWER) as usize)?;
            if let Some(link) = *first {
                // SAFETY: a free block begins with its link, and only the thread that holds the
                // lock accesses it.
                *first = unsafe { link.as_ref() }.0;
                return Some(link.as_ptr().cast());
            }
            // Rounded up to a multiple of the size, and so of the alignment.
            let size = 1 << power;
            let from = (free.used + size - 1) & !(size - 1);
            if from + size > BYTES {
                return None;
            }
            free.used = from + size;
            Some(start.wrapping_add(from))
        });
        block.flatten().unwrap_or(ptr::null_mut())
    }

    fn give_back(&self, block: *mut u8, layout: Layout) {
        let (Some(power), Some(link)) = (power_of(layout), NonNull::new(block.cast::<Link>()))
        else {
            return;
        };
        self.with(|free| {
            if let Some(first) = free.first.get_mut((power - MIN_POWER) as usize) {
                // SAFETY: the block has been freed, so nothing else uses it, and it is large enough
                // and aligned for a link.
                unsafe { link.write(Link(*first)) };
                *first = Some(link);
            }
        });
    }

    fn holds(&self, block: *mut u8) -> bool {
        let start = self.start.load(Ordering::Relaxed).addr();
        start != 0 && block.addr().wrapping_sub(start) < BYTES
    }

    /// NOTE: does not wait indefinitely. In the child of a fork, the thread that set the lock may
    /// not exist.
    fn with<R>(&self, body: impl FnOnce(&mut Free) -> R) -> Option<R> {
        for _ in 0..LOCK_ATTEMPTS {
            if !self.locked.swap(true, Ordering::Acquire) {
                // SAFETY: only the thread that set the flag gets here.
                let result = body(unsafe { &mut *self.free.get() });
                self.locked.store(false, Ordering::Release);
                return Some(result);
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// The binary logarithm of the size of a block for `layout`; `None` if the reserve has no such
/// blocks.
fn power_of(layout: Layout) -> Option<u32> {
    let size = layout.size().max(layout.align()).max(1 << MIN_POWER);
    let power = size.checked_next_power_of_two()?.trailing_zeros();
    // The reserve itself is aligned only to a page.
    (power <= MAX_POWER && layout.align() <= os::SMALLEST_PAGE).then_some(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_aligned_and_used_again() {
        static OWN: Reserve = Reserve::new();
        OWN.prepare();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let mut blocks = Vec::new();
        for _ in 0..2 {
            for (size, align) in [(1, 1), (16, 16), (17, 8), (1000, 64), (4097, 4096), (1 << 20, 1)]
            {
                let block = OWN.take(layout(size, align));
                assert!(OWN.holds(block) && block.addr().is_multiple_of(align), "{size} {align}");
                // SAFETY: the block has at least `size` bytes.
                unsafe { block.write_bytes(blocks.len() as u8, size) };
                blocks.push((block, layout(size, align)));
            }
        }
        for (number, &(block, layout)) in blocks.iter().enumerate() {
            // SAFETY: as above, and all of them were written.
            let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == number as u8), "{number}");
        }
        let (last, of) = blocks[11];
        OWN.give_back(last, of);
        assert_eq!(OWN.take(of), last);
        blocks.into_iter().for_each(|(block, layout)| OWN.give_back(block, layout));
        assert!(
            OWN.take(layout(1, 8192)).is_null() && OWN.take(layout((8 << 20) + 1, 1)).is_null()
        );
        let mebibyte = layout(1 << 20, 8);
        let take = || Some(OWN.take(mebibyte)).filter(|block| !block.is_null());
        let all: Vec<_> = std::iter::from_fn(take).collect();
        assert!((14..=16).contains(&all.len()), "{}", all.len());
        assert!(!OWN.holds((&raw const OWN).cast_mut().cast()));
    }
}
