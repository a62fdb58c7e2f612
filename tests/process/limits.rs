//! A system that says no: no more memory, no more threads, no more bytes in a file; and one that
//! stops the process.

use crate::allocator::{in_arena, reserve_arena};
use crate::exactness::{Exact, events};
use crate::harness::{Case, REPORT, Run, TRACE, builder, case, churn, kill, leave, left, start};
use crate::losses::memory_events;
use memledger::{DestinationState, ErrorKind, Ledger, OnFull, Worker};
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

pub(crate) const CASES: &[Case] = &[
    case("without memory for buffers events are lost and counted", no_memory, |run| {
        let outcome = run.run();
        outcome.quiet();
        let (report, summary) = outcome.trace(TRACE);
        assert!(report.losses.lost_events > 0, "there was enough");
        assert_eq!((report.losses.serial_holes, summary.counts.damages), (0, 0));
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        assert_eq!(memory_events(&outcome) + report.losses.lost_events, emitted);
    }),
    case("without a thread for the worker the program collects itself", no_threads, |run| {
        let outcome = open_to_all(run).run();
        outcome.exited(0).whole();
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("the worker thread could not be started"), "{lines:?}");
        assert!(lines[0].contains("can call Ledger::collect()"), "{lines:?}");
        assert!(lines[1].contains("the control server's thread could not be"), "{lines:?}");
    }),
    case("without a thread for its end a recording ends whole", no_thread_at_end, |run| {
        let outcome = open_to_all(run).run();
        assert_eq!(left(&outcome.quiet().whole(), 1_000_003), 1);
    }),
    case("a late trace that may not grow ends at a packet and the first goes on", full, |run| {
        let outcome = run.run();
        outcome.exited(0);
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("late.memledger"), "{lines:?}");
        let (late, summary) = outcome.trace("late.memledger");
        assert!(!late.trace.complete);
        assert_eq!((summary.truncated_bytes, summary.skipped_bytes), (0, 0));
        assert_eq!(summary.counts.damages, 0);
        assert!(summary.input_bytes <= LIMIT && summary.input_bytes > LIMIT / 2);
        assert_eq!(left(&late, 1_000_003), 1);
        assert!(outcome.report(REPORT).contains("\"complete\": true"));
    }),
    case("a process that is stopped for a while loses nothing", stopped, |run| {
        let mut running = run.spawn();
        running.wait_for("ready");
        for _ in 0..3 {
            running.stop();
            // Longer than a thread waits for a worker that makes no progress.
            std::thread::sleep(std::time::Duration::from_millis(1200));
            fs::remove_file(running.path("ready")).unwrap();
            kill(running.pid(), libc::SIGCONT);
            // More time is given once, until there is progress.
            running.wait_for("ready");
        }
        fs::write(running.path("enough"), "").unwrap();
        let outcome = running.wait();
        let report = outcome.quiet().whole();
        assert_eq!(left(&report, 1_000_003), 1);
    }),
    case("with stacks as small as the system allows nothing is missing", small_stacks, |run| {
        let outcome = with_stack(run, 64 << 10).tracked().env("MEMLEDGER_CONTROL", "0").run();
        let report = outcome.quiet().whole();
        assert_eq!(left(&report, 1_000_003), SMALL_THREADS);
        let (late, _) = outcome.trace("late.memledger");
        assert!(late.trace.complete && left(&late, 1_000_003) >= 1);
    }),
];

const SMALL_THREADS: usize = 4;

const LIMIT: u64 = 300_000;

/// Every user may write to the child's folder, because the child changes its user.
fn open_to_all(run: Run) -> Run {
    fs::set_permissions(run.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    run
}

#[expect(unsafe_code, reason = "system calls")]
mod system {
    #[cfg(target_os = "linux")]
    type Resource = libc::__rlimit_resource_t;
    #[cfg(target_os = "macos")]
    type Resource = libc::c_int;

    /// Sets one of the limits of this process, which may be raised again.
    pub(super) fn limit(what: Resource, to: u64) {
        // SAFETY: the limit is a local.
        unsafe {
            let mut limit = std::mem::zeroed::<libc::rlimit>();
            assert_eq!(libc::getrlimit(what, &raw mut limit), 0);
            limit.rlim_cur = to.min(limit.rlim_max);
            assert_eq!(libc::setrlimit(what, &raw const limit), 0);
        }
    }

    /// Limits the stack of the child's main thread, and of its other threads unless they ask for
    /// another size.
    pub(super) fn with_stack(mut run: super::Run, bytes: u64) -> super::Run {
        use std::os::unix::process::CommandExt;
        let set = move || {
            limit(libc::RLIMIT_STACK, bytes);
            Ok(())
        };
        // SAFETY: the closure makes two system calls, and allocates nothing.
        unsafe { run.command.pre_exec(set) };
        run
    }

    /// Limits do not apply to root, so the process becomes the user `nobody`.
    pub(super) fn be_nobody() {
        // SAFETY: plain calls. The id of the user `nobody` is 65534 on the systems of the tests.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::setuid(65534), 0);
            }
        }
    }
}
use system::{be_nobody, limit, with_stack};

/// Makes the system refuse memory after `more` more bytes of addresses.
pub(crate) fn limit_addresses(more: u64) {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let mapped = pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    limit(libc::RLIMIT_AS, mapped + more);
}

/// The program's own blocks come from an arena that is there already; the tracker's do not.
fn no_memory() {
    reserve_arena();
    // NOTE: this is the only thread, so that the program's blocks alone meet the limit.
    let ledger = Ledger::builder().worker(Worker::Manual).buffer_limit(64 << 20);
    let exact = Exact::start(ledger.on_full(OnFull::Wait));
    limit_addresses(3 << 20);
    in_arena(|| (0..400_000_u64).for_each(|number| drop(black_box(Box::new(number)))));
    limit(libc::RLIMIT_AS, u64::MAX);
    println!("{}", events(exact.finish()));
}

fn no_threads() {
    be_nobody();
    limit(libc::RLIMIT_NPROC, 0);
    let ledger = builder().control("0").start().unwrap();
    assert_eq!(ledger.control_address(), None);
    leave(1_000_003);
    for _ in 0..20 {
        churn(1000);
        ledger.collect();
    }
    for late in [ledger.trace_to_file("late.utrace"), ledger.trace_to_host("127.0.0.1:9")] {
        let error = late.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ThreadNotStarted, "{error}");
        assert!(error.to_string().contains("thread could not be started"), "{error}");
    }
    assert!(ledger.snapshot().unwrap().figures().live_bytes > 1_000_003);
}

fn no_thread_at_end() {
    be_nobody();
    let _ledger = start();
    leave(1_000_003);
    limit(libc::RLIMIT_NPROC, 0);
}

fn full() {
    let ledger = builder().trace_to_file("/dev/null").start().unwrap();
    let late = ledger.trace_to_file("late.memledger").unwrap();
    leave(1_000_003);
    ledger.flush();
    while late.status().waiting_bytes > 0 || late.status().state == DestinationState::Opening {
        std::thread::yield_now();
    }
    // SAFETY: the default action, which is to end the process.
    #[expect(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL)
    };
    limit(libc::RLIMIT_FSIZE, LIMIT);
    while late.status().state != DestinationState::Failed {
        churn(10_000);
    }
    assert_eq!(ledger.stats().lost_destinations, 1);
    limit(libc::RLIMIT_FSIZE, u64::MAX);
}

/// Threads that wait for the worker most of the time.
fn stopped() {
    let ledger = builder().buffer_limit(1).start().unwrap();
    leave(1_000_003);
    let busy = || {
        while !fs::exists("enough").unwrap() {
            churn(20_000);
        }
    };
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(busy)).collect();
    while !fs::exists("enough").unwrap() {
        churn(20_000);
        fs::write("ready", "").unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(ledger);
}

/// The environment starts file, report and control server before `main`; the program's threads have
/// the smallest possible stack, and use every part of the API that a thread can.
fn small_stacks() {
    let ledger = Ledger::from_env();
    let address = ledger.control_address().unwrap();
    let small = || {
        memledger::alloc_scope!("small");
        churn(10_000);
        leave(1_000_003);
        memledger::bookmark!("small");
        assert!(ledger.snapshot().unwrap().figures().live_bytes > 1_000_003);
        ledger.flush();
    };
    std::thread::scope(|scope| {
        for _ in 0..SMALL_THREADS {
            // The system uses its minimum instead.
            std::thread::Builder::new().stack_size(0).spawn_scoped(scope, small).unwrap();
        }
    });
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client.write_all(b"Status\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("pid "), "{answer}");
    let _ = ledger.trace_to_file("late.memledger").unwrap();
}
