//! Whether the tracker is this program's allocator, and the start that the environment asks for.
//!
//! With the allocator linked and a `MEMLEDGER_*` variable set, a program is tracked from before
//! `main` with no line of code. One function that the system calls before `main` looks at the
//! environment (`os::keep_before_main`), never the hook.

use crate::platform::os;
use std::sync::atomic::{AtomicBool, Ordering};

static CALLED: AtomicBool = AtomicBool::new(false);
static IGNORE_ENVIRONMENT: AtomicBool = AtomicBool::new(false);

/// The tracker has been called, by a program that wants the environment ignored or not.
pub(crate) fn note(ignore_environment: bool) {
    IGNORE_ENVIRONMENT.store(ignore_environment, Ordering::Relaxed);
    if !CALLED.swap(true, Ordering::Release) {
        // Refers to the entry from code that the allocator needs: a linker takes the objects of a
        // library by need, and nothing else would need that one.
        os::keep_before_main();
    }
}

/// Whether a program's own allocations come to the tracker: makes one and looks.
///
/// Call it with the guard set and recording not off, so that the call goes the slow way.
pub(crate) fn is_global_allocator() -> bool {
    CALLED.store(false, Ordering::Release);
    drop(std::hint::black_box(Box::new(0_u64)));
    CALLED.load(Ordering::Acquire)
}

/// Whether the program refused to be started by its environment; known once it has allocated.
pub(crate) fn ignores_environment() -> bool {
    IGNORE_ENVIRONMENT.load(Ordering::Relaxed)
}
