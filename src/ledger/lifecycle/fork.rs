//! The child of a fork continues recording, to files of its own, if the program has asked for that.
//!
//! Before the fork, the forking thread collects all events and takes the ledger's locks. So the
//! child holds these locks, and the analyzer in it has the state of that moment. The child does not
//! touch the objects of its parent, takes new buffers, and begins a recording with the live blocks.
//!
//! If a lock is not free in time, the child records nothing, and the parent reports why.
//!
//! From the collection to the fork, other threads wait at their next event (`trace/write/hold.rs`). The child
//! does not have the events of those that could not wait, and says how many these are.

use crate::dump::InProcessAnalyzer;
use crate::error::{Problem, ProblemKind};
use crate::events::important;
#[cfg(redirects)]
use crate::interpose::redirected;
use crate::ledger::config::{Config, Watch};
use crate::ledger::recording::watch::{self, SharedChild};
use crate::ledger::recording::{self, Inherited, Recording, StartedBy, Unset};
use crate::platform::os::{self, BlockedSignals, KeepErrno, executed};
use crate::problems;
use crate::trace::sink::file::beside;
use crate::trace::sink::queue::{self, Queue};
use crate::trace::worker::{self, Session};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::{buffer_pool, hold, registry, state, untracked};
use memledger_format::initial_live_set::InitialLiveSet;
use memledger_format::schema::untracked::FORK;
use std::cell::Cell;
use std::mem::{ManuallyDrop, forget, take};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// How long a fork waits for each lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether any recording has ever asked to follow forks.
static FOLLOWS_FORKS: AtomicBool = AtomicBool::new(false);

struct Locks {
    recording: MutexGuard<'static, Option<Recording>>,
    session: MutexGuard<'static, Option<Session>>,
    problems: MutexGuard<'static, Vec<Problem>>,
    queues: MutexGuard<'static, Vec<Arc<Queue>>>,
    importants: MutexGuard<'static, important::Cache>,
    #[cfg(redirects)]
    redirected: MutexGuard<'static, redirected::Outcome>,
}

/// Which lock was not free, so that the child of a fork cannot follow.
type BusyLock = &'static str;

/// What a thread holds during a fork.
type HeldLocks = ManuallyDrop<Option<Result<Locks, BusyLock>>>;

thread_local! {
    /// The locks that this thread holds during a fork. NOTE: nothing is dropped when a thread ends, for which
    /// the C library would allocate.
    static LOCKS: Cell<HeldLocks> = const { Cell::new(ManuallyDrop::new(None)) };
}

/// From now on, each fork checks whether the recording follows it.
pub(crate) fn enable() {
    FOLLOWS_FORKS.store(true, Ordering::Release);
}

pub(crate) extern "C" fn prepare() {
    // NOTE: a fork that succeeds leaves `errno` alone; Perl's `die` ends with it.
    let _errno = KeepErrno::new();
    if FOLLOWS_FORKS.load(Ordering::Acquire) && !os::is_kernel_closed() && !state::is_forked() {
        untracked(|| {
            let locked = ManuallyDrop::new(lock_all());
            LOCKS.with(|locks| locks.set(locked));
        });
    }
}

/// Takes the locks. `None` if nothing is recorded, or if the recording does not follow forks.
fn lock_all() -> Option<Result<Locks, BusyLock>> {
    let _signals = BlockedSignals::new();
    let Some(recording) = recording::current_within(LOCK_TIMEOUT) else {
        return Some(Err("the ledger"));
    };
    recording.as_ref()?.follow.as_ref()?;
    let Some(mut session) = worker::session_within(LOCK_TIMEOUT) else {
        return Some(Err("the worker"));
    };
    // PERF: collects first what there is, so that the others wait only for the rest.
    let running = session.as_mut()?;
    if !worker::cycle(running, Duration::ZERO) {
        return Some(Err("the tracker's thread that writes"));
    }
    hold::hold();
    if !worker::cycle(running, HOOK_TIMEOUT) {
        hold::release();
        return Some(Err("the tracker's thread that writes"));
    }
    #[cfg(redirects)]
    let Some(redirected) = redirected::outcome_within(LOCK_TIMEOUT) else {
        hold::release();
        return Some(Err("a library that is loaded"));
    };
    // NOTE: after the cycle, which may report a problem.
    let (Some(problems), Some(importants)) =
        (problems::lock_within(LOCK_TIMEOUT), important::lock_within(LOCK_TIMEOUT))
    else {
        hold::release();
        return Some(Err("what the ledger keeps"));
    };
    Some(Ok(Locks {
        recording,
        session,
        problems,
        queues: queue::lock_all(),
        importants,
        #[cfg(redirects)]
        redirected,
    }))
}

fn take_locks() -> Option<Result<Locks, BusyLock>> {
    let held = LOCKS.with(|locks| locks.replace(ManuallyDrop::new(None)));
    ManuallyDrop::into_inner(held)
}

pub(crate) extern "C" fn in_parent() {
    let _errno = KeepErrno::new();
    if !executed::follows() {
        executed::has_started(executed::NO_NUMBER, FORK.as_bytes());
    }
    if FOLLOWS_FORKS.load(Ordering::Acquire) {
        untracked(|| {
            match take_locks() {
                Some(Ok(locks)) => {
                    // NOTE: before the lock of the session is released.
                    hold::release();
                    drop(locks);
                }
                Some(Err(what)) => problems::add(
                    ProblemKind::Tracker,
                    format!(
                        "a forked process is not recorded: {what} was in use for {} s before it",
                        LOCK_TIMEOUT.as_secs()
                    ),
                ),
                None => {}
            }
        });
    }
}

/// In the child: continues the recording. Returns whether the child records, or has reported why
/// not. With the guard set.
pub(crate) fn in_child() -> bool {
    let missed = hold::end_in_child();
    let Some(Ok(locks)) = take_locks() else { return false };
    let Locks {
        mut recording,
        mut session,
        mut problems,
        mut queues,
        importants,
        #[cfg(redirects)]
        mut redirected,
    } = locks;
    #[cfg(redirects)]
    {
        redirected.forget_threads();
        drop(redirected);
    }
    let (Some(mut old), Some(old_session)) = (recording.take(), session.take()) else {
        return false;
    };
    let (start, from_process_start) = old_session.began();
    let watching = old.watch.take();
    let live_set = old.analyzer.as_ref().and_then(InProcessAnalyzer::try_initial_live_set);
    let mut inherited = Inherited {
        live_set: live_set.map(|live_set| InitialLiveSet { missed, ..live_set }),
        start,
        from_process_start,
        generation: old.generation,
        started_by: match old.started_by {
            StartedBy::Environment(_) => StartedBy::Environment(Unset::default()),
            other => other,
        },
        shared: None,
    };
    let follow = old.follow.take();
    // NOTE: not dropped. The files and connections are the parent's, and threads that do not exist
    // in the child may hold locks of it.
    forget((old, old_session, take(&mut *queues), take(&mut *problems)));
    drop((recording, session, problems, queues, importants));
    // NOTE: before anything is in that memory.
    inherited.shared = watching.and_then(watch::share);
    // Until the child records.
    let _in_program = inherited.shared.as_ref().map(SharedChild::take_from_program);
    buffer_pool::reset_after_fork();
    registry::reset_after_fork();
    state::reset_process();
    let started =
        follow.map(|follow| (follow.start)(&own_names(follow.config.clone()), follow, inherited));
    if let Some(Err(error)) = started {
        problems::add(
            ProblemKind::Tracker,
            format!("the forked process {} is not recorded: {error:#}", std::process::id()),
        );
        state::turn_off_in_child();
    }
    true
}

/// The settings of the child: its files have its process id in their names, and it has neither a
/// control server nor a watcher that is forked from it.
fn own_names(mut config: Config) -> Config {
    config.control = None;
    config.watch = Watch::No;
    let file = config.file.as_mut();
    let report = config.report.as_mut().and_then(|report| report.path.as_mut());
    file.into_iter().chain(report).for_each(|path| *path = own_name(path));
    config
}

fn own_name(path: &Path) -> PathBuf {
    let has_id = path.to_string_lossy().replace("%%", "").contains("%p");
    if has_id { path.to_owned() } else { beside(path) }
}
