//! Who starts a recording: the environment, flags, code, a measurement, or the child of a fork.

use crate::alloc::{self, linked};
use crate::error::{self, Error};
use crate::events::channel::{self, Names};
use crate::ledger::config::{Config, OnFull, Watch, Worker};
use crate::ledger::destinations::add;
use crate::ledger::destinations::initial::StartedDestination;
use crate::ledger::destinations::session;
use crate::ledger::entry::{
    clone_for_caller, on_helper_thread, on_keeper, on_plain_thread, refuse_forked, request,
};
use crate::ledger::problem::ProblemKind;
use crate::ledger::recording::begin::{Outputs, begin, limit_bytes};
use crate::ledger::recording::{
    self, Follow, Inherited, Recording, StartedBy, Unset, environment, signals,
};
use crate::ledger::report_to::ReportTo;
use crate::ledger::reports::report::open_report;
use crate::ledger::settings::files::open_trace;
use crate::ledger::settings::{
    self, BLACK_BOX, BUFFER_LIMIT, CHANNELS, FILE_MODE, ON_FULL, REPORT, STACK_FRAMES,
    STACK_MEMORY, STACKS, Settings, applied,
};
use crate::ledger::{control, problems, reports};
use crate::platform::os::{self, BlockedSignals};
use crate::scopes;
use crate::stacks;
use crate::trace::sink::{FIRST_FILE, file};
use crate::trace::worker;
use crate::trace::write::{backpressure, buffer_pool, reserve, state, untracked};
use std::path::PathBuf;

/// Starts with the settings of the flags, and those of the environment that no flag sets; by
/// default with a report on stderr. A setting that fails is reported and left out. Returns the
/// generation for the handle.
pub(in crate::ledger) fn from_flags(flags: Settings) -> Option<u64> {
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
                add_flags(running, &flags).unwrap_or_else(problems::report);
                return None;
            }
            // NOTE: starting takes the lock again.
            drop(current);
            leniently(flags.or(Settings::from_environment()), StartedBy::Code)
        })
    })
}

fn add_flags(running: &mut Recording, flags: &Settings) -> Result<(), Error> {
    let mut config = Config::default();
    bounds_of_environment(&mut config);
    flags.clone().apply(&mut config);
    if let StartedBy::Environment(unset) = &mut running.started_by {
        unset.channels |= config.channels.is_some();
        unset.stacks |= config.stacks.is_some();
    }
    add_settings(running, config)
}

/// Sets the bounds of stacks that the environment has: they hold for stacks that others turn on, too. What is
/// wrong with them was reported when the environment started the recording.
fn bounds_of_environment(config: &mut Config) {
    let bounds = Settings::from_environment().only(&[STACK_FRAMES, STACK_MEMORY]);
    bounds.apply_reporting(config, &mut |_| {});
}

/// The start before `main`; the process's exit ends it.
pub(in crate::ledger) fn before_main(settings: Settings) {
    let unset = Unset {
        channels: !settings.has(CHANNELS),
        stacks: !settings.has(STACKS),
        report: !settings.has(REPORT),
    };
    on_keeper(|| leniently(settings, StartedBy::Environment(unset)));
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
pub(in crate::ledger) fn in_code(config: &Config) -> Result<Option<u64>, Error> {
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
    reports::leave_out(&mut config);
    settings::report_unknown();
    if let Some(running) = recording::current().as_mut() {
        running.unset()?;
        bounds_of_environment(&mut config);
        return add_settings(running, config).map(|()| None);
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
        Worker::Thread => on_keeper(|| continue_in_child(config, follow, inherited)),
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
fn set_file_mode(config: &Config) {
    file::set_mode(config.file_mode.unwrap_or(file::DEFAULT_MODE));
}

/// Adds settings to a recording that the environment has started, except those that the environment
/// has set.
fn add_settings(running: &mut Recording, mut config: Config) -> Result<(), Error> {
    let unset = running.unset()?;
    let _signals = BlockedSignals::new();
    leave_out_overridden(running, &mut config, unset);
    running.started_by = StartedBy::Environment(Unset {
        channels: unset.channels && config.channels.is_none(),
        stacks: unset.stacks && config.stacks.is_none(),
        report: unset.report && config.report.is_none(),
    });
    match &running.control {
        // The program's rules hold for the environment's server, too.
        Some(control) => control.allow(&config)?,
        None => {
            let bound = control::bind(&config)?;
            running.control = bound.map(control::commands::serve).transpose()?;
        }
    }
    if config.file_mode.is_some() {
        set_file_mode(&config);
    }
    add_bounds(running, &config);
    if config.stacks.is_some() {
        config.configure_stacks();
        if config.takes_stacks() {
            channel::apply_setting(&Names::default().with(&stacks::CHANNEL));
        }
    }
    add_track_events(running, &config)?;
    if let Some(path) = config.file {
        add_file(running, path)?;
    }
    if let Some(address) = config.host {
        let host = add::to_host(&address)?;
        if let Some(session) = worker::session().as_mut() {
            let name = address.to_string();
            let number = add::join(session, host, running.analyzer.as_ref(), Vec::new());
            running.initial.host = Some(StartedDestination::new(address, number, name));
        }
    }
    config.channels.into_iter().for_each(add_channels);
    if let Some(report) = config.report {
        running.report = Some(open_report(&report)?);
    }
    Ok(())
}

/// Leaves out what the environment has set, or what concerns the recording from its start, and reports it.
fn leave_out_overridden(running: &Recording, config: &mut Config, unset: Unset) {
    let environment = Settings::from_environment();
    // Each field is here by its name: what it does to a recording that runs is decided when it is added.
    let Config {
        report,
        file,
        host,
        track_events,
        analyze_in_process,
        control: _,
        allowed: _,
        follow_forks,
        report_on_signals: _,
        watch,
        file_mode,
        channels,
        stacks,
        stack_bounds: _,
        worker,
        buffer_limit,
        on_full,
        black_box,
        rss_interval,
    } = config;
    let overridden = [
        ("file_mode", file_mode.take_if(|_| environment.has(FILE_MODE)).is_some()),
        ("black_box_at", black_box.take_if(|_| environment.has(BLACK_BOX)).is_some()),
        ("buffer_limit", buffer_limit.take_if(|_| environment.has(BUFFER_LIMIT)).is_some()),
        ("on_full", on_full.take_if(|_| environment.has(ON_FULL)).is_some()),
        ("channels", channels.take_if(|_| !unset.channels).is_some()),
        ("stacks", stacks.take_if(|_| !unset.stacks).is_some()),
        ("report_on_exit", report.take_if(|_| !unset.report).is_some()),
        ("trace_to_file", file.take_if(|_| running.initial.file.is_some()).is_some()),
        ("trace_to_host", host.take_if(|_| running.initial.host.is_some()).is_some()),
        ("trace_to", track_events.take_if(|_| environment.has(settings::PERFETTO)).is_some()),
        ("rss_interval", rss_interval.is_some()),
        ("-tracewatch", *watch == Watch::Yes && running.watch.is_none()),
        ("worker", *worker == Worker::Manual),
        ("analyze_in_process", *analyze_in_process && running.analyzer.is_none()),
        ("follow_forks", *follow_forks && running.follow.is_none()),
    ];
    let names: Vec<_> = overridden.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if !names.is_empty() {
        let sentence = format!(
            "these settings in code are not used: {}; the environment has started the recording",
            names.join(", ")
        );
        problems::add_quietly(ProblemKind::Overridden, sentence);
    }
}

/// Adds what the environment does not set. The children of forks get it, too.
fn add_bounds(running: &mut Recording, config: &Config) {
    if let Some(limit) = config.buffer_limit {
        buffer_pool::set_limit(limit);
    }
    if config.on_full == Some(OnFull::Drop) {
        backpressure::allow_waiting(false);
    }
    if config.report_on_signals && running.watch.is_none() {
        signals::prepare().unwrap_or_else(problems::report);
    }
    match (config.black_box, &running.analyzer) {
        (Some(limit), Some(analyzer)) => {
            limit_bytes(limit).into_iter().for_each(|limit| analyzer.set_limit(limit));
        }
        (Some(_), None) => problems::add(ProblemKind::Setting,
            "there is no black box: the environment started recording before main without a report; set MEMLEDGER_BLACK_BOX as well".to_owned(),
        ),
        (None, _) => {}
    }
    if let Some(Follow { config: children, .. }) = &mut running.follow {
        children.buffer_limit = config.buffer_limit.or(children.buffer_limit);
        children.black_box = config.black_box.or(children.black_box);
        children.report_on_signals |= config.report_on_signals;
        children.on_full = config.on_full.or(children.on_full);
    }
}

/// Adds the track events that the settings name, from here on.
fn add_track_events(running: &Recording, config: &Config) -> Result<(), Error> {
    if let Some(events) = &config.track_events {
        let sink = session::start(events, running.analyzer.as_ref())?;
        if let Some(session) = worker::session().as_mut() {
            add::join(session, sink, None, Vec::new());
        }
    }
    Ok(())
}

/// Writes the file from the start of the recording on, if that is still known.
fn add_file(running: &mut Recording, location: PathBuf) -> Result<(), Error> {
    let file = open_trace(&location)?;
    let path = file.path().to_owned();
    let joined = worker::session().as_mut().map(|session| session.join(Box::new(file)));
    match joined {
        Some(Ok(())) => {
            let name = path.display().to_string();
            running.initial.file = Some(StartedDestination::new(location, FIRST_FILE, name));
        }
        _ => problems::add(
            ProblemKind::Output,
            format!(
                "{} is not written: the environment started recording before main, and more than {} KiB of events had passed by then; set MEMLEDGER_TRACE as well",
                path.display(),
                buffer_pool::EARLY_LIMIT >> 10
            ),
        ),
    }
    Ok(())
}

/// Turns on channels, but not `memory`: the blocks allocated before would be unknown. Nor `freescope`: the
/// scopes of the frees before would be.
fn add_channels(names: Names) {
    if names.contains(&scopes::FREE_CHANNEL) {
        problems::add(ProblemKind::Setting,
            "freescope is not recorded: the environment started recording before main; set MEMLEDGER_CHANNELS=memory,scope,freescope as well".to_owned(),
        );
    }
    channel::apply_setting(&names.without(&alloc::CHANNEL).without(&scopes::FREE_CHANNEL));
}
