//! What the program, and clients of the control server, ask of the recording that runs.

use crate::dump::{InProcessAnalyzer, Snapshot, make_figures, make_profile};
use crate::error::{self, Error};
use crate::ledger::recording::current;
use crate::ledger::stats::Stats;
use crate::platform::os::BlockedSignals;
use crate::trace::entry::{on_helper_thread, refuse_forked};
use crate::trace::worker::{self, WORKER_TIMEOUT};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::{ReentrancyGuard, state, untracked};
use std::net::SocketAddr;

/// Collects now, on this thread. With `with_figures`, it also writes all figures that have changed.
/// Otherwise these are written once a second only, because a program may collect for each of its
/// frames.
pub(crate) fn collect(with_figures: bool) {
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
pub(crate) fn flush() {
    if !state::is_forked() {
        untracked(|| on_helper_thread(|| collect(true)));
    }
}

/// The figures, once all events from before the call are collected.
pub(crate) fn stats() -> Stats {
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

pub(crate) fn control_address() -> Option<SocketAddr> {
    if state::is_forked() {
        return None;
    }
    let _untracked = ReentrancyGuard::enter();
    current().as_ref()?.control.as_ref().map(|control| control.address)
}

/// The figures as of now; `None` if the events are not analyzed.
pub(crate) fn snapshot() -> Option<Snapshot> {
    if state::is_forked() {
        return None;
    }
    untracked(|| {
        on_helper_thread(|| {
            let (analyzer, largest_live) = {
                let recording = current();
                let recording = recording.as_ref()?;
                let largest_live = recording.report.as_ref().and_then(|to| to.largest_live());
                (recording.analyzer.clone()?, largest_live)
            };
            collect(true);
            Some(Snapshot::of(&analyzer, largest_live))
        })
    })
}

/// A heap profile as of now, in memory of the program.
#[cfg(feature = "pprof")]
pub(crate) fn profile() -> Result<Vec<u8>, Error> {
    use crate::trace::entry::{for_caller, request};
    refuse_forked()?;
    request(|| make_profile(analyzed)).map(for_caller)
}

/// The same for a client of the control server, in memory of the tracker. Only with the guard set.
pub(crate) fn profile_for_client() -> Result<Vec<u8>, String> {
    for_client(|| make_profile(analyzed))
}

/// The figures of all rows, without call stacks. Only with the guard set.
pub(crate) fn figures_of_rows() -> Result<Vec<u8>, String> {
    for_client(|| make_figures(analyzed, false))
}

/// With call stacks: modules and offsets, whose functions the client finds. Only with the guard set.
pub(crate) fn figures_with_stacks() -> Result<Vec<u8>, String> {
    for_client(|| make_figures(analyzed, true))
}

fn for_client(make: impl FnOnce() -> Result<Vec<u8>, Error>) -> Result<Vec<u8>, String> {
    refuse_forked().and_then(|()| make()).map_err(|error| format!("{error:#}"))
}

/// The analyzer of the recording, once it has all events. The recording is not locked any more.
fn analyzed() -> Result<InProcessAnalyzer, Error> {
    collect(true);
    let analyzer = current().as_ref().and_then(|recording| recording.analyzer.clone());
    analyzer.ok_or(error::not_analyzed())
}
