//! The handle that a program holds.

use super::builder::LedgerBuilder;
use super::destinations::{Destination, DestinationHandle};
use super::operations::{self, Generation};
use super::stats::{FinishError, Stats};
use crate::dump::Snapshot;
use crate::error::Error;
use crate::error::{Problem, ProblemKind};
use std::ffi::OsString;
use std::path::PathBuf;

/// Records the program's memory from here on, until it is dropped or finished; then reports.
///
/// ```
/// use memledger::{Ledger, TrackingAllocator, alloc_scope};
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
///
/// fn main() {
///     let _ledger = Ledger::from_env(); // a report on stderr at the end, unless MEMLEDGER_* say otherwise
///     let level = alloc_scope!("load level", { vec![0_u8; 1 << 20] });
///     drop(level);
/// }
/// ```
///
/// A process has one recording at a time. The ledger that started the recording ends it: return
/// from `main`, `std::process::exit` and a panic all write the report, once. A handle to a
/// recording that the environment had started before `main` ends nothing; that recording ends, and
/// its report is written, when the process exits.
///
/// In the child of a `fork` nothing is recorded and nothing is reported: the buffers, the file and
/// the report are the parent's. With [`LedgerBuilder::follow_forks`] the child has its own.
#[derive(Debug)]
#[doc(alias = "Profiler")]
#[doc(alias = "heap profiler")]
#[must_use = "recording ends when the ledger is dropped"]
pub struct Ledger {
    generation: Generation,
}

impl Ledger {
    /// Starts as the environment says; by default a report on stderr at the end. Keep the handle in a
    /// variable: `let _ = Ledger::from_env();` ends the recording at once.
    ///
    /// Never fails: each setting that cannot be applied is reported, as one line on stderr and one
    /// entry in [`problems`](Self::problems), and so is each unknown `MEMLEDGER_` variable.
    ///
    /// | variable, flag, method | default | meaning |
    /// |---|---|---|
    /// | `MEMLEDGER_ANALYZE_IN_PROCESS`, `-traceanalyzeinprocess=`, [`analyze_in_process`](LedgerBuilder::analyze_in_process) | `0` | `1`: analyze the events in the process even without a report, for `stats`, `snapshot` and destinations that are added later |
    /// | `MEMLEDGER_BLACK_BOX`, `-traceblackbox=`, [`black_box_at`](LedgerBuilder::black_box_at) | none | where this many bytes are live (`2GiB`, or `90%` of the limit of the control group), and where the allocator returns null, write who holds the memory to stderr, a *black box*; `null`: only where it returns null |
    /// | `MEMLEDGER_BUFFER_LIMIT`, `-tracebufferlimit=`, [`buffer_limit`](LedgerBuilder::buffer_limit) | `8MiB` | the bound on the memory of all event buffers, `128KiB` or more |
    /// | `MEMLEDGER_CHANNELS`, `-trace=`, [`channels`](LedgerBuilder::channels) | `memory,scope` | channels to record, separated by commas: `memory`, `scope`, `freescope` (the scopes in which blocks are freed), the program's own, and presets (`default` is `memory,scope`) |
    /// | `MEMLEDGER_CONTROL`, `-tracecontrol=`, [`control`](LedgerBuilder::control) | none | where the control server listens: a port of this machine (`0`: any), or `ADDRESS:PORT` |
    /// | `MEMLEDGER_CONTROL_FOLDER`, `-tracecontrolfolder=`, [`control_folder`](LedgerBuilder::control_folder) | none | the folder in which `write-to` may create files |
    /// | `MEMLEDGER_CONTROL_HOSTS`, `-tracecontrolhosts=`, [`control_hosts`](LedgerBuilder::control_hosts) | none | hosts besides this machine that `send-to` may send to, separated by commas |
    /// | `MEMLEDGER_CONTROL_TOKEN_FILE`, `-tracecontroltokenfile=`, [`control_token`](LedgerBuilder::control_token) | none | clients of the control server must send the first line of this file, which no other user may read |
    /// | `MEMLEDGER_FILE_MODE`, `-tracefilemode=`, [`file_mode`](LedgerBuilder::file_mode) | `600` | permissions of the traces and reports that the program writes: octal, `600` to `777` |
    /// | `MEMLEDGER_FOLLOW_FORKS`, `-tracefollowforks=`, [`follow_forks`](LedgerBuilder::follow_forks) | `0` | `1`: record the children of forks as well, each to files of its own |
    /// | `MEMLEDGER_HOST`, `-tracehost=`, [`trace_to_host`](LedgerBuilder::trace_to_host) | none | send the trace to this recorder, `HOST` or `HOST:PORT`; without a port 1980, and 1981 where that refuses |
    /// | `MEMLEDGER_ON_FULL`, `-traceonfull=`, [`on_full`](LedgerBuilder::on_full) | `wait` | what a thread does when all buffers are full: `wait` for the worker, at most 1 s if that makes no progress, or `drop` the event and count it |
    /// | `MEMLEDGER_PERFETTO`, `-traceperfetto=`, [`trace_to`](LedgerBuilder::trace_to) | none | write track events to this file (feature `perfetto`) |
    /// | `MEMLEDGER_PERFETTO_CONFIG`, `-traceperfettoconfig=`, [`trace_to`](LedgerBuilder::trace_to) | all categories | which track events: words such as `categories=game*,-net`, `ring=4MiB`, `duration=10s`, `memory=1s` |
    /// | `MEMLEDGER_REPORT`, `-tracereport=`, [`report_on_exit`](LedgerBuilder::report_on_exit) | `stderr`; a builder has none | where the report goes: `stderr`, `off`, or a file that ends in `.txt`, `.json`, `.html` or `.pb.gz` |
    /// | `MEMLEDGER_REPORT_LARGEST_LIVE`, `-tracereportlargestlive=`, [`ReportTo::largest_live`](crate::ReportTo::largest_live) | 100 in JSON, 10 in a verbose text, else 0 | how many of the largest live blocks the report lists |
    /// | `MEMLEDGER_REPORT_ON_SIGNALS`, `-tracereportonsignals=`, [`report_on_signals`](LedgerBuilder::report_on_signals) | `0` | `1`: report also if SIGTERM, SIGINT, SIGHUP, `abort` or a crash ends the program |
    /// | `MEMLEDGER_REPORT_VERBOSE`, `-tracereportverbose=`, [`ReportTo::verbose`](crate::ReportTo::verbose) | `0` | `1`: a text report also has threads, sizes, the largest blocks, bookmarks, the tracker's own bytes and the accuracy of times |
    /// | `MEMLEDGER_RSS`, `-tracerss=`, [`rss_interval`](LedgerBuilder::rss_interval) | `1s` | how often the resident memory is read, such as `100ms` (at least 10 ms); `off`: never |
    /// | `MEMLEDGER_STACKS`, `-tracestacks=`, [`stacks`](LedgerBuilder::stacks) | `off` | record call stacks: `on`, `off`, or of a sample of the bytes, such as `sample:512KiB` |
    /// | `MEMLEDGER_STACK_FRAMES`, `-tracestackframes=`, [`stack_frames`](LedgerBuilder::stack_frames) | `255` | the most frames of a stack, the innermost ones: 1 to 255 |
    /// | `MEMLEDGER_STACK_MEMORY`, `-tracestackmemory=`, [`stack_memory`](LedgerBuilder::stack_memory) | `64MiB` | the most memory that call stacks may take in the process, `1MiB` to `64MiB` |
    /// | `MEMLEDGER_TRACE`, `-tracefile=`, [`trace_to_file`](LedgerBuilder::trace_to_file) | none | write the trace to this file, compact if it ends in `.memledger` or has no ending |
    /// | `MEMLEDGER_WATCH`, `-tracewatch=`, [`watch`](LedgerBuilder::watch) | `1` with a named report or `MEMLEDGER_REPORT_ON_SIGNALS=1`, where it is possible; else `0` | `1`: a watcher process completes the trace and the report however the program ends; `0`: none |
    ///
    /// `memledger run` sets `MEMLEDGER_PARENT` (only children of that process use these variables),
    /// `MEMLEDGER_PROBLEMS` (the socket to which problems go in place of stderr) and `MEMLEDGER_RUN` (which
    /// variables it has set). A variable with an empty value is not set.
    ///
    /// Only a report that is named starts a watcher: the one on stderr that this function makes by default
    /// does not.
    ///
    /// ```
    /// // MEMLEDGER_REPORT=report.html MEMLEDGER_STACKS=on ./program
    /// let _ledger = memledger::Ledger::from_env();
    /// ```
    pub fn from_env() -> Self {
        Self::new(operations::from_env())
    }

    /// Starts with the settings of command-line flags, and those of the environment that no flag
    /// sets; returns the arguments that are not flags of memledger.
    ///
    /// The flags are those in the table of [`from_env`](Self::from_env), with the values of the variables.
    /// `-tracestacks` and `-tracewatch` without a value mean `on` and `1`. As in Unreal, `-trace=` names
    /// channels and `-tracefile=` the file.
    ///
    /// As in the environment, who names a report by a flag gets it however the program ends: `-tracereport=`
    /// starts a [watcher](LedgerBuilder::watch), if the process has no other thread yet and `-tracewatch=0`
    /// does not say no.
    ///
    /// ```no_run
    /// use memledger::Ledger;
    ///
    /// // `game -tracefile=run.utrace level3`: `rest` is `game level3`.
    /// let (_ledger, rest) = Ledger::from_args(std::env::args_os());
    /// ```
    pub fn from_args(args: impl IntoIterator<Item = OsString>) -> (Self, Vec<OsString>) {
        let (generation, rest) = operations::from_args(args);
        (Self::new(generation), rest)
    }

    /// The handle that ends the recording `generation`.
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation }
    }

    /// A handle to the recording that is running, also if the environment started it; `None` if none is
    /// running. Dropping or finishing this handle does not end the recording.
    ///
    /// ```
    /// use memledger::Ledger;
    ///
    /// fn live_bytes() -> Option<u64> {
    ///     Ledger::current()?.stats().live_bytes
    /// }
    /// # assert_eq!(live_bytes(), None);
    /// ```
    pub fn current() -> Option<Self> {
        operations::current().map(Self::new)
    }

    /// Sets in code what is recorded and where it goes. [`LedgerBuilder`] has an example.
    pub fn builder() -> LedgerBuilder {
        LedgerBuilder::default()
    }

    /// Writes or sends the trace to one more destination from here on.
    ///
    /// Its stream begins with the live blocks if the process analyzes its events: with a report, a
    /// host, a control server, [`LedgerBuilder::follow_forks`] or
    /// [`LedgerBuilder::analyze_in_process`].
    /// Otherwise the stream begins without blocks, and says that it is not from the start of the
    /// process. Copying the live blocks takes 20 to 30 ms for each million of them, during which
    /// the worker collects nothing, and 34 bytes for each block until it is written.
    ///
    /// Returns at once. A thread that exists for this destination connects to the host, and gives
    /// up after 2 s; [`DestinationHandle::status`] and [`problems`](Self::problems) say whether it
    /// worked. A connection that is lost stays lost: call this again, and a new stream begins with
    /// the blocks that are live then.
    ///
    /// ```
    /// use memledger::{Destination, Ledger};
    ///
    /// let ledger = Ledger::builder().analyze_in_process(true).start()?;
    /// // Later, on demand:
    /// let recorder = ledger.trace_to(Destination::host("127.0.0.1"))?;
    /// // ...
    /// recorder.stop();
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::File` if the file cannot be created; `ErrorKind::InvalidSetting`;
    /// `ErrorKind::NotRecording`; `ErrorKind::ForkedChild`; `ErrorKind::TimedOut` for 5 s;
    /// `ErrorKind::OutOfMemory` for the copy; `ErrorKind::ThreadNotStarted`; `ErrorKind::InvalidSession` for
    /// track events whose configuration is too large, while 16 others run, or with memory that this process
    /// does not analyze.
    pub fn trace_to(
        &self,
        destination: impl Into<Destination>,
    ) -> Result<DestinationHandle, Error> {
        operations::trace_to(&destination.into())
    }

    /// Writes the whole trace to one more file: [`trace_to`](Self::trace_to) with
    /// [`Destination::file`].
    ///
    /// ```
    /// # use memledger::Ledger;
    /// # let path = std::env::temp_dir().join("memledger-doc-%p.utrace");
    /// let ledger = Ledger::builder().analyze_in_process(true).start()?;
    /// let file = ledger.trace_to_file(path)?; // with the blocks that are live now
    /// file.stop();
    /// # let _ = std::fs::remove_file(file.status().name);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`trace_to`](Self::trace_to).
    pub fn trace_to_file(&self, path: impl Into<PathBuf>) -> Result<DestinationHandle, Error> {
        self.trace_to(Destination::file(path))
    }

    /// Sends the whole trace to one more recorder: [`trace_to`](Self::trace_to) with
    /// [`Destination::host`].
    ///
    /// ```no_run
    /// # use memledger::Ledger;
    /// let ledger = Ledger::builder().analyze_in_process(true).start()?;
    /// let recorder = ledger.trace_to_host("build-server:1980")?;
    /// // ...
    /// println!("{:?}", recorder.status());
    /// recorder.stop();
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`trace_to`](Self::trace_to).
    pub fn trace_to_host(&self, address: impl Into<String>) -> Result<DestinationHandle, Error> {
        self.trace_to(Destination::host(address))
    }

    /// All destinations of the process but the first file, oldest first; of those that have ended,
    /// the last 64.
    ///
    /// ```
    /// # use memledger::Ledger;
    /// # let ledger = Ledger::builder().start()?;
    /// for destination in ledger.destinations() {
    ///     println!("{:?}", destination.status());
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn destinations(&self) -> Vec<DestinationHandle> {
        operations::destinations()
    }

    /// Where the control server listens, if there is one: [`LedgerBuilder::control`].
    ///
    /// ```
    /// # use memledger::Ledger;
    /// let ledger = Ledger::builder().control("0").start()?; // any free port
    /// if let Some(address) = ledger.control_address() {
    ///     println!("memledger control {address}");
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn control_address(&self) -> Option<std::net::SocketAddr> {
        operations::control_address()
    }

    /// The program's heap now: live and peak bytes, live blocks, blocks at the peak of bytes; and the
    /// tracker's own bytes, with other figures of the recording. All that happened before the call is in
    /// them, on any thread.
    ///
    /// ```
    /// use memledger::{Ledger, TrackingAllocator};
    ///
    /// #[global_allocator]
    /// static ALLOC: TrackingAllocator = TrackingAllocator::system();
    ///
    /// # fn main() {
    /// # #[cfg(report)] {
    /// let ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    /// let before = ledger.stats();
    /// let block = vec![0_u8; 1000];
    /// let after = ledger.stats();
    /// assert_eq!(after.live_bytes.unwrap() - before.live_bytes.unwrap(), 1000);
    /// assert_eq!(after.live_blocks.unwrap() - before.live_blocks.unwrap(), 1);
    /// # drop(block);
    /// # }
    /// # }
    /// ```
    ///
    /// Costs a [`flush`](Self::flush): 14 us, and 35 ns for each event since the worker's last cycle, which
    /// is at most 10 ms ago as a rule (`cargo bench -p memledger-benches --bench stats`). Waits at most 5 s
    /// for a worker that is stuck in a write, and for a thread that is stuck within the hook; then the
    /// figures are as of the last cycle. [`recent_stats`](Self::recent_stats) is for a program that asks very
    /// often: it takes 40 ns.
    #[doc(alias = "HeapStats")]
    pub fn stats(&self) -> Stats {
        operations::stats()
    }

    /// The same figures as of the worker's last cycle, which is at most 10 ms ago as a rule; a few loads.
    ///
    /// ```
    /// # use memledger::Ledger;
    /// # let ledger = Ledger::builder().analyze_in_process(true).start()?;
    /// // For each request: whether to take it.
    /// let is_full = ledger.recent_stats().live_bytes.is_some_and(|bytes| bytes > 2 << 30);
    /// assert!(!is_full);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn recent_stats(&self) -> Stats {
        operations::recent_stats()
    }

    /// The figures now; `None` if the events are not analyzed in the process: without a report, a
    /// host, a control server, [`LedgerBuilder::follow_forks`] and
    /// [`LedgerBuilder::analyze_in_process`].
    ///
    /// Costs a [`flush`](Self::flush) and time in proportion to the live blocks.
    ///
    /// [`Snapshot`] has an example.
    pub fn snapshot(&self) -> Option<Snapshot> {
        operations::snapshot()
    }

    /// A heap profile now, as `go tool pprof`, Parca and Pyroscope read it: `profile.proto` in gzip,
    /// with `alloc_objects`, `alloc_space`, `inuse_objects`, `inuse_space`, `peak_objects` and
    /// `peak_space`, and with scope, group, name and thread as labels. In a recording with call stacks
    /// its frames are functions, which are looked for in the program's files (feature `symbols`);
    /// without, they are scopes and names.
    ///
    /// Costs a [`flush`](Self::flush), time in proportion to live blocks and stacks, and the first time
    /// that of reading the program's debug information: up to some seconds. Functions that were found
    /// are kept, some hundred bytes for each frame. The program's other threads continue. An `async`
    /// program calls it where a thread may block. What it takes is the tracker's memory; the bytes are
    /// the program's.
    ///
    /// ```
    /// use memledger::{Ledger, ReportTo};
    ///
    /// let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).start()?;
    /// # if cfg!(report) {
    /// let profile = ledger.pprof()?;
    /// std::fs::write(std::env::temp_dir().join("heap.pb.gz"), profile).expect("a file");
    /// # }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::NotAnalyzed` if nothing is being recorded, or the events are not analyzed in the
    /// process: see [`snapshot`](Self::snapshot); `ErrorKind::ForkedChild`; `ErrorKind::OutOfMemory`;
    /// `ErrorKind::TimedOut` for 5 s.
    #[cfg(feature = "pprof")]
    pub fn pprof(&self) -> Result<Vec<u8>, Error> {
        operations::profile()
    }

    /// Collects the events of all threads and writes them, as the worker thread does by itself: on this
    /// thread, or on one made for it if the worker has a table of descriptors of its own. With
    /// [`Worker::Manual`](crate::Worker::Manual) the program calls this, often enough that the buffers do not
    /// fill.
    ///
    /// ```
    /// use memledger::{Ledger, Worker};
    ///
    /// let ledger = Ledger::builder().worker(Worker::Manual).start()?;
    /// for _frame in 0..3 {
    ///     // ... the work of a frame ...
    ///     ledger.collect();
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn collect(&self) {
        operations::collect(false);
    }

    /// Collects everything recorded so far and writes it to the trace file and the report's
    /// figures. Waits at most 5 s for a worker that is stuck in a write.
    ///
    /// Costs 50 us more than [`collect`](Self::collect): it runs on a thread of its own, so that the
    /// tracker's allocations do not make the program's allocator consolidate blocks that this
    /// thread has freed.
    ///
    /// ```
    /// # use memledger::Ledger;
    /// # let path = std::env::temp_dir().join(format!("memledger-flush-{}.utrace", std::process::id()));
    /// let ledger = Ledger::builder().trace_to_file(&path).start()?;
    /// ledger.flush(); // whatever comes now, the file has all before it
    /// # assert!(!cfg!(tracking) || path.exists());
    /// # drop(ledger);
    /// # let _ = std::fs::remove_file(path);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn flush(&self) {
        operations::flush();
    }

    /// Ends recording and reports, if this handle started it; a new ledger may start then. Returns the last
    /// figures.
    ///
    /// # Errors
    /// The [`problems`](Self::problems) that no earlier call has returned, such as events that are lost, or a
    /// report that could not be written. What was recorded is written as far as it can be all the same.
    ///
    /// ```
    /// use memledger::Ledger;
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let ledger = Ledger::builder().analyze_in_process(true).start()?;
    ///     // ... the program ...
    ///     println!("{} events", ledger.finish()?.events);
    ///     Ok(())
    /// }
    /// ```
    pub fn finish(mut self) -> Result<Stats, FinishError> {
        let stats = operations::finish(&mut self.generation);
        let problems = operations::new_problems();
        match problems.iter().all(|problem| problem.kind() == ProblemKind::Overridden) {
            true => Ok(stats),
            false => Err(FinishError { problems, stats: Box::new(stats) }),
        }
    }

    /// The problems so far, one sentence each, oldest first: at most 1 000, and one more that says
    /// that there were others. Each was also a line on stderr, but for [`ProblemKind::Overridden`] and lost
    /// events.
    ///
    /// ```
    /// # use memledger::Ledger;
    /// # let ledger = Ledger::builder().start()?;
    /// for problem in ledger.problems() {
    ///     eprintln!("{problem}");
    /// }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn problems(&self) -> Vec<Problem> {
        operations::problems()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        operations::finish(&mut self.generation);
    }
}
