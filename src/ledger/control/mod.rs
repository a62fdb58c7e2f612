//! The control server of a recording: where it listens, and what it allows.

pub(super) mod commands;
#[cfg_attr(not(report), path = "../../disabled/ledger/control/figures.rs")]
mod figures;

use super::config::{Allowed, Config, Secret};
use super::problem::ProblemKind;
use super::problems;
use crate::control::{Listener, Rules, Server};
use crate::error::{self, Error, ErrorKind};
use crate::platform::os;
use crate::trace::sink::start;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

/// Bytes of the longest token.
const MAX_TOKEN_BYTES: usize = 1024;

/// A server that listens but does not serve yet. Streams that start from now on announce its port.
pub(super) struct BoundControl {
    listener: Listener,
    rules: Rules,
    port: AnnouncedPort,
}

/// The server of a recording.
pub(super) struct RunningControl {
    pub(super) server: Server,
    /// Where it listens.
    pub(super) address: SocketAddr,
    _port: AnnouncedPort,
}

/// While it exists, new streams announce the port of the control server.
struct AnnouncedPort;

impl Drop for AnnouncedPort {
    fn drop(&mut self) {
        start::set_control_port(None);
    }
}

/// Binds the address in the configuration, if there is one.
pub(super) fn bind(config: &Config) -> Result<Option<BoundControl>, Error> {
    let Some(asked) = config.control else {
        // The child of a fork may have inherited the port of its parent.
        start::set_control_port(None);
        return Ok(None);
    };
    let rules = rules(config)?;
    if asked.is_public() && rules.token.is_none() {
        return Err(Error::new(
            ErrorKind::TokenRequired,
            format!(
                "the control server does not listen on {asked}, where other machines can reach it, without a token; MEMLEDGER_CONTROL_TOKEN_FILE or LedgerBuilder::control_token sets one"
            ),
        ));
    }
    let listener = Listener::bind(asked)?;
    let address = listener.address();
    if asked.port() != 0 && asked.port() != address.port() {
        problems::add(
            ProblemKind::Output,
            format!("port {} is taken, so the control server listens on {address}", asked.port()),
        );
    }
    start::set_control_port(Some(address.port()));
    Ok(Some(BoundControl { listener, rules, port: AnnouncedPort }))
}

/// The token in the first line of a file that only its owner can read and write, or why there is
/// none.
pub(super) fn read_token(path: &Path) -> Result<Secret, String> {
    let failed = |error: std::io::Error| format!("it cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(failed)?;
    // Reading a pipe could wait forever.
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    if let Some(mode) = os::mode_for_others(&metadata) {
        return Err(format!(
            "other users can read or write that file (mode {mode:03o}); run chmod 600 on it first"
        ));
    }
    let mut text = String::new();
    let most = MAX_TOKEN_BYTES as u64 + 2;
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(failed)?;
    let token = text.lines().next().unwrap_or_default();
    check_token(token)?;
    Ok(Secret(token.to_owned()))
}

fn check_token(token: &str) -> Result<(), String> {
    let is_word = !token.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word && (1..=MAX_TOKEN_BYTES).contains(&token.len()) {
        return Ok(());
    }
    Err(format!(
        "the control server's token has {} bytes, but it must be one word of 1 to {MAX_TOKEN_BYTES}",
        token.len()
    ))
}

/// What the program and its environment allow.
fn rules(config: &Config) -> Result<Rules, Error> {
    let Allowed { token, folder, hosts } = &config.allowed;
    let token = token.as_ref().map(|secret| secret.0.clone());
    let refused = |why| Error::new(ErrorKind::InvalidSetting, why);
    token.as_deref().map_or(Ok(()), check_token).map_err(refused)?;
    let folder = folder.as_ref().map(|folder| {
        let failed = |source| error::file("open", folder, source);
        std::fs::read_dir(folder).and_then(|_| folder.canonicalize()).map_err(failed)
    });
    Ok(Rules { token, folder: folder.transpose()?, hosts: hosts.clone() })
}

impl RunningControl {
    /// Adds the rules of the program that the environment, which has started the server, has not
    /// set.
    pub(super) fn allow(&self, config: &Config) -> Result<(), Error> {
        self.server.allow(rules(config)?);
        Ok(())
    }
}
