//! Descriptors of the tracker. The program sees none of them, and closes none, if the tracker has a table of
//! its own. In a recording without a worker it has not: there, a program that becomes a daemon closes them,
//! and gives their numbers to files of its own.

use crate::files::check_told;
use crate::harness::{Case, Outcome, REPORT, Run, TRACE, builder, case, churn, leave, left};
use memledger::control::{Client, Command};
use memledger::{DestinationState, Ledger, ReportTo, Worker};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;

pub(crate) const CASES: &[Case] = &[
    case("the program's table has no descriptor of the tracker", of_none, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        assert!(outcome.trace(LATE).0.trace.complete);
    }),
    case("a program that closes all descriptors is recorded whole", of_all, |run| {
        let outcome = run.run();
        outcome.quiet();
        assert_eq!(left(&outcome.whole(), 1_000_005), 1);
    }),
    case("what a program without standard streams prints goes nowhere", of_streams, |run| {
        let outcome = without_streams(run.tracked()).run();
        outcome.quiet();
        assert_eq!(left(&outcome.whole(), 1_000_003), 1);
        assert_eq!(outcome.report("own"), "1 1");
    }),
    case("without a worker, too, they do not take the numbers of streams", of_manual, |run| {
        let outcome = without_streams(run).run();
        outcome.quiet();
        assert_eq!(left(&outcome.whole(), 1_000_003), 1);
    }),
    case("a report goes to the standard error of that moment", of_stderr, |run| {
        let outcome = run.run();
        outcome.quiet();
        // NOTE: the first line is cut into lines of a terminal.
        let moment = outcome.report("moment");
        let words: Vec<_> = moment.split_whitespace().collect();
        assert!(words.join(" ").contains("complete, nothing lost"), "{moment}");
    }),
    case("a descriptor of the trace that the program has taken is left alone", of_trace, |run| {
        let outcome = run.run();
        check(&outcome, TRACE);
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    case("a descriptor of a late trace that the program has taken is left alone", of_late, |run| {
        let outcome = run.run();
        check(&outcome, LATE);
        outcome.whole();
        let late = outcome.trace(LATE).0;
        assert!(!late.trace.complete);
        assert_eq!((left(&late, 1_000_003), left(&late, 1_000_005)), (1, 0));
    }),
    case("a descriptor of a connection that the program has taken is left alone", of_host, |run| {
        let outcome = run.run();
        check(&outcome, "127.0.0.1:");
        outcome.whole();
    }),
    case(
        "a descriptor of the control server that the program has taken ends it",
        of_server,
        |run| {
            let outcome = run.run();
            check(&outcome, "the control server ends");
            outcome.whole();
        },
    ),
    case("a descriptor of a client that the program has taken ends that only", of_client, |run| {
        let outcome = run.run();
        assert_eq!(outcome.stdout.trim(), OWN);
        outcome.quiet().whole();
    }),
];

/// Starts the program with all three standard streams closed.
fn without_streams(mut run: Run) -> Run {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "exec \"$0\" <&- >&- 2>&-"]).arg(run.command.get_program());
    let variables =
        run.command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
    for (name, value) in variables.collect::<Vec<_>>() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(run.folder.path());
    run.command = command;
    run
}

/// A recording of which the descriptors are in the program's table.
fn start() -> Ledger {
    builder().worker(Worker::Manual).start().unwrap()
}

fn of_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = open();
    let ledger = builder().control("0").start().unwrap();
    let late = ledger.trace_to_file(LATE).unwrap();
    let host = ledger.trace_to_host(listener.local_addr().unwrap().to_string()).unwrap();
    while late.status().state == DestinationState::Opening
        || host.status().state == DestinationState::Opening
    {
        std::thread::yield_now();
    }
    let client = Client::connect(&ledger.control_address().unwrap().to_string());
    churn(1000);
    ledger.flush();
    drop(client);
    assert_eq!(open(), before);
    // SAFETY: a fork whose child only looks.
    #[expect(unsafe_code, reason = "a fork")]
    unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(open() != before)),
            child => {
                let mut status = -1;
                libc::waitpid(child, &raw mut status, 0);
                assert_eq!(status, 0, "its child has none either");
            }
        }
    }
    host.stop();
    drop(ledger);
    assert_eq!(open(), before);
}

fn of_all() {
    let ledger = builder().start().unwrap();
    churn(1000);
    // SAFETY: the program uses none of them any more.
    #[expect(unsafe_code, reason = "closes all")]
    unsafe {
        #[cfg(target_os = "linux")]
        assert_eq!(libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0), 0);
        #[cfg(target_os = "macos")]
        (3..1024).for_each(|number| assert!(libc::close(number) <= 0));
    }
    let own: Vec<_> = (0..64).map(|_| fs::File::open("/dev/null").unwrap()).collect();
    leave(1_000_005);
    ledger.flush();
    drop(ledger);
    drop(own);
}

#[expect(unsafe_code, reason = "writes to a number")]
fn of_streams() {
    leave(1_000_003);
    // SAFETY: Rust's runtime has opened `/dev/null` in their place.
    let write = |stream| unsafe { libc::write(stream, c"x".as_ptr().cast(), 1) };
    fs::write("own", format!("{} {}", write(1), write(2))).unwrap();
}

#[expect(unsafe_code, reason = "closes the streams")]
fn of_manual() {
    // SAFETY: nothing uses them.
    (0..3).for_each(|stream| assert_eq!(unsafe { libc::close(stream) }, 0));
    let ledger = start();
    leave(1_000_003);
    let has_streams = open().keys().any(|number| *number < 3);
    drop(ledger);
    std::process::exit(i32::from(has_streams));
}

#[expect(unsafe_code, reason = "another standard error")]
fn of_stderr() {
    use std::os::fd::AsRawFd;
    let ledger = Ledger::builder().report_on_exit(ReportTo::stderr()).start().unwrap();
    churn(1000);
    let file = fs::File::create("moment").unwrap();
    // SAFETY: both are numbers.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), 2) }, 2);
    drop(ledger);
}

const LATE: &str = "late.utrace";
const OWN: &str = "the program's own";

/// One line names what has ended, and the program's file holds what the program wrote.
#[track_caller]
fn check(outcome: &Outcome, name: &str) {
    check_told(outcome, &[name, "the program has closed"]);
    assert_eq!(outcome.stdout.trim(), OWN);
}

/// The descriptors that are open, and what they lead to, but for that of this list.
pub(crate) fn open() -> BTreeMap<i32, String> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let named = entries.filter_map(|path| {
        let leads = fs::read_link(&path).ok()?.to_str()?.to_owned();
        let is_list = leads.starts_with("/proc/");
        (!is_list).then_some((path.file_name()?.to_str()?.parse().ok()?, leads))
    });
    named.collect()
}

/// The descriptor that leads to the file `name`.
fn leading_to(name: &str) -> i32 {
    open().into_iter().find(|(_, leads)| leads.ends_with(name)).unwrap().0
}

/// The sockets that were not open `before`.
fn new_sockets(before: &BTreeMap<i32, String>) -> Vec<i32> {
    let new = open().into_iter().filter(|(fd, leads)| before.get(fd) != Some(leads));
    new.filter(|(_, leads)| leads.starts_with("socket:")).map(|(fd, _)| fd).collect()
}

/// Puts the program's own file in the place of a descriptor, which is then the program's.
#[expect(unsafe_code, reason = "a descriptor that is not ours")]
fn take(descriptor: i32) -> i32 {
    use std::os::fd::AsRawFd;
    fs::write("own", OWN).unwrap();
    let file = fs::OpenOptions::new().append(true).open("own").unwrap();
    // SAFETY: what stood there is the tracker's, which has to live with it.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), descriptor) }, descriptor);
    descriptor
}

/// Ends the recording, and prints what became of the program's file, which is still open.
fn end(ledger: Ledger, taken: i32) {
    drop(ledger);
    assert!(open()[&taken].ends_with("/own"), "nobody but the program closes it");
    println!("{}", fs::read_to_string("own").unwrap());
}

fn of_trace() {
    let ledger = start();
    churn(1000);
    ledger.flush();
    let taken = take(leading_to(TRACE));
    churn(100_000);
    ledger.flush();
    end(ledger, taken);
}

fn of_late() {
    let ledger = start();
    let late = ledger.trace_to_file(LATE).unwrap();
    leave(1_000_003);
    ledger.flush();
    while late.status().waiting_bytes > 0 || late.status().state == DestinationState::Opening {
        std::thread::yield_now();
    }
    let taken = take(leading_to(LATE));
    leave(1_000_005);
    ledger.flush();
    while late.status().state != DestinationState::Failed {
        churn(1000);
        ledger.flush();
    }
    end(ledger, taken);
}

fn of_host() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ledger = start();
    let before = open();
    let host = ledger.trace_to_host(listener.local_addr().unwrap().to_string()).unwrap();
    while host.status().state == DestinationState::Opening {
        std::thread::yield_now();
    }
    let sockets = new_sockets(&before);
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    let taken = take(sockets[0]);
    while host.status().state != DestinationState::Failed {
        churn(1000);
        ledger.flush();
    }
    assert_eq!(ledger.stats().lost_destinations, 1);
    end(ledger, taken);
}

fn of_server() {
    let before = open();
    let ledger = builder().worker(Worker::Manual).control("0").start().unwrap();
    let address = ledger.control_address().unwrap().to_string();
    let sockets = new_sockets(&before);
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    let taken = take(sockets[0]);
    // It looks ten times a second.
    while ledger.problems().is_empty() {
        churn(1000);
        ledger.collect();
    }
    assert!(Client::connect(&address).is_err());
    end(ledger, taken);
}

fn of_client() {
    let ledger = builder().worker(Worker::Manual).control("0").start().unwrap();
    let address = ledger.control_address().unwrap().to_string();
    let before = open();
    let mut client = Client::connect(&address).unwrap();
    let own = new_sockets(&before);
    // From here on the server has accepted it.
    client.send(&Command::Status).unwrap();
    let theirs: Vec<_> = new_sockets(&before).into_iter().filter(|fd| !own.contains(fd)).collect();
    // Or before we could look: both ends were new, and ours came first.
    let taken = take(*theirs.first().or(own.get(1)).unwrap());
    assert!(client.send(&Command::Status).is_err(), "nobody has the connection any more");
    let mut other = Client::connect(&address).unwrap();
    assert!(other.send(&Command::Status).is_ok());
    end(ledger, taken);
}
