//! The handle a program holds, which without a tracker starts nothing.

#[path = "../../ledger/builder.rs"]
mod builder;
#[path = "../../ledger/config.rs"]
mod config;
mod destinations;
#[path = "../../ledger/handle.rs"]
mod handle;
mod operations;
mod own_report;
#[path = "../../ledger/problem.rs"]
mod problem;
#[path = "../../ledger/report_to.rs"]
mod report_to;
#[path = "../../ledger/set_clock.rs"]
mod set_clock;
#[path = "../../ledger/snapshot.rs"]
mod snapshot;
#[path = "../../ledger/without_threads.rs"]
mod without_threads;

pub use config::{Limit, OnFull, Stacks, Worker};
pub use problem::{FinishError, Problem, ProblemKind};
pub use set_clock::set_clock;
pub use without_threads::*;
pub use {builder::*, destinations::*, handle::*, report_to::*, snapshot::*};

pub(crate) use operations::refusal;
