//! What formats are made of. For `memledger-export` and the command only: no interface.

pub use crate::columns::Weights;
pub use crate::dump::buckets::{figures_of, notes, scope_frames};
pub use crate::dump::format::Sealed;
pub use crate::dump::interner::Interner;
pub use crate::dump::pretty;
pub use crate::report::{Calls, GUESS};
