//! The settings that come while a recording of the environment runs: of code, and of flags. The table of
//! settings says of each whether it is taken.

use super::begin::limit_bytes;
use super::signals;
use super::start::set_file_mode;
use crate::alloc;
use crate::dump::open_report;
use crate::error::Error;
use crate::events::channel::{self, Names};
use crate::ledger::commands;
use crate::ledger::config::{Config, OnFull, Worker};
use crate::ledger::destinations::{add, session};
use crate::ledger::recording::control;
use crate::ledger::recording::initial::StartedDestination;
use crate::ledger::recording::{Follow, Recording, StartedBy, Unset};
use crate::ledger::settings::{STACK_FRAMES, STACK_MEMORY, Settings, Unless};
use crate::platform::os::BlockedSignals;
use crate::problems::{self, ProblemKind};
use crate::scopes;
use crate::stacks;
use crate::trace::sink::FIRST_FILE;
use crate::trace::worker;
use crate::trace::write::{backpressure, buffer_pool};
use std::path::PathBuf;

pub(super) fn add_flags(running: &mut Recording, flags: &Settings) -> Result<(), Error> {
    let mut config = Config::default();
    bounds_of_environment(&mut config);
    flags.clone().apply(&mut config);
    if let StartedBy::Environment(unset) = &mut running.started_by {
        unset.channels |= config.channels.is_some();
        unset.stacks |= config.stacks.is_some();
    }
    add(running, config)
}

pub(super) fn add_code(running: &mut Recording, mut config: Config) -> Result<(), Error> {
    running.unset()?;
    bounds_of_environment(&mut config);
    add(running, config)
}

/// Sets the bounds of stacks that the environment has: they hold for stacks that others turn on, too. What is
/// wrong with them was reported when the environment started the recording.
fn bounds_of_environment(config: &mut Config) {
    let bounds = Settings::from_environment().only(&[STACK_FRAMES, STACK_MEMORY]);
    bounds.apply_reporting(config, &mut |_| {});
}

/// Adds settings to a recording that the environment has started, except those that the environment
/// has set.
fn add(running: &mut Recording, mut config: Config) -> Result<(), Error> {
    let unset = running.unset()?;
    let _signals = BlockedSignals::new();
    leave_out(running, &mut config, unset);
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
            running.control = bound.map(commands::serve).transpose()?;
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
    // Each field by its name, so that a new one is decided: used here, used above, not used.
    #[rustfmt::skip]
    let Config {
        report, file, host, channels,
        control: _, allowed: _, file_mode: _, stacks: _, stack_bounds: _, track_events: _,
        report_on_signals: _, buffer_limit: _, on_full: _, black_box: _,
        analyze_in_process: _, follow_forks: _, watch: _, worker: _, rss_interval: _,
    } = config;
    if let Some(path) = file {
        add_file(running, path)?;
    }
    if let Some(address) = host {
        let host = add::to_host(&address)?;
        if let Some(session) = worker::session().as_mut() {
            let name = address.to_string();
            let number = add::join(session, host, running.analyzer.as_ref(), Vec::new());
            running.initial.host = Some(StartedDestination::new(address, number, name));
        }
    }
    channels.into_iter().for_each(add_channels);
    if let Some(report) = report {
        running.report = Some(open_report(&report)?);
    }
    Ok(())
}

/// Leaves out what is not used, as the table of settings says, and reports it.
fn leave_out(running: &Recording, config: &mut Config, unset: Unset) {
    let environment = Settings::from_environment();
    let mut names = config.take_unused(|variable, unless| match unless {
        Unless::InEnvironment => environment.has(variable),
        Unless::HasChannels => !unset.channels,
        Unless::HasStacks => !unset.stacks,
        Unless::HasReport => !unset.report,
        Unless::HasFile => running.initial.file.is_some(),
        Unless::HasHost => running.initial.host.is_some(),
        Unless::NoWatcher => running.watch.is_none(),
        Unless::NoAnalyzer => running.analyzer.is_none(),
        Unless::NoFollower => running.follow.is_none(),
        Unless::IsRunning => true,
    });
    // It has no variable.
    if config.worker == Worker::Manual {
        names.push("worker");
    }
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
    let file = add::open_trace(&location)?;
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
