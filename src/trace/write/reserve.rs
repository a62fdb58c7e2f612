//! Memory for the tracker's own code when the allocator has none left.
//!
//! Such code may not be given null: what it calls ends the process then. So when the inner allocator
//! returns null to it, the hook takes the block from here, addresses that were mapped when recording
//! started, and [`is_touched`] has the worker end the recording behind its tick, or where half of the
//! reserve is used up ([`is_short`]). Until then it has to do for little: a tick, an item of a queue,
//! a report. What can be large is asked for with `try_reserve`, and not done if null comes.
//!
//! Blocks are powers of two, cut from the front; a list for each size holds those given back. No
//! thread of the program comes here but in the tracker's own code, so a lock is allowed.
#![expect(unsafe_code, reason = "blocks are raw memory")]

use super::state;
use crate::trace::os;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Addresses only, until they are touched.
const BYTES: usize = 16 << 20;
/// The smallest block, as a power of two, and the largest.
const LEAST: u32 = 4;
const LARGEST: u32 = 23;
const SIZES: usize = (LARGEST + 1 - LEAST) as usize;
/// How often a thread looks whether the lock is free before it does without.
const PATIENCE: u32 = 1 << 20;

/// Whether the tracker's own code was given null since a recording began.
static TOUCHED: AtomicBool = AtomicBool::new(false);
/// Whether half of the reserve is used up.
static SHORT: AtomicBool = AtomicBool::new(false);
static RESERVE: Reserve = Reserve::new();

/// Sets the reserve aside, once in a process. Where there are no addresses for it, the tracker does
/// without.
pub(crate) fn prepare() {
    RESERVE.prepare();
}

/// Whether the tracker's own code was given null since [`forget`].
pub(crate) fn is_touched() -> bool {
    TOUCHED.load(Ordering::Relaxed)
}

/// Whether what is left has to do for the end.
pub(crate) fn is_short() -> bool {
    SHORT.load(Ordering::Relaxed)
}

/// A new recording begins.
pub(crate) fn forget() {
    TOUCHED.store(false, Ordering::Relaxed);
    SHORT.store(false, Ordering::Relaxed);
}

/// A block for the tracker's own code, to which the allocator has given null; null if there is none.
pub(crate) fn take(layout: Layout) -> *mut u8 {
    TOUCHED.store(true, Ordering::Relaxed);
    // NOTE: before there is a block. Where nothing is recorded, frees do not come to the hook.
    state::stay_awake();
    let block = RESERVE.take(layout);
    if block.addr().wrapping_sub(RESERVE.start.load(Ordering::Relaxed).addr()) >= BYTES / 2 {
        SHORT.store(true, Ordering::Relaxed);
    }
    block
}

/// Takes back a block of [`take`].
pub(crate) fn give_back(block: *mut u8, layout: Layout) {
    RESERVE.give_back(block, layout);
}

/// Whether a block is one of [`take`].
pub(crate) fn holds(block: *mut u8) -> bool {
    RESERVE.holds(block)
}

struct Reserve {
    start: AtomicPtr<u8>,
    locked: AtomicBool,
    free: UnsafeCell<Free>,
}

// SAFETY: what is free is looked into by who has set `locked`, and nobody else.
unsafe impl Sync for Reserve {}

struct Free {
    /// Bytes cut from the front.
    used: usize,
    /// The first free block of each size; it says which is the next.
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
            let first = free.first.get_mut((power - LEAST) as usize)?;
            if let Some(link) = *first {
                // SAFETY: a free block begins with its link.
                *first = unsafe { link.as_ref() }.0;
                return Some(link.as_ptr().cast());
            }
            // A multiple of its size, and so of its alignment.
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
            if let Some(first) = free.first.get_mut((power - LEAST) as usize) {
                // SAFETY: the block is nobody's any more, and large enough and aligned for a link.
                unsafe { link.write(Link(*first)) };
                *first = Some(link);
            }
        });
    }

    fn holds(&self, block: *mut u8) -> bool {
        let start = self.start.load(Ordering::Relaxed).addr();
        start != 0 && block.addr().wrapping_sub(start) < BYTES
    }

    /// NOTE: not for ever. In the child of a fork, who has set the lock may not be there.
    fn with<R>(&self, body: impl FnOnce(&mut Free) -> R) -> Option<R> {
        for _ in 0..PATIENCE {
            if !self.locked.swap(true, Ordering::Acquire) {
                // SAFETY: who has set the flag is alone in here.
                let result = body(unsafe { &mut *self.free.get() });
                self.locked.store(false, Ordering::Release);
                return Some(result);
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// The size of a block for this, as a power of two.
fn power_of(layout: Layout) -> Option<u32> {
    let size = layout.size().max(layout.align()).max(1 << LEAST);
    let power = size.checked_next_power_of_two()?.trailing_zeros();
    // The reserve itself begins at a page.
    (power <= LARGEST && layout.align() <= 4096).then_some(power)
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
                // SAFETY: the block has so many bytes.
                unsafe { block.write_bytes(blocks.len() as u8, size) };
                blocks.push((block, layout(size, align)));
            }
        }
        for (number, &(block, layout)) in blocks.iter().enumerate() {
            // SAFETY: as above.
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
