//! Where events go, and the check that every one came there once.

use crate::analyze::{self, Account};
use crate::workload::Calls;
use memledger::{Ledger, LedgerBuilder, ReportTo};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What figures of it are called.
    pub name: &'static str,
    /// How the trace's name ends, which decides what is written.
    file: Option<&'static str>,
    /// Whether that name is a link to `/dev/null`.
    null: bool,
    report: bool,
}

impl Mode {
    const fn new(name: &'static str, file: Option<&'static str>, null: bool, report: bool) -> Self {
        Self { name, file, null, report }
    }

    /// Every way in which events go somewhere.
    pub const DESTINATIONS: [Self; 6] = [
        Self::NULL,
        Self::FILE,
        Self::COMPACT,
        Self::REPORT,
        Self::FILE_AND_REPORT,
        Self::COMPACT_AND_REPORT,
    ];
    /// Collected by the worker, and dropped.
    pub const NOTHING: Self = Self::new("nothing", None, false, false);
    /// A plain trace to `/dev/null`.
    pub const NULL: Self = Self::new("/dev/null", Some("utrace"), true, false);
    /// A compact trace to `/dev/null`.
    pub const NULL_COMPACT: Self = Self::new("/dev/null, compact", Some("memledger"), true, false);
    /// A plain trace.
    pub const FILE: Self = Self::new("file", Some("utrace"), false, false);
    /// A compact trace.
    pub const COMPACT: Self = Self::new("compact file", Some("memledger"), false, false);
    /// The account in the process.
    pub const REPORT: Self = Self::new("report", None, false, true);
    /// A plain trace and the account.
    pub const FILE_AND_REPORT: Self = Self::new("file + report", Some("utrace"), false, true);
    /// A compact trace and the account.
    pub const COMPACT_AND_REPORT: Self =
        Self::new("compact file + report", Some("memledger"), false, true);

    /// Those of `modes` that this memledger can do; says which it cannot.
    pub fn available(modes: &[Self]) -> Vec<Self> {
        let asked = modes.iter().any(|mode| mode.file == Some("memledger"));
        let compact = !asked || compact_is_supported();
        modes.iter().filter(|mode| compact || mode.file != Some("memledger")).copied().collect()
    }
}

/// Tries both ways to ask for a compact trace: in code, and as a user does from outside, which says
/// on stderr what is wrong.
fn compact_is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let path = folder().join(format!("probe-{}.memledger", std::process::id()));
        let supported = match Ledger::builder().trace_to_file(&path).start() {
            Err(error) => {
                eprintln!("{error}");
                false
            }
            Ok(ledger) => {
                drop(ledger);
                let file = format!("-tracefile={}", path.display());
                let flags = [file, "-tracereport=off".to_owned()];
                let (ledger, _) = Ledger::from_args(flags.map(Into::into));
                ledger.problems().iter().all(|problem| !problem.to_string().contains("compact"))
            }
        };
        let _ = fs::remove_file(path);
        if !supported {
            println!("Compact files are left out: this memledger refuses to write one.");
        }
        supported
    })
}

/// Where the benches keep what they write.
pub fn folder() -> PathBuf {
    // Of the benches' own, so that it is there however a bench is started.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/benches");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// A recording that is being made.
pub struct Recording {
    /// The recording's handle.
    pub ledger: Ledger,
    mode: Mode,
    trace: PathBuf,
    report: PathBuf,
    events_before: u64,
}

/// What a recording turned out to be.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Bytes of the trace file, if there is one.
    pub file_bytes: Option<u64>,
    /// What the trace file holds.
    pub file: Option<Account>,
}

impl Recorded {
    /// Bytes of the file, of each event.
    pub fn bytes_per_event(&self) -> Option<f64> {
        Some(self.file_bytes? as f64 / self.file.as_ref()?.events.max(1) as f64)
    }
}

impl Recording {
    /// Starts it, as `builder` is set.
    pub fn start(mode: Mode, builder: LedgerBuilder) -> Self {
        let name = |end| folder().join(format!("bench-{}.{end}", std::process::id()));
        let (trace, report) = (name(mode.file.unwrap_or("none")), name("json"));
        let mut builder = builder;
        if mode.file.is_some() {
            let _ = fs::remove_file(&trace);
            if mode.null {
                std::os::unix::fs::symlink("/dev/null", &trace).expect("a link can be made");
            }
            builder = builder.trace_to_file(&trace);
        }
        if mode.report {
            builder = builder.report_on_exit(ReportTo::file(&report));
        }
        let ledger = builder.start().expect("a ledger starts");
        let events_before = ledger.stats().events;
        Self { ledger, mode, trace, report, events_before }
    }

    /// Ends it, and checks it against what the loads did. Stops the bench if an event was lost,
    /// came twice or was made up: its figures would be of something else.
    pub fn finish(self, calls: Calls) -> Recorded {
        let check = |account: &Account, whose: &str| {
            assert_eq!(account.problems, [""; 0], "{whose}, {}", self.mode.name);
            let measured = (account.measured_allocations, account.measured_frees);
            let done = (calls.allocations, calls.frees);
            assert_eq!(measured, done, "allocations and frees in {whose}, {}", self.mode.name);
        };
        self.ledger.flush();
        let stats = self.ledger.stats();
        assert_eq!(stats.lost_events, 0, "{}", self.mode.name);
        // The harness allocates too, so this is not exact; the reports below are.
        let events = stats.events - self.events_before;
        assert!(events >= calls.events(), "{events} of {} events", calls.events());
        if self.mode.report {
            let snapshot = self.ledger.snapshot().expect("a report was asked for");
            let mut account = Account::of(snapshot.report());
            // The recording continues: only its end makes a report complete.
            account.problems.retain(|problem| problem != "the report is not complete");
            check(&account, "the report");
        }
        let _ = self.ledger.finish();
        let mut recorded = Recorded::default();
        if self.mode.file.is_some() && !self.mode.null {
            recorded.file_bytes = fs::metadata(&self.trace).map(|file| file.len()).ok();
            let account = analyze::in_child(&self.trace).expect("a trace that can be read");
            check(&account, "the trace");
            recorded.file = Some(account);
        }
        let _ = (fs::remove_file(&self.trace), fs::remove_file(&self.report));
        recorded
    }
}

/// Uses the early buffer up: after 1 MiB of events without a start, recording ends, and the
/// tracker is off.
pub fn use_up_early_buffer() {
    for _ in 0..200_000 {
        drop(std::hint::black_box(Box::new([0_u64; 8])));
    }
}
