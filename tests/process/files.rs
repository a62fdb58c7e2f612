//! Files that cannot be created, written or kept, pipes, and full disks.

use crate::harness::{Case, REPORT, Run, TRACE, builder, case, churn, leave, left, start};
use memledger::ErrorKind;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

pub(crate) const CASES: &[Case] = &[
    case(
        "files that exist are emptied first",
        || drop(start()),
        |run| {
            for name in [TRACE, REPORT] {
                fs::write(run.path(name), vec![b'x'; 1 << 20]).unwrap();
            }
            run.run().quiet().whole();
        },
    ),
    case("a trace that cannot be created is told and the report still made", plain, |run| {
        let outcome =
            run.env("MEMLEDGER_TRACE", "no/such/x.utrace").env("MEMLEDGER_REPORT", REPORT);
        let outcome = outcome.run();
        check_told(&outcome, &["no/such/x.utrace"]);
        assert_eq!(outcome.files(), [REPORT]);
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    case("a report that cannot be created is told and the trace still written", plain, |run| {
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "no/x.json").run();
        check_told(&outcome, &["no/x.json"]);
        assert!(outcome.trace(TRACE).0.trace.complete);
    }),
    case("a directory is no file", plain, |run| {
        fs::create_dir(run.path(TRACE)).unwrap();
        fs::create_dir(run.path(REPORT)).unwrap();
        let outcome = run.tracked().run();
        assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);
        outcome.exited(0);
    }),
    case("a builder's bad path is an error and the program can go on", bad_path, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(true));
    }),
    #[cfg(unix)]
    case("a device that is full is told at once", plain, |run| {
        let outcome = run.env("MEMLEDGER_TRACE", "/dev/full").env("MEMLEDGER_REPORT", REPORT).run();
        check_told(&outcome, &["/dev/full"]);
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    #[cfg(unix)]
    case("a device can be shared by processes", shared_device, |run| {
        std::os::unix::fs::symlink("/dev/null", run.path(TRACE)).unwrap();
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        outcome.quiet();
        assert_eq!(outcome.files(), [TRACE]);
    }),
    #[cfg(unix)]
    case("a file that may not grow is cut at a packet and the program goes on", limited, |run| {
        let outcome = run.run();
        check_told(&outcome, &[TRACE]);
        let (report, summary) = outcome.trace(TRACE);
        assert!(!report.trace.complete);
        assert_eq!((summary.truncated_bytes, summary.skipped_bytes), (0, 0));
        assert_eq!(summary.counts.damages, 0);
        assert!(summary.input_bytes <= LIMIT && summary.input_bytes > LIMIT / 2);
        assert_eq!(left(&report, 1_000_003), 1);
        assert_eq!((report.losses.unmatched_frees, report.losses.duplicate_allocations), (0, 0));
        let own = outcome.report(REPORT);
        assert!(own.contains("\"lost_events\": 0") && own.contains("\"complete\": true"));
    }),
    #[cfg(unix)]
    case("a trace that is deleted meanwhile does no harm", deleted, |run| {
        let outcome = run.run();
        outcome.quiet();
        assert_eq!(outcome.files(), [REPORT]);
    }),
    #[cfg(unix)]
    case("a pipe without a reader is told and not waited for", plain, |run| {
        make_pipe(&run);
        let outcome = run.tracked().run();
        check_told(&outcome, &[TRACE]);
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    #[cfg(unix)]
    case("a pipe that is read carries the whole trace", plain, |run| {
        make_pipe(&run);
        let mut pipe = open_to_read(&run);
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // The writer has not opened it yet where nothing comes.
            while bytes.is_empty() {
                match pipe.read_to_end(&mut bytes) {
                    Ok(_) => std::thread::yield_now(),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => panic!("{error}"),
                }
            }
            loop {
                match pipe.read_to_end(&mut bytes) {
                    Ok(0) => return bytes,
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        std::thread::yield_now();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let outcome = run.tracked().run();
        outcome.quiet();
        fs::write(outcome.path("copy.utrace"), reader.join().unwrap()).unwrap();
        outcome.whole_as("copy.utrace", REPORT);
    }),
    #[cfg(unix)]
    case("a reader that goes away ends the trace and not the program", broken_pipe, |run| {
        make_pipe(&run);
        let mut pipe = open_to_read(&run);
        let running = run.spawn();
        let mut start = [0; 64];
        loop {
            match pipe.read(&mut start) {
                Ok(0) => {}
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            std::thread::yield_now();
        }
        drop(pipe);
        let outcome = running.wait();
        check_told(&outcome, &[TRACE]);
        assert!(outcome.report(REPORT).contains("\"lost_events\": 0"));
    }),
    #[cfg(unix)]
    case("a reader that never reads costs the trace and not the report", stuck_pipe, |run| {
        make_pipe(&run);
        let pipe = open_to_read(&run);
        let outcome = run.run();
        assert!(outcome.stderr.contains("nobody has read from it for 3 s"), "{}", outcome.stderr);
        outcome.exited(0);
        assert!(outcome.report(REPORT).contains("memledger.report/1"));
        drop(pipe);
    }),
    #[cfg(unix)]
    case("a closed stderr is no reason to die", closed_stderr, |run| {
        let outcome = run.env("MEMLEDGER_REPORT", "x.pdf").env("MEMLEDGER_TRACE", TRACE).run();
        assert_eq!(outcome.status.code(), Some(0));
        assert!(outcome.trace(TRACE).0.trace.complete);
    }),
];

#[cfg(unix)]
const LIMIT: u64 = 300_000;

#[track_caller]
pub(crate) fn check_told(outcome: &crate::harness::Outcome, parts: &[&str]) {
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.starts_with("memledger: "), "{}", outcome.stderr);
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part:?} is not in {}", outcome.stderr);
    }
    outcome.exited(0);
}

#[cfg(unix)]
pub(crate) fn make_pipe(run: &Run) {
    assert!(Command::new("mkfifo").arg(run.path(TRACE)).status().unwrap().success());
}

#[cfg(unix)]
pub(crate) fn open_to_read(run: &Run) -> File {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(run.path(TRACE)).unwrap()
}

fn plain() {
    churn(20_000);
}

fn bad_path() {
    let error = builder().trace_to_file("no/such/x.utrace").start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::File);
    assert!(error.to_string().contains("cannot create no/such/x.utrace"));
    drop(error);
    let _ledger = start();
    churn(1000);
}

#[cfg(unix)]
fn shared_device() {
    churn(100);
    if std::env::var_os("TEST_INHERITED").is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        assert!(command.env("TEST_INHERITED", "1").status().unwrap().success());
    }
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "system calls")]
fn limited() {
    let ledger = start();
    leave(1_000_003);
    ledger.flush();
    let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
    // SAFETY: the limit is a local. The signal's default action is to end the process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
    for _ in 0..50 {
        churn(10_000);
        ledger.flush();
    }
    assert_eq!(ledger.problems().len(), 1);
}

#[cfg(unix)]
fn deleted() {
    let ledger = start();
    fs::remove_file(TRACE).unwrap();
    churn(10_000);
    ledger.flush();
    churn(10_000);
}

#[cfg(unix)]
fn default_sigpipe() {
    // SAFETY: as programs do that want to end with their reader.
    #[expect(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL)
    };
}

#[cfg(unix)]
fn broken_pipe() {
    default_sigpipe();
    let ledger = start();
    while ledger.problems().is_empty() {
        churn(10_000);
    }
    drop(ledger);
}

#[cfg(unix)]
fn stuck_pipe() {
    let _ledger = start();
    churn(200_000);
}

#[cfg(unix)]
fn closed_stderr() {
    // The problem was reported before `main`, on a stderr that was open. From here on stderr is a
    // pipe without a reader, and the report has to be written to it.
    default_sigpipe();
    // SAFETY: the descriptors are this scenario's own.
    #[expect(unsafe_code)]
    unsafe {
        let mut pipe = [0; 2];
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        libc::dup2(pipe[1], 2);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
    churn(1000);
    drop(memledger::Ledger::from_args(["-tracereport=x.pdf".into()]));
}
