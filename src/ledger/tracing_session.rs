//! Sessions: what writes track events, from its start to its end.

#[cfg(tracking)]
use super::destinations::{DestinationHandle, add};
#[cfg(tracking)]
use super::entry::request;
#[cfg(tracking)]
use super::in_process::InProcessAnalyzer;
#[cfg(tracking)]
use super::session_memory::SessionMemory;
#[cfg(tracking)]
use super::{files, problems};
#[cfg(tracking)]
use crate::alloc;
use crate::error::Error;
#[cfg(tracking)]
use crate::ledger::DestinationState;
use crate::ledger::DestinationStatus;
use crate::perfetto::TrackEventConfig;
#[cfg(tracking)]
use crate::perfetto::{
    Active, Counts, EVENT_TYPES, EventCounter, Notifications, Output, Ring, SessionConfig,
    SessionSetup, SessionWriter,
};
#[cfg(tracking)]
use crate::platform::os;
#[cfg(tracking)]
use crate::rss;
#[cfg(tracking)]
use crate::scopes;
#[cfg(tracking)]
use crate::stacks;
#[cfg(tracking)]
use crate::trace::sink::{Sink, file::PieceFile, queue::Queued};
#[cfg(tracking)]
use crate::trace::write::untracked;
#[cfg(tracking)]
use memledger_format::{encode::Declaration, stream_events};
use std::path::{Path, PathBuf};
#[cfg(tracking)]
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering};
use std::time::Duration;

/// All event types of the tracker.
#[cfg(tracking)]
static TRACKER_TYPES: [&[&Declaration]; 6] = [
    stream_events::TYPES,
    alloc::events::TYPES,
    rss::TYPES,
    scopes::events::TYPES,
    stacks::events::TYPES,
    EVENT_TYPES,
];

/// How a [`TracingSession`] is set up.
#[derive(Clone, Debug, Default)]
pub struct TracingSessionBuilder {
    config: TrackEventConfig,
    /// The file; of a session with a ring, what is written to it at the end.
    file: Option<PathBuf>,
    /// The bytes of the ring.
    ring: Option<usize>,
    clear_period: Option<Duration>,
    duration: Option<Duration>,
    memory: Option<Duration>,
}

/// What the settings say of a session. All categories are enabled if they have no configuration, or if it
/// cannot be read, which is reported.
#[cfg(tracking)]
pub(super) fn of_settings(config: &super::config::Config) -> Option<TracingSessionBuilder> {
    let path = config.perfetto.clone()?;
    let all = |path| TracingSession::file(path, TrackEventConfig::all());
    let Some(file) = &config.perfetto_config else { return Some(all(path)) };
    let read = std::fs::read_to_string(file);
    let read = read.map_err(|source| Error::File { path: file.clone(), action: "read", source });
    let parsed = read.and_then(|text| SessionConfig::parse(&text));
    Some(match parsed {
        Ok(parsed) => {
            if let Some(unsupported) = parsed.unsupported() {
                problems::add(format!("{}: {unsupported}", file.display()));
            }
            TracingSessionBuilder::of(parsed, path)
        }
        Err(error) => {
            problems::add(format!("{error}; all categories of track events are enabled"));
            all(path)
        }
    })
}

/// What the handle of a session, its sink and the recording share. Each of them can end it; it ends once.
#[cfg(tracking)]
#[derive(Default)]
struct Shared {
    /// The process that started the session: the child of a fork has a copy, which must not write the file.
    process: u32,
    active: Mutex<Option<Active>>,
    ring: Option<Arc<Ring>>,
    /// The file that the ring is written to.
    file: Mutex<Option<PieceFile>>,
    counts: Arc<Counts>,
}

#[cfg(tracking)]
impl Shared {
    /// Enables the categories. The callbacks are due when no lock is held.
    fn enable(&self, config: &TrackEventConfig) -> Result<Notifications, Error> {
        let (active, notifications) = Active::start(config.clone())?;
        *lock(&self.active) = Some(active);
        Ok(notifications)
    }

    /// Disables the categories, so that none is enabled for a session that is over. Callbacks run without the
    /// guard.
    fn disable(&self) {
        let active = lock(&self.active).take();
        let stopped = active.map(|active| untracked(|| active.stop()));
        stopped.unwrap_or_default().run();
    }

    /// Writes the ring, after its last packets.
    fn write_ring(&self) {
        if let Some(mut file) = lock(&self.file).take()
            && let Some(ring) = &self.ring
            && self.process == os::process_id()
            && let Err(error) = file.replace(&ring.bytes())
        {
            problems::report(error);
        }
    }
}

#[cfg(tracking)]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The session that the settings of a recording name. It begins and ends with the recording.
#[cfg(tracking)]
pub(super) struct InitialSession(Arc<Shared>);

#[cfg(tracking)]
impl InitialSession {
    /// Starts the session, and returns the sink that belongs to it.
    pub(super) fn start(
        builder: &TracingSessionBuilder,
        analyzer: Option<&InProcessAnalyzer>,
    ) -> Result<(Self, Box<dyn Sink>), Error> {
        let (shared, sink) = builder.parts(None, analyzer)?;
        shared.enable(&builder.config)?.run();
        Ok((Self(shared), Box::new(sink)))
    }

    /// Ends it, after its sink has ended.
    pub(super) fn end(self) {
        self.0.disable();
        self.0.write_ring();
    }
}

/// The queue and the thread of a session, which drops events when it is too slow.
#[cfg(tracking)]
fn queued(name: String, writer: SessionWriter) -> Result<Queued, Error> {
    let queued =
        Queued::start(name, Box::new(move |_| Ok(Box::new(writer) as _)), problems::report)?;
    let mut counter = EventCounter::new(&TRACKER_TYPES);
    Ok(queued.dropping(Box::new(move |payload| counter.count(payload))))
}

/// Creates the file of a session.
#[cfg(tracking)]
fn create(path: &Path) -> Result<PieceFile, Error> {
    let expanded = files::expand(path, &mut problems::add);
    let file = PieceFile::create(&expanded)?;
    if file.path() != expanded {
        files::report_in_use(&expanded, file.path());
    }
    Ok(file)
}

/// A session that writes the track events of the categories that it enables: to a file, or to memory
/// that keeps the last ones.
///
/// Up to 16 sessions run at once, each with a configuration, a thread and a queue of at most 64 MiB of
/// its own. A thread that emits does the same work for one session as for all of them. A session needs
/// a running [`Ledger`](crate::Ledger). It ends when it is stopped or dropped, or when the recording
/// ends.
///
/// ```
/// # use memledger::{Ledger, instant, perfetto::{TracingSession, TrackEventConfig}};
/// memledger::categories! { NETWORK = "network"; }
///
/// let ledger = Ledger::builder().start()?;
/// // The last 4 MiB, written only if something goes wrong.
/// let last = TracingSession::ring_buffer(4 << 20, TrackEventConfig::all())?;
/// instant!(NETWORK, "connected");
/// # let path = std::env::temp_dir().join(format!("memledger-ring-{}.pftrace", std::process::id()));
/// last.dump(&path)?;
/// # let _ = std::fs::remove_file(path);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Debug)]
pub struct TracingSession {
    #[cfg(tracking)]
    running: Option<Running>,
}

#[cfg(tracking)]
struct Running {
    shared: Arc<Shared>,
    destination: DestinationHandle,
    /// Keeps the table of descriptors that its file is in.
    _table: os::OwnTable,
}

#[cfg(tracking)]
impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("destination", &self.destination).finish_non_exhaustive()
    }
}

impl TracingSessionBuilder {
    /// Starts each thread's part of the output anew after this time: with all descriptions, so that a
    /// reader who has only the end understands it (`incremental_state_config.clear_period_ms`). A ring
    /// does so by itself. Default: never.
    pub fn clear_period(mut self, period: Duration) -> Self {
        self.clear_period = Some(period);
        self
    }

    /// Ends the session by itself after this time (`duration_ms`): it has the track events before its end, and none
    /// after it. That it has ended is noticed when later events arrive. Default: never.
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Has the session contain the program's memory, from the reports of the ledger: counters of live bytes,
    /// a heap profile each `interval` (10 ms at least) and at the end, what was live at the peak, and each
    /// [`alloc_scope!`](crate::alloc_scope) as a slice with the bytes that were allocated in it. The first
    /// heap profile has what was allocated before the session.
    ///
    /// Costs a report each interval and ten shorter ones, whose time is in proportion to the rows and stacks of the
    /// program, not to its blocks. The worker waits while a report is made. Costs the thread that allocates nothing.
    pub fn memory(mut self, interval: Duration) -> Self {
        self.memory = Some(interval);
        self
    }

    /// Starts the session.
    ///
    /// # Errors
    /// [`Error::NotRecording`] without a ledger; [`Error::InvalidSession`] if the configuration is too
    /// large or 16 sessions run, or if there is memory in it, but no analysis in this process;
    /// [`Error::File`] if the file cannot be created.
    pub fn start(&self) -> Result<TracingSession, Error> {
        #[cfg(tracking)]
        return self.start_in(None);
        #[cfg(not(tracking))]
        {
            let Self { config, file, ring, clear_period, duration, memory } = self;
            let _ = (config, file, ring, clear_period, duration, memory);
            Ok(TracingSession {})
        }
    }

    /// Starts the session with this file, which is its own if `file` is `None`.
    #[cfg(tracking)]
    pub(super) fn start_in(&self, file: Option<PieceFile>) -> Result<TracingSession, Error> {
        let (running, notifications) = request(|| self.begin(file))?;
        notifications.run();
        Ok(TracingSession { running: Some(running) })
    }

    /// The session that a `TraceConfig` describes.
    #[cfg(tracking)]
    pub(super) fn of(config: SessionConfig, file: PathBuf) -> Self {
        Self {
            config: config.track_events,
            file: Some(file),
            ring: config.ring_bytes,
            clear_period: config.clear_period,
            duration: config.duration,
            memory: config.memory,
        }
    }

    /// Whether the session contains memory.
    #[cfg(tracking)]
    pub(super) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    #[cfg(tracking)]
    fn begin(&self, file: Option<PieceFile>) -> Result<(Running, Notifications), Error> {
        self.config.check()?;
        let mut shared = Arc::<Shared>::default();
        let destination = add::add_sink(|analyzer| {
            let (ours, sink) = self.parts(file, analyzer)?;
            shared = ours;
            Ok(sink)
        })?;
        let notifications = shared.enable(&self.config).inspect_err(|_| destination.stop())?;
        Ok((Running { shared, destination, _table: os::OwnTable::share() }, notifications))
    }

    /// What the session shares with its sink, and the sink.
    #[cfg(tracking)]
    fn parts(
        &self,
        file: Option<PieceFile>,
        analyzer: Option<&InProcessAnalyzer>,
    ) -> Result<(Arc<Shared>, Queued), Error> {
        let memory = match (self.memory, analyzer) {
            (None, _) => None,
            (Some(interval), Some(analyzer)) => {
                Some(Box::new(SessionMemory::new(analyzer.clone(), interval)) as _)
            }
            (Some(_), None) => return Err(Error::InvalidSession(NO_ANALYSIS.into())),
        };
        let file = match (file, &self.file) {
            (Some(file), _) => Some(file),
            (None, path) => path.as_deref().map(create).transpose()?,
        };
        let name = match &file {
            Some(file) => file.path().display().to_string(),
            None => "a ring buffer".to_owned(),
        };
        let mut shared = Shared { process: os::process_id(), ..Shared::default() };
        let output = match (self.ring, file) {
            (None, Some(file)) => Output::File(file),
            (bytes, file) => {
                let ring = Ring::new(bytes.unwrap_or_default());
                (shared.ring, shared.file) = (Some(Arc::clone(&ring)), Mutex::new(file));
                Output::Ring(ring)
            }
        };
        let shared = Arc::new(shared);
        let over = Arc::clone(&shared);
        let setup = SessionSetup {
            config: self.config.clone(),
            clear_period: self.clear_period,
            duration: self.duration,
            output,
            memory,
            counts: Arc::clone(&shared.counts),
            on_problem: problems::report,
            on_end: Box::new(move || {
                over.disable();
                over.write_ring();
            }),
        };
        let writer = SessionWriter::new(setup, &TRACKER_TYPES);
        Ok((shared, queued(name, writer)?))
    }
}

#[cfg(tracking)]
const NO_ANALYSIS: &str = "a session with memory needs the reports of the ledger, but no events are \
                           analyzed in this process; they are with a report, a control server, or \
                           LedgerBuilder::analyze_in_process";

impl TracingSession {
    /// A session that writes to a file.
    pub fn file(path: impl Into<PathBuf>, config: TrackEventConfig) -> TracingSessionBuilder {
        let file = Some(path.into());
        TracingSessionBuilder { config, file, ..TracingSessionBuilder::default() }
    }

    /// A session that Perfetto's `TraceConfig` describes, as text: which parts of it apply is in
    /// `docs/perfetto.md`; the others are named in a message of the ledger. The file of a configuration with a
    /// ring buffer is written when the session ends.
    ///
    /// ```
    /// use memledger::perfetto::TracingSession;
    /// let config = "duration_ms: 10000 data_sources { config { name: 'track_event' } }";
    /// let builder = TracingSession::from_trace_config("run.pftrace", config)?;
    /// # #[cfg(tracking)] {
    /// let refused = TracingSession::from_trace_config("run.pftrace", "buffers {").unwrap_err();
    /// assert_eq!(refused.to_string(), "line 1 of the configuration: a } is missing at the end");
    /// # }
    /// # drop(builder);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    /// # Errors
    /// [`Error::InvalidSession`], with the line.
    pub fn from_trace_config(
        path: impl Into<PathBuf>,
        text: &str,
    ) -> Result<TracingSessionBuilder, Error> {
        #[cfg(tracking)]
        return untracked(|| {
            let config = SessionConfig::parse(text)?;
            config.unsupported().into_iter().for_each(problems::add);
            Ok(TracingSessionBuilder::of(config, path.into()))
        });
        #[cfg(not(tracking))]
        {
            let _ = text;
            Ok(Self::file(path, TrackEventConfig::default()))
        }
    }

    /// Starts a session that writes to a file. In the name, `%p` becomes the process id, `%t` the unix
    /// time in seconds, `%e` the name of the executable.
    ///
    /// # Errors
    /// As [`TracingSessionBuilder::start`].
    pub fn to_file(path: impl Into<PathBuf>, config: TrackEventConfig) -> Result<Self, Error> {
        Self::file(path, config).start()
    }

    /// Starts a session that keeps the last `bytes` of packets in memory, at least 64 KiB. Whenever it
    /// is [dumped](Self::dump), all that is in the file can be understood.
    ///
    /// # Errors
    /// As [`TracingSessionBuilder::start`].
    pub fn ring_buffer(bytes: usize, config: TrackEventConfig) -> Result<Self, Error> {
        let ring = Some(bytes);
        TracingSessionBuilder { config, ring, ..TracingSessionBuilder::default() }.start()
    }

    /// Writes everything that was emitted before this call to the file, or to the ring. Waits at most
    /// 3 s.
    pub fn flush(&self) {
        #[cfg(tracking)]
        if let Some(running) = &self.running {
            running.destination.flush();
        }
    }

    /// Writes what the ring keeps to a file, after everything that was emitted before this call;
    /// returns how many bytes that is.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::InvalidSession`] if the session writes to a file.
    pub fn dump(&self, path: impl AsRef<Path>) -> Result<u64, Error> {
        #[cfg(tracking)]
        {
            self.flush();
            let ring = self.running.as_ref().and_then(|running| running.shared.ring.as_ref());
            let path = path.as_ref();
            request(|| match ring {
                Some(ring) => ring.dump(path),
                None => Err(Error::InvalidSession(
                    "only a session with a ring buffer can be dumped; this one writes to a file"
                        .into(),
                )),
            })
        }
        #[cfg(not(tracking))]
        {
            let _ = path;
            Ok(0)
        }
    }

    /// The number of events that it has written.
    pub fn events(&self) -> u64 {
        #[cfg(tracking)]
        return self
            .running
            .as_ref()
            .map_or(0, |running| running.shared.counts.events.load(Ordering::Relaxed));
        #[cfg(not(tracking))]
        0
    }

    /// The number of events of the program, memory events among them, that were lost while it ran,
    /// because the buffers of their threads were full.
    pub fn lost_events(&self) -> u64 {
        #[cfg(tracking)]
        return self
            .running
            .as_ref()
            .map_or(0, |running| running.shared.counts.lost.load(Ordering::Relaxed));
        #[cfg(not(tracking))]
        0
    }

    /// Its file and its state.
    pub fn status(&self) -> DestinationStatus {
        #[cfg(tracking)]
        return self
            .running
            .as_ref()
            .map_or_else(DestinationStatus::default, |running| running.destination.status());
        #[cfg(not(tracking))]
        DestinationStatus::default()
    }

    /// Whether it has ended by itself.
    #[cfg(tracking)]
    pub(super) fn has_ended(&self) -> bool {
        self.status().state == DestinationState::Ended
    }

    /// Ends the session, after everything that was emitted before this call.
    pub fn stop(self) {}
}

#[cfg(tracking)]
impl Drop for TracingSession {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.shared.disable();
            running.destination.stop();
            untracked(move || {
                os::run_in_own_table(|| untracked(|| running.shared.write_ring()));
                drop(running);
            });
        }
    }
}
