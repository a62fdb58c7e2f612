//! The connection to a recorder. It carries the plain Unreal stream, as in a `.utrace` file, and
//! nothing else.
//!
//! The recorder sends no answer. So when a connection breaks, it is unknown which of the bytes that
//! the system had accepted have arrived.

use super::{Sink, start};
use crate::error::{Error, ErrorKind};
use crate::platform::os::{self, Instant, OwnDescriptor};
use memledger_format::handshake::PROTOCOL;
use memledger_format::handshake::Transport;
use memledger_format::packet::PacketWriter;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The ports of recorders, in the order in which they are tried: `memledger serve` listens on both,
/// Unreal Engine 4's recorder on the first, and Unreal's own since version 5.0 on the second.
pub(crate) const DEFAULT_PORTS: [u16; 2] = [1980, 1981];
/// The time for connecting, over all addresses of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which a blocked send checks whether the sink was ended.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);
/// Coded packets are sent when this many bytes are waiting, and at every sync.
const SEND_AT: usize = 128 << 10;

/// A host, and a port if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: Option<u16>,
}

impl Address {
    /// Reads `host`, `host:port`, an IPv4 or IPv6 address, or `[IPv6]:port`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::new(
                crate::error::ErrorKind::InvalidSetting,
                format!(
                    "the address {text:?} is not allowed: {why}; write HOST or HOST:PORT, such as 127.0.0.1:{}",
                    DEFAULT_PORTS[0]
                ),
            )
        };
        let (host, port) = match (text.strip_prefix('['), text.rsplit_once(':')) {
            _ if text.parse::<IpAddr>().is_ok() => (text, None),
            (Some(rest), _) => match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
                _ => return Err(wrong("its bracket is not closed")),
            },
            (None, Some((host, port))) => (host, Some(port)),
            (None, None) => (text, None),
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("it names no host"));
        }
        // Only an IPv6 address has colons; a zone may follow it: `fe80::1%eth0`.
        let (bare, zone) = host.split_once('%').unwrap_or((host, ""));
        let is_in_zones = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_v6 = bare.parse::<Ipv6Addr>().is_ok() && zone.chars().all(is_in_zones);
        if (text.starts_with('[') || host.contains(['[', ']', ':'])) && !is_v6 {
            return Err(wrong("only an IPv6 address has colons or brackets"));
        }
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return Err(wrong("a port is a number from 1 to 65535")),
        };
        Ok(Self { host: host.to_owned(), port })
    }

    /// The host alone: a name, or an IP address without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The address with the same port at this host.
    pub(crate) fn at(&self, host: &str) -> Self {
        Self { host: host.to_owned(), port: self.port }
    }

    /// The addresses of the same host, one for each port to try.
    pub(crate) fn with_ports(&self) -> impl Iterator<Item = Self> {
        let ports = self.port.map_or(DEFAULT_PORTS.to_vec(), |port| vec![port]);
        ports.into_iter().map(|port| Self { host: self.host.clone(), port: Some(port) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            None => f.write_str(&self.host),
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
        }
    }
}

/// A connection that is being written to.
pub(crate) struct TcpSink {
    stream: OwnDescriptor<TcpStream>,
    given_up: Arc<AtomicBool>,
    packets: PacketWriter,
    pending: Vec<u8>,
    written: u64,
    failed: Option<Error>,
}

impl TcpSink {
    /// Connects within 2 s after the name is resolved, and sends the start of the stream. A blocked
    /// send ends when `given_up` is set.
    pub(crate) fn connect(address: &Address, given_up: Arc<AtomicBool>) -> Result<Self, Error> {
        let stream = connect(address).map_err(|error| {
            Error::from_io(ErrorKind::Destination, "it cannot be connected to", error)
        })?;
        let mut sink = Self {
            stream,
            given_up,
            packets: PacketWriter::new(Transport::Unreal, PROTOCOL),
            pending: start::handshake(Transport::Unreal),
            written: 0,
            failed: None,
        };
        sink.send_pending();
        sink.failed.take().map_or(Ok(sink), Err)
    }

    fn send_pending(&mut self) {
        let mut done = 0;
        while done < self.pending.len() && self.failed.is_none() {
            match self.send_some(done) {
                Ok(0) => self.fail(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    done += count;
                    self.written += count as u64;
                }
                Err(error) if is_temporary(&error) && !self.given_up.load(Ordering::Acquire) => {}
                Err(error) => self.fail(error),
            }
        }
        self.pending.clear();
    }

    fn send_some(&self, from: usize) -> io::Result<usize> {
        os::send_some(self.stream.opened()?, &self.pending[from..], SEND_TIMEOUT)
    }

    fn fail(&mut self, error: io::Error) {
        let what = format!("the connection was lost after {} bytes", self.written);
        self.failed = Some(Error::from_io(ErrorKind::Destination, what, error));
    }

    fn close(&mut self) {
        if let Some(stream) = self.stream.take().get() {
            // NOTE: the child of a fork has the socket open too: closing it here is not enough.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

/// Connects to the first address of the host that answers.
fn connect(address: &Address) -> io::Result<OwnDescriptor<TcpStream>> {
    // PERF: the name is resolved only once, because that can take seconds.
    let all: Vec<_> = (&*address.host, 0).to_socket_addrs()?.collect();
    let ports = address.port.as_slice();
    let ports = if ports.is_empty() { &DEFAULT_PORTS[..] } else { ports };
    let stream = connect_to(&all, ports)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    // If one of these fails, a lost connection is noticed later, or more small packets are sent.
    let _ = os::watch_connection(&stream);
    let _ = stream.set_nodelay(true);
    OwnDescriptor::new(stream)
}

/// Tries each address with the first port, and with the next one if that port refuses.
fn connect_to(all: &[SocketAddr], ports: &[u16]) -> io::Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let mut result = Err(io::Error::other("its name has no address"));
    'addresses: for mut one in all.iter().copied() {
        for port in ports {
            one.set_port(*port);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break 'addresses;
            }
            result = TcpStream::connect_timeout(&one, left);
            match &result {
                Ok(_) => break 'addresses,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
    }
    result.map_err(|error| match ports {
        [_] => error,
        _ => io::Error::new(error.kind(), format!("on ports {ports:?}: {error}")),
    })
}

impl Sink for TcpSink {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.packets.packet(stream, payload, &mut self.pending);
        if self.pending.len() >= SEND_AT {
            self.send_pending();
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.packets.sync(&mut self.pending);
        self.send_pending();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> Result<(), Error> {
        let result = self.sync();
        self.close();
        result
    }

    fn written(&self) -> u64 {
        self.written
    }
}

impl Drop for TcpSink {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_next_port_is_tried_where_any_address_refused() {
        let own = IpAddr::from([127, 77, 1, 1]);
        // While this listens, no other process can take its port at all addresses.
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        let recorder = TcpListener::bind((own, 0)).unwrap();
        let ports = [&elsewhere, &recorder].map(|one| one.local_addr().unwrap().port());
        let refusing = SocketAddr::from((own, 0));
        // Not a host: the system answers at once that it cannot be reached.
        let broadcast = SocketAddr::from(([255; 4], 0));
        for all in [[refusing, broadcast], [broadcast, refusing]] {
            let stream = connect_to(&all, &ports).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), recorder.local_addr().unwrap());
        }
        let error = connect_to(&[broadcast], &ports).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NetworkUnreachable);
    }

    #[test]
    fn addresses_have_a_host_and_perhaps_a_port() {
        for (text, shown) in [
            ("recorder", "recorder"),
            ("recorder.example:1", "recorder.example:1"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1:65535", "127.0.0.1:65535"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[fe80::2]:1981", "[fe80::2]:1981"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            ":1980",
            "a b",
            "a\u{1b}[31m",
            "host:",
            "host:0",
            "host:65536",
            "host:x",
            "[::1",
            "[::1]x",
            "a:b:1980",
            "a[::1]:1980",
            "[a]:1980",
            "fe80::1%a[::1]:1980",
            "a\u{7}:1980",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
