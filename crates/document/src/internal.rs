//! What reports are made and written with. For other crates of memledger only: no interface.

pub use crate::calls::{Call, CallKind, Calls, GUESS, Pieces, Unnamed};
pub use crate::crates::{
    crate_of, crate_of_file, end_of_angles, is_folded, is_last_part, last_part, last_space,
    of_all_generics, parameters, split_outside, with_module,
};
pub use crate::estimate::{Sample, Weights};
pub use crate::figures::by_key;
pub use crate::findings::{is_share, millionths};
pub use crate::place::is_main;
pub use crate::rows::{GLOBAL_SCOPE, WHOLE_PROGRAM, order};
pub use crate::stacks::TakenStacks;
pub use crate::statics::{FilePages, rows as static_variables};
pub use crate::tree::StackTree;
pub use crate::untracked::MAX_REASONS;

/// Sorting that is compiled once.
pub mod sort {
    pub use crate::sort::{by, by_key};
}
