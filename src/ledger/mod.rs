//! The handle a program holds: start, look, end, report.
//!
//! This is the one place where both sides meet: it starts the writing side, feeds what it writes
//! to the reading side in the same process, and prints the result.

mod builder;
#[cfg(feature = "enable")]
pub(crate) mod environment;
#[cfg(feature = "enable")]
mod exit;
#[cfg(feature = "enable")]
mod live;
#[cfg(feature = "enable")]
mod problems;
mod report;
#[cfg(feature = "enable")]
mod run;
mod snapshot;

pub use builder::{LedgerBuilder, OnFull, Worker};
pub use report::Report;
pub use snapshot::{Snapshot, Stats};

use std::ffi::OsString;

/// Records the program's memory from here on, until it is dropped or finished; then reports.
///
/// ```
/// use memledger::{Ledger, TrackingAllocator, alloc_scope};
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
///
/// fn main() {
///     let _ledger = Ledger::from_env(); // a report on stderr at the end, unless MEMLEDGER_* say otherwise
///     let level = alloc_scope!("load level", { vec![0_u8; 1 << 20] });
///     drop(level);
/// }
/// ```
///
/// There is one at a time. The ledger that started recording ends it: return from `main`,
/// `std::process::exit` and a panic all give the report, once. A handle to a recording that the
/// environment had started before `main` ends nothing; that report comes when the process exits.
///
/// In the child of a `fork` nothing is recorded and nothing is reported: the buffers, the file and
/// the report are the parent's.
#[derive(Debug)]
#[must_use = "recording ends when the ledger is dropped"]
pub struct Ledger {
    /// Which recording this handle ends; `None` if it ends none.
    #[cfg(feature = "enable")]
    generation: Option<u64>,
}

impl Ledger {
    /// Starts as the environment says; by default a report on stderr at the end.
    ///
    /// Never fails: what cannot start is one line on stderr and an entry in
    /// [`problems`](Self::problems).
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `MEMLEDGER_TRACE=memory,scope` | channels to record (these two are the default), the program's own among them |
    /// | `MEMLEDGER_FILE=run-%p.utrace` | write the trace to this file, compact if it is named `.memledger` (`%p` process id, `%t` unix seconds, `%e` executable) |
    /// | `MEMLEDGER_REPORT=stderr`, a path ending in `.txt` or `.json`, or `off` | where the report goes |
    pub fn from_env() -> Self {
        #[cfg(feature = "enable")]
        return run::start_with(environment::Settings::default());
        #[cfg(not(feature = "enable"))]
        Self {}
    }

    /// Starts as command-line flags say, and the environment where they are silent; returns the
    /// arguments that are not flags of memledger.
    ///
    /// The flags are `-trace=`, `-tracefile=` and `-tracereport=`, with the values of
    /// `MEMLEDGER_TRACE`, `MEMLEDGER_FILE` and `MEMLEDGER_REPORT`.
    pub fn from_args(args: impl IntoIterator<Item = OsString>) -> (Self, Vec<OsString>) {
        #[cfg(feature = "enable")]
        {
            let (flags, rest) = environment::Settings::from_args(args);
            (run::start_with(flags), rest)
        }
        #[cfg(not(feature = "enable"))]
        (Self {}, args.into_iter().collect())
    }

    /// Sets in code what is recorded and where it goes.
    pub fn builder() -> LedgerBuilder {
        LedgerBuilder::new()
    }

    /// Figures of the recording itself; a few loads.
    pub fn stats(&self) -> Stats {
        #[cfg(feature = "enable")]
        return run::stats();
        #[cfg(not(feature = "enable"))]
        Stats::default()
    }

    /// What is alive now and how it came to that; `None` if no report was asked for, since then
    /// nobody keeps account in the process.
    ///
    /// Costs a collection like [`flush`](Self::flush) and time in proportion to the live blocks.
    pub fn snapshot(&self) -> Option<Snapshot> {
        #[cfg(feature = "enable")]
        return run::snapshot();
        #[cfg(not(feature = "enable"))]
        None
    }

    /// Collects what all threads have recorded and hands it on, on this thread: what the worker
    /// thread does by itself. With [`Worker::Manual`] the program calls this, often enough that
    /// the buffers do not fill.
    pub fn update(&self) {
        #[cfg(feature = "enable")]
        run::collect();
    }

    /// Brings everything recorded so far to the trace file and the report. Waits at most 5 s for a
    /// worker that is stuck in a write.
    pub fn flush(&self) {
        self.update();
    }

    /// Ends recording and reports, if this handle started it; a new ledger may start then.
    pub fn finish(&mut self) {
        #[cfg(feature = "enable")]
        if let Some(generation) = self.generation.take() {
            run::finish(Some(generation));
        }
    }

    /// What did not go as asked, one sentence each, oldest first. Each was also a line on stderr.
    pub fn problems(&self) -> Vec<String> {
        #[cfg(feature = "enable")]
        return problems::all();
        #[cfg(not(feature = "enable"))]
        Vec::new()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.finish();
    }
}
