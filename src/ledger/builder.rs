//! What is recorded and where it goes, set in code.

use super::address::{Address, ListenAddress};
use super::config::{Config, Limit, OnFull, Secret, Stacks, Watch, Worker};
use super::destinations::{Destination, Target};
use super::handle::Ledger;
use super::operations;
use crate::dump::ReportTo;
use crate::error::{Error, ErrorKind};
use crate::events::channel;
use std::path::PathBuf;
use std::time::Duration;

/// What a [`Ledger`] is started with. [`Ledger::builder`] makes one.
///
/// ```
/// use memledger::{Ledger, ReportTo};
/// # let folder = std::env::temp_dir();
///
/// let ledger = Ledger::builder()
///     .trace_to_file(folder.join("run-%p.utrace"))
///     .report_on_exit(ReportTo::file(folder.join("report.json")))
///     .start()?;
/// // ... the program ...
/// if let Err(error) = ledger.finish() {
///     eprintln!("{error}");
/// }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is recorded until `start`"]
pub struct LedgerBuilder {
    config: Config,
    /// Why the first setting that is not allowed is none.
    refused: Option<Error>,
}

impl LedgerBuilder {
    /// Sets what was parsed; an error is for [`start`](Self::start).
    fn set<T>(mut self, parsed: Result<T, Error>, set: impl FnOnce(&mut Config, T)) -> Self {
        match parsed {
            Ok(value) => set(&mut self.config, value),
            Err(error) => {
                self.refused.get_or_insert(error);
            }
        }
        self
    }

    /// Prints the report when recording ends. Default: no report. Without the feature `report`, a problem and
    /// one line stand for it.
    ///
    /// ```
    /// use memledger::{Ledger, ReportTo, TrackingAllocator};
    ///
    /// #[global_allocator]
    /// static ALLOC: TrackingAllocator = TrackingAllocator::system();
    ///
    /// # fn main() -> Result<(), memledger::Error> {
    /// # let path = std::env::temp_dir().join(format!("memledger-on-exit-{}.txt", std::process::id()));
    /// let ledger = Ledger::builder().report_on_exit(ReportTo::file(&path).verbose(true)).start()?;
    /// // ... the program ...
    /// drop(ledger);
    /// # #[cfg(report)]
    /// assert!(path.exists());
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// ```
    pub fn report_on_exit(mut self, report: ReportTo) -> Self {
        self.config.report = Some(report);
        self
    }

    /// Writes the report, and the end of the trace, also if SIGTERM, SIGINT (Ctrl-C) or SIGHUP ends the
    /// program, or if it crashes: SIGABRT (`abort`), SIGSEGV (also of a stack overflow), SIGBUS, SIGILL and
    /// SIGFPE. Default: such a signal ends the program without a report, and the trace has everything up to
    /// its last packet.
    ///
    /// After the report, the program ends by the same signal. The thread that got it waits until then, for at
    /// most 30 s, and runs nothing more. Other threads run, and the report does not have their events from
    /// this time. A second signal ends it at once if it arrives more than a second after the first one. The
    /// blocks of a program that a signal ends are those that it held at that moment: its destructors do not
    /// run.
    ///
    /// A thread that has crashed waits for the report, for at most 30 s: it can hold a lock that the report
    /// needs, as in `malloc`. Then it crashes as it would have: what handled the signal before does so (the
    /// runtime of Rust says that a stack overflowed), and the status, the core file and its stacks are the
    /// same. A recording that begins before `main` has SIGSEGV and SIGBUS from the first allocation in `main`
    /// on.
    ///
    /// With a [watcher](Self::watch), no signal and no crash is handled in the program: the watcher reports
    /// its end. `MEMLEDGER_REPORT_ON_SIGNALS=1` starts a watcher where there can be one, unless
    /// `MEMLEDGER_WATCH=0`.
    ///
    /// Any other signal that the program ignores or handles itself, before or after this call, stays the
    /// program's: the report comes when the program ends as it does then. Costs one thread that sleeps, of 1
    /// MiB of stack (address space; some pages are used). The first process of a container, which signals do
    /// not end, writes its report at the first signal and runs on.
    ///
    /// ```
    /// use memledger::{Ledger, ReportTo};
    ///
    /// let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).report_on_signals(true).start()?;
    /// // ... a server that runs until it is stopped ...
    /// # drop(ledger);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn report_on_signals(mut self, enabled: bool) -> Self {
        self.config.report_on_signals = enabled;
        self
    }

    /// Starts a *watcher*: a small process that ends the trace and writes the report if this process ends
    /// without doing so, as by SIGKILL, the system's out-of-memory killer, or `_exit`. Both then have all
    /// that was committed before the end: no event is lost.
    ///
    /// Call it while the process has no other thread; later, [`start`](Self::start) reports one sentence, and
    /// there is no watcher. A report that is named in the environment (`MEMLEDGER_REPORT=..`) and
    /// `MEMLEDGER_WATCH=1` start one before `main`.
    ///
    /// If the trace goes to a regular file, the watcher completes that file. Otherwise the trace also goes to
    /// a file without a name in the folder for temporary files, which takes space there until the process has
    /// ended. The watcher sleeps until then; it has its own session, is no child of the process, and keeps
    /// open only the trace and the report. Costs two forks at the start, 120 MiB of addresses (pages that are
    /// not used take no memory), and a copy of the events by the worker; the hook costs the same.
    ///
    /// A forked child that is recorded ([`follow_forks`](Self::follow_forks)) has a watcher of its own if it
    /// has such a file; for that, one more process runs as long as any process of the family. A watcher does
    /// not complete what is sent to a recorder, nor files of track events. A call stack, or a scope's number
    /// of entries, of the last moment can be missing.
    ///
    /// ```
    /// use memledger::{Ledger, ReportTo};
    ///
    /// let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).watch(true).start()?;
    /// # drop(ledger);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn watch(mut self, enabled: bool) -> Self {
        self.config.watch = if enabled { Watch::Yes } else { Watch::No };
        self
    }

    /// Writes a *black box* to stderr at a limit: which scopes and threads hold them, and which call stacks
    /// where [stacks](Self::stacks) are recorded. At each limit, also where the allocator below the tracker
    /// returns null, whatever is live. Default: none.
    ///
    /// The worker writes it, so the program runs on: at most one of its cycles after the limit was reached,
    /// 10 ms, or within 256 KiB of events. If less is live by then, the rows are those of the peak. A thread
    /// that gets a null waits for it, for at most a second, since most programs end there. It is written
    /// again only after an eighth of the live bytes was freed.
    ///
    /// Nothing is allocated to write it: 32 KiB of text, and 16 bytes for each scope, thread or stack
    /// (whichever are most), are set aside before. Stacks are shown as offsets in files, for `addr2line`.
    /// Like a report, it needs the analysis in this process.
    ///
    /// ```
    /// use memledger::{Ledger, Limit};
    ///
    /// let ledger = Ledger::builder().black_box_at(Limit::Bytes(2 << 30)).start()?;
    /// # drop(ledger);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn black_box_at(self, limit: Limit) -> Self {
        let checked = match limit {
            Limit::Percent(percent) if !(1..=100).contains(&percent) => {
                let sentence = format!(
                    "the black box cannot be at {percent} % of the limit of the control group: 1 to 100 are allowed"
                );
                Err(Error::new(ErrorKind::InvalidSetting, sentence))
            }
            _ => Ok(limit),
        };
        self.set(checked, |config, limit| config.black_box = Some(limit))
    }

    /// Reads the resident memory of the process (RSS) at this interval. Default: 1 s; zero: never.
    ///
    /// The report says what the resident memory is, when it was at its peak and at the end (`Report::rss`).
    /// The worker reads it, in its cycles, so 10 ms is the shortest interval; the program's threads do
    /// nothing for it. What the memory is takes longer (`docs/memory.md` says when), and is read only when
    /// there is at least a hundredth more than ever, or when the last reading is a sixteenth of the run ago,
    /// and then at most for 1/500 of the time (for 1/20 while memory grows fast), and at the end.
    ///
    /// ```
    /// use memledger::Ledger;
    /// use std::time::Duration;
    ///
    /// let ledger = Ledger::builder().rss_interval(Duration::from_millis(100)).start()?;
    /// # drop(ledger);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn rss_interval(mut self, interval: Duration) -> Self {
        self.config.rss_interval = Some(interval);
        self
    }

    /// Writes or sends the trace to `destination`, from the start of the recording on.
    ///
    /// One file, one host and one destination of track events can be set; a later call replaces the earlier
    /// one of its kind. [`Ledger::trace_to`] adds any number while the program runs. `MEMLEDGER_TRACE`,
    /// `MEMLEDGER_HOST` and `MEMLEDGER_PERFETTO` take precedence, each over the destination of its kind.
    ///
    /// ```
    /// use memledger::{Destination, Ledger};
    ///
    /// # let file = std::env::temp_dir().join(format!("memledger-trace-to-{}.utrace", std::process::id()));
    /// # let path = file.clone();
    /// let ledger = Ledger::builder()
    ///     .trace_to(Destination::file(path))
    ///     .start()?;
    /// # drop(ledger);
    /// # let _ = std::fs::remove_file(file);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn trace_to(mut self, destination: impl Into<Destination>) -> Self {
        match destination.into().target {
            Target::File(file) => self.config.file = Some(file),
            Target::Host(address) => {
                return self.set(Address::parse(&address), |config, host| config.host = Some(host));
            }
            Target::TrackEvents(events) => self.config.track_events = Some(events),
        }
        self
    }

    /// Writes the whole trace to a file: [`trace_to`](Self::trace_to) with
    /// [`Destination::file`].
    ///
    /// ```
    /// use memledger::Ledger;
    /// # let folder = std::env::temp_dir();
    ///
    /// let ledger = Ledger::builder().trace_to_file(folder.join("builder-%p.memledger")).start()?;
    /// drop(ledger);
    /// let file = folder.join(format!("builder-{}.memledger", std::process::id()));
    /// # #[cfg(tracking)]
    /// assert!(file.exists());
    /// # let _ = std::fs::remove_file(file);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn trace_to_file(self, path: impl Into<PathBuf>) -> Self {
        self.trace_to(Destination::file(path))
    }

    /// Sends the whole trace to a recorder: [`trace_to`](Self::trace_to) with
    /// [`Destination::host`].
    ///
    /// ```no_run
    /// use memledger::Ledger;
    ///
    /// // There, `memledger serve` stores the traces of many programs.
    /// let ledger = Ledger::builder().trace_to_host("build-server").start()?;
    /// # drop(ledger);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn trace_to_host(self, address: impl Into<String>) -> Self {
        self.trace_to(Destination::host(address))
    }

    /// Analyzes the events in the process even if no report is asked for, so that a destination
    /// that is added later begins with the live blocks, and [`snapshot`](Ledger::snapshot) works.
    /// The analysis takes 22 to 40 bytes for each live block as a rule, and takes the worker
    /// several times as long as writing a compact file. Default: off.
    ///
    /// ```
    /// use memledger::Ledger;
    ///
    /// let ledger = Ledger::builder().analyze_in_process(true).start()?;
    /// # #[cfg(report)]
    /// assert!(ledger.stats().live_bytes.is_some());
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn analyze_in_process(mut self, enabled: bool) -> Self {
        self.config.analyze_in_process = enabled;
        self
    }

    /// Starts a control server, through which `memledger control` and Unreal's tools control the
    /// program while it runs: on a port of this machine, such as `1985`, or on `ADDRESS:PORT`.
    /// Default: none.
    ///
    /// If the port is taken, one from 32768 to 40959 is used, and a problem says which. The port
    /// that is used is at the start of the streams. [`control`](crate::control)
    /// describes the commands and their protection. The process then analyzes its events, as with
    /// [`analyze_in_process`](Self::analyze_in_process), so that a stream that a command starts
    /// begins with the live blocks.
    ///
    /// ```
    /// use memledger::Ledger;
    ///
    /// let builder = Ledger::builder()
    ///     .control("1985")
    ///     .control_token("kX3fQ9-Wd8") // one word, which clients send
    ///     .control_folder("traces")
    ///     .control_hosts(["build", "10.0.0.7:1981"]);
    /// # drop(builder);
    /// ```
    pub fn control(self, address: impl Into<String>) -> Self {
        let address = address.into();
        self.set(ListenAddress::parse(&address), |config, at| config.control = Some(at))
    }

    /// The token that clients of the control server must send: one word of 1 to 1024 bytes.
    /// Required if the server listens on an address that other machines can reach; it is sent in
    /// the clear.
    ///
    /// ```
    /// use memledger::{ErrorKind, Ledger};
    ///
    /// let builder = Ledger::builder().control("0.0.0.0:1985"); // which other machines can reach
    /// let refused = builder.clone().start();
    /// # #[cfg(tracking)]
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TokenRequired);
    /// let builder = builder.control_token("kX3fQ9-Wd8");
    /// # drop(builder);
    /// ```
    pub fn control_token(mut self, token: impl Into<String>) -> Self {
        self.config.allowed.token = Some(Secret(token.into()));
        self
    }

    /// The folder in which `WriteTo` may create files. Default: none.
    /// [`control`](Self::control) has an example.
    pub fn control_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.allowed.folder = Some(folder.into());
        self
    }

    /// The hosts besides this machine that `SendTo` may send the trace to: names or IP addresses,
    /// with a port or for all ports. Default: none. [`control`](Self::control) has an example.
    pub fn control_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.allowed.hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Also records the child of a `fork`: to the same host, and to files of its own beside those
    /// of the parent. A file of the child is named `NAME.PID.EXT`, unless the name has a `%p`. The
    /// child's recording begins with the live blocks. Default: off, and the child records nothing.
    ///
    /// Each fork then costs a collection like [`Ledger::flush`]. The child does not have the events
    /// of other threads of the parent in the microseconds between the collection and the fork. This
    /// setting has no effect on a program that is started with `exec`, in a child or without a
    /// fork: such a program is recorded as the environment that it inherits says.
    ///
    /// ```
    /// # use memledger::{Ledger, ReportTo};
    /// // A server of several processes: each writes files that its group may read.
    /// let builder = Ledger::builder()
    ///     .trace_to_file("server-%p.memledger")
    ///     .follow_forks(true)
    ///     .file_mode(0o640);
    /// # drop(builder);
    /// ```
    pub fn follow_forks(mut self, enabled: bool) -> Self {
        self.config.follow_forks = enabled;
        self
    }

    /// The permissions of the files that the program writes, traces and reports: `0o640` lets its
    /// group read them. From `0o600` to `0o777`; the mask of the process does not apply. Default:
    /// `0o600`, since names, thread names and addresses may be confidential.
    ///
    /// An existing file that belongs to this user also gets these permissions. A file that is
    /// named only by a descriptor (`/dev/stderr`, `/dev/fd/3`) keeps its own.
    ///
    /// ```
    /// use memledger::Ledger;
    /// # let path = std::env::temp_dir().join(format!("memledger-mode-{}.utrace", std::process::id()));
    ///
    /// let ledger = Ledger::builder().trace_to_file(&path).file_mode(0o640).start()?;
    /// # #[cfg(tracking)] {
    /// use std::os::unix::fs::PermissionsExt;
    /// let mode = path.metadata().unwrap().permissions().mode();
    /// assert_eq!(mode & 0o777, 0o640);
    /// # }
    /// # drop(ledger);
    /// # let _ = std::fs::remove_file(path);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.config.file_mode = Some(mode);
        self
    }

    /// The channels to record, one or more separated by commas in each text: `memory` (every allocation,
    /// reallocation and free), `scope` (the scopes and tags in which they happen), and the channels of the
    /// program to enable. Default: `memory,scope`.
    ///
    /// ```
    /// use memledger::Ledger;
    ///
    /// memledger::events::channel! { GAME = "Game"; }
    /// let builder = Ledger::builder().channels(["memory", "scope", "game"]);
    /// # drop((builder, &GAME));
    /// ```
    pub fn channels(self, channels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let channels = channels.into_iter().map(Into::into).collect::<Vec<_>>().join(",");
        self.set(channel::names(&channels), |config, names| config.channels = Some(names))
    }

    /// Which allocations have their call stack recorded. Default: [`Stacks::Off`].
    ///
    /// ```
    /// use memledger::{Ledger, Stacks};
    ///
    /// let builder = Ledger::builder().stacks(Stacks::Sampled { mean_bytes: 512 << 10 });
    /// ```
    pub fn stacks(mut self, stacks: Stacks) -> Self {
        self.config.stacks = Some(stacks);
        self
    }

    /// The maximum number of frames of a call stack, 1 to 255; the outer frames of a deeper stack
    /// are left out, and the trace says so. Default: 255.
    ///
    /// ```
    /// use memledger::{Ledger, Stacks};
    ///
    /// // The innermost 32 frames of each stack, in at most 16 MiB.
    /// let builder = Ledger::builder().stacks(Stacks::On).stack_frames(32).stack_memory(16 << 20);
    /// # drop(builder);
    /// ```
    pub fn stack_frames(mut self, frames: u8) -> Self {
        self.config.stack_bounds.frames = Some(frames);
        self
    }

    /// The most memory that call stacks may take, in bytes, 1 MiB to 64 MiB. Default: 64 MiB, which is room
    /// for 3 million stacks of usual programs.
    ///
    /// Further stacks have only those of their outer frames that are known by then, and an innermost frame
    /// that says so; the report counts them. That takes at most an eighth more.
    /// [`stack_frames`](Self::stack_frames) has an example.
    pub fn stack_memory(mut self, bytes: u64) -> Self {
        self.config.stack_bounds.memory = Some(bytes);
        self
    }

    /// Who collects the events. Default: a worker thread. [`Ledger::collect`] has an example.
    pub fn worker(mut self, worker: Worker) -> Self {
        self.config.worker = worker;
        self
    }

    /// Bound on the memory of all event buffers together, in bytes; at least 128 KiB. Default: 8
    /// MiB.
    ///
    /// Each thread may have two buffers of 4 KiB beyond the limit, so that idle threads cannot use
    /// up the limit.
    ///
    /// ```
    /// use memledger::{Ledger, OnFull};
    ///
    /// // For threads that must not wait: more memory, and events are dropped before one waits.
    /// let builder = Ledger::builder().buffer_limit(64 << 20).on_full(OnFull::Drop);
    /// # drop(builder);
    /// ```
    pub fn buffer_limit(mut self, bytes: usize) -> Self {
        self.config.buffer_limit = Some(bytes);
        self
    }

    /// What a thread does when all buffers are full. Default: it waits, at most one second for a
    /// worker that makes no progress. [`buffer_limit`](Self::buffer_limit) has an example.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.config.on_full = Some(on_full);
        self
    }

    /// Starts recording. `MEMLEDGER_*` variables take precedence, each over its own setting.
    ///
    /// If the environment has already started recording before `main`, this adds the settings that
    /// the environment does not set, and returns a handle that does not end the recording.
    /// [`worker`](Self::worker), [`analyze_in_process`](Self::analyze_in_process),
    /// [`follow_forks`](Self::follow_forks), [`rss_interval`](Self::rss_interval) and the channel `memory`
    /// have no effect then, because they concern the recording from its start. [`Ledger::problems`] names the
    /// settings that are not used.
    ///
    /// ```
    /// use memledger::{ErrorKind, Ledger};
    ///
    /// let ledger = Ledger::builder().start()?;
    /// // A process has one recording at a time.
    /// let second = Ledger::builder().start();
    /// # #[cfg(tracking)]
    /// assert_eq!(second.unwrap_err().kind(), ErrorKind::AlreadyStarted);
    /// # drop(ledger);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyStarted`], [`ErrorKind::MeasurementRunning`]; [`ErrorKind::File`] if a file cannot
    /// be created; [`ErrorKind::InvalidSetting`], [`ErrorKind::InvalidChannels`],
    /// [`ErrorKind::TokenRequired`] and [`ErrorKind::StacksUnsupported`] for settings that are not allowed;
    /// [`ErrorKind::Listen`] and [`ErrorKind::ThreadNotStarted`] if the system refuses;
    /// [`ErrorKind::UnsupportedPlatform`] where nothing is recorded; [`ErrorKind::ForkedChild`] in the
    /// child of a `fork`; [`ErrorKind::TimedOut`] after 5 s.
    pub fn start(self) -> Result<Ledger, Error> {
        match self.refused {
            Some(error) => Err(error),
            None => operations::start(&self.config).map(Ledger::new),
        }
    }
}
