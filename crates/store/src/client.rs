//! The client of a store.

use super::answers::{Session, Status, StoredTrace};
use super::connection::Connection;
use super::message::Message;
use super::stream::TraceStream;
use crate::{Error, ErrorKind};
use memledger_format::timed_stream::CONNECT_TIMEOUT;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

/// The maximum number of traces or sessions of a store. A larger count in an answer is an error.
const MAX_TRACES: i64 = 1 << 20;
/// The number of attempts to read a list that changes while it is read.
const MAX_TRIES: u32 = 3;

/// The beginning of 1970, in units of 100 ns since the beginning of the year 1: the unit of times in a
/// store's messages.
pub const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;

/// A connection to a store of traces: `memledger serve`, or Unreal's trace server.
///
/// Each call sends a request and waits for its answer, at most 10 s; [`traces`](Self::traces) and
/// [`sessions`](Self::sessions) send a request for each trace or session. After an error of the
/// connection, all further calls fail as well; connect again.
///
/// # Examples
/// ```no_run
/// use memledger_analysis::read::{self, Event, Visitor};
/// use memledger_store::Store;
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
///     // If the program still runs, this reads until it ends.
///     let mut count = Count(0);
///     read::read(store.read(trace.id)?, &mut count)?;
///     println!("{}: {} bytes, {} events", trace.name, trace.size, count.0);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// Connects to a store at `HOST` or `HOST:PORT`. The default port is 1989. Waits at most 2 s
    /// for each address of the host.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if there is no such host, or no store listens there.
    pub fn connect(address: &str) -> Result<Self, Error> {
        Ok(Self { connection: Connection::open(address)? })
    }

    /// The same connection, which sends this token with each request. A store on another machine
    /// requires it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidToken`] if it cannot be a token.
    pub fn with_token(mut self, token: &str) -> Result<Self, Error> {
        self.connection.set_token(token)?;
        Ok(self)
    }

    /// The address of the store.
    pub fn address(&self) -> SocketAddr {
        self.connection.address()
    }

    /// The state of the store.
    ///
    /// # Errors
    /// The errors of every request: [`ErrorKind::NoAnswer`], [`ErrorKind::Refused`], or
    /// [`ErrorKind::InvalidMessage`] for an answer that makes no sense.
    pub fn status(&mut self) -> Result<Status, Error> {
        let answer = self.connection.request(&Message::request("v1/status"))?;
        Ok(Status {
            recorder_port: self.connection.number(&answer, "recorder_port")?,
            store_port: match answer.integer("store_port") {
                None => self.connection.address().port(),
                Some(_) => self.connection.number(&answer, "store_port")?,
            },
            change_serial: self.connection.number(&answer, "change_serial")?,
            directory: answer.text("store_dir").unwrap_or_default().to_owned(),
        })
    }

    /// All traces, in the store's order; `memledger serve` lists the oldest first. A trace that is
    /// added or removed during the call may be missing.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn traces(&mut self) -> Result<Vec<StoredTrace>, Error> {
        for attempt in 1.. {
            let before = self.status()?.change_serial;
            let answers = self.list("v1/trace/count", "v1/trace/info")?;
            // If the list has changed, it is read again: when a trace is removed, the indexes after
            // it refer to other traces.
            if attempt < MAX_TRIES && self.status()?.change_serial != before {
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
        match self.connection.request_optional(&request)? {
            Some(answer) => self.stored_trace(&answer).map(Some),
            None => Ok(None),
        }
    }

    /// The programs that are sending now. A program that starts or ends during the call may be
    /// missing.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn sessions(&mut self) -> Result<Vec<Session>, Error> {
        let answers = self.list("v1/session/count", "v1/session/info")?;
        let session = |answer: &Message| {
            Ok(Session {
                id: self.connection.number(answer, "id")?,
                trace_id: self.connection.number(answer, "trace_id")?,
                address: Ipv4Addr::from(self.connection.number::<u32>(answer, "ip_address")?),
                control_port: Some(self.connection.number(answer, "control_port")?)
                    .filter(|port| !matches!(port, 0 | 0xffff)),
            })
        };
        answers.iter().map(session).collect()
    }

    /// Streams a trace from its first byte. A live trace is followed until its program has ended.
    ///
    /// # Errors
    /// As [`status`](Self::status), and if there is no such trace.
    pub fn read(&mut self, id: u32) -> Result<TraceStream, Error> {
        let answer = self.connection.request(&Message::request("v1/trace/read").with("id", id))?;
        let port = self.connection.number(&answer, "port")?;
        let address = SocketAddr::new(self.connection.address().ip(), port);
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => Ok(TraceStream::new(stream)),
            Err(source) => {
                let what = self.connection.sentence(&format!("does not send trace {id} on {port}"));
                Err(Error::from_io(ErrorKind::Unreachable, what, source))
            }
        }
    }

    /// Sends a request for each index; returns the answers. The list ends at the first index
    /// without an object.
    fn list(&mut self, count: &str, info: &str) -> Result<Vec<Message>, Error> {
        let answer = self.connection.request(&Message::request(count))?;
        let count = answer.integer("count").filter(|count| (0..=MAX_TRACES).contains(count));
        let count = count.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidMessage,
                self.connection.sentence("does not say how many there are"),
            )
        })?;
        let mut answers = Vec::new();
        for index in 0..count {
            match self.connection.request_optional(&Message::request(info).with("index", index))? {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        Ok(answers)
    }

    fn stored_trace(&mut self, answer: &Message) -> Result<StoredTrace, Error> {
        let id: u32 = self.connection.number(answer, "id")?;
        let live = match answer.integer("live") {
            Some(live) => live != 0,
            // Unreal's store does not send 'live', but a live trace has a session.
            None => self
                .connection
                .request_optional(&Message::request("v1/session/info").with("trace_id", id))?
                .is_some_and(|session| session.integer("trace_id") == Some(id.into())),
        };
        Ok(StoredTrace {
            id,
            name: answer.text("name").unwrap_or_default().to_owned(),
            size: self.connection.number(answer, "size")?,
            modified: time(answer.integer("timestamp").unwrap_or_default()),
            live,
            ended: answer.text("ended").map(str::to_owned),
            complete: answer.integer("complete").map(|complete| complete != 0),
        })
    }
}

/// The time that is `ticks` units of 100 ns after the beginning of the year 1. A time before 1970
/// becomes 1970.
fn time(ticks: i64) -> SystemTime {
    let since = ticks.saturating_sub(UNIX_EPOCH_TICKS).max(0).unsigned_abs();
    let since = Duration::new(since / 10_000_000, (since % 10_000_000) as u32 * 100);
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
