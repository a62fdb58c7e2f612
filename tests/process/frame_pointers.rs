//! Call stacks through code without unwind information: C, and code that is made at run time.
#![expect(unsafe_code, reason = "code without unwind information")]

use crate::harness::{Case, TRACE, builder, case, leave};
use crate::system::{map_code, unmap_code};
use memledger::Stacks;
use memledger_analysis::{Report, StackEnd, StackRow};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) const CASES: &[Case] = &[
    case("a stack goes on by frame pointers and says from where", through_code, |run| {
        let outcome = run.run();
        outcome.quiet();
        let (report, _) = outcome.trace(TRACE);
        let [direct, c, without, first, second, elsewhere, kept] =
            [DIRECT, C, WITHOUT, FIRST, SECOND, ELSEWHERE, KEPT].map(|of| row(&report, of));
        assert_eq!((direct.end, guesses(&report, &direct)), (StackEnd::Complete, 0));
        for stack in [&c, &first, &second, &elsewhere] {
            assert_eq!(stack.end, StackEnd::Complete, "{stack:?}");
            // Those of `through_code` and further out, which the direct call has, too.
            let outer = guesses(&report, stack);
            assert!(outer > 3 && outer < stack.frames.len(), "{stack:?}");
            let is_equal = |(a, b): (&u32, &u32)| places(&report, *a) == places(&report, *b);
            let same = stack.frames.iter().rev().zip(direct.frames.iter().rev());
            // But for `run`, and the call within `through_code`.
            assert!(same.take_while(|pair| is_equal(*pair)).count() >= outer - 2, "{stack:?}");
        }
        // The same frames up to the function, and none further out that is proved.
        let proved = |stack: &StackRow| stack.frames.len() - guesses(&report, stack);
        assert_eq!(proved(&without), proved(&c));
        assert_eq!(proved(&kept), proved(&first));
        assert_eq!(places(&report, kept.frames[proved(&kept) - 1]).2, SAME_OFFSET as u64 - 1);
        assert!(report.losses.stacks_guessed >= 4);
    }),
    case("code that vanishes while stacks go through it does no harm", vanishing, |run| {
        let outcome = run.run();
        outcome.quiet();
        let (report, _) = outcome.trace(TRACE);
        assert!(report.losses.stacks_guessed >= ROUNDS as u64, "{:?}", report.losses);
    }),
];

// Sizes of blocks that nothing else has.
const DIRECT: usize = 1_000_003;
const C: usize = 1_000_013;
const WITHOUT: usize = 1_000_023;
const FIRST: usize = 1_000_033;
const SECOND: usize = 1_000_043;
const ELSEWHERE: usize = 1_000_053;
const KEPT: usize = 1_000_063;

fn row(report: &Report, bytes: usize) -> StackRow {
    let has = |row: &StackRow| row.figures.allocated_bytes == bytes as u64;
    report.by_stack.iter().find(|row| has(row)).unwrap_or_else(|| panic!("no {bytes}"))
}

/// The number of frames at the outer end that are guesses; all others are none.
fn guesses(report: &Report, stack: &StackRow) -> usize {
    let marks: Vec<_> =
        stack.frames.iter().map(|at| report.frames[*at as usize].is_guess).collect();
    assert!(marks.is_sorted(), "{marks:?}");
    marks.iter().filter(|mark| **mark).count()
}

/// The module of a frame, its offset there and, in code that is made at run time, that in its page.
fn places(report: &Report, frame: u32) -> (Option<usize>, u64, u64) {
    let frame = &report.frames[frame as usize];
    (frame.module, frame.offset, frame.offset % PAGE as u64)
}

type Called = extern "sysv64" fn();

unsafe extern "sysv64" {
    fn with_frame_pointer(call: Called);
    fn without_frame_pointer(call: Called);
}

thread_local!(static BYTES: Cell<usize> = const { Cell::new(0) });

#[inline(never)]
extern "sysv64" fn leave_some() {
    leave(BYTES.get());
}

const PAGE: usize = 4096;

/// `push rbp; mov rbp, rsp; call rdi; pop rbp; ret`, a larger frame, and one without a frame pointer whose
/// return address is that of the first: `push rax; nop; nop; nop; call rdi; pop rax; ret`.
const SMALL: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3];
const LARGE: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x50, 0xff, 0xd7, 0x58, 0x5b, 0x5d, 0xc3];
const NONE: &[u8] = &[0x50, 0x90, 0x90, 0x90, 0xff, 0xd7, 0x58, 0xc3];
/// `push rbp; mov rbp, rsi; call rdi; pop rbp; ret`
const ANY: &[u8] = &[0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3];
/// That of their return address.
const SAME_OFFSET: usize = 6;

/// Calls the code in a page.
#[inline(never)]
fn run(page: usize, call: Called, rbp: usize) {
    // SAFETY: the page has a function that calls its first argument.
    unsafe {
        let code = std::ptr::with_exposed_provenance::<()>(page);
        std::mem::transmute::<*const (), extern "sysv64" fn(Called, usize)>(code)(call, rbp);
    }
    std::hint::black_box(());
}

fn through_code() {
    let ledger = builder().stacks(Stacks::On).start().unwrap();
    BYTES.set(DIRECT);
    leave_some();
    BYTES.set(C);
    // SAFETY: it calls the function.
    unsafe { with_frame_pointer(leave_some) };
    BYTES.set(WITHOUT);
    // SAFETY: as above.
    unsafe { without_frame_pointer(leave_some) };
    let page = map_code(0, SMALL);
    BYTES.set(FIRST);
    run(page, leave_some, 0);
    unmap_code(page);
    // Other code at the same address, and the same elsewhere.
    map_code(page, LARGE);
    BYTES.set(SECOND);
    run(page, leave_some, 0);
    BYTES.set(ELSEWHERE);
    run(map_code(0, SMALL), leave_some, 0);
    unmap_code(page);
    map_code(page, NONE);
    BYTES.set(KEPT);
    run(page, leave_some, 0);
    drop(ledger);
}

const ROUNDS: usize = 3000;

/// Two threads map code, run it and unmap it; two run code whose frame pointer is a frame in one of these
/// pages.
fn vanishing() {
    extern "sysv64" fn allocate() {
        drop(std::hint::black_box(vec![1_u8; 100]));
    }
    let ledger = builder().stacks(Stacks::On).start().unwrap();
    let (pages, done) = ([const { AtomicUsize::new(0) }; 2], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let makers = pages.each_ref().map(|page| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let at = map_code(0, SMALL);
                    page.store(at, Ordering::Relaxed);
                    run(at, allocate, 0);
                    unmap_code(at);
                }
            })
        });
        for page in &pages {
            scope.spawn(|| {
                let own = map_code(0, ANY);
                while !done.load(Ordering::Relaxed) {
                    let frame = [const { Cell::new(0) }; 2];
                    frame[1].set(page.load(Ordering::Relaxed) + SAME_OFFSET);
                    run(own, allocate, frame.as_ptr().expose_provenance());
                }
            });
        }
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    drop(ledger);
}
