//! The handle a program holds: it starts and ends a recording, reads its figures and writes its
//! report.
//!
//! Only this module uses both sides: it starts the writing side, passes the packets of that side to
//! the reading side in the same process, and prints the result.

mod applied;
mod begin;
mod black_box;
mod builder;
#[cfg(c_identity)]
#[doc(hidden)]
pub mod c_identity;
mod config;
mod control;
mod destinations;
pub(crate) mod entry;
pub(crate) mod environment;
mod exit;
mod files;
mod fork;
#[cfg(any(feature = "pprof", feature = "perfetto"))]
mod functions;
#[cfg(feature = "__fuzzing")]
pub(crate) mod fuzzing;
mod handle;
pub(crate) mod in_process;
mod late_join;
mod operations;
mod own_report;
mod pause;
mod problems;
#[cfg(feature = "pprof")]
mod profile;
pub(crate) mod recording;
pub(crate) mod report;
mod report_to;
mod settings;
mod signals;
mod snapshot;
pub(crate) mod start;
mod stats;
pub(crate) mod stop;
mod watch;
mod without_threads;

pub use builder::LedgerBuilder;
pub use config::{OnFull, Stacks, Worker};
pub use destinations::{Destination, DestinationHandle, DestinationState, DestinationStatus};
pub use handle::Ledger;
pub use report_to::ReportTo;
pub use snapshot::{Snapshot, Stats};
pub use without_threads::without_threads;
