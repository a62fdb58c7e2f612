//! The runner, with checks that are planted.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use memledger_checks::check::Lane::{Own, Programs, Workspace};
use memledger_checks::check::{BUILD, Check, Tier, When, minutes};
use memledger_checks::needs::Need;
use memledger_checks::run::{Ended, Outcome, Run};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const PLANTED: Check = Check {
    name: "planted",
    what: "planted",
    when: When::Always,
    lane: Workspace,
    deadline: minutes(60),
    needs: &[],
    commands: &["true"],
};

struct Ran {
    ended: Vec<Ended>,
    printed: String,
    folder: TempDir,
}

impl Ran {
    fn outcome(&self, name: &str) -> &Outcome {
        &self.ended.iter().find(|ended| ended.name == name).unwrap().outcome
    }

    fn last_line(&self) -> &str {
        self.printed.lines().last().unwrap()
    }
}

fn run_in(folder: TempDir, tier: Tier, keep_going: bool, checks: &[Check]) -> Ran {
    let root = folder.path().to_owned();
    let run =
        Run { checks: checks.iter().collect(), tier, keep_going, variables: Vec::new(), root };
    let mut printed = Vec::new();
    let ended = run.all(&mut printed).unwrap();
    Ran { ended, printed: String::from_utf8(printed).unwrap(), folder }
}

fn run(tier: Tier, checks: &[Check]) -> Ran {
    run_in(TempDir::new().unwrap(), tier, false, checks)
}

/// A folder with a FIFO, and its reader, to which a writer need not wait.
fn with_fifo() -> (TempDir, File) {
    let folder = TempDir::new().unwrap();
    let fifo = make_fifo(&folder);
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let reader = File::options().read(true).custom_flags(flags).open(fifo).unwrap();
    (folder, reader)
}

fn make_fifo(folder: &TempDir) -> PathBuf {
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fifo
}

/// What was written, when each process that could write more has ended.
fn written(mut reader: File) -> String {
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_came_of_tests_is_printed() {
    let result = "test result: ok. 2 passed; 0 failed";
    let tests = Check {
        commands: &[
            "echo '     Running a'; echo 'test a::b ... ok'; echo 'test result: ok. 2 passed; 0 failed'",
        ],
        ..PLANTED
    };
    let ran = run(Tier::Change, &[tests, Check { name: "other", ..PLANTED }]);
    assert!(ran.printed.contains(&format!("\n     Running a\n{result}\n")), "{}", ran.printed);
    assert!(!ran.printed.contains("\ntest a::b"), "{}", ran.printed);
}

#[test]
fn what_has_failed_is_printed_last_with_its_step() {
    let passes = Check { name: "passes", lane: Own, ..PLANTED };
    let fails = Check {
        name: "fails",
        commands: &["echo 'its one'", "echo two; echo '$ its own'; exit 3", "echo three"],
        ..PLANTED
    };
    let ran = run_in(TempDir::new().unwrap(), Tier::Change, true, &[fails, passes]);
    assert_eq!(ran.outcome("passes"), &Outcome::Passed);
    let how = "status 3 in its step `echo two; echo '$ its own'; exit 3`";
    assert_eq!(ran.outcome("fails"), &Outcome::Failed(how.to_owned()));
    assert!(ran.last_line().starts_with(&format!("== FAILED: fails: {how}")), "{}", ran.printed);
    assert!(ran.printed.contains("its one\n$ echo two"), "{}", ran.printed);
    assert!(!ran.printed.contains("three"), "{}", ran.printed);
}

#[test]
fn a_failure_in_a_pipe_or_of_a_variable_is_one() {
    for commands in [&["false | cat"][..], &["echo $nothing"], &["false", "true"]] {
        let ran = run(Tier::Change, &[Check { commands, ..PLANTED }]);
        assert!(matches!(ran.outcome("planted"), Outcome::Failed(_)), "{commands:?}");
    }
}

#[test]
fn a_failure_stops_the_rest_unless_it_is_to_go_on() {
    let folder = TempDir::new().unwrap();
    make_fifo(&folder);
    // Each end of a FIFO waits for the other one, so both run when one fails.
    let other =
        Check { name: "other", lane: Own, commands: &["echo begun >fifo; sleep 86400"], ..PLANTED };
    let fails = Check { name: "fails", commands: &["read -r line <fifo; false"], ..PLANTED };
    let later = Check { name: "later", ..PLANTED };
    let ran = run_in(folder, Tier::Change, false, &[other, fails, later]);
    assert_eq!(ran.outcome("other"), &Outcome::Stopped("another check has failed"));
    assert_eq!(ran.outcome("later"), &Outcome::Stopped("another check has failed"));
    assert!(ran.last_line().starts_with("== FAILED: fails: status 1"), "{}", ran.printed);

    let later = Check { name: "later", ..PLANTED };
    let fails = Check { name: "fails", commands: &["false"], ..PLANTED };
    let ran = run_in(TempDir::new().unwrap(), Tier::Change, true, &[fails, later]);
    assert_eq!(ran.outcome("later"), &Outcome::Passed);
}

#[test]
fn the_deadline_ends_the_whole_process_group() {
    let (folder, reader) = with_fifo();
    // Children that hold the FIFO open: of their own, and one that ignores SIGTERM.
    let commands =
        &["exec 3>fifo; (trap '' TERM; sleep 86400; sleep 86400) & sleep 86400 & sleep 86400"];
    let check = Check { deadline: Duration::from_secs(1), commands, ..PLANTED };
    let ran = run_in(folder, Tier::Change, false, &[check]);
    let Outcome::Failed(how) = ran.outcome("planted") else { panic!("{}", ran.printed) };
    assert!(how.starts_with("over its deadline of 1 s"), "{how}");
    assert_eq!(written(reader), "");
}

#[test]
fn what_a_check_leaves_behind_is_ended() {
    let (folder, reader) = with_fifo();
    let commands = &["exec 3>fifo; echo begun >&3; sleep 86400 & true"];
    let ran = run_in(folder, Tier::Change, false, &[Check { commands, ..PLANTED }]);
    assert_eq!(ran.outcome("planted"), &Outcome::Passed);
    assert_eq!(written(reader), "begun\n");
}

#[test]
fn what_is_missing_is_named_in_a_change_and_a_failure_elsewhere() {
    let needs = &[Need::Debian("no-such-command", "no-such-package")];
    let checks = [
        Check { name: "needs", needs, ..PLANTED },
        Check {
            name: "skips",
            commands: &["echo no compiler is here; exit 77"],
            lane: Own,
            ..PLANTED
        },
        Check { name: "passes", ..PLANTED },
    ];
    let why = "needs no-such-command (apt-get install no-such-package)";
    for (tier, end) in [
        (Tier::Change, "s of a processor"),
        (Tier::Full, "not checked: no compiler is here"),
        (Tier::Named, "no compiler is here"),
    ] {
        let ran = run_in(TempDir::new().unwrap(), tier, true, &checks);
        assert_eq!(ran.outcome("needs"), &Outcome::NotChecked(why.to_owned()));
        assert_eq!(ran.outcome("skips"), &Outcome::NotChecked("no compiler is here".to_owned()));
        assert!(ran.last_line().ends_with(end), "{}", ran.printed);
    }
}

#[test]
fn programs_wait_for_the_build_and_get_what_it_has_built() {
    let build = Check { name: BUILD, commands: &["mkdir built"], ..PLANTED };
    let program = Check {
        name: "program",
        lane: Programs,
        commands: &["[ -d built ]", "[[ $memledger == */debug/memledger ]]"],
        ..PLANTED
    };
    let ran = run(Tier::Change, &[program, build]);
    assert_eq!(ran.outcome("program"), &Outcome::Passed, "{}", ran.printed);
    let build = Check { name: BUILD, commands: &["false"], ..PLANTED };
    let program = Check { name: "program", lane: Programs, ..PLANTED };
    let ran = run_in(TempDir::new().unwrap(), Tier::Full, true, &[program, build]);
    assert_eq!(ran.outcome("program"), &Outcome::Stopped("the check `build` has not passed"));
    // Without the build, it builds what it needs.
    let program = Check {
        name: "program",
        lane: Programs,
        // The runner can have run this test, and have given it one.
        commands: &["[[ ${memledger:-} != $PWD/* ]]"],
        ..PLANTED
    };
    assert_eq!(run(Tier::Named, &[program]).outcome("program"), &Outcome::Passed);
}

#[test]
fn lanes_run_beside_each_other_and_checks_of_one_do_not() {
    let folder = TempDir::new().unwrap();
    make_fifo(&folder);
    // Each end of a FIFO waits for the other one.
    let writes =
        Check { name: "writes", commands: &["mkdir one; echo text >fifo; rmdir one"], ..PLANTED };
    let reads = Check { name: "reads", lane: Own, commands: &["grep -q text fifo"], ..PLANTED };
    let alone = Check { name: "alone", commands: &["mkdir one; rmdir one"], ..PLANTED };
    let ran = run_in(folder, Tier::Change, false, &[writes, alone, reads]);
    assert!(ran.ended.iter().all(|ended| ended.outcome == Outcome::Passed), "{}", ran.printed);
}

#[test]
fn times_are_kept() {
    let folder = TempDir::new().unwrap();
    let times = |folder: &Path| fs::read_to_string(folder.join("target/checks/times.tsv")).unwrap();
    let fails = Check { name: "fails", commands: &["false"], lane: Own, ..PLANTED };
    let ran = run_in(folder, Tier::Full, true, &[PLANTED, fails]);
    let rows = times(ran.folder.path());
    let rows: Vec<_> = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>()).collect();
    assert_eq!(rows[0], ["commit", "tier", "check", "result", "seconds", "processor"]);
    assert_eq!(
        (rows[1][1..4].join(" "), rows[2][1..4].join(" ")),
        ("full planted passed".into(), "full fails failed".into())
    );
    let ran = run_in(ran.folder, Tier::Full, false, &[PLANTED]);
    assert_eq!(times(ran.folder.path()).lines().count(), 4);
}
