//! The loads: what an allocator is asked to do, and how often it was asked.
#![expect(unsafe_code, reason = "calls allocators by hand")]

use memledger::alloc_scope;
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::ops::AddAssign;

/// How often an allocator was called: what a recording of the same must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Allocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
}

impl Calls {
    /// Both: each is an event.
    pub fn events(self) -> u64 {
        self.allocations + self.frees
    }
}

impl AddAssign for Calls {
    fn add_assign(&mut self, more: Self) {
        self.allocations += more.allocations;
        self.frees += more.frees;
    }
}

/// A load that can be run in bursts on an allocator: always the same one.
pub trait Workload: Send {
    /// Whether the threads of a team pass their blocks on after each burst.
    const PASSED_ON: bool = false;

    /// Bursts of it that follow each other before its yardstick has its turn.
    const IN_A_ROW: usize = 1;

    /// What one of `threads` threads works on, in bursts of `burst` pairs.
    fn new(threads: usize, burst: u64) -> Self;

    /// Allocates what is to be live all the time, in the scope that counts, calling `between` every
    /// few thousand events.
    fn fill<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn());

    /// `pairs` times one allocation and one free.
    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64);

    /// Frees what is live, calling `between` every few thousand events; says what was done in all.
    fn clear<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) -> Calls;
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
pub struct Pair {
    done: u64,
}

impl Workload for Pair {
    fn new(_threads: usize, _burst: u64) -> Self {
        Self { done: 0 }
    }

    fn fill<A: GlobalAlloc>(&mut self, _allocator: &A, _between: &dyn Fn()) {}

    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        let layout = black_box(Layout::new::<[u64; 8]>());
        for _ in 0..pairs {
            let pointer = black_box(allocate(allocator, layout));
            free(allocator, pointer, layout);
        }
        self.done += pairs;
    }

    fn clear<A: GlobalAlloc>(&mut self, _allocator: &A, _between: &dyn Fn()) -> Calls {
        let done = std::mem::take(&mut self.done);
        Calls { allocations: done, frees: done }
    }
}

/// Calls `leaf` with `frames` frames between the caller and it: one of two chains of functions, whose
/// frames are all different.
fn through_frames(odd: bool, frames: u32, leaf: &mut dyn FnMut()) {
    #[inline(never)]
    fn even(frames: u32, leaf: &mut dyn FnMut()) {
        if frames <= 1 {
            leaf()
        } else {
            even(frames - 1, leaf)
        }
        black_box(());
    }
    #[inline(never)]
    fn uneven(frames: u32, leaf: &mut dyn FnMut()) {
        if frames <= 1 {
            leaf()
        } else {
            uneven(frames - 1, leaf)
        }
        black_box(frames);
    }
    if odd { uneven(frames, leaf) } else { even(frames, leaf) }
}

/// [`Pair`] at the end of a call stack of 20 frames, of which the innermost `CHANGED` are others
/// than at the pair before.
pub struct Nested<const CHANGED: u32> {
    pair: Pair,
}

impl<const CHANGED: u32> Workload for Nested<CHANGED> {
    fn new(threads: usize, burst: u64) -> Self {
        Self { pair: Pair::new(threads, burst) }
    }

    fn fill<A: GlobalAlloc>(&mut self, _allocator: &A, _between: &dyn Fn()) {}

    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        let pair = &mut self.pair;
        through_frames(false, 20 - CHANGED, &mut || {
            for round in 0..pairs {
                through_frames(round & 1 != 0, CHANGED, &mut || pair.run(allocator, 1));
            }
        });
    }

    fn clear<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) -> Calls {
        self.pair.clear(allocator, between)
    }
}

/// [`Pair`] at the end of one of 1,024 call stacks of 20 frames, at random. The outer ten frames are
/// each one of two functions; those further in have the same functions in all stacks.
pub struct Random {
    pair: Pair,
    random: u64,
}

/// Calls `leaf` with `frames` frames between the caller and it; the lowest bit of `path` decides
/// which of two functions is the next frame.
fn along(path: u64, frames: u32, leaf: &mut dyn FnMut()) {
    #[inline(never)]
    fn left(path: u64, frames: u32, leaf: &mut dyn FnMut()) {
        along(path, frames, leaf);
        black_box(());
    }
    #[inline(never)]
    fn right(path: u64, frames: u32, leaf: &mut dyn FnMut()) {
        along(path, frames, leaf);
        black_box(frames);
    }
    let next = if path & 1 == 0 { left } else { right };
    if frames == 0 { leaf() } else { next(path >> 1, frames - 1, leaf) }
}

impl Workload for Random {
    fn new(threads: usize, burst: u64) -> Self {
        Self { pair: Pair::new(threads, burst), random: 1 }
    }

    fn fill<A: GlobalAlloc>(&mut self, _allocator: &A, _between: &dyn Fn()) {}

    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        for _ in 0..pairs {
            self.random = next_random(self.random);
            let pair = &mut self.pair;
            along(self.random >> 54, 20, &mut || pair.run(allocator, 1));
        }
    }

    fn clear<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) -> Calls {
        self.pair.clear(allocator, between)
    }
}

/// The next state of Knuth's linear congruential generator; its upper bits are random.
fn next_random(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Blocks of 16 to 512 bytes.
struct Blocks {
    live: Vec<(usize, Layout)>,
    random: u64,
    calls: Calls,
}

/// `between` is called after a number of events that fits the buffers of a manual worker.
const PART: usize = 5_000;

impl Blocks {
    const fn new() -> Self {
        Self { live: Vec::new(), random: 0, calls: Calls { allocations: 0, frees: 0 } }
    }

    fn random(&mut self) -> usize {
        self.random = next_random(self.random);
        (self.random >> 33) as usize
    }

    fn layout(&mut self) -> Layout {
        Layout::from_size_align(16 + self.random() % 497, 8).expect("a small layout")
    }

    fn fill<A: GlobalAlloc>(&mut self, allocator: &A, blocks: usize, between: &dyn Fn()) {
        // Its own memory is not part of the load, nor of what is counted.
        self.live.reserve_exact(blocks);
        alloc_scope!("measured", {
            while self.live.len() < blocks {
                let layout = self.layout();
                self.live.push((allocate(allocator, layout).expose_provenance(), layout));
                if self.live.len().is_multiple_of(PART) {
                    between();
                }
            }
        });
        self.calls.allocations += blocks as u64;
    }

    fn replace<A: GlobalAlloc>(&mut self, allocator: &A, at: usize) {
        let layout = self.layout();
        let (address, old) = self.live[at];
        free(allocator, std::ptr::with_exposed_provenance_mut(address), old);
        self.live[at] = (allocate(allocator, layout).expose_provenance(), layout);
    }

    fn ran(&mut self, pairs: u64) {
        self.calls += Calls { allocations: pairs, frees: pairs };
    }

    fn clear<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) -> Calls {
        self.calls.frees += self.live.len() as u64;
        for (at, (address, layout)) in self.live.drain(..).enumerate() {
            free(allocator, std::ptr::with_exposed_provenance_mut(address), layout);
            if at.is_multiple_of(PART) {
                between();
            }
        }
        std::mem::take(&mut self.calls)
    }
}

/// 100 000 live blocks of 16 to 512 bytes, shared out among the threads; a random one is replaced.
pub struct Churn {
    blocks: Blocks,
    live: usize,
}

impl Churn {
    /// Live blocks of all threads together.
    pub const LIVE: usize = 100_000;

    /// With another number of live blocks.
    pub fn of(live: usize) -> Self {
        Self { blocks: Blocks::new(), live }
    }
}

impl Workload for Churn {
    /// Both loads have 26 MB of blocks, which throw each other's out of the caches: the first
    /// bursts bring them back.
    const IN_A_ROW: usize = 20;

    fn new(threads: usize, _burst: u64) -> Self {
        Self::of(Self::LIVE / threads)
    }

    fn fill<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) {
        self.blocks.fill(allocator, self.live, between);
    }

    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        for _ in 0..pairs {
            let at = self.blocks.random() % self.live;
            self.blocks.replace(allocator, at);
        }
        self.blocks.ran(pairs);
    }

    fn clear<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) -> Calls {
        self.blocks.clear(allocator, between)
    }
}

/// Blocks that one thread allocates and the next one frees, a burst later: all threads do both, in
/// a ring. On one thread it is a queue of a burst's blocks.
pub struct Handover {
    blocks: Blocks,
    length: usize,
    at: usize,
}

impl Workload for Handover {
    const PASSED_ON: bool = true;

    fn new(_threads: usize, burst: u64) -> Self {
        // With the burst's start, so that a turn replaces every block once.
        Self { blocks: Blocks::new(), length: (burst + crate::bursts::START) as usize, at: 0 }
    }

    fn fill<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) {
        self.blocks.fill(allocator, self.length, between);
    }

    fn run<A: GlobalAlloc>(&mut self, allocator: &A, pairs: u64) {
        for _ in 0..pairs {
            self.blocks.replace(allocator, self.at);
            self.at = if self.at + 1 == self.length { 0 } else { self.at + 1 };
        }
        self.blocks.ran(pairs);
    }

    fn clear<A: GlobalAlloc>(&mut self, allocator: &A, between: &dyn Fn()) -> Calls {
        self.blocks.clear(allocator, between)
    }
}
