//! The tracking allocator, for `#[global_allocator]`.
#![expect(unsafe_code, reason = "a value is copied and forgotten")]

use super::below::Below;
use std::alloc::System;

/// An allocator that forwards each call to another allocator and records it.
///
/// ```
/// use memledger::TrackingAllocator;
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
/// # fn main() {}
/// ```
///
/// The layout is forwarded unchanged, without a header or a trailer, so code that can free a block
/// in a program without the tracker can still free it. A null of the inner allocator is returned,
/// and counted while something is recorded.
///
/// # What one allocation costs
/// 1. The inner allocator's own time.
/// 2. A load of the state. If nothing is recorded, this is all.
/// 3. A load of this thread's slot from thread-local storage, a test and a store of its reentrancy
///    guard, and a test that its buffer has room.
/// 4. The event's place in the order: a load of the global clock, which all threads share and
///    seldom write, and of the clock of the block's region (1 MiB of addresses), which the threads
///    that use the region share. If another thread has advanced either clock since, a
///    compare-exchange on that clock.
/// 5. For an allocation, a comparison of the thread's context with that of its stream. If they
///    differ, 7 to 8 bytes of events for the change.
/// 6. Three stores for an allocation (22 bytes), two for a free (13 bytes).
/// 7. One release store that publishes them, and one that clears the guard.
///
/// That is 114 instructions for an allocation and its free beyond those of `System`
/// (`scripts/hook_instructions.sh` counts them), none of them locked: 2 to 4 ns each if the program's
/// memory is in the caches (`cargo bench -p memledger-benches --bench hook` measures it). If the
/// program waits for memory, each additional instruction costs more; for comparison, the bench also
/// measures instructions without effect. After each
/// 32 KiB of events the thread takes a new buffer. If none is free, it waits for the worker, as
/// [`OnFull`](crate::OnFull) sets.
///
/// # In a library that is loaded and unloaded
/// A `cdylib` that contains this allocator stays loaded until the process ends: `dlclose` returns,
/// and does not unmap the library. The tracker's code runs when threads and the process end, and on
/// threads of its own, so it must stay mapped. The library's statics are therefore destroyed at
/// exit. The next `dlopen` of the same path returns the same library, with its current recording,
/// and ignores a file that has replaced it. Each copy under another name also stays loaded. It
/// keeps 1 MiB of address space, some more while it records, and one of the process's 1,024 thread
/// keys. A host that replaces code while it runs should link the tracker itself.
///
/// The library may be loaded with `RTLD_LOCAL` or from several threads. The host may free the
/// library's blocks if it could do so in a build without the tracker. (The tracker's build script
/// cannot link the library with `-z nodelete`, which has the same effect: `cargo:rustc-link-arg`
/// does not reach dependent crates.)
///
/// A tracker around a tracker (`TrackingAllocator::new(TrackingAllocator::system())`) records nothing itself:
/// each block is counted once, by the inner one, whose [`ignore_environment`](Self::ignore_environment)
/// counts.
///
/// Recording begins with the first call, before `main`. Up to 1 MiB of events are kept for a
/// [`Ledger`](crate::Ledger) that starts later; if there are more before one has started, all of
/// them are dropped.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct TrackingAllocator<A = System> {
    pub(super) inner: Below<A>,
    #[allow(dead_code, reason = "without a tracker, nothing starts")]
    pub(super) ignore_environment: bool,
}

impl TrackingAllocator<System> {
    /// Records calls, and forwards them to the system's allocator. [`TrackingAllocator`] has an example.
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> TrackingAllocator<A> {
    /// Records calls, and forwards them to `inner`.
    /// [`ignore_environment`](Self::ignore_environment) has an example.
    pub const fn new(inner: A) -> Self {
        Self { inner: Below(inner), ignore_environment: false }
    }

    /// The allocator that calls are forwarded to.
    ///
    /// ```
    /// use memledger::TrackingAllocator;
    /// use std::alloc::System;
    ///
    /// static ALLOC: TrackingAllocator = TrackingAllocator::system();
    /// let System = ALLOC.inner();
    /// ```
    pub const fn inner(&self) -> &A {
        &self.inner.0
    }

    /// Makes the tracker ignore the `MEMLEDGER_*` variables before `main`.
    ///
    /// [`Ledger::from_env`](crate::Ledger::from_env) still reads them.
    ///
    /// ```
    /// use memledger::TrackingAllocator;
    /// use std::alloc::System;
    ///
    /// // Over another allocator; only the program says what is recorded.
    /// #[global_allocator]
    /// static ALLOC: TrackingAllocator = TrackingAllocator::new(System).ignore_environment();
    /// # fn main() {}
    /// ```
    pub const fn ignore_environment(self) -> Self {
        // NOTE: a constant function cannot move out of a value whose type may have a destructor, so
        // the value is copied and forgotten.
        // SAFETY: `self` is forgotten, so only one copy of the value is used.
        let inner = unsafe { std::ptr::read(&raw const self.inner) };
        std::mem::forget(self);
        Self { inner, ignore_environment: true }
    }
}
