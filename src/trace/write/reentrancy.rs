//! The reentrancy guard: while it is held, what this thread allocates is the tracker's own memory
//! and is counted as overhead, not recorded as an event.
//!
//! Each value is allocated and freed under the same rule. If the program passes a value in, the tracker
//! copies it with the guard held and drops the original without it. If the program gets a value back,
//! the tracker copies it without the guard, or the value holds the guard while it is dropped
//! (`Snapshot`).

use super::registry;
use super::slot::NO_SLOT;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

/// Whether the guard is held on this thread.
pub(crate) fn is_untracked() -> bool {
    registry::own().is_some_and(|thread| thread.untracked.get() > 0)
}

/// Runs `body` with the guard held, and drops the values that `body` holds before the guard ends.
pub(crate) fn untracked<R>(body: impl FnOnce() -> R) -> R {
    let _untracked = ReentrancyGuard::enter();
    body()
}

/// Held while the tracker's own code runs on a thread. May be nested.
pub(crate) struct ReentrancyGuard(PhantomData<*const ()>);

impl ReentrancyGuard {
    pub(crate) fn enter() -> Self {
        if let Some(thread) = registry::own() {
            let depth = thread.untracked.get();
            // NOTE: raises the depth before it takes the slot away; `drop` does the reverse.
            // Otherwise a signal handler that allocates in between would find a thread without a
            // slot, and register it again.
            thread.untracked.set(depth + 1);
            compiler_fence(Ordering::SeqCst);
            if depth == 0 {
                // Without its slot the thread cannot pass the fast path of the hook.
                thread.suspended.set(thread.slot.replace(&NO_SLOT));
            }
        }
        Self(PhantomData)
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        if let Some(thread) = registry::own() {
            let depth = thread.untracked.get();
            if depth == 1 {
                thread.slot.set(thread.suspended.replace(&NO_SLOT));
            }
            compiler_fence(Ordering::SeqCst);
            thread.untracked.set(depth.saturating_sub(1));
        }
    }
}
