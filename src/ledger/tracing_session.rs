//! Sessions: what writes track events, from its start to its end.

#[cfg(feature = "enable")]
use super::destinations::{DestinationHandle, add, filter};
#[cfg(feature = "enable")]
use super::entry::request;
#[cfg(feature = "enable")]
use super::{files, problems};
use crate::error::Error;
use crate::ledger::DestinationStatus;
use crate::perfetto::TrackEventConfig;
#[cfg(feature = "enable")]
use crate::perfetto::{Active, Counts, Notifications, Output, Ring, SessionConfig, SessionWriter};
#[cfg(feature = "enable")]
use crate::trace::sink::{Sink, file::PieceFile, queue::Queued};
#[cfg(feature = "enable")]
use crate::trace::write::untracked;
use std::path::{Path, PathBuf};
#[cfg(feature = "enable")]
use std::sync::{Arc, atomic::Ordering};
use std::time::Duration;

/// How a [`TracingSession`] is set up.
#[derive(Clone, Debug)]
pub struct TracingSessionBuilder {
    config: TrackEventConfig,
    to: To,
    clear_period: Option<Duration>,
}

/// What the settings say of a session: its file and its configuration. All categories are enabled if
/// there is none, or if it cannot be read, which is reported.
#[cfg(feature = "enable")]
pub(super) fn of_settings(config: &super::config::Config) -> Option<(PathBuf, SessionConfig)> {
    let path = config.perfetto.clone()?;
    let all =
        || SessionConfig { track_events: TrackEventConfig::all(), ..SessionConfig::default() };
    let Some(file) = &config.perfetto_config else { return Some((path, all())) };
    let read = std::fs::read_to_string(file);
    let read = read.map_err(|source| Error::File { path: file.clone(), action: "read", source });
    let config = read.and_then(|text| SessionConfig::parse(&text)).unwrap_or_else(|error| {
        problems::add(format!("{error}; all categories of track events are enabled"));
        all()
    });
    if !config.unsupported.is_empty() {
        problems::add(format!(
            "{}: {} has no effect here",
            file.display(),
            config.unsupported.join(", ")
        ));
    }
    Some((path, config))
}

/// The session that the settings of a recording name. It begins and ends with the recording.
#[cfg(feature = "enable")]
pub(super) struct InitialSession {
    active: Active,
    /// The ring, and the file that it is written to at the end.
    ring: Option<(Arc<Ring>, PieceFile)>,
}

#[cfg(feature = "enable")]
impl InitialSession {
    /// Starts the session, and returns the sink that belongs to it.
    pub(super) fn start(
        path: &Path,
        config: SessionConfig,
    ) -> Result<(Self, Box<dyn Sink>), Error> {
        let file = create(path)?;
        let name = file.path().display().to_string();
        let (output, ring) = match config.ring_bytes {
            None => (Output::File(file), None),
            Some(bytes) => {
                let ring = Ring::new(bytes);
                (Output::Ring(Arc::clone(&ring)), Some((ring, file)))
            }
        };
        let writer =
            writer(config.track_events.clone(), config.clear_period, output, Arc::default());
        let sink =
            Queued::start(name, Box::new(move |_| Ok(Box::new(writer) as _)), problems::report)?;
        let (active, notifications) = Active::start(config.track_events)?;
        notifications.run();
        Ok((Self { active, ring }, Box::new(sink)))
    }

    /// Ends it, after its sink has ended.
    pub(super) fn end(self) {
        self.active.stop().run();
        if let Some((ring, mut file)) = self.ring
            && let Err(error) = file.replace(&ring.bytes())
        {
            problems::report(error);
        }
    }
}

/// Creates the file of a session.
#[cfg(feature = "enable")]
fn create(path: &Path) -> Result<PieceFile, Error> {
    let expanded = files::expand(path, &mut problems::add);
    let file = PieceFile::create(&expanded)?;
    if file.path() != expanded {
        files::report_in_use(&expanded, file.path());
    }
    Ok(file)
}

#[cfg(feature = "enable")]
fn writer(
    config: TrackEventConfig,
    clear_period: Option<Duration>,
    output: Output,
    counts: Arc<Counts>,
) -> SessionWriter {
    let types = &filter::TRACKER_TYPES;
    SessionWriter::new(config, clear_period, types, output, counts, problems::report)
}

#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "enable"), allow(dead_code))]
enum To {
    File(PathBuf),
    Ring(usize),
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
    #[cfg(feature = "enable")]
    running: Option<Running>,
}

#[cfg(feature = "enable")]
struct Running {
    /// Stopped first, so that no category is enabled for a session that is over.
    active: Option<Active>,
    destination: DestinationHandle,
    ring: Option<Arc<Ring>>,
    counts: Arc<Counts>,
}

#[cfg(feature = "enable")]
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

    /// Starts the session.
    ///
    /// # Errors
    /// [`Error::NotRecording`] without a ledger; [`Error::InvalidSession`] if the configuration is too
    /// large or 16 sessions run; [`Error::File`] if the file cannot be created.
    pub fn start(&self) -> Result<TracingSession, Error> {
        #[cfg(feature = "enable")]
        return request(|| self.begin()).map(|(running, notifications)| {
            notifications.run();
            TracingSession { running: Some(running) }
        });
        #[cfg(not(feature = "enable"))]
        {
            let _ = (&self.config, &self.to, &self.clear_period);
            Ok(TracingSession {})
        }
    }

    #[cfg(feature = "enable")]
    fn begin(&self) -> Result<(Running, Notifications), Error> {
        self.config.check()?;
        let counts = Arc::new(Counts::default());
        let (output, ring, name) = match &self.to {
            To::File(path) => {
                let file = create(path)?;
                let name = file.path().display().to_string();
                (Output::File(file), None, name)
            }
            To::Ring(bytes) => {
                let ring = Ring::new(*bytes);
                (Output::Ring(Arc::clone(&ring)), Some(ring), "a ring buffer".to_owned())
            }
        };
        let writer = writer(self.config.clone(), self.clear_period, output, Arc::clone(&counts));
        let destination = add::add_sink(name, Box::new(writer))?;
        match Active::start(self.config.clone()) {
            Ok((active, notifications)) => {
                Ok((Running { active: Some(active), destination, ring, counts }, notifications))
            }
            Err(error) => {
                destination.stop();
                Err(error)
            }
        }
    }
}

impl TracingSession {
    /// A session that writes to a file.
    pub fn file(path: impl Into<PathBuf>, config: TrackEventConfig) -> TracingSessionBuilder {
        TracingSessionBuilder { config, to: To::File(path.into()), clear_period: None }
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
        TracingSessionBuilder { config, to: To::Ring(bytes), clear_period: None }.start()
    }

    /// Writes everything that was emitted before this call to the file, or to the ring. Waits at most
    /// 3 s.
    pub fn flush(&self) {
        #[cfg(feature = "enable")]
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
        #[cfg(feature = "enable")]
        {
            self.flush();
            let ring = self.running.as_ref().and_then(|running| running.ring.as_ref());
            let path = path.as_ref();
            request(|| match ring {
                Some(ring) => ring.dump(path),
                None => Err(Error::InvalidSession(
                    "only a session with a ring buffer can be dumped; this one writes to a file"
                        .into(),
                )),
            })
        }
        #[cfg(not(feature = "enable"))]
        {
            let _ = path;
            Ok(0)
        }
    }

    /// The number of events that it has written.
    pub fn events(&self) -> u64 {
        #[cfg(feature = "enable")]
        return self
            .running
            .as_ref()
            .map_or(0, |running| running.counts.events.load(Ordering::Relaxed));
        #[cfg(not(feature = "enable"))]
        0
    }

    /// The number of events of the program, memory events among them, that were lost while it ran,
    /// because the buffers of their threads were full.
    pub fn lost_events(&self) -> u64 {
        #[cfg(feature = "enable")]
        return self
            .running
            .as_ref()
            .map_or(0, |running| running.counts.lost.load(Ordering::Relaxed));
        #[cfg(not(feature = "enable"))]
        0
    }

    /// Its file and its state.
    pub fn status(&self) -> DestinationStatus {
        #[cfg(feature = "enable")]
        return self
            .running
            .as_ref()
            .map_or_else(DestinationStatus::default, |running| running.destination.status());
        #[cfg(not(feature = "enable"))]
        DestinationStatus::default()
    }

    /// Ends the session, after everything that was emitted before this call.
    pub fn stop(self) {}
}

#[cfg(feature = "enable")]
impl Drop for TracingSession {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let stopped = running.active.take().map(|active| untracked(|| active.stop()));
            stopped.unwrap_or_default().run();
            running.destination.stop();
            untracked(move || drop(running));
        }
    }
}
