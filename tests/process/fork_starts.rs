//! With which live blocks a forked child begins while its parent's other threads allocate.
#![expect(unsafe_code, reason = "handlers of forks")]

use crate::fork::{fork, wait};
use crate::harness::{Case, builder, case, churn, leave, left};
use memledger_export::text;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const CASES: &[Case] = &[
    case("children of a parent whose threads allocate begin exactly", exact, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let mut exact = 0;
        for child in outcome.stdout.lines() {
            let (report, _) = outcome.trace(&format!("trace.{child}.utrace"));
            let (losses, missed) = (report.losses, report.trace.missed_at_start);
            assert_eq!(left(&report, 1_000_003), 1);
            // On a machine so busy that a thread was not out of the hook in time, it is counted.
            assert!(losses.duplicate_allocations + losses.unmatched_frees <= missed, "{losses:?}");
            assert_eq!(report.trace.complete, missed == 0);
            exact += usize::from(missed == 0);
        }
        assert!(exact > 0, "{}", outcome.stdout);
    }),
    case(
        "a fork that waits for a thread that allocates says how much it has missed",
        estimated,
        |run| {
            let outcome = run.run();
            outcome.quiet().whole();
            let child = outcome.stdout.trim();
            let report =
                outcome.same(&format!("trace.{child}.utrace"), &format!("report.{child}.json"));
            // NOTE: at most: an event that needs another buffer meanwhile counts twice.
            let missed = report.trace.missed_at_start;
            assert!((MISSED..MISSED + 4).contains(&missed), "{missed}");
            assert!(!report.trace.complete);
            let mut text = Vec::new();
            text::write(&report, &Default::default(), &mut text).unwrap();
            // NOTE: the first line is cut into lines of a terminal.
            let text = String::from_utf8(text).unwrap();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&format!("START ESTIMATED TO {missed} BLOCKS")), "{text}");
        },
    ),
];

const CHILDREN: usize = 10;
const MISSED: u64 = 14;

/// Ten children, each of which starts threads that get the blocks that the parent's have freed.
fn exact() {
    let ledger = builder().follow_forks(true).start().unwrap();
    leave(1_000_003);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    churn(1000);
                }
            });
        }
        for _ in 0..CHILDREN {
            let child = fork(|| {
                let threads = [(); 3].map(|()| std::thread::spawn(|| churn(5_000)));
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                std::process::exit(0);
            });
            println!("{child}");
            assert_eq!(wait(child), 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(ledger);
}

static IS_ESTIMATED: AtomicBool = AtomicBool::new(false);
static IS_READY: AtomicBool = AtomicBool::new(false);
static IS_FORKING: AtomicBool = AtomicBool::new(false);
static HAS_ALLOCATED: AtomicBool = AtomicBool::new(false);

/// Registers a handler before the tracker registers its own, so that it runs after that.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array.00100"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static REGISTER: extern "C" fn() = {
    extern "C" fn register() {
        // SAFETY: the handler allocates nothing.
        unsafe { libc::pthread_atfork(Some(before_the_fork), None, None) };
    }
    register
};

/// As a library does that has a lock which another thread holds. Does nothing in other scenarios.
extern "C" fn before_the_fork() {
    if !IS_ESTIMATED.load(Ordering::Acquire) {
        return;
    }
    IS_FORKING.store(true, Ordering::Release);
    while !HAS_ALLOCATED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

fn estimated() {
    IS_ESTIMATED.store(true, Ordering::Release);
    let ledger = builder().follow_forks(true).start().unwrap();
    let allocates = std::thread::spawn(|| {
        churn(100);
        IS_READY.store(true, Ordering::Release);
        while !IS_FORKING.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        (0..MISSED).for_each(|_| leave(1_000_003));
        HAS_ALLOCATED.store(true, Ordering::Release);
    });
    while !IS_READY.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let child = fork(|| std::process::exit(0));
    println!("{child}");
    assert_eq!(wait(child), 0);
    allocates.join().unwrap();
    drop(ledger);
}
