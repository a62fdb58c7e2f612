//! Who starts a recording: the environment, flags, code, a measurement, or the child of a fork.

use super::begin::{Outputs, begin};
use super::{environment, late};
use crate::alloc::linked;
use crate::dump::{ReportTo, open_report};
use crate::error::{self, Error};
use crate::ledger::config::{Config, Worker};
use crate::ledger::destinations::add::open_trace;
use crate::ledger::recording::control;
use crate::ledger::recording::{self, Follow, Inherited, StartedBy, Unset};
use crate::ledger::settings::{
    self, CHANNELS, REPORT, STACK_FRAMES, STACK_MEMORY, STACKS, Settings, applied,
};
use crate::platform::os;
use crate::problems::{self, ProblemKind};
use crate::trace::entry::{
    clone_for_caller, on_helper_thread, on_plain_thread, on_table_thread, refuse_forked, request,
};
use crate::trace::sink::file;
use crate::trace::write::{reserve, state, untracked};

/// Starts with the settings of the flags, and those of the environment that no flag sets; by
/// default with a report on stderr. A setting that fails is reported and left out. Returns the
/// generation for the handle.
pub(crate) fn from_flags(flags: Settings) -> Option<u64> {
    untracked(move || {
        let _active = state::hook_active();
        if let Err(error) = refuse_forked() {
            problems::report(error);
            return None;
        }
        settings::report_unknown();
        on_helper_thread(|| {
            let mut current = recording::current();
            if let Some(running) = current.as_mut() {
                late::add_flags(running, &flags).unwrap_or_else(problems::report);
                return None;
            }
            // NOTE: starting takes the lock again.
            drop(current);
            leniently(flags.or(Settings::from_environment()), StartedBy::Code)
        })
    })
}

/// The start before `main`; the process's exit ends it.
pub(crate) fn before_main(settings: Settings) {
    let unset = Unset {
        channels: !settings.has(CHANNELS),
        stacks: !settings.has(STACKS),
        report: !settings.has(REPORT),
    };
    on_table_thread(|| leniently(settings, StartedBy::Environment(unset)));
}

/// Starts with every setting that works, and reports the others.
fn leniently(settings: Settings, started_by: StartedBy) -> Option<u64> {
    let mut config = Config { report: Some(ReportTo::stderr()), ..Config::default() };
    settings.apply(&mut config);
    set_file_mode(&config);
    // There is a report even if the file of the trace cannot be created.
    let control = control::bind(&config).map_err(problems::report).ok().flatten();
    let file = config.file.as_ref();
    let file = file.and_then(|path| open_trace(path).map_err(problems::report).ok());
    let report = config.report.as_ref();
    let report = report.and_then(|to| open_report(to).map_err(problems::report).ok());
    let outputs = Outputs { file, report, control, ..Outputs::default() };
    begin(&config, to_follow(&config), outputs, started_by, None).unwrap_or_else(|error| {
        problems::report(error);
        None
    })
}

/// Starts with the settings of the environment, and with those of the code that the environment
/// does not set.
///
/// The memory of `config` belongs to the program: the tracker works on its own copy.
pub(crate) fn in_code(config: &Config) -> Result<Option<u64>, Error> {
    if !os::RUNS_BEFORE_MAIN {
        environment::start_before_main();
    }
    if config.worker == Worker::Thread && !os::HAS_THREADS {
        return Err(error::needs_manual_worker());
    }
    // A program that wants no thread for the worker wants none for a table either.
    match config.worker {
        Worker::Thread => request(|| strictly(config.clone())),
        Worker::Manual => {
            clone_for_caller(untracked(|| on_plain_thread(|| strictly(config.clone()))))
        }
    }
}

fn strictly(mut config: Config) -> Result<Option<u64>, Error> {
    let _active = state::hook_active();
    refuse_forked()?;
    config.file_mode.map_or(Ok(0), applied::file_mode)?;
    config.check_stacks()?;
    config.leave_out_unbuilt();
    settings::report_unknown();
    if let Some(running) = recording::current().as_mut() {
        return late::add_code(running, config).map(|()| None);
    }
    Settings::from_environment().apply(&mut config);
    open_and_begin(&config, to_follow(&config), StartedBy::Code, None)
}

/// Starts with an analyzer and without any output, for measurements.
///
/// NOTE: on the calling thread: a measurement would take twice as long with a helper thread for
/// each start and end.
pub(crate) fn for_measurements() -> Result<(), Error> {
    let _active = state::hook_active();
    reserve::prepare();
    let worker = if os::HAS_THREADS { Worker::Thread } else { Worker::Manual };
    let mut config = Config { analyze_in_process: true, worker, ..Config::default() };
    if !linked::ignores_environment() {
        Settings::from_environment().only(&[STACKS, STACK_FRAMES, STACK_MEMORY]).apply(&mut config);
    }
    open_and_begin(&config, None, StartedBy::Measurement, None).map(|_| ())
}

/// Starts in the child of a fork, where nothing is recorded yet. `follow` is for its own children.
fn in_child(config: &Config, follow: Follow, inherited: Inherited) -> Result<(), Error> {
    match config.worker {
        Worker::Thread => on_table_thread(|| continue_in_child(config, follow, inherited)),
        Worker::Manual => on_plain_thread(|| continue_in_child(config, follow, inherited)),
    }
}

fn continue_in_child(config: &Config, follow: Follow, inherited: Inherited) -> Result<(), Error> {
    let _active = state::hook_active();
    open_and_begin(config, Some(follow), inherited.started_by, Some(inherited)).map(|_| ())
}

fn open_and_begin(
    config: &Config,
    follow: Option<Follow>,
    started_by: StartedBy,
    inherited: Option<Inherited>,
) -> Result<Option<u64>, Error> {
    set_file_mode(config);
    // Bound before the file is opened: the start of its stream announces the port.
    let control = control::bind(config)?;
    let file = config.file.as_deref().map(open_trace).transpose()?;
    let report = config.report.as_ref().map(open_report).transpose()?;
    let outputs = Outputs { file, report, control, ..Outputs::default() };
    begin(config, follow, outputs, started_by, inherited)
}

/// How the children of forks continue, if they do.
fn to_follow(config: &Config) -> Option<Follow> {
    if config.follow_forks && !os::FOLLOWS_FORKS {
        let text = "the children of forks are not recorded: this system does not allow that";
        problems::add(ProblemKind::Tracker, text.into());
    }
    let follows = config.follow_forks && os::FOLLOWS_FORKS;
    follows.then(|| Follow { config: config.clone(), start: in_child })
}

/// Sets the permissions of files created from here on.
pub(super) fn set_file_mode(config: &Config) {
    file::set_mode(config.file_mode.unwrap_or(file::DEFAULT_MODE));
}
