//! The memory tracker a Rust program can leave on.

#![warn(missing_docs)]

mod alloc;
#[cfg(feature = "analysis")]
pub mod analysis;
#[cfg(feature = "analysis")]
pub mod dump;
mod error;
mod ledger;
mod scopes;
pub mod trace;

pub use alloc::TrackingAllocator;
pub use error::Error;
pub use ledger::{Ledger, LedgerBuilder, OnFull, Report, Snapshot, Stats, Worker};
#[doc(hidden)]
pub use scopes::NameOf;
pub use scopes::{Group, Name, ScopeGuard, Tag, tagged};
