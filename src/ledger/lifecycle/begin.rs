//! How a recording begins, in three steps: wait until no thread of the
//! program is inside the hook, build the sinks and the session, publish the recording.

use super::{exit, fork, signals, stop};
use crate::alloc::{self, events::MemoryEvents, linked, stats};
use crate::dump::{InProcessAnalyzer, ReportOutput};
use crate::error::{self, Error, ErrorKind};
use crate::events::ProgramEvents;
use crate::events::channel::{self, Names};
use crate::interpose::others;
use crate::ledger::commands;
use crate::ledger::config::{Config, Limit, OnFull, Watch, Worker};
use crate::ledger::destinations::add;
use crate::ledger::destinations::session;
use crate::ledger::recording::control::BoundControl;
use crate::ledger::recording::initial::{InitialDestinations, StartedDestination};
use crate::ledger::recording::{self, Follow, Inherited, Recording, StartedBy, late_join, watch};
use crate::platform::os::{self, BlockedSignals};
use crate::problems::{self, ProblemKind};
use crate::rss::{self, RssEvents};
use crate::scopes::{self, events::ScopeEvents};
use crate::stacks::{self, events::StackEvents};
use crate::trace::sink::Sink;
use crate::trace::sink::file::FileSink;
use crate::trace::worker::{self, EventProvider, Session, WORKER_TIMEOUT};
use crate::trace::write::{backpressure, buffer_pool, loss, quiesce, registry, reserve, state};
use memledger_format::words::scopes_of_copy;
use std::time::Duration;

/// How long a start waits for threads inside the allocator.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// How many times a start checks whether the tracker is the program's global allocator, before it
/// concludes that it is not.
const LINK_CHECKS: usize = 100;

/// The outputs that are opened before a recording begins.
#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) file: Option<FileSink>,
    pub(crate) report: Option<ReportOutput>,
    pub(crate) control: Option<BoundControl>,
    /// What only a watcher needs.
    pub(crate) watched: Option<FileSink>,
    pub(crate) track_events: Option<crate::perfetto::TrackEvents>,
}

/// Starts recording. The children of forks continue it as `follow` says. `inherited` is, in the child of a
/// fork, the state of the recording that it continues.
///
/// Returns the generation for the handle that ends the recording; `None` if no handle ends it.
pub(crate) fn begin(
    config: &Config,
    follow: Option<Follow>,
    mut outputs: Outputs,
    started_by: StartedBy,
    mut inherited: Option<Inherited>,
) -> Result<Option<u64>, Error> {
    // The start of each stream is written here, perhaps on a thread of the program: a failed write
    // must not raise a signal there.
    let _signals = BlockedSignals::new();
    let mut current = recording::current();
    if let Some(running) = &*current {
        return Err(running.refusal());
    }
    let stuck = || error::worker_stuck("recording cannot start", WORKER_TIMEOUT);
    let mut session = worker::session_within(WORKER_TIMEOUT).ok_or_else(stuck)?;
    outputs.track_events = config.track_events.clone();
    let channels = config.channels();
    config.configure_stacks();
    let from_process_start = quiesce(config, &channels, inherited.is_some())?;
    state::set_option(state::FREE_SCOPES, channels.contains(&scopes::FREE_CHANNEL));
    let measures = started_by == StartedBy::Measurement;
    let is_inherited = inherited.is_some();
    let is_watched = config.watch.is_wanted() && !measures;
    let watched = is_watched.then(|| watch::watched_file(outputs.file.as_mut()));
    let mut watched = watched.and_then(|file| noted(config, file));
    let shared = inherited.as_mut().and_then(|from| from.shared.take());
    let followed = shared
        .zip(outputs.file.as_mut())
        .and_then(|(shared, file)| Some((shared, file.set_watched()?, file.transport())));
    outputs.watched = watched.as_mut().and_then(|file| file.own.take());
    let (mut new_session, mut recording) =
        build(config, &channels, follow, &mut outputs, started_by, inherited, from_process_start);
    if let Some(file) = watched {
        let (session, file) = (&mut new_session, (file.descriptor, file.next));
        let started = watch::start(session, &mut recording, file, config.buffer_limit());
        recording.watch = noted(config, started);
    }
    if let Some((shared, descriptor, transport)) = followed {
        let report = recording.report.as_ref();
        recording.watch = watch::follow(&mut new_session, report, shared, descriptor, transport);
    }
    if !is_inherited {
        // NOTE: after the watcher, which is forked from a process with one thread.
        let more = sinks_with_threads(config, &mut outputs, &mut recording);
        more.into_iter().for_each(|(sink, _)| new_session.join_at_start(sink));
    }
    *session = Some(new_session);
    drop(session);
    recording.table = (!measures).then(os::OwnTable::share);
    run(config, &channels, &mut recording, outputs.control);
    if !measures && !is_inherited {
        for copy in os::copies::others() {
            problems::add(ProblemKind::Incomplete, scopes_of_copy(&copy, os::copies::OWN));
        }
    }
    let handle = (!matches!(started_by, StartedBy::Environment(_))).then_some(recording.generation);
    *current = Some(recording);
    Ok(handle)
}

/// Starts what collects, the hooks, and what controls and ends a recording.
fn run(
    config: &Config,
    channels: &Names,
    recording: &mut Recording,
    control: Option<BoundControl>,
) {
    recording.has_worker = config.worker == Worker::Thread && spawn_worker();
    backpressure::allow_waiting(recording.has_worker && config.on_full != Some(OnFull::Drop));
    quiesce::run(channels.contains(&alloc::CHANNEL) && !recording.unlinked);
    recording.control =
        control.and_then(|bound| commands::serve(bound).map_err(problems::report).ok());
    let by_signals = config.report_on_signals || !os::HAS_WATCHERS && os::HAS_THREADS;
    if by_signals && recording.started_by != StartedBy::Measurement && recording.watch.is_none() {
        signals::prepare().unwrap_or_else(problems::report);
    }
}

/// What a watcher needs; reports why there is none, if it was asked for by name.
fn noted<T, E: std::fmt::Display>(config: &Config, needed: Result<T, E>) -> Option<T> {
    let report = |error| {
        if config.watch == Watch::Yes {
            problems::add(ProblemKind::Tracker, format!("there is no watcher: {error:#}"));
        }
    };
    needed.map_err(report).ok()
}

/// Whether the recording needs the in-process analyzer.
///
/// NOTE: a host does: if its connection is lost, the next stream begins with the live blocks.
fn needs_analyzer(config: &Config, outputs: &Outputs) -> bool {
    outputs.report.is_some()
        || config.host.is_some()
        || outputs.control.is_some()
        || config.analyze_in_process
        || config.black_box.is_some()
        || config.follow_forks
        || outputs.track_events.as_ref().is_some_and(session::has_memory)
}

/// The sinks without a thread that the recording begins with, in the order in which the worker writes them.
fn sinks(
    config: &Config,
    outputs: &mut Outputs,
    analyzer: Option<&InProcessAnalyzer>,
    initial: &mut InitialDestinations,
) -> Vec<JoiningSink> {
    let mut sinks: Vec<JoiningSink> = Vec::new();
    if let Some(file) = outputs.file.take() {
        let (number, name) = (file.number(), file.path().display().to_string());
        let started = |location| StartedDestination::new(location, number, name);
        initial.file = config.file.clone().map(started);
        sinks.push((Box::new(file), true));
    }
    sinks.extend(analyzer.map(|analyzer| (Box::new(analyzer.clone()) as _, true)));
    sinks
}

/// The sinks that have a thread. NOTE: after the analyzer, whose last report a session with memory makes.
fn sinks_with_threads(
    config: &Config,
    outputs: &mut Outputs,
    Recording { analyzer, initial, .. }: &mut Recording,
) -> Vec<JoiningSink> {
    let mut sinks: Vec<JoiningSink> = Vec::new();
    if let Some(events) = outputs.track_events.take() {
        match session::start(&events, analyzer.as_ref()) {
            Ok(sink) => sinks.push((Box::new(sink), false)),
            Err(error) => problems::report(error),
        }
    }
    if let Some(address) = &config.host {
        match add::to_host(address) {
            Ok(host) => {
                let (address, name) = (address.clone(), address.to_string());
                initial.host = Some(StartedDestination::new(address, host.number(), name));
                sinks.push((Box::new(host), true));
            }
            Err(error) => problems::report(error),
        }
    }
    sinks
}

/// The bytes of a limit; `None`, which is reported, if it is a share of none.
pub(crate) fn limit_bytes(limit: Limit) -> Option<u64> {
    match limit {
        Limit::Bytes(bytes) => Some(bytes),
        Limit::Null => Some(u64::MAX),
        Limit::Percent(percent) => {
            let group = os::memory_limit();
            if group.is_none() {
                problems::add(
                    ProblemKind::Setting,
                    format!(
                        "the limit is {percent} % of that of the control group, but the process is in none with one; there is no black box"
                    ),
                );
            }
            Some((u128::from(group?) * u128::from(percent) / 100) as u64)
        }
    }
}

/// A sink, and whether it gets the live blocks.
type JoiningSink = (Box<dyn Sink>, bool);

/// Empties the buffers of all threads and resets the counters, unless the recording continues the
/// early one from before `main`. Returns whether it does. Keeps the call stacks if `inherits` live
/// blocks that have some.
fn quiesce(config: &Config, channels: &Names, inherits: bool) -> Result<bool, Error> {
    exit::prepare();
    quiesce::prepare();
    reserve::reset();
    buffer_pool::configure(config.buffer_limit());
    scopes::CHANNEL.force(channels.contains(&scopes::CHANNEL));
    // NOTE: an early recording that is not continued is discarded: its blocks would be reported as
    // live.
    if channels.contains(&alloc::CHANNEL) && state::adopt_early() {
        return Ok(true);
    }
    // NOTE: twice. A thread that enters the hook during the first pause may still use its old
    // buffer. It must have left the hook before the hooks are turned on again.
    // The thread may be preempted inside the hook; if many threads share a processor, this can last
    // longer than the end of a recording waits. Nothing is recorded meanwhile, so only the starting
    // thread waits.
    let paused = quiesce::pause(START_TIMEOUT) && {
        registry::discard_buffers();
        quiesce::pause(START_TIMEOUT)
    };
    if !paused {
        state::turn_off();
        return Err(Error::new(
            ErrorKind::TimedOut,
            format!(
                "recording cannot start: a thread has been inside the allocator for {} s",
                START_TIMEOUT.as_secs()
            ),
        ));
    }
    loss::reset();
    stats::reset_failures();
    scopes::misuse::reset();
    if !inherits {
        stacks::forget();
    }
    Ok(false)
}

/// Makes the sinks, the session that writes to them, and the recording, which is not running yet.
fn build(
    config: &Config,
    channels: &Names,
    follow: Option<Follow>,
    outputs: &mut Outputs,
    started_by: StartedBy,
    inherited: Option<Inherited>,
    from_process_start: bool,
) -> (Session, Recording) {
    let unlinked = !is_allocator_linked();
    if follow.is_some() {
        fork::enable();
    }
    let analyzer = needs_analyzer(config, outputs).then(InProcessAnalyzer::new).flatten();
    if let (Some(analyzer), Some(limit)) = (&analyzer, config.black_box.and_then(limit_bytes)) {
        analyzer.set_limit(limit);
    }
    let has_file = outputs.file.is_some();
    let mut initial = InitialDestinations::default();
    let mut sinks = sinks(config, outputs, analyzer.as_ref(), &mut initial);
    let mut recording = Recording {
        generation: inherited.as_ref().map_or(recording::next_generation(), |from| from.generation),
        started_by,
        unlinked,
        events_before: worker::collected(),
        analyzer,
        late_analyzer: None,
        report: outputs.report.take(),
        initial,
        control: None,
        follow,
        watch: None,
        has_worker: false,
        table: None,
        measurements: 0,
    };
    if inherited.is_some() {
        sinks.extend(sinks_with_threads(config, outputs, &mut recording));
    }
    if let Some(file) = outputs.watched.take() {
        sinks.push((Box::new(file), true));
    }
    alloc::CHANNEL.force(channels.contains(&alloc::CHANNEL));
    channel::apply_setting(channels);
    let keeps_history =
        matches!(started_by, StartedBy::Environment(_) if !has_file) && inherited.is_none();
    // A measurement has no report that shows RSS.
    let rss_interval = match started_by {
        StartedBy::Measurement => Duration::ZERO,
        _ => config.rss_interval.unwrap_or(rss::DEFAULT_INTERVAL),
    };
    let providers = providers(from_process_start, rss_interval);
    let mut session = new_session(sinks, providers, from_process_start, inherited);
    if keeps_history {
        session.keep_history(buffer_pool::EARLY_LIMIT);
    }
    (session, recording)
}

/// Whether the tracker is the program's global allocator.
///
/// NOTE: checks more than once: another thread whose start has failed may just have turned
/// recording off. The allocation that the check makes then does not take the slow path, which notes
/// that the tracker was called.
fn is_allocator_linked() -> bool {
    (0..LINK_CHECKS).any(|_| {
        state::activate_hook();
        linked::is_global_allocator()
    })
}

/// What declares and adds events.
fn providers(from_process_start: bool, rss_interval: Duration) -> Vec<Box<dyn EventProvider>> {
    let mut providers: Vec<Box<dyn EventProvider>> = vec![
        Box::new(MemoryEvents::new()),
        Box::new(others::Others::new()),
        Box::new(ScopeEvents::new(from_process_start)),
        Box::new(StackEvents::new(problems::report)),
        Box::new(ProgramEvents::new()),
        #[cfg(feature = "perfetto")]
        Box::new(crate::perfetto::SiteEvents::new()),
    ];
    if !rss_interval.is_zero() {
        providers.push(Box::new(RssEvents::every(rss_interval)));
    }
    providers
}

/// The session that writes to these sinks. In the child of a fork, their streams are late joins and
/// begin with the live blocks that the child has inherited.
fn new_session(
    sinks: Vec<JoiningSink>,
    providers: Vec<Box<dyn EventProvider>>,
    from_process_start: bool,
    inherited: Option<Inherited>,
) -> Session {
    let new = |sinks| Session::new(sinks, providers, from_process_start, problems::report);
    let Some(inherited) = inherited else {
        return new(sinks.into_iter().map(|(sink, _)| sink).collect());
    };
    let mut session = new(Vec::new());
    session.continue_from(inherited.start, inherited.from_process_start);
    for (sink, has_memory) in sinks {
        let live_set = inherited.live_set.clone().filter(|_| has_memory);
        session.join_inline(sink, |point, sink| late_join::begin(live_set, point, sink));
    }
    session
}

/// Starts the thread of the worker; returns whether that succeeded.
fn spawn_worker() -> bool {
    let spawned = worker::spawn(stop::left_alone).map_err(|error| {
        problems::add(
            ProblemKind::Tracker,
            format!("{error:#}; the program can call Ledger::collect() instead"),
        );
    });
    spawned.is_ok()
}
