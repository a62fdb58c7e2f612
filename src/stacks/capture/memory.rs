//! Which memory a stack may be read from.
//!
//! A thread's own stack, from the stack pointer up to its end, stays mapped while the thread runs.
//! Its extent is checked page by page, once. All other stacks (of a coroutine, of a signal handler)
//! can be unmapped at any time between two events, so they are checked again each time.
#![expect(unsafe_code, reason = "reads the stack of the running thread")]

use crate::platform::os;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// The address of no page.
const NO_PAGE: usize = 1;
/// The maximum size in bytes of a stack that is recognised as the thread's own.
const MAX_STACK: usize = 1 << 30;
/// The number of pages of the thread's own stack that one event checks at most: 64 MiB.
const MAX_CHECKED: usize = 1 << 14;

/// The end of the main thread's stack; 0 until [`prepare`].
static MAIN_END: AtomicUsize = AtomicUsize::new(0);

/// Must be called before the first stack is taken.
pub(super) fn prepare() {
    MAIN_END.store(os::main_stack_end(), Ordering::Relaxed);
}

/// The address of the running thread's control block. It is above the stack of every thread but the
/// main one, in the same mapping: glibc and musl put it there.
#[inline(always)]
pub(super) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the x86-64 ABI for thread-local storage: the word at `fs:0` has its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// The part of a thread's own stack that has been checked.
#[derive(Default)]
pub(super) struct OwnStack {
    low: Cell<usize>,
    end: Cell<usize>,
}

impl OwnStack {
    pub(super) fn reset(&self) {
        self.low.set(0);
        self.end.set(0);
    }

    /// Whether the stack pointer `sp` is on the thread's own stack, all of which can be read from
    /// `sp` on.
    #[inline(always)]
    pub(super) fn contains(&self, sp: usize) -> bool {
        sp.wrapping_sub(self.low.get()) < self.end.get() - self.low.get()
    }

    /// The same, where `contains` is false: the stack may have grown since it was checked.
    #[cold]
    pub(super) fn extend_to(&self, sp: usize) -> bool {
        let page = sp & !(PAGE - 1);
        if self.low.get() != 0 {
            return page < self.low.get() && self.check(page, self.low.get());
        }
        let ends = [MAIN_END.load(Ordering::Relaxed), thread_pointer() & !7];
        let end = ends
            .into_iter()
            .find(|end| *end > sp && *end - sp < MAX_STACK && are_readable(page, *end));
        let Some(end) = end else { return false };
        self.low.set(page);
        self.end.set(end);
        true
    }

    fn check(&self, page: usize, below: usize) -> bool {
        let readable = are_readable(page, below);
        if readable {
            self.low.set(page);
        }
        readable
    }
}

/// Whether all pages from `page` up to `end` can be read.
fn are_readable(page: usize, end: usize) -> bool {
    (end - page).div_ceil(PAGE) <= MAX_CHECKED && (page..end).step_by(PAGE).all(os::is_readable)
}

/// Reads words of the stack that one event is on.
pub(super) struct StackReader<'a> {
    own: &'a OwnStack,
    /// The page that was checked last for this event, or [`NO_PAGE`].
    page: usize,
    /// Whether the stack can be remembered: all words so far are on the thread's own stack.
    is_own: bool,
}

impl<'a> StackReader<'a> {
    /// For an event whose stack pointer is `sp`.
    #[inline(always)]
    pub(super) fn new(own: &'a OwnStack, sp: usize) -> Self {
        let is_own = own.contains(sp) || own.extend_to(sp);
        Self { own, page: NO_PAGE, is_own }
    }

    /// Whether all words that were read are on the thread's own stack.
    #[inline(always)]
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Makes [`is_own`](Self::is_own) false.
    pub(super) fn set_not_own(&mut self) {
        self.is_own = false;
    }

    /// The word at `address`; `None` if it is not a multiple of 8, or cannot be read.
    #[inline(always)]
    pub(super) fn word(&mut self, address: usize) -> Option<usize> {
        if address & 7 != 0 || !(self.own.contains(address) || self.is_checked(address)) {
            return None;
        }
        // SAFETY: the word is aligned, and its page can be read: the thread's own stack stays
        // mapped, and another page was checked in this event. The compiler must not assume that no
        // other code writes it.
        Some(unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_volatile() })
    }

    #[cold]
    fn is_checked(&mut self, address: usize) -> bool {
        self.is_own = false;
        let page = address & !(PAGE - 1);
        if page != self.page && !os::is_readable(page) {
            return false;
        }
        self.page = page;
        true
    }
}
