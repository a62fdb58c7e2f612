//! Adds destinations while the recording runs.

use super::destination::{Destination, Target};
use super::filter;
use super::handle::DestinationHandle;
use crate::analysis::InitialBlock;
use crate::error::Error;
use crate::events::channel::ChannelFilter;
use crate::ledger::entry::{refuse_forked, request};
use crate::ledger::files::open_trace;
use crate::ledger::in_process::InProcessAnalyzer;
use crate::ledger::recording::{self, WORKER_TIMEOUT};
use crate::ledger::{late_join, problems};
use crate::trace::sink::Sink;
use crate::trace::sink::file::FileSink;
use crate::trace::sink::queue::Queued;
use crate::trace::sink::tcp::{Address, TcpSink};
use crate::trace::worker::{self, Session};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::state;
use std::fs::File;
use std::path::Path;

/// Adds a destination of the program.
pub(in crate::ledger) fn add_destination(
    destination: &Destination,
) -> Result<DestinationHandle, Error> {
    match &destination.target {
        Target::File(file) => add_file(&file.location, file.channels.as_deref()),
        Target::Host(host) => add_host(&host.location, host.channels.as_deref()),
    }
}

pub(in crate::ledger) fn add_file(
    path: &Path,
    channels: Option<&str>,
) -> Result<DestinationHandle, Error> {
    request(|| add(channels, |channels| to_file(open_trace(path)?, channels)))
}

/// Adds a file that the control server has created, and that is empty.
pub(in crate::ledger) fn add_created(
    file: File,
    path: &Path,
    channels: Option<&str>,
) -> Result<DestinationHandle, Error> {
    request(move || add(channels, |channels| to_file(FileSink::begin(file, path)?, channels)))
}

pub(in crate::ledger) fn add_host(
    address: &str,
    channels: Option<&str>,
) -> Result<DestinationHandle, Error> {
    request(|| add(channels, |channels| to_host(Address::parse(address)?, channels)))
}

fn to_file(file: FileSink, filter: Option<ChannelFilter>) -> Result<Queued, Error> {
    let name = file.path().display().to_string();
    Queued::start(
        name,
        Box::new(move |_| Ok(filter::apply(filter, Box::new(file)))),
        problems::report,
    )
}

/// Adds a sink of another kind, which gets all events but no live blocks. `sink` is called with the
/// analyzer of the recording.
#[cfg(feature = "perfetto")]
pub(in crate::ledger) fn add_sink(
    sink: impl FnOnce(Option<&InProcessAnalyzer>) -> Result<Queued, Error>,
) -> Result<DestinationHandle, Error> {
    add_with(None, false, |_, analyzer| sink(analyzer))
}

/// A sink that connects to a recorder.
pub(in crate::ledger) fn to_host(
    address: Address,
    filter: Option<ChannelFilter>,
) -> Result<Queued, Error> {
    let name = address.to_string();
    let open = move |given_up| {
        let sink = TcpSink::connect(&address, given_up)?;
        Ok(filter::apply(filter, Box::new(sink)))
    };
    Queued::start(name, Box::new(open), problems::report)
}

fn add(
    channels: Option<&str>,
    sink: impl FnOnce(Option<ChannelFilter>) -> Result<Queued, Error>,
) -> Result<DestinationHandle, Error> {
    add_with(channels, true, |channels, _| sink(channels))
}

/// Adds a sink, which begins with the live blocks if `with_blocks`, and if it gets the channel `memory`.
fn add_with(
    channels: Option<&str>,
    with_blocks: bool,
    sink: impl FnOnce(Option<ChannelFilter>, Option<&InProcessAnalyzer>) -> Result<Queued, Error>,
) -> Result<DestinationHandle, Error> {
    let _active = state::hook_active();
    refuse_forked()?;
    let channels = filter::parse(channels)?;
    let recording = recording::current();
    let Some(recording) = recording.as_ref() else { return Err(Error::NotRecording) };
    // PERF: before the session is locked. While it is locked, nothing is collected.
    let with_blocks = with_blocks && filter::has_memory(channels.as_ref());
    let analyzer = recording.analyzer.as_ref().filter(|_| with_blocks);
    let room = analyzer.map(InProcessAnalyzer::reserve_blocks).transpose()?.unwrap_or_default();
    let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else {
        let action = "a destination cannot be added";
        return Err(Error::WorkerStuck { action, waited: WORKER_TIMEOUT });
    };
    let Some(session) = session.as_mut() else { return Err(Error::NotRecording) };
    let sink = sink(channels, recording.analyzer.as_ref())?;
    Ok(DestinationHandle::new(join(session, sink, analyzer, room)))
}

/// Starts the stream of `sink` here, with the blocks that are live in `analyzer`, which are copied
/// into `room`. Returns the number of the sink.
pub(in crate::ledger) fn join(
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
