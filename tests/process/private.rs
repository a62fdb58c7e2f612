//! Owners and permissions of a program's files, where their paths may lead, and when there is no
//! file.

use crate::files::check_told;
use crate::harness::{Case, REPORT, Run, TRACE, builder, case, churn, leave, left, start};
use memledger::{Error, Ledger};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
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
        let outcome = run.env("MEMLEDGER_FILE", "shared/traces/x.utrace");
        let outcome = outcome.env("MEMLEDGER_REPORT", "off").run();
        check_told(&outcome, &["shared/traces/x.utrace", "traces is a link in a folder that"]);
        assert_eq!(fs::read_dir(outcome.path("private")).unwrap().count(), 0);
    }),
    case("a link that leads to such a link is not followed", with_late, |run| {
        fs::create_dir(run.path("shared")).unwrap();
        symlink("../target", run.path("shared/x")).unwrap();
        symlink("shared/x", run.path(TRACE)).unwrap();
        set_mode(&run.path("shared"), 0o777);
        let outcome = run.env("MEMLEDGER_FILE", TRACE).env("MEMLEDGER_REPORT", "off").run();
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
        let outcome = run.env("MEMLEDGER_FILE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        check_told(&outcome, &[TRACE, "symbolic links"]);
    }),
    case("an open file is written to by its descriptor's name, as it is", quietly, |run| {
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            let next = Run::of(&run).env("MEMLEDGER_FILE", name).env("MEMLEDGER_REPORT", REPORT);
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
        "a program that is killed leaves no report, neither of it nor of another",
        killed,
        |run| {
            fs::write(run.path(REPORT), "an old one").unwrap();
            let outcome = run.tracked().run();
            assert_eq!(outcome.status.code(), None);
            assert_eq!(outcome.files(), [TRACE]);
        },
    ),
    case("a report is not there before its time", not_there_yet, |run| {
        run.run().quiet().whole();
    }),
    case("a program that a tracked one starts does not take its report", starts_another, |run| {
        let outcome = run.tracked().run();
        let theirs: Vec<_> = outcome
            .files()
            .into_iter()
            .filter(|name| ![TRACE, REPORT].contains(&&**name))
            .collect();
        assert_eq!(theirs.len(), 2, "{theirs:?}");
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, name) in lines.iter().zip([TRACE, REPORT]) {
            assert!(line.contains(&format!("{name} is in use by another process")), "{line}");
        }
        let report = outcome.exited(0).whole();
        assert_eq!(left(&report, 1_000_003), 1, "the parent's");
        // trace.PID.utrace and report.PID.json
        let json = theirs.iter().find(|name| name.ends_with(".json")).unwrap();
        let trace = theirs.iter().find(|name| name.ends_with(".utrace")).unwrap();
        assert_eq!(left(&outcome.whole_as(trace, json), 1_000_005), 1, "the child's");
    }),
];

const LATE: &str = "late.utrace";

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
    assert!(matches!(&refused, Error::Setting(_)), "{refused}");
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
