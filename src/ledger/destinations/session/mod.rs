//! Sessions: destinations that get track events, and no live blocks.

#[cfg_attr(not(report), path = "../../../disabled/ledger/destinations/session/memory.rs")]
mod memory;

use super::DestinationHandle;
use super::add;
use crate::alloc;
use crate::dump::{InProcessAnalyzer, NOT_BUILT};
use crate::error::{self, Error, ErrorKind};
use crate::ledger::settings::track_events::parse;
use crate::perfetto::{
    EVENT_TYPES, EventCounter, Output, Ring, Session, SessionWriter, TrackEvents,
};
use crate::problems::{self, ProblemKind};
use crate::rss;
use crate::scopes;
use crate::stacks;
use crate::trace::entry::request;
use crate::trace::sink::{file::PieceFile, names::expand, queue::Queued};
use memledger_format::{encode::Declaration, stream_events};
use memory::SessionMemory;
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

const NO_ANALYSIS: &str = "no events are analyzed in this process; enable a report, a control server or LedgerBuilder::analyze_in_process";

/// Whether a session needs the reports of the program's own analyzer.
pub(crate) fn has_memory(events: &TrackEvents) -> bool {
    events.memory.is_some()
}

/// Adds a session in a file that the control server has created, and that is empty.
pub(crate) fn add_created(file: File, path: &Path, config: Option<&str>) -> Result<(), Error> {
    add(&parse(config.unwrap_or_default())?, Some(PieceFile::begin(file, path)?))?;
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
pub(crate) fn start(
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
            let why = NOT_BUILT.unwrap_or(NO_ANALYSIS);
            let why = format!("a session with memory needs the reports of the ledger, but {why}");
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
    let expanded = expand(path, &mut |why| problems::add(ProblemKind::Setting, why));
    let file = PieceFile::create(&expanded)?;
    if file.path() != expanded {
        problems::add_in_use(&expanded, file.path());
    }
    Ok(file)
}
