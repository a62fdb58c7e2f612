//! The memory tracker a Rust program can leave on.
//!
//! Swap in [`TrackingAllocator`], wrap code in [`alloc_scope!`], and read at the end who holds
//! what: every allocation, reallocation and free of the program, with its group, name, scope
//! stack, thread and time, exact to the byte.
//!
//! ```
//! use memledger::{Ledger, TrackingAllocator, alloc_scope};
//!
//! #[global_allocator]
//! static ALLOC: TrackingAllocator = TrackingAllocator::system();
//!
//! fn main() {
//!     let _ledger = Ledger::from_env(); // a report on stderr when it is dropped
//!     let level = alloc_scope!("load level", {
//!         alloc_scope!("vertices");
//!         vec![0_f32; 30_000]
//!     });
//!     drop(level);
//! }
//! ```
//!
//! In a build without optimisation, an event costs 20 to 30 times as much, most of it on the
//! tracker's own thread, and the report contains a note about it. Two lines in the `Cargo.toml` of
//! the workspace reduce the factor to 6; the rest is the cost of the hook, which is compiled with
//! the program:
//!
//! ```toml
//! [profile.dev.package.memledger]
//! opt-level = 3
//! ```
//!
//! # The parts
//! - **Recording**: [`TrackingAllocator`] is the allocator, [`Ledger`] starts and ends a recording
//!   and reports. With the allocator linked, `MEMLEDGER_REPORT=stderr` or
//!   `MEMLEDGER_TRACE=run.utrace` in the environment needs no further code.
//! - **Who owns memory**: [`alloc_scope!`] says where in the program an allocation happens;
//!   [`group!`], [`tag!`] and [`tagged`] say what it belongs to. [`Name`] holds names. The `containers`
//!   (`TaggedVec`, `TaggedHashMap` and others) keep their tag wherever they grow. [`ScopeContext`]
//!   and [`spawn`] carry both to other threads; [`AllocScope`] gives both to futures.
//! - **Budgets in tests**: [`budget`] fails a test whose code allocates, holds or leaves too much;
//!   [`measure`] gives the figures.
//! - **Events of your own** ([`events`]): [`event!`](events::event) declares a type of events,
//!   [`channel!`](events::channel) a set of types that are turned on and off together, [`log!`](events::log)
//!   and [`log_scope!`](events::log_scope) write events, [`bookmark!`] names a moment.
//! - **The figures**: the module `report` is two crates. `memledger-analysis` reads a stream and rebuilds
//!   live blocks, peaks and totals from it, in the traced process and from a file alike; a program that only
//!   reads traces needs only that crate. `memledger-export` writes what it finds: text, JSON, a page, and the
//!   formats of other tools. The format is Unreal Trace: Unreal Insights opens traces of this tracker, and
//!   `memledger-analysis` reads traces of Unreal Engine. `memledger-store` fetches the traces that a recorder
//!   (`memledger serve`) has stored, of many programs.
//!
//! # Features
//! | feature | what it brings |
//! |---|---|
//! | `enable` (default) | tracking: scopes, the trace to files and hosts, the control server |
//! | `report` (default) | what a program says of its memory itself: the report on exit, figures, profiles, budgets, the black box; without it, the names are the same but for the module `report` and `Snapshot::report` |
//! | `symbols` (default) | functions, files and lines of call stacks in the report, from the program's files |
//! | `html` (default) | the report as a page for a browser |
//! | `pprof` (default) | the report, and `Ledger::pprof`, as a heap profile for pprof |
//! | `c-malloc` | the memory of C: `track_c_malloc!` |
//! | `perfetto` | track events for Perfetto: slices, counters, instants and states |
//! | `containers` | `TaggedVec`, `TaggedHashMap` and others, which keep their tag wherever they grow; `Tag::boxed`, `Tag::block` and their like |
//! | `serde` | tagged containers are written and read as the plain ones |
//! | `tracing` | `ScopeLayer`, which makes scopes of `tracing` spans |
//! | none | the same API for marking scopes, compiled to nothing; tagged containers are plain ones |
//!
//! A library that only marks its scopes depends on memledger with `default-features = false`; the
//! application decides whether they are tracked.
//!
//! Tracking works on 64-bit Linux and Windows, and on `wasm32-unknown-unknown` with [`Worker::Manual`]; for
//! macOS it is written, and was never run. Elsewhere everything compiles (checked for FreeBSD), and nothing
//! is recorded: the allocator only calls the inner one, starting a ledger returns
//! [`ErrorKind::UnsupportedPlatform`], and `MEMLEDGER_*` variables start nothing. What reads traces has
//! nothing that is specific to a platform. It is the same under Miri, so `cargo miri test` of a program
//! with the tracker passes; mark tests with budgets, which have no figures there, with
//! `#[cfg_attr(miri, ignore)]`.

#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(report, tracking))))]
#![warn(missing_debug_implementations, missing_docs, clippy::unwrap_used)]
// Without it, helpers of what it brings have no user.
#![cfg_attr(all(tracking, not(report)), allow(dead_code, unused_imports))]

/// Whether this build can record: it has the feature `enable`, and is for a system that is recorded, not for
/// Miri.
///
/// ```
/// if !memledger::ENABLED {
///     eprintln!("this build does not record its memory");
/// }
/// ```
pub const ENABLED: bool = cfg!(tracking);

#[cfg_attr(not(tracking), path = "disabled/alloc/mod.rs")]
mod alloc;
#[cfg(feature = "containers")]
pub mod containers;
pub mod control;
#[cfg_attr(not(report), path = "disabled/dump/mod.rs")]
mod dump;
mod error;
#[cfg_attr(not(tracking), path = "disabled/events/mod.rs")]
pub mod events;
#[cfg(all(tracking, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    //! For `fuzz/` only; not part of the public interface.
    pub use crate::control::server::fuzzing::*;
    pub use crate::ledger::settings::fuzzing::*;
    #[cfg(all(takes_stacks, elf))]
    pub use crate::stacks::capture::fuzzing::*;
}
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod interpose;
mod ledger;
mod measure;
#[cfg(not(takes_stacks))]
mod nothing;
#[cfg(feature = "perfetto")]
pub mod perfetto;
#[cfg(not(feature = "perfetto"))]
#[path = "disabled/perfetto/mod.rs"]
mod perfetto;
#[cfg(tracking)]
mod platform;
#[cfg(tracking)]
mod problems;
#[cfg(feature = "report")]
pub mod report;
#[cfg(tracking)]
mod rss;
#[cfg_attr(not(tracking), path = "disabled/scopes/mod.rs")]
mod scopes;
#[cfg(tracking)]
mod stacks;
#[cfg(tracking)]
mod trace;

pub use alloc::TrackingAllocator;
pub use dump::{Figures, ReportTo, Snapshot};
pub use error::{Error, ErrorKind, Problem, ProblemKind, Unmeasured, UnmeasuredKind};
pub use ledger::{
    Destination, DestinationHandle, DestinationState, DestinationStatus, FinishError, Ledger,
    LedgerBuilder, Limit, OnFull, Stacks, Stats, Worker, set_clock, without_threads,
};
pub use measure::{Budget, BudgetError, budget, measure};
#[cfg(feature = "tracing")]
pub use scopes::ScopeLayer;
pub use scopes::{AllocScope, Group, Name, ScopeContext, ScopeGuard, Scoped, Tag, spawn, tagged};
