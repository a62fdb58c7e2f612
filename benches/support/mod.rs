//! What the benches share: the workloads, the clock, and comparisons within one run.
#![allow(dead_code, reason = "each bench uses its part")]
#![expect(unsafe_code, reason = "calls allocators by hand and reads the thread's clock")]

use memledger::Ledger;
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::time::Duration;

/// Pairs of allocation and free in a burst: their events fit the buffers many times over.
pub const BURST: u64 = 10_000;

/// CPU time of the calling thread: waits, and other programs on a shared machine, are not in it.
pub fn thread_time() -> Duration {
    cpu_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads.
pub fn process_time() -> Duration {
    cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A load that can be run in bursts on an allocator.
pub trait Workload {
    /// `pairs` times one allocation and one free.
    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64);
}

/// Out of line and with a layout the compiler does not know, as a program's calls are: they go
/// through `__rust_alloc`.
#[inline(never)]
fn allocate<A: GlobalAlloc>(allocator: &A, layout: Layout) -> *mut u8 {
    // SAFETY: the size is not 0.
    let pointer = unsafe { allocator.alloc(layout) };
    assert!(!pointer.is_null());
    pointer
}

#[inline(never)]
fn free<A: GlobalAlloc>(allocator: &A, pointer: *mut u8, layout: Layout) {
    // SAFETY: the callers allocated it so, from the same allocator.
    unsafe { allocator.dealloc(pointer, layout) };
}

/// One block of 64 bytes, freed at once: the inner allocator at its fastest.
#[derive(Default)]
pub struct Pair;

impl Workload for Pair {
    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        let layout = black_box(Layout::new::<[u64; 8]>());
        for _ in 0..pairs {
            let pointer = black_box(allocate(allocator, layout));
            free(allocator, pointer, layout);
        }
    }
}

/// 100 000 live blocks of 16 to 512 bytes; a random one is replaced. Of one allocator: the first.
#[derive(Default)]
pub struct Churn {
    live: Vec<(usize, Layout)>,
    random: u64,
}

impl Churn {
    const LIVE: usize = 100_000;

    fn random(&mut self) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize
    }

    fn layout(&mut self) -> Layout {
        Layout::from_size_align(16 + self.random() % 497, 8).expect("a small layout")
    }

    /// Allocates what is to be live.
    pub fn fill<A: GlobalAlloc>(&mut self, allocator: &A) {
        self.fill_in_parts(allocator, || {});
    }

    /// Allocates what is to be live, with `between` called often enough to empty the buffers.
    pub fn fill_in_parts<A: GlobalAlloc>(&mut self, allocator: &A, between: impl Fn()) {
        while self.live.len() < Self::LIVE {
            let layout = self.layout();
            self.live.push((allocate(allocator, layout).expose_provenance(), layout));
            if (self.live.len() as u64).is_multiple_of(BURST) {
                between();
            }
        }
    }

    /// Frees what is live.
    pub fn clear<A: GlobalAlloc>(&mut self, allocator: &A) {
        self.clear_in_parts(allocator, || {});
    }

    /// Frees what is live, with `between` called often enough to empty the buffers.
    pub fn clear_in_parts<A: GlobalAlloc>(&mut self, allocator: &A, between: impl Fn()) {
        for (at, (address, layout)) in self.live.drain(..).enumerate() {
            free(allocator, std::ptr::with_exposed_provenance_mut(address), layout);
            if (at as u64).is_multiple_of(BURST) {
                between();
            }
        }
    }
}

impl Workload for Churn {
    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        for _ in 0..pairs {
            let at = self.random() % Self::LIVE;
            let layout = self.layout();
            let (address, old) = self.live[at];
            free(allocator, std::ptr::with_exposed_provenance_mut(address), old);
            self.live[at] = (allocate(allocator, layout).expose_provenance(), layout);
        }
    }
}

/// Thread CPU time of `pairs` pairs in bursts, with the buffers emptied in between, untimed.
pub fn in_bursts(ledger: Option<&Ledger>, pairs: u64, mut burst: impl FnMut(u64)) -> Duration {
    let mut total = Duration::ZERO;
    let mut left = pairs;
    while left > 0 {
        if let Some(ledger) = ledger {
            ledger.flush();
        }
        // The first events after a pause are written by the slow way in.
        burst(16);
        let now = left.min(BURST);
        let start = thread_time();
        burst(now);
        total += thread_time() - start;
        left -= now;
    }
    total
}

/// Whether the program was only asked whether it works (`cargo bench -- --test`).
pub fn is_test() -> bool {
    std::env::args().any(|arg| arg == "--test")
}

/// Whether a part that criterion does not know of is asked for.
pub fn is_selected(part: &str) -> bool {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let mut filters = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
    !args.iter().any(|arg| arg == "--list")
        && (filters.peek().is_none() || filters.any(|filter| part.contains(filter.as_str())))
}

/// Runs both in turn, burst by burst, so that what disturbs one disturbs the other, and prints
/// the medians and the ratio.
pub fn compare(
    part: &str,
    ledger: Option<&Ledger>,
    mut yardstick: impl FnMut(u64),
    mut ours: impl FnMut(u64),
) {
    if !is_selected(part) {
        return;
    }
    let rounds = if is_test() { 3 } else { 401 };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        times[0].push(in_bursts(ledger, BURST, &mut yardstick));
        times[1].push(in_bursts(ledger, BURST, &mut ours));
    }
    let [yardstick, ours] = times.map(|mut times| {
        times.sort();
        times[rounds / 2].as_nanos() as f64 / BURST as f64
    });
    println!(
        "{part}: System {yardstick:.2} ns a pair, memledger {ours:.2} ns; ratio {:.3}, {:+.2} ns an event",
        ours / yardstick,
        (ours - yardstick) / 2.0
    );
}
