//! Descriptors of the tracker that the program closes, as a program does that becomes a daemon, and
//! whose numbers it gives to files of its own.

use crate::files::check_told;
use crate::harness::{Case, Outcome, REPORT, TRACE, builder, case, churn, leave, left, start};
use memledger::remote::control::{Client, Command};
use memledger::{DestinationState, Ledger};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;

pub(crate) const CASES: &[Case] = &[
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

const LATE: &str = "late.utrace";
const OWN: &str = "the program's own";

/// One line names what has ended, and the program's file holds what the program wrote.
#[track_caller]
fn check(outcome: &Outcome, name: &str) {
    check_told(outcome, &[name, "the program has closed"]);
    assert_eq!(outcome.stdout.trim(), OWN);
}

/// The descriptors that are open, and what they lead to.
fn open() -> BTreeMap<i32, String> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let named = entries.filter_map(|path| {
        let leads = fs::read_link(&path).ok()?.to_str()?.to_owned();
        Some((path.file_name()?.to_str()?.parse().ok()?, leads))
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
    }
    assert_eq!(ledger.stats().lost_destinations, 1);
    end(ledger, taken);
}

fn of_server() {
    let before = open();
    let ledger = builder().control("0").start().unwrap();
    let address = ledger.control_address().unwrap().to_string();
    let sockets = new_sockets(&before);
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    let taken = take(sockets[0]);
    // It looks once a second.
    while ledger.problems().is_empty() {
        churn(1000);
    }
    assert!(Client::connect(&address).is_err());
    end(ledger, taken);
}

fn of_client() {
    let ledger = builder().control("0").start().unwrap();
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
