//! Which memory a stack may be read from.
//!
//! A thread's own stack, from the stack pointer up to its end, stays mapped while the thread runs.
//! Its extent is checked page by page, once. All other stacks (of a coroutine, of a signal handler)
//! can be unmapped at any time between two events, so they are checked again each time.
//!
//! On Windows, a fiber's stack is the thread's own while it runs: the system says where it ends.
#![expect(unsafe_code, reason = "reads the stack of the running thread")]

use crate::platform::os;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = os::SMALLEST_PAGE;
/// The address of no page.
const NO_PAGE: usize = 1;
/// In place of a page: none may be read but those of the thread's own stack.
const ONLY_OWN: usize = 2;
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

/// A word of the stack that a walk has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) address: usize,
    pub(super) value: usize,
}

impl Word {
    /// What it is now. Must be a word that was read as one of the running thread's own stack, or one that is
    /// between two such.
    #[inline(always)]
    pub(super) fn now(self) -> usize {
        // SAFETY: the word is aligned, and in the part of the stack that was checked, which stays mapped.
        unsafe { std::ptr::with_exposed_provenance::<usize>(self.address).read_volatile() }
    }
}

/// The part of a thread's own stack that has been checked.
#[derive(Default)]
pub(super) struct OwnStack {
    low: Cell<usize>,
    end: Cell<usize>,
    /// A page below that cannot be read, such as a guard page: all below it is no part of the stack.
    /// 0 if none is known.
    barrier: Cell<usize>,
}

impl OwnStack {
    pub(super) fn reset(&self) {
        self.low.set(0);
        self.end.set(0);
        self.barrier.set(0);
    }

    /// Whether the thread is on another stack now, such as a fiber's: this one may be unmapped.
    #[inline(always)]
    pub(super) fn is_left(&self) -> bool {
        cfg!(pdata) && self.end.get() != os::own_stack_end()
    }

    /// The word at `address`, if that is a multiple of 8 and on the checked part.
    #[inline(always)]
    pub(super) fn word(&self, address: usize) -> Option<usize> {
        let low = self.low.get();
        is_within(address, low, self.end.get() - low).then(|| read(address))
    }

    /// Extends the checked part to the stack pointer `sp`: the stack may have grown since. `false` if
    /// `sp` is not on the thread's own stack, or not all of it can be read from `sp` on.
    #[cold]
    fn extend_to(&self, sp: usize) -> bool {
        let page = sp & !(PAGE - 1);
        if self.low.get() != 0 {
            return (self.barrier.get() + 1..self.low.get()).contains(&page)
                && self.check_down_to(page);
        }
        let ends = [MAIN_END.load(Ordering::Relaxed), os::own_stack_end()];
        let end = ends
            .into_iter()
            .find(|end| *end > sp && *end - sp < MAX_STACK && are_readable(page, *end));
        let Some(end) = end else { return false };
        self.low.set(page);
        self.end.set(end);
        true
    }

    /// Checks the pages below the checked part, from the nearest one down to `page`; `false` if one
    /// cannot be read.
    fn check_down_to(&self, page: usize) -> bool {
        if (self.low.get() - page) / PAGE > MAX_CHECKED {
            return false;
        }
        while self.low.get() > page {
            let next = self.low.get() - PAGE;
            if !os::is_readable(next) {
                self.barrier.set(next);
                return false;
            }
            self.low.set(next);
        }
        true
    }
}

/// Whether all pages from `page` up to `end` can be read.
fn are_readable(page: usize, end: usize) -> bool {
    (end - page).div_ceil(PAGE) <= MAX_CHECKED && (page..end).step_by(PAGE).all(os::is_readable)
}

/// Whether the address is a multiple of 8, and one of the `bytes` from `low` on, which begin with a page.
#[inline(always)]
fn is_within(address: usize, low: usize, bytes: usize) -> bool {
    // PERF: one comparison. If the address is not a multiple of 8, the rotation makes a large number of it.
    address.wrapping_sub(low).rotate_right(3) < bytes >> 3
}

/// A word of the stack that was checked.
#[inline(always)]
fn read(address: usize) -> usize {
    // SAFETY: the word is aligned, and its page can be read: the thread's own stack stays mapped, and another
    // page was checked in this event. The compiler must not assume that no other code writes it.
    unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}

/// Reads words of the stack that one event is on.
pub(super) struct StackReader {
    /// The checked part of the thread's own stack.
    low: usize,
    bytes: usize,
    /// The page that was checked last for this event, [`NO_PAGE`] or [`ONLY_OWN`].
    page: usize,
    /// Whether all words so far are on the thread's own stack.
    is_own: bool,
}

impl StackReader {
    /// For an event whose stack pointer is `sp`.
    #[inline(always)]
    pub(super) fn new(own: &OwnStack, sp: usize) -> Self {
        let checked = || (own.low.get(), own.end.get() - own.low.get());
        let (mut low, mut bytes) = checked();
        let mut is_own = sp.wrapping_sub(low) < bytes;
        if !is_own {
            is_own = own.extend_to(sp);
            (low, bytes) = checked();
        }
        Self { low, bytes, page: NO_PAGE, is_own }
    }

    /// Whether all words that were read are on the thread's own stack, and can be read again as
    /// long as the thread runs.
    #[inline(always)]
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Makes [`is_own`](Self::is_own) false.
    pub(super) fn set_not_own(&mut self) {
        self.is_own = false;
    }

    /// From here on, only the thread's own stack is read: a guess can lead to memory that another thread
    /// unmaps.
    pub(super) fn stay_on_own(&mut self) {
        self.page = ONLY_OWN;
    }

    /// Whether the address is on the thread's own stack.
    pub(super) fn is_on_own(&self, address: usize) -> bool {
        address.wrapping_sub(self.low) < self.bytes
    }

    /// The same as [`word`](Self::word), but `None` if it is not on the thread's own stack.
    pub(super) fn own_word(&mut self, address: usize) -> Option<usize> {
        self.is_on_own(address).then(|| self.word(address))?
    }

    /// The word at `address`; `None` if it is not a multiple of 8, or cannot be read.
    #[inline(always)]
    pub(super) fn word(&mut self, address: usize) -> Option<usize> {
        (is_within(address, self.low, self.bytes) || self.is_checked(address))
            .then(|| read(address))
    }

    #[cold]
    fn is_checked(&mut self, address: usize) -> bool {
        if address & 7 != 0 || self.page == ONLY_OWN {
            return false;
        }
        self.is_own = false;
        let page = address & !(PAGE - 1);
        if page != self.page && !os::is_readable(page) {
            return false;
        }
        self.page = page;
        true
    }
}

#[cfg(all(test, pdata))]
mod tests {
    use super::*;
    use std::ffi::c_void;
    use windows_sys::Win32::System::Threading::{
        ConvertThreadToFiber, CreateFiber, DeleteFiber, SwitchToFiber,
    };

    struct Shared {
        own: OwnStack,
        main: *mut c_void,
        end: usize,
    }

    fn sp_is_own(own: &OwnStack) -> bool {
        let word = 0_usize;
        let sp = (&raw const word).expose_provenance();
        StackReader::new(own, sp).is_own() && own.word(sp).is_some()
    }

    unsafe extern "system" fn on_fiber(shared: *mut c_void) {
        // SAFETY: the test has it, and waits.
        let shared = unsafe { &mut *shared.cast::<Shared>() };
        assert!(sp_is_own(&shared.own) && !shared.own.is_left());
        shared.end = shared.own.end.get();
        // SAFETY: the thread was made a fiber.
        unsafe { SwitchToFiber(shared.main) };
    }

    #[test]
    fn the_stack_of_a_fiber_that_was_left_is_not_own() {
        let run = || {
            // SAFETY: valid arguments; the fiber has ended its work before it is deleted.
            unsafe {
                let main = ConvertThreadToFiber(std::ptr::null());
                let mut shared = Shared { own: OwnStack::default(), main, end: 0 };
                let fiber = CreateFiber(0, Some(on_fiber), (&raw mut shared).cast());
                SwitchToFiber(fiber);
                DeleteFiber(fiber);
                assert!(shared.own.is_left() && shared.end == shared.own.end.get());
                shared.own.reset();
                assert!(sp_is_own(&shared.own) && !shared.own.is_left());
                assert_ne!(shared.end, shared.own.end.get());
            }
        };
        std::thread::spawn(run).join().unwrap();
    }
}
