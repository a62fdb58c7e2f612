//! A connection to a store, as one asks it.

use super::message::{MAX_RESPONSE, Message};
use super::stream::TraceStream;
use super::{PORT, check_token};
use crate::error::Error;
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, SystemTime};

const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
/// A store that claims to have more traces is not believed.
const MOST: i64 = 1 << 20;
/// How often a list is asked for again when traces come and go meanwhile.
const TRIES: u32 = 3;

/// Time stamps count 100 ns from the year 1 on; this many before 1970.
const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;

/// A connection to a store of traces: `memledger serve`, or Unreal's trace server.
///
/// Each call sends a request and waits for its answer, 10 s at most; [`traces`](Self::traces) and
/// [`sessions`](Self::sessions) send one for each. After an error of the connection every
/// further call fails as well: connect again.
///
/// # Examples
/// ```no_run
/// use memledger::trace::read::{self, Event, Visitor};
/// use memledger::remote::store::Store;
///
/// struct Count(u64);
/// impl Visitor for Count {
///     fn event(&mut self, _: &Event<'_>) {
///         self.0 += 1;
///     }
/// }
///
/// let mut store = Store::connect("127.0.0.1")?;
/// for trace in store.traces()? {
///     // Of a program that still runs, this goes on until it ends.
///     let mut count = Count(0);
///     read::read(store.read(trace.id)?, &mut count)?;
///     println!("{}: {} bytes, {} events", trace.name, trace.size, count.0);
/// }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    stream: TcpStream,
    address: SocketAddr,
    token: Option<String>,
}

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Port on which programs send their traces.
    pub recorder_port: u16,
    /// Port of the store.
    pub store_port: u16,
    /// A number that changes when traces come and go.
    pub change_serial: u32,
    /// The folder with the traces, on the store's machine.
    pub directory: String,
}

/// A trace in a store. Its texts come from the other side: they may hold anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTrace {
    /// Names the trace in requests. Never 0.
    pub id: u32,
    /// The name of its file without the ending.
    pub name: String,
    /// Bytes so far.
    pub size: u64,
    /// When it was last written to.
    pub modified: SystemTime,
    /// Whether its program is still sending.
    pub live: bool,
    /// Why the store ended it before its program did, if it did.
    pub ended: Option<String>,
    /// Whether the program has written the end of its trace; `None` while it sends, and for programs
    /// and stores that do not say. A killed program has not written it.
    pub complete: Option<bool>,
}

/// A program that is sending.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Names the session in requests.
    pub id: u32,
    /// The trace it is sending.
    pub trace_id: u32,
    /// Where it runs. `0.0.0.0` if it sends over IPv6.
    pub address: Ipv4Addr,
    /// Port of its control server there, or `None` if there is none.
    pub control_port: Option<u16>,
}

impl Store {
    /// Connects to a store: `HOST` or `HOST:PORT`, where the port is 1989 if it is not given.
    /// Takes 2 s for each of the host's addresses at most.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if there is no such host, or no store listens there.
    pub fn connect(address: &str) -> Result<Self, Error> {
        let (mut place, mut failure) =
            (address.to_owned(), io::Error::other("the host has no address"));
        for tried in resolve(address)? {
            let connected = TcpStream::connect_timeout(&tried, CONNECT).and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER))?;
                stream.set_write_timeout(Some(ANSWER))?;
                Ok(Self { stream, address: tried, token: None })
            });
            match connected {
                Ok(store) => return Ok(store),
                Err(error) => {
                    failure = error;
                    if tried.to_string() != address {
                        place = format!("{address} ({tried})");
                    }
                }
            }
        }
        let what = format!("cannot reach a store of traces at {place}");
        Err(Error::Unreachable { what, source: failure })
    }

    /// The same connection, which shows this token with each request: a store on another machine
    /// asks for it.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if it cannot be a token.
    pub fn with_token(mut self, token: &str) -> Result<Self, Error> {
        check_token(token)?;
        self.token = Some(token.to_owned());
        Ok(self)
    }

    /// Where the store is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the store says of itself.
    ///
    /// # Errors
    /// As every request: [`Error::NoAnswer`], [`Error::Refused`], or [`Error::InvalidMessage`] for an
    /// answer that makes no sense.
    pub fn status(&mut self) -> Result<Status, Error> {
        let answer = self.ask(&Message::request("v1/status"))?;
        Ok(Status {
            recorder_port: self.number(&answer, "recorder_port")?,
            store_port: match answer.integer("store_port") {
                None => self.address.port(),
                Some(_) => self.number(&answer, "store_port")?,
            },
            change_serial: self.number(&answer, "change_serial")?,
            directory: answer.text("store_dir").unwrap_or_default().to_owned(),
        })
    }

    /// All traces, in the store's order; of `memledger serve` the oldest first. One that comes or
    /// goes meanwhile may be missing.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn traces(&mut self) -> Result<Vec<StoredTrace>, Error> {
        for attempt in 1.. {
            let before = self.status()?.change_serial;
            let answers = self.list("v1/trace/count", "v1/trace/info")?;
            // An index names another trace once one before it is gone.
            if attempt < TRIES && self.status()?.change_serial != before {
                continue;
            }
            let mut known = HashSet::new();
            let mut traces = Vec::new();
            for answer in &answers {
                let trace = self.stored_trace(answer)?;
                if known.insert(trace.id) {
                    traces.push(trace);
                }
            }
            return Ok(traces);
        }
        Ok(Vec::new())
    }

    /// One trace, or `None` if there is none with this id.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn trace(&mut self, id: u32) -> Result<Option<StoredTrace>, Error> {
        let request = Message::request("v1/trace/info").with("id", id);
        match self.ask_for(&request)? {
            Some(answer) => self.stored_trace(&answer).map(Some),
            None => Ok(None),
        }
    }

    /// The programs that are sending now. One that comes or goes meanwhile may be missing.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn sessions(&mut self) -> Result<Vec<Session>, Error> {
        let answers = self.list("v1/session/count", "v1/session/info")?;
        let session = |answer: &Message| {
            Ok(Session {
                id: self.number(answer, "id")?,
                trace_id: self.number(answer, "trace_id")?,
                address: Ipv4Addr::from(self.number::<u32>(answer, "ip_address")?),
                control_port: Some(self.number(answer, "control_port")?)
                    .filter(|port| !matches!(port, 0 | 0xffff)),
            })
        };
        answers.iter().map(session).collect()
    }

    /// Reads a trace from its first byte on. Of one that is live, what comes is followed until its
    /// program has ended.
    ///
    /// # Errors
    /// As [`status`](Self::status), and if there is no such trace.
    pub fn read(&mut self, id: u32) -> Result<TraceStream, Error> {
        let answer = self.ask(&Message::request("v1/trace/read").with("id", id))?;
        let port = self.number(&answer, "port")?;
        let address = SocketAddr::new(self.address.ip(), port);
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => Ok(TraceStream::new(stream)),
            Err(source) => {
                let what = self.sentence(&format!("does not send trace {id} on {port}"));
                Err(Error::Unreachable { what, source })
            }
        }
    }

    /// The answers to a request for each index. Where there is nothing (any more) the list ends.
    fn list(&mut self, count: &str, info: &str) -> Result<Vec<Message>, Error> {
        let answer = self.ask(&Message::request(count))?;
        let count = answer.integer("count").filter(|count| (0..=MOST).contains(count));
        let count = count.ok_or_else(|| {
            Error::InvalidMessage(self.sentence("does not say how many there are"))
        })?;
        let mut answers = Vec::new();
        for index in 0..count {
            match self.ask_for(&Message::request(info).with("index", index))? {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        Ok(answers)
    }

    fn stored_trace(&mut self, answer: &Message) -> Result<StoredTrace, Error> {
        let id: u32 = self.number(answer, "id")?;
        let live = match answer.integer("live") {
            Some(live) => live != 0,
            // Unreal's store tells only so.
            None => self
                .ask_for(&Message::request("v1/session/info").with("trace_id", id))?
                .is_some_and(|session| session.integer("trace_id") == Some(id.into())),
        };
        Ok(StoredTrace {
            id,
            name: answer.text("name").unwrap_or_default().to_owned(),
            size: self.number(answer, "size")?,
            modified: time(answer.integer("timestamp").unwrap_or_default()),
            live,
            ended: answer.text("ended").map(str::to_owned),
            complete: answer.integer("complete").map(|complete| complete != 0),
        })
    }

    /// The answer to a request that must succeed.
    fn ask(&mut self, request: &Message) -> Result<Message, Error> {
        let answer = self.exchange(request)?;
        match answer.integer("$status") {
            Some(200) => Ok(answer),
            _ => Err(self.refusal(request, &answer)),
        }
    }

    /// The same, or `None` for what is not there. Unreal's store says 400 to that.
    fn ask_for(&mut self, request: &Message) -> Result<Option<Message>, Error> {
        let answer = self.exchange(request)?;
        match answer.integer("$status") {
            Some(200) => Ok(Some(answer)),
            Some(400 | 404) => Ok(None),
            _ => Err(self.refusal(request, &answer)),
        }
    }

    fn exchange(&mut self, request: &Message) -> Result<Message, Error> {
        let request = match &self.token {
            None => request.encode(),
            Some(token) => request.clone().with("$token", token.as_str()).encode(),
        };
        let answer = self.transfer(&request).and_then(|body| Message::decode(&body));
        answer.map_err(|error| {
            // What comes next would be taken for the answer to another request.
            let _ = self.stream.shutdown(Shutdown::Both);
            let sentence = self.sentence(&format!("does not answer as a store does: {error}"));
            match error {
                Error::NoAnswer(_) => Error::NoAnswer(sentence),
                _ => Error::InvalidMessage(sentence),
            }
        })
    }

    fn transfer(&mut self, request: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |error: io::Error| {
            Error::NoAnswer(match error.kind() {
                io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("nothing came within {} s", ANSWER.as_secs())
                }
                _ => error.to_string(),
            })
        };
        self.stream.write_all(request).map_err(failed)?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).map_err(failed)?;
        let size = u32::from_le_bytes(size) as usize;
        if size == 0 || size > MAX_RESPONSE {
            let most = MAX_RESPONSE;
            return Err(Error::InvalidMessage(format!(
                "{size} bytes are announced, and 1 to {most} can be"
            )));
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).map_err(failed)?;
        Ok(body)
    }

    /// A number that fits.
    fn number<T: TryFrom<i64>>(&self, answer: &Message, key: &str) -> Result<T, Error> {
        let number = answer.integer(key).and_then(|number| T::try_from(number).ok());
        let what = || self.sentence(&format!("answers without a sensible '{key}'"));
        number.ok_or_else(|| Error::InvalidMessage(what()))
    }

    fn refusal(&self, request: &Message, answer: &Message) -> Error {
        let path = request.text("$path").unwrap_or_default();
        let status = answer.integer("$status").unwrap_or_default();
        let reason = answer.text("reason").map(|reason| format!(": {reason}"));
        let reason = reason.unwrap_or_default();
        Error::Refused(self.sentence(&format!("refuses {path} with status {status}{reason}")))
    }

    fn sentence(&self, what: &str) -> String {
        format!("the store at {} {what}", self.address)
    }
}

/// All addresses of `HOST` or `HOST:PORT`.
fn resolve(address: &str) -> Result<Vec<SocketAddr>, Error> {
    let ip = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match ip {
        Ok(ip) => return Ok(vec![SocketAddr::new(ip, PORT)]),
        Err(_) if address.contains(':') => address.to_socket_addrs(),
        Err(_) => (address, PORT).to_socket_addrs(),
    };
    found.map(Iterator::collect).map_err(|source| {
        let what = format!("'{address}' is no address of a store, HOST or HOST:PORT");
        Error::Unreachable { what, source }
    })
}

/// A time stamp as Unreal counts; what lies before 1970 is 1970.
fn time(ticks: i64) -> SystemTime {
    let since = ticks.saturating_sub(UNIX_EPOCH_TICKS).max(0).unsigned_abs();
    let since = Duration::new(since / 10_000_000, (since % 10_000_000) as u32 * 100);
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
