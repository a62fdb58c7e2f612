//! What formats are made of, and what a program writes beside its report. For `memledger` and the command
//! only: no interface.

pub use crate::interner::Interner;
#[cfg(feature = "pprof")]
pub use crate::pprof::heap_profile;
pub use crate::text::{HolderColumn, functions, holders};
pub use crate::units::Bytes;
