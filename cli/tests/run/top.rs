//! `memledger top`, on a terminal and without one.

use crate::harness::memledger;
use crate::scenarios::SCENARIO;
use crate::screen::Screen;
use libtest_mimic::Trial;
use memledger_test_support::command::{DEADLINE, status_within};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::Winsize;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub fn all() -> Vec<Trial> {
    macro_rules! trials {
        ($($name:ident),+ $(,)?) => {
            vec![$(Trial::test(concat!("top::", stringify!($name)), || { $name(); Ok(()) })),+]
        };
    }
    trials![
        a_program_is_watched_marked_and_seen_to_grow,
        no_key_is_lost_while_the_terminal_changes_its_size,
        a_signal_and_ctrl_c_leave_the_terminal_as_it_was,
        it_ends_when_its_terminal_is_gone,
        the_text_of_a_panic_is_seen,
        a_file_is_shown_by_view,
        run_shows_the_program_and_then_what_it_has_written,
        run_shows_a_program_that_runs_and_the_one_that_replaces_it,
        run_shows_a_program_that_does_not_listen_when_it_has_ended,
        a_program_is_found_by_its_process,
        without_a_terminal_one_screen_is_text,
        a_program_that_wants_a_token_gets_it,
    ]
}

fn command(arguments: &[&str]) -> Command {
    let mut command = memledger();
    command.args(arguments).env("RUST_BACKTRACE", "0").env_remove("NO_COLOR");
    command
}

/// A program that can be controlled, and allocates when it is asked to.
struct Served {
    _folder: TempDir,
    child: Child,
    input: Option<ChildStdin>,
    address: String,
}

impl Served {
    fn start(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command
            .env(SCENARIO, "served")
            .envs([("MEMLEDGER_CONTROL", "0"), ("MEMLEDGER_REPORT", "off")])
            .envs(variables.iter().copied())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().expect("the program runs");
        let input = child.stdin.take();
        let start = Instant::now();
        let address = loop {
            if let Ok(address) = fs::read_to_string(folder.path().join("ready")) {
                break address;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the program does not start");
            std::thread::sleep(Duration::from_millis(1));
        };
        Self { _folder: folder, child, input, address }
    }

    /// 3 MiB more in the scope `growing`.
    fn grow(&mut self) {
        self.input.as_mut().expect("it runs").write_all(b"more\n").expect("it reads");
    }

    fn end(&mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("a child").success());
    }
}

fn a_program_is_watched_marked_and_seen_to_grow() {
    let mut program = Served::start(&[]);
    let mut screen =
        Screen::start(command(&["top", &program.address, "--interval", "0.1"]), 30, 100);
    screen.wait_for(&["(process", "loading", "5.0 MiB", "(whole program)"]);
    assert!(screen.has_colour());
    screen.keys("m");
    screen.wait_for(&["since the mark no change"]);
    program.grow();
    screen.wait_for(&["growing", "+3.0 MiB", "since the mark +3.0 MiB"]);
    screen.keys("/grow\r");
    screen.wait_until(|text| !text.contains("loading") && text.contains("growing"), &["filter"]);
    screen.keys("\x1b");
    screen.wait_for(&["loading"]);
    screen.keys("5");
    screen.wait_for(&["thread, ", "main"]);
    screen.keys("?");
    screen.wait_for(&["this help"]);
    screen.keys("?1");
    screen.resize(14, 60);
    // The last line of the screen is that of the keys.
    screen.wait_until(
        |text| {
            text.lines().count() == 14
                && text.lines().last().is_some_and(|keys| keys.contains("quit"))
        },
        &["14 lines"],
    );
    screen.resize(5, 20);
    screen.wait_for(&["needs", "40 x 10", "20"]);
    screen.resize(30, 100);
    screen.wait_for(&["growing"]);
    program.end();
    screen.wait_for(&["no answer", "these are its last figures", "growing", "+3.0 MiB"]);
    screen.keys("q");
    assert!(screen.ended().success());
}

/// A key and the signal of a new size come at the same time.
fn no_key_is_lost_while_the_terminal_changes_its_size() {
    let mut program = Served::start(&[]);
    let mut screen = Screen::start(command(&["top", &program.address]), 30, 100);
    screen.wait_for(&["loading"]);
    for columns in 81..101 {
        screen.resize(30, columns);
        screen.keys("?");
        screen.wait_for(&["this help"]);
        screen.keys("?");
        screen.resize(30, columns - 1);
        screen.wait_until(|text| !text.contains("this help"), &["no help"]);
    }
    screen.keys("q");
    assert!(screen.ended().success());
    program.end();
}

fn it_ends_when_its_terminal_is_gone() {
    let served = Served::start(&[]);
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).expect("a terminal");
    let stream = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    // The command must not have the other end of the terminal, too.
    rustix::io::fcntl_setfd(&pty.master, rustix::io::FdFlags::CLOEXEC).expect("a flag");
    // The terminal is not that of its session, so no signal says that it is gone.
    let mut top = command(&["top", &served.address]);
    top.stdin(stream()).stdout(stream()).stderr(Stdio::null()).env("TERM", "xterm-256color");
    let mut child = top.spawn().expect("it runs");
    drop((top, pty.slave));
    let mut terminal = File::from(pty.master);
    let mut seen = Vec::new();
    let mut bytes = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("loading") {
        let mut streams = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut streams, PollTimeout::try_from(60_000).expect("a minute"));
        assert_eq!(ready, Ok(1), "the screen has only {:?}", String::from_utf8_lossy(&seen));
        let count = terminal.read(&mut bytes).expect("it writes");
        seen.extend_from_slice(&bytes[..count]);
    }
    drop(terminal);
    assert!(status_within(DEADLINE, &mut child).is_some(), "it does not end");
}

fn a_signal_and_ctrl_c_leave_the_terminal_as_it_was() {
    let mut program = Served::start(&[]);
    for end in [Some(Signal::SIGTERM), Some(Signal::SIGHUP), None] {
        let mut screen = Screen::start(command(&["top", &program.address]), 24, 80);
        screen.wait_for(&["loading"]);
        match end {
            Some(signal) => kill(Pid::from_raw(screen.child.id() as i32), signal).expect("it runs"),
            None => screen.keys("\x03"),
        }
        screen.ended();
        assert!(!screen.text().contains("loading"), "{}", screen.text());
    }
    let mut plain = command(&["top", &program.address]);
    plain.env("NO_COLOR", "1");
    let mut screen = Screen::start(plain, 24, 80);
    screen.wait_for(&["loading"]);
    assert!(!screen.has_colour());
    screen.keys("q");
    assert!(screen.ended().success());
    program.end();
}

fn the_text_of_a_panic_is_seen() {
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    program.env(SCENARIO, "panics").env("MEMLEDGER_REPORT", "off");
    let mut screen = Screen::start(program, 24, 80);
    screen.wait_for(&["on purpose"]);
    assert!(!screen.ended().success());
    assert!(screen.text().contains("on purpose"));
}

fn a_file_is_shown_by_view() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/killed.utrace");
    for name in [trace, "none.memledger", "folder/none"] {
        let output = command(&["top", name, "--once"]).output().expect("it runs");
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(sentence.contains(&format!("memledger view {name} shows")), "{sentence}");
    }
}

/// `memledger run --top` with a scenario as the program, in a folder of its own.
fn run_top(scenario: &str, variables: &[(&str, &str)], options: &[&str]) -> (TempDir, Screen) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("a path");
    let mut run = command(&["run", "--top"]);
    run.args(options).arg("--").arg(program);
    run.env(SCENARIO, scenario).envs(variables.iter().copied()).current_dir(folder.path());
    let screen = Screen::start(run, 40, 100);
    (folder, screen)
}

/// The number of the process that waits.
fn ready(folder: &TempDir, screen: &mut Screen) -> i32 {
    let number = || fs::read_to_string(folder.path().join("ready")).ok()?.parse().ok();
    screen.wait_until(|_| number().is_some(), &["a process that is ready"]);
    number().expect("a number")
}

fn run_shows_the_program_and_then_what_it_has_written() {
    // Its input is empty, so that it ends.
    let (_folder, mut screen) = run_top("served", &[], &[]);
    let text = screen.wait_for(&["loading", "ended", "the program has ended with status 0"]);
    assert!(!text.contains("own words"), "{text}");
    screen.keys("q");
    // Its words, and the report.
    screen.wait_for(&["the program's own words", "live at end"]);
    assert!(screen.ended().success());
    let untracked = ["run", "--top", "--preload=off", "--", "sh", "-c", "echo words; exit 3"];
    let mut untracked = Screen::start(command(&untracked), 24, 100);
    untracked.wait_for(&["the program has ended with status 3"]);
    untracked.keys("q");
    untracked.wait_for(&["words", "does not use memledger::TrackingAllocator"]);
    assert_eq!(untracked.ended().code(), Some(3));
}

fn run_shows_a_program_that_runs_and_the_one_that_replaces_it() {
    let others = [&["--follow-children"][..], &[]];
    for (scenario, options) in
        [("wait", &[][..])].into_iter().chain(others.map(|options| ("replaces and waits", options)))
    {
        let (folder, mut screen) = run_top(scenario, &[], options);
        screen.wait_for(&["live  ", "(whole program)", "count"]);
        let pid = ready(&folder, &mut screen);
        screen.wait_for(&[&format!("(process {pid})"), "live  "]);
        screen.keys("\x03");
        screen.wait_for(&["live at end"]);
        screen.ended();
    }
}

fn run_shows_a_program_that_does_not_listen_when_it_has_ended() {
    let (folder, mut screen) =
        run_top("wait", &[("MEMLEDGER_CONTROL", "192.0.2.1:0")], &["--report", "off"]);
    screen.wait_for(&["waiting", "the program does not listen"]);
    let pid = ready(&folder, &mut screen);
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    screen.wait_for(&["signal 9 has ended the program", "live  ", "(whole program)"]);
    screen.keys("q");
    screen.wait_for(&["192.0.2.1"]);
    assert_eq!(screen.ended().code(), Some(128 + 9));
}

fn a_program_is_found_by_its_process() {
    let mut served = Served::start(&[]);
    let pid = served.child.id().to_string();
    let top = command(&["top", &pid, "--once"]).output().expect("it runs");
    assert!(top.status.success(), "{top:?}");
    let status = command(&["control", &pid, "status"]).output().expect("it runs");
    let of_port = command(&["control", &served.address, "status"]).output().expect("it runs");
    let program = |output: &[u8]| String::from_utf8_lossy(output).lines().next().map(str::to_owned);
    assert!(status.status.success(), "{status:?}");
    assert_eq!(program(&status.stdout), program(&of_port.stdout));
    served.end();
}

fn without_a_terminal_one_screen_is_text() {
    let output = command(&["top", "1985"]).stdin(Stdio::null()).output().expect("it runs");
    let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(sentence.contains("needs a terminal") && sentence.contains("--once"), "{sentence}");
    let mut program = Served::start(&[]);
    let arguments = ["top", &program.address, "--once", "--interval", "0.1", "--by", "group"];
    let output = command(&arguments).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("memledger top") && text.contains("group, "), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let arguments = ["top", &program.address, "--once", "--interval", "0.1", "--width", "120"];
    let output = command(&arguments).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("loading") && text.contains("rate"), "{text}");
    program.end();
    let output = command(&["top", &program.address, "--once"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be reached"), "{output:?}");
}

fn a_program_that_wants_a_token_gets_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    fs::write(&token, "s3cr3t\n").expect("a file");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("its permissions");
    let path = token.to_str().expect("UTF-8");
    let mut program = Served::start(&[("MEMLEDGER_CONTROL_TOKEN_FILE", path)]);
    let output = command(&["top", &program.address, "--once"]).output().expect("it runs");
    let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(sentence.contains("requires a token"), "{sentence}");
    let arguments = ["top", &program.address, "--once", "--token-file", path, "--interval", "0.1"];
    let output = command(&arguments).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("loading"), "{output:?}");
    program.end();
}
