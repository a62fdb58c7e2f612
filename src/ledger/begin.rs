//! How a recording begins, in four steps: validate the settings, wait until no thread of the
//! program is inside the hook, build the sinks and the session, publish the recording.

use super::config::{Config, Limit, OnFull, Watch, Worker};
use super::control::{BoundControl, commands};
use super::destinations::add;
use super::destinations::initial::{InitialDestinations, StartedDestination};
use super::in_process::InProcessAnalyzer;
use super::recording::{self, Follow, Inherited, Recording, WORKER_TIMEOUT};
use super::report::ReportOutput;
#[cfg(feature = "perfetto")]
use super::tracing_session::{self, InitialSession, TracingSessionBuilder};
use super::{exit, fork, late_join, problems, signals, stop, watch};
use crate::alloc::{self, events::MemoryEvents, linked, stats};
use crate::error::Error;
use crate::events::ProgramEvents;
use crate::events::channel::{self, Names};
use crate::platform::os::{self, BlockedSignals};
use crate::rss::{self, RssEvents};
use crate::scopes::{self, events::ScopeEvents};
use crate::stacks::{self, events::StackEvents};
use crate::trace::sink::Sink;
use crate::trace::sink::file::FileSink;
use crate::trace::sink::tcp::Address;
use crate::trace::worker::{self, EventProvider, Session};
use crate::trace::write::{backpressure, buffer_pool, loss, quiesce, registry, reserve, state};
use std::path::PathBuf;
use std::time::Duration;

/// How long a start waits for threads inside the allocator.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// How many times a start checks whether the tracker is the program's global allocator, before it
/// concludes that it is not.
const LINK_CHECKS: usize = 100;

/// The channels that are recorded if no others are set.
const DEFAULT_CHANNELS: &str = "memory,scope";

/// The outputs that are opened before a recording begins.
pub(super) struct Outputs {
    pub(super) file: Option<FileSink>,
    pub(super) report: Option<ReportOutput>,
    pub(super) control: Option<BoundControl>,
}

/// Who starts a recording.
#[derive(Default)]
pub(super) struct Origin {
    pub(super) from_environment: bool,
    /// Whether the channels are final: code may no longer set them. The next two say the same of
    /// the settings for stacks and of the destination of the report.
    pub(super) channels_are_set: bool,
    pub(super) stacks_are_set: bool,
    pub(super) report_is_set: bool,
    /// In the child of a fork: the state of the recording that it continues.
    pub(super) inherited: Option<Inherited>,
    pub(super) for_measurements: bool,
}

/// Starts recording. The children of forks continue it as `follow` says.
///
/// Returns the generation for the handle that ends the recording; `None` if no handle ends it.
pub(super) fn begin(
    config: &Config,
    follow: Option<Follow>,
    mut outputs: Outputs,
    mut origin: Origin,
) -> Result<Option<u64>, Error> {
    // The start of each stream is written here, perhaps on a thread of the program: a failed write
    // must not raise a signal there.
    let _signals = BlockedSignals::new();
    let mut current = recording::current();
    if let Some(running) = &*current {
        return Err(running.refusal());
    }
    let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else {
        let action = "recording cannot start";
        return Err(Error::WorkerStuck { action, waited: WORKER_TIMEOUT });
    };
    let plan = Plan::new(config, &outputs)?;
    config.configure_stacks();
    let from_process_start = quiesce(&plan, origin.inherited.is_some())?;
    let (memory, control) = (plan.memory, outputs.control.take());
    let origin_measures = origin.for_measurements;
    state::set_option(state::FREE_SCOPES, plan.free_scope);
    let buffer_limit = plan.buffer_limit;
    let mut watched = None;
    // That there is no watcher is said if one was asked for by name.
    let no_watcher = |error: &dyn std::fmt::Display| {
        if config.watch == Watch::Yes {
            problems::add(format!("there is no watcher: {error}"));
        }
    };
    if config.watch.is_wanted() && !origin.for_measurements {
        let file = watch::watched_file(outputs.file.as_mut());
        watched = file.map_err(|error| no_watcher(&error)).ok();
    }
    let own = watched.as_mut().and_then(|file| file.own.take());
    let shared = origin.inherited.as_mut().and_then(|from| from.shared.take());
    let followed = shared
        .zip(outputs.file.as_mut())
        .and_then(|(shared, file)| Some((shared, file.set_watched()?, file.transport())));
    let (mut new_session, mut recording) =
        build(plan, follow, outputs, own, origin, from_process_start);
    if let Some(file) = watched {
        let (session, descriptor) = (&mut new_session, file.descriptor);
        let started = watch::start(session, &mut recording, descriptor, buffer_limit);
        recording.watch = started.map_err(|error| no_watcher(&error)).ok();
    }
    if let Some((shared, descriptor, transport)) = followed {
        let report = recording.report.as_ref();
        recording.watch = watch::follow(&mut new_session, report, shared, descriptor, transport);
    }

    *session = Some(new_session);
    drop(session);
    let has_worker = config.worker == Worker::Thread && spawn_worker();
    recording.has_worker = has_worker;
    recording.table = (!origin_measures).then(os::OwnTable::share);
    backpressure::allow_waiting(has_worker && config.on_full == OnFull::Wait);
    quiesce::run(memory && !recording.unlinked);
    recording.control =
        control.and_then(|bound| commands::serve(bound).map_err(problems::report).ok());
    if config.report_on_signals && recording.watch.is_none() {
        signals::prepare().unwrap_or_else(problems::report);
    }
    let handle = (!recording.from_environment).then_some(recording.generation);
    *current = Some(recording);
    Ok(handle)
}

/// The settings of a recording, validated.
struct Plan {
    channels: Names,
    /// Whether the channels `memory`, `scope` and `freescope` are among them.
    memory: bool,
    scope: bool,
    free_scope: bool,
    file: Option<PathBuf>,
    host: Option<String>,
    address: Option<Address>,
    #[cfg(feature = "perfetto")]
    perfetto: Option<TracingSessionBuilder>,
    analyzes_in_process: bool,
    buffer_limit: usize,
    rss_interval: Duration,
    /// The number of live bytes at which the black box is written.
    limit: Option<u64>,
}

impl Plan {
    fn new(config: &Config, outputs: &Outputs) -> Result<Self, Error> {
        let channels = config.channels_or(DEFAULT_CHANNELS)?;
        let address = config.host.as_deref().map(Address::parse).transpose()?;
        // NOTE: a host needs the account, too: if its connection is lost, the next stream begins
        // with the live blocks.
        #[cfg(feature = "perfetto")]
        let perfetto = tracing_session::of_settings(config);
        let analyzes_in_process = outputs.report.is_some()
            || address.is_some()
            || outputs.control.is_some()
            || config.analyze_in_process
            || config.limit.is_some()
            || config.follow_forks;
        #[cfg(feature = "perfetto")]
        let analyzes_in_process =
            analyzes_in_process || perfetto.as_ref().is_some_and(TracingSessionBuilder::has_memory);
        Ok(Self {
            memory: channels.contains(&alloc::CHANNEL),
            scope: channels.contains(&scopes::CHANNEL),
            free_scope: channels.contains(&scopes::FREE_CHANNEL),
            channels,
            file: config.file.clone(),
            host: config.host.clone(),
            #[cfg(feature = "perfetto")]
            perfetto,
            address,
            analyzes_in_process,
            buffer_limit: config.buffer_limit.unwrap_or(buffer_pool::DEFAULT_LIMIT),
            rss_interval: config.rss_interval.unwrap_or(rss::DEFAULT_INTERVAL),
            limit: config.limit.and_then(limit_bytes),
        })
    }

    /// The sinks that the recording begins with, in the order in which the worker writes them.
    fn sinks(&mut self, file: Option<FileSink>, analyzer: Option<&InProcessAnalyzer>) -> Sinks {
        let mut sinks = Sinks {
            sinks: Vec::new(),
            initial: InitialDestinations::default(),
            #[cfg(feature = "perfetto")]
            tracing: None,
        };
        if let Some(file) = file {
            let name = file.path().display().to_string();
            let spec = self.file.take();
            sinks.initial.file =
                spec.map(|spec| StartedDestination::new(spec, file.number(), name));
            sinks.sinks.push((Box::new(file), true));
        }
        if let Some(analyzer) = analyzer {
            sinks.sinks.push((Box::new(analyzer.clone()), true));
        }
        // NOTE: after the analyzer, whose last report a session with memory makes.
        #[cfg(feature = "perfetto")]
        if let Some(builder) = self.perfetto.take() {
            match InitialSession::start(&builder, analyzer) {
                Ok((session, sink)) => {
                    sinks.tracing = Some(session);
                    sinks.sinks.push((sink, false));
                }
                Err(error) => problems::report(error),
            }
        }
        if let Some(address) = self.address.take() {
            let name = address.to_string();
            match add::to_host(address) {
                Ok(host) => {
                    let spec = self.host.take();
                    let started = |spec| StartedDestination::new(spec, host.number(), name);
                    sinks.initial.host = spec.map(started);
                    sinks.sinks.push((Box::new(host), true));
                }
                Err(error) => problems::report(error),
            }
        }
        sinks
    }
}

/// The bytes of a limit; `None`, which is reported, if it is a share of none.
pub(super) fn limit_bytes(limit: Limit) -> Option<u64> {
    match limit {
        Limit::Bytes(bytes) => Some(bytes),
        Limit::Null => Some(u64::MAX),
        Limit::OfGroup(percent) => {
            let group = os::memory_limit();
            if group.is_none() {
                problems::add(format!(
                    "the limit is {percent} % of that of the control group, but the process is in none with one; there is no black box"
                ));
            }
            Some((u128::from(group?) * u128::from(percent) / 100) as u64)
        }
    }
}

/// A sink, and whether it gets the live blocks.
type JoiningSink = (Box<dyn Sink>, bool);

struct Sinks {
    sinks: Vec<JoiningSink>,
    initial: InitialDestinations,
    #[cfg(feature = "perfetto")]
    tracing: Option<InitialSession>,
}

/// Empties the buffers of all threads and resets the counters, unless the recording continues the
/// early one from before `main`. Returns whether it does. Keeps the call stacks if `inherits` live
/// blocks that have some.
fn quiesce(plan: &Plan, inherits: bool) -> Result<bool, Error> {
    exit::prepare();
    quiesce::prepare();
    reserve::reset();
    buffer_pool::configure(plan.buffer_limit);
    scopes::CHANNEL.force(plan.scope);
    // NOTE: an early recording that is not continued is discarded: its blocks would be reported as
    // live.
    if plan.memory && state::adopt_early() {
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
        return Err(Error::ThreadInAllocator { waited: START_TIMEOUT });
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
    mut plan: Plan,
    follow: Option<Follow>,
    outputs: Outputs,
    for_watcher: Option<FileSink>,
    origin: Origin,
    from_process_start: bool,
) -> (Session, Recording) {
    let new_generation = recording::next_generation();
    let unlinked = !is_allocator_linked();
    if follow.is_some() {
        fork::enable();
    }
    let analyzer = plan.analyzes_in_process.then(InProcessAnalyzer::new);
    if let (Some(analyzer), Some(limit)) = (&analyzer, plan.limit) {
        analyzer.set_limit(limit);
    }
    let has_file = outputs.file.is_some();
    let mut started = plan.sinks(outputs.file, analyzer.as_ref());
    if let Some(file) = for_watcher {
        started.sinks.push((Box::new(file), true));
    }
    alloc::CHANNEL.force(plan.memory);
    channel::apply_setting(plan.channels);
    let recording = Recording {
        generation: origin.inherited.as_ref().map_or(new_generation, |from| from.generation),
        from_environment: origin.from_environment,
        unlinked,
        channels_are_set: origin.channels_are_set,
        stacks_are_set: origin.stacks_are_set,
        analyzer,
        late_analyzer: None,
        report: outputs.report,
        report_is_set: origin.report_is_set,
        initial: started.initial,
        #[cfg(feature = "perfetto")]
        tracing: started.tracing,
        control: None,
        follow,
        watch: None,
        has_worker: false,
        table: None,
        measurements: 0,
        for_measurements: origin.for_measurements,
    };
    let keeps_history = origin.from_environment && !has_file && origin.inherited.is_none();
    // A measurement has no report that shows RSS.
    let rss_interval = if origin.for_measurements { Duration::ZERO } else { plan.rss_interval };
    let providers = providers(from_process_start, rss_interval);
    let mut session = new_session(started.sinks, providers, from_process_start, origin.inherited);
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
        #[cfg(other_allocators)]
        Box::new(crate::alloc::others::OtherAllocators::new()),
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
        problems::add(format!("{error}; the program can call Ledger::update() instead"));
    });
    spawned.is_ok()
}
