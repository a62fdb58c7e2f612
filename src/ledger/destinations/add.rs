//! Adds destinations while the recording runs.

use super::filter;
use super::{Destination, DestinationHandle, Target};
use crate::analysis::AliveBlock;
use crate::error::Error;
use crate::events::channel::ChannelFilter;
use crate::ledger::live::Live;
use crate::ledger::opening;
use crate::ledger::output::open_trace;
use crate::ledger::run::{self, PATIENCE_WITH_HOOKS, apart, refuse_forked, tell, theirs};
use crate::trace::sink::file::FileSink;
use crate::trace::sink::queue::Queued;
use crate::trace::sink::tcp::{Address, TcpSink};
use crate::trace::worker::{self, Session};
use crate::trace::write::{state, untracked};
use std::fs::File;
use std::path::Path;

/// Adds what the program asks for.
pub(in crate::ledger) fn add_destination(
    destination: &Destination,
) -> Result<DestinationHandle, Error> {
    match &destination.target {
        Target::File(file) => add_file(&file.place, file.channels.as_deref()),
        Target::Host(host) => add_host(&host.place, host.channels.as_deref()),
    }
}

pub(in crate::ledger) fn add_file(
    path: &Path,
    channels: Option<&str>,
) -> Result<DestinationHandle, Error> {
    theirs(untracked(|| apart(|| add(channels, |filter| to_file(open_trace(path)?, filter)))))
}

/// Writes to a file that was created for it, and is empty.
pub(in crate::ledger) fn add_created(
    file: File,
    path: &Path,
    channels: Option<&str>,
) -> Result<DestinationHandle, Error> {
    let sink = |filter| to_file(FileSink::begin(file, path)?, filter);
    theirs(untracked(|| apart(move || add(channels, sink))))
}

pub(in crate::ledger) fn add_host(
    address: &str,
    channels: Option<&str>,
) -> Result<DestinationHandle, Error> {
    theirs(untracked(|| {
        apart(|| add(channels, |filter| to_host(Address::parse(address)?, filter)))
    }))
}

fn to_file(file: FileSink, filter: Option<ChannelFilter>) -> Result<Queued, Error> {
    let name = file.path().display().to_string();
    Queued::start(name, Box::new(move |_| Ok(filter::apply(filter, Box::new(file)))), tell)
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
    Queued::start(name, Box::new(open), tell)
}

fn add(
    channels: Option<&str>,
    sink: impl FnOnce(Option<ChannelFilter>) -> Result<Queued, Error>,
) -> Result<DestinationHandle, Error> {
    let _awake = state::awake();
    refuse_forked()?;
    let filter = filter::parse(channels)?;
    let run = run::run();
    let Some(run) = run.as_ref() else { return Err(Error::NotRecording) };
    // PERF: before the session is held. While it is, nobody collects.
    let live = run.live.as_ref().filter(|_| filter::has_memory(filter.as_ref()));
    let room = live.map(Live::room).transpose()?.unwrap_or_default();
    let Some(mut session) = worker::session_within(run::PATIENCE) else {
        let action = "a destination cannot be added";
        return Err(Error::WorkerStuck { action, waited: run::PATIENCE });
    };
    let Some(session) = session.as_mut() else { return Err(Error::NotRecording) };
    let sink = sink(filter)?;
    Ok(DestinationHandle::new(join(session, sink, live, room)))
}

/// Has the stream of `sink` begin here, with what `live` knows to be alive; its number.
pub(in crate::ledger) fn join(
    session: &mut Session,
    sink: Queued,
    live: Option<&Live>,
    room: Vec<AliveBlock>,
) -> u64 {
    use crate::trace::sink::Sink;
    let number = sink.number();
    worker::tick(session, PATIENCE_WITH_HOOKS);
    let alive = live.map(|live| live.alive(room));
    session.join_late(sink, move |here, sink| opening::begin(alive, here, sink));
    number
}
