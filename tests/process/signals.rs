//! Signal handlers that allocate, as they should not, but do.

use crate::allocator::{in_arena, reserve_arena};
use crate::exactness::{self, Exact};
use crate::harness::{Case, REPORT, TRACE, case, churn};
use crate::losses::memory_events;
use memledger::Ledger;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const CASES: &[Case] = &[
    case("a handler that allocates at any moment never hangs and is counted", plain, |run| {
        let outcome = run.deadline(60).run();
        outcome.quiet();
        let report = outcome.same(TRACE, REPORT);
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        assert_eq!(memory_events(&outcome) + report.losses.lost_events, emitted);
        assert_eq!(report.losses.serial_holes, 0);
    }),
    case("a handler that enters scopes leaves the thread's own alone", scoped, |run| {
        let outcome = run.deadline(60).run();
        outcome.quiet();
        let report = outcome.same(TRACE, REPORT);
        assert_eq!(report.losses.scope_misuses, 0);
        let expected: [&[&str]; 6] = [
            &["GlobalScope"],
            &["GlobalScope", "handler"],
            &["GlobalScope", "outer"],
            &["GlobalScope", "outer", "handler"],
            &["GlobalScope", "outer", "inner"],
            &["GlobalScope", "outer", "inner", "handler"],
        ];
        for row in &report.by_scope {
            assert!(expected.iter().any(|path| row.path == *path), "{:?}", row.path);
        }
    }),
];

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: libc::c_int) {
    in_arena(|| {
        let block = black_box(vec![1_u8; 50]);
        let mut grown = black_box(Vec::<u8>::with_capacity(10));
        grown.reserve_exact(black_box(100));
        drop((block, grown));
    });
    HANDLED.fetch_add(1, Relaxed);
}

extern "C" fn scoped_handler(signal: libc::c_int) {
    memledger::alloc_scope!("handler");
    handler(signal);
}

#[expect(unsafe_code, reason = "system calls")]
pub(crate) fn set_timer(microseconds: i64, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler has the required form; all arguments are locals.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        let every = libc::timeval { tv_sec: 0, tv_usec: microseconds as _ };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
}

fn run(handler: extern "C" fn(libc::c_int), work: fn()) {
    reserve_arena();
    let exact = Exact::start(Ledger::builder());
    set_timer(200, handler);
    let until_enough = move || {
        while HANDLED.load(Relaxed) < 3000 {
            work();
        }
    };
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(until_enough)).collect();
    until_enough();
    // NOTE: joined, and not the end of a `thread::scope`: that waits for what the threads return
    // only, and what std frees for itself as they end would be recorded but not counted.
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    set_timer(0, handler);
    let sum = exact.finish();
    println!("{}", exactness::events(sum));
}

fn plain() {
    run(handler, || churn(100));
}

fn scoped() {
    run(scoped_handler, || {
        churn(10);
        memledger::alloc_scope!("outer", {
            churn(10);
            memledger::alloc_scope!("inner", { churn(10) });
            churn(10);
        });
    });
}
