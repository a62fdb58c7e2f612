//! The handle a program holds, which without a tracker starts nothing.

#[path = "../../ledger/builder.rs"]
mod builder;
#[path = "../../ledger/config.rs"]
mod config;
#[path = "../../ledger/destinations/mod.rs"]
mod destinations;
#[path = "../../ledger/handle.rs"]
mod handle;
mod operations;
mod own_report;
#[path = "../../ledger/report_to.rs"]
mod report_to;
#[path = "../../ledger/snapshot.rs"]
mod snapshot;
#[cfg(feature = "perfetto")]
#[path = "../../ledger/tracing_session.rs"]
mod tracing_session;
#[path = "../../ledger/without_threads.rs"]
mod without_threads;

pub use config::{OnFull, Stacks, Worker};
#[cfg(feature = "perfetto")]
pub use tracing_session::*;
pub use without_threads::*;
pub use {builder::*, destinations::*, handle::*, report_to::*, snapshot::*};

pub(crate) use operations::refusal;
