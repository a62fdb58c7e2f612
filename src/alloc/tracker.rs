//! The type that goes behind `#[global_allocator]`.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

#[cfg(feature = "enable")]
use super::hook;
use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator that passes every call on to another one and records it.
///
/// ```
/// use memledger::TrackingAllocator;
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
/// # fn main() {}
/// ```
///
/// The layout is passed on unchanged, without a header or a trailer, so a block may be freed by
/// whoever could free it before. A null from the inner allocator is passed on and, while something
/// is recorded, counted.
///
/// # What one allocation costs
/// 1. The inner allocator's own time.
/// 2. A load of the state. Nothing is recorded: that was all.
/// 3. A load of this thread's slot from thread-local storage; a test and a store of its guard; a
///    test that its block has room.
/// 4. The event's place in the order: a load of one word that all threads share and seldom write,
///    and of one that the threads share which use the same 1 MiB of addresses. Where another
///    thread was there in between, a compare-exchange on either.
/// 5. An allocation: a comparison of the scope this thread is in with the one last written; if it
///    is another, 7 to 8 bytes say so.
/// 6. Three stores for an allocation (22 bytes), two for a free (13 bytes).
/// 7. One release store that publishes them, and one that clears the guard.
///
/// 40 instructions for an allocation, 30 for a free, none of them locked: 2 to 4 ns each where the
/// program's memory is in the caches (`cargo bench -p memledger-benches --bench hook` measures it).
/// Where the program waits for memory, any instruction more costs more; the bench shows what as many
/// that do nothing cost. Every 32 KiB of events the thread takes a fresh block;
/// if the worker has fallen behind, it waits for one, as [`OnFull`](crate::OnFull) says.
///
/// # In a library that is loaded and unloaded
/// A `cdylib` that contains this allocator stays loaded until the process ends: `dlclose` returns, and
/// does not unmap the library. The tracker's code runs when threads and the process end, and on threads
/// of its own, so it must stay mapped. The library's statics are therefore destroyed at exit. The next
/// `dlopen` of the same path returns the same library, with its current recording, and ignores a file
/// that has replaced it. Each copy under another name stays loaded, too, with 1 MiB of addresses, some
/// more while it records, and one of the process's 1,024 thread keys. A host that replaces code while
/// it runs should link the tracker itself.
///
/// The library may be loaded with `RTLD_LOCAL` or from several threads, and the host may free its
/// blocks if it could free them without the tracker. (The tracker's build script cannot link the
/// library with `-z nodelete`, which has the same effect: `cargo:rustc-link-arg` does not reach
/// dependent crates.)
///
/// Recording begins with the first call, before `main`: up to 1 MiB of events is kept for a
/// [`Ledger`](crate::Ledger) that starts later, then dropped if none has.
#[derive(Debug, Default)]
pub struct TrackingAllocator<A = System> {
    inner: A,
    #[cfg_attr(not(feature = "enable"), expect(dead_code, reason = "nothing starts"))]
    ignore_environment: bool,
}

impl TrackingAllocator<System> {
    /// Records the calls of the system's allocator.
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> TrackingAllocator<A> {
    /// Records the calls of `inner`.
    pub const fn new(inner: A) -> Self {
        Self { inner, ignore_environment: false }
    }

    /// Does not start by itself, whatever the `MEMLEDGER_*` variables say.
    ///
    /// [`Ledger::from_env`](crate::Ledger::from_env) still looks at them.
    pub const fn ignore_environment(self) -> Self {
        // NOTE: a constant function may not move out of a value whose type might have a
        // destructor, so it is copied and forgotten.
        // SAFETY: `self` is forgotten, so there is still one of it.
        let inner = unsafe { std::ptr::read(&raw const self.inner) };
        std::mem::forget(self);
        Self { inner, ignore_environment: true }
    }
}

#[cfg(feature = "enable")]
// SAFETY: every call is passed on to the inner allocator with its arguments unchanged, and its
// result is returned unchanged. The hook neither unwinds nor allocates.
//
// PERF: each method is a look at the state and a tail call, either to the inner allocator or to
// the function below of the same name. So while nothing is recorded no register is saved
// around the inner call: a load and a branch that is always predicted is all there is.
unsafe impl<A: GlobalAlloc> GlobalAlloc for TrackingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if hook::is_on() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { Self::alloc_recorded(layout, self) };
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if hook::is_on() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { Self::alloc_zeroed_recorded(layout, self) };
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if hook::is_on() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { Self::dealloc_recorded(pointer, layout, self) };
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if hook::is_on() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { Self::realloc_recorded(pointer, layout, new_size, self) };
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.realloc(pointer, layout, new_size) }
    }
}

/// The methods of the allocator while something is recorded. What they are called with stands in
/// front of the allocator, as in `malloc` and `free`, so that a tail call to either moves nothing.
#[cfg(feature = "enable")]
impl<A: GlobalAlloc> TrackingAllocator<A> {
    #[inline(never)]
    unsafe fn alloc_recorded(layout: Layout, this: &Self) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        this.record(unsafe { this.inner.alloc(layout) }, layout)
    }

    #[inline(never)]
    unsafe fn alloc_zeroed_recorded(layout: Layout, this: &Self) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        this.record(unsafe { this.inner.alloc_zeroed(layout) }, layout)
    }

    #[inline(never)]
    unsafe fn dealloc_recorded(pointer: *mut u8, layout: Layout, this: &Self) {
        // SAFETY: the caller's promise is passed on.
        unsafe { hook::free(&this.inner, pointer, layout) };
    }

    #[inline(never)]
    unsafe fn realloc_recorded(
        pointer: *mut u8,
        layout: Layout,
        new_size: usize,
        this: &Self,
    ) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let new = unsafe { hook::realloc(&this.inner, pointer, layout, new_size) };
        if new.is_null() { hook::failed() } else { new }
    }

    #[inline(always)]
    fn record(&self, pointer: *mut u8, layout: Layout) -> *mut u8 {
        if pointer.is_null() {
            return hook::not_allocated(layout, self.ignore_environment);
        }
        hook::allocated(pointer, layout, &self.ignore_environment)
    }
}

#[cfg(not(feature = "enable"))]
// SAFETY: every call is passed on to the inner allocator.
unsafe impl<A: GlobalAlloc> GlobalAlloc for TrackingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.dealloc(pointer, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.realloc(pointer, layout, new_size) }
    }
}
