//! Sessions: destinations that get track events, and no live blocks.

mod config;
#[cfg_attr(not(report), path = "../../disabled/ledger/destinations/session/memory.rs")]
mod memory;

use super::add;
use super::{Destination, DestinationHandle};
use crate::alloc;
use crate::error::{self, Error, ErrorKind};
use crate::ledger::config::Config;
use crate::ledger::entry::request;
use crate::ledger::problem::ProblemKind;
use crate::ledger::problems;
use crate::ledger::reports::in_process::InProcessAnalyzer;
use crate::ledger::settings::files;
use crate::perfetto::{
    EVENT_TYPES, EventCounter, Output, Ring, Session, SessionWriter, TrackEventConfig, TrackEvents,
};
use crate::rss;
use crate::scopes;
use crate::stacks;
use crate::trace::sink::{file::PieceFile, queue::Queued};
use memledger_format::{encode::Declaration, stream_events};
use memory::SessionMemory;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// All event types of the tracker.
static TRACKER_TYPES: [&[&Declaration]; 6] = [
    stream_events::TYPES,
    alloc::events::TYPES,
    rss::TYPES,
    scopes::events::TYPES,
    stacks::events::TYPES,
    EVENT_TYPES,
];

const NO_ANALYSIS: &str = "a session with memory needs the reports of the ledger, but no events are analyzed in this process; enable a report, a control server or LedgerBuilder::analyze_in_process";

const NO_REPORT: &str = "a session with memory needs the reports of the ledger, but the program was \
                         built without memledger's feature report";

/// The setting of a file of track events, of all categories.
pub(in crate::ledger) fn set(value: &OsStr, config: &mut Config) -> Result<(), String> {
    config.track_events = Some(Destination::track_events(value, TrackEventConfig::all()));
    Ok(())
}

/// The setting of their configuration.
pub(in crate::ledger) fn configure(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let Some(set) = &mut config.track_events else { return Ok(()) };
    let configured = config::parse(&value.to_string_lossy())
        .map_err(|error| format!("{error:#}; all categories of track events are enabled"))?;
    *set = TrackEvents { file: set.file.take(), ..configured };
    Ok(())
}

/// Whether a session needs the reports of the program's own analyzer.
pub(in crate::ledger) fn has_memory(events: &TrackEvents) -> bool {
    events.memory.is_some()
}

/// Adds a session in a file that the control server has created, and that is empty.
pub(in crate::ledger) fn add_created(
    file: File,
    path: &Path,
    config: Option<&str>,
) -> Result<(), Error> {
    add(&config::parse(config.unwrap_or_default())?, Some(PieceFile::begin(file, path)?))?;
    Ok(())
}

/// Adds a session while the recording runs. Its file is `file` if that exists already.
pub(super) fn add(
    events: &TrackEvents,
    file: Option<PieceFile>,
) -> Result<DestinationHandle, Error> {
    let (handle, notifications) = request(|| {
        events.config.check()?;
        let mut opened = None;
        let handle = add::add(false, |analyzer| {
            let (session, sink) = open(events, file, analyzer)?;
            opened = Some(session);
            Ok(sink)
        })?;
        let session = opened.ok_or(error::not_recording())?;
        let notifications = session.enable(&events.config).inspect_err(|_| handle.stop())?;
        Ok((handle, notifications))
    })?;
    notifications.run();
    Ok(handle)
}

/// Starts a session that begins with the recording.
pub(in crate::ledger) fn start(
    events: &TrackEvents,
    analyzer: Option<&InProcessAnalyzer>,
) -> Result<Queued, Error> {
    let (session, sink) = open(events, None, analyzer)?;
    session.enable(&events.config)?.run();
    Ok(sink)
}

/// The sink of a session, with the queue and the thread of it, and what the sink shares with handles. The
/// queue drops events when the session is too slow.
fn open(
    events: &TrackEvents,
    file: Option<PieceFile>,
    analyzer: Option<&InProcessAnalyzer>,
) -> Result<(Arc<Session>, Queued), Error> {
    let memory = match (events.memory, analyzer) {
        (None, _) => None,
        (Some(interval), Some(analyzer)) => {
            Some(Box::new(SessionMemory::new(analyzer.clone(), interval)) as _)
        }
        (Some(_), None) => {
            let why = if cfg!(report) { NO_ANALYSIS } else { NO_REPORT };
            return Err(Error::new(ErrorKind::InvalidSession, why));
        }
    };
    let file = match (file, &events.file) {
        (None, Some(path)) => Some(create(path)?),
        (file, _) => file,
    };
    let name = match &file {
        Some(file) => file.path().display().to_string(),
        None => "a ring buffer".to_owned(),
    };
    let (ring, output) = match (events.ring, file) {
        (None, Some(file)) => (None, Output::File(file)),
        (bytes, file) => {
            let ring = Ring::new(bytes.unwrap_or_default(), file);
            (Some(Arc::clone(&ring)), Output::Ring(ring))
        }
    };
    let session = Session::new(ring);
    let ours = Arc::clone(&session);
    let writer = SessionWriter::new(events, output, memory, ours, problems::report, &TRACKER_TYPES);
    let queued =
        Queued::start(name, Box::new(move |_| Ok(Box::new(writer) as _)), problems::report)?;
    let mut counter = EventCounter::new(&TRACKER_TYPES);
    let count = Box::new(move |payload: &[u8]| counter.count(payload));
    let queued = queued.dropping(count, Arc::clone(&session) as _);
    Ok((session, queued))
}

/// Creates the file of a session.
fn create(path: &Path) -> Result<PieceFile, Error> {
    let expanded = files::expand(path, &mut |why| problems::add(ProblemKind::Setting, why));
    let file = PieceFile::create(&expanded)?;
    if file.path() != expanded {
        files::report_in_use(&expanded, file.path());
    }
    Ok(file)
}
