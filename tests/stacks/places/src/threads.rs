//! The start and the end of threads, and recursion deeper than stacks are recorded.

use crate::{Random, allocate, calls};
use stack_sampler::Place;
use std::cell::RefCell;
use std::hint::black_box;

/// Allocates again when its thread ends.
struct AtEnd(Vec<u8>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0 = black_box(vec![2; self.0.len() + 1]);
    }
}

thread_local!(static AT_END: RefCell<AtEnd> = const { RefCell::new(AtEnd(Vec::new())) });

pub(crate) fn start_some(random: &mut Random) {
    std::thread::scope(|threads| {
        for _ in 0..3 {
            let mut random = Random(random.below(1 << 20) as u64 + 1);
            std::thread::Builder::new()
                .name("of the program".into())
                .stack_size(256 << 10)
                .spawn_scoped(threads, move || {
                    stack_sampler::within(Place::Thread, || {
                        AT_END.with_borrow_mut(|end| end.0 = vec![1; 9]);
                        allocate(&mut random);
                        let depth = random.below(20);
                        calls::wander(&mut random, depth, true);
                    });
                })
                .unwrap();
        }
    });
}

pub(crate) fn recurse(random: &mut Random) {
    descend(random, 10_000);
}

#[inline(never)]
fn descend(random: &mut Random, depth: usize) -> usize {
    // Most samples are deep, and some are near the limit on frames.
    if depth == 0 || random.below(50) == 0 || (9_700..9_800).contains(&depth) && depth % 3 == 0 {
        allocate(random);
    }
    let deeper = match depth {
        0 => 0,
        _ => descend(random, depth - 1),
    };
    black_box(deeper + 1)
}
