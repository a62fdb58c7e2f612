//! The running recording, what it answers, and its watcher.

pub(super) mod control;
pub(super) mod initial;
pub(super) mod late_join;
#[cfg(report)]
mod measurements;
pub(super) mod queries;
pub(super) mod stats;
pub(super) mod watch;

use crate::dump::{InProcessAnalyzer, ReportOutput};
use crate::error::{Error, ErrorKind};
use crate::ledger::config::Config;
use crate::ledger::recording::control::RunningControl;
use crate::ledger::recording::initial::InitialDestinations;
use crate::ledger::recording::watch::{SharedChild, Watching};
use crate::platform::os;
use crate::trace::worker;
use memledger_format::initial_live_set::InitialLiveSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Recording {
    pub(crate) generation: u64,
    pub(crate) started_by: StartedBy,
    /// The tracker is not this program's allocator: there is nothing to record.
    pub(crate) unlinked: bool,
    /// How many events the process had recorded before.
    pub(crate) events_before: u64,
    pub(crate) analyzer: Option<InProcessAnalyzer>,
    /// If there is no `analyzer`: one that begins with the first measurement and has no earlier
    /// event.
    pub(crate) late_analyzer: Option<InProcessAnalyzer>,
    pub(crate) report: Option<ReportOutput>,
    pub(crate) initial: InitialDestinations,
    pub(crate) control: Option<RunningControl>,
    /// How the children of forks continue it, if they do.
    pub(crate) follow: Option<Follow>,
    /// The process that ends it if this one does not.
    pub(crate) watch: Option<Watching>,
    /// Whether it has a thread that collects.
    pub(crate) has_worker: bool,
    /// Keeps the table of descriptors that its files are in; `None` for measurements, which have no files.
    pub(crate) table: Option<os::OwnTable>,
    /// How many measurements use the analyzer.
    pub(crate) measurements: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartedBy {
    /// Code, or flags: its handle ends it.
    Code,
    /// The environment, before `main`: it ends when the process exits, and code may add settings.
    Environment(Unset),
    /// A measurement: it ends with the last measurement.
    Measurement,
}

/// What code may still set in a recording of the environment, because neither the environment nor earlier
/// code has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unset {
    pub(crate) channels: bool,
    pub(crate) stacks: bool,
    /// Where the report goes, or that there is none.
    pub(crate) report: bool,
}

impl Recording {
    /// Why no other recording can start.
    pub(crate) fn refusal(&self) -> Error {
        match self.started_by {
            StartedBy::Measurement => Error::new(
                ErrorKind::MeasurementRunning,
                "a ledger cannot start while memledger::measure or a budget runs in this process; start the ledger first (the measurement then uses it) or afterwards",
            ),
            StartedBy::Code | StartedBy::Environment(_) => Error::new(
                ErrorKind::AlreadyStarted,
                "a ledger is already running in this process, and there can be only one at a time",
            ),
        }
    }

    /// What code and flags may still set: nothing, where the environment has not started this recording.
    pub(crate) fn unset(&self) -> Result<Unset, Error> {
        match self.started_by {
            StartedBy::Environment(unset) => Ok(unset),
            _ => Err(self.refusal()),
        }
    }

    /// Whether a measurement has started this recording, and the last measurement has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.started_by == StartedBy::Measurement && self.measurements == 0
    }
}

/// How the child of a fork continues the recording.
pub(crate) struct Follow {
    pub(crate) config: Config,
    /// Starts the recording of the child with the child's settings; `Self` is for the child's own
    /// children.
    pub(crate) start: fn(&Config, Self, Inherited) -> Result<(), Error>,
}

/// The state that the child of a fork continues from.
pub(crate) struct Inherited {
    pub(crate) live_set: Option<InitialLiveSet>,
    /// The start of the clock, in cycles.
    pub(crate) start: u64,
    pub(crate) from_process_start: bool,
    /// The parent's handle also exists in the child, where it ends this recording.
    pub(crate) generation: u64,
    pub(crate) started_by: StartedBy,
    /// The memory that it shares with a watcher, if it can have one.
    pub(crate) shared: Option<SharedChild>,
}

static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Locks the recording. Only with the guard set, and not in the child of a fork.
pub(crate) fn current() -> MutexGuard<'static, Option<Recording>> {
    RECORDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the recording as [`current`] does; `None` if the lock is not free within `timeout`.
pub(crate) fn current_within(timeout: Duration) -> Option<MutexGuard<'static, Option<Recording>>> {
    worker::lock_within(&RECORDING, timeout)
}

/// Whether nothing is being recorded, started or ended now.
pub(crate) fn is_idle() -> bool {
    RECORDING.try_lock().is_ok_and(|recording| recording.is_none())
}

/// The number of a new recording.
pub(crate) fn next_generation() -> u64 {
    GENERATION.fetch_add(1, Ordering::AcqRel) + 1
}
