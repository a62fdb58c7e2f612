//! The running recording, and its queries.
//!
//! | file | what |
//! |---|---|
//! | `environment.rs`, `start.rs` | who starts it |
//! | `begin.rs` | how it starts: quiesce, build, publish |
//! | `measurements.rs` | what measurements need of it |
//! | `late_join.rs` | how a late stream begins (`late_join/` its tests) |
//! | `stats.rs` | figures of the recording itself |
//! | `stop.rs`, `exit.rs`, `fork.rs`, `signals.rs`, `watch.rs` | how it ends |
//! | `pause.rs`, `c_identity.rs` | how its threads end for a moment, and for which functions of C |
//! | `c_filter.rs` | how it continues, and ends, under a filter of system calls |

pub(super) mod begin;
#[cfg(c_filter)]
pub mod c_filter;
#[cfg(c_identity)]
pub mod c_identity;
pub(crate) mod environment;
mod exit;
mod fork;
pub(super) mod late_join;
#[cfg(report)]
mod measurements;
pub(super) mod pause;
mod signals;
pub(crate) mod start;
pub(super) mod stats;
pub(crate) mod stop;
mod watch;

use crate::error::{Error, ErrorKind};
use crate::ledger::Stats;
use crate::ledger::config::Config;
use crate::ledger::control::RunningControl;
use crate::ledger::destinations::initial::InitialDestinations;
use crate::ledger::entry::on_helper_thread;
use crate::ledger::recording::watch::{SharedChild, Watching};
use crate::ledger::reports::in_process::InProcessAnalyzer;
use crate::ledger::reports::report::ReportOutput;
use crate::platform::os::{self, BlockedSignals};
use crate::trace::worker;
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::{ReentrancyGuard, state, untracked};
use memledger_format::initial_live_set::InitialLiveSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a call of the program waits for a worker that is stuck in a write.
pub(crate) const WORKER_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Recording {
    pub(crate) generation: u64,
    pub(in crate::ledger) started_by: StartedBy,
    /// The tracker is not this program's allocator: there is nothing to record.
    pub(in crate::ledger) unlinked: bool,
    /// How many events the process had recorded before.
    pub(in crate::ledger) events_before: u64,
    pub(in crate::ledger) analyzer: Option<InProcessAnalyzer>,
    /// If there is no `analyzer`: one that begins with the first measurement and has no earlier
    /// event.
    pub(in crate::ledger) late_analyzer: Option<InProcessAnalyzer>,
    pub(in crate::ledger) report: Option<ReportOutput>,
    pub(in crate::ledger) initial: InitialDestinations,
    pub(in crate::ledger) control: Option<RunningControl>,
    /// How the children of forks continue it, if they do.
    pub(in crate::ledger) follow: Option<Follow>,
    /// The process that ends it if this one does not.
    pub(in crate::ledger) watch: Option<Watching>,
    /// Whether it has a thread that collects.
    pub(in crate::ledger) has_worker: bool,
    /// Keeps the table of descriptors that its files are in; `None` for measurements, which have no files.
    pub(in crate::ledger) table: Option<os::OwnTable>,
    /// How many measurements use the analyzer.
    pub(crate) measurements: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum StartedBy {
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
pub(in crate::ledger) struct Unset {
    pub(in crate::ledger) channels: bool,
    pub(in crate::ledger) stacks: bool,
    /// Where the report goes, or that there is none.
    pub(in crate::ledger) report: bool,
}

impl Recording {
    /// Why no other recording can start.
    pub(in crate::ledger) fn refusal(&self) -> Error {
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
    fn unset(&self) -> Result<Unset, Error> {
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
pub(in crate::ledger) struct Follow {
    pub(in crate::ledger) config: Config,
    /// Starts the recording of the child with the child's settings; `Self` is for the child's own
    /// children.
    pub(in crate::ledger) start: fn(&Config, Self, Inherited) -> Result<(), Error>,
}

/// The state that the child of a fork continues from.
pub(in crate::ledger) struct Inherited {
    pub(in crate::ledger) live_set: Option<InitialLiveSet>,
    /// The start of the clock, in cycles.
    pub(in crate::ledger) start: u64,
    pub(in crate::ledger) from_process_start: bool,
    /// The parent's handle also exists in the child, where it ends this recording.
    pub(in crate::ledger) generation: u64,
    pub(in crate::ledger) started_by: StartedBy,
    /// The memory that it shares with a watcher, if it can have one.
    pub(in crate::ledger) shared: Option<SharedChild>,
}

static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Locks the recording. Only with the guard set, and not in the child of a fork.
pub(crate) fn current() -> MutexGuard<'static, Option<Recording>> {
    RECORDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the recording as [`current`] does; `None` if the lock is not free within `timeout`.
pub(in crate::ledger) fn current_within(
    timeout: Duration,
) -> Option<MutexGuard<'static, Option<Recording>>> {
    worker::lock_within(&RECORDING, timeout)
}

/// Whether nothing is being recorded, started or ended now.
pub(in crate::ledger) fn is_idle() -> bool {
    RECORDING.try_lock().is_ok_and(|recording| recording.is_none())
}

/// The number of a new recording.
pub(in crate::ledger) fn next_generation() -> u64 {
    GENERATION.fetch_add(1, Ordering::AcqRel) + 1
}

/// Collects now, on this thread. With `with_figures`, it also writes all figures that have changed.
/// Otherwise these are written once a second only, because a program may collect for each of its
/// frames.
pub(in crate::ledger) fn collect(with_figures: bool) {
    let _untracked = ReentrancyGuard::enter();
    if state::is_forked() {
        return;
    }
    let _signals = BlockedSignals::new();
    if let Some(mut session) = worker::session_within(WORKER_TIMEOUT)
        && let Some(session) = session.as_mut()
    {
        if with_figures {
            session.want_figures();
        }
        worker::cycle(session, HOOK_TIMEOUT);
    }
}

/// Collects now. PERF: on a helper thread, for the same reason as the end of a recording.
pub(in crate::ledger) fn flush() {
    if !state::is_forked() {
        untracked(|| on_helper_thread(|| collect(true)));
    }
}

/// The figures, once all events from before the call are collected.
pub(in crate::ledger) fn stats() -> Stats {
    if state::is_forked() || !state::is_running() {
        return Stats::of_last_cycle();
    }
    untracked(|| {
        on_helper_thread(|| {
            let _signals = BlockedSignals::new();
            let mut session = worker::session_within(WORKER_TIMEOUT);
            if let Some(session) = session.as_mut().and_then(|session| session.as_mut()) {
                worker::collect_everything(session, WORKER_TIMEOUT);
            }
            // NOTE: while the session is locked, no other thread collects, so the figures are of one moment.
            Stats::of_last_cycle()
        })
    })
}

pub(in crate::ledger) fn control_address() -> Option<SocketAddr> {
    if state::is_forked() {
        return None;
    }
    let _untracked = ReentrancyGuard::enter();
    current().as_ref()?.control.as_ref().map(|control| control.address)
}
