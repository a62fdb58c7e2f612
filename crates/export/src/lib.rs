//! Writes what a trace says: as text, JSON, a page for a browser, and in the formats of other tools.
//!
//! Most are made from a [`Report`](memledger_document::Report) alone: [`OWN_FORMATS`] are those that a
//! program writes of itself, `tools::FORMATS` are all. Perfetto, dhat and heaptrack see each block as well.
#![warn(missing_debug_implementations, missing_docs, clippy::unwrap_used)]
#![forbid(unsafe_code)]
// Without them, helpers of what they bring have no user.
#![cfg_attr(
    not(all(
        feature = "diff",
        feature = "html",
        feature = "perfetto",
        feature = "pprof",
        feature = "query",
        feature = "tools"
    )),
    allow(dead_code, unused_imports)
)]

mod buckets;
mod column;
#[cfg(feature = "diff")]
pub mod diff;
#[doc(hidden)]
pub mod findings;
mod format;
mod formats;
#[cfg(feature = "html")]
pub mod html;
mod interner;
pub mod json;
mod missing;
mod names;
mod options;
#[cfg(feature = "perfetto")]
pub mod perfetto;
#[cfg(feature = "pprof")]
pub mod pprof;
mod pretty;
#[cfg(feature = "query")]
pub mod query;
pub mod text;
#[cfg(feature = "tools")]
pub mod tools;
mod units;

pub use format::ReportFormat;
pub use formats::{Formats, OWN_FORMATS};

// For other crates of memledger only: no interface.
#[doc(hidden)]
pub mod parts;
