//! What formats are made of. For `memledger-export` and the command only: no interface.

pub use crate::attribution::{GLOBAL_SCOPE, WHOLE_PROGRAM};
pub use crate::columns::{COLUMNS, Column, Shown, Weights, column};
pub use crate::hash::IntMap;
pub use crate::measured::Holder;
pub use crate::report::{CallKind, Calls, GUESS, end_of_angles, split_outside};

/// Sorting that is compiled once.
pub mod sort {
    pub use crate::sort::{by, by_key};
}
