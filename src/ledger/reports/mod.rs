//! What a recording says in the process itself.
//!
//! | file | what |
//! |---|---|
//! | `in_process.rs` | the in-process analyzer |
//! | `report.rs` | the report, and where it goes |
//! | `symbols.rs` | the functions of its frames |
//! | `profile.rs`, `functions.rs` | the heap profile of a running program, with the functions of its stacks |
//! | `black_box.rs`, `black_box/` | who holds the memory at a limit, and when there is no more |

pub(super) mod black_box;
#[cfg(any(feature = "pprof", feature = "perfetto"))]
pub(super) mod functions;
pub(crate) mod in_process;
#[cfg(feature = "pprof")]
pub(super) mod profile;
pub(crate) mod report;
#[cfg_attr(not(feature = "symbols"), path = "../../disabled/ledger/reports/symbols.rs")]
pub(crate) mod symbols;
#[cfg(all(test, feature = "symbols"))]
#[path = "../../disabled/ledger/reports/symbols.rs"]
mod without_symbols;
