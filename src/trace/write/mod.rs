//! The writing half of the stream, as it runs inside the threads of the program.
//!
//! A thread records an event in these steps:
//! 1. [`enter`]: it loads its slot, sets the guard in it, and checks that there is room. If one of
//!    these fails (no slot yet, entered already, buffer full), [`enter_cold`] takes the slow path.
//! 2. [`sync::is_current`]: two loads that say whether the thread is in a current epoch, and
//!    whether anything is recorded. If not, the thread [synchronises](sync::synchronize).
//! 3. It writes the event after the cursor, with the low bits of the epoch in place of the serial.
//! 4. [`ThreadSlot::commit`]: one release store, after which the worker can read the event.
//! 5. [`leave`]: it clears the guard.
//!
//! Nothing on this path allocates, locks, panics or formats. An event that cannot be recorded is
//! dropped and counted ([`loss`]).

pub(crate) mod backpressure;
pub(crate) mod buffer;
pub(crate) mod buffer_pool;
pub(crate) mod clocks;
pub mod declared;
mod enter;
pub(crate) mod hold;
pub(crate) mod loss;
pub(crate) mod order;
pub(crate) mod program;
pub(crate) mod quiesce;
mod reentrancy;
pub(crate) mod registry;
pub(crate) mod reserve;
pub(crate) mod shortage;
pub(crate) mod slot;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod watch;

/// The atomics of [`order`]. The model of `order` replaces them by its own.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

pub(crate) use enter::{
    SlowEntry, await_runtime, enter, enter_cold, leave, pause_inside, resume_inside,
};
pub(crate) use reentrancy::{ReentrancyGuard, is_untracked, untracked};
pub(crate) use slot::ThreadSlot;
