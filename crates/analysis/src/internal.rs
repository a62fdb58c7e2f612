//! What formats are made of. For `memledger-export` and the command only: no interface.

pub use crate::hash::IntMap;
