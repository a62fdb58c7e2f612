//! Whether the program has asked for a filter of its system calls (seccomp). It may end a thread for a call
//! that the program itself never makes. So from then on, the program's threads ask the kernel nothing for the
//! tracker.

use crate::platform::own_thread::{self, ValueOffset};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many filters the program has asked for.
static FILTERS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread is one of the tracker, which was made before any filter.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

static PLACE: ValueOffset = ValueOffset::new();

/// The program is about to ask for a filter.
#[cfg(c_filter)]
pub(crate) fn add_filter() {
    FILTERS.fetch_add(1, Ordering::SeqCst);
}

/// The kernel has refused it.
#[cfg(c_filter)]
pub(crate) fn remove_filter() {
    FILTERS.fetch_sub(1, Ordering::SeqCst);
}

/// *Hook.* Whether the program has asked for a filter.
#[inline]
pub(crate) fn is_filtered() -> bool {
    FILTERS.load(Ordering::Relaxed) != 0
}

/// *Hook.* Whether this thread may not ask the kernel anything: it is the program's, and may have a filter.
#[inline]
pub(crate) fn is_kernel_closed() -> bool {
    is_filtered() && !is_own_thread()
}

/// NOTE: not inlined. The compiler takes the address of a thread-local value for something that it may ask
/// for too early, in the hook, where the loader may call `malloc` for it. And a function as of C, so that its
/// callers, some of which C calls, have no path that panics in case this one does.
#[cold]
#[inline(never)]
extern "C" fn is_own_thread() -> bool {
    own_thread::get(&IS_OURS, &PLACE).is_some_and(Cell::get)
}

/// Called by each thread of the tracker at its start.
pub(super) fn note_own_thread() {
    if let Some(is_ours) = own_thread::get(&IS_OURS, &PLACE) {
        is_ours.set(true);
    }
}
