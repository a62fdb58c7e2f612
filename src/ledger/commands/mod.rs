//! What the commands of the control server do to the recording.

mod restart;

use crate::control::server::{Actions, DocumentKind, MakeDocument, Reply, Server};
use crate::error::Error;
use crate::events::channel;
use crate::ledger::destinations::{DestinationHandle, DestinationStatus, add, session};
use crate::ledger::recording::control::{BoundControl, RunningControl};
use crate::ledger::recording::queries;
use crate::ledger::stats::Stats;
use crate::platform::os;
use crate::problems::{self, ProblemKind};
use crate::trace::sink::queue::{self, Queue, Stage};
use crate::trace::sink::tcp::Address;
use memledger_format::words::nearest;
use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

/// Commands add a destination only if fewer than this many are running.
const MAX_DESTINATIONS: usize = 8;
/// A status names at most this many names without a channel, and this many destinations.
const MAX_LISTED: usize = 16;
/// Characters of a name or a reason in a status, at most.
const MAX_TEXT_CHARS: usize = 200;

/// Starts serving: the clients of `bound` control the recording.
pub(crate) fn serve(bound: BoundControl) -> Result<RunningControl, Error> {
    let BoundControl { listener, rules, port } = bound;
    let address = listener.address();
    let server = Server::start(listener, rules, Box::new(Commands { address }))?;
    Ok(RunningControl { server, address, _port: port })
}

struct Commands {
    address: SocketAddr,
}

impl Actions for Commands {
    fn status(&mut self) -> Vec<String> {
        let stats = Stats::of_last_cycle();
        let program = os::program_name().to_string_lossy().into_owned();
        let mut lines = vec![
            format!("pid {}", os::process_id()),
            format!("program {program}"),
            format!("control {}", self.address),
            format!("recording {}", if stats.recording { "yes" } else { "no" }),
            format!("events {}", stats.events),
            format!("lost_events {}", stats.lost_events),
            format!("buffer_bytes {}", stats.buffer_bytes),
            format!("overhead_bytes {}", stats.overhead_bytes),
            format!("lost_destinations {}", stats.lost_destinations),
        ];
        lines.extend(channel::known().map(channel));
        lines.extend(channel::expected().take(MAX_LISTED).map(expected));
        lines.extend(restart::first_file().map(|(name, is_running)| {
            format!("first_file {} {}", if is_running { "sending" } else { "ended" }, short(&name))
        }));
        let all = queue::all();
        let last = all.len().saturating_sub(MAX_LISTED);
        lines.extend(all.iter().skip(last).map(|queue| destination(queue)));
        lines
    }

    fn toggle_channels(&mut self, names: &[String], enable: bool) -> Reply {
        let names = channel::names(&names.join(",")).map_err(sentence)?;
        let channels = channel::switch(&names, enable).map_err(sentence)?;
        let mut lines: Vec<_> =
            channels.iter().map(|channel| self::channel((channel.name(), enable))).collect();
        lines.extend(names.unknown().map(|name| {
            let mut line = expected((name, enable)) + ": the program has no such channel so far";
            if let Some(near) = nearest(name, channel::known().map(|(name, _)| name)) {
                line += &format!("; likely meant: {near:?}");
            }
            line
        }));
        Ok(lines)
    }

    fn send_to(&mut self, address: &Address) -> Reply {
        check_destination_limit()?;
        add::add_host(address).map_err(sentence)?;
        Ok(vec![format!("destination {address}")])
    }

    fn write_to(&mut self, file: File, path: &Path) -> Reply {
        check_destination_limit()?;
        add::add_created(file, path).map_err(sentence)?;
        Ok(vec![format!("destination {}", path.display())])
    }

    fn start_session(&mut self, file: File, path: &Path, config: Option<&str>) -> Reply {
        check_destination_limit()?;
        session::add_created(file, path, config).map_err(sentence)?;
        Ok(vec![format!("session {}", path.display())])
    }

    fn stop_session(&mut self, name: &str) -> Reply {
        let session = session_called(name)?;
        session.stop();
        let DestinationStatus { events, lost_events, .. } = session.status();
        Ok(vec![format!("session ended {name}, {events} events, {lost_events} lost")])
    }

    fn flush_session(&mut self, name: &str) -> Reply {
        let session = session_called(name)?;
        session.flush();
        Ok(vec![format!("session {name}, {} events", session.status().events)])
    }

    fn dump_session(&mut self, name: &str, path: &Path) -> Reply {
        let bytes = session_called(name)?.dump(path).map_err(sentence)?;
        Ok(vec![format!("dump {bytes} bytes {}", path.display())])
    }

    fn stop(&mut self) -> Reply {
        let running: Vec<_> =
            queue::all().into_iter().filter(|queue| queue.status().stage != Stage::Ended).collect();
        running.iter().for_each(|queue| DestinationHandle::new(queue.number).stop());
        Ok(running.iter().map(|queue| destination(queue)).collect())
    }

    fn stop_all(&mut self) -> Reply {
        let mut lines = self.stop()?;
        lines.extend(
            restart::end_first_file().map(|name| format!("first_file ended {}", short(&name))),
        );
        Ok(lines)
    }

    fn start(&mut self) -> Reply {
        let started = restart::start_again(check_destination_limit)?;
        Ok(started.iter().map(|name| format!("destination {name}")).collect())
    }

    fn document(&self, kind: DocumentKind) -> MakeDocument {
        match kind {
            DocumentKind::Profile => queries::profile_for_client,
            DocumentKind::Figures { stacks: false } => queries::figures_of_rows,
            DocumentKind::Figures { stacks: true } => queries::figures_with_stacks,
        }
    }

    fn problem(&mut self, error: Error) {
        problems::add(ProblemKind::Tracker, format!("{error:#}"));
    }
}

fn sentence(error: Error) -> String {
    format!("{error:#}")
}

/// Whether commands may add a destination: each takes a thread, and up to 64 MiB while it is slow.
fn check_destination_limit() -> Result<(), String> {
    let running = queue::all().iter().filter(|queue| queue.status().stage != Stage::Ended).count();
    if running >= MAX_DESTINATIONS {
        return Err(format!("there are already {running} destinations, the maximum"));
    }
    Ok(())
}

/// The session of track events that writes to the file with this name, and has not ended.
fn session_called(name: &str) -> Result<DestinationHandle, String> {
    let running = queue::all().into_iter();
    let running =
        running.filter(|queue| queue.shared().is_some() && queue.status().stage != Stage::Ended);
    let mut running: Vec<_> = running.collect();
    let file = |queue: &Queue| Path::new(&queue.name).file_name().map(OsStr::to_owned);
    if let Some(at) = running.iter().position(|queue| file(queue).is_some_and(|file| file == name))
    {
        return Ok(DestinationHandle::new(running.swap_remove(at).number));
    }
    let names =
        running.iter().map(|queue| short(&file(queue).unwrap_or_default().to_string_lossy()));
    Err(match &*names.collect::<Vec<_>>().join(", ") {
        "" => format!("there is no session {name:?}, and none is running"),
        names => format!("there is no session {name:?}; the sessions are {names}"),
    })
}

fn channel((name, enabled): (&str, bool)) -> String {
    format!("channel {} {}", if enabled { "on" } else { "off" }, short(name))
}

/// The line for a name that is set, but that no channel has so far.
fn expected(named: (&str, bool)) -> String {
    format!("expected_{}", channel(named))
}

fn destination(queue: &Queue) -> String {
    let status = queue.status();
    let state = match (status.stage, &status.why) {
        (Stage::Opening, _) => "opening",
        (Stage::Sending, _) => "sending",
        (Stage::Ended, None) => "ended",
        (Stage::Ended, Some(_)) => "failed",
    };
    let mut line = format!("destination {state} {} bytes {}", status.written, short(&queue.name));
    if let Some(why) = &status.why {
        line += &format!(": {}", short(why));
    }
    line
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}
