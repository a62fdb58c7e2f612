//! Programs that end without a report, and have a watcher.
//!
//! What the program has done is known from a file, whatever ends it (`counts.rs`).
#![expect(unsafe_code, reason = "maps a file and ends processes")]

use crate::counts::{
    Counts, check, counts_agree, map_counts, note_floor, reported, wait_for_report,
};
use crate::crashes::{by_zero, no_instruction};
use crate::files::check_told;
use crate::fork::{fork, wait};
use crate::harness::{
    Case, Outcome, REPORT, Run, TRACE, builder, case, churn, kill, leave, left, scope,
};
use crate::start::IN_MAIN;
use libc::c_int;
use memledger::{Ledger, Name, alloc_scope};
use memledger_analysis::StackKind;
use std::collections::HashSet;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    case("SIGTERM gives a report of all", end, |run| ends(&run, "TERM", Some(libc::SIGTERM))),
    case("SIGINT gives a report of all", end, |run| ends(&run, "INT", Some(libc::SIGINT))),
    case("SIGHUP gives a report of all", end, |run| ends(&run, "HUP", Some(libc::SIGHUP))),
    case("SIGQUIT gives a report of all", end, |run| ends(&run, "QUIT", Some(libc::SIGQUIT))),
    case("SIGSYS gives a report of all", end, |run| ends(&run, "SYS", Some(libc::SIGSYS))),
    case("abort gives a report of all", end, |run| ends(&run, "abort", Some(libc::SIGABRT))),
    case("SIGSEGV gives a report of all", end, |run| ends(&run, "SEGV", Some(libc::SIGSEGV))),
    case("SIGBUS gives a report of all", end, |run| ends(&run, "BUS", Some(libc::SIGBUS))),
    case("SIGILL gives a report of all", end, |run| ends(&run, "ILL", Some(libc::SIGILL))),
    case("SIGFPE gives a report of all", end, |run| ends(&run, "FPE", Some(libc::SIGFPE))),
    case("a stack overflow gives a report of all", end, |run| {
        ends(&run, "overflow", Some(libc::SIGABRT))
    }),
    case("_exit gives a report of all", end, |run| ends(&run, "_exit", None)),
    case("quick_exit gives a report of all", end, |run| ends(&run, "quick_exit", None)),
    case("SIGKILL by itself gives a report of all", end, |run| {
        ends(&run, "KILL", Some(libc::SIGKILL))
    }),
    case("SIGKILL by another gives a report of all", end, |run| {
        ends(&run, "killed", Some(libc::SIGKILL))
    }),
    case("a report on signals and a watcher give one report", end, |run| {
        for way in ["TERM", "SEGV", "_exit", "KILL"] {
            let run = set(Run::of(&run), way, 8, true).env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
            check(&watched(run), true);
        }
    }),
    case("a report on signals starts a watcher, and handles no signal", handles_none, |run| {
        let outcome = watched(run.tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1"));
        assert_eq!(outcome.stdout, "");
        assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
    }),
    case("a report that the environment names starts a watcher", end, |run| {
        let named = |way| {
            let mut run = set(Run::of(&run), way, 8, true);
            run.command.env_remove("MEMLEDGER_WATCH");
            run
        };
        for way in ["TERM", "HUP", "_exit", "KILL"] {
            check(&watched(named(way)), true);
        }
        // Not where it is not wanted, nor for a trace alone.
        for (name, value) in [("MEMLEDGER_WATCH", "0"), ("MEMLEDGER_REPORT", "off")] {
            let outcome = named("KILL").env(name, value).run();
            let report = fs::read(outcome.path(REPORT)).unwrap_or_default();
            assert_eq!((report.len(), &*outcome.stderr), (0, ""), "{name}={value}");
            assert!(!outcome.trace(TRACE).0.trace.ended, "{name}={value}");
        }
    }),
    case("a report that a flag names starts a watcher", by_flag, |run| {
        let outcome = watched(Run::of(&run));
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
        let outcome = run.env(OTHER_FLAG, "-tracewatch=0").run();
        assert!(
            !outcome.path(REPORT).exists() || fs::read(outcome.path(REPORT)).unwrap().is_empty()
        );
    }),
    case("who has not asked for a watcher is not told that there is none", end, |run| {
        let without_room = |run| {
            let run = set(run, "_exit", 1, false).env("MEMLEDGER_TRACE", "");
            run.env("TMPDIR", "/no/such/folder")
        };
        let stderr = without_room(Run::of(&run)).run().stderr;
        assert!(stderr.starts_with("memledger: there is no watcher: "), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let mut run = without_room(run);
        run.command.env_remove("MEMLEDGER_WATCH");
        assert_eq!(run.run().stderr, "");
    }),
    case("a program that is killed at any moment loses nothing", at_any_moment, |run| {
        for seed in 0..30 {
            let mut running = Run::of(&run).tracked().env("MEMLEDGER_WATCH", "1").spawn();
            running.wait_for(READY);
            let until = Instant::now() + Duration::from_micros(seed * 1_700);
            while Instant::now() < until {
                std::thread::yield_now();
            }
            kill(running.pid(), libc::SIGKILL);
            check(&reported(running), true);
        }
    }),
    case("a compact trace is completed, too", end, |run| {
        let run = set(run, "KILL", 8, true).env("MEMLEDGER_TRACE", "trace.memledger");
        let outcome = watched(run);
        counts_agree(&outcome, &outcome.whole_as("trace.memledger", REPORT), true);
    }),
    case("without a trace there is a report, and nothing else is left", end, |run| {
        let run = set(run, "KILL", 8, false);
        let folder = run.path("temporary");
        fs::create_dir(&folder).unwrap();
        let mut run = run.env("TMPDIR", &folder);
        run.command.env_remove("MEMLEDGER_TRACE");
        let outcome = watched(run);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
        assert_eq!(outcome.files(), ["counts", REPORT, "temporary"]);
    }),
    case("a program that sends its trace and its track events has a watcher", end, |run| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // It takes what comes. NOTE: the program can be killed before it has sent anything.
        std::thread::spawn(move || {
            let _ = listener.accept().unwrap().0.read_to_end(&mut Vec::new());
        });
        let run = set(run, "KILL", 8, true).env("MEMLEDGER_HOST", address);
        check(&watched(run.env("MEMLEDGER_PERFETTO", "events.pftrace")), true);
    }),
    case("a report goes to stderr", end, |run| {
        let run = set(run, "KILL", 1, false).env("MEMLEDGER_REPORT", "stderr");
        let running = run.spawn();
        let (path, until) = (running.path("stderr"), Instant::now() + Duration::from_secs(60));
        let outcome = running.wait();
        while !fs::read_to_string(&path).unwrap().contains("counted") {
            assert!(Instant::now() < until, "no report");
            std::thread::yield_now();
        }
        drop(outcome);
    }),
    case("a program that ends as it should has one report", whole, |run| {
        let outcome = run.tracked().env("MEMLEDGER_WATCH", "1").run();
        outcome.quiet();
        assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case("code can start a watcher", in_code, |run| {
        let outcome = watched(run);
        assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
    }),
    case("with threads there can be none", too_late, |run| {
        let outcome = run.run();
        check_told(&outcome, &["there is no watcher", "more than one thread", "MEMLEDGER_WATCH=1"]);
        outcome.whole();
    }),
    case("a watcher is nobody's child and holds no pipe", alone, |run| {
        let mut run = run.tracked().env("MEMLEDGER_WATCH", "1");
        let folder = run.folder.path().to_owned();
        let mut child = run.command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        // Ends when all have closed it: the program does so, and runs on.
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "no child\n");
        kill(child.id() as libc::pid_t, libc::SIGKILL);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        wait_for_report(&folder.join(REPORT));
    }),
    case("forked children do not write to what is shared", forks, |run| {
        let outcome = watched(run.tracked().env("MEMLEDGER_WATCH", "1"));
        counts_agree(&outcome, &outcome.whole(), false);
    }),
    case("names that were made a moment before are known", last_names, |run| {
        let report = watched(run.tracked().env("MEMLEDGER_WATCH", "1")).whole();
        for number in 0..200 {
            let path = ["GlobalScope", &format!("made at run time {number}")];
            assert_eq!(scope(&report, &path).unwrap().figures.live_bytes, 1000 + number);
        }
    }),
    case("call stacks that were taken a moment before have frames", last_stacks, |run| {
        let run = run.tracked().env("MEMLEDGER_WATCH", "1").env("MEMLEDGER_STACKS", "on");
        let report = watched(run).whole();
        assert!(report.by_stack.iter().all(|row| row.kind != StackKind::Unknown));
        let lefts = report.by_stack.iter().filter(|row| row.figures.live_bytes >= 2000);
        let frames = lefts.map(|row| row.frames.len()).collect::<HashSet<_>>();
        assert!(frames.len() >= 40, "a stack for each depth: {frames:?}");
    }),
    case("a watcher ends with its recording", ends_before, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
    }),
];

const READY: &str = "ready";

fn set(run: Run, way: &str, threads: usize, at_work: bool) -> Run {
    run.tracked()
        .env("MEMLEDGER_WATCH", "1")
        .env("TEST_WAY", way)
        .env("TEST_THREADS", threads.to_string())
        .env("TEST_AT_WORK", u8::from(at_work).to_string())
}

/// Runs a program to its end, and waits until its watcher has written the report.
#[track_caller]
fn watched(run: Run) -> Outcome {
    reported(run.spawn())
}

/// A program that ends this way has a whole report, with one thread and with eight, idle and at work, and
/// ends as it does without a watcher.
#[track_caller]
fn ends(run: &Run, way: &str, signal: Option<c_int>) {
    for threads in [1, 8] {
        for at_work in [false, true] {
            let set = |run| set(run, way, threads, at_work);
            let mut start = set(Run::of(run)).spawn();
            if way == "killed" {
                start.wait_for(READY);
                kill(start.pid(), libc::SIGKILL);
            }
            let outcome = reported(start);
            // The runtime of Rust does not always find out that a stack has overflowed in a handler.
            let is_unsure = way == "overflow" && at_work;
            let crashed = is_unsure && outcome.status.signal() == Some(libc::SIGSEGV);
            if !crashed {
                assert_eq!(outcome.status.signal(), signal, "{}", outcome.stderr);
            }
            if signal.is_none() {
                outcome.exited(5);
            }
            check(&outcome, at_work);
            let mut plain = set(outcome.again());
            plain.command.env_remove("MEMLEDGER_WATCH");
            if way != "killed" && !is_unsure {
                let plain = plain.run();
                assert_eq!(plain.status, outcome.status, "the same as without a watcher");
                let words = |text: &str| text.replace(|char: char| char.is_ascii_digit(), "");
                assert_eq!(words(&plain.stderr), words(&outcome.stderr));
            }
        }
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// A page that is in no file any more.
static CUT: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static ENDS: AtomicU64 = AtomicU64::new(0);

const WAYS: [&str; 13] = [
    "TERM", "INT", "HUP", "QUIT", "SYS", "abort", "SEGV", "BUS", "ILL", "FPE", "overflow", "_exit",
    "KILL",
];

/// Ends the process in the way that the environment names, at work or idle.
fn end() {
    let counts = map_counts();
    let (way, threads) = (variable("TEST_WAY"), variable("TEST_THREADS").parse::<usize>().unwrap());
    let at_work = variable("TEST_AT_WORK") == "1";
    let number = WAYS.iter().position(|name| *name == way).unwrap_or(WAYS.len());
    ENDS.store(number as u64, Ordering::Relaxed);
    CUT.store(cut_page(), Ordering::Relaxed);
    let idle: &'static _ = Box::leak(Box::new(std::sync::Barrier::new(threads)));
    for counts in &counts[1..threads] {
        std::thread::spawn(move || {
            alloc_scope!("counted", {
                counts.work(3_000);
                if at_work {
                    loop {
                        counts.work(100);
                    }
                }
            });
            idle.wait();
            loop {
                std::thread::park();
            }
        });
    }
    alloc_scope!("counted", {
        counts[0].work(3_000);
        if at_work && number < WAYS.len() {
            end_soon();
        }
        if at_work && way == "killed" {
            fs::write(READY, "").unwrap();
        }
        let until = Instant::now() + Duration::from_secs(120);
        while at_work && way != "quick_exit" && Instant::now() < until {
            counts[0].work(100);
        }
    });
    if !at_work {
        idle.wait();
    }
    match &*way {
        "quick_exit" => {
            note_floor(counts);
            exit_quickly(5)
        }
        "killed" => {
            fs::write(READY, "").unwrap();
            std::thread::sleep(Duration::from_secs(120));
        }
        _ => end_now(0),
    }
}

/// Ends the process, perhaps in a handler within a call of the allocator.
extern "C" fn end_now(_: c_int) {
    let signals = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGSYS];
    // SAFETY: none. This is the end.
    unsafe {
        match ENDS.load(Ordering::Relaxed) {
            number @ 0..5 => {
                libc::raise(signals[number as usize]);
            }
            5 => libc::abort(),
            6 => black_box(16 as *mut u8).write_volatile(1),
            7 => CUT.load(Ordering::Relaxed).write_volatile(1),
            8 => no_instruction(),
            9 => by_zero(),
            10 => overflow(),
            11 => libc::_exit(5),
            _ => {
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
        }
    }
}

#[expect(unconditional_recursion, reason = "it is to overflow the stack")]
fn overflow() {
    black_box([0_u8; 1000]);
    overflow();
    black_box(());
}

/// Has a signal interrupt this process in some milliseconds, in which it ends.
fn end_soon() {
    // SAFETY: the handler has the form that is asked for; the timer is a local.
    unsafe {
        let handler = end_now as extern "C" fn(c_int) as libc::sighandler_t;
        libc::signal(libc::SIGALRM, handler);
        let mut timer = std::mem::zeroed::<libc::itimerval>();
        timer.it_value.tv_usec = 3_000 + i64::from(libc::getpid() % 20_000);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut());
    }
}

fn cut_page() -> *mut u8 {
    let file = File::options().read(true).write(true).create(true).truncate(true).open("cut");
    let file = file.unwrap();
    fs::remove_file("cut").unwrap();
    // SAFETY: a new mapping. Its page is not in the file.
    unsafe {
        let fd = file.as_raw_fd();
        let flags = libc::MAP_SHARED;
        libc::mmap(ptr::null_mut(), 4096, libc::PROT_WRITE, flags, fd, 0).cast()
    }
}

fn exit_quickly(status: c_int) -> ! {
    unsafe extern "C" {
        fn quick_exit(status: c_int) -> !;
    }
    // SAFETY: ends the process.
    unsafe { quick_exit(status) }
}

fn at_any_moment() {
    let counts = map_counts();
    let work = |counts: &'static Counts| {
        alloc_scope!("counted", {
            counts.work(10);
            loop {
                counts.work(100);
            }
        });
    };
    for counts in &counts[1..8] {
        // Threads that end and begin, too.
        std::thread::spawn(move || {
            loop {
                let work = || alloc_scope!("counted", { counts.work(500) });
                std::thread::spawn(work).join().unwrap();
            }
        });
    }
    counts[0].work(0);
    alloc_scope!("counted", { counts[0].work(10) });
    fs::write(READY, "").unwrap();
    work(&counts[0]);
}

fn whole() {
    leave(IN_MAIN);
    churn(10_000);
}

/// Prints which signals have a handler that is not Rust's.
fn handles_none() {
    for signal in
        [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGABRT, libc::SIGILL, libc::SIGFPE]
    {
        if crate::crashes::action(signal) != libc::SIG_DFL {
            println!("{signal}");
        }
    }
    whole();
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

fn in_code() {
    let _ledger = builder().watch(true).start().unwrap();
    whole();
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

/// One more flag for [`by_flag`].
const OTHER_FLAG: &str = "WATCHER_TEST_FLAG";

fn by_flag() {
    let other = std::env::var(OTHER_FLAG).unwrap_or_default();
    let flags = [format!("-tracereport={REPORT}"), other];
    let (_ledger, _) = Ledger::from_args(flags.map(Into::into));
    whole();
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

fn too_late() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let waiting = std::thread::spawn(move || stopped.recv());
    let other = std::thread::spawn(std::thread::park);
    let ledger = builder().watch(true).start().unwrap();
    whole();
    drop((ledger, stop));
    other.thread().unpark();
    let _ = (waiting.join(), other.join());
}

fn alone() {
    whole();
    // SAFETY: plain calls; descriptor 1 is not used any more.
    unsafe {
        let waited = libc::wait(ptr::null_mut());
        let error = std::io::Error::last_os_error().raw_os_error();
        if waited == -1 && error == Some(libc::ECHILD) {
            libc::write(1, b"no child\n".as_ptr().cast(), 9);
        }
        libc::close(1);
    }
    std::thread::sleep(Duration::from_secs(120));
}

/// Forks in all ways, while a thread is at work. The children allocate, enter new scopes, and end.
fn forks() {
    let counts = map_counts();
    static STOP: AtomicBool = AtomicBool::new(false);
    let busy = std::thread::spawn(|| {
        alloc_scope!("counted", {
            while !STOP.load(Ordering::Relaxed) {
                counts[1].work(100);
            }
        });
    });
    for number in 0..50 {
        alloc_scope!("counted", { counts[0].work(100) });
        let body = || {
            alloc_scope!(Name::intern(&format!("in the child {number}")), { churn(300) });
        };
        assert_eq!(wait(fork(body)), 0);
        assert_eq!(wait(fork_without_handlers(body)), 0);
    }
    STOP.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

/// Forks by a system call, without the handlers of the C library.
pub(crate) fn fork_without_handlers(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: a fork without shared memory. No other thread is in the C library's allocator's arena of this
    // one.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            body();
            libc::_exit(0);
        }
        child as libc::pid_t
    }
}

fn last_names() {
    for number in 0..200 {
        let name = Name::intern(&format!("made at run time {number}"));
        alloc_scope!(name, { leave(1000 + number) });
    }
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

/// Leaves a block in each of 40 depths of calls.
fn last_stacks() {
    #[inline(never)]
    fn leave_in(depth: usize) {
        leave(2000 + depth);
        if depth > 0 {
            leave_in(depth - 1);
        }
        black_box(());
    }
    // The tracker knows the code once it has taken stacks.
    churn(1000);
    leave_in(39);
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

fn ends_before() {
    let ledger = builder().watch(true).start().unwrap();
    whole();
    let _ = ledger.finish();
    // A later recording of the same process has another one.
    let ledger = builder().watch(true).start().unwrap();
    churn(1000);
    let _ = ledger.finish();
}
