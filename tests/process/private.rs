//! Owners and permissions of a program's files, where their paths may lead, and when there is no
//! file.

use crate::counts::reported;
use crate::files::check_told;
use crate::harness::{Case, Outcome, REPORT, Run, TRACE, builder, case, churn, leave, left, start};
use memledger::{ErrorKind, Ledger, measure};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

pub(crate) const CASES: &[Case] = &[
    case("files are the user's alone", with_late, |run| {
        // As left by another program.
        fs::write(run.path(TRACE), "old").unwrap();
        set_mode(&run.path(TRACE), 0o644);
        let outcome = run.tracked().run();
        outcome.quiet().whole();
        let modes = [TRACE, LATE, REPORT].map(|name| mode(&outcome.path(name)));
        assert_eq!(modes, [0o600; 3], "{modes:?}");
    }),
    case("files have the permissions that are asked for", with_late, |run| {
        let outcome = run.tracked().env("MEMLEDGER_FILE_MODE", "0666").run();
        outcome.quiet().whole();
        let modes = [TRACE, LATE, REPORT].map(|name| mode(&outcome.path(name)));
        assert_eq!(modes, [0o666; 3], "whatever the mask: {modes:?}");
    }),
    case("permissions are asked for in code too, and the environment goes first", in_code, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let modes = [TRACE, REPORT].map(|name| mode(&outcome.path(name)));
        assert_eq!(modes, [0o640; 2], "{modes:?}");
        let outcome = outcome.again().env("MEMLEDGER_FILE_MODE", "660").run();
        outcome.quiet().whole();
        assert_eq!(mode(&outcome.path(TRACE)), 0o660);
    }),
    case("permissions that cannot be are told and the default used", with_late, |run| {
        let outcome = run.tracked().env("MEMLEDGER_FILE_MODE", "44").run();
        check_told(&outcome, &["MEMLEDGER_FILE_MODE", "\"44\"", "600 to 777"]);
        assert_eq!(mode(&outcome.path(TRACE)), 0o600);
    }),
    case("a link where others can write is not followed", with_late, |run| {
        for name in [TRACE, REPORT] {
            symlink("target", run.path(name)).unwrap();
        }
        set_mode(run.folder.path(), 0o1777);
        let outcome = run.tracked().run();
        let told: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(told.len(), 2, "{told:?}");
        for (line, name) in told.iter().zip([TRACE, REPORT]) {
            assert!(line.contains(name) && line.contains("is a link in a folder that"), "{line}");
        }
        outcome.exited(0);
        assert!(!outcome.path("target").exists());
    }),
    case("a folder that is such a link is not followed either", with_late, |run| {
        fs::create_dir(run.path("private")).unwrap();
        fs::create_dir(run.path("shared")).unwrap();
        symlink("../private", run.path("shared/traces")).unwrap();
        set_mode(&run.path("shared"), 0o777);
        let outcome = run.env("MEMLEDGER_TRACE", "shared/traces/x.utrace");
        let outcome = outcome.env("MEMLEDGER_REPORT", "off").run();
        check_told(&outcome, &["shared/traces/x.utrace", "traces is a link in a folder that"]);
        assert_eq!(fs::read_dir(outcome.path("private")).unwrap().count(), 0);
    }),
    case("a link that leads to such a link is not followed", with_late, |run| {
        fs::create_dir(run.path("shared")).unwrap();
        symlink("../target", run.path("shared/x")).unwrap();
        symlink("shared/x", run.path(TRACE)).unwrap();
        set_mode(&run.path("shared"), 0o777);
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        check_told(&outcome, &[TRACE, "x is a link in a folder that"]);
        assert!(!outcome.path("target").exists());
    }),
    case("what others may have put there is not written to", with_late, |run| {
        fs::write(run.path("precious"), "precious").unwrap();
        for name in [TRACE, REPORT] {
            fs::hard_link(run.path("precious"), run.path(name)).unwrap();
        }
        set_mode(run.folder.path(), 0o777);
        let outcome = run.tracked().run();
        assert_eq!(
            outcome.stderr.matches("may be somebody else's").count(),
            2,
            "{}",
            outcome.stderr
        );
        assert_eq!(fs::read_to_string(outcome.path("precious")).unwrap(), "precious");
        assert_eq!(mode(&outcome.path("precious")), mode(&outcome.path(TRACE)));
    }),
    case("links in the user's own folders are followed", with_late, |run| {
        fs::create_dir(run.path("deep")).unwrap();
        symlink("deep", run.path("folder")).unwrap();
        symlink("folder/../folder/target.utrace", run.path(TRACE)).unwrap();
        // A link that leads to a whole path.
        symlink(run.path("deep/target.json"), run.path(REPORT)).unwrap();
        let outcome = run.tracked().run();
        outcome.quiet().whole_as("deep/target.utrace", "deep/target.json");
        assert_eq!(mode(&outcome.path("deep/target.utrace")), 0o600);
        assert!(fs::symlink_metadata(outcome.path(REPORT)).unwrap().is_symlink());
    }),
    case("links in a circle are told", with_late, |run| {
        symlink(TRACE, run.path(TRACE)).unwrap();
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        check_told(&outcome, &[TRACE, "symbolic links"]);
    }),
    case("an open file is written to by its descriptor's name, as it is", quietly, |run| {
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            let next = Run::of(&run).env("MEMLEDGER_TRACE", name).env("MEMLEDGER_REPORT", REPORT);
            let before = {
                fs::write(next.path("made"), "").unwrap();
                mode(&next.path("made"))
            };
            let outcome = next.run();
            outcome.quiet().whole_as("stdout", REPORT);
            assert_eq!(mode(&outcome.path("stdout")), before, "{name}");
        }
    }),
    case(
        "a thread of the tracker that the program has ended is not waited for",
        ended_thread,
        |run| {
            let outcome = run.run();
            assert_eq!(outcome.exited(0).stdout, "ended\n");
            let left_out =
                "the tracker's thread for calls of the program has ended, or did not begin";
            assert!(outcome.stderr.contains(left_out), "{}", outcome.stderr);
        },
    ),
    case("a program that is killed has a report, in the place of an earlier one", killed, |run| {
        for earlier in [None, Some(EARLIER)] {
            let run = Run::of(&run).tracked();
            if let Some(earlier) = earlier {
                fs::write(run.path(REPORT), earlier).unwrap();
            }
            let outcome = reported(run.spawn());
            assert_eq!(outcome.status.code(), None);
            assert_eq!(outcome.stderr, "");
            outcome.whole();
        }
    }),
    case("a program that is killed without a watcher leaves no report", killed, |run| {
        let outcome = run.tracked().env("MEMLEDGER_WATCH", "0").run();
        assert_eq!(outcome.status.code(), None);
        assert_eq!(outcome.files(), [TRACE]);
    }),
    case("without a watcher, an earlier report stays as it was", killed, |run| {
        fs::write(run.path(REPORT), EARLIER).unwrap();
        let outcome = run.tracked().env("MEMLEDGER_WATCH", "0").run();
        assert_eq!(outcome.status.code(), None);
        assert_eq!(fs::read_to_string(outcome.path(REPORT)).unwrap(), EARLIER);
    }),
    case("a report takes the place of a longer one", quietly, |run| {
        fs::write(run.path(REPORT), EARLIER.repeat(1000)).unwrap();
        run.tracked().run().quiet().whole();
    }),
    case("a report is not there before its time", not_there_yet, |run| {
        run.run().quiet().whole();
    }),
    case("a program that a tracked one starts does not take its report", starts_another, |run| {
        check_two_reports(&run.tracked().run());
    }),
    case("nor where folders cannot be locked", starts_another_unlocked, |run| {
        check_two_reports(&run.run());
    }),
    case("a program that gives up its rights has its report on stderr", gives_up_rights, |run| {
        if fs::metadata(run.folder.path()).unwrap().uid() != 0 {
            return eprintln!("SKIPPED: only root can give up its rights");
        }
        check_report_on_stderr(&run.run(), "Permission denied");
    }),
    case("an earlier report outlasts a program that gives up its rights", gives_up_rights, |run| {
        if fs::metadata(run.folder.path()).unwrap().uid() != 0 {
            return eprintln!("SKIPPED: only root can give up its rights");
        }
        fs::write(run.path(REPORT), EARLIER).unwrap();
        let outcome = run.run();
        assert_eq!(fs::read_to_string(outcome.path(REPORT)).unwrap(), EARLIER);
        fs::remove_file(outcome.path(REPORT)).unwrap();
        check_report_on_stderr(&outcome, "Permission denied");
    }),
    case("a report for a full disk goes to stderr", quietly, |run| {
        symlink("/dev/full", run.path(REPORT)).unwrap();
        let outcome = run.tracked().run();
        fs::remove_file(outcome.path(REPORT)).unwrap();
        check_report_on_stderr(&outcome, "No space left on device");
    }),
    case("a program that forbids files has its report on stderr", forbids_files, |run| {
        check_report_on_stderr(&run.run(), "Operation not permitted");
    }),
    case("a sandbox that does not know faccessat2 has a report", without_access, |run| {
        run.run().quiet().whole();
    }),
    case("a pipe for the report is opened once", report_to_pipe, |run| {
        assert!(Command::new("mkfifo").arg(run.path(REPORT)).status().unwrap().success());
        run.run().quiet();
    }),
];

#[track_caller]
fn check_two_reports(outcome: &Outcome) {
    let theirs: Vec<_> =
        outcome.files().into_iter().filter(|name| ![TRACE, REPORT].contains(&&**name)).collect();
    assert_eq!(theirs.len(), 2, "{theirs:?}");
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, name) in lines.iter().zip([TRACE, REPORT]) {
        assert!(line.contains(&format!("{name} is in use, so ")), "{line}");
    }
    let report = outcome.exited(0).whole();
    assert_eq!(left(&report, 1_000_003), 1, "the parent's");
    // trace.PID.utrace and report.PID.json
    let json = theirs.iter().find(|name| name.ends_with(".json")).unwrap();
    let trace = theirs.iter().find(|name| name.ends_with(".utrace")).unwrap();
    assert_eq!(left(&outcome.whole_as(trace, json), 1_000_005), 1, "the child's");
}

/// The report comes after one line that says why.
#[track_caller]
fn check_report_on_stderr(outcome: &Outcome, reason: &str) {
    outcome.exited(0);
    let (line, report) = outcome.stderr.split_once('\n').unwrap();
    for part in ["memledger: cannot write report.json", reason, "follows on stderr"] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    assert!(!outcome.path(REPORT).exists());
    fs::write(outcome.path(REPORT), report).unwrap();
    outcome.whole();
}

const LATE: &str = "late.utrace";
const EARLIER: &str = "the report of an earlier run";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn with_late() {
    let ledger = Ledger::from_env();
    if let Ok(late) = ledger.trace_to_file(LATE) {
        churn(100);
        late.stop();
    }
}

fn quietly() {
    churn(100);
}

fn in_code() {
    let refused = builder().file_mode(0o1600).start().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidSetting, "{refused}");
    assert!(refused.to_string().contains("0o1600"), "{refused}");
    drop(refused);
    let _ledger = builder().file_mode(0o640).start().unwrap();
    churn(100);
}

fn killed() {
    let ledger = Ledger::from_env();
    churn(1000);
    ledger.flush();
    crate::harness::kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

fn not_there_yet() {
    let ledger = start();
    churn(1000);
    ledger.flush();
    assert!(Path::new(TRACE).exists() && !Path::new(REPORT).exists());
}

fn starts_another() {
    if std::env::var_os("TEST_INHERITED").is_some() {
        return leave(1_000_005);
    }
    leave(1_000_003);
    let mut command = Command::new(std::env::current_exe().unwrap());
    assert!(command.env("TEST_INHERITED", "1").status().unwrap().success());
}

fn starts_another_unlocked() {
    system::refuse(libc::SYS_fcntl, Some(libc::F_OFD_SETLK));
    system::refuse(libc::SYS_fcntl, Some(libc::F_OFD_GETLK));
    let _ledger = start();
    starts_another();
}

fn gives_up_rights() {
    let _ledger = start();
    churn(1000);
    system::become_nobody();
}

fn forbids_files() {
    let _ledger = start();
    churn(1000);
    system::refuse(libc::SYS_openat, None);
}

fn without_access() {
    system::refuse(libc::SYS_faccessat2, None);
    let _ledger = start();
    churn(1000);
}

fn ended_thread() {
    let ledger = start();
    churn(1000);
    // By the thread that makes the tracker's other threads: which call does depends on the C library.
    system::end_threads_at(libc::SYS_clone3);
    system::end_threads_at(libc::SYS_clone);
    ledger.flush();
    let error = measure(|| churn(1)).1.unwrap_err().to_string();
    assert!(error.contains("could not collect everything"), "{error}");
    drop(ledger);
    println!("ended");
}

fn report_to_pipe() {
    let mut reader =
        fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(REPORT).unwrap();
    let mut closed = system::watch_closing(c"report.json");
    let ledger = start();
    let error = closed.read(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "it was closed");
    drop(ledger);
    let mut start = [0; 1];
    reader.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"{");
}

#[expect(unsafe_code, reason = "system calls")]
mod system {
    use std::ffi::CStr;
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd};

    /// Has the system answer a call with `EPERM` in all threads: only with this second argument, if
    /// one is given.
    pub(super) fn refuse(call: libc::c_long, argument: Option<libc::c_int>) {
        answer(call, argument, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    }

    /// Has the system end each thread that makes this call.
    pub(super) fn end_threads_at(call: libc::c_long) {
        answer(call, None, libc::SECCOMP_RET_KILL_THREAD);
    }

    fn answer(call: libc::c_long, argument: Option<libc::c_int>, with: u32) {
        let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let skip = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let end = (libc::BPF_RET | libc::BPF_K) as u16;
        let filter = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        // The offsets of the call's number and of its second argument in `seccomp_data`.
        let mut filters = vec![filter(load, 0, 0), filter(skip, 1, call as u32)];
        if let Some(argument) = argument {
            filters[1].jf = 3;
            filters.extend([filter(load, 0, 24), filter(skip, 1, argument as u32)]);
        }
        filters.push(filter(end, 0, with));
        filters.push(filter(end, 0, libc::SECCOMP_RET_ALLOW));
        let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_mut_ptr() };
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        // SAFETY: the program and its filters are locals that outlive the call.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program), 0);
        }
    }

    pub(super) fn become_nobody() {
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }

    /// A file in which there is something to read once `name` was closed by a writer.
    pub(super) fn watch_closing(name: &CStr) -> File {
        // SAFETY: the descriptor is new, so nothing else owns it; the name ends with a NUL.
        unsafe {
            let file = File::from_raw_fd(libc::inotify_init1(libc::IN_NONBLOCK));
            let added =
                libc::inotify_add_watch(file.as_raw_fd(), name.as_ptr(), libc::IN_CLOSE_WRITE);
            assert!(added >= 0);
            file
        }
    }
}
