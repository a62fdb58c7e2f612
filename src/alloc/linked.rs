//! Whether the tracker is this program's allocator, and whether the environment may start it.
//!
//! A program that links the allocator is tracked from before `main` if a `MEMLEDGER_*` variable is
//! set. The function that reads the environment is called by the system before `main`
//! (`os::keep_before_main`), not by the hook.

use crate::platform::os;
use std::sync::atomic::{AtomicBool, Ordering};

static CALLED: AtomicBool = AtomicBool::new(false);
static IGNORE_ENVIRONMENT: AtomicBool = AtomicBool::new(false);

/// Notes that the tracker was called, and whether the program wants the environment ignored.
pub(crate) fn note(ignore_environment: bool) {
    IGNORE_ENVIRONMENT.store(ignore_environment, Ordering::Relaxed);
    if !CALLED.swap(true, Ordering::Release) {
        // A linker includes an object of a library only if something refers to that object. Nothing
        // else refers to the function that runs before `main`.
        os::keep_before_main();
    }
}

/// Whether the program's allocations reach the tracker. Makes an allocation to find out.
///
/// Must be called with the reentrancy guard set and recording not off, so that the allocation takes
/// the slow path, which calls [`note`].
pub(crate) fn is_global_allocator() -> bool {
    CALLED.store(false, Ordering::Release);
    drop(std::hint::black_box(Box::new(0_u64)));
    CALLED.load(Ordering::Acquire)
}

/// Whether the program wants the environment ignored; known after its first allocation.
pub(crate) fn ignores_environment() -> bool {
    IGNORE_ENVIRONMENT.load(Ordering::Relaxed)
}
