//! What is measured, to the byte.

use crate::block;
use memledger::{Figures, ScopeContext, Unmeasured, alloc_scope, measure, spawn};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread::{scope, yield_now};

/// The figures without the value.
#[track_caller]
fn figures<R>((_, measured): &(R, Result<Figures, Unmeasured>)) -> [u64; 8] {
    let measured = measured.as_ref().unwrap();
    [
        measured.allocations,
        measured.frees,
        measured.reallocations,
        measured.foreign_reallocations,
        measured.allocated_bytes,
        measured.live_blocks,
        measured.live_bytes,
        measured.peak_bytes,
    ]
}

#[test]
fn nothing_is_nothing() {
    assert_eq!(figures(&measure(|| ())), [0; 8]);
}

#[test]
fn what_is_freed_is_not_live_and_counts_for_the_peak() {
    let measured = measure(|| {
        drop((block(100), block(50)));
        block(30)
    });
    assert_eq!(figures(&measured), [3, 2, 0, 0, 180, 1, 30, 150]);
}

#[test]
fn what_is_returned_is_live_and_stays_usable() {
    let (value, figures) = measure(|| vec![7_u8; 40]);
    let figures = figures.unwrap();
    assert_eq!((figures.live_blocks, figures.live_bytes), (1, 40));
    assert_eq!(value, [7; 40]);
}

#[test]
fn what_was_there_before_does_not_count() {
    let (before, mut grown) = (block(1000), block(10));
    let measured = measure(|| {
        drop(before);
        grown.reserve_exact(500);
        grown.reserve_exact(900);
    });
    assert_eq!(figures(&measured), [0, 0, 0, 2, 0, 0, 0, 0]);
    let measured = measure(|| drop(grown));
    assert_eq!(figures(&measured), [0; 8]);
}

#[test]
fn a_reallocation_frees_before_it_allocates() {
    let measured = measure(|| {
        let mut grown = block(10);
        grown.reserve_exact(100);
        grown.shrink_to(60);
        grown
    });
    assert_eq!(figures(&measured), [1, 0, 2, 0, 170, 1, 60, 100]);
}

#[test]
fn an_outer_measurement_includes_an_inner_one() {
    let mut inner = None;
    let outer = measure(|| {
        let mut kept = block(100);
        inner = Some(measure(|| {
            kept.reserve_exact(300);
            block(7)
        }));
        kept
    });
    let inner = inner.unwrap();
    assert_eq!(figures(&inner), [1, 0, 0, 1, 7, 1, 7, 7]);
    assert_eq!(figures(&outer), [2, 0, 1, 0, 407, 2, 307, 307]);
}

#[test]
fn scopes_and_tags_within_count() {
    memledger::group! { INNER = "Inner"; }
    let measured = measure(|| {
        let first = alloc_scope!("first", { block(100) });
        let second = alloc_scope!(group: INNER, "second", { block(200) });
        let third = memledger::tagged(memledger::tag!(INNER, "third"), || block(400));
        drop(first);
        (second, third)
    });
    assert_eq!(figures(&measured), [3, 1, 0, 0, 700, 2, 600, 700]);
}

#[test]
fn scopes_deeper_than_any_table_count() {
    fn deeper(levels: usize) -> usize {
        alloc_scope!("deeper");
        let bytes = block(10).capacity();
        if levels == 0 { bytes } else { bytes + deeper(levels - 1) }
    }
    let measured = measure(|| deeper(299));
    assert_eq!(figures(&measured), [300, 300, 0, 0, 3000, 0, 0, 10]);
    assert_eq!(measured.0, 3000);
}

#[test]
fn a_thread_is_followed_only_through_a_context() {
    let measured = measure(|| {
        let context = ScopeContext::current();
        scope(|threads| {
            threads.spawn(move || context.run(|| std::mem::forget(block(1_000_003))));
            threads.spawn(|| std::mem::forget(block(2_000_003)));
        });
        spawn(|| std::mem::forget(block(4_000_003))).join().unwrap();
        // What spawning itself allocates is measured, too.
    });
    let live = measured.1.unwrap().live_bytes;
    assert!((5_000_006..5_100_000).contains(&live), "{live}");
}

#[test]
fn a_measurement_in_a_thread_that_was_entered_counts_for_both() {
    let context = Mutex::new(None);
    let (start, end) = (Barrier::new(2), Barrier::new(2));
    scope(|threads| {
        let inner = threads.spawn(|| {
            start.wait();
            let context: ScopeContext = context.lock().unwrap().unwrap();
            let inner = context.run(|| measure(|| block(20)));
            end.wait();
            inner
        });
        let outer = measure(|| {
            *context.lock().unwrap() = Some(ScopeContext::current());
            start.wait();
            end.wait();
            block(1)
        });
        assert_eq!(figures(&outer), [2, 0, 0, 0, 21, 2, 21, 21]);
        assert_eq!(figures(&inner.join().unwrap()), [1, 0, 0, 0, 20, 1, 20, 20]);
    });
}

#[test]
fn a_thread_that_goes_on_does_not_count_for_the_next_measurement() {
    let (gate, done) = (Barrier::new(2), Barrier::new(2));
    let context = measure(ScopeContext::current).0;
    scope(|threads| {
        threads.spawn(|| {
            let _context = context.enter();
            gate.wait();
            std::mem::forget(block(100));
            done.wait();
        });
        let next = measure(|| {
            gate.wait();
            done.wait();
        });
        assert_eq!(figures(&next), [0; 8]);
    });
}

#[test]
fn what_an_earlier_one_left_does_not_count_for_the_next() {
    let mut kept = Vec::with_capacity(10);
    for number in 0..10 {
        let measured = measure(|| {
            // Frees what the one before has left.
            kept.clear();
            block(100 + number)
        });
        assert_eq!(
            figures(&measured),
            [1, 0, 0, 0, 100 + number as u64, 1, 100 + number as u64, 100 + number as u64]
        );
        kept.push(measured.0);
    }
}

#[test]
fn a_panic_goes_on_and_the_measurement_is_over() {
    for _ in 0..3 {
        let caught = std::panic::catch_unwind(|| {
            measure(|| {
                let _kept = block(100);
                std::panic::resume_unwind(Box::new(7_u8));
            })
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7_u8));
        assert_eq!(figures(&measure(|| drop(block(5)))), [1, 1, 0, 0, 5, 0, 0, 5]);
    }
}

/// One thing a thread does with the block in a place.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Allocate(usize),
    Reallocate(usize),
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// 0 and 1 are in the context that is measured, 2 is not.
    thread: usize,
    place: usize,
    deed: Deed,
}

const PLACES: usize = 6;

fn step() -> impl Strategy<Value = Step> {
    let deed = prop_oneof![
        (1..5000_usize).prop_map(Deed::Allocate),
        (1..5000_usize).prop_map(Deed::Reallocate),
        Just(Deed::Free),
    ];
    (0..3_usize, 0..PLACES, deed).prop_map(|(thread, place, deed)| Step { thread, place, deed })
}

fn act(place: &mut Option<Vec<u8>>, deed: Deed) {
    match (deed, place.as_mut()) {
        (Deed::Allocate(bytes), None) => *place = Some(block(bytes)),
        (Deed::Reallocate(bytes), Some(held)) => {
            held.reserve_exact(bytes);
            held.shrink_to(bytes);
        }
        (Deed::Free, Some(_)) => *place = None,
        _ => {}
    }
}

/// What [`figures`] should be.
fn expected(before: &[usize], steps: &[Step]) -> [u64; 8] {
    #[derive(Clone, Copy)]
    struct Held {
        bytes: u64,
        ours: bool,
    }
    let mut held = [None; PLACES];
    for (held, &bytes) in held.iter_mut().zip(before) {
        *held = Some(Held { bytes: bytes as u64, ours: false });
    }
    let mut sums = [0_u64; 8];
    for Step { thread, place, deed } in steps {
        let (here, measured) = (&mut held[*place], *thread < 2);
        match (*deed, here.as_mut()) {
            (Deed::Allocate(bytes), None) => {
                *here = Some(Held { bytes: bytes as u64, ours: measured });
                if measured {
                    sums[0] += 1;
                    sums[4] += bytes as u64;
                    sums[5] += 1;
                    sums[6] += bytes as u64;
                }
            }
            (Deed::Reallocate(bytes), Some(found)) if found.bytes != bytes as u64 => {
                if found.ours {
                    sums[2] += 1;
                    sums[4] += bytes as u64;
                    sums[6] = sums[6] - found.bytes + bytes as u64;
                } else if measured {
                    sums[3] += 1;
                }
                found.bytes = bytes as u64;
            }
            (Deed::Free, Some(found)) => {
                if found.ours {
                    sums[1] += 1;
                    sums[5] -= 1;
                    sums[6] -= found.bytes;
                }
                *here = None;
            }
            _ => {}
        }
        sums[7] = sums[7].max(sums[6]);
    }
    sums
}

/// Plays the steps in their order on three threads, without an allocation of its own.
fn played(before: &[usize], steps: &[Step]) -> [u64; 8] {
    let places: [Mutex<Option<Vec<u8>>>; PLACES] =
        std::array::from_fn(|place| Mutex::new(before.get(place).map(|&bytes| block(bytes))));
    let turn = AtomicUsize::new(0);
    let context = Mutex::new(None::<ScopeContext>);
    let (start, end) = (Barrier::new(4), Barrier::new(4));
    let play = |thread: usize| {
        while let Some(step) = steps.get(turn.load(Ordering::Acquire)) {
            if step.thread == thread {
                act(&mut places[step.place].lock().unwrap(), step.deed);
                turn.fetch_add(1, Ordering::AcqRel);
            } else {
                yield_now();
            }
        }
    };
    scope(|threads| {
        for thread in 0..3 {
            let (start, end, context, play) = (&start, &end, &context, &play);
            threads.spawn(move || {
                start.wait();
                let context = context.lock().unwrap().filter(|_| thread < 2);
                match context {
                    Some(context) => context.run(|| play(thread)),
                    None => play(thread),
                }
                end.wait();
            });
        }
        let measured = measure(|| {
            *context.lock().unwrap() = Some(ScopeContext::current());
            start.wait();
            end.wait();
        });
        figures(&measured)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn three_threads_that_take_turns_are_measured_as_a_naive_model_has_it(
        before in proptest::collection::vec(1..5000_usize, 0..PLACES),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        prop_assert_eq!(played(&before, &steps), expected(&before, &steps));
    }

    #[test]
    fn one_thread_is_measured_as_a_naive_model_has_it(
        before in proptest::collection::vec(1..5000_usize, 0..PLACES),
        steps in proptest::collection::vec(step(), 0..500),
    ) {
        let mut places: [Option<Vec<u8>>; PLACES] =
            std::array::from_fn(|place| before.get(place).map(|&bytes| block(bytes)));
        let steps: Vec<_> = steps.into_iter().map(|step| Step { thread: 0, ..step }).collect();
        let measured = measure(|| steps.iter().for_each(|s| act(&mut places[s.place], s.deed)));
        prop_assert_eq!(figures(&measured), expected(&before, &steps));
    }
}
