//! `memledger run --top`: the screen of `memledger top` while the program runs.
//!
//! The program listens, and its trace says at which port. Where it does not, the screen has the figures of
//! its trace when it has ended. The screen has a thread of its own, because this thread waits for the
//! program. What the program writes to the terminal would tear the screen: it goes to a file, and to the
//! terminal when the screen is closed. The program has no input from the terminal, whose keys are the
//! screen's.

use super::child::interrupt;
use super::traces::Traces;
use super::variable;
use crate::commands::control::control_token;
use crate::commands::top::screen::{Closed, ending_signals, show};
use crate::commands::top::source::Wishes;
use crate::commands::top::source::control::{Program, State};
use crate::commands::top::{OfProgram, screen};
use crate::error::CliError;
use crate::terminal::note;
use memledger_format::handshake::Handshake;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::NamedTempFile;

/// The time after which output of the program is looked for again.
const POLL: Duration = Duration::from_millis(50);

/// The variables that say where the program listens, and who may ask it.
pub(super) const CONTROL: &str = "MEMLEDGER_CONTROL";
pub(super) const TOKEN_FILE: &str = "MEMLEDGER_CONTROL_TOKEN_FILE";

/// How the program can be asked: as the user's variables say, else at any port of this machine, with a token.
pub struct Control {
    host: String,
    token: Option<String>,
    made: Option<NamedTempFile>,
}

impl Control {
    pub fn new() -> Result<Self, CliError> {
        let (control, file) = (variable(CONTROL), variable(TOKEN_FILE));
        let host = control.as_ref().and_then(|value| value.to_str()?.rsplit_once(':'));
        let host = host.map_or("127.0.0.1", |(host, _)| host).to_owned();
        if control.is_some() || file.is_some() {
            let token = file.map(|file| control_token(Path::new(&file))).transpose()?;
            return Ok(Self { host, token, made: None });
        }
        let failed = |error| CliError::Failed(format!("no token can be written: {error}"));
        // NOTE: only this user can read the file.
        let mut file =
            tempfile::Builder::new().prefix("memledger-run-").tempfile().map_err(failed)?;
        let token = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        file.write_all(token.as_bytes()).map_err(failed)?;
        Ok(Self { host, token: Some(token), made: Some(file) })
    }

    /// The variables that the program gets.
    pub fn environment(&self) -> Vec<(&'static str, Option<OsString>)> {
        let mut environment = Vec::new();
        if variable(CONTROL).is_none() {
            environment.push((CONTROL, Some("0".into())));
        }
        if let Some(file) = &self.made {
            environment.push((TOKEN_FILE, Some(file.path().into())));
        }
        environment
    }

    /// What the program does that writes this trace.
    fn state(&self, trace: Option<PathBuf>) -> State {
        let file = trace.and_then(|path| File::open(path).ok());
        let start = file.and_then(|mut file| Handshake::decode(&mut file).ok());
        let Some((handshake, _)) = start else { return State::Silent(None) };
        let Some(port) = handshake.control_port else {
            let sentence = "the program does not listen; its figures appear after it ends";
            return State::Silent(Some(sentence.to_owned()));
        };
        let address = format!("{}:{port}", self.host);
        State::Listening(Program { address, token: self.token.clone() })
    }
}

/// What the program has in the place of the terminal.
pub struct TerminalStandIn {
    output: NamedTempFile,
    input: File,
}

impl TerminalStandIn {
    pub fn new() -> Result<Self, CliError> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Err(CliError::Usage(
                "--top needs a terminal for its screen and its keys".to_owned(),
            ));
        }
        let failed =
            |error| CliError::Failed(format!("the program's output cannot be kept: {error}"));
        let output =
            tempfile::Builder::new().prefix("memledger-run-").tempfile().map_err(failed)?;
        let nothing = if cfg!(windows) { "NUL" } else { "/dev/null" };
        Ok(Self { output, input: File::open(nothing).map_err(failed)? })
    }

    /// The files in the place of streams that are the terminal. What is redirected stays so.
    pub fn streams(&self) -> Vec<(i32, &File)> {
        let output = self.output.as_file();
        let mut streams = vec![(0, &self.input), (1, output)];
        streams.extend(io::stderr().is_terminal().then_some((2, output)));
        streams
    }
}

/// The program that the screen is of.
pub struct WatchedProgram {
    pub pid: u32,
    pub name: String,
    pub traces: Arc<Traces>,
    pub symbols: Vec<PathBuf>,
}

/// The screen of a program that runs.
pub struct LiveScreen {
    thread: JoinHandle<Result<(), CliError>>,
    wishes: Arc<Wishes>,
    ends: Arc<AtomicBool>,
    /// How the program has ended, once it has.
    ended: Arc<OnceLock<String>>,
}

impl LiveScreen {
    /// Opens the screen. Signals are blocked, and stay so on its thread.
    pub fn open(
        shown: WatchedProgram,
        control: Control,
        aside: &TerminalStandIn,
    ) -> Result<Self, CliError> {
        let failed =
            |error: io::Error| CliError::Failed(format!("the screen cannot be opened: {error}"));
        let mut output = aside.output.reopen().map_err(failed)?;
        let ended = Arc::new(OnceLock::new());
        let (its_ended, WatchedProgram { pid, name, traces, symbols }) =
            (Arc::clone(&ended), shown);
        let find = move || {
            let ended: Option<&String> = its_ended.get();
            match ended {
                None => control.state(traces.running(pid)),
                Some(how) => {
                    traces.wait_for_watchers(pid);
                    State::Ended(how.clone(), traces.running(pid))
                }
            }
        };
        let of = OfProgram { program: name, find: Box::new(find), symbols };
        let (mut model, source) = of.start().map_err(failed)?;
        let wishes = Arc::clone(&source.wishes);
        let ends = ending_signals().map_err(failed)?;
        let (its_ends, its_ended) = (Arc::clone(&ends), Arc::clone(&ended));
        let body = move || {
            let closed = show(&mut model, &source, &its_ends);
            source.join();
            if matches!(closed, Ok(Closed::ByInterrupt)) && its_ended.get().is_none() {
                interrupt(pid);
            }
            pass_on(&mut output, &its_ended);
            closed.map(drop)
        };
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(body);
        Ok(Self { thread: thread.map_err(failed)?, wishes, ends, ended })
    }

    /// The program has ended with this status: waits until the user has closed the screen.
    pub fn close(self, status: i32) {
        let how = match status {
            129.. if cfg!(unix) => format!("signal {} has ended the program", status - 128),
            // Such as an exception on Windows.
            ..0 => format!("the program has ended with status {status:#x}"),
            _ => format!("the program has ended with status {status}"),
        };
        let _ = self.ended.set(how);
        // What has asked this command to end has reached the program.
        let was_asked = [Some(1), Some(15)].contains(&status.checked_sub(128));
        self.ends.fetch_or(was_asked, Ordering::Relaxed);
        self.wishes.wake();
        match self.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => note(&error.to_string()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Writes what the program has written, and what it still writes, to the terminal, until it has ended.
fn pass_on(output: &mut File, ended: &OnceLock<String>) {
    let Ok(mut terminal) = screen::duplicate_stdout() else { return };
    let mut bytes = vec![0; 64 << 10];
    loop {
        // NOTE: first, so that what was written before the end is seen.
        let is_over = ended.get().is_some();
        match output.read(&mut bytes) {
            Ok(0) if is_over => return,
            Ok(0) => std::thread::sleep(POLL),
            Ok(count) => {
                if terminal.write_all(&bytes[..count]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
