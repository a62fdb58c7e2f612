//! Runs checks: lanes beside each other, each check in a process group of its own and against its deadline.

use crate::check::{BUILD, Check, Lane, NOT_CHECKED, Tier};
use crate::needs;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process group may take to end after SIGTERM: scripts remove their folders.
const TERM_TIMEOUT: Duration = Duration::from_secs(10);
/// The lines of a failed check that are printed; all are in its log.
const MAX_LINES: usize = 300;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of its commands have ended with status 0.
    Passed,
    /// It has failed: how, and in which step.
    Failed(String),
    /// Nothing was checked: why.
    NotChecked(String),
    /// It was stopped, or did not begin, because of another one or a signal.
    Stopped(&'static str),
}

impl Outcome {
    const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::NotChecked(_) => "not checked",
            Self::Stopped(_) => "stopped",
        }
    }
}

/// One check with how it ended, and after what time.
#[derive(Debug)]
pub struct Ended {
    /// The check's name.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// The time that it ran.
    pub time: Duration,
    /// The processor time of its processes, which the load of the machine changes less.
    pub processor: Duration,
}

/// A run of some checks.
#[derive(Debug)]
pub struct Run<'a> {
    /// The checks, in the order of the table.
    pub checks: Vec<&'a Check>,
    /// What a check means that could not check anything.
    pub tier: Tier,
    /// Whether the rest runs after a failure.
    pub keep_going: bool,
    /// Variables for all commands.
    pub variables: Vec<(&'static str, String)>,
    /// The folder in which commands run. Logs and times are in `target/checks` below it.
    pub root: PathBuf,
}

enum Event {
    Exited(usize),
    Signal(i32),
}

/// A check that runs.
struct Running {
    index: usize,
    child: Child,
    started: Instant,
    /// When it is stopped, or killed if it is being stopped.
    end: Instant,
    /// Why it is being stopped; `None` for its deadline.
    stopped: Option<Option<&'static str>>,
}

impl Running {
    fn signal(&self, signal: Signal) {
        // NOTE: the leader is a zombie until it is waited for, so the number is still this group's.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    fn stop(&mut self, why: Option<&'static str>) {
        if self.stopped.is_none() {
            self.stopped = Some(why);
            self.end = Instant::now() + TERM_TIMEOUT;
            self.signal(Signal::TERM);
        }
    }
}

/// The state of a run.
struct Checks<'a, 'b> {
    run: &'a Run<'a>,
    out: &'b mut dyn Write,
    events: Sender<Event>,
    began: Instant,
    waiting: Vec<usize>,
    running: Vec<Running>,
    ended: Vec<Option<Ended>>,
    /// Why nothing begins any more.
    stopping: Option<&'static str>,
}

impl Run<'_> {
    /// Runs the checks, and says of each what came of it; what failed is the last thing printed. Returns how
    /// each ended, in the order of the checks.
    ///
    /// # Errors
    ///
    /// Where logs cannot be written, or bash does not start.
    pub fn all(&self, out: &mut dyn Write) -> io::Result<Vec<Ended>> {
        fs::create_dir_all(self.folder())?;
        let (events, received) = mpsc::channel();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (handle, sender) = (signals.handle(), events.clone());
        let listener = thread::spawn(move || {
            for signal in signals.forever() {
                let _ = sender.send(Event::Signal(signal));
            }
        });
        let mut checks = Checks {
            run: self,
            out,
            events,
            began: Instant::now(),
            waiting: (0..self.checks.len()).collect(),
            running: Vec::new(),
            ended: self.checks.iter().map(|_| None).collect(),
            stopping: None,
        };
        let done = checks.until_all_have_ended(&received);
        checks.running.iter().for_each(|running| running.signal(Signal::KILL));
        handle.close();
        let _ = listener.join();
        done?;
        let (ended, began) = (checks.ended.into_iter().flatten().collect::<Vec<_>>(), checks.began);
        self.keep_times(&ended)?;
        self.summarize(&ended, began.elapsed(), out)?;
        Ok(ended)
    }

    fn folder(&self) -> PathBuf {
        self.root.join("target/checks")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.log"))
    }

    /// Whether it counts as a failure.
    #[must_use]
    pub fn is_failure(&self, ended: &Ended) -> bool {
        match ended.outcome {
            Outcome::Passed | Outcome::Stopped(_) => false,
            Outcome::Failed(_) => true,
            Outcome::NotChecked(_) => self.tier != Tier::Change,
        }
    }

    /// Appends the times to `times.tsv`.
    fn keep_times(&self, ended: &[Ended]) -> io::Result<()> {
        let path = self.folder().join("times.tsv");
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let commit = Command::new("git")
            .arg("-C")
            .arg(&self.root)
            .args(["rev-parse", "--short", "HEAD"])
            .output();
        let commit = commit
            .map_or(String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
        if is_new {
            writeln!(file, "commit\ttier\tcheck\tresult\tseconds\tprocessor")?;
        }
        for Ended { name, outcome, time, processor } in ended {
            let (tier, result) = (self.tier.word(), outcome.word());
            let (seconds, processor) = (time.as_secs_f64(), processor.as_secs_f64());
            writeln!(file, "{commit}\t{tier}\t{name}\t{result}\t{seconds:.1}\t{processor:.1}")?;
        }
        Ok(())
    }

    fn summarize(&self, ended: &[Ended], time: Duration, out: &mut dyn Write) -> io::Result<()> {
        let (failed, rest): (Vec<_>, Vec<_>) = ended.iter().partition(|it| self.is_failure(it));
        writeln!(out, "\n== {} checks in {} s", ended.len(), time.as_secs())?;
        for ended in &rest {
            writeln!(out, "{ended}")?;
        }
        for ended in &failed {
            let log = self.log(ended.name);
            if !log.exists() {
                continue;
            }
            let text = text_of(&log);
            let lines: Vec<_> = text.lines().collect();
            let left_out = lines.len().saturating_sub(MAX_LINES);
            writeln!(out, "\n== {}, whose output is in {}, ends with", ended.name, log.display())?;
            lines[left_out..].iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        if !failed.is_empty() {
            writeln!(out)?;
        }
        failed.iter().try_for_each(|ended| writeln!(out, "== FAILED: {ended}"))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seconds) = (self.name, self.time.as_secs_f64());
        match &self.outcome {
            Outcome::Passed => {
                let processor = self.processor.as_secs_f64();
                write!(f, "{name}: passed in {seconds:.0} s, {processor:.0} s of a processor")
            }
            Outcome::Failed(how) => write!(f, "{name}: {how}, after {seconds:.0} s"),
            Outcome::NotChecked(why) => write!(f, "{name}: not checked: {why}"),
            Outcome::Stopped(why) if self.time.is_zero() => write!(f, "{name}: not begun: {why}"),
            Outcome::Stopped(why) => write!(f, "{name}: stopped after {seconds:.0} s: {why}"),
        }
    }
}

impl Checks<'_, '_> {
    fn until_all_have_ended(&mut self, events: &Receiver<Event>) -> io::Result<()> {
        loop {
            self.begin_what_can()?;
            let Some(end) = self.running.iter().map(|running| running.end).min() else {
                return Ok(());
            };
            match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Exited(index)) => self.end(index)?,
                Ok(Event::Signal(signal)) => {
                    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                    writeln!(self.out, "== {name}: all that runs is stopped")?;
                    self.stop_all("a signal has ended the run");
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.stop_late(),
            }
        }
    }

    fn stop_late(&mut self) {
        let now = Instant::now();
        for running in self.running.iter_mut().filter(|running| running.end <= now) {
            if running.stopped.is_some() {
                running.signal(Signal::KILL);
                running.end = now + TERM_TIMEOUT;
            } else {
                running.stop(None);
            }
        }
    }

    fn stop_all(&mut self, why: &'static str) {
        self.stopping.get_or_insert(why);
        self.running.iter_mut().for_each(|running| running.stop(Some(why)));
    }

    fn lane(&self, index: usize) -> Lane {
        self.run.checks[index].lane
    }

    /// Begins the checks whose lane is free. One that waits for the build waits with all of its lane.
    fn begin_what_can(&mut self) -> io::Result<()> {
        let build = self.run.checks.iter().position(|check| check.name == BUILD);
        let built = build.map(|index| self.ended[index].as_ref());
        let is_pending = built.is_some_and(|ended| ended.is_none());
        let is_built = built.flatten().is_some_and(|ended| ended.outcome == Outcome::Passed);
        let has_failed = built.is_some() && !is_pending && !is_built;
        for index in std::mem::take(&mut self.waiting) {
            let check = self.run.checks[index];
            let waits = check.lane == Lane::Programs;
            let outcome = if let Some(why) = self.stopping {
                Outcome::Stopped(why)
            } else if waits && has_failed {
                Outcome::Stopped("the check `build` has not passed")
            } else if waits && is_pending
                || self.running.iter().filter(|it| self.lane(it.index) == check.lane).count()
                    >= check.lane.width()
            {
                self.waiting.push(index);
                continue;
            } else {
                let missing = needs::missing(check);
                if missing.is_empty() {
                    self.begin(index, is_built)?;
                    continue;
                }
                Outcome::NotChecked(format!("needs {}", missing.join(", ")))
            };
            self.has_ended(index, outcome, Duration::ZERO, Duration::ZERO)?;
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, is_built: bool) -> io::Result<()> {
        let check = self.run.checks[index];
        writeln!(
            self.out,
            "== {}: {} (begins at {} s)",
            check.name,
            check.what,
            self.began.elapsed().as_secs()
        )?;
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(script(check))
            .current_dir(&self.run.root)
            .stdin(Stdio::null())
            .process_group(0);
        // The only one is read while it runs.
        if self.run.checks.len() > 1 {
            let log = File::create(self.run.log(check.name))?;
            command.stdout(log.try_clone()?).stderr(log);
        } else {
            let _ = fs::remove_file(self.run.log(check.name));
        }
        command.envs(self.run.variables.iter().map(|(name, value)| (name, value)));
        if is_built {
            let target = std::env::var_os("CARGO_TARGET_DIR")
                .map_or(self.run.root.join("target"), PathBuf::from);
            command.env("memledger", target.join("debug/memledger"));
            command.env("examples", target.join("debug/examples"));
            command.env("MEMLEDGER_CACHE", "off");
        }
        let child = command
            .spawn()
            .map_err(|error| io::Error::other(format!("bash does not start: {error}")))?;
        let (pid, events, started) = (Pid::from_child(&child), self.events.clone(), Instant::now());
        let end = started + check.deadline;
        self.running.push(Running { index, child, started, end, stopped: None });
        thread::spawn(move || {
            // The process stays a zombie, so that its group can be killed before it is waited for.
            while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                .is_err_and(|error| error == rustix::io::Errno::INTR)
            {}
            let _ = events.send(Event::Exited(index));
        });
        Ok(())
    }

    /// The first process of a check has exited: what it left behind is killed.
    fn end(&mut self, index: usize) -> io::Result<()> {
        let at = self.running.iter().position(|it| it.index == index).expect("only what runs ends");
        let mut running = self.running.remove(at);
        running.signal(Signal::KILL);
        let processor = processor_time(running.child.id());
        let status = running.child.wait()?;
        let check = self.run.checks[index];
        let log = self.run.log(check.name);
        for line in tests_of(&log) {
            writeln!(self.out, "{line}")?;
        }
        let outcome = match running.stopped {
            Some(Some(why)) => Outcome::Stopped(why),
            Some(None) => Outcome::Failed(format!(
                "over its deadline of {} s{}",
                check.deadline.as_secs(),
                in_step(check, &log)
            )),
            None if status.success() => Outcome::Passed,
            None if status.code() == Some(NOT_CHECKED) => Outcome::NotChecked(last_line(&log)),
            None => Outcome::Failed(format!("{}{}", words(status), in_step(check, &log))),
        };
        self.has_ended(index, outcome, running.started.elapsed(), processor)
    }

    fn has_ended(
        &mut self,
        index: usize,
        outcome: Outcome,
        time: Duration,
        processor: Duration,
    ) -> io::Result<()> {
        let ended = Ended { name: self.run.checks[index].name, outcome, time, processor };
        writeln!(self.out, "== {ended}")?;
        let is_failure = self.run.is_failure(&ended);
        self.ended[index] = Some(ended);
        if is_failure && !self.run.keep_going {
            self.stop_all("another check has failed");
        }
        Ok(())
    }
}

/// The processor time of a process that has exited, and of its children. It is gone when the process is
/// waited for.
fn processor_time(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name: utime, stime, cutime and cstime are the 12th to the 15th, in ticks of 10 ms.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(4);
    Duration::from_millis(fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10)
}

fn words(status: ExitStatus) -> String {
    let signal = || format!("killed by signal {}", status.signal().unwrap_or(0));
    status.code().map_or_else(signal, |code| format!("status {code}"))
}

/// All commands of a check as one program of bash, which prints each before it runs.
fn script(check: &Check) -> String {
    let mut script = "set -euo pipefail\n".to_owned();
    for command in check.commands {
        let quoted = command.replace('\'', r"'\''");
        script += &format!("printf '$ %s\\n' '{quoted}'\n{command}\n");
    }
    script
}

/// The lines of a log in which cargo names a test binary, and in which that says what came of its tests.
fn tests_of(log: &Path) -> Vec<String> {
    let of_tests = ["     Running ", "   Doc-tests ", "test result: "];
    let is_of_tests = |line: &&str| of_tests.iter().any(|begins| line.starts_with(begins));
    text_of(log).lines().filter(is_of_tests).map(str::to_owned).collect()
}

fn text_of(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}

/// The last step of a check that is in its log; what a step prints can look like one.
fn in_step(check: &Check, log: &Path) -> String {
    let text = text_of(log);
    let is_step = |line: &&str| check.commands.iter().any(|it| it.lines().next() == Some(*line));
    let step = text.lines().rev().filter_map(|line| line.strip_prefix("$ ")).find(is_step);
    step.map_or(String::new(), |step| format!(" in its step `{step}`"))
}

fn last_line(log: &Path) -> String {
    let text = text_of(log);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it does not say why").to_owned()
}
