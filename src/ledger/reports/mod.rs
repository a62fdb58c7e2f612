//! What a recording says in the process itself.
//!
//! | file | what |
//! |---|---|
//! | `in_process.rs` | the in-process analyzer |
//! | `report.rs` | the report, and where it goes |
//! | `symbols.rs` | the functions of its frames |
//! | `snapshot.rs` | the figures of a running program |
//! | `profile.rs`, `functions.rs` | the heap profile of a running program, with the functions of its stacks |
//! | `black_box.rs`, `black_box/` | who holds the memory at a limit, and when there is no more |

pub(super) mod black_box;
#[cfg(any(feature = "pprof", feature = "perfetto"))]
pub(super) mod functions;
pub(crate) mod in_process;
#[cfg_attr(not(feature = "pprof"), path = "../../disabled/ledger/reports/profile.rs")]
pub(super) mod profile;
pub(crate) mod report;
pub(super) mod snapshot;
#[cfg_attr(not(feature = "symbols"), path = "../../disabled/ledger/reports/symbols.rs")]
pub(crate) mod symbols;
#[cfg(all(test, feature = "symbols"))]
#[path = "../../disabled/ledger/reports/symbols.rs"]
mod without_symbols;

use super::config::Config;

/// Why this build cannot do what a setting asks for: it can.
pub(super) fn check() -> Result<(), String> {
    Ok(())
}

/// Takes what this build does not have out of the settings of code, and says so: nothing.
pub(super) fn leave_out(_: &mut Config) {}
