//! The handle a program holds: it starts and ends a recording, reads its figures and writes its report. From
//! the top:
//!
//! | part | what |
//! |---|---|
//! | `handle.rs`, `builder.rs`, `without_threads.rs` | what a program calls |
//! | `operations.rs` | the functions behind that |
//! | `lifecycle` | how a recording starts, continues in a child, stands still and ends |
//! | `commands` | what clients of the control server do |
//! | `destinations` | more destinations, while it runs |
//! | `recording` | the one that runs, what it answers, its control server and its watcher |
//! | `settings`, `config.rs` | what is asked for from outside, and what that means |

#[cfg_attr(not(tracking), path = "../disabled/ledger/address.rs")]
mod address;
mod builder;
#[cfg(tracking)]
mod commands;
mod config;
mod destinations;
mod handle;
#[cfg(tracking)]
pub(crate) mod lifecycle;
#[cfg_attr(not(tracking), path = "../disabled/ledger/operations.rs")]
mod operations;
#[cfg(tracking)]
pub(crate) mod recording;
mod set_clock;
#[cfg(tracking)]
pub(crate) mod settings;
mod stats;
mod without_threads;

pub use builder::LedgerBuilder;
pub use config::{Limit, OnFull, Stacks, Worker};
pub use destinations::{Destination, DestinationHandle, DestinationState, DestinationStatus};
pub use handle::Ledger;
pub use set_clock::set_clock;
pub use stats::{FinishError, Stats};
pub use without_threads::without_threads;
