//! A program that panics: nothing is lost, and it continues as without a tracker.

use crate::files::check_told;
#[cfg(unix)]
use crate::files::{make_pipe, open_to_read};
use crate::harness::{Case, REPORT, builder, case, churn, leave, left};
use corosensei::{Coroutine, CoroutineResult};
use memledger::Ledger;
use std::hint::black_box;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

pub(crate) const CASES: &[Case] = &[
    case("printing a backtrace loses nothing", backtrace, |run| {
        let outcome = run.env("RUST_BACKTRACE", "1").run();
        let report = outcome.exited(0).whole();
        assert!(outcome.stderr.contains("stack backtrace:"), "{}", outcome.stderr);
        assert_eq!(left(&report, 2_000_003), PANICS, "what the program does after its panics");
    }),
    case("a panic hook that fills all buffers loses nothing", hook, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 2_000_003), PANICS);
    }),
    case("a panic that unwinds a coroutine loses nothing", coroutine, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, 2_000_003), PANICS);
    }),
    #[cfg(unix)]
    case("a panic while the worker is stuck in a write waits for a second at most", stuck, |run| {
        make_pipe(&run);
        // It never reads: the worker is stuck for 3 s, then the trace ends.
        let reader = open_to_read(&run);
        let outcome = run.run();
        drop(reader);
        check_told(&outcome, &["nobody has read from it for 3 s"]);
        assert_eq!(outcome.stdout, "went on\n");
        let report = outcome.report(REPORT);
        assert!(!report.contains("\"lost_events\": 0,"), "what did not fit is counted");
    }),
];

const PANICS: usize = 3;

/// Runs `body` while two threads allocate.
fn beside_two(body: impl FnOnce()) {
    let goes_on = AtomicBool::new(true);
    let allocate = || {
        while goes_on.load(Ordering::Relaxed) {
            churn(1000);
        }
    };
    std::thread::scope(|scope: &Scope<'_, '_>| {
        scope.spawn(allocate);
        scope.spawn(allocate);
        body();
        goes_on.store(false, Ordering::Relaxed);
    });
}

/// A recording whose buffers are soon full.
fn start() -> Ledger {
    builder().buffer_limit(128 << 10).start().unwrap()
}

fn panic_and_go_on() {
    for _ in 0..PANICS {
        catch_unwind(|| panic!("this scenario panics")).unwrap_err();
        leave(2_000_003);
    }
}

fn backtrace() {
    // With the buffers of a usual recording: a backtrace has far more events than they hold.
    let _ledger = builder().start().unwrap();
    beside_two(panic_and_go_on);
}

fn hook() {
    let _ledger = start();
    set_hook(Box::new(|_| churn(50_000)));
    beside_two(panic_and_go_on);
    let _ = take_hook();
}

/// Allocates in a destructor that runs while a panic unwinds.
struct Floods;

impl Drop for Floods {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        churn(50_000);
    }
}

/// As `loom` does it: several stacks on one thread, of which one panics while others wait.
fn coroutine() {
    let _ledger = start();
    set_hook(Box::new(|_| {}));
    beside_two(|| {
        for _ in 0..PANICS {
            let mut waits = Coroutine::new(|yielder, ()| {
                churn(100);
                yielder.suspend(());
                churn(100);
            });
            assert!(matches!(waits.resume(()), CoroutineResult::Yield(())));
            let mut panics: Coroutine<(), (), ()> = Coroutine::new(|_, ()| {
                let _floods = Floods;
                panic!("unwinds");
            });
            let result = catch_unwind(std::panic::AssertUnwindSafe(|| panics.resume(())));
            assert!(result.is_err());
            assert!(matches!(waits.resume(()), CoroutineResult::Return(())));
            leave(2_000_003);
        }
    });
    let _ = take_hook();
}

#[cfg(unix)]
fn stuck() {
    let ledger = builder().buffer_limit(128 << 10).start().unwrap();
    set_hook(Box::new(|_| churn(50_000)));
    // More than a pipe and the buffers hold.
    for _ in 0..2 {
        catch_unwind(|| {
            let _floods = Floods;
            panic!("this scenario panics");
        })
        .unwrap_err();
    }
    println!("{}", black_box("went on"));
    let _ = ledger.finish();
}
