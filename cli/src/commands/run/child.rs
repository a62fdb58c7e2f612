//! Runs a program in the place of this process: signals are passed on to it, and its end is this
//! command's end.
//!
//! The program stays in the process group of this command, as with `time`, `nice` and `strace`, so that
//! job control and pipes into a pager work as without it. The terminal sends Ctrl-C, Ctrl-\ and Ctrl-Z
//! to the whole group, the program included: these are not passed on, or the program would get them
//! twice. Ctrl-Z stops both, and `fg` continues both. What a process sends to this command alone, as
//! `kill PID` does, is passed on. So is the SIGHUP of a terminal that goes away, if this command leads its
//! session: only the leader gets it.
//!
//! The program starts with the descriptors and the ignored signals that this process got (`inherited.rs`).
//!
//! Windows has no signals. Its consoles send Ctrl-C to all their programs, too.
#![cfg_attr(
    not(any(target_os = "linux", target_os = "macos", windows)),
    expect(dead_code, reason = "programs are tracked on Linux, macOS and Windows only")
)]

#[cfg(any(target_os = "linux", target_os = "macos"))]
use super::preload;
#[cfg(target_os = "linux")]
use super::problems::Problems;
use crate::error::{CliError, Outcome};
use crate::terminal::note;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

/// A program, its arguments, and how its environment differs from that of this command: values, and
/// `None` for what is not set.
pub struct Program<'a> {
    pub command: &'a [OsString],
    pub environment: Vec<(&'static str, Option<OsString>)>,
    /// Files in the place of this command's standard input, output and errors, by their numbers.
    pub streams: Vec<(i32, &'a File)>,
}

/// How the program ended.
pub struct ProgramEnd {
    pub pid: u32,
    /// Its exit status, or 128 + N if signal N ended it.
    pub status: i32,
    /// The name of the signal that ended it.
    pub signal: Option<String>,
    /// What the tracker has reported.
    #[cfg(target_os = "linux")]
    problems: Option<Problems>,
}

/// Why the program did not run.
pub enum NotRun {
    /// The system refused to start it.
    Refused(io::Error),
    /// The command could not do its part.
    Failed(CliError),
}

impl NotRun {
    /// The outcome: the statuses that shells use.
    pub fn outcome(self, program: &OsStr) -> Result<Outcome, CliError> {
        let error = match self {
            Self::Failed(error) => return Err(error),
            Self::Refused(error) => error,
        };
        let interpreter = interpreter_of(Path::new(program));
        let program = program.to_string_lossy();
        let (status, mut why) = match error.kind() {
            io::ErrorKind::NotFound => (127, "there is no such program".to_owned()),
            io::ErrorKind::PermissionDenied => (126, "it is not executable".to_owned()),
            _ => (126, error.to_string()),
        };
        if let Some(interpreter) = interpreter {
            why = format!("{why}; memledger run -- {interpreter} {program} runs the script");
        }
        note(&format!("cannot run {program}: {why}"));
        Ok(Outcome::Status(status))
    }
}

/// What runs a script of this name, if it is there.
fn interpreter_of(script: &Path) -> Option<&'static str> {
    let interpreters = [
        ("py", "python3"),
        ("js", "node"),
        ("rb", "ruby"),
        ("pl", "perl"),
        ("php", "php"),
        ("sh", "sh"),
    ];
    let ending = script.extension().filter(|_| script.is_file())?;
    interpreters.into_iter().find(|(of, _)| ending == *of).map(|(_, interpreter)| interpreter)
}

impl From<CliError> for NotRun {
    fn from(error: CliError) -> Self {
        Self::Failed(error)
    }
}

#[cfg(target_os = "linux")]
pub use linux::run;
#[cfg(target_os = "macos")]
pub use macos::run;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use posix::interrupt;
#[cfg(windows)]
pub use windows::{interrupt, run};

/// What the console sends, such as Ctrl-C, reaches the program and this command, which waits for the end of
/// the program nevertheless.
#[cfg(windows)]
mod windows {
    use super::*;
    use crate::stop_signal::stop_signal;
    use std::process::Command;

    /// Runs the program to its end. `started` is called with its process id.
    pub fn run(program: &Program<'_>, started: impl FnOnce(u32)) -> Result<ProgramEnd, NotRun> {
        let failed =
            |error: io::Error| CliError::Failed(format!("cannot wait for the program: {error}"));
        // NOTE: nothing waits for it. As long as it is there, Ctrl-C does not end this process.
        let _stop = stop_signal()?;
        let mut child = command(program).and_then(|mut it| it.spawn()).map_err(NotRun::Refused)?;
        started(child.id());
        let status = child.wait().map_err(failed)?;
        Ok(ProgramEnd { pid: child.id(), status: status.code().unwrap_or(-1), signal: None })
    }

    fn command(program: &Program<'_>) -> io::Result<Command> {
        let Some((name, arguments)) = program.command.split_first() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut command = Command::new(name);
        command.args(arguments);
        for (name, value) in &program.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        for (number, file) in &program.streams {
            let file = file.try_clone()?;
            match number {
                0 => command.stdin(file),
                1 => command.stdout(file),
                _ => command.stderr(file),
            };
        }
        Ok(command)
    }

    /// Says how to send Ctrl-C to the program: the console does, once the screen has given back its keys.
    pub fn interrupt(_: u32) {
        note("the program still runs; Ctrl-C ends it");
    }
}

/// As on Linux, but for this. Another thread takes the signals, since `sigwait` never returns a SIGCHLD that
/// nothing handles. The system does not say who has sent a signal: SIGINT and SIGQUIT count as sent by the
/// terminal, to the program, too, and all others as sent to this command alone. The program starts with
/// SIGPIPE at its default, and with none of the first three descriptors closed.
#[cfg(target_os = "macos")]
mod macos {
    use super::posix::{spawn, told};
    use super::*;
    use nix::errno::Errno;
    use nix::sys::signal::{SigSet, Signal, kill, raise};
    use nix::unistd::Pid;
    use rustix::process::{WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::thread;

    /// The signals that are passed on.
    const PASSED_ON: [Signal; 4] =
        [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM];
    /// Those that the terminal sends to the program, too.
    const OF_TERMINAL: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

    /// Runs the program to its end. Afterwards signals end this command again. `started` is called with its
    /// process id.
    pub fn run(program: &Program<'_>, started: impl FnOnce(u32)) -> Result<ProgramEnd, NotRun> {
        let failed = |error: Errno| CliError::Failed(format!("cannot wait for signals: {error}"));
        let signals: SigSet = PASSED_ON.into_iter().chain(OF_TERMINAL).collect();
        let before = SigSet::thread_get_mask().map_err(failed)?;
        signals.thread_block().map_err(failed)?;
        let pid = spawn(program, None, &before);
        let ended = pid.map_err(|error| NotRun::Refused(error.into())).and_then(|pid| {
            started(pid.as_raw().cast_unsigned());
            wait(pid, signals)
        });
        before.thread_set_mask().map_err(failed)?;
        ended
    }

    /// Passes signals on until the program has ended.
    fn wait(pid: Pid, signals: SigSet) -> Result<ProgramEnd, NotRun> {
        let failed = |error: rustix::io::Errno| {
            CliError::Failed(format!("cannot wait for the program: {error}"))
        };
        let running = Arc::new(Mutex::new(Some(pid)));
        let known = Arc::clone(&running);
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                match *known.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(_) if OF_TERMINAL.contains(&signal) => {}
                    Some(pid) => drop(kill(pid, signal)),
                    None => {
                        let _ = SigSet::from(signal).thread_unblock();
                        let _ = raise(signal);
                    }
                }
            }
        });
        let child = rustix::process::Pid::from_raw(pid.as_raw());
        let child = child.ok_or(rustix::io::Errno::SRCH).map_err(failed)?;
        // NOTE: the number is the program's until its status is taken, in the next call.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), options)).map_err(failed)?;
        *running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let taken = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
        let (_, status) = taken.map_err(failed)?.ok_or(rustix::io::Errno::CHILD).map_err(failed)?;
        let (status, signal) = told(status);
        Ok(ProgramEnd { pid: pid.as_raw().cast_unsigned(), status, signal })
    }
}

/// What both systems have in common.
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod posix {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::inherited::{closed, to_default};
    use nix::errno::Errno;
    use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
    use nix::sys::signal::{SigSet, Signal, kill, raise};
    use nix::unistd::Pid;
    use rustix::process::WaitStatus;
    use std::ffi::CString;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStringExt;

    /// What Rust's runtime ignores.
    #[cfg(target_os = "macos")]
    fn to_default() -> SigSet {
        SigSet::from(Signal::SIGPIPE)
    }

    #[cfg(target_os = "macos")]
    fn closed() -> [i32; 0] {
        []
    }

    /// Starts the program with one more variable, and with this mask of signals. A `Command` of the standard
    /// library would have it start with ours.
    pub fn spawn(
        program: &Program<'_>,
        variable: Option<(&'static str, Option<OsString>)>,
        mask: &SigSet,
    ) -> Result<Pid, Errno> {
        let text = |text: OsString| CString::new(text.into_vec()).map_err(|_| Errno::EINVAL);
        let added = program.environment.iter().chain(&variable);
        let changed = |name: &OsString| added.clone().any(|(other, _)| name == other);
        let kept = std::env::vars_os().filter(|(name, _)| !changed(name));
        let added = added.clone().filter_map(|(name, value)| Some((name.into(), value.clone()?)));
        let variable = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            text(name)
        };
        let environment = kept.chain(added).map(variable).collect::<Result<Vec<_>, _>>()?;
        let arguments = program.command.iter().cloned().map(text).collect::<Result<Vec<_>, _>>()?;
        let path = arguments.first().ok_or(Errno::EINVAL)?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        attributes.set_sigmask(mask)?;
        attributes.set_sigdefault(&to_default())?;
        let mut streams = PosixSpawnFileActions::init()?;
        for closed in closed() {
            streams.add_close(closed)?;
        }
        for (number, file) in &program.streams {
            streams.add_dup2(file.as_raw_fd(), *number)?;
        }
        let spawn = |path: &CString, arguments: &[CString]| {
            posix_spawnp(path, &streams, &attributes, arguments, &environment)
        };
        match (spawn(path, &arguments), preload::find(&program.command[0])) {
            // As `env`, `nice` and `time` do.
            (Err(Errno::ENOEXEC), Some(script)) if preload::is_script(&script) => {
                let shell = text(preload::SHELL.into())?;
                let begin = [shell.clone(), text(script.into())?];
                spawn(&shell, &[&begin[..], &arguments[1..]].concat())
            }
            (spawned, _) => spawned,
        }
    }

    /// The exit status of the program as [`ProgramEnd`] has it, and the name of the signal that ended it.
    pub fn told(status: WaitStatus) -> (i32, Option<String>) {
        let signal = status.terminating_signal();
        let name = signal.map(|number| match Signal::try_from(number) {
            Ok(signal) => signal.to_string(),
            Err(_) => format!("signal {number}"),
        });
        let status = status.exit_status().or(signal.map(|signal| 128 + signal)).unwrap_or(-1);
        // An exit status has 8 bits.
        (status & 0xff, name)
    }

    /// Sends SIGINT to a program that has not been waited for yet.
    pub fn interrupt(pid: u32) {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
    }

    impl ProgramEnd {
        /// Ends this process by SIGINT if SIGINT has ended the program.
        ///
        /// NOTE: a shell that runs a script looks how its command ended. If Ctrl-C has ended it, the
        /// script ends; if the command exits with 130, the script continues. For other signals shells
        /// make no difference, and a second process that ends by SIGSEGV would only leave a
        /// misleading core dump.
        pub fn interrupt_like_it(&self) {
            if self.signal.as_deref() == Some(Signal::SIGINT.as_str()) {
                let _ = raise(Signal::SIGINT);
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::posix::{spawn, told};
    use super::*;
    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::signal::{SigSet, Signal, kill};
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    use nix::unistd::{Pid, getsid};
    use rustix::process::{WaitOptions, WaitStatus, waitpid};
    use std::os::fd::AsFd;

    /// The signals that are passed on.
    const PASSED_ON: [Signal; 6] = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGTERM,
    ];

    /// The variable with the name of the socket that the tracker reports problems to.
    const PROBLEMS: &str = "MEMLEDGER_PROBLEMS";

    /// How long the end of the program may go unnoticed if SIGCHLD is ignored: nothing wakes us then.
    const LOOK_EVERY_MS: u16 = 500;

    /// Runs the program to its end. Afterwards signals end this command again. `started` is called with its
    /// process id, while signals are blocked.
    ///
    /// NOTE: signals are blocked, not handled. A handler would have the program start with the signal's
    /// default action where it was ignored, as under `nohup`.
    pub fn run(program: &Program<'_>, started: impl FnOnce(u32)) -> Result<ProgramEnd, NotRun> {
        let failed = |error: Errno| CliError::Failed(format!("cannot wait for signals: {error}"));
        let mut signals: SigSet = PASSED_ON.into_iter().collect();
        signals.add(Signal::SIGCHLD);
        let before = SigSet::thread_get_mask().map_err(failed)?;
        signals.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let result = SignalFd::with_flags(&signals, flags).map_err(|error| failed(error).into());
        let result = result.and_then(|arriving| {
            // Where there are no sockets, they are in the program's errors.
            let mut problems = Problems::new().ok();
            let name = problems.as_ref().map(|problems| problems.name().into());
            let pid = spawn(program, Some((PROBLEMS, name)), &before)
                .map_err(|error| NotRun::Refused(io::Error::from(error)))?;
            started(pid.as_raw() as u32);
            let status = wait(pid, &arriving, &mut problems)?;
            let (status, signal) = told(status);
            Ok(ProgramEnd { pid: pid.as_raw() as u32, status, signal, problems })
        });
        before.thread_set_mask().map_err(failed)?;
        result
    }

    /// Passes signals on until the program has ended.
    fn wait(
        pid: Pid,
        arriving: &SignalFd,
        problems: &mut Option<Problems>,
    ) -> Result<WaitStatus, CliError> {
        let failed =
            |error: io::Error| CliError::Failed(format!("cannot wait for the program: {error}"));
        let child = rustix::process::Pid::from_raw(pid.as_raw());
        loop {
            let socket = problems.as_ref().map(|problems| problems.socket().as_fd());
            let awaited = std::iter::once(arriving.as_fd()).chain(socket);
            let mut ready: Vec<_> =
                awaited.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN)).collect();
            match poll(&mut ready, PollTimeout::from(LOOK_EVERY_MS)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            if let Some(problems) = problems {
                problems.take();
            }
            while let Ok(Some(signal)) = arriving.read_signal() {
                // What the kernel sends comes from the terminal, and reaches the whole process group; but for
                // SIGHUP, which reaches the leader of the session.
                let is_from_process = signal.ssi_code <= 0;
                let number = i32::try_from(signal.ssi_signo).ok();
                let number = number.and_then(|number| Signal::try_from(number).ok());
                if let Some(signal) = number.filter(|signal| PASSED_ON.contains(signal))
                    && (is_from_process || signal == Signal::SIGHUP && leads_session())
                {
                    // The program may just have ended. NOTE: the number is its own until `waitpid`
                    // returns a status.
                    let _ = kill(pid, signal);
                }
            }
            let ended =
                waitpid(child, WaitOptions::NOHANG).map_err(|error| failed(error.into()))?;
            if let Some((_, status)) = ended {
                return Ok(status);
            }
        }
    }

    /// Whether this process is the first one of its terminal.
    fn leads_session() -> bool {
        getsid(None).is_ok_and(|leader| leader == Pid::this())
    }

    impl ProgramEnd {
        /// Writes what the tracker has reported to stderr.
        pub fn show_problems(&mut self) {
            if let Some(problems) = self.problems.take() {
                problems.show();
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub fn run(_: &Program<'_>, _: impl FnOnce(u32)) -> Result<ProgramEnd, NotRun> {
    let why = "programs are tracked on Linux, macOS and Windows only";
    Err(CliError::Failed(why.to_owned()).into())
}

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub fn interrupt(_: u32) {}

#[cfg(not(target_os = "linux"))]
impl ProgramEnd {
    /// The tracker reports to the program's errors.
    pub fn show_problems(&mut self) {}
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
impl ProgramEnd {
    pub fn interrupt_like_it(&self) {}
}
