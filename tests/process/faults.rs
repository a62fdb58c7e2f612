//! Reads, writes and clocks that misbehave: see [`crate::shim`]. Lack of memory is in `no_memory`.

use crate::allocator::uncounted;
use crate::exactness::{Exact, events};
use crate::harness::{Case, REPORT, TRACE, builder, case, churn, heavy_case, leave, left, start};
use crate::losses::memory_events;
use crate::no_memory::read_back;
use crate::shim::{Fault, READ, RECV, SEND, WRITE, have_clocks_jump};
use memledger::control::{Client, Command};
use memledger::{Ledger, OnFull, bookmark};
use memledger_analysis::Analyzer;
use memledger_analysis::read::{self, EventAnalyzer};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const CASES: &[Case] = &[
    case("a trace written in short pieces is whole", || written(Fault::Short), check_written),
    case("a storm of signals loses nothing", || written(Fault::Interrupted), check_written),
    case("writes that are to be tried again lose nothing", || written(Fault::Again), check_written),
    case("each write in turn fails and the trace is whole up to there", broken, |run| {
        let outcome = run.run();
        outcome.exited(0);
        let turns = outcome.stdout.trim().parse::<usize>().unwrap();
        assert!(turns > 20, "{turns} turns");
        // The report of the last turn, whose own write fails, follows on stderr.
        let mut problems = outcome.stderr.lines().filter(|line| line.starts_with("memledger: "));
        assert!(problems.all(|line| line.contains("Input/output error")), "{}", outcome.stderr);
        let told = outcome.stderr.lines().filter(|line| line.contains(TRACE)).count();
        // The last write of a turn is that of the report; how many come before varies by a few,
        // because the worker's cycles decide what goes into one write.
        assert!((turns - 4..=turns).contains(&told), "{told} of {turns}: {}", outcome.stderr);
    }),
    case("a disk that has room again later has a trace that stays as it was", full, |run| {
        let outcome = run.run();
        outcome.exited(0);
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains("No space left on device"), "{lines:?}");
        let (read, summary) = outcome.trace(TRACE);
        assert!(!read.trace.complete && read.losses.lost_events == 0);
        assert_eq!((summary.truncated_bytes, summary.counts.damages), (0, 0));
        assert_eq!((left(&read, 1_000_003), left(&read, 1_000_033)), (1, 0));
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    case("a worker that hardly runs loses nothing uncounted", starved, |run| {
        let outcome = run.run();
        outcome.quiet();
        let report = outcome.same(TRACE, REPORT);
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        assert_eq!(memory_events(&outcome) + report.losses.lost_events, emitted);
    }),
    heavy_case(
        "a thread that sleeps through eight million events keeps its place",
        asleep,
        |run| {
            let report = run.run().quiet().whole();
            assert!(report.trace.events > 1 << 23);
            assert_eq!((left(&report, 1_000_003), left(&report, 1_000_033)), (0, 1));
            assert!(report.totals.peak_bytes < 3_000_000, "{:?}", report.totals);
        },
    ),
    case("a connection that sends in short pieces sends everything", sent, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let received = outcome.trace("received.utrace").0;
        assert!(received.trace.complete);
        assert_eq!((left(&received, 1_000_003), received.losses.lost_events), (1, 0));
    }),
    case("a control server that hears single bytes answers", controlled, |run| {
        assert_eq!(left(&run.run().quiet().whole(), 1_000_003), 1);
    }),
    case("a trace read in short and broken pieces says the same", read_badly, |run| {
        run.run().quiet().whole();
    }),
    case("clocks that jump give times that never go back", jumping, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let mut markers = EventAnalyzer::new(Vec::new()).on(
            "Memory",
            "Marker",
            ["Cycle"],
            |markers: &mut Vec<u64>, _, [cycle]| markers.push(cycle.u64().unwrap()),
        );
        read::read(File::open(outcome.path(TRACE)).unwrap(), &mut markers).unwrap();
        assert!(markers.state.len() > 20, "{}", markers.state.len());
        assert!(markers.state.is_sorted(), "{:?}", markers.state);
        let end = report.trace.duration_ns;
        assert!(report.totals.peak_bytes_at_ns <= end);
        assert!(report.largest_live.iter().all(|block| block.allocated_at_ns <= end));
        assert_eq!(report.bookmarks.len(), 50);
        assert!(report.bookmarks.iter().all(|mark| mark.at_ns <= end), "{:?}", report.bookmarks);
    }),
    case("a worker that is slow with a thousand threads loses nothing", slow, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        assert_eq!(memory_events(&outcome), emitted);
    }),
];

/// Checks that the trace has everything the program did, and that the report has the same figures.
#[track_caller]
fn check_written(run: crate::harness::Run) {
    let outcome = run.run();
    let report = outcome.quiet().whole();
    let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
    assert_eq!(memory_events(&outcome), emitted);
    assert_eq!(left(&report, 1_000_003), 1);
}

fn written(fault: Fault) {
    WRITE.set(fault, 0);
    let exact = Exact::start(Ledger::builder());
    leave(1_000_003);
    for _ in 0..5 {
        churn(2000);
        crate::allocator::nobody_counted(|| exact.ledger().flush());
    }
    let sum = exact.finish();
    assert!(WRITE.clear() > 20);
    println!("{}", events(sum));
}

fn broken() {
    let mut turns = 0;
    for after in 0.. {
        WRITE.set(Fault::Broken, after);
        let ledger = builder().start();
        let started = ledger.is_ok();
        if let Ok(ledger) = ledger {
            for _ in 0..20 {
                churn(100);
                ledger.flush();
            }
        } else if let Err(error) = ledger {
            eprintln!("{error}");
        }
        let calls = WRITE.clear();
        let (complete, lost) = uncounted(read_back);
        assert_eq!(lost, 0, "what is in the file is whole");
        if calls <= after {
            assert!(complete && started);
            break;
        }
        turns += 1;
    }
    println!("{turns}");
}

fn full() {
    let ledger = start();
    leave(1_000_003);
    ledger.flush();
    WRITE.set(Fault::Full, 0);
    churn(1000);
    ledger.flush();
    WRITE.clear();
    leave(1_000_033);
    ledger.flush();
}

/// Gives the tracker's thread only the time of two processors that other threads leave, which is
/// close to none.
fn starved() {
    let exact = Exact::start(Ledger::builder().buffer_limit(1).on_full(OnFull::Wait));
    nice_worker();
    static SPINS: AtomicBool = AtomicBool::new(true);
    let spin = || {
        while SPINS.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let spinning: Vec<_> = (0..8).map(|_| std::thread::spawn(spin)).collect();
    let busy = || (0..20_000).for_each(|_| drop(black_box(Box::new(1_u8))));
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(busy)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    SPINS.store(false, Ordering::Relaxed);
    spinning.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{}", events(exact.finish()));
}

/// Gives every other thread precedence over the tracker's. One that was joined may end before its name is
/// read.
fn nice_worker() {
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        if std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "memledger\n") {
            let id = task.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap();
            // SAFETY: a system call that takes only numbers.
            #[expect(unsafe_code)]
            let set = unsafe { libc::setpriority(libc::PRIO_PROCESS, id, 19) };
            assert_eq!(set, 0);
        }
    }
}

fn asleep() {
    let _ledger = start();
    let (wake, sleep) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let block = black_box(vec![1_u8; 1_000_003]);
        sleep.recv().unwrap();
        drop(block);
        leave(1_000_033);
    });
    (0..(1 << 22) + 1000).for_each(|_| drop(black_box(Box::new(1_u8))));
    wake.send(()).unwrap();
    thread.join().unwrap();
}

fn sent() {
    let recorder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = recorder.local_addr().unwrap().to_string();
    let recorder = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        recorder.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    SEND.set(Fault::Short, 0);
    let ledger = builder().trace_to_host(address).start().unwrap();
    leave(1_000_003);
    churn(2000);
    drop(ledger);
    assert!(SEND.clear() > 20);
    std::fs::write("received.utrace", recorder.join().unwrap()).unwrap();
}

fn controlled() {
    let ledger = builder().control("0").start().unwrap();
    leave(1_000_003);
    let address = ledger.control_address().unwrap().to_string();
    for fault in [Fault::Short, Fault::Interrupted] {
        RECV.set(fault, 0);
        SEND.set(fault, 0);
        let mut client = Client::connect(&address).unwrap();
        for _ in 0..3 {
            let lines = client.send(&Command::Status).unwrap();
            assert!(lines.iter().any(|line| line.starts_with("events ")), "{lines:?}");
        }
        assert!(RECV.clear() > 3 && SEND.clear() > 3);
    }
}

fn read_badly() {
    let ledger = start();
    churn(5000);
    drop(ledger);
    let report = || {
        let mut analyzer = Analyzer::new();
        let summary = read::read(File::open(TRACE).unwrap(), &mut analyzer);
        (summary.map(|summary| summary.error.is_none()), analyzer.report())
    };
    let expected = report().1;
    assert!(expected.trace.complete);
    for fault in [Fault::Short, Fault::Interrupted] {
        READ.set(fault, 0);
        let (summary, found) = report();
        assert!(READ.clear() > 3);
        assert!(summary.unwrap());
        assert_eq!(found, expected);
    }
    // The part before the error is read, and the error is reported.
    for after in [0, 1, 2] {
        READ.set(Fault::Broken, after);
        let (summary, found) = report();
        READ.clear();
        assert!(!summary.unwrap_or(false), "after {after}");
        assert!(found.totals.allocations <= expected.totals.allocations);
        assert_eq!(found.losses.unmatched_frees, 0);
    }
}

fn jumping() {
    have_clocks_jump();
    let ledger = start();
    for number in 0..50 {
        bookmark!("moment {}", number);
        churn(100);
        ledger.flush();
    }
    leave(1_000_003);
}

/// Uses enough threads that the worker passes on some MiB before it can free one block, at 100 ms
/// for each 256 KiB.
fn slow() {
    const THREADS: usize = 1000;
    let builder = Ledger::builder().buffer_limit(1).on_full(OnFull::Wait);
    let exact = Exact::start(builder);
    WRITE.set(Fault::Slow, 0);
    static BARRIER: Barrier = Barrier::new(THREADS);
    let busy = || {
        BARRIER.wait();
        for _ in 0..350 {
            drop(black_box(Box::new(1_u8)));
        }
        BARRIER.wait();
    };
    let thread = || std::thread::Builder::new().stack_size(64 << 10).spawn(busy).unwrap();
    let threads: Vec<_> = (0..THREADS).map(|_| thread()).collect();
    // Joined, not scoped: a scoped thread may free its last blocks after the scope has ended.
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let sum = exact.finish();
    WRITE.clear();
    println!("{}", events(sum));
}
