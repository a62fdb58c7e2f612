//! More than one destination: late ones, slow ones, those that break, and those that never were.

use crate::allocator::held_up;
use crate::harness::{Case, Outcome, REPORT, TRACE, builder, case, churn, leave, left, start};
use memledger::{
    DestinationHandle, DestinationState, ErrorKind, Ledger, Worker, alloc_scope, group, tag, tagged,
};
use memledger_analysis::read;
use memledger_analysis::{Analyzer, LiveBlock, Report as Figures};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

group! {
    KEPT = "Kept";
}

const LATE: &str = "late.utrace";
const COMPACT: &str = "late.memledger";

pub(crate) const CASES: &[Case] = &[
    case("two that start apart agree with the program's own list", own_list, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let first = blocks(&outcome, TRACE);
        let whole = outcome.trace(TRACE).0.trace;
        assert_eq!((whole.recording_since_ns, whole.initial_live_blocks), (Some(0), Some(0)));
        for name in [LATE, COMPACT] {
            let late = outcome.trace(name).0;
            check_whole(&late);
            assert_eq!(late.trace.from_process_start, Some(true), "{name}");
            assert!(late.trace.recording_since_ns > Some(0), "{name}: {:?}", late.trace);
            assert!(late.trace.initial_live_blocks > Some(0), "{name}: {:?}", late.trace);
            assert_eq!(blocks(&outcome, name), first, "{name}");
        }
        let listed = fs::read_to_string(outcome.path("list")).unwrap();
        let mut listed: BTreeMap<u64, (u64, String)> = listed.lines().map(entry).collect();
        let threads = listed.values().map(|(_, thread)| thread.clone());
        assert_eq!(threads.collect::<std::collections::BTreeSet<_>>().len(), 4);
        for block in &first {
            if block.group == ["Kept"] {
                assert_eq!(block.name, format!("block of {}", block.thread));
                assert!(block.path.starts_with(&["GlobalScope".into(), "kept".into()]));
                let own = (block.bytes, block.thread.clone());
                assert_eq!(listed.remove(&block.address), Some(own));
            }
        }
        assert!(listed.is_empty(), "{listed:?}");
    }),
    case("a reallocation under way where a stream begins keeps its block", halfway, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let late = outcome.trace(LATE).0;
        check_whole(&late);
        assert_eq!(blocks(&outcome, LATE), blocks(&outcome, TRACE));
        let block = blocks(&outcome, LATE).into_iter().find(|b| b.bytes == 3_000_017).unwrap();
        assert_eq!(block.path, ["GlobalScope", "growing"]);
        assert!(late.totals.reallocations >= 1);
    }),
    case("without an analyzer a late stream says what it lacks", no_analyzer, |run| {
        let outcome = run.run();
        outcome.quiet();
        let late = outcome.trace(LATE).0;
        assert_eq!(late.trace.from_process_start, Some(false));
        assert!(late.trace.complete);
        assert!(late.trace.recording_since_ns > Some(0), "{:?}", late.trace);
        assert_eq!(late.trace.initial_live_blocks, None);
        assert_eq!((left(&late, 1_000_003), left(&late, 1_000_005)), (0, 1));
        assert!(late.losses.frees_of_earlier_blocks > 0);
        assert_eq!(late.losses.unmatched_frees, 0);
    }),
    case("fifty come and go while events flow", come_and_go, |run| {
        // With `TEST_DELAYS`, on a busy machine, this test has taken 127 s.
        let outcome = run.deadline(600).run();
        outcome.quiet().whole();
        for number in 0..50 {
            let late = outcome.trace(&format!("{number}.utrace")).0;
            check_whole(&late);
            assert_eq!(left(&late, 1_000_003), 1);
        }
    }),
    case("a program without a worker thread has them too", manual, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        check_whole(&outcome.trace(LATE).0);
        assert_eq!(blocks(&outcome, LATE), blocks(&outcome, TRACE));
    }),
    case("the environment names a recorder that gets the whole trace", simple, |run| {
        let (address, peer) = peer(read_all);
        let outcome = run.env("MEMLEDGER_HOST", address).env("MEMLEDGER_REPORT", REPORT).run();
        outcome.quiet();
        fs::write(outcome.path("received.utrace"), peer.join().unwrap()).unwrap();
        let report = outcome.whole_as("received.utrace", REPORT);
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(left(&report, 1_000_003), 1);
    }),
    case(
        "code adds a recorder to a recording of the environment, whose file stays",
        joins,
        |run| {
            let (address, peer) = peer(read_all);
            let outcome = run.env("TEST_PEER", address).env("MEMLEDGER_TRACE", "env.utrace").run();
            outcome.quiet();
            fs::write(outcome.path("received.utrace"), peer.join().unwrap()).unwrap();
            assert_eq!(outcome.files(), ["env.utrace", "received.utrace", REPORT]);
            for name in ["env.utrace", "received.utrace"] {
                let report = outcome.trace(name).0;
                assert!(report.trace.complete);
                assert_eq!(left(&report, 1_000_003), 1, "{name}");
            }
        },
    ),
    case("an address that is none is told and the program runs", simple, |run| {
        let outcome = run.env("MEMLEDGER_HOST", "a:b:c").env("MEMLEDGER_REPORT", REPORT).run();
        outcome.exited(0);
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("MEMLEDGER_HOST") && lines[0].contains("\"a:b:c\""), "{lines:?}");
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    case("a recorder that is absent costs a line", absent, |run| {
        // A port that was free just now.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let outcome = run.env("TEST_PEER", format!("127.0.0.1:{port}")).run();
        outcome.exited(0).whole();
        check_told(&outcome, "cannot be connected to");
    }),
    case("a recorder that never reads is given up and nothing else lost", until_failed, |run| {
        let (address, peer) = peer(|stream| {
            // Holds it open until the other end has gone.
            let mut stream = stream;
            let _ = stream.write(&[0]);
            stream
        });
        let outcome = run.env("TEST_PEER", address).run();
        outcome.exited(0).whole();
        // Where the program gets little processor time, 30 s without an answer come first.
        let is_silent = outcome.stderr.contains("timed out");
        check_told(&outcome, if is_silent { "timed out" } else { "MiB were waiting for it" });
        drop(peer.join().unwrap());
    }),
    case("a recorder that breaks off is told and another can follow", reset, |run| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            let mut start = [0; 100];
            first.read_exact(&mut start).unwrap();
            // With unread bytes the connection is reset, within a packet.
            drop(first);
            read_all(listener.accept().unwrap().0)
        });
        let outcome = run.env("TEST_PEER", address).run();
        outcome.exited(0).whole();
        check_told(&outcome, "the connection was lost after");
        fs::write(outcome.path(LATE), peer.join().unwrap()).unwrap();
        check_whole(&outcome.trace(LATE).0);
        assert_eq!(blocks(&outcome, LATE), blocks(&outcome, TRACE));
    }),
    case("where nothing is recorded nothing can be added", not_recording, |run| {
        run.run().quiet();
    }),
];

/// A stream that knows every block of its program.
#[track_caller]
fn check_whole(report: &Figures) {
    assert_eq!(report.trace.from_process_start, Some(true));
    assert!(report.trace.complete);
    let losses = &report.losses;
    assert_eq!((losses.lost_events, losses.serial_holes), (0, 0), "{losses:?}");
    assert_eq!((losses.unmatched_frees, losses.duplicate_allocations), (0, 0), "{losses:?}");
}

/// Everything that is live at the end of a trace, the largest first.
fn blocks(outcome: &Outcome, name: &str) -> Vec<LiveBlock> {
    let mut analyzer = Analyzer::new().largest_live(usize::MAX);
    read::read(File::open(outcome.path(name)).unwrap(), &mut analyzer).unwrap();
    analyzer.report().largest_live
}

/// One line of the program's list: address, bytes, thread.
fn entry(line: &str) -> (u64, (u64, String)) {
    let mut parts = line.splitn(3, ' ');
    let mut number = || parts.next().unwrap().parse().unwrap();
    let (address, bytes) = (number(), number());
    (address, (bytes, parts.next().unwrap().to_owned()))
}

#[track_caller]
fn check_told(outcome: &Outcome, what: &str) {
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("memledger: 127.0.0.1:"), "{lines:?}");
    assert!(lines[0].contains(what), "{lines:?}");
}

/// A recorder of one connection, with its address.
pub(crate) fn peer<R: Send + 'static>(
    body: impl FnOnce(TcpStream) -> R + Send + 'static,
) -> (String, JoinHandle<R>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (address, std::thread::spawn(move || body(listener.accept().unwrap().0)))
}

pub(crate) fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn joins() {
    let ledger = builder().trace_to_host(peer_address()).start().unwrap();
    leave(1_000_003);
    ledger.flush();
}

pub(crate) fn peer_address() -> String {
    std::env::var("TEST_PEER").unwrap()
}

/// What a thread of [`own_list`] keeps.
fn keep(kept: &mut Vec<Vec<u8>>, thread: &str, bytes: usize) {
    alloc_scope!("kept");
    let tag = match thread {
        "one" => tag!(KEPT, "block of one"),
        "two" => tag!(KEPT, "block of two"),
        "three" => tag!(KEPT, "block of three"),
        _ => tag!(KEPT, "block of four"),
    };
    kept.push(black_box(tagged(tag, || Vec::with_capacity(bytes))));
}

fn own_list() {
    let ledger = start();
    let threads = ["one", "two", "three", "four"];
    // Each thread runs `rounds` rounds; two destinations start while the rounds run.
    let (rounds, done) = (300, AtomicUsize::new(0));
    let list = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, name) in threads.into_iter().enumerate() {
            let (list, done) = (&list, &done);
            let work = move || {
                let mut kept = Vec::with_capacity(1 << 16);
                for round in 0..rounds {
                    for step in 0..50 {
                        keep(&mut kept, name, 1 + (round * 50 + step) * 7 % 3001);
                        let scope = ["short", "lived"][step % 2];
                        alloc_scope!(scope, { drop(black_box(vec![0_u8; 1 + step])) });
                        if step % 3 == number % 3 {
                            let index = (round * 31 + step) % kept.len();
                            kept[index].reserve_exact(100 + step);
                        }
                        if step % 3 > 0 {
                            drop(kept.swap_remove((round * 17 + step) % kept.len()));
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                let mut list = list.lock().unwrap();
                list.extend(kept.into_iter().map(|block| (block, name)));
            };
            std::thread::Builder::new().name(name.into()).spawn_scoped(scope, work).unwrap();
        }
        for (number, name) in [LATE, COMPACT].into_iter().enumerate() {
            while done.load(Ordering::Relaxed) < (number + 1) * rounds {
                std::thread::yield_now();
            }
            ledger.trace_to_file(name).unwrap();
        }
    });
    let list = list.into_inner().unwrap();
    let mut text = String::new();
    for (block, thread) in &list {
        text += &format!("{} {} {thread}\n", block.as_ptr().addr(), block.capacity());
    }
    fs::write("list", text).unwrap();
    drop(ledger);
    drop(list);
}

fn halfway() {
    let ledger = start();
    let grown = Mutex::new(Vec::new());
    let grow = || {
        alloc_scope!("growing");
        let mut block = Vec::<u8>::with_capacity(1_000_003);
        // Another thread may get the address during this.
        block.reserve_exact(3_000_017);
        *grown.lock().unwrap() = block;
    };
    held_up(grow, || {
        churn(10_000);
        ledger.trace_to_file(LATE).unwrap();
        churn(10_000);
    });
    drop(ledger);
}

fn no_analyzer() {
    let ledger = Ledger::builder().trace_to_file(TRACE).start().unwrap();
    let earlier = black_box(vec![0_u8; 77]);
    leave(1_000_003);
    let late = ledger.trace_to_file(LATE).unwrap();
    drop(earlier);
    leave(1_000_005);
    late.stop();
}

fn come_and_go() {
    let ledger = start();
    leave(1_000_003);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    alloc_scope!("busy", { churn(100) });
                    // Without a pause, four threads fill the machine and fifty files.
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
        }
        let mut running = Vec::new();
        for number in 0..50 {
            running.push(ledger.trace_to_file(format!("{number}.utrace")).unwrap());
            if number % 3 == 2 {
                // Never the one that came first of those that run.
                running.drain(1..).for_each(|destination: DestinationHandle| destination.stop());
            }
        }
        stop.store(true, Ordering::Relaxed);
        running.iter().for_each(DestinationHandle::stop);
        running.iter().for_each(DestinationHandle::stop);
    });
    let all = ledger.destinations();
    assert_eq!(all.len(), 50);
    for destination in all {
        let status = destination.status();
        assert_eq!(status.state, DestinationState::Ended, "{status:?}");
        assert_eq!(status.written_bytes, fs::metadata(&status.name).unwrap().len());
        assert_eq!((status.waiting_bytes, status.problem), (0, None));
    }
}

fn manual() {
    let ledger = builder().worker(Worker::Manual).start().unwrap();
    for _ in 0..5 {
        alloc_scope!("before", { churn(2000) });
        ledger.collect();
    }
    let kept = black_box(vec![1_u8; 12_345]);
    let late = ledger.trace_to_file(LATE).unwrap();
    for _ in 0..5 {
        alloc_scope!("after", { churn(2000) });
        ledger.collect();
    }
    assert_eq!(late.status().problem, None);
    drop(ledger);
    drop(kept);
}

fn simple() {
    leave(1_000_003);
    churn(20_000);
}

fn absent() {
    let ledger = start();
    let late = ledger.trace_to_host(peer_address()).unwrap();
    while late.status().state == DestinationState::Opening {
        churn(100);
    }
    let status = late.status();
    assert_eq!((status.state, status.written_bytes), (DestinationState::Failed, 0));
    assert!(status.problem.unwrap().contains("refused"));
    assert_eq!(ledger.stats().lost_destinations, 1);
    assert_eq!(ledger.problems().len(), 1);
    late.stop();
}

/// As programs do that want to end with their reader. Windows has no such signal.
fn default_sigpipe() {
    // SAFETY: as programs do that want to end with their reader.
    #[cfg(unix)]
    #[expect(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL)
    };
}

fn until_failed() {
    default_sigpipe();
    let ledger = start();
    let late = ledger.trace_to_host(peer_address()).unwrap();
    let other = ledger.trace_to_file(LATE).unwrap();
    while late.status().state != DestinationState::Failed {
        churn(10_000);
        assert_ne!(other.status().state, DestinationState::Failed);
    }
    late.stop();
}

fn reset() {
    default_sigpipe();
    let ledger = start();
    let kept = black_box(vec![1_u8; 12_345]);
    let first = ledger.trace_to_host(peer_address()).unwrap();
    while first.status().state != DestinationState::Failed {
        churn(1000);
    }
    let again = ledger.trace_to_host(first.status().name).unwrap();
    churn(1000);
    assert_ne!(again.status().state, DestinationState::Failed);
    drop(ledger);
    assert_eq!(again.status().state, DestinationState::Ended);
    drop(kept);
}

fn not_recording() {
    let started = start();
    let ledger = Ledger::current().unwrap();
    let wrong = ledger.trace_to_host("no port:here").unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidSetting, "{wrong}");
    started.finish().unwrap();
    let late = ledger.trace_to_file(LATE).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotRecording, "{late}");
    assert!(!fs::exists(LATE).unwrap(), "nothing is created that gets nothing");
    assert_eq!(ledger.destinations(), []);
}
