//! Runs one scenario in a child, and reads what it left behind.

use crate::system::scratch;
#[cfg(unix)]
use crate::system::wait_for_stop;
use libtest_mimic::{Arguments, Trial};
use memledger::Ledger;
use memledger_analysis::convert::{ChannelList, convert, convert_channels};
use memledger_analysis::read::{self, Damage, Event, Hole, Summary, Visitor};
use memledger_analysis::{Analyzer, Binaries, Report, ScopeRow};
use memledger_format::handshake::Transport;
use memledger_format::schema::EventType;
#[cfg(unix)]
use memledger_test_support::command::ignore_no_signal;
use memledger_test_support::command::{DEADLINE, status_within};
use std::collections::HashMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = "TEST_SCENARIO";

/// The names that scenarios use, in the child's own folder.
pub(crate) const TRACE: &str = "trace.utrace";
pub(crate) const REPORT: &str = "report.json";

/// One test: what the child does, and what is expected of it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) child: fn(),
    pub(crate) test: fn(Run),
    /// Too slow without optimisation: ignored there.
    heavy: bool,
}

pub(crate) const fn case(name: &'static str, child: fn(), test: fn(Run)) -> Case {
    Case { name, child, test, heavy: false }
}

pub(crate) const fn heavy_case(name: &'static str, child: fn(), test: fn(Run)) -> Case {
    Case { name, child, test, heavy: true }
}

/// Plays the scenario that the environment names; without one, runs the tests.
pub(crate) fn main(themes: &[(&'static str, &'static [Case])]) {
    let cases = themes.iter().flat_map(|&(theme, cases)| cases.iter().map(move |c| (theme, c)));
    if let Ok(scenario) = std::env::var(SCENARIO) {
        #[cfg(windows)]
        crate::system::crash_without_dialog();
        for (_, case) in cases {
            if case.name == scenario {
                return (case.child)();
            }
        }
        panic!("there is no scenario {scenario:?}");
    }
    #[cfg(unix)]
    ignore_no_signal();
    let trials = cases.map(|(theme, case)| {
        Trial::test(format!("{theme}::{}", case.name.replace(' ', "_")), move || {
            (case.test)(Run::new(case.name));
            Ok(())
        })
        .with_ignored_flag(case.heavy && cfg!(debug_assertions))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// A child about to be started.
pub(crate) struct Run {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) command: Command,
    scenario: String,
    deadline: Duration,
}

impl Run {
    fn new(scenario: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("memledger-").tempdir_in(scratch()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(SCENARIO, scenario)
            .env("RUST_BACKTRACE", "0")
            .current_dir(folder.path())
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MEMLEDGER_") {
                command.env_remove(name);
            }
        }
        Self { folder, command, scenario: scenario.to_owned(), deadline: DEADLINE }
    }

    /// Runs the same scenario again, in a fresh folder.
    pub(crate) fn of(other: &Self) -> Self {
        Self::new(&other.scenario)
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Has the environment ask for the report and the trace.
    pub(crate) fn tracked(self) -> Self {
        self.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", REPORT)
    }

    /// Runs a copy of the program, which `tool` makes with these arguments, the program's path and
    /// the copy's path.
    ///
    /// NOTE: in a process of its own. This one forks on other threads, whose children would have the
    /// copy open for writing for a moment, so that it could not be run.
    pub(crate) fn copied_by(mut self, tool: &str, arguments: &[&str]) -> Self {
        let program = PathBuf::from(self.command.get_program());
        let copy = self.path("program");
        let made = Command::new(tool).args(arguments).args([&program, &copy]).status();
        assert!(made.is_ok_and(|status| status.success()), "{tool} is needed for this test");
        let mut command = Command::new(copy);
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        self.command = command;
        self
    }

    pub(crate) fn deadline(mut self, seconds: u64) -> Self {
        self.deadline = Duration::from_secs(seconds);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the child; its output goes to files, which nothing it leaves behind can hold up.
    pub(crate) fn spawn(mut self) -> Running {
        let [stdout, stderr] = ["stdout", "stderr"].map(|n| File::create(self.path(n)).unwrap());
        let child = self.command.stdout(stdout).stderr(stderr).spawn().unwrap();
        Running { child, scenario: self.scenario, folder: self.folder, deadline: self.deadline }
    }

    /// Runs the child to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Outcome {
        self.spawn().wait()
    }
}

/// A child that runs.
pub(crate) struct Running {
    child: Child,
    scenario: String,
    folder: tempfile::TempDir,
    deadline: Duration,
}

impl Running {
    #[cfg(unix)]
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the child has made a file of this name; kills it, and fails, if it ends before
    /// that, or at the deadline.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, name: &str) {
        self.wait_until(name, |running| running.path(name).exists());
    }

    /// Waits until this is true of the child; kills it, and fails, at the deadline.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, name: &str, is_true: impl Fn(&Self) -> bool) {
        let until = Instant::now() + self.deadline;
        while !is_true(self) {
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() || Instant::now() >= until {
                self.child.kill().unwrap();
                panic!("{ended:?} without {name}");
            }
            std::thread::yield_now();
        }
    }

    /// Stops the child, and waits until it has stopped.
    #[cfg(unix)]
    pub(crate) fn stop(&self) {
        kill(self.pid(), libc::SIGSTOP);
        wait_for_stop(self.pid());
    }

    /// Waits for the child; kills it, and fails, at the deadline.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Outcome {
        let status = status_within(self.deadline, &mut self.child);
        let read = |name| fs::read(self.folder.path().join(name)).unwrap();
        let stderr = String::from_utf8_lossy(&read("stderr")).into_owned();
        let Some(status) = status else {
            panic!("the child hung for {:?}\n{stderr}", self.deadline)
        };
        Outcome {
            status,
            stdout: String::from_utf8_lossy(&read("stdout")).into(),
            stderr,
            pid: self.child.id(),
            scenario: self.scenario,
            folder: self.folder,
        }
    }
}

#[cfg(unix)]
pub(crate) use crate::system::kill;
#[cfg(not(target_os = "linux"))]
pub(crate) use crate::system::name_of_thread;
pub(crate) use crate::system::{end_at_once, resident_bytes, thread_id};

/// What a child has left behind.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) pid: u32,
    scenario: String,
    folder: tempfile::TempDir,
}

impl Outcome {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another run of the same scenario, in a fresh folder.
    pub(crate) fn again(&self) -> Run {
        Run::new(&self.scenario)
    }

    /// All files but the child's output, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|n| n != "stdout" && n != "stderr").collect();
        names.sort();
        names
    }

    /// The child exited with this code.
    #[track_caller]
    pub(crate) fn exited(&self, code: i32) -> &Self {
        assert_eq!(self.status.code(), Some(code), "{}\n{}", self.status, self.stderr);
        self
    }

    /// The child exited well and wrote nothing on stderr.
    #[track_caller]
    pub(crate) fn quiet(&self) -> &Self {
        assert_eq!(self.stderr, "");
        self.exited(0)
    }

    /// The report the child made of itself.
    #[track_caller]
    pub(crate) fn report(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}\n{}", self.stderr))
    }

    /// Writes the trace `to`, which has these channels of the trace `from`.
    #[track_caller]
    pub(crate) fn export_channels(&self, from: &str, channels: &str, to: &str) {
        let compact = to.ends_with(".memledger");
        let transport = if compact { Transport::Compact } else { Transport::Unreal };
        let channels = ChannelList::parse(channels).unwrap();
        let (from, to) = (File::open(self.path(from)), File::create(self.path(to)));
        convert_channels(from.unwrap(), to.unwrap(), transport, &channels).unwrap();
    }

    /// What the trace says, and how it reads.
    #[track_caller]
    pub(crate) fn trace(&self, name: &str) -> (Report, Summary) {
        let path = self.path(name);
        let file = File::open(&path).unwrap_or_else(|e| panic!("{name}: {e}\n{}", self.stderr));
        let mut scoped = Scoped::default();
        let summary = read::read(file, &mut scoped).unwrap();
        let Scoped { analyzer, depths, wrong } = scoped;
        assert_eq!(wrong, 0, "scopes on the wire are 0 or 1 deep");
        // A process that was killed in a write leaves part of a packet; that costs nothing else.
        let cut = usize::from(summary.truncated_bytes > 0);
        assert_eq!(analyzer.problems().len(), cut, "{:?}", analyzer.problems());
        assert!(summary.error.is_none());
        let report = analyzer.report();
        if report.trace.complete {
            assert!(depths.values().all(|&depth| depth == 0), "what is opened is closed");
        }
        if report.trace.complete && report.trace.from_process_start == Some(true) {
            check_with_another_reader(&path);
        }
        (report, summary)
    }

    /// The common oracle of a recording that ended as it should: the report made in the process
    /// equals the one computed from the trace as a whole document, and both are complete.
    #[track_caller]
    pub(crate) fn whole(&self) -> Report {
        self.whole_as(TRACE, REPORT)
    }

    /// The same, with names of its own.
    #[track_caller]
    pub(crate) fn whole_as(&self, trace: &str, report: &str) -> Report {
        let read = self.same(trace, report);
        let losses = &read.losses;
        assert_eq!(losses.lost_events, 0, "{losses:?}");
        assert_eq!(losses.serial_holes, 0, "{losses:?}");
        assert!(read.trace.complete);
        read
    }

    /// The part of the oracle that holds when events were lost, too.
    #[track_caller]
    pub(crate) fn same(&self, trace: &str, report: &str) -> Report {
        let read = self.equal(trace, report);
        let losses = &read.losses;
        if read.trace.from_process_start == Some(true) && losses.lost_events == 0 {
            assert_eq!(losses.unmatched_frees, 0, "{losses:?}");
            assert_eq!(losses.duplicate_allocations, 0, "{losses:?}");
        }
        read
    }

    /// The part of the oracle that holds for a child, too, that was forked while other threads allocated: it
    /// lacks the last events of these.
    #[track_caller]
    pub(crate) fn equal(&self, trace: &str, report: &str) -> Report {
        let (mut read, summary) = self.trace(trace);
        // The process has found them in the same files.
        read.symbolize(&mut Binaries::default());
        let mut from_file = Vec::new();
        memledger_export::json::write(&read, &mut from_file).unwrap();
        let from_file = String::from_utf8(from_file).unwrap();
        let from_process = self.report(report);
        if from_file != from_process {
            let lines = from_file.lines().zip(from_process.lines()).enumerate();
            let first = lines.filter(|(_, (a, b))| a != b).take(5).collect::<Vec<_>>();
            panic!("trace and process disagree (file, process): {first:#?}");
        }
        assert_eq!(read.losses.truncated_bytes, 0, "{:?}", read.losses);
        assert_eq!(summary.skipped_bytes, 0);
        assert_eq!(summary.counts.damages, 0);
        check_sums(&read);
        read
    }
}

/// The analyzer, with an eye on the scopes of each stream.
#[derive(Default)]
struct Scoped {
    analyzer: Analyzer,
    depths: HashMap<u16, u32>,
    wrong: u64,
}

impl Visitor for Scoped {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        self.analyzer.event_type(index, event_type);
    }

    fn event(&mut self, event: &Event<'_>) {
        if event.enters_scope {
            let depth = self.depths.entry(event.stream).or_default();
            *depth += 1;
            self.wrong += u64::from(*depth > 1);
        }
        self.analyzer.event(event);
    }

    fn leave_scope(&mut self, stream: u16) {
        match self.depths.get_mut(&stream) {
            Some(depth) if *depth > 0 => *depth -= 1,
            _ => self.wrong += 1,
        }
        self.analyzer.leave_scope(stream);
    }

    fn hole(&mut self, hole: Hole) {
        self.analyzer.hole(hole);
    }

    fn damage(&mut self, damage: &Damage) {
        self.analyzer.damage(damage);
    }
}

/// Every column but the peaks sums to the totals, in every list.
#[track_caller]
pub(crate) fn check_sums(report: &Report) {
    let totals = &report.totals;
    let mut lists: Vec<Vec<_>> = vec![
        report.by_scope.iter().map(|row| row.figures).collect(),
        report.by_group.iter().map(|row| row.figures).collect(),
        report.by_name.iter().map(|row| row.figures).collect(),
        report.by_thread.iter().map(|row| row.figures).collect(),
        report.by_size.iter().map(|row| row.figures).collect(),
    ];
    if !report.by_stack.is_empty() && report.stack_sampling_bytes.is_none() {
        lists.push(report.by_stack.iter().map(|row| row.figures).collect());
    }
    for list in lists {
        assert_eq!(list.iter().map(|f| f.allocations).sum::<u64>(), totals.allocations);
        assert_eq!(list.iter().map(|f| f.frees).sum::<u64>(), totals.frees);
        assert_eq!(list.iter().map(|f| f.reallocations).sum::<u64>(), totals.reallocations);
        assert_eq!(list.iter().map(|f| f.allocated_bytes).sum::<u64>(), totals.allocated_bytes);
        assert_eq!(list.iter().map(|f| f.live_blocks).sum::<u64>(), totals.live_blocks);
        assert_eq!(list.iter().map(|f| f.live_bytes).sum::<u64>(), totals.live_bytes);
        // And in each row, what came and did not go is there.
        for row in list {
            let came = row.allocations + row.moved_in.blocks;
            assert_eq!(row.live_blocks + row.frees + row.moved_out.blocks, came, "{row:?}");
        }
    }
}

/// Runs the checker that `TEST_UTRACE_CHECK` names, if any: an independent reader, to which what
/// came before the start or after the cut would look like a mistake.
#[track_caller]
pub(crate) fn check_with_another_reader(trace: &Path) {
    if let Some(checker) = std::env::var_os("TEST_UTRACE_CHECK") {
        // It reads the plain stream only, as Unreal's own tools do.
        let plain = trace.with_extension("exported");
        let out = File::create(&plain).unwrap();
        convert(File::open(trace).unwrap(), out, Transport::Unreal).unwrap();
        let output = Command::new(checker).arg(&plain).output().unwrap();
        fs::remove_file(&plain).unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}

/// The row with this path, if something was allocated there.
pub(crate) fn scope<'a>(report: &'a Report, path: &[&str]) -> Option<&'a ScopeRow> {
    report.by_scope.iter().find(|row| row.path == path)
}

/// Starts a recording to the usual files, in code.
pub(crate) fn start() -> Ledger {
    builder().start().unwrap()
}

/// The same, not started yet.
pub(crate) fn builder() -> memledger::LedgerBuilder {
    Ledger::builder().trace_to_file(TRACE).report_on_exit(memledger::ReportTo::file(REPORT))
}

/// Allocates `count` blocks and frees most of them again.
pub(crate) fn churn(count: usize) {
    let mut kept = Vec::new();
    for number in 0..count {
        let block = black_box(vec![number as u8; 1 + number % 1000]);
        if number % 10 == 0 {
            kept.push(block);
        }
        if kept.len() > 100 {
            kept.clear();
        }
    }
}

/// Allocates a block that stays, and is easy to find: nothing else has such a size.
pub(crate) fn leave(bytes: usize) {
    std::mem::forget(black_box(Vec::<u8>::with_capacity(black_box(bytes))));
}

/// How many blocks of just this size are still live.
pub(crate) fn left(report: &Report, bytes: u64) -> usize {
    report.largest_live.iter().filter(|block| block.bytes == bytes).count()
}
