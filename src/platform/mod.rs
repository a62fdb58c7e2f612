//! What the tracker needs of the machine it runs on.

pub(crate) mod chunk_table;
pub(crate) mod clock;
pub(crate) mod free_stack;
pub(crate) mod os;
