//! Reads memory traces of memledger and of Unreal Engine: who holds which memory, now and at the peak.
//!
//! An [`Analyzer`] is a [`Visitor`](crate::read::Visitor): it receives events in the one
//! order all readers share, from a file or from the process itself, and can give a [`Report`] at
//! any time.
//!
//! ```text
//! event ──► decode        what its type means, found once by name; its fields
//!       ──► apply         allocations and frees are queued, prefetched and applied in batches
//!       ──► attribution   which thread, in which context: scopes, group and name
//!       ──► live_set      the block at this address
//!       ──► accounts      the rows that the block counts in, and their peaks
//!                         ... and on demand a report from all of it: report
//! ```
//!
//! [`read`] gets events from bytes, [`convert`] writes a trace in another form. `memledger-export` writes a
//! report: as text, JSON, a page for a browser, and for other tools.
//!
//! One event costs one look-up in the live set and a handful of additions; memory grows with live
//! blocks (22 to 40 bytes each, as a rule) and rows, not with events. Event types are recognised by
//! *name*, so that traces of other writers can be read; [`Analyzer`] lists the events that only our
//! writer has.
//!
//! Nothing here panics on malformed input. Inconsistencies are counted in [`Losses`] or noted in
//! [`Analyzer::problems`].
#![warn(missing_debug_implementations, missing_docs, clippy::unwrap_used)]
#![forbid(unsafe_code)]
// Without them, helpers of what they bring have no user.
#![cfg_attr(
    not(all(feature = "diff", feature = "query", feature = "read", feature = "symbols")),
    allow(dead_code, unused_imports)
)]

mod accounts;
#[cfg(feature = "read")]
mod add_symbols;
mod analyzer;
mod apply;
mod attribution;
mod build;
mod callstacks;
#[cfg(feature = "read")]
pub mod convert;
mod coverage;
mod cutoff;
mod decode;
mod diagnostics;
#[cfg(feature = "diff")]
mod diff;
mod facts;
mod findings;
mod hash;
mod initial_live_set;
mod live_set;
mod llm_tags;
mod measured;
mod observer;
#[cfg(feature = "query")]
mod query;
pub mod read;
mod rss;
mod symbols;
mod timeline;
mod untracked;

#[cfg(feature = "read")]
pub use add_symbols::{Symbolized, add_symbols};
pub use analyzer::Analyzer;
pub use cutoff::{Position, Reached};
#[cfg(feature = "diff")]
pub use diff::{Compare, stable_function};
pub use findings::FindingsObserver;
pub use memledger_document::*;
pub use memledger_format as format;
pub use memledger_format::{Error, ErrorKind};
pub use observer::{Actor, BlockChange, BlockEvent, BlockObserver, NoObserver};
#[cfg(feature = "query")]
pub use query::{
    Answer, BlockLife, BlockLives, Found, FoundBlock, IndexLimits, IndexRow, Indexed,
    IndexedPosition, LargestBlocks, LifetimeRow, Query, QueryIndex, QueryIndexer, QueryObserver,
    Rule, ScopeRun, ScopeRuns, SingleBlock, StepMoment, StepStart, Unanswered,
};
#[cfg(feature = "symbols")]
pub use symbols::Binaries;
pub use timeline::bookmark_text;

// For other crates of memledger only: no interface.
#[doc(hidden)]
pub mod in_process;
#[doc(hidden)]
pub mod internal;
