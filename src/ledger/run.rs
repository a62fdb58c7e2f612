//! One recording, from its start to its report.

use super::builder::{Config, OnFull, Worker};
use super::environment::Settings;
use super::live::Live;
use super::report::{Destination, Report};
use super::{Ledger, Snapshot, Stats, exit, problems};
use crate::alloc::{events::MemoryEvents, linked, stats};
use crate::dump;
use crate::error::Error;
use crate::scopes::{self, context, events::ScopeEvents};
use crate::trace::os::{self, BlockedSignals};
use crate::trace::sink::Sink;
use crate::trace::sink::file::{FileSink, OwnFile, create_alone};
use crate::trace::worker::{self, Final, Instrument, Session};
use crate::trace::write::{buffer, own_code, registry, serial, state};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the end of a recording waits for a worker that is stuck in a write.
const PATIENCE: Duration = Duration::from_secs(5);

/// The recording that is under way.
struct Run {
    generation: u64,
    /// The environment started it before `main`: it ends when the process exits.
    from_environment: bool,
    /// The tracker is not this program's allocator: there is nothing to record.
    unlinked: bool,
    live: Option<Live>,
    report: Option<Output>,
    /// Somebody has said where the report goes, or that there is none; otherwise code still may.
    report_is_set: bool,
    has_file: bool,
}

/// Where the report goes, opened.
enum Output {
    Stderr,
    File { file: OwnFile, path: PathBuf },
}

static RUN: Mutex<Option<Run>> = Mutex::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);

fn run() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channels {
    memory: bool,
    scope: bool,
}

impl Channels {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut channels = Self { memory: false, scope: false };
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "memory" => channels.memory = true,
                "scope" => channels.scope = true,
                _ => {
                    return Err(Error::Setting(format!(
                        "the channel {name:?} is not known, only memory and scope are"
                    )));
                }
            }
        }
        Ok(channels)
    }
}

/// Starts as flags say, and the environment where they are silent, by default with a report on
/// stderr; what does not work is told and left out.
pub(super) fn start_with(flags: Settings) -> Ledger {
    let _own = own_code();
    // Where the guard is a local, a parameter would be dropped after it.
    start_with_inside(flags)
}

fn start_with_inside(flags: Settings) -> Ledger {
    let mut config = Config::default();
    if let Err(error) = refuse_forked() {
        tell(error);
        return Ledger { generation: None };
    }
    match run().as_mut() {
        Some(run) if run.from_environment => {
            flags.apply(&mut config);
            return join_environment(run, config).unwrap_or_else(|error| {
                tell(error);
                Ledger { generation: None }
            });
        }
        Some(_) => {
            tell(Error::AlreadyStarted);
            return Ledger { generation: None };
        }
        None => {}
    }
    config.report = Some(Report::stderr());
    flags.or(Settings::read()).apply(&mut config);
    start_leniently(config, None)
}

/// The start before `main`.
pub(super) fn start_from_environment(settings: Settings) {
    let _own = own_code();
    let report_is_set = settings.report.is_some();
    let mut config = Config { report: Some(Report::stderr()), ..Config::default() };
    settings.apply(&mut config);
    std::mem::forget(start_leniently(config, Some(Environment { report_is_set })));
}

/// What the environment has said, where it starts the recording.
struct Environment {
    report_is_set: bool,
}

fn start_leniently(mut config: Config, environment: Option<Environment>) -> Ledger {
    // A file that cannot be created must not cost the report.
    let file = config.file.take().and_then(|path| open_trace(&path).map_err(tell).ok());
    let output = config.report.take().and_then(|report| open_report(&report).map_err(tell).ok());
    begin(config, file, output, environment).unwrap_or_else(|error| {
        tell(error);
        Ledger { generation: None }
    })
}

fn tell(error: Error) {
    problems::add(error.to_string());
}

/// Starts as set in code, and by the environment over that.
///
/// What the program hands in is copied here and dropped by itself; an error is its own in the end,
/// too. So nothing the program holds changes hands, which would look like a leak.
pub(super) fn start(config: &Config) -> Result<Ledger, Error> {
    start_inside(config).map_err(|error| {
        let copy = error.copy();
        let _own = own_code();
        drop(error);
        copy
    })
}

fn start_inside(config: &Config) -> Result<Ledger, Error> {
    let _own = own_code();
    refuse_forked()?;
    let mut config = config.clone();
    if let Some(channels) = &config.channels {
        Channels::parse(channels)?;
    }
    match run().as_mut() {
        Some(run) if run.from_environment => return join_environment(run, config),
        Some(_) => return Err(Error::AlreadyStarted),
        None => {}
    }
    Settings::read().apply(&mut config);
    let file = config.file.take().map(|path| open_trace(&path)).transpose()?;
    let output = config.report.take().map(|report| open_report(&report)).transpose()?;
    begin(config, file, output, None)
}

/// The environment has started already: adds what it did not ask for itself.
fn join_environment(run: &mut Run, config: Config) -> Result<Ledger, Error> {
    if let Some(path) = config.file.filter(|_| !run.has_file) {
        let file = open_trace(&path)?;
        let path = file.path().to_owned();
        let joined = worker::session().as_mut().map(|session| session.join(Box::new(file)));
        match joined {
            Some(Ok(())) => run.has_file = true,
            _ => problems::add(format!(
                "{} is not written: the environment started recording before main, and more than {} KiB of events had passed by then; set MEMLEDGER_FILE as well",
                path.display(),
                buffer::EARLY_LIMIT >> 10
            )),
        }
    }
    if let Some(report) = config.report.filter(|_| !run.report_is_set) {
        run.report = Some(open_report(&report)?);
        run.report_is_set = true;
    }
    Ok(Ledger { generation: None })
}

fn open_trace(path: &Path) -> Result<FileSink, Error> {
    let _signals = BlockedSignals::new();
    let path = expand(path);
    let file = FileSink::create(&path)?;
    if file.path() != path {
        tell_in_use(&path, file.path());
    }
    Ok(file)
}

fn open_report(report: &Report) -> Result<Output, Error> {
    let Destination::File(path) = &report.0 else { return Ok(Output::Stderr) };
    let asked = expand(path);
    let _json = match asked.extension().and_then(|extension| extension.to_str()) {
        Some("json") => true,
        Some("txt") => false,
        _ => {
            return Err(Error::Setting(format!(
                "the report cannot go to {}: its name must end in .txt or .json",
                asked.display()
            )));
        }
    };
    let (file, path) = create_alone(&asked)?;
    if path != asked {
        tell_in_use(&asked, &path);
    }
    Ok(Output::File { file, path })
}

fn tell_in_use(asked: &Path, used: &Path) {
    problems::add(format!(
        "{} is in use by another process, so {} is written instead",
        asked.display(),
        used.display()
    ));
}

/// `%p` process id, `%t` unix seconds, `%e` executable, `%%` a percent sign.
fn expand(path: &Path) -> PathBuf {
    let Some(text) = path.to_str().filter(|text| text.contains('%')) else {
        return path.to_owned();
    };
    let mut expanded = String::new();
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        if char != '%' {
            expanded.push(char);
            continue;
        }
        match rest.next() {
            Some('p') => expanded += &os::process_id().to_string(),
            Some('t') => {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                expanded += &time.as_secs().to_string();
            }
            Some('e') => {
                let program = std::env::current_exe().unwrap_or_default();
                expanded += &program.file_name().unwrap_or_default().to_string_lossy();
            }
            Some('%') => expanded.push('%'),
            other => {
                expanded.push('%');
                expanded.extend(other);
            }
        }
    }
    expanded.into()
}

/// In the child of a fork there is no worker, and a lock may be held by a thread that is not
/// there: nothing of the recording is touched.
fn refuse_forked() -> Result<(), Error> {
    if state::is_forked() {
        return Err(Error::Unsupported(
            "this process was forked from one that was being tracked, so it cannot be tracked itself".into(),
        ));
    }
    Ok(())
}

/// Starts recording.
fn begin(
    config: Config,
    file: Option<FileSink>,
    report: Option<Output>,
    environment: Option<Environment>,
) -> Result<Ledger, Error> {
    if !os::SUPPORTED {
        return Err(Error::Unsupported("memory can be tracked on 64-bit Linux only".into()));
    }
    refuse_forked()?;
    let mut run = run();
    if run.is_some() {
        return Err(Error::AlreadyStarted);
    }
    let Some(mut place) = worker::session_within(PATIENCE) else {
        return Err(Error::Unsupported(
            "recording cannot start: the worker of the one before is still stuck in a write".into(),
        ));
    };
    let channels = Channels::parse(config.channels.as_deref().unwrap_or("memory,scope"))?;
    exit::prepare();
    state::prepare();
    buffer::configure(config.buffer_limit.unwrap_or(buffer::DEFAULT_LIMIT));
    scopes::enable(channels.scope);
    let from_process_start = state::adopt_early();
    if !from_process_start {
        if !state::pause() {
            state::turn_off();
            return Err(Error::Unsupported(
                "recording cannot start: a thread has been inside the allocator for 100 ms".into(),
            ));
        }
        registry::forget_blocks();
    }
    let from_environment = environment.is_some();
    let generation = GENERATION.fetch_add(1, Ordering::AcqRel) + 1;
    let unlinked = !linked::is_global_allocator();
    let live = report.is_some().then(Live::new);
    let has_file = file.is_some();
    let sinks: [Option<Box<dyn Sink>>; 2] =
        [file.map(|file| Box::new(file) as _), live.clone().map(|live| Box::new(live) as _)];
    let instruments: Vec<Box<dyn Instrument>> =
        vec![Box::new(MemoryEvents::new()), Box::new(ScopeEvents::new())];
    let first_serial = if from_process_start { 0 } else { serial::peek() };
    let mut session = Session::new(
        sinks.into_iter().flatten().collect(),
        instruments,
        first_serial,
        from_process_start,
        tell,
    );
    if from_environment && !has_file {
        session.keep_history(buffer::EARLY_LIMIT);
    }
    *place = Some(session);
    drop(place);
    let threaded = config.worker == Worker::Thread
        && worker::spawn().map_err(|error| tell_manual(&error)).is_ok();
    buffer::allow_waiting(threaded && config.on_full == OnFull::Wait);
    if channels.memory && !unlinked {
        state::run();
    } else {
        state::pause();
    }
    let report_is_set = environment.is_none_or(|environment| environment.report_is_set);
    *run =
        Some(Run { generation, from_environment, unlinked, live, report, report_is_set, has_file });
    Ok(Ledger { generation: (!from_environment).then_some(generation) })
}

fn tell_manual(error: &Error) {
    problems::add(format!("{error}; the program can call Ledger::update() instead"));
}

/// Collects now, on this thread.
pub(super) fn collect() {
    let _own = own_code();
    if state::is_forked() {
        return;
    }
    let _signals = BlockedSignals::new();
    if let Some(mut session) = worker::session_within(PATIENCE)
        && let Some(session) = session.as_mut()
    {
        session.tick();
    }
}

pub(super) fn snapshot() -> Option<Snapshot> {
    if state::is_forked() {
        return None;
    }
    collect();
    let _own = own_code();
    let live = run().as_ref()?.live.clone()?;
    Some(Snapshot::new(live.report()))
}

pub(super) fn stats() -> Stats {
    if state::is_forked() {
        return Stats::default();
    }
    let _own = own_code();
    let lost = worker::session_within(PATIENCE);
    let lost = lost.and_then(|session| session.as_ref().map(Session::lost));
    Stats {
        recording: state::load() & state::RECORD != 0 && state::is_running(),
        events: serial::peek(),
        lost_events: lost.unwrap_or(0),
        buffer_bytes: buffer::used() as u64,
        overhead_bytes: overhead_bytes(),
        failed_allocations: stats::failures(),
        scope_misuses: scopes::thread::misuses(),
        refused_contexts: context::refused(),
    }
}

/// Everything the tracker holds: what its own code allocated, and its pages.
fn overhead_bytes() -> u64 {
    stats::own_bytes() + worker::mapped_bytes() + context::bytes()
}

/// Ends the recording `generation`, or whichever is under way, and reports.
pub(super) fn finish(generation: Option<u64>) {
    if state::is_forked() {
        return;
    }
    let _own = own_code();
    let _signals = BlockedSignals::new();
    let mut current = run();
    let Some(run) = current.take_if(|run| generation.is_none_or(|number| number == run.generation))
    else {
        return;
    };
    let quiet = state::pause();
    worker::dismiss();
    let Some(mut session) = worker::session_within(PATIENCE) else {
        problems::add(format!(
            "the trace and the report end early: the worker has been stuck in a write for {} s",
            PATIENCE.as_secs()
        ));
        if let Some(output) = run.report {
            write_report(output, run.unlinked, run.live.as_ref());
        }
        return state::turn_off();
    };
    if let Some(session) = session.take() {
        session.finish(&Final {
            overhead_bytes: overhead_bytes(),
            scope_misuses: scopes::thread::misuses(),
            failed_allocations: stats::failures(),
        });
    }
    drop(session);
    if quiet {
        registry::forget_blocks();
    }
    if let Some(output) = run.report {
        write_report(output, run.unlinked, run.live.as_ref());
    }
    drop(run.live);
    state::turn_off();
}

fn write_report(output: Output, unlinked: bool, live: Option<&Live>) {
    if unlinked {
        return problems::add(
            "nothing was recorded, because memledger::TrackingAllocator is not this program's global allocator; add: #[global_allocator] static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();".into(),
        );
    }
    let Some(live) = live else { return };
    let report = live.report();
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = dump::json::write(&report, &mut bytes);
    match output {
        Output::Stderr => {
            let _ = os::write_all(2, &bytes);
        }
        Output::File { mut file, path, .. } => {
            use std::io::Write;
            if let Err(source) = file.write_all(&bytes) {
                tell(Error::File { path, action: "write", source });
            }
        }
    }
    if let Some(site) = scopes::thread::first_misuse() {
        problems::add(format!(
            "{} scopes were left out of order; the first was entered at {site}",
            scopes::thread::misuses()
        ));
    }
}
