//! What formats are made of. For `memledger` and the command only: no interface.

pub use crate::buckets::figures_of;
pub use crate::interner::Interner;
#[cfg(feature = "pprof")]
pub use crate::pprof::heap_profile;
pub use crate::text::{HolderColumn, functions, holders};
pub use crate::units::Bytes;
