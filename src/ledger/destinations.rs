//! Starts and stops destinations while the recording goes on.

use super::channels;
use super::destination::Destination;
use super::live::Live;
use super::opening;
use super::output::open_trace;
use super::run::{self, PATIENCE_WITH_HOOKS, apart, last_words, refuse_forked, tell, theirs};
use crate::analysis::AliveBlock;
use crate::error::Error;
use crate::events::channel::ChannelFilter;
use crate::platform::os::BlockedSignals;
use crate::trace::sink::file::FileSink;
use crate::trace::sink::queue::{self, Queued};
use crate::trace::sink::tcp::{Address, TcpSink};
use crate::trace::worker::{self, Session};
use crate::trace::write::{state, untracked};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the end of a stream waits until everything has left.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn add_file(path: &Path, channels: Option<&str>) -> Result<Destination, Error> {
    theirs(untracked(|| apart(|| add(channels, |filter| to_file(open_trace(path)?, filter)))))
}

/// Writes to a file that was created for it, and is empty.
pub(super) fn add_created(
    file: File,
    path: &Path,
    channels: Option<&str>,
) -> Result<Destination, Error> {
    let sink = |filter| to_file(FileSink::begin(file, path)?, filter);
    theirs(untracked(|| apart(move || add(channels, sink))))
}

pub(super) fn add_host(address: &str, channels: Option<&str>) -> Result<Destination, Error> {
    theirs(untracked(|| {
        apart(|| add(channels, |filter| to_host(Address::parse(address)?, filter)))
    }))
}

fn to_file(file: FileSink, filter: Option<ChannelFilter>) -> Result<Queued, Error> {
    let name = file.path().display().to_string();
    Queued::start(name, Box::new(move |_| Ok(channels::apply(filter, Box::new(file)))), tell)
}

/// A sink that connects to a recorder.
pub(super) fn to_host(address: Address, filter: Option<ChannelFilter>) -> Result<Queued, Error> {
    let name = address.to_string();
    let open = move |given_up| {
        let sink = TcpSink::connect(&address, given_up)?;
        Ok(channels::apply(filter, Box::new(sink)))
    };
    Queued::start(name, Box::new(open), tell)
}

fn add(
    channels: Option<&str>,
    sink: impl FnOnce(Option<ChannelFilter>) -> Result<Queued, Error>,
) -> Result<Destination, Error> {
    let _awake = state::awake();
    refuse_forked()?;
    let filter = channels::parse(channels)?;
    let run = run::run();
    let Some(run) = run.as_ref() else { return Err(nothing_recorded()) };
    // PERF: before the session is held. While it is, nobody collects.
    let live = run.live.as_ref().filter(|_| channels::has_memory(filter.as_ref()));
    let room = live.map(Live::room).transpose()?.unwrap_or_default();
    let Some(mut session) = worker::session_within(run::PATIENCE) else {
        return Err(Error::Unsupported(format!(
            "a destination cannot be added: the worker has been stuck in a write for {} s",
            run::PATIENCE.as_secs()
        )));
    };
    let Some(session) = session.as_mut() else { return Err(nothing_recorded()) };
    let sink = sink(filter)?;
    Ok(Destination::new(join(session, sink, live, room)))
}

fn nothing_recorded() -> Error {
    Error::Unsupported("a destination cannot be added, because nothing is being recorded".into())
}

/// Has the stream of `sink` begin here, with what `live` knows to be alive; its number.
pub(super) fn join(
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

/// Ends one, and waits until it has got everything.
pub(super) fn stop(number: u64) {
    untracked(|| {
        if state::is_forked() {
            return;
        }
        let _signals = BlockedSignals::new();
        if let Some(mut session) = worker::session_within(run::PATIENCE)
            && let Some(session) = session.as_mut()
        {
            session.want_figures();
            worker::tick(session, PATIENCE_WITH_HOOKS);
            session.end_one(number, &last_words());
        }
        if let Some(queue) = queue::by_number(number) {
            queue.wait_for_end(Instant::now() + PATIENCE);
        }
    });
}

/// The handles of all, for the program.
pub(super) fn all() -> Vec<Destination> {
    let numbers = || queue::all().iter().map(|queue| Destination::new(queue.number)).collect();
    let ours: Vec<_> = if state::is_forked() { Vec::new() } else { untracked(numbers) };
    // A copy that belongs to the program.
    let theirs = ours.clone();
    untracked(move || drop(ours));
    theirs
}
