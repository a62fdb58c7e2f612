//! The server: one thread and at most four clients, none of which can delay another for long.
//!
//! ```text
//! accepted ──line──► answered ──line──► ... ──closed, silent for 10 s, no command──► gone
//! ```
//! The deadline of a client counts from its last whole command, so a client cannot extend it by
//! sending single bytes. In each round the server executes one command of each client. After a
//! round with a command or a new client it pauses for [`CYCLE_INTERVAL`], which limits the work
//! that clients can cause.

mod document;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod lines;
mod listener;
mod rules;

pub(crate) use document::{DocumentKind, MakeDocument};
pub(crate) use listener::{ListenAddress, Listener};
pub(crate) use rules::Rules;

use super::command::{Command, too_long};
use crate::error::{self, Error};
use crate::platform::os::{self, Instant, OwnDescriptor};
use crate::trace::sink::tcp::Address;
use crate::trace::write::ReentrancyGuard;
use lines::{Lines, TooLong};
use memledger_format::words::escape;
use std::ffi::c_void;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of connected clients.
const MAX_CLIENTS: usize = 4;
/// The time within which a client must send a whole command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a round with a command or a new client.
const CYCLE_INTERVAL: Duration = Duration::from_millis(10);
/// The interval at which the server checks whether it should end or pause, if nothing wakes it. Nothing does
/// if the program has closed the server's descriptor.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The actions of commands. The server's thread calls them one at a time, with the reentrancy guard
/// set, after it has checked the [`Rules`].
pub(crate) trait Actions: Send {
    /// Returns the state as lines `name value`.
    fn status(&mut self) -> Vec<String>;
    /// Turns channels on or off.
    fn toggle_channels(&mut self, names: &[String], enable: bool) -> Reply;
    /// Sends the trace to `address` as well.
    fn send_to(&mut self, address: &Address) -> Reply;
    /// Writes the trace to `file` as well. The file is new and empty, here and below.
    fn write_to(&mut self, file: File, path: &Path) -> Reply;
    /// Writes track events to `file`, as `config` says.
    fn start_session(&mut self, file: File, path: &Path, config: Option<&str>) -> Reply;
    /// Ends the track events in the file with this name.
    fn stop_session(&mut self, name: &str) -> Reply;
    /// Writes all track events so far to the file with this name.
    fn flush_session(&mut self, name: &str) -> Reply;
    /// Writes the ring of the track events in the file with this name to the file at `path`.
    fn dump_session(&mut self, name: &str, path: &Path) -> Reply;
    /// Ends all destinations but the first file.
    fn stop(&mut self) -> Reply;
    /// Ends all destinations, the first file included.
    fn stop_all(&mut self) -> Reply;
    /// Starts again the destinations that the recording began with and that have ended.
    fn start(&mut self) -> Reply;
    /// What makes a document of this kind: called on another thread, with the guard set.
    fn document(&self, kind: DocumentKind) -> MakeDocument;
    /// Reports the error that ends the server.
    fn problem(&mut self, error: Error);
}

/// Lines `name value`, or the reason for a refusal.
pub(crate) type Reply = Result<Vec<String>, String>;

/// A server that runs until this value is dropped.
pub(crate) struct Server(Arc<Shared>);

/// What a server and its thread share.
struct Shared {
    listener: Listener,
    /// NOTE: the lock is held only while the rules are copied or filled. It is not held during a command,
    /// because the command may wait for a thread that changes the rules.
    rules: Mutex<Rules>,
    wanted: AtomicBool,
    /// Whether the thread is to end without an end of the server.
    paused: AtomicBool,
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes the work of a server from `start` to its new thread, and from a thread that is paused to the next
/// one.
static STARTING: Mutex<Vec<Work>> = Mutex::new(Vec::new());

struct Work {
    shared: Arc<Shared>,
    actions: Box<dyn Actions>,
    clients: Vec<Client>,
    timeout: Duration,
}

impl Server {
    /// Serves on a thread of its own.
    ///
    /// # Errors
    /// `ErrorKind::ThreadNotStarted` if the system refuses a thread.
    pub(crate) fn start(
        listener: Listener,
        rules: Rules,
        actions: Box<dyn Actions>,
    ) -> Result<Self, Error> {
        Self::start_within(COMMAND_TIMEOUT, listener, rules, actions)
    }

    fn start_within(
        timeout: Duration,
        listener: Listener,
        rules: Rules,
        actions: Box<dyn Actions>,
    ) -> Result<Self, Error> {
        let (wanted, paused) = (AtomicBool::new(true), AtomicBool::new(false));
        let shared = Arc::new(Shared { listener, rules: Mutex::new(rules), wanted, paused });
        let server = Self(Arc::clone(&shared));
        starting().push(Work { shared, actions, clients: Vec::new(), timeout });
        spawn().inspect_err(|_| _ = starting().pop())?;
        Ok(server)
    }

    /// Ends the thread; connections stay.
    pub(crate) fn pause(&self) {
        self.0.paused.store(true, Ordering::Release);
    }

    /// Starts the thread again after [`pause`](Self::pause).
    ///
    /// # Errors
    /// `ErrorKind::ThreadNotStarted`
    pub(crate) fn resume(&self) -> Result<(), Error> {
        let is_parked = {
            let starting = starting();
            self.0.paused.store(false, Ordering::Release);
            !starting.is_empty()
        };
        if is_parked { spawn() } else { Ok(()) }
    }

    /// Sets the rules that are not set yet. These apply to all later commands.
    pub(crate) fn allow(&self, rules: Rules) {
        self.0.rules().fill(rules);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.wanted.store(false, Ordering::Release);
        self.0.listener.stop_listening();
    }
}

fn starting() -> MutexGuard<'static, Vec<Work>> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn() -> Result<(), Error> {
    let failed = |source| error::thread_not_started("the control server's thread", source);
    os::spawn(run, 0).map_err(failed)
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger ctl");
    let work = starting().pop();
    if let Some(work) = work {
        work.serve_on();
    }
    std::ptr::null_mut()
}

/// Why a server's thread ends.
enum Served {
    ToEnd,
    Paused,
}

impl Work {
    /// Leaves the work to the next thread.
    fn park(self) {
        let mut starting = starting();
        if self.shared.paused.load(Ordering::Acquire) {
            return starting.push(self);
        }
        drop(starting);
        // The pause was over before this thread had ended.
        self.serve_on();
    }

    /// Serves until the server ends or is paused.
    fn serve_on(mut self) {
        // A bug here must not end the program.
        match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(Served::ToEnd) => {}
            Ok(Served::Paused) => self.park(),
            Err(_) => {
                let what = "the control server panicked and ends";
                self.actions.problem(Error::new(crate::error::ErrorKind::Internal, what));
            }
        }
    }

    fn serve(&mut self) -> Served {
        while self.shared.wanted.load(Ordering::Acquire) {
            if self.shared.paused.load(Ordering::Acquire) {
                return Served::Paused;
            }
            if let Err(error) = self.round()
                && self.shared.wanted.load(Ordering::Acquire)
            {
                self.actions.problem(Error::from_io(
                    crate::error::ErrorKind::ControlEnded,
                    "the control server ends",
                    error,
                ));
                return Served::ToEnd;
            }
        }
        Served::ToEnd
    }

    fn round(&mut self) -> std::io::Result<()> {
        let Some(socket) = self.shared.listener.socket() else {
            return Err(std::io::Error::other("the program has closed its descriptor"));
        };
        self.clients.retain(|client| client.socket.get().is_some());
        let sockets: Vec<_> = self.clients.iter().map(|client| client.socket.number()).collect();
        let now = Instant::now();
        let next = self.clients.iter().map(|c| c.deadline.saturating_duration_since(now)).min();
        let timeout = match self.clients.iter().any(|c| c.lines.has_line()) {
            true => Duration::ZERO,
            false => next.map_or(CHECK_INTERVAL, |t| t.min(CHECK_INTERVAL)),
        };
        let (waiting, ready) = os::readable(socket, &sockets, timeout)?;
        let rules = self.shared.rules().clone();
        let mut busy = waiting;
        for (client, ready) in self.clients.iter_mut().zip(ready) {
            if ready {
                client.receive();
            }
            busy |= client.execute_next(&rules, &mut *self.actions);
            if client.deadline <= Instant::now() && !client.is_over {
                client.refuse(&format!("no command came for {:?}", self.timeout));
            }
        }
        self.clients.retain(|client| !client.is_over);
        if waiting && let Some(stream) = self.shared.listener.accept()? {
            self.admit(stream);
        }
        // The pause limits the work of this thread, however fast clients send or connect.
        if busy {
            os::sleep(CYCLE_INTERVAL);
        }
        Ok(())
    }

    fn admit(&mut self, stream: TcpStream) {
        // NOTE: a client whose descriptor cannot be set is disconnected.
        let Some(mut client) = Client::new(stream, self.timeout) else { return };
        if self.clients.len() < MAX_CLIENTS {
            self.clients.push(client);
        } else {
            client.refuse(&format!("{MAX_CLIENTS} clients are connected, the maximum"));
        }
    }
}

/// A connected client.
struct Client {
    socket: OwnDescriptor<TcpStream>,
    lines: Lines,
    /// Whether the client has closed its sending side.
    has_ended: bool,
    /// Whether the client has sent the token.
    admitted: bool,
    timeout: Duration,
    deadline: Instant,
    is_over: bool,
}

impl Client {
    fn new(socket: TcpStream, timeout: Duration) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        // Without this, an answer takes some milliseconds longer.
        let _ = socket.set_nodelay(true);
        Some(Self {
            socket: OwnDescriptor::new(socket).ok()?,
            lines: Lines::default(),
            has_ended: false,
            admitted: false,
            timeout,
            deadline: Instant::now() + timeout,
            is_over: false,
        })
    }

    /// Receives as many bytes as `lines` has room for.
    fn receive(&mut self) {
        let mut bytes = [0; 4096];
        let room = self.lines.room().min(bytes.len());
        let Some(mut socket) = self.socket.get().filter(|_| room > 0) else { return };
        match socket.read(bytes.get_mut(..room).unwrap_or_default()) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.lines.push(bytes.get(..count).unwrap_or_default()),
            Err(error) => {
                let passing =
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                self.has_ended |= !passing;
            }
        }
    }

    /// Executes the next line of the client; returns whether there was one.
    fn execute_next(&mut self, rules: &Rules, actions: &mut dyn Actions) -> bool {
        let line = match self.lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.is_over |= self.has_ended;
                return false;
            }
            Err(TooLong) => {
                self.refuse(&too_long());
                return false;
            }
        };
        let reply = match Command::parse(&line) {
            // NOTE: the connection ends, because if one line is not a command, the next lines are
            // not meant for this server either.
            Err(reason) => {
                self.refuse(&reason);
                return true;
            }
            Ok(Command::Token(token)) => {
                self.admitted = rules.admits(&token);
                if !self.admitted {
                    self.refuse("the token is wrong");
                    return true;
                }
                Ok(Vec::new())
            }
            Ok(_) if !self.admitted && rules.token.is_some() => {
                self.refuse("the program requires a token first");
                return true;
            }
            Ok(command) => match document_kind(&command) {
                None => execute(&command, rules, actions),
                Some(kind) => match self.send_document(kind, rules, actions) {
                    Ok(()) => return true,
                    Err(reason) => Err(reason),
                },
            },
        };
        // The deadline is counted from here, because the command may have taken a while.
        self.deadline = Instant::now() + self.timeout;
        match reply {
            Ok(lines) => {
                let mut answer = String::new();
                for line in lines {
                    answer += &escape(&line);
                    answer.push('\n');
                }
                self.answer(&(answer + "ok\n"));
            }
            Err(reason) => self.answer(&format!("refused: {}\n", escape(&reason))),
        }
        true
    }

    /// Sends a document on another thread, which then owns the connection.
    fn send_document(
        &mut self,
        kind: DocumentKind,
        rules: &Rules,
        actions: &dyn Actions,
    ) -> Result<(), String> {
        let address = self.socket.get().and_then(|socket| socket.peer_addr().ok());
        rules.document(address.ok_or("the connection has ended")?.ip())?;
        let turn = document::Turn::take()?;
        self.is_over = true;
        document::send(self.socket.take(), kind, actions.document(kind), turn);
        Ok(())
    }

    /// Sends the reason, and marks the connection to be closed.
    fn refuse(&mut self, reason: &str) {
        self.answer(&format!("refused: {}\n", escape(reason)));
        self.is_over = true;
    }

    /// Sends an answer. A client that does not read its answers is disconnected.
    fn answer(&mut self, text: &str) {
        // NOTE: the socket is non-blocking, so this fails if the socket has no room for the whole
        // answer.
        let sent = self.socket.get().is_some_and(|mut to| to.write_all(text.as_bytes()).is_ok());
        self.is_over |= !sent;
    }
}

fn document_kind(command: &Command) -> Option<DocumentKind> {
    match *command {
        Command::Profile => Some(DocumentKind::Profile),
        Command::Figures { stacks } => Some(DocumentKind::Figures { stacks }),
        _ => None,
    }
}

fn execute(command: &Command, rules: &Rules, actions: &mut dyn Actions) -> Reply {
    match command {
        Command::Status => Ok(actions.status()),
        Command::Stop => actions.stop(),
        Command::StopAll => actions.stop_all(),
        Command::Start => actions.start(),
        Command::SetChannels { names, enable } => actions.toggle_channels(names, *enable),
        Command::SendTo(host) => actions.send_to(&rules.destination(host)?),
        Command::WriteTo(name) => {
            with_new_file(rules, name, |file, path| actions.write_to(file, path))
        }
        Command::StartSession { name, config } => with_new_file(rules, name, |file, path| {
            actions.start_session(file, path, config.as_deref())
        }),
        Command::StopSession(name) => actions.stop_session(name),
        Command::FlushSession(name) => actions.flush_session(name),
        Command::DumpSession { name, file } => {
            with_new_file(rules, file, |_, path| actions.dump_session(name, path))
        }
        Command::Profile | Command::Figures { .. } | Command::Token(_) => Ok(Vec::new()),
    }
}

/// Calls `act` with a new file in the program's folder, of which nothing is left if it refuses.
fn with_new_file(rules: &Rules, name: &str, act: impl FnOnce(File, &Path) -> Reply) -> Reply {
    let (file, path) = rules.create(name)?;
    act(file, &path).inspect_err(|_| drop(std::fs::remove_file(&path)))
}

#[cfg(test)]
mod tests;
