//! What a program needs that analyses itself. For `memledger` only: no interface.

pub use crate::build::{HeldBy, TopHolder, TopLive, write_plain};
pub use crate::dump::figures;
#[cfg(feature = "pprof")]
pub use crate::dump::pprof::heap_profile;
pub use crate::dump::text::{Bytes, HolderColumn, functions, holders};
pub use crate::measured::{Baseline, Holder, Holders, MeasuredFigures};
pub use crate::report::{GUESS, is_allocation_entry, is_folded_by_name};
