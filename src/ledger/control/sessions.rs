//! The sessions of track events that commands have started.

use crate::error::Error;
use crate::ledger::recording::WORKER_TIMEOUT;
use crate::ledger::tracing_session::{TracingSession, TracingSessionBuilder};
use crate::perfetto::{SessionConfig, TrackEventConfig};
use crate::platform::os;
use crate::remote::control::{Reply, SessionAction};
use crate::trace::sink::file::PieceFile;
use crate::trace::worker;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

struct Commanded {
    name: String,
    session: TracingSession,
    /// The process whose it is. NOTE: the child of a fork has a copy, which must not write the file.
    process: u32,
}

static SESSIONS: Mutex<Vec<Commanded>> = Mutex::new(Vec::new());

/// Calls `body` with all sessions of this process.
fn with_sessions<R>(body: impl FnOnce(&mut Vec<Commanded>) -> R) -> Result<R, String> {
    // NOTE: with a deadline. In a child that was forked during a command, the lock stays taken.
    let sessions = worker::lock_within(&SESSIONS, WORKER_TIMEOUT);
    let mut sessions = sessions.ok_or("another command about a session takes too long")?;
    let process = os::process_id();
    sessions.extract_if(.., |of| of.process != process).for_each(std::mem::forget);
    Ok(body(&mut sessions))
}

/// Ends all sessions, after the streams of the recording have ended.
pub(in crate::ledger) fn end_all() {
    let _ = with_sessions(|sessions| sessions.clear());
}

pub(super) fn act(action: SessionAction<'_>) -> Reply {
    match action {
        SessionAction::Start { name, file, path, config } => {
            let started = super::commands::check_destination_limit()
                .and_then(|()| start(name, file, path, config));
            if started.is_err() {
                // The control server has created the file, and it is empty.
                let _ = std::fs::remove_file(path);
            }
            started
        }
        SessionAction::Stop { name } => {
            let ended = with_sessions(|sessions| {
                let at = position(sessions, name)?;
                Ok::<_, String>(sessions.remove(at))
            })??;
            let (events, lost) = (ended.session.events(), ended.session.lost_events());
            ended.session.stop();
            Ok(vec![format!("session ended {name}, {events} events, {lost} lost")])
        }
        SessionAction::Flush { name } => with_sessions(|sessions| {
            let session = &sessions[position(sessions, name)?].session;
            session.flush();
            Ok(vec![format!("session {name}, {} events", session.events())])
        })?,
        SessionAction::Dump { name, path } => {
            let dumped = with_sessions(|sessions| {
                let session = &sessions[position(sessions, name)?].session;
                let bytes = session.dump(path).map_err(|error: Error| error.to_string())?;
                Ok(vec![format!("dump {bytes} bytes {}", path.display())])
            });
            let dumped = dumped.and_then(|dumped| dumped);
            if dumped.is_err() {
                let _ = std::fs::remove_file(path);
            }
            dumped
        }
    }
}

fn position(sessions: &[Commanded], name: &str) -> Result<usize, String> {
    let found = sessions.iter().position(|of| of.name == name);
    found.ok_or_else(|| match sessions {
        [] => format!("no session is called {name:?}, and no command has started one that runs"),
        _ => {
            let names = sessions.iter().map(|of| of.name.as_str()).collect::<Vec<_>>();
            format!("no session is called {name:?}; those are {}", names.join(", "))
        }
    })
}

fn start(name: &str, file: File, path: &Path, config: Option<&str>) -> Reply {
    let mut lines = vec![format!("session {}", path.display())];
    let builder = match config {
        None => TracingSession::file(path, TrackEventConfig::all()),
        Some(text) => {
            let config = SessionConfig::parse(text).map_err(|error| error.to_string())?;
            lines.extend(config.unsupported().map(|unsupported| format!("note {unsupported}")));
            TracingSessionBuilder::of(config, path.to_owned())
        }
    };
    with_sessions(|sessions| {
        // A session whose time is over has ended by itself.
        sessions.retain(|of| !of.session.has_ended());
        let file = PieceFile::begin(file, path).map_err(|error| error.to_string())?;
        let session = builder.start_in(Some(file)).map_err(|error| error.to_string())?;
        sessions.push(Commanded { name: name.to_owned(), session, process: os::process_id() });
        Ok(lines)
    })?
}
