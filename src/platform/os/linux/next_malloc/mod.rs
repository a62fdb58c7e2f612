//! The `malloc` below this program's own, or this library's own.
//!
//! In a dynamically linked program it is that of the next library: of glibc, or of an allocator that
//! the program is linked with. In a static program it is glibc's, by its other names.

#[cfg(target_feature = "crt-static")]
use by_linker as functions;
#[cfg(not(target_feature = "crt-static"))]
use by_loader as functions;

/// The next functions of mapped memory.
#[cfg(c_mmap)]
pub use functions::mapped;
#[cfg(redirects)]
pub(crate) use functions::other_names;
pub(crate) use functions::{
    aligned, calloc, early_bytes_from, free, is_early, malloc, memalign, realloc, usable_size,
};
#[cfg(c_mmap)]
pub use inner::{ALLOCATOR, IS_NESTED};
#[cfg(redirects)]
pub(crate) use inner::{Running, note_nested, running};
#[cfg(c_mmap)]
pub(crate) use inner::{in_allocator, is_in_allocator, is_inner};

/// The functions of `malloc` of which glibc has another name, which it never calls itself, for another macro.
#[cfg(redirects)]
#[doc(hidden)]
#[macro_export]
macro_rules! __c_malloc_other_names {
    ($($macro:tt)*) => {
        $($macro)*! {
            __libc_malloc malloc(size: usize) -> *mut u8;
            __libc_calloc calloc(count: usize, size: usize) -> *mut u8;
            __libc_realloc realloc(block: *mut u8, size: usize) -> *mut u8;
            __libc_free free(block: *mut u8) -> ();
            __libc_memalign memalign(align: usize, size: usize) -> *mut u8;
            __libc_valloc valloc(size: usize) -> *mut u8;
            __libc_pvalloc pvalloc(size: usize) -> *mut u8;
        }
    };
}

#[cfg(redirects)]
pub(crate) use __c_malloc_other_names as for_other_names;

/// The alignment of every block of `malloc`.
pub(crate) const MIN_ALIGN: usize = 16;

/// Calls within the allocator below.
#[cfg(c_mmap)]
mod inner {
    use crate::platform::own_thread::{self, ValueOffset};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// The first address of a library, and their number: 0 as long as there is none.
    pub type Addresses = [AtomicUsize; 2];

    /// The library that has the next `malloc`.
    pub static ALLOCATOR: Addresses = [const { AtomicUsize::new(0) }; 2];

    /// Whether a library that is not the C library defines functions of `malloc`: an allocator, one that
    /// looks for errors. If these call each other, they call the program's.
    pub static IS_NESTED: AtomicBool = AtomicBool::new(false);

    /// These libraries.
    pub(super) static NESTED: [Addresses; 8] = [const { [const { AtomicUsize::new(0) }; 2] }; 8];

    /// What runs of an allocator.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Running {
        /// Where the outermost call is on the stack; [`ANYWHERE`](Self::ANYWHERE) for one that ends only by
        /// its return; 0 for none.
        pub(crate) frame: usize,
        /// How many calls of redirected functions within it have not returned.
        pub(crate) inner: usize,
    }

    impl Running {
        const NONE: Self = Self { frame: 0, inner: 0 };
        const ANYWHERE: Self = Self { frame: usize::MAX, inner: 0 };

        /// Whether a call of a redirected function is said to run.
        #[cfg(redirects)]
        pub(crate) fn is_call(self) -> bool {
            ![0, usize::MAX].contains(&self.frame)
        }

        #[inline(always)]
        fn is_there(self) -> bool {
            self.frame == usize::MAX || self.frame != 0 && self.has_frame()
        }

        /// Whether the call can still run: a `longjmp` ends it without a sign.
        #[cold]
        fn has_frame(self) -> bool {
            /// More than functions of an allocator use of a stack.
            const MAX_DISTANCE: usize = 1 << 20;
            let here = 0_u8;
            self.frame.wrapping_sub((&raw const here).addr()) < MAX_DISTANCE
        }
    }

    thread_local! {
        /// Whether the allocator below the tracker's runs on this thread: what it maps is for its blocks.
        static RUNNING: Cell<Running> = const { Cell::new(Running::NONE) };
    }

    static PLACE: ValueOffset = ValueOffset::new();

    /// *Hook.* Runs a function of the allocator below the tracker's.
    #[inline(always)]
    pub(crate) fn in_allocator<R>(call: impl FnOnce() -> R) -> R {
        let before = begin();
        let result = call();
        end(before);
        result
    }

    /// Says that such a function runs; returns what was said before.
    #[inline(always)]
    pub(super) fn begin() -> Running {
        own_thread::get(&RUNNING, &PLACE).map_or(Running::NONE, |it| it.replace(Running::ANYWHERE))
    }

    /// Reverts [`begin`].
    #[inline(always)]
    pub(super) fn end(before: Running) {
        if let Some(it) = own_thread::get(&RUNNING, &PLACE) {
            it.set(before);
        }
    }

    /// *Hook.* What runs on this thread; `None` if it has no memory for that.
    #[cfg(redirects)]
    pub(crate) fn running() -> Option<&'static Cell<Running>> {
        own_thread::get(&RUNNING, &PLACE)
    }

    /// *Hook.* Whether such a function runs on this thread.
    pub(crate) fn is_in_allocator() -> bool {
        own_thread::get(&RUNNING, &PLACE).is_some_and(|it| it.get().is_there())
    }

    /// Notes an object whose functions may call those that are recorded, in the place of one that was where
    /// it is; `false` if there is no room.
    #[cfg(not(target_feature = "crt-static"))]
    pub(crate) fn note_nested((from, to): (usize, usize)) -> bool {
        let is_for = |[start, bytes]: &&Addresses| {
            let [start, bytes] = [start, bytes].map(|number| number.load(Ordering::Relaxed));
            start == 0 || start < to && from < start + bytes
        };
        let Some([start, bytes]) = NESTED.iter().find(is_for) else { return false };
        bytes.store(0, Ordering::Relaxed);
        start.store(from, Ordering::Relaxed);
        bytes.store(to - from, Ordering::Relaxed);
        IS_NESTED.store(true, Ordering::Relaxed);
        true
    }

    /// *Hook.* Whether a call of `malloc` that returns to this address is a part of another one: it comes
    /// from one of these libraries, or, if that was its last act, returns to what had called it (`calling`).
    /// A signal handler that allocates meanwhile is elsewhere.
    pub(crate) fn is_inner(caller: usize) -> bool {
        let has_caller = |[start, bytes]: &Addresses| {
            caller.wrapping_sub(start.load(Ordering::Relaxed)) < bytes.load(Ordering::Relaxed)
        };
        is_in_allocator()
            && (super::functions::calling().contains(&caller) || NESTED.iter().any(has_caller))
    }
}

// NOTE: after the macro above, which one of them uses.
#[cfg(target_feature = "crt-static")]
mod by_linker;
#[cfg(not(target_feature = "crt-static"))]
mod by_loader;
