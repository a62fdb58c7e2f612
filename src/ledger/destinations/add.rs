//! Adds destinations while the recording runs.

use super::destination::{Destination, Target};
use super::handle::DestinationHandle;
use crate::dump::InProcessAnalyzer;
use crate::error::{self, Error};
use crate::ledger::recording::{self, late_join};
use crate::ledger::settings::is_for_this_process;
use crate::platform::os::BlockedSignals;
use crate::problems::{self, ProblemKind};
use crate::trace::entry::{refuse_forked, request};
use crate::trace::sink::Sink;
use crate::trace::sink::file::FileSink;
use crate::trace::sink::names::expand;
use crate::trace::sink::queue::Queued;
use crate::trace::sink::tcp::{Address, TcpSink};
use crate::trace::worker::{self, Session, WORKER_TIMEOUT};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::state;
use memledger_format::initial_live_set::InitialBlock;
use std::fs::File;
use std::path::Path;

/// Creates the file of a trace; its name may hold `%p` and the like.
pub(crate) fn open_trace(path: &Path) -> Result<FileSink, Error> {
    let _signals = BlockedSignals::new();
    let expanded = expand(path, &mut |why| problems::add(ProblemKind::Setting, why));
    let file = FileSink::create(&expanded)?;
    // Only this process has this file: before it replaced itself by `exec`.
    let is_own = path.to_string_lossy().contains("%p") || is_for_this_process() == Some(true);
    if file.path() != expanded && !is_own {
        problems::add_in_use(&expanded, file.path());
    }
    Ok(file)
}

/// Adds a destination of the program.
pub(crate) fn add_destination(destination: &Destination) -> Result<DestinationHandle, Error> {
    match &destination.target {
        Target::File(path) => request(|| add(true, |_| to_file(open_trace(path)?))),
        Target::Host(address) => add_host(&Address::parse(address)?),
        Target::TrackEvents(events) => super::session::add(events, None),
    }
}

/// Adds a file that the control server has created, and that is empty.
pub(crate) fn add_created(file: File, path: &Path) -> Result<DestinationHandle, Error> {
    request(move || add(true, |_| to_file(FileSink::begin(file, path)?)))
}

pub(crate) fn add_host(address: &Address) -> Result<DestinationHandle, Error> {
    request(|| add(true, |_| to_host(address)))
}

fn to_file(file: FileSink) -> Result<Queued, Error> {
    let name = file.path().display().to_string();
    Queued::start(name, Box::new(move |_| Ok(Box::new(file))), problems::report)
}

/// A sink that connects to a recorder.
pub(crate) fn to_host(address: &Address) -> Result<Queued, Error> {
    let (name, address) = (address.to_string(), address.clone());
    let open = move |given_up| Ok(Box::new(TcpSink::connect(&address, given_up)?) as Box<dyn Sink>);
    Queued::start(name, Box::new(open), problems::report)
}

/// Adds a sink, which begins with the live blocks if `with_blocks`. `sink` is called with the analyzer of the
/// recording.
pub(super) fn add(
    with_blocks: bool,
    sink: impl FnOnce(Option<&InProcessAnalyzer>) -> Result<Queued, Error>,
) -> Result<DestinationHandle, Error> {
    let _active = state::hook_active();
    refuse_forked()?;
    let recording = recording::current();
    let Some(recording) = recording.as_ref() else { return Err(error::not_recording()) };
    // PERF: before the session is locked. While it is locked, nothing is collected.
    let analyzer = recording.analyzer.as_ref().filter(|_| with_blocks);
    let room = analyzer.map(InProcessAnalyzer::reserve_blocks).transpose()?.unwrap_or_default();
    let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else {
        let action = "a destination cannot be added";
        return Err(error::worker_stuck(action, WORKER_TIMEOUT));
    };
    let Some(session) = session.as_mut() else { return Err(error::not_recording()) };
    let sink = sink(recording.analyzer.as_ref())?;
    Ok(DestinationHandle::new(join(session, sink, analyzer, room)))
}

/// Starts the stream of `sink` here, with the blocks that are live in `analyzer`, which are copied
/// into `room`. Returns the number of the sink.
pub(crate) fn join(
    session: &mut Session,
    sink: Queued,
    analyzer: Option<&InProcessAnalyzer>,
    room: Vec<InitialBlock>,
) -> u64 {
    let number = sink.number();
    worker::cycle(session, HOOK_TIMEOUT);
    let live_set = analyzer.map(|analyzer| analyzer.initial_live_set(room));
    session.join_late(sink, move |point, sink| late_join::begin(live_set, point, sink));
    number
}
