//! Eight threads with ten million events in all, whose blocks are mostly freed by other threads. However
//! such a program ends, no event is lost, and its figures are those that it has counted itself.

use crate::counts::{THREADS, check, map_counts, note_floor, reported};
use crate::harness::{Case, Run, builder, case};
use memledger::{Ledger, OnFull, alloc_scope};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    case("ten million events of a program that returns are its own count", returns, |run| {
        let outcome = run.deadline(300).run();
        check(outcome.quiet(), false);
    }),
    case("ten million events of a program that panics are its own count", panics, |run| {
        let outcome = run.deadline(300).run();
        check(outcome.exited(101), false);
    }),
    case("ten million events of a program that exits meanwhile are its own count", exits, |run| {
        let outcome = run.deadline(300).run();
        check(outcome.exited(3), true);
    }),
    case("ten million events of a program that crashes meanwhile are its own count", crashes, ends),
];

fn ends(run: Run) {
    let outcome = reported(run.deadline(300).spawn());
    #[cfg(unix)]
    let how = std::os::unix::process::ExitStatusExt::signal(&outcome.status);
    #[cfg(unix)]
    assert_eq!(how, Some(libc::SIGSEGV));
    // Wine has a code of its own for it.
    #[cfg(windows)]
    assert!(!outcome.status.success());
    check(&outcome, true);
}

const WORKERS: usize = THREADS - 1;
/// Of each thread, which frees nearly as many.
const BLOCKS: usize = 625_000;
/// The blocks that are alive while the threads work.
const PLACES: usize = 4096;

static BLOCKS_IN: [AtomicPtr<u8>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
/// How many threads have done all of theirs.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// Has eight threads work: each allocates a block, and frees the one that it finds in its place. They end
/// then, or go on.
fn work(goes_on: bool) -> Ledger {
    let ledger = builder().on_full(OnFull::Wait).report_on_signals(true).start().unwrap();
    let counts = map_counts();
    let threads: Vec<_> = (0..WORKERS)
        .map(|number| {
            let body = move || {
                alloc_scope!("counted");
                let mut place = number;
                let mut blocks = |count| {
                    for _ in 0..count {
                        place = (place * 5 + 1) % PLACES;
                        counts[number].exchange(&BLOCKS_IN[place], 8 + place % 500);
                    }
                };
                blocks(BLOCKS);
                DONE.fetch_add(1, Ordering::Release);
                // With pauses: Wine may hang in the end of a process whose threads are in its heap.
                loop {
                    if !goes_on {
                        break;
                    }
                    blocks(100);
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            std::thread::Builder::new().name("worker".into()).spawn(body).unwrap()
        })
        .collect();
    if goes_on {
        while DONE.load(Ordering::Acquire) < WORKERS {
            std::thread::yield_now();
        }
        note_floor(counts);
    } else {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    ledger
}

fn returns() {
    std::mem::forget(work(false));
}

fn panics() {
    let _ledger = work(false);
    panic!("this scenario panics");
}

fn exits() {
    let _ledger = work(true);
    std::process::exit(3);
}

fn crashes() {
    let _ledger = work(true);
    crate::exit::crash();
}
