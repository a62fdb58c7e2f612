//! `longjmp` of C over frames that hold guards of scopes.

use crate::allocator::{in_arena, reserve_arena};
use crate::exactness::{self, Exact};
use crate::harness::{Case, REPORT, TRACE, case, leave, scope, start};
use crate::losses::memory_events;
#[cfg(unix)]
use crate::signals::set_timer;
use memledger::{Ledger, ScopeGuard, alloc_scope, group};
use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

group! {
    PARSER = "Parser";
}

pub(crate) const CASES: &[Case] = &[
    case("a scope around one that longjmp skips is left as usual", in_a_scope, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(report.losses.scope_misuses, REQUESTS);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("tests/process/jumps.rs"), "{}", outcome.stderr);
        let live = |path: &[&str]| scope(&report, path).unwrap().figures.live_blocks;
        assert_eq!(live(&["GlobalScope", "request", "job"]), 2 * REQUESTS);
        assert_eq!(live(&["GlobalScope", "next"]), REQUESTS);
        assert_eq!(live(&["GlobalScope", "last"]), 1);
        // The scope that was skipped had a group, which ends with it.
        let of_parser = report.by_name.iter().filter(|row| row.group == ["Parser"]);
        assert_eq!(of_parser.map(|row| row.figures.live_blocks).sum::<u64>(), 2 * REQUESTS);
    }),
    case("scopes that longjmp skips in a loop are put right and counted", in_a_loop, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("tests/process/jumps.rs"), "{}", outcome.stderr);
        assert_eq!(report.losses.scope_misuses, REPAIRS * FOUND_AFTER);
        let depth = report.by_scope.iter().map(|row| row.path.len()).max();
        assert!(depth <= Some(256), "{depth:?}");
        // Only the last round's scope is still open.
        let after = scope(&report, &["GlobalScope", "job", "after"]).unwrap();
        assert_eq!(after.figures.live_blocks, 1);
    }),
    #[cfg(unix)]
    case("a jump out of a handler that interrupted the hook is counted", out_of_handlers, |run| {
        let outcome = run.deadline(60).run();
        let report = outcome.exited(0).same(TRACE, REPORT);
        let emitted = outcome.stdout.trim().parse::<u64>().unwrap();
        let found = memory_events(&outcome) + report.losses.lost_events;
        // A jump can come between a request and its event.
        assert!(emitted.abs_diff(found) <= u64::from(JUMPS), "{found} of {emitted}");
    }),
];

const SIZE: usize = 1_000_003;
const REQUESTS: u64 = 1000;
/// 255 scopes have nodes; after 256 more, the next one detects the misuse.
const FOUND_AFTER: u64 = 511;
const REPAIRS: u64 = 3;

#[expect(unsafe_code, reason = "functions in C")]
mod c {
    unsafe extern "C" {
        fn call_protected(body: extern "C" fn()) -> i32;
        fn jump_back() -> !;
    }

    /// Calls `body`; returns whether it has [jumped](jump) back.
    pub(super) fn protected(body: extern "C" fn()) -> bool {
        // SAFETY: calls are not nested, and only one thread makes them.
        unsafe { call_protected(body) != 0 }
    }

    /// # Safety
    /// A call of [`protected`] is under way. No frame inside it has anything to drop.
    pub(super) unsafe fn jump() -> ! {
        // SAFETY: the caller's promise is passed on.
        unsafe { jump_back() }
    }
}

/// Enters a scope with a group, and fails in it.
#[expect(unsafe_code, reason = "longjmp")]
extern "C" fn job() {
    // NOTE: a jump over a value that has yet to be dropped is undefined behaviour of Rust. With
    // this the frame has none; to the tracker, the guard is skipped all the same.
    let _guard = ManuallyDrop::new(ScopeGuard::enter_group(&PARSER, "job"));
    leave(SIZE);
    // SAFETY: called by `protected`, and nothing is dropped at the end of this function.
    unsafe { c::jump() }
}

fn in_a_scope() {
    let _ledger = start();
    for _ in 0..REQUESTS {
        alloc_scope!("request", {
            assert!(c::protected(job));
            leave(SIZE);
        });
        alloc_scope!("next", { leave(SIZE) });
    }
    alloc_scope!("last", { leave(SIZE) });
}

/// Enough jumps that at least one leaves the hook, if any can.
#[cfg(unix)]
const JUMPS: u32 = 300;

/// Whether the next signal jumps.
#[cfg(unix)]
static MAY_JUMP: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
#[expect(unsafe_code, reason = "longjmp")]
extern "C" fn jump_from_handler(_: libc::c_int) {
    if MAY_JUMP.swap(false, SeqCst) {
        // SAFETY: the flag is set within `protected` only, in a frame that has nothing to drop.
        unsafe { c::jump() }
    }
}

/// Allocates and frees until it is jumped out of. The allocator below has no lock that a jump would leave
/// taken.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a frame without anything to drop")]
extern "C" fn allocates_until_it_jumps() {
    let layout = Layout::new::<[u64; 4]>();
    MAY_JUMP.store(true, SeqCst);
    loop {
        // SAFETY: the layout has a size, and the block is freed once.
        unsafe { dealloc(black_box(alloc(layout)), layout) };
    }
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "system calls")]
fn out_of_handlers() {
    reserve_arena();
    let exact = Exact::start(Ledger::builder());
    set_timer(300, jump_from_handler);
    // SAFETY: the handler has the required form. Without this flag, the signal stays blocked after a jump.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = jump_from_handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_NODEFER;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
    }
    in_arena(|| {
        for _ in 0..JUMPS {
            assert!(c::protected(allocates_until_it_jumps));
        }
    });
    set_timer(0, jump_from_handler);
    println!("{}", exactness::events(exact.finish()));
}

fn in_a_loop() {
    let _ledger = start();
    for _ in 0..=REPAIRS * FOUND_AFTER {
        assert!(c::protected(job));
    }
    alloc_scope!("after", { leave(SIZE) });
}
