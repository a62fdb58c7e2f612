//! Recorders that do not answer: those that never take a connection, and those that never read.

use crate::harness::{Case, Outcome, builder, case, churn, leave, left, start};
use memledger::{DestinationState, Ledger};
use memledger_analysis::Analyzer;
use memledger_analysis::read::read;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    #[cfg(unix)]
    case("a recorder that never answers delays nothing and is told", unanswered, |run| {
        let (address, _held) = black_hole();
        let outcome = run.env("TEST_PEER", address).run();
        outcome.exited(0).whole();
        check_told(&outcome, "cannot be connected to");
        let late = outcome.trace(LATE).0;
        assert!(late.trace.complete);
        assert_eq!(left(&late, 1_000_003), 1);
    }),
    #[cfg(unix)]
    case("a recorder that never answers delays neither start nor end for long", brief, |run| {
        let (address, _held) = black_hole();
        let outcome = run.tracked().env("MEMLEDGER_HOST", &address).run();
        outcome.exited(0).whole();
        check_told(&outcome, "cannot be connected to");
    }),
    case(
        "a recorder that takes a connection and never reads delays the end by 3 s",
        half_open,
        |run| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let peer = std::thread::spawn(move || listener.accept().unwrap().0);
            let outcome = run.env("TEST_PEER", address).run();
            outcome.exited(0).whole();
            check_told(&outcome, "timed out while sending the rest");
            assert!(outcome.trace(LATE).0.trace.complete);
            drop(peer.join().unwrap());
        },
    ),
    case("without a port the second is tried where the first refuses", sends, |run| {
        // All of 127.0.0.0/8 is this machine, so most likely no other program uses this address.
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let host = format!("127.{}.{b}.{c}", 64 + a % 64);
        let listener = TcpListener::bind(format!("{host}:1981"));
        if listener.is_err() || TcpStream::connect(format!("{host}:1980")).is_ok() {
            eprintln!("NOT TESTED: a program listens on port 1980 or 1981 of every address");
            return;
        }
        let listener = listener.unwrap();
        let peer = std::thread::spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        run.tracked().env("MEMLEDGER_HOST", &host).run().quiet().whole();
        let mut analyzer = Analyzer::new();
        let summary = read(&peer.join().unwrap()[..], &mut analyzer).unwrap();
        assert!(summary.is_complete() && analyzer.report().trace.complete);
        assert!(analyzer.report().totals.allocations >= 1000);
    }),
];

const LATE: &str = "late.utrace";

#[track_caller]
fn check_told(outcome: &Outcome, what: &str) {
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("memledger: 127.0.0.1:") && lines[0].contains(what), "{lines:?}");
}

/// An address at which the system answers no connection, because the listener's queue is full. It
/// stays full until the second value is dropped.
#[cfg(unix)]
fn black_hole() -> (String, (TcpListener, Vec<TcpStream>)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: plain call on an open socket.
    #[expect(unsafe_code)]
    let shortened = unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
    assert_eq!(shortened, 0);
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    (address.to_string(), (listener, waiting))
}

fn peer_address() -> String {
    std::env::var("TEST_PEER").unwrap()
}

#[cfg(unix)]
fn unanswered() {
    let ledger = start();
    let host = ledger.trace_to_host(peer_address()).unwrap();
    // The call has not waited for the connection.
    assert_eq!(host.status().state, DestinationState::Opening);
    leave(1_000_003);
    let late = ledger.trace_to_file(LATE).unwrap();
    while host.status().state == DestinationState::Opening {
        churn(100);
        ledger.flush();
        assert_ne!(late.status().state, DestinationState::Failed);
        // Otherwise more would be waiting for it than is kept.
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(host.status().state, DestinationState::Failed);
    assert_eq!(ledger.stats().lost_destinations, 1);
    late.stop();
    assert_eq!(late.status().state, DestinationState::Ended);
}

/// A program that is over before the connection is given up.
#[cfg(unix)]
fn brief() {
    let ledger = Ledger::from_env();
    let all = ledger.destinations();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].status().state, DestinationState::Opening, "the start has not waited");
    churn(1000);
}

fn sends() {
    let _ledger = Ledger::from_env();
    churn(1000);
}

fn half_open() {
    let ledger = builder().start().unwrap();
    let host = ledger.trace_to_host(peer_address()).unwrap();
    let late = ledger.trace_to_file(LATE).unwrap();
    // More than the system takes for a peer that does not read.
    while host.status().waiting_bytes < 16 << 20 {
        churn(1000);
        assert_ne!(late.status().state, DestinationState::Failed);
    }
    assert_eq!(host.status().state, DestinationState::Sending);
}
