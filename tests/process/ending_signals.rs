//! Signals that end a program which has asked for its report before that.

use crate::fork::{fork, wait};
use crate::harness::{Case, REPORT, Run, TRACE, builder, case, churn, kill, leave, left};
use crate::start::IN_MAIN;
use libc::c_int;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    case("a program that SIGTERM ends gives its report first", served, |run| {
        ends_by(run, libc::SIGTERM)
    }),
    case("a program that SIGINT ends gives its report first", served, |run| {
        ends_by(run, libc::SIGINT)
    }),
    case("a program that SIGHUP ends gives its report first", served, |run| {
        ends_by(run, libc::SIGHUP)
    }),
    case("the environment can ask for the report", work, |run| {
        let run = run.tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
        ends_by(run.env("MEMLEDGER_WATCH", "0"), libc::SIGTERM);
    }),
    case("code can ask for it where the environment records", adds_to_environment, |run| {
        // A report that the environment names has a watcher, unless there is to be none.
        ends_by(run.tracked().env("MEMLEDGER_WATCH", "0"), libc::SIGTERM);
    }),
    case("nothing runs after the wait that a signal ends", waits, |run| {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            let mut running = Run::of(&run).spawn();
            running.wait_for(READY);
            kill(running.pid(), signal);
            let outcome = running.wait();
            assert_eq!(outcome.status.signal(), Some(signal), "{}", outcome.status);
            assert_eq!(outcome.stdout, "");
            assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
        }
    }),
    case("a signal after the recording ends the program", after_the_recording, |run| {
        let outcome = run.run();
        assert_eq!(outcome.status.signal(), Some(libc::SIGTERM), "{}", outcome.stderr);
        assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
    }),
    case("a handler of the program before the start stays", handler_before, ends_by_itself),
    case("a handler of the program after the start stays", handler_after, ends_by_itself),
    case("a handler that calls the one before it stays", handler_that_chains, ends_by_itself),
    case("an ignored signal stays ignored", ignored, ends_by_itself),
    case("a later second signal ends a program whose report hangs", hangs, |run| {
        let mut running = run.spawn();
        running.wait_for(READY);
        let (program, until) = (running.pid(), Instant::now() + Duration::from_secs(50));
        // Those of the first second count as one with the first.
        while !has_ended(program) && Instant::now() < until {
            kill(program, libc::SIGTERM);
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = running.wait();
        assert_eq!(outcome.status.signal(), Some(libc::SIGTERM), "{}", outcome.status);
    }),
    case("a forked child that is not recorded ends at once", forked, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case("a forked child that is recorded gives a report of its own", followed, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let child = outcome.stdout.trim();
        let names = (format!("trace.{child}.utrace"), format!("report.{child}.json"));
        assert_eq!(left(&outcome.whole_as(&names.0, &names.1), IN_CHILD as u64), 1);
    }),
];

const READY: &str = "ready";
const IN_CHILD: usize = 3_000_017;

fn has_ended(program: libc::pid_t) -> bool {
    let stat = fs::read_to_string(format!("/proc/{program}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().starts_with(" Z")
}

/// The program works until a signal ends it, and its report has all up to then.
fn ends_by(run: Run, signal: c_int) {
    let mut running = run.spawn();
    running.wait_for(READY);
    kill(running.pid(), signal);
    let outcome = running.wait();
    assert_eq!(outcome.status.signal(), Some(signal), "{}\n{}", outcome.status, outcome.stderr);
    assert_eq!(outcome.stderr, "");
    let report = outcome.whole();
    assert_eq!(report.trace.from_process_start, Some(true));
    assert_eq!(left(&report, IN_MAIN as u64), 1);
}

fn ends_by_itself(run: Run) {
    let outcome = run.run();
    outcome.exited(7);
    assert_eq!((&outcome.stderr[..], left(&outcome.whole(), IN_MAIN as u64)), ("", 1));
}

fn served() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    work();
}

fn adds_to_environment() {
    let _handle = memledger::Ledger::builder().report_on_signals(true).start().unwrap();
    work();
}

/// Four threads allocate until the process is ended; on a machine where it is not, for two minutes.
fn work() {
    leave(IN_MAIN);
    let until = Instant::now() + Duration::from_secs(120);
    let busy = move || {
        while Instant::now() < until {
            churn(1000);
        }
    };
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(busy)).collect();
    fs::write(READY, "").unwrap();
    busy();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn after_the_recording() {
    let ledger = builder().report_on_signals(true).start().unwrap();
    leave(IN_MAIN);
    let _ = ledger.finish();
    kill(std::process::id() as libc::pid_t, libc::SIGTERM);
    wait_for_the_end();
}

/// Waits for a signal, for at most two minutes.
fn wait_for_the_end() {
    std::thread::sleep(Duration::from_secs(120));
}

static HANDLED: AtomicBool = AtomicBool::new(false);
static EARLIER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_: c_int) {
    HANDLED.store(true, Ordering::Release);
}

/// As a library does that knows nothing of the handler before its own.
extern "C" fn handle_and_chain(signal: c_int) {
    let earlier = EARLIER.load(Ordering::Acquire);
    assert!(earlier != libc::SIG_DFL && earlier != libc::SIG_IGN);
    call(earlier, signal);
    handle(signal);
}

#[expect(unsafe_code, reason = "system calls")]
mod system {
    use libc::c_int;

    /// Sets the handler of a signal; returns the one before.
    pub(super) fn handle_by(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
        // SAFETY: both actions are locals, for which zeros are valid.
        unsafe {
            let mut new = std::mem::zeroed::<libc::sigaction>();
            let mut before = std::mem::zeroed::<libc::sigaction>();
            new.sa_sigaction = handler;
            assert_eq!(libc::sigaction(signal, &raw const new, &raw mut before), 0);
            before.sa_sigaction
        }
    }

    /// Waits for a signal, for at most two minutes.
    pub(super) fn wait_once(never: &impl std::os::fd::AsRawFd) {
        let mut polled = libc::pollfd { fd: never.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut polled, 1, 120_000) };
    }

    pub(super) fn call(handler: usize, signal: c_int) {
        // SAFETY: it is the handler that was installed before, which has this form.
        unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal) };
    }

    /// Makes stderr a pipe that is full and that nobody reads.
    pub(super) fn stuff_stderr() {
        let mut ends = [0; 2];
        // SAFETY: the array has room for both descriptors; the write end takes the place of stderr.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::fcntl(ends[1], libc::F_SETFL, libc::O_NONBLOCK), 0);
            let bytes = [0_u8; 4096];
            while libc::write(ends[1], bytes.as_ptr().cast(), bytes.len()) > 0 {}
            assert_eq!(libc::fcntl(ends[1], libc::F_SETFL, 0), 0);
            assert_eq!(libc::dup2(ends[1], 2), 2);
        }
    }
}
use system::{call, handle_by, stuff_stderr, wait_once};

fn to_number(handler: extern "C" fn(c_int)) -> libc::sighandler_t {
    handler as *const () as libc::sighandler_t
}

/// Sends the process SIGTERM, which it handles, and ends as such a program does.
fn end_by_own_handler() {
    leave(IN_MAIN);
    kill(std::process::id() as libc::pid_t, libc::SIGTERM);
    while !HANDLED.load(Ordering::Acquire) {
        churn(10);
    }
    churn(1000);
    std::process::exit(7);
}

fn handler_before() {
    handle_by(libc::SIGTERM, to_number(handle));
    let _ledger = builder().report_on_signals(true).start().unwrap();
    end_by_own_handler();
}

fn handler_after() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    handle_by(libc::SIGTERM, to_number(handle));
    end_by_own_handler();
}

fn handler_that_chains() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    EARLIER.store(handle_by(libc::SIGTERM, to_number(handle_and_chain)), Ordering::Release);
    end_by_own_handler();
}

fn ignored() {
    handle_by(libc::SIGHUP, libc::SIG_IGN);
    let _ledger = builder().report_on_signals(true).start().unwrap();
    leave(IN_MAIN);
    kill(std::process::id() as libc::pid_t, libc::SIGHUP);
    churn(1000);
    std::process::exit(7);
}

fn hangs() {
    stuff_stderr();
    let report = memledger::ReportTo::stderr();
    let _ledger = memledger::Ledger::builder()
        .report_on_exit(report)
        .report_on_signals(true)
        .start()
        .unwrap();
    fs::write(READY, "").unwrap();
    wait_for_the_end();
}

/// Runs on whenever a signal ends its wait.
fn waits() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    leave(IN_MAIN);
    let (read, _write) = std::io::pipe().unwrap();
    fs::write(READY, "").unwrap();
    wait_once(&read);
    println!("what comes after the wait has run");
}

fn forked() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    let child = fork(wait_for_the_end);
    kill(child, libc::SIGTERM);
    assert_eq!(wait(child), libc::SIGTERM);
    churn(1000);
}

fn followed() {
    let _ledger = builder().follow_forks(true).report_on_signals(true).start().unwrap();
    let child = fork(|| {
        leave(IN_CHILD);
        kill(std::process::id() as libc::pid_t, libc::SIGTERM);
        wait_for_the_end();
    });
    assert_eq!(wait(child), libc::SIGTERM);
    println!("{child}");
}
