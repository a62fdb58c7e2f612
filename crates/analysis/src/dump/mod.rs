//! Writes a report for people or for programs.
//!
//! Text, JSON, the page, pprof and Perfetto's memory packets are here, because a program writes them of
//! itself. The formats of other tools are in `memledger-export`.
#![forbid(unsafe_code)]

pub(crate) mod buckets;
#[cfg(feature = "diff")]
pub mod diff;
#[doc(hidden)]
pub mod figures;
mod findings;
pub(crate) mod format;
mod formats;
#[cfg(feature = "html")]
pub mod html;
pub(crate) mod interner;
pub mod json;
mod json_findings;
mod json_stacks;
mod missing;
mod options;
#[cfg(feature = "perfetto")]
pub mod perfetto;
#[cfg(feature = "pprof")]
pub mod pprof;
#[doc(hidden)]
pub mod pretty;
#[cfg(feature = "query")]
pub mod query;
pub mod text;

pub use format::ReportFormat;
pub use formats::{FORMATS, Formats};
