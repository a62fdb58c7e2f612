//! What a program needs that analyses itself. For `memledger` only: no interface.

pub use crate::build::{HeldBy, TopHolder, TopLive, write_plain};
pub use crate::measured::{Baseline, Holders, MeasuredFigures};
pub use memledger_document::internal::GUESS;
