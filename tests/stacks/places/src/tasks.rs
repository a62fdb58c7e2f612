//! Async tasks, and coroutines that have stacks of their own.

use crate::{Random, allocate, calls};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::future::Future;
use std::pin::Pin;

/// Tasks of tokio's executor for one thread.
pub(crate) fn run_some(random: &mut Random) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seeds = [random.below(1 << 20), random.below(1 << 20), random.below(1 << 20)];
    runtime.block_on(async {
        let tasks = seeds.map(|seed| {
            tokio::spawn(async move {
                let mut random = Random(seed as u64 + 1);
                for _ in 0..20 {
                    let depth = random.below(10);
                    nested(&mut random, depth).await;
                    tokio::task::yield_now().await;
                }
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    });
}

fn nested(random: &mut Random, depth: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async move {
        match depth {
            0 => allocate(random),
            _ => {
                tokio::task::yield_now().await;
                nested(random, depth - 1).await;
                let below = random.below(5);
                calls::wander(random, below, false);
            }
        }
    })
}

/// Two coroutines in turns, one of which starts others.
pub(crate) fn switch_stacks(random: &mut Random) {
    let mut coroutines = [0, 1].map(|depth| start(Random(random.below(1 << 20) as u64 + 1), depth));
    loop {
        let mut is_done = true;
        for coroutine in &mut coroutines {
            if !coroutine.done() {
                is_done &= matches!(coroutine.resume(()), CoroutineResult::Return(()));
            }
            let depth = random.below(10);
            calls::wander(random, depth, false);
        }
        if is_done {
            return;
        }
    }
}

fn start(mut random: Random, depth: usize) -> Coroutine<(), (), ()> {
    Coroutine::new(move |yielder, ()| {
        for _ in 0..10 {
            deep(&mut random, yielder);
            if depth > 0 {
                let mut inner = start(Random(random.below(1 << 20) as u64 + 1), depth - 1);
                while let CoroutineResult::Yield(()) = inner.resume(()) {
                    allocate(&mut random);
                }
            }
        }
    })
}

#[inline(never)]
fn deep(random: &mut Random, yielder: &Yielder<(), ()>) {
    let depth = random.below(10);
    calls::wander(random, depth, true);
    match random.below(3) {
        0 => yielder.suspend(()),
        _ if random.below(2) == 0 => deep(random, yielder),
        _ => {}
    }
    allocate(random);
}
