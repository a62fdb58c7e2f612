//! The socket on which the server listens.

use crate::error::Error;
use crate::platform::os::{self, OwnDescriptor};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use crate::control::command::DEFAULT_PORT;

/// The number of other ports that are tried if the requested one is taken, as in Unreal.
const MAX_PORT_TRIES: u64 = 10;
/// The first of the other ports that can be tried, and the number of these ports.
const FALLBACK_PORTS: (u16, u64) = (0x8000, 0x2000);

/// The address and port that a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress(SocketAddr);

impl ListenAddress {
    /// Reads `port`, `address:port` or `localhost:port`.
    ///
    /// # Errors
    /// `ErrorKind::InvalidSetting` says what is allowed.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let on_loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let parsed = match (text.parse::<u16>(), text.strip_prefix("localhost:")) {
            (Ok(port), _) => Some(on_loopback(port)),
            (_, Some(port)) => port.parse().ok().map(on_loopback),
            _ => text.parse().ok(),
        };
        parsed.map(Self).ok_or_else(|| {
            Error::new(crate::error::ErrorKind::InvalidSetting, format!(
                "the control server cannot listen on {text:?}; write a port, such as {DEFAULT_PORT}, or ADDRESS:PORT"
            ))
        })
    }

    /// The requested port; 0 for any.
    pub(crate) fn port(self) -> u16 {
        self.0.port()
    }

    /// Whether other machines could reach this address.
    pub(crate) fn is_public(self) -> bool {
        !self.0.ip().is_loopback()
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A socket that is bound and listens.
pub(crate) struct Listener {
    socket: OwnDescriptor<TcpListener>,
    address: SocketAddr,
}

impl Listener {
    /// Binds the requested port, or another one if that is taken.
    ///
    /// # Errors
    /// `ErrorKind::Listen` if none of the ports can be bound.
    pub(crate) fn bind(ListenAddress(asked): ListenAddress) -> Result<Self, Error> {
        let random = RandomState::new();
        let hop = |hop| FALLBACK_PORTS.0 + (random.hash_one(hop) % FALLBACK_PORTS.1) as u16;
        let ports = std::iter::once(asked.port()).chain((0..MAX_PORT_TRIES).map(hop));
        let mut result = Err(ErrorKind::AddrInUse.into());
        for port in ports {
            result = Self::listen((asked.ip(), port));
            if !result.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
                break;
            }
        }
        result.map_err(|source| {
            let sentence = format!("the control server cannot listen on {asked}");
            Error::from_io(crate::error::ErrorKind::Listen, sentence, source)
        })
    }

    fn listen(address: (IpAddr, u16)) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket: OwnDescriptor::new(socket)?, address })
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket; `None` if the program has closed it.
    pub(super) fn socket(&self) -> Option<&TcpListener> {
        self.socket.get()
    }

    /// Stops listening, and wakes the thread that waits for clients. This also affects other
    /// processes that have the socket, such as the child of a fork.
    pub(super) fn stop_listening(&self) {
        if let Some(socket) = self.socket() {
            os::stop_listening(socket);
        }
    }

    /// The connection of a client, if one is waiting.
    pub(super) fn accept(&self) -> io::Result<Option<TcpStream>> {
        match self.socket.opened()?.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            // A client that has disconnected already, or a signal, is not a failure of the
            // listener.
            Err(error) if is_passing(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(kind, WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ports_or_addresses_with_a_port() {
        for (text, address, open) in [
            ("1985", "127.0.0.1:1985", false),
            ("localhost:7", "127.0.0.1:7", false),
            ("127.0.0.2:0", "127.0.0.2:0", false),
            ("[::1]:1985", "[::1]:1985", false),
            ("0.0.0.0:1985", "0.0.0.0:1985", true),
            ("10.0.0.1:1985", "10.0.0.1:1985", true),
        ] {
            let parsed = ListenAddress::parse(text).unwrap();
            assert_eq!((parsed.0.to_string().as_str(), parsed.is_public()), (address, open));
        }
        for text in ["", "x", "65536", "-1", "host:1985", "127.0.0.1", "::1", "1985 "] {
            let error = ListenAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_left_for_another() {
        let first = Listener::bind(ListenAddress::parse("0").unwrap()).unwrap();
        let taken = first.address().port();
        let second = Listener::bind(ListenAddress::parse(&taken.to_string()).unwrap()).unwrap();
        assert_ne!(second.address().port(), taken);
        assert!((0x8000..0xa000).contains(&second.address().port()));
        assert!(second.address().ip().is_loopback());
    }

    #[test]
    fn an_address_that_is_not_ours_is_an_error() {
        let address = ListenAddress::parse("192.0.2.1:1985").unwrap();
        let Err(error) = Listener::bind(address) else { panic!("no machine has this address") };
        assert!(error.to_string().contains("cannot listen on 192.0.2.1:1985"), "{error}");
    }
}
