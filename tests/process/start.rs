//! How a recording starts: by the environment, in code, or both.
#![cfg_attr(unix, expect(unsafe_code, reason = "a terminal is made by calls of libc"))]

use crate::harness::{Case, REPORT, TRACE, builder, case, churn, leave, left, start};
#[cfg(target_os = "linux")]
use crate::{counts::reported, harness::Run};
use memledger::{ErrorKind, Ledger, ProblemKind, ReportTo};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
#[cfg(unix)]
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    case("the environment starts a program without code from before main", nothing, |run| {
        let outcome = run.tracked().env("TEST_LEAVE", "1").run();
        let report = outcome.quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(left(&report, BEFORE_MAIN as u64), 1, "what .init_array allocated");
        assert_eq!(left(&report, IN_MAIN as u64), 1);
        assert_eq!(report.trace.pid, Some(outcome.pid));
        assert_eq!(report.by_thread[0].name, "main");
        // On Windows and macOS the first thread has a number of its own.
        #[cfg(target_os = "linux")]
        assert_eq!(report.by_thread[0].system_id, Some(outcome.pid));
    }),
    case("the environment asks for a report only", nothing, |run| {
        let outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
        outcome.quiet();
        assert_eq!(outcome.files(), [REPORT]);
        let report: serde_json::Value = serde_json::from_str(&outcome.report(REPORT)).unwrap();
        assert_eq!(report["schema"], "memledger.report/1");
        assert_eq!(report["trace"]["from_process_start"], true);
        assert_eq!(report["trace"]["complete"], true);
    }),
    case("the environment asks for a trace, and the report goes to stderr", nothing, |run| {
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).run();
        outcome.exited(0);
        assert!(!outcome.stderr.is_empty());
        assert_eq!(outcome.files(), [TRACE]);
        let (report, _) = outcome.trace(TRACE);
        assert!(report.trace.complete);
    }),
    case("a report that is off is not made", nothing, |run| {
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        outcome.quiet();
        assert_eq!(outcome.files(), [TRACE]);
        assert!(outcome.trace(TRACE).0.trace.complete);
    }),
    case("without variables nothing happens", nothing, |run| {
        let outcome = run.env("MEMLEDGER_TRACE", "").env("MEMLEDGER_REPORT", "").run();
        outcome.quiet();
        assert_eq!(outcome.files(), [""; 0]);
    }),
    case("channels alone start nothing", nothing, |run| {
        let outcome = run.env("MEMLEDGER_CHANNELS", "memory").run();
        outcome.quiet();
        assert_eq!(outcome.files(), [""; 0]);
    }),
    case("a bad channel is told and the default used", scoped, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", "memory,c pu").run();
        one_line(&outcome.stderr, &["MEMLEDGER_CHANNELS", "memory,c pu", "memory and scope"]);
        let report = outcome.exited(7).whole();
        assert!(crate::harness::scope(&report, &["GlobalScope", "work"]).is_some());
    }),
    case("a bad report is told and the default used", seven, |run| {
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "x.pdf").run();
        outcome.exited(7);
        let (first, rest) = outcome.stderr.split_once('\n').unwrap();
        one_line(&format!("{first}\n"), &["MEMLEDGER_REPORT", "x.pdf", "stderr", "off", ".json"]);
        assert!(!rest.is_empty(), "the report itself");
        assert_eq!(outcome.files(), [TRACE]);
    }),
    case("the name of the file says how it is coded", seven, |run| {
        let mut outcome = run.env("MEMLEDGER_TRACE", "no/x").env("MEMLEDGER_REPORT", REPORT).run();
        one_line(&outcome.stderr, &["no/x"]);
        for (name, transport) in [("x.memledger", 78), ("plain", 78), ("x.trace", 4)] {
            let run = outcome.again().env("MEMLEDGER_TRACE", name);
            outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
            assert_eq!(outcome.stderr, "");
            outcome.exited(7).whole_as(name, REPORT);
            let bytes = std::fs::read(outcome.path(name)).unwrap();
            assert_eq!(bytes[46], transport, "{name}");
        }
    }),
    case("the scope channel can be off", scoped, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", "memory").run();
        let report = outcome.exited(7).whole();
        assert_eq!(report.by_scope.len(), 1, "{:?}", report.by_scope);
        assert!(report.totals.allocations > 0);
    }),
    case("the memory channel can be off", scoped, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", "scope").run();
        let report = outcome.exited(7).whole();
        assert_eq!(report.totals.allocations, 0);
        assert_eq!(report.totals.frees, 0);
        assert_eq!(report.trace.memory_recorded, Some(false));
        // Printed instead of figures that are all 0.
        let run = outcome.again().env("MEMLEDGER_CHANNELS", "scope");
        let outcome = run.env("MEMLEDGER_REPORT", "stderr").run();
        let text = &outcome.stderr;
        assert!(text.contains("the channel \"memory\" is not in this recording"), "{text}");
        assert!(!text.contains("peak"), "{text}");
    }),
    case("the report is short unless everything is asked for", scoped, |run| {
        let outcome = run.env("MEMLEDGER_REPORT", "stderr").run();
        let short = &outcome.stderr;
        assert!(short.contains("Who held the peak") && !short.contains("By thread"), "{short}");
        let run = outcome.again().env("MEMLEDGER_REPORT", "x.txt");
        let outcome = run.env("MEMLEDGER_REPORT_VERBOSE", "1").run();
        let whole = outcome.report("x.txt");
        for part in ["By thread", "By size", "the tracker", "accurate to"] {
            assert!(whole.contains(part), "{part} in\n{whole}");
        }
        assert!(!whole.contains("--"), "the process has no flags of the command\n{whole}");
        let run = outcome.again().env("MEMLEDGER_REPORT", REPORT);
        let outcome = run.env("MEMLEDGER_REPORT_VERBOSE", "yes").run();
        one_line(&outcome.stderr, &["MEMLEDGER_REPORT_VERBOSE", "\"yes\"", "0 and 1"]);
    }),
    case("the number of the largest live blocks is a setting", scoped, |run| {
        let run = run.env("MEMLEDGER_REPORT", REPORT).env("MEMLEDGER_REPORT_LARGEST_LIVE", "2");
        let outcome = run.run();
        assert_eq!(outcome.report(REPORT).matches("\"address\": \"0x").count(), 2);
        let run = outcome.again().env("MEMLEDGER_REPORT", "x.txt");
        let outcome = run.env("MEMLEDGER_REPORT_LARGEST_LIVE", "1").run();
        let text = outcome.report("x.txt");
        let (_, blocks) =
            text.split_once("Largest live blocks").unwrap_or_else(|| panic!("{text}"));
        assert_eq!(blocks.matches(" 0x").count(), 1, "{text}");
        let run = outcome.again().env("MEMLEDGER_REPORT", REPORT);
        let outcome = run.env("MEMLEDGER_REPORT_LARGEST_LIVE", "-1").run();
        one_line(
            &outcome.stderr,
            &["MEMLEDGER_REPORT_LARGEST_LIVE", "\"-1\"", "a number of blocks"],
        );
    }),
    case(
        "stats have live and peak bytes where the process analyzes its events",
        analyzer_in_stats,
        |run| {
            let outcome = run.run();
            assert_eq!(outcome.quiet().report(REPORT).matches("\"address\": \"0x").count(), 3);
        },
    ),
    #[cfg(unix)]
    case("a report on a terminal is as wide as that", on_a_terminal, |run| {
        let outcome = run.run();
        outcome.quiet();
        let screen = outcome.report("screen");
        let row = screen.lines().find(|line| line.contains(LONG_NAME));
        assert!(row.is_some_and(|row| row.contains("KiB")), "its figures beside it:\n{screen}");
    }),
    case("from_env without variables reports on stderr", from_env, |run| {
        let outcome = run.run();
        outcome.exited(0);
        assert!(!outcome.stderr.is_empty() && !outcome.stderr.contains("memledger: "));
        assert_eq!(outcome.files(), [""; 0]);
    }),
    case("from_env joins what the environment started", from_env, |run| {
        let outcome = run.tracked().run();
        let report = outcome.quiet().whole();
        assert_eq!(outcome.files(), [REPORT, TRACE]);
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(left(&report, AFTER_LEDGER as u64), 1, "the report comes at exit");
    }),
    case("flags win over the environment and are taken from the arguments", from_args, |run| {
        // `-trace=` is no kind of destination, so the environment starts nothing by itself.
        let outcome = run.env("MEMLEDGER_CHANNELS", "memory,scope").run();
        let report = outcome.quiet().whole();
        assert_eq!(outcome.stdout, "program|--verbose|-tracer=no|last\n");
        assert_eq!(report.by_scope.len(), 1, "the flag says memory only");
    }),
    #[cfg(target_os = "linux")]
    case("a flag without a value asks for a watcher", watch_flag, |run| {
        let outcome = reported(Run::of(&run).env("MEMLEDGER_WATCH", "0").spawn());
        assert!(outcome.whole().trace.ended, "{}", outcome.stdout);
        // It comes too late for a recording of the environment.
        let outcome = run.env("MEMLEDGER_REPORT", REPORT).env("MEMLEDGER_WATCH", "0").run();
        assert!(outcome.stdout.contains(", -tracewatch; "), "{}", outcome.stdout);
    }),
    case("a file set in code joins a report of the environment", join, |run| {
        let outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
        let report = outcome.quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(left(&report, IN_MAIN as u64), 1, "from before the builder");
        assert_eq!(left(&report, AFTER_LEDGER as u64), 1, "the handle ended nothing");
    }),
    case("a file of the environment replaces one set in code", join, |run| {
        let outcome = run.tracked().run();
        outcome.quiet().whole();
        assert_eq!(outcome.files(), [REPORT, TRACE]);
        // The environment is silent about the report, so the one set in code is made.
        let outcome = outcome.again().env("MEMLEDGER_TRACE", "other.utrace").run();
        outcome.quiet().whole_as("other.utrace", REPORT);
        assert_eq!(outcome.files(), ["other.utrace", REPORT]);
    }),
    case("settings in code that the environment replaces are problems", replaced, |run| {
        let outcome = run.tracked().run();
        outcome.quiet().whole();
    }),
    case("a bad value is told once though the code asks again", join, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", "c/pu").run();
        one_line(&outcome.stderr, &["MEMLEDGER_CHANNELS", "c/pu"]);
        outcome.exited(0).whole();
    }),
    case("from_env beside a ledger of the code is told", from_env_after_builder, |run| {
        let outcome = run.run();
        one_line(&outcome.stderr, &["already running"]);
        outcome.exited(0).whole();
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case("a file joins too late if much has happened", join_late, |run| {
        let outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
        one_line(&outcome.stderr, &[TRACE, "1024 KiB", "MEMLEDGER_TRACE"]);
        assert!(outcome.exited(0).report(REPORT).contains("\"complete\": true"));
    }),
    case("names of files are filled in", nothing, |run| {
        let outcome = run
            .env("MEMLEDGER_TRACE", "%e-%p-%t-100%%.utrace")
            .env("MEMLEDGER_REPORT", "%p%x.json")
            .run();
        one_line(&outcome.stderr, &["%x in the name %p%x.json"]);
        let files = outcome.exited(0).files();
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        let trace = files.iter().find(|name| name.ends_with(".utrace")).unwrap();
        let rest = trace.strip_prefix(&format!("{program}-{}-", outcome.pid)).unwrap();
        let seconds = rest.strip_suffix("-100%.utrace").unwrap().parse::<u64>().unwrap();
        assert!(seconds > 1_600_000_000);
        outcome.whole_as(trace, &format!("{}%x.json", outcome.pid));
    }),
    case("a second ledger is refused while one runs", two_ledgers, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, AFTER_LEDGER as u64), 1, "the first ledger goes on");
    }),
    case("after a finish another ledger may start", twice, |run| {
        let outcome = run.run();
        outcome.quiet();
        let first = outcome.whole_as("1.utrace", "1.json");
        assert_eq!(first.trace.from_process_start, Some(true));
        assert_eq!(first.losses.frees_of_earlier_blocks, 0);
        let second = outcome.whole_as("2.utrace", "2.json");
        assert_eq!(second.trace.from_process_start, Some(false));
        assert!(second.losses.frees_of_earlier_blocks >= 50, "{:?}", second.losses);
        assert_eq!(second.losses.unmatched_frees, 0);
        assert_eq!(left(&first, 1_000_003), 1);
        assert_eq!((left(&second, 1_000_003), left(&second, 1_000_033)), (0, 1));
    }),
    case("a ledger that is dropped on another thread ends there", dropped_elsewhere, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, IN_MAIN as u64), 1);
        assert_eq!(left(&report, AFTER_LEDGER as u64), 0);
    }),
    case("an early buffer that overflows is forgotten", overflow, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(false));
        assert!(report.losses.frees_of_earlier_blocks > 0);
        assert_eq!(report.losses.unmatched_frees, 0);
        assert_eq!((left(&report, IN_MAIN as u64), left(&report, AFTER_LEDGER as u64)), (0, 1));
    }),
    case("an early buffer that overflows on eight threads is forgotten", overflow_8, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(false));
        assert_eq!(report.losses.unmatched_frees, 0);
        assert_eq!(left(&report, AFTER_LEDGER as u64), 1);
    }),
    case("a start without an overflow has everything since the process began", late_start, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(left(&report, IN_MAIN as u64), 1);
        let names: Vec<_> = report.by_thread.iter().map(|row| &*row.name).collect();
        assert!(names.contains(&"early bird"), "{names:?}");
    }),
];

pub(crate) const IN_MAIN: usize = 1_000_003;
const BEFORE_MAIN: usize = 1_000_033;
pub(crate) const AFTER_LEDGER: usize = 1_000_037;

/// Runs before `main`, like the constructors of C++ libraries.
extern "C" fn before_main() {
    // NOTE: std's own initialisation has run; the tracker's start may or may not have.
    if std::env::var_os("TEST_LEAVE").is_some() {
        leave(BEFORE_MAIN);
    }
}

#[used]
#[expect(unsafe_code, reason = "a named section")]
// SAFETY: the section holds pointers to functions of this form.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN_ENTRY: extern "C" fn() = before_main;

#[track_caller]
fn one_line(stderr: &str, parts: &[&str]) {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("memledger: "), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
}

fn nothing() {
    leave(IN_MAIN);
    churn(1000);
}

const LONG_NAME: &str =
    "the name of a scope that is too long for eighty columns together with all the figures";

fn analyzer_in_stats() {
    (1..4).for_each(|number| leave(10 * number));
    let report = memledger::ReportTo::file(REPORT).largest_live(3);
    let ledger = Ledger::builder().report_on_exit(report).start().unwrap();
    let before = ledger.stats();
    leave(1_000_003);
    black_box(vec![1_u8; 2_000_000]);
    let after = ledger.stats();
    let live = after.live_bytes.unwrap() - before.live_bytes.unwrap();
    assert!((1_000_003..1_001_000).contains(&live), "{live}");
    assert!(after.peak_bytes.unwrap() >= before.live_bytes.unwrap() + 3_000_003);
    let snapshot = ledger.snapshot().unwrap();
    assert_eq!(after.live_bytes, Some(snapshot.figures().live_bytes));
    assert_eq!(after.peak_bytes, Some(snapshot.figures().peak_bytes));
    assert_eq!(after.live_blocks, Some(snapshot.figures().live_blocks));
    assert_eq!(after.blocks_at_peak, Some(snapshot.report().totals.blocks_at_peak));
    assert_eq!(after.peak_blocks, Some(snapshot.report().totals.peak_blocks));
    assert!(after.blocks_at_peak > after.live_blocks, "the peak had one more");
    assert!(after.overhead_bytes > 0);
    assert_eq!(ledger.recent_stats().live_bytes, after.live_bytes);
    assert_eq!(snapshot.report().largest_live.len(), 3);
    drop(snapshot);
    // Each call has all that happened before it, on this thread and on others.
    for round in 0..200 {
        let before = ledger.stats();
        if round % 2 == 0 {
            leave(100);
        } else {
            std::thread::scope(|scope| scope.spawn(|| leave(100)).join().unwrap());
        }
        let after = ledger.stats();
        let live = after.live_bytes.unwrap() - before.live_bytes.unwrap();
        assert!(live == 100 || round % 2 == 1 && live > 100, "{round}: {live}");
    }
    drop(ledger);
    let ledger = Ledger::builder().trace_to_file(TRACE).start().unwrap();
    assert_eq!((ledger.stats().live_bytes, ledger.stats().peak_bytes), (None, None));
    // A measurement analyzes its own part only.
    memledger::measure(|| assert_eq!(ledger.stats().live_bytes, None)).1.unwrap();
}

/// Ends a recording whose report goes to a terminal of 160 columns, and returns the terminal's
/// input.
#[cfg(unix)]
fn on_a_terminal() {
    let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).start().unwrap();
    drop(memledger::alloc_scope!(LONG_NAME, { black_box(vec![0_u8; 5000]) }));
    // SAFETY: the descriptors are this function's own, and the size is valid for reading.
    let (mut screen, stderr) = unsafe {
        let screen = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        assert!(screen >= 0 && libc::grantpt(screen) == 0 && libc::unlockpt(screen) == 0);
        let size = libc::winsize { ws_row: 40, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
        assert_eq!(libc::ioctl(screen, libc::TIOCSWINSZ, &raw const size), 0);
        let terminal = libc::open(libc::ptsname(screen), libc::O_RDWR | libc::O_NOCTTY);
        let stderr = libc::dup(2);
        assert!(stderr >= 0 && terminal >= 0 && libc::dup2(terminal, 2) == 2);
        (File::from_raw_fd(screen), stderr)
    };
    // Fewer bytes than a terminal buffers without a reader.
    drop(ledger);
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("Allocates most") {
        let mut part = [0; 4096];
        let length = screen.read(&mut part).unwrap();
        text.extend_from_slice(&part[..length]);
    }
    // SAFETY: both are open.
    unsafe { libc::dup2(stderr, 2) };
    std::fs::write("screen", text).unwrap();
}

fn scoped() {
    memledger::alloc_scope!("work", { churn(1000) });
    seven();
}

fn seven() {
    std::process::exit(7);
}

fn from_env() {
    let ledger = Ledger::from_env();
    assert_eq!(ledger.problems(), []);
    assert!(ledger.stats().recording);
    churn(1000);
    drop(ledger);
    leave(AFTER_LEDGER);
}

fn from_env_after_builder() {
    let ledger = start();
    let second = Ledger::from_env();
    assert_eq!(second.problems().len(), 1);
    drop(second);
    assert!(ledger.stats().recording);
    churn(1000);
}

fn from_args() {
    let args = [
        "program",
        "-trace=memory",
        "--verbose",
        "-tracefile=trace.utrace",
        "-tracer=no",
        "-tracereport=report.json",
        "last",
    ];
    let (ledger, rest) = Ledger::from_args(args.map(Into::into));
    println!("{}", rest.iter().map(|arg| arg.to_str().unwrap()).collect::<Vec<_>>().join("|"));
    memledger::alloc_scope!("work", { churn(1000) });
    drop(ledger);
}

#[cfg(target_os = "linux")]
fn watch_flag() {
    let flags = ["-tracefile=trace.utrace", "-tracereport=report.json", "-tracewatch"];
    let (ledger, rest) = Ledger::from_args(flags.map(Into::into));
    assert_eq!(rest.len(), 0);
    ledger.problems().iter().for_each(|problem| println!("{problem}"));
    churn(1000);
    std::process::abort();
}

fn join() {
    leave(IN_MAIN);
    memledger::alloc_scope!("before", { churn(1000) });
    // So that the file has to be given what was sent before it.
    Ledger::from_env().flush();
    let ledger = builder().start().unwrap();
    memledger::alloc_scope!("after", { churn(1000) });
    drop(ledger);
    leave(AFTER_LEDGER);
}

fn replaced() {
    let ledger = builder().buffer_limit(1 << 20).analyze_in_process(true);
    let ledger = ledger.rss_interval(Duration::from_millis(100)).start().unwrap();
    let problems = ledger.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].kind(), ProblemKind::Overridden);
    let names = ": report_on_exit, trace_to_file, rss_interval; ";
    assert!(problems[0].to_string().contains(names), "{problems:?}");
    ledger.finish().unwrap();
}

fn join_late() {
    churn(100_000);
    // The worker may not have come by yet.
    Ledger::from_env().flush();
    let ledger = builder().start().unwrap();
    let kinds: Vec<_> = ledger.problems().iter().map(memledger::Problem::kind).collect();
    assert_eq!(kinds, [ProblemKind::Overridden, ProblemKind::Output]);
    drop(ledger);
}

fn two_ledgers() {
    let ledger = start();
    assert!(matches!(&builder().start(), Err(error) if error.kind() == ErrorKind::AlreadyStarted));
    let again = Ledger::builder().trace_to_file("other.utrace").start();
    assert!(matches!(&again, Err(error) if error.kind() == ErrorKind::AlreadyStarted));
    assert!(!std::path::Path::new("other.utrace").exists());
    leave(AFTER_LEDGER);
    drop(ledger);
}

fn twice() {
    let begin = |trace: &'static str, report: &'static str| {
        let report = memledger::ReportTo::file(report);
        Ledger::builder().trace_to_file(trace).report_on_exit(report).start().unwrap()
    };
    let first = begin("1.utrace", "1.json");
    leave(1_000_003);
    let blocks = (0..50).map(|size| black_box(vec![1_u8; 100 + size])).collect::<Vec<_>>();
    churn(1000);
    let handle = Ledger::current().unwrap();
    first.finish().unwrap();
    handle.finish().unwrap();
    leave(1_000_037);
    churn(1000);
    let second = begin("2.utrace", "2.json");
    drop(Ledger::current().unwrap());
    leave(1_000_033);
    drop(blocks);
    churn(1000);
    drop(second);
}

fn dropped_elsewhere() {
    let ledger = start();
    leave(IN_MAIN);
    std::thread::spawn(move || {
        churn(1000);
        drop(ledger);
        leave(AFTER_LEDGER);
    })
    .join()
    .unwrap();
    churn(1000);
}

fn overflow() {
    leave(IN_MAIN);
    let kept = black_box(vec![0_u8; 77]);
    churn(100_000);
    let ledger = start();
    drop(kept);
    leave(AFTER_LEDGER);
    churn(1000);
    drop(ledger);
}

fn overflow_8() {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let threads: [_; 8] = std::array::from_fn(|_| {
        std::thread::spawn(|| {
            while DONE.load(Ordering::Relaxed) == 0 {
                churn(1000);
            }
        })
    });
    churn(100_000);
    let ledger = start();
    leave(AFTER_LEDGER);
    churn(1000);
    DONE.store(1, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(ledger);
}

fn late_start() {
    leave(IN_MAIN);
    let named = std::thread::Builder::new().name("early bird".into());
    named.spawn(|| churn(100)).unwrap().join().unwrap();
    churn(1000);
    let ledger = start();
    churn(1000);
    drop(ledger);
}
