//! Where a process ends while its threads allocate, each allocation that a counter below the tracker has seen
//! is in the totals, or counted as after the end.
//!
//! The tests end a program of eight threads ten times in each of four ways (the check `ends`: 1,000
//! times in all).
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![expect(unsafe_code, reason = "a global allocator")]

use memledger::{TrackingAllocator, alloc_scope};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Report};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The environment variable of the child.
const ENDS_BY: &str = "TEST_ENDS_BY";
const THREADS: usize = 8;
/// A child that has not ended by then hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Counts what the threads of the test allocate, until the end.
struct Counter;

static COUNTS: AtomicBool = AtomicBool::new(true);
static COUNTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { System.alloc(layout) };
        if IS_COUNTED.get() && COUNTS.load(Ordering::Relaxed) {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
        block
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOC: TrackingAllocator<Counter> = TrackingAllocator::new(Counter);

/// Allocates until the process ends.
fn work(depth: usize) {
    if depth > 0 {
        return black_box(work)(black_box(depth - 1));
    }
    loop {
        black_box(Box::new(black_box([0_u8; 100])));
    }
}

/// The child: ends while eight threads allocate.
fn end(way: &str) {
    for number in 0..THREADS {
        std::thread::spawn(move || {
            alloc_scope!("at work", {
                IS_COUNTED.set(true);
                work(3 * number);
            });
        });
    }
    let enough = 20_000 + 97 * u64::from(std::process::id() % 64);
    while COUNTED.load(Ordering::Relaxed) < enough {
        std::thread::yield_now();
    }
    COUNTS.store(false, Ordering::SeqCst);
    println!("{}", COUNTED.load(Ordering::SeqCst));
    match way {
        "exit" => std::process::exit(0),
        _ => std::process::abort(),
    }
}

/// Ends a child that way; returns what its counter has seen, and the report of its trace.
///
/// NOTE: the report is made here, because one of the child's own would look for the functions of its stacks
/// first.
fn ended(way: &str, stacks: &str) -> (u64, Report) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.utrace");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([way, "--nocapture"])
        .env(ENDS_BY, way)
        .env("MEMLEDGER_TRACE", &trace)
        .env("MEMLEDGER_REPORT", "off")
        .env("MEMLEDGER_WATCH", if way == "exit" { "0" } else { "1" })
        .env("MEMLEDGER_STACKS", stacks)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + DEADLINE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("the child hung for {DEADLINE:?}");
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let counted = said.lines().find_map(|line| line.trim().parse().ok());
    let counted = counted.unwrap_or_else(|| panic!("no count in {said:?}"));
    loop {
        let mut analyzer = Analyzer::new();
        read(File::open(&trace).unwrap(), &mut analyzer).unwrap();
        let report = analyzer.report();
        if report.trace.complete {
            return (counted, report);
        }
        // NOTE: a watcher completes the trace after the end of its process.
        assert!(way != "exit" && Instant::now() < until, "{:?}", report.losses);
        std::thread::yield_now();
    }
}

/// The child, or how many of its ends that way had allocations in flight, and how many there were at most.
fn check(way: &str) {
    if std::env::var_os(ENDS_BY).is_some() {
        return end(way);
    }
    let ends = std::env::var("TEST_ENDS").map_or(10, |ends| ends.parse().unwrap());
    for stacks in ["on", "off"] {
        let (mut short, mut most, mut in_flight_most, mut wrong) = (0, 0, 0, Vec::new());
        for _ in 0..ends {
            let (counted, report) = ended(way, stacks);
            assert_eq!(report.losses.lost_events, 0, "{:?}", report.losses);
            assert_eq!(report.losses.unmatched_frees, 0, "{:?}", report.losses);
            let row = report.by_scope.iter().find(|row| row.path.ends_with(&["at work".into()]));
            let allocations = row.unwrap().figures.allocations;
            let in_flight = report.after_report.in_flight;
            // One of each thread at most: of the eight, of the test's two, and of the tracker's.
            assert!(in_flight <= THREADS as u64 + 4, "{in_flight}");
            let missing = counted.saturating_sub(allocations);
            short += u32::from(missing > 0);
            most = most.max(missing);
            in_flight_most = in_flight_most.max(in_flight);
            if missing > in_flight {
                wrong.push((counted, allocations, in_flight));
            }
        }
        println!(
            "{way}, stacks {stacks}: {short} of {ends} short, by {most} at most; in flight {in_flight_most} at most"
        );
        assert!(wrong.is_empty(), "{} of {ends}: {wrong:?}", wrong.len());
    }
}

#[test]
fn exit_while_threads_allocate() {
    check("exit");
}

#[test]
fn abort_while_threads_allocate() {
    check("abort");
}
