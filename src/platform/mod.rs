//! The machine: its clock and system calls, and lock-free memory that is mapped by the tracker.

pub(crate) mod chunk_table;
pub(crate) mod clock;
pub(crate) mod free_stack;
pub(crate) mod os;
