//! How a recording ends: once, whole, and without changing how the program does.

#[cfg(unix)]
use crate::harness::kill;
use crate::harness::{Case, REPORT, TRACE, case, churn, end_at_once, leave, left, start};
use crate::start::{AFTER_LEDGER, IN_MAIN};
use memledger::{Ledger, Worker};
use memledger_analysis::read::{Event, Hole, Value, Visitor};
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::{Arc, Barrier};

pub(crate) const CASES: &[Case] = &[
    case(
        "return from main reports",
        || drop(start()),
        |run| {
            run.run().quiet().whole();
        },
    ),
    case("a forgotten ledger reports at exit", forgotten, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, IN_MAIN as u64), 1);
    }),
    case("exit from main reports and keeps the code", exit_from_main, |run| {
        let outcome = run.run();
        let report = outcome.exited(3).whole();
        assert_eq!(outcome.stderr, "");
        assert_eq!(left(&report, IN_MAIN as u64), 1);
    }),
    case("exit from a thread while eight others allocate reports once", exit_from_thread, |run| {
        let outcome = run.run();
        outcome.exited(3).whole();
        assert_eq!(outcome.stderr, "");
    }),
    case("exit from a thread of a program without code", exit_from_thread_plain, |run| {
        let outcome = run.tracked().run();
        outcome.exited(3).whole();
        assert_eq!(outcome.stderr, "");
    }),
    case("two threads that exit at once report once", two_exits, |run| {
        let outcome = run.tracked().run();
        outcome.exited(3).whole();
        assert_eq!(outcome.stderr, "");
    }),
    case("a finish and an exit at once report once", finish_and_exit, |run| {
        let outcome = run.run();
        outcome.exited(3).whole();
        assert_eq!(outcome.stderr, "");
    }),
    case("a panic in main reports and keeps code 101", panic_in_main, |run| {
        let outcome = run.run();
        let report = outcome.exited(101).whole();
        assert!(outcome.stderr.contains("this scenario panics"));
        assert_eq!(left(&report, IN_MAIN as u64), 1);
    }),
    case("a panic in a thread ends nothing", panic_in_thread, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(left(&report, IN_MAIN as u64), 1);
    }),
    case(
        "a panic with the environment's ledger reports",
        || panic!("this scenario panics"),
        |run| {
            run.tracked().run().exited(101).whole();
        },
    ),
    case(
        "abort leaves the trace readable",
        || cut_short(|| std::process::abort()),
        |run| {
            let outcome = run.run();
            #[cfg(unix)]
            assert_eq!(signal(&outcome), Some(libc::SIGABRT));
            assert!(!outcome.status.success());
            check_cut_short(&outcome);
        },
    ),
    case(
        "_exit leaves the trace readable",
        || cut_short(|| end_at_once(5)),
        |run| {
            let outcome = run.run();
            check_cut_short(outcome.exited(5));
        },
    ),
    #[cfg(unix)]
    case(
        "SIGKILL leaves the trace readable",
        || cut_short(|| kill_me(libc::SIGKILL)),
        |run| {
            let outcome = run.run();
            assert_eq!(signal(&outcome), Some(libc::SIGKILL));
            check_cut_short(&outcome);
        },
    ),
    #[cfg(unix)]
    case(
        "SIGTERM keeps its default action",
        || cut_short(|| kill_me(libc::SIGTERM)),
        |run| {
            let outcome = run.run();
            assert_eq!(signal(&outcome), Some(libc::SIGTERM));
            check_cut_short(&outcome);
        },
    ),
    #[cfg(unix)]
    case(
        "SIGINT keeps its default action",
        || cut_short(|| kill_me(libc::SIGINT)),
        |run| {
            let outcome = run.run();
            assert_eq!(signal(&outcome), Some(libc::SIGINT));
            check_cut_short(&outcome);
        },
    ),
    case(
        "SIGSEGV keeps its default action",
        || cut_short(crash),
        |run| {
            let outcome = run.run();
            #[cfg(unix)]
            assert_eq!(signal(&outcome), Some(libc::SIGSEGV));
            #[cfg(windows)]
            assert!(!outcome.status.success(), "Wine has a code of its own for it");
            check_cut_short(&outcome);
        },
    ),
    #[cfg(unix)]
    case("killed at any moment the trace is readable", killed_any_time, |run| {
        let mut outcome = run.env("TEST_EVENTS", "1").run();
        for round in 1..30 {
            let events = 7 * round * round * round;
            assert_eq!(signal(&outcome), Some(libc::SIGKILL));
            let (report, summary) = outcome.trace(TRACE);
            assert!(!report.trace.complete);
            assert_eq!(report.losses.unmatched_frees, 0);
            assert_eq!(report.losses.duplicate_allocations, 0);
            check_end(&summary);
            check_holes(&outcome);
            outcome = outcome.again().env("TEST_EVENTS", events.to_string()).run();
        }
    }),
    case("allocations in thread-local destructors are recorded", tls, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 2_000_003), 20, "one for each thread");
    }),
    #[cfg(unix)]
    case("allocations in pthread keys' destructors are recorded", pthread_keys, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 2_000_003), 20 * 3, "one for each thread and round");
        // All that a thread allocated counts as one thread's.
        let ids: std::collections::HashSet<_> = report
            .largest_live
            .iter()
            .filter(|b| b.bytes == 2_000_003)
            .map(|b| b.thread_id)
            .collect();
        assert_eq!(ids.len(), 20);
    }),
    case("allocations at exit are recorded or come after the report", at_exit, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        assert_eq!(left(&report, 2_000_003), 1, "registered after the ledger: runs before it");
        assert_eq!(left(&report, 2_000_039), 0, "registered before the ledger: runs after it");
    }),
    case("threads that outlive main do no harm", outlive, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, IN_MAIN as u64), 1);
    }),
    case("allocations while unwinding are recorded", unwinding, |run| {
        let report = run.run().exited(0).whole();
        assert_eq!(left(&report, 2_000_003), 50);
    }),
    case("a program that holds its stderr locked gets its report", stderr_locked, |run| {
        let outcome = run.run();
        outcome.exited(0);
        assert!(!outcome.stderr.is_empty());
        assert!(outcome.trace(TRACE).0.trace.complete);
    }),
    case("a ledger in a thread-local is dropped with its thread", ledger_in_tls, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, IN_MAIN as u64), 1);
        assert_eq!(left(&report, AFTER_LEDGER as u64), 0);
    }),
    case("a ledger in a static ends at exit", ledger_in_static, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, IN_MAIN as u64), 1);
    }),
    case(
        "a program without an allocation after its start has a whole trace",
        || {
            let ledger = start();
            let _ = ledger.finish();
        },
        |run| {
            run.run().quiet().whole();
        },
    ),
];

#[cfg(unix)]
fn signal(outcome: &crate::harness::Outcome) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&outcome.status)
}

fn forgotten() {
    std::mem::forget(start());
    leave(IN_MAIN);
    churn(1000);
}

fn exit_from_main() {
    let _ledger = start();
    leave(IN_MAIN);
    churn(1000);
    std::process::exit(3);
}

fn exit_from_thread() {
    let _ledger = start();
    exit_from_thread_plain();
}

fn exit_from_thread_plain() {
    let ready = Arc::new(Barrier::new(9));
    for _ in 0..8 {
        let ready = ready.clone();
        std::thread::spawn(move || {
            churn(100);
            ready.wait();
            loop {
                churn(1000);
            }
        });
    }
    std::thread::spawn(move || {
        ready.wait();
        churn(1000);
        std::process::exit(3);
    });
    loop {
        std::thread::park();
    }
}

fn two_exits() {
    let ready = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let ready = ready.clone();
        std::thread::spawn(move || {
            churn(1000);
            ready.wait();
            std::process::exit(3);
        });
    }
    loop {
        std::thread::park();
    }
}

fn finish_and_exit() {
    let ledger = start();
    let ready = Arc::new(Barrier::new(2));
    let other = ready.clone();
    std::thread::spawn(move || {
        churn(1000);
        other.wait();
        let _ = ledger.finish();
        loop {
            churn(1000);
        }
    });
    churn(1000);
    ready.wait();
    std::process::exit(3);
}

fn panic_in_main() {
    let _ledger = start();
    leave(IN_MAIN);
    churn(1000);
    panic!("this scenario panics");
}

fn panic_in_thread() {
    let _ledger = start();
    let panicked = std::thread::spawn(|| {
        let _kept = black_box(vec![1_u8; 100]);
        panic!("this thread panics");
    });
    panicked.join().unwrap_err();
    leave(IN_MAIN);
    churn(1000);
}

/// Everything before the flush is in the trace; then the process ends without warning.
fn cut_short(end: fn()) {
    let ledger = start();
    for _ in 0..7 {
        leave(IN_MAIN);
    }
    memledger::alloc_scope!("load", { churn(100_000) });
    ledger.flush();
    churn(1000);
    end();
    unreachable!("the process has ended");
}

fn check_cut_short(outcome: &crate::harness::Outcome) {
    let (report, summary) = outcome.trace(TRACE);
    assert!(!report.trace.complete);
    assert_eq!(report.trace.from_process_start, Some(true));
    assert_eq!(left(&report, IN_MAIN as u64), 7);
    assert!(report.totals.allocations >= 100_007, "{}", report.totals.allocations);
    assert_eq!(report.losses.unmatched_frees, 0);
    assert_eq!(report.losses.duplicate_allocations, 0);
    check_end(&summary);
    check_holes(outcome);
    assert!(!outcome.path(REPORT).exists(), "the report was not made");
}

/// A process that ends while its worker is in a write leaves part of a packet at the end, and no
/// other damage.
fn check_end(summary: &memledger_analysis::read::Summary) {
    assert_eq!(summary.counts.damages, u64::from(summary.truncated_bytes > 0));
    assert_eq!(summary.skipped_bytes, 0);
}

/// Events are missing only where the writer has not said yet that all have come.
fn check_holes(outcome: &crate::harness::Outcome) {
    #[derive(Default)]
    struct Holes(Vec<u64>, u64);
    impl Visitor for Holes {
        fn event(&mut self, event: &Event<'_>) {
            if event.event_type.name() == "Memledger.Settled"
                && let Some(Value::Unsigned(serial)) = event.value(0)
            {
                self.1 = self.1.max(serial);
            }
        }

        fn hole(&mut self, hole: Hole) {
            self.0.push(hole.first);
        }
    }
    let mut holes = Holes::default();
    memledger_analysis::read::read(std::fs::File::open(outcome.path(TRACE)).unwrap(), &mut holes)
        .unwrap();
    assert!(holes.1 > 0 || outcome.status.code().is_none());
    assert!(holes.0.iter().all(|&first| first >= holes.1), "{:?} {}", holes.0, holes.1);
}

#[expect(unsafe_code, reason = "ends the process")]
pub(crate) fn crash() {
    // SAFETY: none; the process ends here.
    unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(0) };
}

#[cfg(unix)]
fn kill_me(number: i32) {
    // Who runs the tests may ignore a signal, as shells do for what runs in the background.
    if number != libc::SIGKILL {
        // SAFETY: sets the default action.
        #[expect(unsafe_code)]
        unsafe {
            libc::signal(number, libc::SIG_DFL)
        };
    }
    kill(std::process::id() as libc::pid_t, number);
    loop {
        std::thread::park();
    }
}

/// Ends after a number of events, while another thread allocates, wherever the worker is.
#[cfg(unix)]
fn killed_any_time() {
    let events = std::env::var("TEST_EVENTS").unwrap().parse().unwrap();
    let _ledger = start();
    std::thread::spawn(|| {
        loop {
            churn(1000);
        }
    });
    churn(events);
    kill_me(libc::SIGKILL);
}

struct AllocatesWhenDropped(Vec<u8>);

impl Drop for AllocatesWhenDropped {
    fn drop(&mut self) {
        churn(10);
        leave(2_000_003);
        self.0.clear();
    }
}

fn tls() {
    thread_local! {
        static FIRST: RefCell<Option<AllocatesWhenDropped>> = const { RefCell::new(None) };
        static SECOND: AllocatesWhenDropped = AllocatesWhenDropped(vec![2; 20]);
    }
    let _ledger = start();
    for number in 0..20 {
        std::thread::spawn(move || {
            if number % 2 == 0 {
                FIRST.with_borrow_mut(|first| *first = Some(AllocatesWhenDropped(vec![1; 10])));
            } else {
                SECOND.with(|second| black_box(second.0.len()));
            }
        })
        .join()
        .unwrap();
    }
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "system calls")]
fn pthread_keys() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static KEY: AtomicU64 = AtomicU64::new(0);
    /// Sets its key again twice, as badly behaved libraries do.
    extern "C" fn destroy(round: *mut libc::c_void) {
        leave(2_000_003);
        churn(10);
        if round.addr() < 3 {
            // SAFETY: the key exists; the value is a number.
            unsafe {
                libc::pthread_setspecific(
                    KEY.load(Ordering::Relaxed) as libc::pthread_key_t,
                    std::ptr::without_provenance(round.addr() + 1),
                )
            };
        }
    }
    let _ledger = start();
    let mut key = 0;
    // SAFETY: the destructor has the required form.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(destroy)) }, 0);
    KEY.store(key.into(), Ordering::Relaxed);
    for _ in 0..20 {
        std::thread::spawn(move || {
            churn(10);
            // SAFETY: the key exists; the value is a number.
            unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
        })
        .join()
        .unwrap();
    }
}

#[expect(unsafe_code, reason = "system calls")]
fn at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
    }
    extern "C" fn late() {
        leave(2_000_039);
        churn(1000);
    }
    extern "C" fn early() {
        leave(2_000_003);
        churn(1000);
    }
    // SAFETY: the functions live as long as the program.
    unsafe { atexit(late) };
    std::mem::forget(start());
    // SAFETY: as above.
    unsafe { atexit(early) };
    churn(1000);
}

fn outlive() {
    let ledger = start();
    let ready = Arc::new(Barrier::new(9));
    for _ in 0..8 {
        let ready = ready.clone();
        std::thread::spawn(move || {
            churn(100);
            ready.wait();
            loop {
                churn(1000);
            }
        });
    }
    ready.wait();
    leave(IN_MAIN);
    std::mem::forget(ledger);
}

fn unwinding() {
    struct Churns;
    impl Drop for Churns {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            churn(1000);
            leave(2_000_003);
        }
    }
    let _ledger = start();
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..50 {
        let _ = std::panic::catch_unwind(|| {
            let _churns = Churns;
            panic!("unwinds");
        });
    }
    let _ = std::panic::take_hook();
}

fn stderr_locked() {
    let ready = Arc::new(Barrier::new(2));
    let _ledger = Ledger::builder()
        .trace_to_file(TRACE)
        .report_on_exit(memledger::ReportTo::stderr())
        .worker(Worker::Thread)
        .start()
        .unwrap();
    let other = ready.clone();
    std::thread::spawn(move || {
        let _lock = std::io::stderr().lock();
        other.wait();
        loop {
            std::thread::park();
        }
    });
    ready.wait();
    churn(1000);
}

fn ledger_in_tls() {
    thread_local! {
        static LEDGER: RefCell<Option<Ledger>> = const { RefCell::new(None) };
    }
    std::thread::spawn(|| {
        LEDGER.set(Some(start()));
        leave(IN_MAIN);
        churn(1000);
    })
    .join()
    .unwrap();
    leave(AFTER_LEDGER);
}

fn ledger_in_static() {
    static LEDGER: std::sync::OnceLock<Ledger> = std::sync::OnceLock::new();
    assert!(LEDGER.set(start()).is_ok());
    leave(IN_MAIN);
    churn(1000);
}
