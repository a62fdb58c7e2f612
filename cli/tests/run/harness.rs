//! Runs `memledger run` in a folder of its own, with a deadline.

use crate::scenarios::SCENARIO;
use memledger_test_support::command::{DEADLINE, status_within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// The command, without settings of the user of the tests. It keeps nothing in the user's cache folder.
pub fn memledger() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memledger"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MEMLEDGER_") {
            command.env_remove(name);
        }
    }
    command.env("MEMLEDGER_CACHE", "off");
    command
}

/// `memledger run` about to be started.
pub struct Run {
    pub folder: TempDir,
    pub command: Command,
}

impl Run {
    /// `memledger run OPTIONS -- THIS PROGRAM`, which plays the scenario.
    pub fn tracked(scenario: &str, options: &[&str]) -> Self {
        let program = std::env::current_exe().expect("a path");
        let mut run = Self::of(options, &[program.to_str().expect("UTF-8")]);
        run.command.env(SCENARIO, scenario);
        run
    }

    /// `memledger run OPTIONS -- PROGRAM`.
    pub fn of(options: &[&str], program: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("memledger-").tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let mut command = memledger();
        command.arg("run").args(options).arg("--").args(program);
        command
            .current_dir(folder.path())
            .env("TMPDIR", folder.path().join("tmp"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null());
        Self { folder, command }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it; its output goes to files.
    pub fn spawn(mut self) -> Running {
        let file = |name| File::create(self.folder.path().join(name)).expect("a file");
        let child = self.command.stdout(file("stdout")).stderr(file("stderr")).spawn();
        Running { folder: self.folder, child: child.expect("the command runs") }
    }

    #[track_caller]
    pub fn run(self) -> Ended {
        self.spawn().wait()
    }
}

/// A running command.
pub struct Running {
    folder: TempDir,
    child: Child,
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it runs");
    }

    /// Calls `look` until it returns something; fails at the deadline, or if the command ends first.
    #[track_caller]
    pub fn wait_until<T>(&mut self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let ended = self.child.try_wait().expect("a child");
            if let Some(found) = look(self) {
                return found;
            }
            if ended.is_some() || start.elapsed() > DEADLINE {
                let _ = self.child.kill();
                panic!("{ended:?}: {}", self.text("stderr"));
            }
            std::thread::yield_now();
        }
    }

    /// Waits until the program has written this into the file `ready`.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.wait_until(|running| (running.text("ready") == text).then_some(()));
    }

    /// Waits until the program has written its number into the file `ready`.
    #[track_caller]
    pub fn program(&mut self) -> Pid {
        Pid::from_raw(self.wait_until(|running| running.text("ready").parse().ok()))
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let status = status_within(DEADLINE, &mut self.child)
            .unwrap_or_else(|| panic!("the command hangs: {}", self.text("stderr")));
        let (stdout, stderr) = (self.text("stdout"), self.text("stderr"));
        Ended { status, stdout, stderr, folder: self.folder }
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    folder: TempDir,
}

impl Ended {
    #[track_caller]
    pub fn exited(&self, status: i32) -> &Self {
        assert_eq!(self.status.code(), Some(status), "{}\n{}", self.status, self.stderr);
        assert_eq!(self.files("tmp"), [""; 0], "nothing temporary stays");
        self
    }

    #[track_caller]
    pub fn killed_by(&self, signal: Signal) -> &Self {
        assert_eq!(self.status.signal(), Some(signal as i32), "{}", self.stderr);
        assert_eq!(self.files("tmp"), [""; 0], "nothing temporary stays");
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The names in a folder, sorted.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().expect("UTF-8")).collect();
        names.retain(|name| !matches!(&**name, "stdout" | "stderr" | "tmp" | "ready"));
        names.sort();
        names
    }

    /// A report in JSON.
    #[track_caller]
    pub fn report(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.path(name));
        let text = text.unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.stderr));
        serde_json::from_str(&text).expect("JSON")
    }
}

/// How many blocks of just this size are live in a report.
pub fn left(report: &Value, bytes: u64) -> usize {
    let blocks = report["largest_live"].as_array().expect("blocks");
    blocks.iter().filter(|block| block["bytes"] == bytes).count()
}
