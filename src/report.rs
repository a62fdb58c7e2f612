//! Reports: what a trace says, and how it is written.
//!
//! The crates [`memledger-analysis`](https://docs.rs/memledger-analysis), with `memledger-document`, and
//! [`memledger-export`](https://docs.rs/memledger-export), for a program that makes a
//! [`Snapshot`](crate::Snapshot).

#[doc(no_inline)]
pub use memledger_analysis::*;
#[doc(no_inline)]
pub use memledger_export::*;
