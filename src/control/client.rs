//! The client of a control server.

use super::command::{Command, DEFAULT_PORT};
use crate::error::Error;
use memledger_format::timed_stream::TimedStream;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The maximum time for an answer. It is long, because a command that ends a destination waits
/// until the destination has received everything.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time for a profile to be made. The first one reads the program's debug information.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum number of bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// A connection to a program that can be controlled.
///
/// ```no_run
/// use memledger::control::{Client, Command};
///
/// let mut program = Client::connect("127.0.0.1:1985")?;
/// for line in program.send(&Command::Status)? {
///     println!("{line}");
/// }
/// program.send(&Command::send_to("127.0.0.1:1980"))?;
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TimedStream>,
    address: String,
}

impl Client {
    /// Connects to `HOST:PORT`, `[IPv6]:PORT`, a host, or a port of this machine. The default port
    /// is 1985. Waits at most 2 s for each address of the host.
    ///
    /// ```no_run
    /// use memledger::control::{Client, Command};
    ///
    /// let mut program = Client::connect("build-server:1985")?;
    /// program.send(&Command::Token("kX3fQ9-Wd8".into()))?; // the first, if the program has set one
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Unreachable` if `address` is not an address, or no control server listens there.
    pub fn connect(address: &str) -> Result<Self, Error> {
        let addresses = resolve(address)
            .map_err(|error| unreachable(format!("{address} is not an address"), error))?;
        match TimedStream::connect(&addresses, ANSWER_TIMEOUT) {
            Ok((stream, _)) => Ok(Self { stream: BufReader::new(stream), address: address.into() }),
            Err((_, error)) => Err(unreachable(format!("{address} cannot be reached"), error)),
        }
    }

    /// Gets a heap profile of the program: `profile.proto` in gzip. Waits at most 2 min for the program
    /// to make it, and 30 s to receive it. The program then ends the connection.
    ///
    /// ```no_run
    /// use memledger::control::Client;
    ///
    /// let profile = Client::connect("1985")?.profile()?;
    /// std::fs::write("heap.pb.gz", profile).expect("a file for `go tool pprof`");
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send); `ErrorKind::NoAnswer` also if the profile is not whole.
    pub fn profile(&mut self) -> Result<Vec<u8>, Error> {
        self.document(PROFILE_TIMEOUT, &Command::Profile, "profile_bytes ", "profile")
    }

    /// Gets the rows of a report of the program as of now, without single blocks: JSON of the schema
    /// `memledger.report/1`. Waits at most 30 s for the program to make it, and as long to receive
    /// it. The program then ends the connection.
    ///
    /// ```no_run
    /// use memledger::control::Client;
    ///
    /// let figures = Client::connect("1985")?.figures()?;
    /// println!("{}", String::from_utf8_lossy(&figures));
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send); `ErrorKind::NoAnswer` also if the document is not whole.
    pub fn figures(&mut self) -> Result<Vec<u8>, Error> {
        self.figures_of(&Command::Figures { stacks: false })
    }

    /// As [`figures`](Self::figures), with those of call stacks. It is called in the same way.
    ///
    /// # Errors
    /// As [`figures`](Self::figures).
    pub fn figures_with_stacks(&mut self) -> Result<Vec<u8>, Error> {
        self.figures_of(&Command::Figures { stacks: true })
    }

    fn figures_of(&mut self, command: &Command) -> Result<Vec<u8>, Error> {
        self.document(ANSWER_TIMEOUT, command, "figures_bytes ", "figures")
    }

    fn document(
        &mut self,
        timeout: Duration,
        command: &Command,
        key: &str,
        what: &str,
    ) -> Result<Vec<u8>, Error> {
        let lines = self.send_within(timeout, command)?;
        let bytes = lines.iter().find_map(|line| line.strip_prefix(key)?.parse().ok());
        let no_answer = |why: String| {
            Error::new(
                crate::error::ErrorKind::NoAnswer,
                format!("{} does not answer: {why}", self.address),
            )
        };
        let bytes: u64 = bytes.ok_or_else(|| no_answer(format!("it sends no {what}")))?;
        self.stream.get_mut().restart(ANSWER_TIMEOUT);
        let mut document = Vec::new();
        let read = (&mut self.stream).take(bytes).read_to_end(&mut document);
        match read {
            Ok(_) if document.len() as u64 == bytes => Ok(document),
            _ => Err(no_answer(format!(
                "only {} of the {bytes} bytes of its {what} arrived within {} s",
                document.len(),
                ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Sends a command and waits for its answer, at most 30 s. Returns the lines `name value` of
    /// the answer.
    ///
    /// ```no_run
    /// use memledger::ErrorKind;
    /// use memledger::control::{Client, Command};
    ///
    /// let mut program = Client::connect("1985")?;
    /// match program.send(&Command::write_to("run.utrace")) {
    ///     Err(error) if error.kind() == ErrorKind::Refused => eprintln!("{error}"), // with its reason
    ///     answer => println!("{:?}", answer?),
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Refused` with the program's reason; `ErrorKind::NoAnswer` if there is no valid
    /// answer in time. After an invalid answer, or after a line that is not a command, the
    /// connection can no longer be used.
    pub fn send(&mut self, command: &Command) -> Result<Vec<String>, Error> {
        self.send_within(ANSWER_TIMEOUT, command)
    }

    fn send_within(&mut self, timeout: Duration, command: &Command) -> Result<Vec<String>, Error> {
        let failed = |address: &str, error: io::Error| {
            let what = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("no complete answer arrived within {} s", timeout.as_secs())
                }
                _ => error.to_string(),
            };
            Error::new(
                crate::error::ErrorKind::NoAnswer,
                format!("{address} does not answer: {what}"),
            )
        };
        // NOTE: sending fails if the program has refused the client and closed the connection. The
        // program's reason may still be readable, so the answer is read before the failure of
        // sending is reported.
        self.stream.get_mut().restart(timeout);
        let sent = self.stream.get_mut().write_all(format!("{command}\n").as_bytes());
        let mut lines = Vec::new();
        let mut left = MAX_ANSWER_BYTES;
        loop {
            let mut line = Vec::new();
            let read = (&mut self.stream).take(left).read_until(b'\n', &mut line);
            let count = match (read, &sent) {
                (Ok(count), _) => count,
                (Err(_), Err(error)) => return Err(failed(&self.address, error.kind().into())),
                (Err(error), _) => return Err(failed(&self.address, error)),
            };
            left -= count as u64;
            let text = String::from_utf8_lossy(&line);
            let Some(text) = text.strip_suffix('\n') else {
                let what =
                    if left == 0 { "its answer has no end" } else { "it closed the connection" };
                return Err(Error::new(
                    crate::error::ErrorKind::NoAnswer,
                    format!("{} does not answer: {what}", self.address),
                ));
            };
            if text == "ok" {
                return Ok(lines);
            }
            if let Some(reason) = text.strip_prefix("refused: ") {
                return Err(Error::new(
                    crate::error::ErrorKind::Refused,
                    format!("{} refuses: {reason}", self.address),
                ));
            }
            lines.push(text.to_owned());
        }
    }
}

fn unreachable(what: String, source: io::Error) -> Error {
    Error::from_io(crate::error::ErrorKind::Unreachable, what, source)
}

fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(port) = address.parse::<u16>() {
        return Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]);
    }
    if let Ok(ip) = address.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::from((ip, DEFAULT_PORT))]);
    }
    let found = if address.contains(':') {
        address.to_socket_addrs()?
    } else {
        (address, DEFAULT_PORT).to_socket_addrs()?
    };
    Ok(found.collect())
}
