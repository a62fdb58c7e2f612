//! A program that is controlled while it runs. The child is its own client, unless it says so.

use crate::harness::{Case, Outcome, REPORT, Run, TRACE, builder, case, churn, leave, left, scope};
use memledger::control::{Client, Command};
use memledger::{DestinationState, Ledger, alloc_scope};
use memledger_analysis::read::{EventAnalyzer, read};
use memledger_format::handshake::Handshake;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

memledger::events::channel! {
    GAME = "Race";
    ASSETS = "Circuits" [ReadOnly];
    LATER = "Later";
    NEVER = "Never" [ReadOnly];
}

const LATE: &str = "late.utrace";

pub(crate) const CASES: &[Case] = &[
    case("a file that a command starts begins with what is alive", write_to, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let rows: Vec<_> = report.by_thread.iter().map(|row| &*row.name).collect();
        assert!(!rows.contains(&"memledger ctl"), "the server's memory is the tracker's: {rows:?}");
        let late = outcome.trace(LATE).0;
        assert_eq!((left(&late, 1_000_003), left(&late, 1_000_005)), (1, 1));
        assert_eq!(left(&late, 1_000_007), 0, "that was after the stop");
        assert!(late.trace.complete);
        assert_eq!(port_in(&outcome, LATE), port_in(&outcome, TRACE));
        assert_eq!(port_in(&outcome, TRACE), Some(outcome.stdout.trim().parse().unwrap()));
    }),
    case("with the environment alone a trace can be sent later", send_to, |run| {
        let recorder = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = recorder.local_addr().unwrap().port().to_string();
        let recorder = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            recorder.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let run = run.env("TEST_PORT", port);
        let outcome = run.env("MEMLEDGER_CONTROL", "0").env("MEMLEDGER_REPORT", "off").run();
        outcome.quiet();
        fs::write(outcome.path("received.utrace"), recorder.join().unwrap()).unwrap();
        let received = outcome.trace("received.utrace").0;
        assert_eq!(received.trace.from_process_start, Some(true));
        assert!(received.trace.complete);
        assert_eq!((left(&received, 1_000_003), left(&received, 1_000_005)), (1, 1));
        assert_eq!((received.losses.unmatched_frees, received.losses.lost_events), (0, 0));
    }),
    case("what the program allows holds for the environment's server", allow_later, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CONTROL", "127.0.0.1:0").run();
        outcome.quiet().whole();
        assert_eq!(outcome.files(), ["allowed.utrace", REPORT, TRACE]);
    }),
    case("what is not allowed is refused and leaves nothing", hostile, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let files: Vec<_> = outcome.files().into_iter().filter(|name| name != "link").collect();
        assert_eq!(files, ["folder", REPORT, TRACE]);
        let inside: Vec<_> = fs::read_dir(outcome.path("folder")).unwrap().collect();
        assert_eq!(inside.len(), if cfg!(unix) { 2 } else { 1 }, "{inside:?}");
        assert_eq!(fs::read_to_string(outcome.path("folder/old.utrace")).unwrap(), "old");
    }),
    case("channels are switched by name and the stream says so", channels, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        assert_eq!(toggles(&outcome), [true, false]);
    }),
    case("a command names a channel before its first log site runs", expected, |run| {
        run.run().quiet().whole();
    }),
    case("every destination is ended by a command and started again", restarted, |run| {
        let outcome = run.run();
        let report = outcome.quiet().report(REPORT);
        let sizes = [1_000_003, 1_000_005, 1_000_007, 1_000_009];
        let kept = |size: &u64| report.contains(&format!("\"bytes\": {size},"));
        assert!(sizes.iter().all(kept), "the process analyzes its events meanwhile: {report}");
        let traces = [TRACE, "trace-2.utrace", "trace-3.utrace", "sent-1.utrace", "sent-2.utrace"];
        for (name, blocks) in traces.into_iter().zip([1, 3, 4, 1, 4]) {
            let trace = outcome.trace(name).0;
            assert!(trace.trace.complete, "{name}");
            let left = sizes.map(|size| left(&trace, size));
            assert_eq!(left.iter().sum::<usize>(), blocks, "{name}: {left:?}");
            assert_eq!(trace.losses.unmatched_frees, 0, "{name}");
        }
    }),
    case("scopes are turned off and on while memory is recorded", scopes, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let in_scope = |path: &[&str]| scope(&report, path).map_or(0, |row| row.figures.live_bytes);
        assert!((1_000_003..1_001_000).contains(&in_scope(&["GlobalScope", "before"])));
        assert!(in_scope(&["GlobalScope"]) >= 1_000_005 + 1_000_007);
        assert_eq!(in_scope(&["GlobalScope", "off"]), 0);
        assert!((1_000_009..1_001_000).contains(&in_scope(&["GlobalScope", "after"])));
        assert_eq!(toggles(&outcome), [false, true]);
        let off = &report.trace.scopes_off;
        assert_eq!(off.len(), 1, "{off:?}");
        // Each command goes to its own tick of the worker: the stream has the change before the
        // tick's events.
        assert!(
            off[0].from_ns < off[0].to_ns && off[0].to_ns < report.trace.duration_ns,
            "{off:?}"
        );
    }),
    case("a port that is taken is left for another that the trace names", port, |run| {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let outcome = run.tracked().env("MEMLEDGER_CONTROL", port.to_string()).run();
        outcome.exited(0).whole();
        let used = outcome.stdout.trim();
        assert_ne!(used, port.to_string());
        assert_eq!(port_in(&outcome, TRACE), Some(used.parse().unwrap()));
        let line = format!(
            "memledger: port {port} is taken, so the control server listens on 127.0.0.1:{used}\n"
        );
        assert_eq!(outcome.stderr, line);
    }),
    case("the environment sets a token and where files and traces may go", ruled, |run| {
        fs::create_dir(run.path("folder")).unwrap();
        let run = run.tracked().env("MEMLEDGER_CONTROL", "0.0.0.0:0");
        write_token(&run, 0o600);
        let run = run.env("MEMLEDGER_CONTROL_TOKEN_FILE", "token");
        let run = run.env("MEMLEDGER_CONTROL_FOLDER", "folder");
        let outcome = run.env("MEMLEDGER_CONTROL_HOSTS", "b.example,0.0.0.0:7").run();
        outcome.exited(0).whole();
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("memledger: 0.0.0.0:7 gets"), "{lines:?}");
        assert!(outcome.path("folder/allowed.utrace").exists());
        assert_eq!(outcome.files(), ["folder", REPORT, "token", TRACE]);
    }),
    #[cfg(unix)]
    case("a token that others can read opens nothing", simple, |run| {
        write_token(&run, 0o640);
        let run = run.tracked().env("MEMLEDGER_CONTROL", "0");
        let outcome = run.env("MEMLEDGER_CONTROL_TOKEN_FILE", "token").run();
        outcome.exited(0).whole();
        assert_eq!(outcome.stdout.trim(), "none");
        assert!(
            outcome.stderr.contains("\"token\", but other users can read"),
            "{}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains("mode 640") && outcome.stderr.lines().count() == 1);
    }),
    case("no other machine is let in without a token", simple, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CONTROL", "0.0.0.0:0").run();
        outcome.exited(0).whole();
        assert!(outcome.stderr.contains("does not listen on 0.0.0.0:0"), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1);
        assert_eq!(outcome.stdout.trim(), "none");
        assert_eq!(port_in(&outcome, TRACE), None);
    }),
    case("a place that is none is told and the program runs", simple, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CONTROL", "everywhere").run();
        outcome.exited(0).whole();
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("MEMLEDGER_CONTROL") && outcome.stdout.trim() == "none");
    }),
    case("a token opens a server that others can reach", token, |run| {
        run.run().quiet().whole();
    }),
    #[cfg(unix)]
    case("the port is free again though a forked child lives on", forked, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        assert_eq!(outcome.stdout.trim(), "closed");
    }),
    #[cfg(unix)]
    case("a child that follows does not say that it is controlled", followed, |run| {
        let outcome = run.run();
        outcome.quiet();
        let child = format!("trace.{}.utrace", outcome.stdout.trim());
        assert!(outcome.trace(&child).0.trace.complete);
        assert_eq!(port_in(&outcome, &child), None);
        assert!(port_in(&outcome, TRACE).is_some());
    }),
    case("commands come while threads are busy", busy, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        for number in 0..20 {
            let late = outcome.trace(&format!("{number}.utrace")).0;
            assert!(late.trace.complete);
            assert_eq!(left(&late, 1_000_003), 1);
            assert_eq!((late.losses.unmatched_frees, late.losses.duplicate_allocations), (0, 0));
        }
    }),
];

/// What the trace says of channels that were turned on or off.
fn toggles(outcome: &Outcome) -> Vec<bool> {
    let mut toggles = EventAnalyzer::new(Vec::new()).on(
        "Trace",
        "ChannelToggle",
        ["IsEnabled"],
        |toggles, _, [on]| {
            toggles.push(on.bool().unwrap());
        },
    );
    read(File::open(outcome.path(TRACE)).unwrap(), &mut toggles).unwrap();
    toggles.state
}

/// The control port that a trace names.
fn port_in(outcome: &Outcome, name: &str) -> Option<u16> {
    Handshake::decode(&mut File::open(outcome.path(name)).unwrap()).unwrap().0.control_port
}

fn client(ledger: &Ledger) -> Client {
    Client::connect(&ledger.control_address().unwrap().to_string()).unwrap()
}

#[track_caller]
fn refused(client: &mut Client, command: Command, says: &str) {
    let error = client.send(&command).unwrap_err().to_string();
    assert!(error.contains(says), "{command}: {error}");
}

fn value<'a>(lines: &'a [String], name: &str) -> &'a str {
    let line = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {lines:?}"))
}

fn write_to() {
    let ledger = builder().control("0").control_folder(".").start().unwrap();
    println!("{}", ledger.control_address().unwrap().port());
    leave(1_000_003);
    churn(1000);
    ledger.flush();
    let figures = String::from_utf8(client(&ledger).figures().unwrap()).unwrap();
    assert!(figures.replace(' ', "").contains("\"complete\":true"), "it runs: {figures}");
    let mut client = client(&ledger);
    let status = client.send(&Command::Status).unwrap();
    assert_eq!(value(&status, "pid"), std::process::id().to_string());
    assert_eq!(value(&status, "recording"), "yes");
    assert!(value(&status, "events").parse::<u64>().unwrap() > 1000);
    assert_eq!(value(&status, "lost_events"), "0");
    client.send(&Command::write_to(LATE)).unwrap();
    leave(1_000_005);
    let status = client.send(&Command::Status).unwrap();
    assert!(value(&status, "destination").ends_with(LATE), "{status:?}");
    let stopped = client.send(&Command::Stop).unwrap();
    assert!(value(&stopped, "destination").starts_with("ended "), "{stopped:?}");
    assert_eq!(client.send(&Command::Stop).unwrap(), [""; 0], "nothing is left to stop");
    leave(1_000_007);
    assert_eq!(ledger.destinations()[0].status().state, DestinationState::Ended);
}

fn send_to() {
    let ledger = Ledger::from_env();
    leave(1_000_003);
    churn(1000);
    let recorder = format!("localhost:{}", std::env::var("TEST_PORT").unwrap());
    client(&ledger).send(&Command::send_to(recorder)).unwrap();
    leave(1_000_005);
    churn(1000);
}

fn allow_later() {
    let env = Ledger::from_env();
    let mut client = client(&env);
    refused(&mut client, Command::write_to("early.utrace"), "has no folder for traces");
    refused(&mut client, Command::send_to("build.invalid"), "does not allow");
    let code =
        Ledger::builder().control_folder(".").control_hosts(["build.invalid"]).start().unwrap();
    assert_eq!(code.control_address(), env.control_address());
    // Another that says nothing about it changes nothing.
    drop(Ledger::from_env());
    client.send(&Command::write_to("allowed.utrace")).unwrap();
    client.send(&Command::Stop).unwrap();
}

fn write_token(run: &Run, mode: u32) {
    fs::write(run.path("token"), "s3cr3t\nnot of it\n").unwrap();
    // On Windows files have the rights that their folder gives them.
    let _ = mode;
    #[cfg(unix)]
    fs::set_permissions(run.path("token"), std::os::unix::fs::PermissionsExt::from_mode(mode))
        .unwrap();
}

/// The environment has said what is allowed, and code cannot take it back.
fn ruled() {
    let ledger = Ledger::builder()
        .control_token("another")
        .control_folder(".")
        .control_hosts(["c.example"])
        .start()
        .unwrap();
    let address = format!("127.0.0.1:{}", ledger.control_address().unwrap().port());
    let connect = || Client::connect(&address).unwrap();
    refused(&mut connect(), Command::Status, "requires a token first");
    refused(&mut connect(), Command::Token("another".into()), "the token is wrong");
    let mut friend = connect();
    friend.send(&Command::Token("s3cr3t".into())).unwrap();
    friend.send(&Command::write_to("allowed.utrace")).unwrap();
    refused(&mut friend, Command::send_to("c.example"), "does not allow");
    refused(&mut friend, Command::send_to("0.0.0.0:8"), "does not allow");
    // This machine by another name, which is not allowed by itself.
    friend.send(&Command::send_to("0.0.0.0:7")).unwrap();
    let host = ledger.destinations()[1];
    while host.status().state == DestinationState::Opening {
        std::thread::yield_now();
    }
    assert_eq!(host.status().state, DestinationState::Failed, "nobody listens there");
}

fn hostile() {
    fs::create_dir("folder").unwrap();
    fs::write("folder/old.utrace", "old").unwrap();
    // On Windows only administrators and developers can make a link.
    #[cfg(unix)]
    std::os::unix::fs::symlink("../new", "folder/link").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("folder/old.utrace", "link").unwrap();
    let ledger = builder().control("0").control_folder("folder").start().unwrap();
    let mut control = client(&ledger);
    for name in ["../new", "/tmp/new", "..", ".new", "a/b"] {
        refused(&mut control, Command::write_to(name), "must be a file name without a folder");
    }
    for name in ["old.utrace", if cfg!(unix) { "link" } else { "old.utrace" }] {
        refused(&mut control, Command::write_to(name), "cannot be created");
    }
    for host in ["10.0.0.1", "example.org:80", "0.0.0.0"] {
        refused(&mut control, Command::send_to(host), "does not allow");
    }
    // A browser gets no further than its first line.
    let mut browser = TcpStream::connect(ledger.control_address().unwrap()).unwrap();
    std::io::Write::write_all(&mut browser, b"POST / HTTP/1.1\r\n\r\nWriteTo new\r\n").unwrap();
    let mut answer = String::new();
    let _ = browser.read_to_string(&mut answer);
    assert!(answer.starts_with("refused: ") && answer.lines().count() == 1, "{answer:?}");
    assert_eq!(ledger.destinations(), []);
    // No more at once than there may be, and none of those that are refused leaves a file.
    for number in 0..8 {
        control.send(&Command::write_to(format!("{number}.utrace"))).unwrap();
    }
    refused(&mut control, Command::write_to("9.utrace"), "already 8 destinations");
    control.send(&Command::Stop).unwrap();
    (0..8).for_each(|number| fs::remove_file(format!("folder/{number}.utrace")).unwrap());
}

fn channels() {
    let ledger = builder().control("0").start().unwrap();
    assert!(!GAME.is_enabled() && !ASSETS.is_enabled());
    let mut client = client(&ledger);
    ledger.flush();
    // As Unreal does: upper and lower case are the same, and so is an s at the end.
    assert_eq!(client.send(&Command::channels(["races"], true)).unwrap(), ["channel on Race"]);
    assert!(GAME.is_enabled());
    ledger.flush();
    let status = client.send(&Command::Status).unwrap();
    assert!(status.contains(&"channel on Race".into()), "{status:?}");
    assert!(status.contains(&"channel on Memory".into()), "{status:?}");
    refused(&mut client, Command::channels(["race", "no:thing"], false), "called \"no:thing\"");
    refused(&mut client, Command::channels(["race", "circuits"], false), "Circuits is read-only");
    refused(&mut client, Command::channels(["memory"], false), "Memory is read-only");
    assert!(GAME.is_enabled(), "all or none");
    client.send(&Command::channels(["RACE"], false)).unwrap();
    assert!(!GAME.is_enabled());
}

/// No log site on these channels has run when the commands come.
fn expected() {
    let ledger = builder().control("0").start().unwrap();
    let mut client = client(&ledger);
    let status = client.send(&Command::Status).unwrap();
    assert!(status.contains(&"channel off Later".into()), "{status:?}");
    assert!(status.contains(&"channel off Never".into()), "{status:?}");
    refused(&mut client, Command::channels(["later", "never"], true), "Never is read-only");
    let lines = client.send(&Command::channels(["LaterChannel", "memori"], true)).unwrap();
    let unknown = ": the program has no such channel so far";
    assert_eq!(lines[0], "channel on Later");
    assert_eq!(lines[1], format!("expected_channel on memori{unknown}; likely meant: \"Memory\""));
    let status = client.send(&Command::Status).unwrap();
    assert!(status.contains(&"expected_channel on memori".into()), "{status:?}");
    assert!(status.contains(&"channel on Later".into()), "{status:?}");
    assert!(LATER.is_enabled() && !NEVER.is_enabled(), "no command turns a read-only one on");
    // What is asked for last holds.
    client.send(&Command::channels(["race"], true)).unwrap();
    client.send(&Command::channels(["races"], false)).unwrap();
    assert!(!GAME.is_enabled());
}

fn restarted() {
    let recorder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = recorder.local_addr().unwrap().to_string();
    let received = std::thread::spawn(move || {
        for number in 1..3 {
            let mut bytes = Vec::new();
            recorder.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            fs::write(format!("sent-{number}.utrace"), bytes).unwrap();
        }
    });
    let ledger = builder().control("0").trace_to_host(&*address).start().unwrap();
    leave(1_000_003);
    let mut client = client(&ledger);
    refused(&mut client, Command::Start, "still running");
    let status = client.send(&Command::Status).unwrap();
    assert_eq!(value(&status, "first_file"), format!("sending {TRACE}"));
    let ended = client.send(&Command::StopAll).unwrap();
    assert!(value(&ended, "destination").ends_with(&address), "{ended:?}");
    assert_eq!(value(&ended, "first_file"), format!("ended {TRACE}"));
    assert_eq!(client.send(&Command::StopAll).unwrap(), [""; 0], "nothing is left to stop");
    let status = client.send(&Command::Status).unwrap();
    assert_eq!(value(&status, "first_file"), format!("ended {TRACE}"));
    leave(1_000_005);
    let mut start = |file: &str, with_host: bool| {
        let started = client.send(&Command::Start).unwrap();
        assert_eq!(started[0], format!("destination {file}"));
        assert_eq!(started.get(1).is_some_and(|line| line.ends_with(&address)), with_host);
    };
    start("trace-2.utrace", true);
    leave(1_000_007);
    ledger.destinations().iter().find(|d| d.status().name == "trace-2.utrace").unwrap().stop();
    leave(1_000_009);
    start("trace-3.utrace", false);
    let _ = ledger.finish();
    received.join().unwrap();
    let ledger = Ledger::builder().control("0").start().unwrap();
    refused(&mut self::client(&ledger), Command::Start, "without a file and without a host");
}

fn scopes() {
    let ledger = builder().control("0").start().unwrap();
    let mut client = client(&ledger);
    let mut scope = |on| {
        client.send(&Command::channels(["scope"], on)).unwrap();
        ledger.flush();
    };
    alloc_scope!("before", { leave(1_000_003) });
    scope(false);
    alloc_scope!("off", {
        leave(1_000_005);
        std::thread::spawn(|| alloc_scope!("off", { leave(1_000_007) })).join().unwrap();
    });
    scope(true);
    alloc_scope!("after", { leave(1_000_009) });
}

fn port() {
    let ledger = Ledger::from_env();
    println!("{}", ledger.control_address().unwrap().port());
    assert!(client(&ledger).send(&Command::Status).is_ok());
}

fn simple() {
    let ledger = Ledger::from_env();
    match ledger.control_address() {
        Some(address) => println!("{address}"),
        None => println!("none"),
    }
    churn(1000);
}

fn token() {
    for wrong in ["", "two words", "line\n"] {
        let ledger = Ledger::builder().control("0.0.0.0:0").control_token(wrong).start();
        assert!(ledger.unwrap_err().to_string().contains("must be one word"));
    }
    let open = Ledger::builder().control("0.0.0.0:0").start().unwrap_err();
    assert!(open.to_string().contains("without a token"), "{open}");
    let ledger = builder().control("0.0.0.0:0").control_token("s3cr3t").start().unwrap();
    let address = format!("127.0.0.1:{}", ledger.control_address().unwrap().port());
    let mut stranger = Client::connect(&address).unwrap();
    refused(&mut stranger, Command::Status, "requires a token first");
    let mut friend = Client::connect(&address).unwrap();
    friend.send(&Command::Token("s3cr3t".into())).unwrap();
    assert!(friend.send(&Command::Status).is_ok());
}

#[cfg(unix)]
fn forked() {
    let ledger = builder().control("0").start().unwrap();
    let address = ledger.control_address().unwrap().to_string();
    let (mut parent, child) = std::io::pipe().unwrap();
    // SAFETY: the child only waits for its end.
    #[expect(unsafe_code)]
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(child);
        let _ = parent.read(&mut [0]);
        std::process::exit(0);
    }
    assert!(Client::connect(&address).unwrap().send(&Command::Status).is_ok());
    let _ = ledger.finish();
    match Client::connect(&address) {
        Ok(_) => println!("still open"),
        Err(_) => println!("closed"),
    }
    drop(child);
}

#[cfg(unix)]
fn followed() {
    let ledger = builder().control("0").follow_forks(true).start().unwrap();
    // SAFETY: this thread is the only one of the program's own.
    #[expect(unsafe_code)]
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        assert_eq!(ledger.control_address(), None);
        println!("{}", std::process::id());
        std::process::exit(0);
    }
    // SAFETY: it is our own child.
    #[expect(unsafe_code)]
    let waited = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    assert_eq!(waited, pid);
    assert!(client(&ledger).send(&Command::Status).is_ok());
}

fn busy() {
    let ledger = builder().control("0").control_folder(".").start().unwrap();
    leave(1_000_003);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    alloc_scope!("busy", { churn(100) });
                    black_box(vec![0_u8; 100]);
                    // Without a pause, four threads fill the machine and all the files.
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
        }
        let mut client = client(&ledger);
        for number in 0..20 {
            client.send(&Command::write_to(format!("{number}.utrace"))).unwrap();
            if number % 3 == 2 {
                client.send(&Command::Stop).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
