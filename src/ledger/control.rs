//! What the commands of the control server do to the recording.

use super::builder::{Config, Secret};
use super::destinations::{DestinationHandle, add};
use super::{problems, run};
use crate::error::Error;
use crate::events::channel;
use crate::platform::os;
use crate::remote::control::{Actions, Listener, Place, Reply, Rules, Server};
use crate::trace::sink::queue::{self, Queue, Stage};
use crate::trace::sink::start;
use crate::words::nearest;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

/// Bytes of the longest token.
const LONGEST_TOKEN: usize = 1024;
/// Destinations at once that commands can add to.
const MOST_DESTINATIONS: usize = 8;
/// Channels, and destinations, that a status names.
const MOST_NAMED: usize = 16;
/// Bytes of a name or a reason in a status.
const LONGEST_TEXT: usize = 200;

/// A server that listens, and a port that is told in the streams that start from now on.
pub(super) struct Bound {
    listener: Listener,
    rules: Rules,
    port: Told,
}

/// The server of a recording.
pub(super) struct Control {
    server: Server,
    address: SocketAddr,
    _port: Told,
}

/// While it exists, streams say at which port the process is controlled.
struct Told;

impl Drop for Told {
    fn drop(&mut self) {
        start::set_control_port(None);
    }
}

/// Binds the address that is asked for, if one is.
pub(super) fn bind(config: &Config) -> Result<Option<Bound>, Error> {
    let Some(asked) = &config.control else {
        // The child of a fork may have inherited the port of its parent.
        start::set_control_port(None);
        return Ok(None);
    };
    let place = Place::parse(asked)?;
    let rules = rules(config)?;
    if place.is_open() && rules.token.is_none() {
        return Err(Error::TokenRequired(asked.clone()));
    }
    let listener = Listener::bind(place)?;
    let address = listener.address();
    if place.port() != 0 && place.port() != address.port() {
        problems::add(format!(
            "port {} is taken, so the control server listens on {address}",
            place.port()
        ));
    }
    start::set_control_port(Some(address.port()));
    Ok(Some(Bound { listener, rules, port: Told }))
}

/// The token in the first line of a file that nobody else can read or write; or why there is none.
pub(super) fn read_token(path: &Path) -> Result<Secret, String> {
    let failed = |error: std::io::Error| format!("it cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(failed)?;
    // Reading a pipe could wait without end.
    if !metadata.is_file() {
        return Err("it is no file".into());
    }
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o777;
        if mode & 0o077 != 0 {
            return Err(format!(
                "others can read or write that file (mode {mode:03o}; chmod 600 it first)"
            ));
        }
    }
    let mut text = String::new();
    let most = LONGEST_TOKEN as u64 + 2;
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(failed)?;
    let token = text.lines().next().unwrap_or_default();
    check_token(token)?;
    Ok(Secret(token.to_owned()))
}

fn check_token(token: &str) -> Result<(), String> {
    let is_word = !token.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word && (1..=LONGEST_TOKEN).contains(&token.len()) {
        return Ok(());
    }
    Err(format!(
        "the control server's token has {} bytes, but it must be one word of 1 to {LONGEST_TOKEN}",
        token.len()
    ))
}

/// What the program and its environment allow.
fn rules(config: &Config) -> Result<Rules, Error> {
    let token = config.control_token.as_ref().map(|secret| secret.0.clone());
    token.as_deref().map_or(Ok(()), check_token).map_err(Error::InvalidToken)?;
    let folder = config.control_folder.as_ref().map(|folder| {
        let failed = |source| Error::File { path: folder.clone(), action: "open", source };
        std::fs::read_dir(folder).and_then(|_| folder.canonicalize()).map_err(failed)
    });
    Ok(Rules { token, folder: folder.transpose()?, hosts: config.control_hosts.clone() })
}

impl Bound {
    /// Serves from here on.
    pub(super) fn serve(self) -> Result<Control, Error> {
        let Self { listener, rules, port } = self;
        let address = listener.address();
        let server = Server::start(listener, rules, Box::new(Commands { address }))?;
        Ok(Control { server, address, _port: port })
    }
}

impl Control {
    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The environment has started the server; the program may say later what it allows, where the
    /// environment has not.
    pub(super) fn allow(&self, config: &Config) -> Result<(), Error> {
        self.server.allow(rules(config)?);
        Ok(())
    }
}

struct Commands {
    address: SocketAddr,
}

impl Actions for Commands {
    fn status(&mut self) -> Vec<String> {
        let stats = run::stats();
        let program = std::env::current_exe().unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
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
        lines.extend(channel::known().take(MOST_NAMED).map(channel));
        lines.extend(channel::expected().take(MOST_NAMED).map(expected));
        let all = queue::all();
        let last = all.len().saturating_sub(MOST_NAMED);
        lines.extend(all.iter().skip(last).map(|queue| destination(queue)));
        lines
    }

    fn toggle_channels(&mut self, names: &[String], enable: bool) -> Reply {
        let names = channel::names(&names.join(",")).map_err(sentence)?;
        let channels = channel::switch(&names, enable).map_err(sentence)?;
        let mut lines: Vec<_> =
            channels.iter().map(|channel| self::channel((channel.name(), enable))).collect();
        lines.extend(names.unknown().map(|name| {
            let mut line = expected((name, enable)) + ": the program has not come by it yet";
            if let Some(near) = nearest(name, channel::known().map(|(name, _)| name)) {
                line += &format!("; likely meant: {near:?}");
            }
            line
        }));
        Ok(lines)
    }

    fn send_to(&mut self, address: &str, channels: Option<&str>) -> Reply {
        room_for_one()?;
        add::add_host(address, channels).map_err(sentence)?;
        Ok(vec![format!("destination {address}")])
    }

    fn write_to(&mut self, file: File, path: &Path, channels: Option<&str>) -> Reply {
        let added =
            room_for_one().and_then(|()| add::add_created(file, path, channels).map_err(sentence));
        if let Err(reason) = added {
            // It is ours, and empty.
            let _ = std::fs::remove_file(path);
            return Err(reason);
        }
        Ok(vec![format!("destination {}", path.display())])
    }

    fn stop(&mut self) -> Reply {
        let running: Vec<_> =
            queue::all().into_iter().filter(|queue| queue.seen().stage != Stage::Ended).collect();
        running.iter().for_each(|queue| DestinationHandle::new(queue.number).stop());
        Ok(running.iter().map(|queue| destination(queue)).collect())
    }

    fn problem(&mut self, error: Error) {
        problems::add(error.to_string());
    }
}

fn sentence(error: Error) -> String {
    error.to_string()
}

/// Whether commands may add a destination: each takes a thread, and up to 64 MiB while it is slow.
fn room_for_one() -> Result<(), String> {
    let running = queue::all().iter().filter(|queue| queue.seen().stage != Stage::Ended).count();
    if running >= MOST_DESTINATIONS {
        return Err(format!("there are {running} destinations already, and no more can be"));
    }
    Ok(())
}

fn channel((name, enabled): (&str, bool)) -> String {
    format!("channel {} {}", if enabled { "on" } else { "off" }, short(name))
}

/// Of a name that no channel has so far.
fn expected(named: (&str, bool)) -> String {
    format!("expected_{}", channel(named))
}

fn destination(queue: &Queue) -> String {
    let seen = queue.seen();
    let state = match (seen.stage, &seen.why) {
        (Stage::Opening, _) => "opening",
        (Stage::Sending, _) => "sending",
        (Stage::Ended, None) => "ended",
        (Stage::Ended, Some(_)) => "failed",
    };
    let mut line = format!("destination {state} {} bytes {}", seen.written, short(&queue.name));
    if let Some(why) = &seen.why {
        line += &format!(": {}", short(why));
    }
    line
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}
