//! One recording: how it starts, and what can be asked of it. [`ending`](super::ending) is how it ends.

use super::builder::{Config, OnFull, Worker};
use super::control::{self, Bound, Control};
use super::destinations::{To, add, filter};
use super::environment::{self, Settings};
use super::live::Live;
use super::output::{Output, UNLINKED, open_report, open_trace};
use super::report_to::ReportTo;
use super::{Ledger, Snapshot, Stats, exit, follow, opening, problems};
use crate::alloc::{self, events::MemoryEvents, linked, stats};
use crate::analysis::Alive;
use crate::error::Error;
use crate::events::ProgramEvents;
use crate::events::channel::{self, ChannelFilter};
use crate::platform::os::{self, BlockedSignals};
use crate::scopes::{self, context, events::ScopeEvents};
use crate::trace::sink::Sink;
use crate::trace::sink::file::{self, FileSink};
use crate::trace::sink::queue;
use crate::trace::sink::tcp::Address;
use crate::trace::worker::{self, Instrument, Session, Trailer};
use crate::trace::write::{ReentrancyGuard, buffer, loss, registry, reserve, state, untracked};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a start waits for threads inside the allocator, and the end of a recording for a worker
/// that is stuck in a write.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a flush or an end waits for threads that are inside the hook, to bring everything up to
/// now.
pub(super) const PATIENCE_WITH_HOOKS: Duration = Duration::from_millis(100);

/// How often a start looks whether the tracker is the program's allocator, before it believes that it is not.
const LOOKS_FOR_ALLOCATOR: usize = 100;

/// The recording that is under way.
pub(super) struct Run {
    pub(super) generation: u64,
    /// The environment started it before `main`: it ends when the process exits.
    from_environment: bool,
    /// The tracker is not this program's allocator: there is nothing to record.
    pub(super) unlinked: bool,
    /// The environment has said which channels are enabled; otherwise code still may.
    channels_are_set: bool,
    pub(super) live: Option<Live>,
    /// Where there is none, one that knows nothing of what was before the first measurement.
    pub(super) late_account: Option<Live>,
    pub(super) report: Option<Output>,
    /// Somebody has said where the report goes, or that there is none; otherwise code still may.
    report_is_set: bool,
    has_file: bool,
    has_host: bool,
    control: Option<Control>,
    /// What was asked for, where the children of forks are to do the same.
    follow: Option<Config>,
    /// How many measurements look at the account.
    pub(super) measurements: u32,
    /// Measurements have started it, and it ends with the last of them.
    for_measurements: bool,
}

impl Run {
    /// Why no other recording can start.
    fn refusal(&self) -> Error {
        if !self.for_measurements {
            return Error::AlreadyStarted;
        }
        Error::MeasurementRunning
    }

    /// Why nothing can be measured, if so.
    pub(super) fn refuse_measurement(&self) -> Result<(), Error> {
        let why = if self.unlinked {
            UNLINKED
        } else if state::load() & state::RECORD == 0 {
            "the ledger that is running does not record the channel \"memory\", or has failed (Ledger::problems says why)"
        } else if scopes::CHANNEL.is_off() {
            "the ledger that is running does not record the channel \"scope\""
        } else {
            return Ok(());
        };
        Err(Error::Unmeasured(why.into()))
    }

    /// The account that measurements look at; without one, it begins here.
    pub(super) fn account(&mut self, session: &mut Session) -> &Live {
        let begin = || {
            let live = Live::new();
            worker::tick(session, PATIENCE_WITH_HOOKS);
            session
                .join_here(Box::new(live.clone()), |here, sink| opening::begin(None, here, sink));
            live
        };
        self.live.as_ref().unwrap_or_else(|| self.late_account.get_or_insert_with(begin))
    }

    /// Whether nobody needs it any more.
    pub(super) fn is_over(&self) -> bool {
        self.for_measurements && self.measurements == 0
    }

    pub(super) fn follows(&self) -> bool {
        self.follow.is_some()
    }

    pub(super) fn take_follow(&mut self) -> Option<Config> {
        self.follow.take()
    }

    /// What the child of a fork goes on from, apart from its blocks.
    pub(super) fn handed_on(&self) -> (u64, bool) {
        (self.generation, self.from_environment)
    }
}

/// What the child of a fork goes on from.
pub(super) struct Inherited {
    pub(super) alive: Option<Alive>,
    /// The start of the clock, in cycles.
    pub(super) start: u64,
    pub(super) from_process_start: bool,
    /// The parent's handle is the child's, too, and ends this recording there.
    pub(super) generation: u64,
    pub(super) from_environment: bool,
}

/// Who starts a recording.
#[derive(Default)]
struct Start {
    from_environment: bool,
    channels_are_set: bool,
    report_is_set: bool,
    follow: Option<Config>,
    inherited: Option<Inherited>,
    for_measurements: bool,
}

static RUN: Mutex<Option<Run>> = Mutex::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);

pub(super) fn run() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is recorded where nothing else is asked for.
const DEFAULT_CHANNELS: &str = "memory,scope";

/// The same, or `None` if it is not free within `patience`.
pub(super) fn run_within(patience: Duration) -> Option<MutexGuard<'static, Option<Run>>> {
    worker::lock_within(&RUN, patience)
}

/// Starts as flags say, and the environment where they are silent, by default with a report on
/// stderr; what does not work is told and left out.
pub(super) fn start_with(flags: Settings) -> Ledger {
    untracked(move || {
        let _awake = state::awake();
        if let Err(error) = refuse_forked() {
            return tell_and_go_on(error);
        }
        environment::tell_unknown();
        // NOTE: the lock is held to the end of this statement, and starting takes it again.
        let beside = match run().as_mut() {
            Some(run) if run.from_environment => {
                let mut config = Config::default();
                flags.clone().apply(&mut config);
                run.channels_are_set &= config.channels.is_none();
                Some(join_environment(run, config).unwrap_or_else(tell_and_go_on))
            }
            Some(run) => Some(tell_and_go_on(run.refusal())),
            None => None,
        };
        beside.unwrap_or_else(|| apart(|| start_leniently(flags.or(Settings::read()), false)))
    })
}

/// Runs the tracker's own code on a thread of its own: what it allocates for good shall not lie
/// among the program's blocks. A heap can be very sensitive to that: a JSON parse that frees
/// millions of blocks took 1.3 times as long with two of ours at its start.
pub(super) fn apart<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    // PERF: while there may be one thread only. With more, the system takes 10 ms to answer; what
    // it has granted once it grants at once.
    os::register_barrier();
    reserve::prepare();
    os::run_apart(|| untracked(|| catch_unwind(AssertUnwindSafe(body))))
        .unwrap_or_else(|panic| resume_unwind(panic))
}

/// The start before `main`; the process's exit ends it.
pub(super) fn start_from_environment(settings: Settings) {
    std::mem::forget(apart(|| start_leniently(settings, true)));
}

fn start_leniently(settings: Settings, from_environment: bool) -> Ledger {
    let (channels_are_set, report_is_set) =
        (settings.channels.is_some(), settings.report.is_some());
    let mut config = Config { report: Some(ReportTo::stderr()), ..Config::default() };
    settings.apply(&mut config);
    let follow = config.follow_forks.then(|| config.clone());
    let start =
        Start { from_environment, channels_are_set, report_is_set, follow, ..Start::default() };
    set_file_mode(&config);
    // A file that cannot be created must not cost the report.
    let control = control::bind(&config).map_err(tell).ok().flatten();
    let file = config.file.as_ref().and_then(|file| open_trace(&file.place).map_err(tell).ok());
    let output = config.report.take().and_then(|report| open_report(&report).map_err(tell).ok());
    begin(config, file, output, control, start).unwrap_or_else(tell_and_go_on)
}

fn tell_and_go_on(error: Error) -> Ledger {
    tell(error);
    Ledger { generation: None }
}

pub(super) fn tell(error: Error) {
    problems::add(error.to_string());
}

/// Starts as set in code, and by the environment over that.
pub(super) fn start(config: &Config) -> Result<Ledger, Error> {
    // What the program handed in stays the program's: it is copied inside. So is an error that
    // goes back to it: it is copied outside.
    theirs(untracked(|| apart(|| start_strictly(config.clone()))))
}

/// A result for the program: an error is copied outside, since it drops it.
pub(super) fn theirs<T>(result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| {
        let theirs = error.duplicate();
        untracked(move || drop(error));
        theirs
    })
}

fn start_strictly(mut config: Config) -> Result<Ledger, Error> {
    let _awake = state::awake();
    refuse_forked()?;
    if let Some(channels) = &config.channels {
        channel::names(channels)?;
    }
    filters(&config)?;
    if let Some(host) = &config.host {
        Address::parse(&host.place)?;
    }
    config.file_mode.map_or(Ok(0), environment::file_mode)?;
    environment::tell_unknown();
    match run().as_mut() {
        Some(run) if run.from_environment => return join_environment(run, config),
        Some(run) => return Err(run.refusal()),
        None => {}
    }
    Settings::read().apply(&mut config);
    let follow = config.follow_forks.then(|| config.clone());
    let start = Start { channels_are_set: true, report_is_set: true, follow, ..Start::default() };
    open_and_begin(config, start)
}

fn open_and_begin(mut config: Config, start: Start) -> Result<Ledger, Error> {
    set_file_mode(&config);
    // Before the file: its start says which port it is.
    let control = control::bind(&config)?;
    let file = config.file.as_ref().map(|file| open_trace(&file.place)).transpose()?;
    let output = config.report.take().map(|report| open_report(&report)).transpose()?;
    begin(config, file, output, control, start)
}

/// The channels that the file and the host get.
fn filters(config: &Config) -> Result<(Option<ChannelFilter>, Option<ChannelFilter>), Error> {
    let file = config.file.as_ref().and_then(|file| file.channels.as_deref());
    let host = config.host.as_ref().and_then(|host| host.channels.as_deref());
    Ok((filter::parse(file)?, filter::parse(host)?))
}

/// Sets the permissions of files created from here on.
fn set_file_mode(config: &Config) {
    file::set_mode(config.file_mode.unwrap_or(file::DEFAULT_MODE));
}

/// Starts with an account and nothing else, for measurements.
pub(super) fn start_for_measurements() -> Result<(), Error> {
    let _awake = state::awake();
    let config = Config { keep_account: true, ..Config::default() };
    let start = Start {
        channels_are_set: true,
        report_is_set: true,
        for_measurements: true,
        ..Start::default()
    };
    open_and_begin(config, start).map(std::mem::forget)
}

/// Starts in the child of a fork, where nothing is recorded yet. `asked` is what its own children
/// follow.
pub(super) fn follow(config: Config, asked: Config, inherited: Inherited) -> Result<(), Error> {
    let _awake = state::awake();
    let start = Start {
        from_environment: inherited.from_environment,
        channels_are_set: true,
        report_is_set: true,
        follow: Some(asked),
        inherited: Some(inherited),
        for_measurements: false,
    };
    open_and_begin(config, start).map(std::mem::forget)
}

/// The environment has started already: adds what it did not ask for itself.
fn join_environment(run: &mut Run, config: Config) -> Result<Ledger, Error> {
    let _signals = BlockedSignals::new();
    match &run.control {
        // The program's rules hold for the environment's server, too.
        Some(control) => control.allow(&config)?,
        None => run.control = control::bind(&config)?.map(Bound::serve).transpose()?,
    }
    if config.file_mode.is_some() && Settings::read().file_mode.is_none() {
        set_file_mode(&config);
    }
    let (file_filter, host_filter) = filters(&config)?;
    if let Some(To { place: path, .. }) = config.file.filter(|_| !run.has_file) {
        let file = open_trace(&path)?;
        let path = file.path().to_owned();
        let sink = filter::apply(file_filter, Box::new(file));
        let joined = worker::session().as_mut().map(|session| session.join(sink));
        match joined {
            Some(Ok(())) => run.has_file = true,
            _ => problems::add(format!(
                "{} is not written: the environment started recording before main, and more than {} KiB of events had passed by then; set MEMLEDGER_FILE as well",
                path.display(),
                buffer::EARLY_LIMIT >> 10
            )),
        }
    }
    if let Some(To { place: host, .. }) = config.host.filter(|_| !run.has_host) {
        let mut session = worker::session();
        let live = run.live.as_ref().filter(|_| filter::has_memory(host_filter.as_ref()));
        let host = add::to_host(Address::parse(&host)?, host_filter)?;
        if let Some(session) = session.as_mut() {
            add::join(session, host, live, Vec::new());
            run.has_host = true;
        }
    }
    if let Some(channels) = config.channels.filter(|_| !run.channels_are_set) {
        // Blocks from before would be unknown.
        channel::want(channel::names(&channels)?.without(&alloc::CHANNEL));
        run.channels_are_set = true;
    }
    if let Some(report) = config.report.filter(|_| !run.report_is_set) {
        run.report = Some(open_report(&report)?);
        run.report_is_set = true;
    }
    Ok(Ledger { generation: None })
}

/// In the child of a fork there is no worker, and a lock may be held by a thread that is not
/// there: nothing of the recording is touched.
pub(super) fn refuse_forked() -> Result<(), Error> {
    if state::is_forked() {
        return Err(Error::ForkedChild);
    }
    Ok(())
}

/// Whether nothing is being recorded, started or ended just now.
pub(super) fn is_idle() -> bool {
    RUN.try_lock().is_ok_and(|run| run.is_none())
}

/// Starts recording.
fn begin(
    config: Config,
    file: Option<FileSink>,
    report: Option<Output>,
    control: Option<Bound>,
    start: Start,
) -> Result<Ledger, Error> {
    if !os::SUPPORTED {
        return Err(Error::UnsupportedPlatform);
    }
    // What starts a stream is written here, on the program's own thread.
    let _signals = BlockedSignals::new();
    let mut run = run();
    if let Some(run) = &*run {
        return Err(run.refusal());
    }
    let Some(mut place) = worker::session_within(PATIENCE) else {
        return Err(Error::WorkerStuck { action: "recording cannot start", waited: PATIENCE });
    };
    let address = config.host.as_ref().map(|host| Address::parse(&host.place)).transpose()?;
    let channels = channel::names(config.channels.as_deref().unwrap_or(DEFAULT_CHANNELS))?;
    let (file_filter, host_filter) = filters(&config)?;
    let hook = channels.contains(&alloc::CHANNEL);
    let scope = channels.contains(&scopes::CHANNEL);
    exit::prepare();
    state::prepare();
    reserve::forget();
    buffer::configure(config.buffer_limit.unwrap_or(buffer::DEFAULT_LIMIT));
    scopes::CHANNEL.force(scope);
    // NOTE: a prefix that is not gone on with would make every block freed later look alive.
    let from_process_start = hook && state::adopt_early();
    if !from_process_start {
        // NOTE: twice. A thread that enters the hook now may have seen the room in its old block, and
        // must be out again before it is told that it may go on.
        // It may be preempted there: where many threads share a processor, for longer than an end
        // would wait. Nothing is recorded meanwhile, so nobody but the starting thread waits.
        let paused = state::pause(PATIENCE) && {
            registry::forget_blocks();
            state::pause(PATIENCE)
        };
        if !paused {
            state::turn_off();
            return Err(Error::ThreadInAllocator { waited: PATIENCE });
        }
        loss::forget();
        stats::forget_failures();
        scopes::thread::forget_misuses();
    }
    let mut generation = GENERATION.fetch_add(1, Ordering::AcqRel) + 1;
    // NOTE: more than once. Another thread, whose start has failed, may have turned recording off
    // just now, and the allocator then says nothing.
    let is_linked = |_| {
        state::wake();
        linked::is_global_allocator()
    };
    let unlinked = !(0..LOOKS_FOR_ALLOCATOR).any(is_linked);
    // NOTE: for the host, too. When its connection is lost, the next stream begins with what is alive.
    let Start {
        from_environment,
        channels_are_set,
        report_is_set,
        follow,
        inherited,
        for_measurements,
    } = start;
    let keeps_account = report.is_some()
        || address.is_some()
        || control.is_some()
        || config.keep_account
        || config.follow_forks;
    if config.follow_forks {
        follow::ask();
    }
    let live = keeps_account.then(Live::new);
    let has_file = file.is_some();
    let knows =
        [&file_filter, &None, &host_filter].map(|filter| filter::has_memory(filter.as_ref()));
    let host = address.and_then(|address| add::to_host(address, host_filter).map_err(tell).ok());
    let has_host = host.is_some();
    let sinks: [Option<Box<dyn Sink>>; 3] = [
        file.map(|file| filter::apply(file_filter, Box::new(file))),
        live.clone().map(|live| Box::new(live) as _),
        host.map(|host| Box::new(host) as _),
    ];
    alloc::CHANNEL.force(hook);
    channel::want(channels);
    let instruments: Vec<Box<dyn Instrument>> = vec![
        Box::new(MemoryEvents::new()),
        Box::new(ScopeEvents::new(from_process_start)),
        Box::new(ProgramEvents::new()),
    ];
    // Those of a child begin late.
    let is_child = inherited.is_some();
    let (sinks, late) =
        if is_child { (Default::default(), sinks) } else { (sinks, Default::default()) };
    let sinks = sinks.into_iter().flatten().collect();
    let mut session = Session::new(sinks, instruments, from_process_start, tell);
    if let Some(inherited) = inherited {
        generation = inherited.generation;
        session.go_on_from(inherited.start, inherited.from_process_start);
        for (sink, knows) in late.into_iter().zip(knows) {
            let Some(sink) = sink else { continue };
            let alive = inherited.alive.clone().filter(|_| knows);
            session.join_here(sink, |here, sink| opening::begin(alive, here, sink));
        }
    }
    if from_environment && !has_file && !is_child {
        session.keep_history(buffer::EARLY_LIMIT);
    }
    *place = Some(session);
    drop(place);
    let threaded = config.worker == Worker::Thread
        && worker::spawn().map_err(|error| tell_manual(&error)).is_ok();
    buffer::allow_waiting(threaded && config.on_full == OnFull::Wait);
    state::run(hook && !unlinked);
    *run = Some(Run {
        generation,
        from_environment,
        unlinked,
        channels_are_set,
        live,
        late_account: None,
        report,
        report_is_set,
        has_file,
        has_host,
        control: control.and_then(|bound| bound.serve().map_err(tell).ok()),
        follow,
        measurements: 0,
        for_measurements,
    });
    Ok(Ledger { generation: (!from_environment).then_some(generation) })
}

fn tell_manual(error: &Error) {
    problems::add(format!("{error}; the program can call Ledger::update() instead"));
}

/// Collects now, on this thread. `with_figures` writes all figures that have changed, too, which
/// otherwise waits for the next second: a program may collect for each of its frames.
pub(super) fn collect(with_figures: bool) {
    let _untracked = ReentrancyGuard::enter();
    if state::is_forked() {
        return;
    }
    let _signals = BlockedSignals::new();
    if let Some(mut session) = worker::session_within(PATIENCE)
        && let Some(session) = session.as_mut()
    {
        if with_figures {
            session.want_figures();
        }
        worker::tick(session, PATIENCE_WITH_HOOKS);
    }
}

pub(super) fn snapshot() -> Option<Snapshot> {
    if state::is_forked() {
        return None;
    }
    let report = untracked(|| {
        apart(|| {
            collect(true);
            let live = run().as_ref()?.live.clone()?;
            Some(live.report())
        })
    });
    report.map(Snapshot::new)
}

/// Collects now. PERF: apart, as the end of a recording is.
pub(super) fn flush() {
    if !state::is_forked() {
        untracked(|| apart(|| collect(true)));
    }
}

pub(super) fn control_address() -> Option<std::net::SocketAddr> {
    if state::is_forked() {
        return None;
    }
    let _untracked = ReentrancyGuard::enter();
    run().as_ref()?.control.as_ref().map(Control::address)
}

pub(super) fn stats() -> Stats {
    Stats {
        recording: state::load() & state::RECORD != 0 && state::is_running(),
        events: worker::collected(),
        lost_events: loss::total(),
        buffer_bytes: buffer::used() as u64,
        overhead_bytes: overhead_bytes(),
        failed_allocations: stats::failures(),
        scope_misuses: scopes::thread::misuses(),
        refused_contexts: context::refused(),
        lost_destinations: queue::failures(),
    }
}

/// Everything the tracker holds: what its own code allocated, and its pages.
fn overhead_bytes() -> u64 {
    stats::own_bytes() + worker::mapped_bytes() + context::bytes()
}

/// What a stream says at its end.
pub(super) fn trailer() -> Trailer {
    Trailer {
        overhead_bytes: overhead_bytes(),
        scope_misuses: scopes::thread::misuses(),
        failed_allocations: stats::failures(),
    }
}
