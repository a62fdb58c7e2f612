//! The machine: its clock and system calls, and lock-free tables in memory that the tracker maps
//! itself.

pub(crate) mod bucket;
pub(crate) mod chunk_table;
pub(crate) mod clock;
pub(crate) mod delays;
pub(crate) mod free_stack;
pub(crate) mod os;
pub(crate) mod own_thread;
pub(crate) mod static_table;
#[cfg(feature = "perfetto")]
pub(crate) mod ticks;
pub(crate) mod whole_pages;

/// What `bucket.rs` imports; the model of it has other atomics here.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU32, Ordering};
}
