//! The control server of a recording: where it listens, and what it allows.

use crate::control::server::{Listener, Rules, Server};
use crate::error::{self, Error, ErrorKind};
use crate::ledger::config::{Allowed, Config};
use crate::ledger::settings::token::check_token;
use crate::problems::{self, ProblemKind};
use crate::trace::sink::start;
use std::net::SocketAddr;

/// A server that listens but does not serve yet. Streams that start from now on announce its port.
pub(crate) struct BoundControl {
    pub(crate) listener: Listener,
    pub(crate) rules: Rules,
    pub(crate) port: AnnouncedPort,
}

/// The server of a recording.
pub(crate) struct RunningControl {
    pub(crate) server: Server,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) _port: AnnouncedPort,
}

/// While it exists, new streams announce the port of the control server.
pub(crate) struct AnnouncedPort;

impl Drop for AnnouncedPort {
    fn drop(&mut self) {
        start::set_control_port(None);
    }
}

/// Binds the address in the configuration, if there is one.
pub(crate) fn bind(config: &Config) -> Result<Option<BoundControl>, Error> {
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
    pub(crate) fn allow(&self, config: &Config) -> Result<(), Error> {
        self.server.allow(rules(config)?);
        Ok(())
    }
}
