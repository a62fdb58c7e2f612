//! Takes samples in places where stacks are hard to take, the same number in each.
//!
//! ```text
//! stack-places [FOLDER]     with the libraries that scripts/check_stacks.sh builds into FOLDER
//! ```

mod assembly;
mod calls;
mod libraries;
#[cfg(target_os = "linux")]
mod signals;
mod tasks;
mod threads;

use stack_sampler::{Place, Sampling};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

#[global_allocator]
static ALLOCATOR: Sampling = Sampling::new();

/// Random numbers of this process: the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }
}

/// Makes some allocations: each may be sampled.
#[inline(never)]
pub(crate) fn allocate(random: &mut Random) {
    match random.below(6) {
        0 => drop(black_box(vec![1_u8; random.below(200) + 1])),
        1 => drop(black_box(vec![0_u64; random.below(200) + 1])),
        2 => drop(black_box(format!("{} and {:?}", random.below(1000), Some(random.below(9))))),
        3 => drop(black_box((0..random.below(100) + 1).filter(|n| n % 3 != 1).collect::<Vec<_>>())),
        4 => {
            let map = (0..30).map(|key| (random.below(1 << 20), key));
            drop(black_box(map.collect::<std::collections::BTreeMap<_, _>>()));
        }
        _ => drop(black_box(Box::new([random.below(7); 5]))),
    }
}

/// The number of samples at which the present place has its share.
static END: AtomicU32 = AtomicU32::new(0);

fn has_share() -> bool {
    stack_sampler::taken() >= END.load(Ordering::Relaxed)
}

/// Calls `body` until `share` more samples were taken.
fn fill(place: Place, share: u32, mut body: impl FnMut(&mut Random)) {
    let end = (stack_sampler::taken() + share).min(stack_sampler::limit());
    END.store(end, Ordering::Relaxed);
    let mut random = Random(u64::from(place as u8) + 1);
    stack_sampler::within(place, || {
        while !has_share() {
            body(&mut random);
        }
    });
}

fn main() {
    let libraries = std::env::args_os().nth(1).map(PathBuf::from);
    // The first allocations opened the file of samples.
    let share = stack_sampler::limit() / 9;
    fill(Place::Calls, share, |random| {
        let depth = random.below(40);
        calls::wander(random, depth, false);
    });
    fill(Place::Callback, share, |random| {
        let depth = random.below(20);
        calls::wander(random, depth, true);
    });
    fill(Place::Thread, share, threads::start_some);
    // NOTE: each stack that is cut at the limit has 255 frames of its own in the tracker's tree, which has 2
    // million.
    fill(Place::Recursion, (share / 4).min(300), threads::recurse);
    fill(Place::Task, share, tasks::run_some);
    fill(Place::Coroutine, share, tasks::switch_stacks);
    fill(Place::Assembly, share / 4, assembly::call);
    #[cfg(target_os = "linux")]
    {
        signals::start();
        fill(Place::Signal, share, signals::work);
        signals::stop();
    }
    if let Some(folder) = libraries {
        libraries::call(&folder, share);
    }
}
