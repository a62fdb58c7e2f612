//! The tests.

use crate::harness::{Run, left, memledger};
use crate::scenarios::{LEFT, LEFT_IN_CHILD, SCENARIO};
use libtest_mimic::Trial;
use memledger_test_support::page::Page;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub fn all() -> Vec<Trial> {
            vec![$(Trial::test(stringify!($name), || { $name(); Ok(()) })),+]
        }
    };
}

trials![
    the_streams_and_the_status_are_the_programs,
    a_killed_program_is_reported,
    signals_are_passed_on,
    a_program_that_sigint_ends_ends_the_command_by_sigint,
    ctrl_c_reaches_the_program_once,
    job_control_stops_and_continues_both,
    ignored_signals_stay_ignored,
    closed_streams_and_an_ignored_sigpipe_are_handed_on,
    what_cannot_run_is_127_or_126,
    without_its_library_a_program_is_not_started,
    a_program_without_the_tracker,
    a_condition_fails_only_a_program_that_succeeded,
    a_condition_does_not_pass_on_part_of_a_trace,
    without_a_report_too_it_is_said_that_a_trace_has_no_end,
    only_the_program_itself_is_recorded,
    children_are_followed_if_asked,
    the_trace_is_kept_if_asked,
    the_last_run_can_be_asked_about,
    names_that_are_no_utf8_are_written_and_read,
    a_process_that_replaces_itself_has_files_that_are_numbered_alike,
    of_a_process_that_replaces_itself_one_program_has_a_report,
    a_process_that_an_unrecorded_program_replaces_is_incomplete,
    a_program_that_changes_its_user_and_replaces_itself_is_recorded_where_it_may_write,
    what_the_tracker_reports_is_not_in_the_programs_errors,
    a_trace_that_another_process_writes_is_refused,
    a_trace_that_was_deleted_is_told,
    what_a_killed_command_has_left_is_removed_by_the_next,
    what_is_written_is_its_owners_only,
    the_only_heap_of_a_program_is_that_of_rust,
    the_environment_has_the_defaults,
    stacks_have_functions,
    symbols_are_kept_between_processes,
    runs_differ_by_what_has_changed,
    a_page_is_written_beside_the_report,
    a_page_is_served_until_ctrl_c_after_the_end,
    findings_say_what_to_look_at_first,
    findings_of_a_run_are_those_of_its_trace,
    a_terminal_that_goes_away_ends_the_program,
    wrong_options_are_one_sentence,
];

fn the_streams_and_the_status_are_the_programs() {
    let mut run = Run::tracked("echo", &[]);
    fs::write(run.folder.path().join("input"), "text").expect("a file");
    let input = fs::File::open(run.folder.path().join("input")).expect("a file");
    run.command.stdin(input);
    let ended = run.run();
    ended.exited(7);
    assert_eq!(ended.stdout, "out:text");
    let report = ended.stderr.strip_prefix("err:text").expect("the program's errors first");
    assert!(report.starts_with("Memory of "), "{report}");
    assert!(report.contains("complete, nothing lost"), "{report}");
}

fn a_killed_program_is_reported() {
    // Its watcher has completed the trace.
    let ended = Run::tracked("killed", &["--report", "report.json"]).run();
    assert_eq!(ended.exited(137).stderr, "");
    assert_eq!(left(&ended.report("report.json"), LEFT), 1);
    let run = Run::tracked("killed", &["--report", "report.json"]).env("MEMLEDGER_WATCH", "0");
    let ended = run.run();
    ended.exited(137);
    assert_eq!(left(&ended.report("report.json"), LEFT), 1);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("has no end: the program was killed"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("tmp"), "no name of a file that is gone: {}", ended.stderr);
}

fn signals_are_passed_on() {
    use Signal::{SIGHUP, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    for signal in [SIGHUP, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        let mut running = Run::tracked("wait", &["--report", "report.json"]).spawn();
        let program = running.program();
        running.signal(signal);
        let ended = running.wait();
        ended.exited(128 + signal as i32);
        assert_eq!(left(&ended.report("report.json"), LEFT), 1, "{signal}");
        // By the program itself, or by its watcher.
        assert!(!ended.stderr.contains("has no end"), "{signal}: {}", ended.stderr);
        assert!(kill(program, None).is_err(), "the program has ended, too");
    }
}

fn a_program_that_sigint_ends_ends_the_command_by_sigint() {
    let ended = Run::tracked("interrupted", &["--report", "report.json"]).run();
    ended.killed_by(Signal::SIGINT);
    assert_eq!(left(&ended.report("report.json"), LEFT), 1);
    let mut running = Run::tracked("wait", &["--report", "off"]).spawn();
    running.program();
    running.signal(Signal::SIGINT);
    running.wait().killed_by(Signal::SIGINT);
}

/// A terminal whose session `command` leads, which this end writes into.
#[expect(unsafe_code, reason = "system calls")]
fn terminal(run: &mut Run) -> OwnedFd {
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let own = pty.master.as_raw_fd();
    run.command.stdin(Stdio::from(pty.slave));
    // SAFETY: makes system calls only.
    unsafe {
        run.command.pre_exec(move || {
            nix::unistd::close(own)?;
            nix::unistd::setsid()?;
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    pty.master
}

/// The state of a process: `T` if it is stopped.
fn state(process: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn ctrl_c_reaches_the_program_once() {
    let mut run = Run::tracked("count", &["--report", "report.json"]);
    let terminal = terminal(&mut run);
    let mut running = run.spawn();
    running.program();
    let command = running.pid();
    for number in 1..=3 {
        // NOTE: the command gets the signal later than the program, or one that it passed on would be
        // one with the program's own, which is still to be handled.
        running.signal(Signal::SIGSTOP);
        running.wait_until(|_| (state(command) == Some('T')).then_some(()));
        fs::File::from(terminal.try_clone().expect("a terminal"))
            .write_all(b"\x03")
            .expect("the terminal takes Ctrl-C");
        running.wait_for(&format!("{number} interrupts"));
        running.signal(Signal::SIGCONT);
    }
    // The command has had the last SIGINT before this, and would have passed it on.
    running.signal(Signal::SIGUSR1);
    let ended = running.wait();
    ended.exited(0);
    assert_eq!(fs::read_to_string(ended.path("interrupts")).expect("the number"), "3");
    assert_eq!(left(&ended.report("report.json"), LEFT), 1);
}

fn job_control_stops_and_continues_both() {
    let mut run = Run::tracked("wait", &["--report", "report.json"]);
    run.command.process_group(0);
    let mut running = run.spawn();
    let program = running.program();
    let (command, group) = (running.pid(), Pid::from_raw(-running.pid().as_raw()));
    kill(group, Signal::SIGTSTP).expect("the group");
    let stopped = waitpid(command, Some(WaitPidFlag::WUNTRACED)).expect("a child");
    assert_eq!(stopped, WaitStatus::Stopped(command, Signal::SIGTSTP));
    running.wait_until(|_| (state(program) == Some('T')).then_some(()));
    kill(group, Signal::SIGCONT).expect("the group");
    running.wait_until(|_| (state(program) != Some('T')).then_some(()));
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    ended.exited(143);
    assert_eq!(left(&ended.report("report.json"), LEFT), 1);
}

/// As under `nohup`.
fn ignored_signals_stay_ignored() {
    let mut run = Run::tracked("ignored", &["--report", "off"]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    shell.arg(run.command.get_program()).args(run.command.get_args());
    for (name, value) in run.command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(run.folder.path()).stdin(Stdio::null());
    run.command = shell;
    let ended = run.run();
    ended.exited(0);
    let mask = ended.stdout.rsplit_once('\t').expect("a mask").1;
    let mask = u64::from_str_radix(mask, 16).expect("a number");
    assert_eq!(mask & (1 << (Signal::SIGHUP as u64 - 1)), 1, "{}", ended.stdout);
    assert_eq!(mask & (1 << (Signal::SIGINT as u64 - 1)), 0, "{}", ended.stdout);
}

/// What Rust's runtime changes before `main` is not what the program gets.
fn closed_streams_and_an_ignored_sigpipe_are_handed_on() {
    let script = "trap '' PIPE; exec 0<&-; exec \"$0\" \"$@\"";
    let show = "[ -e /proc/self/fd/0 ] || echo closed; grep SigIgn /proc/self/status";
    let mut run = Run::of(&["--report=off", "--preload=off"], &["sh", "-c", show]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).arg(run.command.get_program()).args(run.command.get_args());
    shell.current_dir(run.folder.path()).stdin(Stdio::null());
    run.command = shell;
    let ended = run.run();
    ended.exited(0);
    let mut alone = std::process::Command::new("sh");
    let alone = alone.args(["-c", script, "sh", "-c", show]).output().expect("it runs");
    let alone = String::from_utf8(alone.stdout).expect("text");
    assert!(alone.starts_with("closed\n"), "{alone}");
    assert_eq!(ended.stdout, alone);
}

/// The folder of the program, of the trace, the report and the page.
fn names_that_are_no_utf8_are_written_and_read() {
    let mut run = Run::tracked("spawns", &["--follow-children", "--stacks"]);
    let name = |name: &[u8]| run.folder.path().join(OsStr::from_bytes(name));
    let folder = name(b"d\xff");
    fs::create_dir(&folder).expect("a folder");
    let program = folder.join("program");
    // NOTE: by a process of its own, as this one forks.
    let copied =
        Command::new("cp").arg(std::env::current_exe().expect("it")).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    let mut command = memledger();
    command.args(["run", "--follow-children", "--stacks"]);
    for (flag, file) in
        [("--trace", "%p.memledger"), ("--report", "%p.json"), ("--html", "%p.html")]
    {
        command.arg(flag).arg(folder.join(file));
    }
    command.arg("--").arg(&program).env(SCENARIO, "spawns").env("MEMLEDGER_WATCH", "0");
    command.current_dir(run.folder.path()).stdin(Stdio::null());
    run.command = command;
    let ended = run.run();
    ended.exited(0);
    assert_eq!(ended.stderr, "");
    let names = fs::read_dir(ended.path("").join(OsStr::from_bytes(b"d\xff"))).expect("a folder");
    let names: Vec<_> = names.map(|entry| entry.expect("a name").file_name()).collect();
    let ending =
        |end: &'static str| names.iter().filter(move |name| name.to_string_lossy().ends_with(end));
    for end in [".memledger", ".json", ".html"] {
        assert_eq!(ending(end).count(), 2, "{end} of {names:?}");
    }
    for report in ending(".json") {
        let report =
            fs::read_to_string(ended.path("").join(OsStr::from_bytes(b"d\xff")).join(report));
        let report = report.expect("a report");
        assert!(report.contains(r"/d\\xff/program"), "{report}");
        assert!(report.contains("scenarios::leave"), "{report}");
    }
}

fn what_cannot_run_is_127_or_126() {
    let ended = Run::of(&[], &["no-such-program"]).run();
    ended.exited(127);
    let expected = "memledger: cannot run no-such-program: there is no such program\n";
    assert_eq!((&*ended.stdout, &*ended.stderr), ("", expected));
    let run = Run::of(&[], &["./text"]);
    fs::write(run.folder.path().join("text"), "no program").expect("a file");
    let text = run.folder.path().join("text");
    fs::set_permissions(&text, fs::Permissions::from_mode(0o644)).expect("its owner");
    let ended = run.run();
    ended.exited(126);
    assert_eq!(ended.stderr, "memledger: cannot run ./text: it is not executable\n");
    Run::of(&[], &["/"]).run().exited(126);
}

/// There is no library beside the command of these tests.
fn without_its_library_a_program_is_not_started() {
    let ended = Run::of(&["--trace", "t.utrace"], &["sh", "-c", "echo > started"]).run();
    ended.exited(125);
    assert!(
        ended.stderr.starts_with(
            "memledger: sh cannot be tracked: it does not use memledger::TrackingAllocator, and \
             this command was built without the library for other programs, and \
             libmemledger_preload.so is not beside it, in ../lib or in ../lib/memledger; install a "
        ),
        "{}",
        ended.stderr
    );
    assert_eq!((ended.stderr.lines().count(), &*ended.stdout), (1, ""));
    assert_eq!(ended.files(""), [""; 0], "nothing ran");
    let ended = Run::of(&["--preload", "none.so"], &["true"]).run();
    ended.exited(125);
    assert!(ended.stderr.contains("none.so cannot be used: "), "{}", ended.stderr);
}

fn a_program_without_the_tracker() {
    let off = ["--preload", "off"];
    let ended = Run::of(&off, &["true"]).run();
    ended.exited(0);
    assert_eq!(
        ended.stderr,
        "memledger: true does not use memledger::TrackingAllocator; --follow-children also records the programs that it starts\n"
    );
    Run::of(&off, &["sh", "-c", "exit 9"]).run().exited(9);
    // A condition that cannot be checked does not pass.
    let condition = ["--preload", "off", "--fail-if", "live_blocks > 0"];
    let ended = Run::of(&condition, &["true"]).run();
    ended.exited(1);
    assert!(ended.stderr.ends_with("so no --fail-if can be checked\n"), "{}", ended.stderr);
    Run::of(&condition, &["sh", "-c", "exit 9"]).run().exited(9);
    // An old trace of this name is no trace of the program.
    let run = Run::of(&["--preload", "off", "--trace", "old.utrace"], &["true"]);
    fs::write(run.folder.path().join("old.utrace"), "old").expect("a file");
    let ended = run.run();
    ended.exited(0);
    assert!(ended.stderr.contains("does not use"), "{}", ended.stderr);
}

fn a_condition_fails_only_a_program_that_succeeded() {
    let condition = ["--report", "off", "--fail-if", "live_bytes > 1MB"];
    let sentence = "'live_bytes > 1MB' holds: live_bytes is 1";
    for (scenario, status) in [("succeed", 3), ("fail", 7)] {
        let ended = Run::tracked(scenario, &condition).run();
        ended.exited(status);
        assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    let ended = Run::tracked("succeed", &["--report=off", "--fail-if", "live_bytes > 1GB"]).run();
    assert_eq!(ended.exited(0).stderr, "");
}

fn a_condition_does_not_pass_on_part_of_a_trace() {
    let run = Run::tracked("killed", &["--report=off", "--fail-if", "live_bytes > 1GB"]);
    let ended = run.env("MEMLEDGER_WATCH", "0").run();
    ended.exited(137);
    assert!(ended.stderr.contains("cannot pass"), "{}", ended.stderr);
}

fn without_a_report_too_it_is_said_that_a_trace_has_no_end() {
    for (watch, lines) in [("0", 1), ("1", 0)] {
        let ended = Run::tracked("killed", &["--report=off"]).env("MEMLEDGER_WATCH", watch).run();
        ended.exited(137);
        assert_eq!(ended.stderr.lines().count(), lines, "{}", ended.stderr);
        assert_eq!(ended.stderr.contains(") has no end: "), watch == "0", "{}", ended.stderr);
    }
}

fn only_the_program_itself_is_recorded() {
    for options in [&["--report", "r.json"][..], &["--report=r.json", "--trace=t.utrace"]] {
        let ended = Run::tracked("spawns", options).run();
        ended.exited(0);
        assert_eq!(ended.stderr, "");
        let report = ended.report("r.json");
        assert_eq!((left(&report, LEFT), left(&report, LEFT_IN_CHILD)), (1, 0));
        let files: &[_] = if options.contains(&"--trace=t.utrace") {
            &["r.json", "t.utrace"]
        } else {
            &["r.json"]
        };
        assert_eq!(ended.files(""), files);
    }
    // The program is a shell, which has no tracker; what it starts is none of ours.
    // On stderr, a table shows which process has started which.
    let ended = Run::tracked("spawns", &["--follow-children"]).run();
    let table = ended.exited(0).stderr.split("\nProcesses ").nth(1).expect("a table");
    let indents = table.lines().skip(1).take(3);
    let indents: Vec<_> = indents.map(|line| line.len() - line.trim_start().len()).collect();
    assert_eq!(indents, [2, 4, 2], "{table}");
    assert!(table.contains("\n  all 2 "), "{table}");

    let program = std::env::current_exe().expect("a path");
    let program = format!("TEST_SCENARIO=succeed {}; exit 0", program.display());
    let ended = Run::of(&["--preload=off"], &["sh", "-c", &program]).run();
    ended.exited(0);
    assert!(ended.stderr.starts_with("memledger: sh does not use "), "{}", ended.stderr);
}

fn children_are_followed_if_asked() {
    let options = ["--follow-children", "--report=r-%p.json", "--trace=t-%p.memledger"];
    let ended = Run::tracked("spawns", &options).run();
    ended.exited(0);
    assert_eq!(ended.stderr, "");
    let files = ended.files("");
    let [parent, child, ..] = &*files else { panic!("{files:?}") };
    assert_eq!(files.len(), 4, "{files:?}");
    let mut found = [parent, child].map(|name| {
        let report = ended.report(name);
        assert!(name.contains(&report["trace"]["pid"].to_string()), "{name}");
        (left(&report, LEFT), left(&report, LEFT_IN_CHILD))
    });
    found.sort();
    assert_eq!(found, [(1, 0), (1, 1)]);

    let program = std::env::current_exe().expect("a path");
    let program = format!("TEST_SCENARIO=succeed {}; exit 5", program.display());
    let follow = ["--follow-children", "--preload=off"];
    let ended = Run::of(&follow, &["sh", "-c", &program]).run();
    ended.exited(5);
    assert!(ended.stderr.starts_with("Memory of run-"), "{}", ended.stderr);
    let ended = Run::of(&follow, &["true"]).run();
    assert!(ended.stderr.contains("nor does a program that it has started"), "{}", ended.stderr);
}

fn the_trace_is_kept_if_asked() {
    let ended = Run::tracked("succeed", &["--report=off", "--trace", "%%-%p.memledger"]).run();
    ended.exited(0);
    assert_eq!(ended.stderr, "");
    let files = ended.files("");
    assert!(files.len() == 1 && files[0].starts_with("%-"), "{files:?}");
}

fn the_last_run_can_be_asked_about() {
    let cache = tempfile::tempdir().expect("a folder");
    let set = |command: &mut Command| {
        command.env("XDG_CACHE_HOME", cache.path()).env("MEMLEDGER_CACHE", "64MiB");
    };
    let run = |scenario: &str, options: &[&str]| {
        let mut run = Run::tracked(scenario, options);
        set(&mut run.command);
        run.run()
    };
    let asked = |words: &[&str]| {
        let mut command = memledger();
        set(&mut command);
        let output = command.args(words).output().expect("it runs");
        (
            output.status.code(),
            String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8"),
        )
    };
    let (status, none) = asked(&["info", "last"]);
    assert!(status == Some(2) && none.contains("no run is kept: "), "{none}");
    // Its report does not go to a terminal.
    run("succeed", &[]).exited(0);
    assert_eq!(asked(&["info", "last"]).0, Some(2));

    let screen = run("defects", &["--keep"]);
    let command = "memledger query last --finding 1 --by size";
    assert!(screen.exited(0).stderr.contains(command), "{}", screen.stderr);
    let words: Vec<_> = command.split(' ').skip(1).chain(["--format", "json"]).collect();
    let (status, answer) = asked(&words);
    assert_eq!(status, Some(0), "{answer}");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(
        (&answer["total"]["blocks"], &answer["total"]["bytes"]),
        (&30.into(), &150_000.into())
    );
    let (status, rows) = asked(&[&words[..4], &["--by=lifetime", "--format=json"]].concat());
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
    assert_eq!((status, &rows["by"]), (Some(0), &"lifetime".into()));
    let rows = rows["rows"].as_array().expect("rows").iter();
    assert_eq!(rows.map(|row| row["blocks"].as_u64().expect("blocks")).sum::<u64>(), 30);
    // The same blocks as tables.
    for (table, lines) in [("blocks", 30), ("events", 30), ("live", 30)] {
        let words = ["export", "last", "--finding=1", "--to=csv", "--table", table, "-o", "-"];
        let (status, rows) = asked(&words);
        assert_eq!((status, rows.lines().count()), (Some(0), 1 + lines), "{table}: {rows}");
    }
    let (status, why) = asked(&["top", "last"]);
    assert!(status == Some(2) && why.contains("memledger view last shows it"), "{why}");
    for (condition, expected) in [("left_behind > 0", 3), ("queue > 0", 0), ("findings = 0", 0)] {
        let (status, said) = asked(&["report", "last", "--fail-if", condition]);
        assert_eq!(status, Some(expected), "{condition}: {said}");
    }
    let (status, why) = asked(&["query", "last", "--finding", "9"]);
    assert!(status == Some(1) && why.contains("there is no finding 9: the trace has "), "{why}");

    // One whose user names the trace is the last one, too.
    let named = run("succeed", &["--keep", "--report=off", "--trace", "t.memledger"]);
    assert_eq!(named.exited(0).files(""), ["t.memledger"]);
    let text = |words: &[&str]| asked(words).1.replace(&*named.path("").to_string_lossy(), "");
    assert_eq!(
        asked(&["events", "last"]),
        asked(&["events", &named.path("t.memledger").to_string_lossy()])
    );
    let program = std::env::current_exe().expect("a path");
    let name = program.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(
        text(&["info", &format!("last:{name}"), "--format=json"]),
        text(&["info", "last", "--format=json"])
    );
    let (status, other) = asked(&["report", "last:other"]);
    assert!(status == Some(2) && other.contains(&format!("there are runs of {name}")), "{other}");
    let off = Run::tracked("succeed", &["--keep", "--report=off"]).run();
    assert_eq!(off.exited(0).stderr, "memledger: the trace is not kept: MEMLEDGER_CACHE is off\n");
}

fn a_process_that_replaces_itself_has_files_that_are_numbered_alike() {
    let options = ["--report", "r.json", "--html", "p.html", "--trace", "t.utrace"];
    let ended = Run::tracked("replaces", &options).run();
    ended.exited(0);
    assert_eq!(ended.stderr, "", "no word of a file that is in use");
    let last = ended.report("r.json");
    let pid = &last["trace"]["pid"];
    let names = |number: &str| {
        ["p", "r", "t"]
            .into_iter()
            .zip(["html", "json", "utrace"])
            .map(move |(name, ending)| format!("{name}{number}.{ending}"))
            .collect::<Vec<_>>()
    };
    let mut expected = [names(""), names(&format!(".{pid}"))].concat();
    expected.sort();
    assert_eq!(ended.files(""), expected);
    for (number, left_in_child) in [("", 1), (&*format!(".{pid}"), 0)] {
        let report = ended.report(&format!("r{number}.json"));
        assert_eq!(
            report["trace"]["complete"], true,
            "program {number:?}: {}",
            report["untracked"]
        );
        assert_eq!((left(&report, LEFT), left(&report, LEFT_IN_CHILD)), (1, left_in_child));
        let mut command = memledger();
        let trace = ended.path(&format!("t{number}.utrace"));
        let output = command.arg("report").arg(trace).args(["--format", "json"]).output();
        let of_trace = output.expect("the command runs").stdout;
        let of_trace: serde_json::Value = serde_json::from_slice(&of_trace).expect("JSON");
        let page =
            Page::of_html(&fs::read(ended.path(&format!("p{number}.html"))).expect("a page")).0;
        for totals in [&of_trace["totals"], &page["totals"]] {
            assert_eq!(*totals, report["totals"], "program {number:?}");
        }
    }
}

fn of_a_process_that_replaces_itself_one_program_has_a_report() {
    let ended = Run::tracked("replaces", &[]).run();
    let text = &ended.exited(0).stderr;
    let begins: Vec<_> = text.match_indices("Memory of ").map(|(at, _)| at).collect();
    let [last, replaced] = begins[..] else { panic!("{text}") };
    assert!(text[last..replaced].contains("allocated"), "{text}");
    let line = text[replaced..].split_once("\nProcesses").expect(text).0.replace('\n', " ");
    assert!(line.contains("complete, nothing lost; peak "), "{line}");
    assert!(line.ends_with("; replaced by the next program (exec)"), "{line}");
}

/// The watcher sees that by itself, unless the new program ends before it looks: so that one lives longer and
/// longer.
fn a_process_that_an_unrecorded_program_replaces_is_incomplete() {
    let options = ["--report=r.json", "--trace=t.memledger", "--fail-if=live_bytes > 1GB"];
    let seen = ["0.01", "0.1", "1", "10", "60"].into_iter().find_map(|time| {
        let run = Run::tracked("replaces by an unrecorded one", &options).env("TEST_SLEEP", time);
        let ended = run.run();
        let report = ended.report("r.json");
        assert_eq!(left(&report, LEFT), 1);
        (report["trace"]["complete"] == false).then_some((ended, report))
    });
    let (ended, report) = seen.expect("a program of 60 s is seen");
    ended.exited(1);
    let reason = &report["untracked"]["reasons"][0];
    assert_eq!(reason["kind"], "replaced");
    let file = reason["file"].as_str().expect("a path");
    let at: u64 = reason["function"].as_str().expect("a time").parse().expect("a number");
    assert_eq!(report["trace"]["duration_ns"], at, "the trace ends where its program does");
    assert!(ended.stderr.contains(&format!("replaced by {file} at ")), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let of_trace = memledger().arg("report").arg(ended.path("t.memledger")).output();
    let of_trace = of_trace.expect("the command runs");
    assert_eq!(of_trace.status.code(), Some(1));
    let text = String::from_utf8_lossy(&of_trace.stdout);
    let first = text.lines().next().expect("a line");
    assert!(first.contains("INCOMPLETE, replaced by"), "{first}");
}

fn a_program_that_changes_its_user_and_replaces_itself_is_recorded_where_it_may_write() {
    let run = Run::tracked("replaces as another user", &["--report=r.json", "--trace=t.utrace"]);
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(run.folder.path(), all).expect("the folder is ours");
    let ended = run.run();
    if ended.stderr.starts_with("setpriv: ") {
        return eprintln!("the rights of root are needed, and a program that others may execute");
    }
    assert_eq!(ended.exited(0).stderr, "");
    let last = ended.report("r.json");
    assert_eq!((left(&last, LEFT), left(&last, LEFT_IN_CHILD)), (1, 1));
    let first = ended.report(&format!("r.{}.json", last["trace"]["pid"]));
    assert_eq!((left(&first, LEFT), left(&first, LEFT_IN_CHILD)), (1, 0));
}

fn what_the_tracker_reports_is_not_in_the_programs_errors() {
    let program = std::env::current_exe().expect("a path");
    let shell = ["sh", "-c", "exec \"$0\" 2>errors", program.to_str().expect("UTF-8")];
    let run = Run::of(&["--report=off", "--preload=off"], &shell).env(SCENARIO, "fail");
    let ended = run.env("MEMLEDGER_TRAEC", "x").run();
    ended.exited(7);
    let errors = fs::read_to_string(ended.path("errors")).expect("the program's errors");
    assert_eq!(errors, "");
    let rest = ended.stderr.strip_prefix("memledger: process ").expect("a sentence");
    let (pid, sentence) = rest.split_once(": ").expect("a number");
    assert!(pid.bytes().all(|byte| byte.is_ascii_digit()), "{rest}");
    let expected =
        "MEMLEDGER_TRAEC is set, but there is no such setting; MEMLEDGER_TRACE is likely meant\n";
    assert_eq!(sentence, expected);
}

fn a_trace_that_another_process_writes_is_refused() {
    let run = Run::tracked("succeed", &["--report=off", "--trace", "t.memledger"]);
    let file = fs::File::create(run.folder.path().join("t.memledger")).expect("a file");
    file.lock().expect("a lock");
    let ended = run.run();
    ended.exited(125);
    let expected = "/t.memledger; give --trace another name\n";
    assert!(ended.stderr.ends_with(expected), "{}", ended.stderr);
}

fn a_trace_that_was_deleted_is_told() {
    let ended = Run::tracked("deletes", &["--trace", "t.utrace"]).run();
    ended.exited(0);
    assert!(ended.stderr.contains("its trace was deleted or renamed"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("does not use memledger"), "{}", ended.stderr);
}

fn what_a_killed_command_has_left_is_removed_by_the_next() {
    let mut running = Run::tracked("wait", &["--report=off"]).spawn();
    let program = running.program();
    running.signal(Signal::SIGKILL);
    let killed = running.wait();
    let left = killed.files("tmp");
    assert_eq!(left.len(), 1, "{left:?}");
    let next = || {
        let run = Run::tracked("succeed", &["--report=off"]);
        run.env("TMPDIR", killed.path("tmp").to_str().expect("UTF-8")).run().exited(0);
        killed.files("tmp")
    };
    let old = SystemTime::now() - Duration::from_secs(3600);
    let folder = fs::File::open(killed.path("tmp").join(&left[0])).expect("the folder");
    folder.set_modified(old).expect("its owner");
    assert_eq!(next(), left, "the program writes its trace there");
    kill(program, Signal::SIGKILL).expect("it runs");
    // Its watcher completes the trace, and then lets go of it.
    let trace = fs::read_dir(killed.path("tmp").join(&left[0])).expect("it").next();
    let trace = trace.expect("a trace").expect("an entry").path();
    fs::File::open(trace).expect("the trace").lock_shared().expect("a lock");
    folder.set_modified(SystemTime::now()).expect("its owner");
    assert_eq!(next(), left, "it is new");
    folder.set_modified(old).expect("its owner");
    assert_eq!(next(), [""; 0]);
}

fn what_is_written_is_its_owners_only() {
    let mut run =
        Run::tracked("succeed", &["--report=r.json", "--html=p.html", "--trace=t.utrace"]);
    // A mask that takes nothing away.
    let program = run.command.get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(program).args(run.command.get_args());
    let folder = run.folder.path();
    shell
        .current_dir(folder)
        .envs(run.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run.command = shell;
    let ended = run.run();
    ended.exited(0);
    let tables = ended.path("tables");
    let mut export = memledger();
    export.arg("export").arg(ended.path("t.utrace")).args(["--to", "csv", "-o"]).arg(&tables);
    assert!(export.status().expect("the command runs").success());
    let mut paths = ["r.json", "p.html", "t.utrace"].map(|name| ended.path(name)).to_vec();
    let entries = fs::read_dir(&tables).expect("tables");
    paths.extend(entries.map(|entry| entry.expect("a table").path()));
    assert!(paths.len() > 4);
    for path in paths {
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

fn the_only_heap_of_a_program_is_that_of_rust() {
    let condition = |heap| format!("live_bytes{{heap=\"{heap}\"}} > 1MB");
    let ended = Run::tracked("succeed", &["--report=off", "--fail-if", &condition("Rust")]).run();
    ended.exited(3);
    assert!(ended.stderr.contains("live_bytes of Rust is 1"), "{}", ended.stderr);
    let ended = Run::tracked("succeed", &["--report=off", "--fail-if", &condition("C")]).run();
    ended.exited(1);
    assert!(ended.stderr.contains("has no heap \"C\"; there is \"Rust\""), "{}", ended.stderr);
}

fn the_environment_has_the_defaults() {
    let run = Run::tracked("succeed", &[]).env("MEMLEDGER_REPORT", "r.json");
    let ended = run.env("MEMLEDGER_TRACE", "t.utrace").env("MEMLEDGER_CHANNELS", "memory").run();
    ended.exited(0);
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.files(""), ["r.json", "t.utrace"]);
}

fn stacks_have_functions() {
    let stacks = if cfg!(target_arch = "x86_64") { "--stacks" } else { return };
    let ended = Run::tracked("succeed", &[stacks, "--report=r.json"]).run();
    ended.exited(0);
    let report = ended.report("r.json");
    let rows = report["by_function"].as_array().expect("functions");
    let leaves = |row: &&serde_json::Value| {
        row["function"].as_str().is_some_and(|name| name.contains("leave"))
    };
    assert!(rows.iter().find(leaves).is_some_and(|row| row["live_bytes"] == LEFT), "{rows:#?}");
}

fn symbols_are_kept_between_processes() {
    let stacks = if cfg!(target_arch = "x86_64") { "--stacks" } else { return };
    let run = Run::of(&[stacks, "--follow-children", "--report=r-%p.json"], &["./program"]);
    let program = std::env::current_exe().expect("a path");
    fs::copy(program, run.folder.path().join("program")).expect("a copy");
    let ended = run.env(SCENARIO, "gone").run();
    ended.exited(0);
    assert_eq!(ended.files("").len(), 3, "a report of each process");
    let path = ended.path("program").canonicalize().unwrap_or_else(|_| ended.path("program"));
    let sentence = format!(
        "memledger: there is no file with the symbols of {}; its frames are the module and an offset\n",
        path.display()
    );
    assert_eq!(ended.stderr, sentence, "once, not once for each process");
}

fn runs_differ_by_what_has_changed() {
    let traced = |scenario, options: &[&str]| {
        let options = [options, &["--report=off", "--trace=t.memledger"]].concat();
        let ended = Run::tracked(scenario, &options).run();
        assert_eq!(ended.exited(0).stderr, "");
        ended
    };
    let stacks = if cfg!(target_arch = "x86_64") { &["--stacks"][..] } else { return };
    let (old, new) = (traced("before", stacks), traced("after", stacks));
    let without = traced("before", &[]);
    let path = |ended: &crate::harness::Ended| ended.path("t.memledger").display().to_string();
    let diff = |old: &str, new: &str, options: &[&str]| {
        let mut command = memledger();
        let output = command.args(["diff", old, new]).args(options).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (old, new, without) = (path(&old), path(&new), path(&without));
    let (status, out, err) = diff(&old, &new, &["--format=json", "--sort=live"]);
    assert_eq!((status, &*err), (Some(0), ""));
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["schema"], "memledger.diff/1");
    let rows = |by: &str| {
        let tables = document["tables"].as_array().expect("tables");
        let table = tables.iter().find(|table| table["by"] == by).expect("the table");
        let rows = table["rows"].as_array().expect("rows").iter();
        let last = |row: &serde_json::Value| {
            let path = row["path"].as_array().expect("a path");
            let name = path.last().and_then(|name| name.as_str()).expect("a name");
            // NOTE: lines alone give an inlined function its module, but not the crate of a test.
            name.strip_prefix("run::").unwrap_or(name).to_owned()
        };
        let changed = rows.filter(|row| row["change"] != 0);
        changed
            .map(|row| (last(row), row["state"].clone(), row["change"].as_i64()))
            .collect::<Vec<_>>()
    };
    // The environment of the two is as long, so nothing else differs.
    let [grown, new_row] = ["grown", "new"].map(serde_json::Value::from);
    assert_eq!(
        rows("scope"),
        [
            ("request".to_owned(), grown.clone(), Some(20_000)),
            ("index".to_owned(), new_row, Some(15_000))
        ]
    );
    assert_eq!(rows("function"), [("scenarios::leave".to_owned(), grown, Some(35_000))]);
    let (_, out, err) = diff(&old, &new, &["--by=stack", "--sort=live", "--width=160"]);
    assert_eq!(err, "");
    for function in ["keep_cache", "make_index"] {
        assert!(out.contains(function), "{out}");
    }
    assert!(!out.contains("keep_parsed"), "it has not changed: {out}");

    for (condition, status) in [
        ("live_bytes{function=\"leave\"} grew >= 35000", 3),
        ("live_bytes{function=\"scenarios::leave\"} grew > 35000", 0),
        ("live_bytes{scope=\"index\"} grew > 900%", 3),
        ("live_blocks{function=\"keep_cache\"} grew > 199%", 3),
        ("live_blocks{function=\"keep_cache\"} grew > 200%", 0),
        ("live_blocks{function=\"keep_parsed\"} grew > 0", 0),
        ("live_bytes shrank > 0", 0),
        ("live_bytes{function=\"none\"} grew > 0", 1),
    ] {
        let (found, _, err) = diff(&old, &new, &["--fail-if", condition]);
        assert_eq!(found, Some(status), "{condition}: {err}");
    }
    let (status, out, err) = diff(&new, &without, &[]);
    assert_eq!(status, Some(0));
    assert!(err.contains("does not have call stacks, so functions are not compared"), "{err}");
    assert!(!out.contains("By function"), "{out}");
}

fn a_page_is_written_beside_the_report() {
    let options = ["--stacks", "--html", "page.html", "--report", "report.json"];
    let ended = Run::tracked("succeed", &options).run();
    ended.exited(0);
    let page = Page::of_html(&fs::read(ended.path("page.html")).expect("the page"));
    page.is_of(&ended.report("report.json"));
    assert!(page.0["findings"].is_array(), "a page has findings");
    assert!(ended.report("report.json")["findings"].is_null(), "a report only if asked");
    // Alone, and as the report itself.
    let ended = Run::tracked("fail", &["--html=page.html", "--report=off"]).run();
    ended.exited(7);
    assert_eq!((ended.files(""), ended.stderr.as_str()), (vec!["page.html".to_owned()], ""));
    let ended = Run::tracked("succeed", &["--report=page.htm"]).run();
    ended.exited(0);
    let page = Page::of_html(&fs::read(ended.path("page.htm")).expect("the page"));
    assert!(page.0["findings"].is_array());
}

fn a_page_is_served_until_ctrl_c_after_the_end() {
    let mut running = Run::tracked("fail", &["--view", "--report=report.json"]).spawn();
    let url = running.wait_until(|running| {
        let err = running.text("stderr");
        let url = err.lines().find(|line| line.starts_with("http://") && err.ends_with('\n'))?;
        Some(url.to_owned())
    });
    running.wait_until(|running| {
        running.text("stderr").contains("Ctrl-C ends its page").then_some(())
    });
    let (host, token) = url.trim_start_matches("http://").split_once("/?token=").expect("a token");
    let page = running.wait_until(|_| {
        let mut stream = TcpStream::connect(host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let request = format!(
            "GET /api/page?token={token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an empty line");
        let page: serde_json::Value = serde_json::from_str(body).expect("JSON");
        // Until it was read to its end, it is that of a moment before.
        (page["trace"]["complete"] == true).then_some(page)
    });
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    ended.exited(7);
    assert_eq!(page["totals"], ended.report("report.json")["totals"]);

    let ended = Run::of(&["--view", "--preload=off"], &["true"]).run();
    ended.exited(0);
    assert!(!ended.stderr.contains("http"), "{}", ended.stderr);
}

fn findings_say_what_to_look_at_first() {
    let report = |channels: &str, options: &[&str]| {
        let run = Run::tracked("defects", &["--report=off", "--trace=t.memledger"]);
        let ended = run.env("MEMLEDGER_CHANNELS", channels).run();
        assert_eq!(ended.exited(0).stderr, "");
        let mut command = memledger();
        command.arg("report").arg(ended.path("t.memledger")).arg("--findings").args(options);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let text = report("memory,scope,freescope", &[]);
    let (_, found) = text.split_once("\n\nFindings\n").expect("findings");
    let lines: Vec<_> = found.lines().map(str::trim).collect();
    assert_eq!(lines[0], "1. left behind: render, on main", "{text}");
    assert!(lines.iter().any(|line| line.starts_with("Most blocks of this place")), "{text}");
    // The first screen has them, too.
    let ended = Run::tracked("defects", &[]).run();
    let screen = &ended.exited(0).stderr;
    assert!(screen.contains("\n\nFindings\n  1. left behind: render, on main\n"), "{screen}");
    assert!(screen.contains("\n\nWho held the peak"), "{screen}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let table: Vec<_> = lines.iter().skip_while(|line| !line.starts_with("Freed in")).collect();
    let table: Vec<_> = table.into_iter().map(|line| words(line)).collect();
    let rows = ["render 3,300 3.0 MiB", "itself 3,000 2.9 MiB", "clean up 300 93.8 KiB"];
    assert_eq!(table[1..4], rows, "{text}");
    let selected = report("memory,scope,freescope", &["--filter", "nothing like it"]);
    assert!(selected.contains("Findings: none with that in its place"), "{selected}");
    assert!(!selected.contains("Freed in"), "{selected}");

    let json = |channels| {
        let text = report(channels, &["--format=json", "--scope=render"]);
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let document = json("memory,scope,freescope");
    let without = json("memory,scope");
    for document in [&document, &without] {
        let first = &document["findings"][0];
        assert_eq!(first["kind"], "left_behind");
        assert_eq!(first["place"]["path"], serde_json::json!(["GlobalScope", "render"]));
        let figures = first["figures"].as_array().expect("figures");
        for (key, value, unit) in
            [("blocks", 30, "count"), ("bytes", 150_000, "bytes"), ("freed", 3_300, "count")]
        {
            let figure =
                serde_json::json!({ "key": key, "value": value, "unit": unit, "source": "blocks" });
            assert!(figures.contains(&figure), "{figures:?}");
        }
    }
    let row = |scope: &str, blocks, bytes| {
        serde_json::json!({
            "allocated_in": ["GlobalScope", "render"],
            "freed_in": ["GlobalScope", scope],
            "blocks": blocks,
            "bytes": bytes,
        })
    };
    let rows = [row("render", 3_000, 3_000_000), row("clean up", 300, 96_000)];
    assert_eq!(document["freed_in"], serde_json::json!(rows));
    assert!(without.get("freed_in").is_none());
}

fn wrong_options_are_one_sentence() {
    for options in [
        &["--stacks=some"][..],
        &["--report", "x.unknown"],
        &["--trace", "%t.utrace"],
        &["--trace", "/dev/null"],
        &["--follow-children", "--trace", "x.utrace"],
        &["--follow-children", "--report", "x.json"],
        &["--follow-children", "--html", "x.html"],
        &["--html", "x.json"],
        &["--fail-if", "peak > 1"],
    ] {
        let ended = Run::tracked("succeed", options).run();
        ended.exited(2);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_eq!(ended.files(""), [""; 0], "nothing ran");
    }
    assert_eq!(Run::of(&[], &[]).run().exited(2).stderr.lines().count(), 1);
    // What begins with - is an option, unless it is behind -- or the program.
    let ended = Run::of(&["--stack"], &["true"]).run();
    let expected =
        "memledger: there is no option --stack; --stacks is likely meant (--help has more)\n";
    assert_eq!(ended.exited(2).stderr, expected);
    Run::of(&[], &["-x"]).run().exited(127);
    let mut run = Run::tracked("succeed", &[]);
    let mut command = memledger();
    let program = std::env::current_exe().expect("a path");
    command.args(["run", "-o", "r.json"]).arg(program).args(["--report=x.txt", "-x"]);
    command.env(SCENARIO, "succeed").current_dir(run.folder.path()).stdin(Stdio::null());
    command.env("TMPDIR", run.folder.path().join("tmp"));
    run.command = command;
    assert_eq!(run.run().exited(0).files(""), ["r.json"]);
}

fn findings_of_a_run_are_those_of_its_trace() {
    let ended = Run::tracked("defects", &["--findings", "--trace=t.memledger"]).run();
    ended.exited(0);
    let mut command = memledger();
    command.current_dir(ended.path(""));
    command.args(["report", "t.memledger", "--findings", "--width=80"]);
    let output = command.output().expect("it runs");
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), ended.stderr);
    assert!(ended.stderr.contains("1. left behind: render, on main"), "{}", ended.stderr);
}

/// The kernel tells only the leader of a session that the terminal has gone.
fn a_terminal_that_goes_away_ends_the_program() {
    let mut run = Run::tracked("wait", &["--report", "report.json"]);
    let terminal = terminal(&mut run);
    let mut running = run.spawn();
    let program = running.program();
    drop(terminal);
    let ended = running.wait();
    ended.exited(128 + Signal::SIGHUP as i32);
    assert_eq!(left(&ended.report("report.json"), LEFT), 1);
    assert!(kill(program, None).is_err(), "the program has ended, too");
}
