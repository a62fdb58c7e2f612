//! Commands end the destinations that a recording starts with, and start them again.

use crate::error;
use crate::ledger::destinations::{DestinationHandle, add};
use crate::ledger::recording;
use crate::ledger::recording::initial::{InitialDestinations, StartedDestination};
use crate::platform::os;
use crate::trace::sink::FIRST_FILE;
use crate::trace::sink::names::expand;
use crate::trace::sink::queue::{self, Stage};
use crate::trace::worker::{self, WORKER_TIMEOUT};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many files of one name are tried.
const MAX_NAMES: u32 = 10_000;

/// Whether the destination receives the trace. `None` if that is the file that the worker itself writes, and
/// the worker is stuck for `timeout`.
fn is_running<P>(started: &StartedDestination<P>, timeout: Duration) -> Option<bool> {
    if started.number != FIRST_FILE {
        let queue = queue::by_number(started.number);
        return Some(queue.is_some_and(|queue| queue.status().stage != Stage::Ended));
    }
    let session = worker::session_within(timeout)?;
    Some(session.as_ref().is_some_and(|session| session.has_sink(FIRST_FILE)))
}

/// The name of the first file, and whether it is being written, which is assumed of a worker that is stuck;
/// `None` if none was, or if the ledger is busy.
pub(super) fn first_file() -> Option<(String, bool)> {
    let recording = recording::current_within(HOOK_TIMEOUT)?;
    let file =
        recording.as_ref()?.initial.file.as_ref().filter(|file| file.number == FIRST_FILE)?;
    Some((file.name.clone(), is_running(file, HOOK_TIMEOUT).unwrap_or(true)))
}

/// Ends the first file with everything recorded so far; returns its name if it was being written.
pub(super) fn end_first_file() -> Option<String> {
    let (name, is_running) = first_file()?;
    if is_running {
        DestinationHandle::new(FIRST_FILE).stop();
    }
    is_running.then_some(name)
}

/// The destination, if it has ended.
///
/// # Errors
/// A sentence, if the worker is stuck. NOTE: on a busy machine it can hold the session for some time.
fn ended<P>(
    started: Option<StartedDestination<P>>,
) -> Result<Option<StartedDestination<P>>, String> {
    let Some(started) = started else { return Ok(None) };
    match is_running(&started, WORKER_TIMEOUT) {
        Some(is_running) => Ok((!is_running).then_some(started)),
        None => Err(error::worker_stuck("nothing can be started", WORKER_TIMEOUT).to_string()),
    }
}

/// Starts the initial destinations that have ended again: a new file beside the first one, and the
/// connection to the host. Each stream begins with the live blocks. Returns the names of the
/// destinations that were started.
///
/// # Errors
/// Why nothing more was started, as a sentence. `check_destination_limit` is called before each
/// start.
pub(super) fn start_again(
    check_destination_limit: impl Fn() -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let (generation, file, host) = {
        let recording = recording::current();
        let Some(recording) = recording.as_ref() else {
            return Err(error::not_recording().to_string());
        };
        (recording.generation, recording.initial.file.clone(), recording.initial.host.clone())
    };
    if file.is_none() && host.is_none() {
        return Err(
            "the recording was started without a file and without a host; use WriteTo or SendTo"
                .into(),
        );
    }
    // NOTE: the lock is not held while a destination is added, because adding takes the lock.
    let keep = |change: &dyn Fn(&mut InitialDestinations)| {
        let mut recording = recording::current();
        let same = recording.as_mut().filter(|recording| recording.generation == generation);
        same.into_iter().for_each(|recording| change(&mut recording.initial));
    };
    let mut started = Vec::new();
    if let Some(StartedDestination { location, .. }) = ended(file)? {
        check_destination_limit()?;
        // The start has reported what is wrong with the name.
        let (created, path) = create_beside(&expand(&location, &mut |_| {}))?;
        let handle = add::add_created(created, &path).map_err(|error| {
            // This function has created the file, and it is empty.
            let _ = std::fs::remove_file(&path);
            format!("{error:#}")
        })?;
        let new = StartedDestination::new(location, handle.number, path.display().to_string());
        started.push(new.name.clone());
        keep(&|initial| initial.file = Some(new.clone()));
    }
    if let Some(StartedDestination { location, name, .. }) = ended(host)? {
        check_destination_limit()?;
        let handle = add::add_host(&location).map_err(|error| format!("{error:#}"))?;
        let new = StartedDestination::new(location, handle.number, name);
        started.push(new.name.clone());
        keep(&|initial| initial.host = Some(new.clone()));
    }
    if started.is_empty() {
        return Err(
            "the file and the host that the recording was started with are still running".into()
        );
    }
    Ok(started)
}

/// Creates `path` or, if that exists, `NAME-2.EXT` and so on: no file is overwritten.
fn create_beside(path: &Path) -> Result<(File, PathBuf), String> {
    let failed = |error: io::Error| format!("{} cannot be created: {error}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    for number in 1..MAX_NAMES {
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        match os::create_in(folder, &name) {
            Ok(file) => return Ok((file, path.with_file_name(name))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}
