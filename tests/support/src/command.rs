//! Commands that must end.

#[cfg(unix)]
use rustix::io::Errno;
#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::process::{Child, ExitStatus, Output};
#[cfg(unix)]
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Nothing takes so long, unless it hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// `memledger` with these arguments, without input and without what the user of the tests has set for it.
#[macro_export]
macro_rules! memledger {
    ($arguments:expr) => {{
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_memledger"));
        command.args($arguments).stdin(std::process::Stdio::null());
        command.env_remove("NO_COLOR").env_remove("DEBUGINFOD_URLS");
        command.env("MEMLEDGER_CACHE", "off");
        command
    }};
}

/// Runs a command to its end.
#[cfg(unix)]
#[track_caller]
pub fn ran(mut command: Command) -> Output {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    output(command.spawn().expect("the command runs"))
}

/// The output of a child, whose end must come.
#[cfg(unix)]
#[track_caller]
pub fn output(child: Child) -> Output {
    let output = before(DEADLINE, Pid::from_child(&child), || child.wait_with_output());
    output.unwrap_or_else(|| panic!("the command did not end within {DEADLINE:?}")).unwrap()
}

/// How a child ends; `None` if it has to be killed after `deadline`.
#[cfg(unix)]
pub fn status_within(deadline: Duration, child: &mut Child) -> Option<ExitStatus> {
    let pid = Pid::from_child(child);
    // NOTE: it is not reaped meanwhile, so the number that is killed is still its own.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let ended = || while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {};
    let ended = before(deadline, pid, ended);
    let status = child.wait().unwrap();
    ended.map(|()| status)
}

/// How a child ends; `None` if it has to be killed after `deadline`.
#[cfg(windows)]
pub fn status_within(deadline: Duration, child: &mut Child) -> Option<ExitStatus> {
    let until = std::time::Instant::now() + deadline;
    loop {
        match child.try_wait().unwrap() {
            None if std::time::Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            status => return status,
        }
    }
}

/// What `wait` returns, which waits for a process; `None` if that has to be killed after `deadline`.
#[cfg(unix)]
fn before<T>(deadline: Duration, process: Pid, wait: impl FnOnce() -> T) -> Option<T> {
    let (ended, watch) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let is_late = watch.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout);
        is_late.then(|| kill_process(process, Signal::KILL)).is_some()
    });
    let result = wait();
    drop(ended);
    (!watchdog.join().unwrap()).then_some(result)
}

/// Exit status, standard output, standard error.
pub fn told(output: Output) -> (i32, String, String) {
    let (status, out, err) = told_bytes(output);
    (status, String::from_utf8(out).expect("UTF-8"), err)
}

/// Exit status, the bytes of standard output, standard error.
pub fn told_bytes(output: Output) -> (i32, Vec<u8>, String) {
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    (output.status.code().expect("no signal"), output.stdout, err)
}

/// Children inherit which signals are ignored. These are, if the tests run under `nohup` or in the background
/// of a script.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the dispositions of signals")]
pub fn ignore_no_signal() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: no handler is installed, and none is replaced.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
