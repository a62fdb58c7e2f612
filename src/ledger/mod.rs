//! The handle a program holds: it starts and ends a recording, reads its figures and writes its
//! report.
//!
//! Only this module uses both sides: it starts the writing side, passes the packets of that side to
//! the reading side in the same process, and prints the result.

mod builder;
mod config;
mod control;
mod destinations;
pub(crate) mod entry;
mod handle;
mod operations;
#[cfg_attr(not(report), path = "../disabled/ledger/own_report.rs")]
mod own_report;
pub(crate) mod problem;
mod problems;
pub(crate) mod recording;
mod report_to;
#[cfg_attr(not(report), path = "../disabled/ledger/reports/mod.rs")]
pub(crate) mod reports;
mod set_clock;
pub(crate) mod settings;
mod snapshot;
mod without_threads;

pub use builder::LedgerBuilder;
pub use config::{Limit, OnFull, Stacks, Worker};
pub use destinations::{Destination, DestinationHandle, DestinationState, DestinationStatus};
pub use handle::Ledger;
pub use problem::{FinishError, Problem, ProblemKind};
pub use report_to::ReportTo;
#[cfg(not(report))]
pub(crate) use reports::refusal;
pub use set_clock::set_clock;
pub use snapshot::{Figures, Snapshot, Stats};
pub use without_threads::without_threads;
