//! The machine: its clock and system calls, and lock-free tables in memory that the tracker maps
//! itself.

pub(crate) mod chunk_table;
pub(crate) mod clock;
pub(crate) mod free_stack;
pub(crate) mod os;
pub(crate) mod own_thread;
pub(crate) mod static_table;
#[cfg(feature = "perfetto")]
pub(crate) mod ticks;
