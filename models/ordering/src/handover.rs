//! Threads that hand memory and messages to each other.
//!
//! Memory is two *spaces*, each the size of half a block, in one region or in two. A block lies in
//! one space or in both. The allocator is a word for each space: how often it has changed hands,
//! odd while somebody has it. That number is the truth that the order of events is held against.

use crate::explore;
use crate::rules::{AtomicU64, NoStep, PlainStore, Real, Rules, WORKER, epoch, word};
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::marker::PhantomData;

/// The spaces of a block.
type Block = &'static [usize];
const X: Block = &[0];
const Y: Block = &[1];
/// Overlaps both.
const BIG: Block = &[0, 1];

#[derive(Clone, Copy)]
enum Op {
    /// Allocate, if the spaces are free.
    Take(Block),
    /// If this thread has it.
    Free(Block),
    /// An event that concerns nobody else's memory, in a region of the thread's own.
    Own,
    /// Sends the message of this number.
    Tell(usize),
    /// Looks whether it is there.
    Hear(usize),
}
use Op::{Free, Hear, Own, Take, Tell};

/// How the threads of a scenario find each other.
#[derive(Clone, Copy)]
struct Setting {
    /// The region of each space.
    region: [usize; 2],
    /// The threads that come to the world as well.
    in_world: [bool; 3],
    /// Messages count: the whole order is that in which things happened.
    exact: bool,
    /// A planted fault: of several regions, only the first is stamped.
    first_region_only: bool,
}

const ONE_REGION: Setting =
    Setting { region: [0, 0], in_world: [false; 3], exact: false, first_region_only: false };
const TWO_REGIONS: Setting = Setting { region: [0, 1], ..ONE_REGION };
const EXACT: Setting = Setting { in_world: [true; 3], exact: true, ..TWO_REGIONS };
const ONE_WITH_A_LEASE: Setting = Setting { in_world: [true, false, true], ..TWO_REGIONS };

struct Shared {
    world: AtomicU64,
    /// The last three are those of the threads' own memory.
    regions: [AtomicU64; 5],
    spaces: [AtomicU64; 2],
    messages: [AtomicU64; 2],
}

/// What a thread did, in program order.
enum Step {
    /// The epoch, and the spaces concerned, each with the number it got.
    Event(u64, Vec<(usize, u64)>),
    Told(usize),
    Heard(usize),
}

struct Thread<R> {
    shared: Arc<Shared>,
    setting: Setting,
    number: usize,
    stamp: u64,
    /// The number of each space that this thread has.
    has: [u64; 2],
    steps: Vec<Step>,
    rules: PhantomData<R>,
}

impl<R: Rules> Thread<R> {
    fn run(mut self, script: &[Op]) -> Vec<Step> {
        for op in script {
            match *op {
                Take(block) => self.take(block),
                Free(block) => self.free(block),
                Own => self.event(&[2 + self.number], Vec::new()),
                Tell(message) => {
                    self.shared.messages[message].store(1, Release);
                    self.steps.push(Step::Told(message));
                }
                Hear(message) => {
                    if self.shared.messages[message].load(Acquire) == 1 {
                        self.steps.push(Step::Heard(message));
                    }
                }
            }
        }
        self.steps
    }

    /// As in the hook: the allocator first, then the event.
    fn take(&mut self, block: Block) {
        let mut got: Vec<(usize, u64)> = Vec::new();
        for &space in block {
            let word = &self.shared.spaces[space];
            let free = word.load(Relaxed);
            if free % 2 == 1 || word.compare_exchange(free, free + 1, AcqRel, Relaxed).is_err() {
                // Give back what was taken, as it was.
                for &(space, number) in &got {
                    self.shared.spaces[space].store(number - 1, Release);
                }
                return;
            }
            got.push((space, free + 1));
        }
        for &(space, number) in &got {
            self.has[space] = number;
        }
        self.event(&self.regions(block), got);
    }

    /// The event first, then the allocator.
    fn free(&mut self, block: Block) {
        if block.iter().any(|&space| self.has[space] == 0) {
            return;
        }
        let freed = block.iter().map(|&space| (space, self.has[space] + 1)).collect::<Vec<_>>();
        self.event(&self.regions(block), freed.clone());
        for (space, number) in freed {
            self.has[space] = 0;
            self.shared.spaces[space].store(number, Release);
        }
    }

    fn regions(&self, block: Block) -> Vec<usize> {
        let mut regions = block.iter().map(|&space| self.setting.region[space]).collect::<Vec<_>>();
        regions.dedup();
        regions.truncate(if self.setting.first_region_only { 1 } else { 2 });
        regions
    }

    /// `places::is_here`, else `places::come`.
    fn event(&mut self, regions: &[usize], spaces: Vec<(usize, u64)>) {
        let shared = self.shared.clone();
        let mut places = regions.iter().map(|&region| &shared.regions[region]).collect::<Vec<_>>();
        if self.setting.in_world[self.number] {
            places.push(&shared.world);
        }
        // In a single region only: a block in two takes the long way.
        let is_here = regions.len() == 1
            && places.iter().rev().all(|place| place.load(Relaxed) == self.stamp);
        if !is_here {
            self.stamp = R::meet(&places, self.stamp);
        }
        self.steps.push(Step::Event(epoch(self.stamp), spaces));
    }
}

/// Where an event stands in the merged order: epoch, thread, place within the thread.
type Key = (u64, usize, usize);

/// All events that happened before this place in this thread, messages counted in.
fn before(threads: &[Vec<Step>], thread: usize, place: usize, found: &mut Vec<Key>) {
    for (index, step) in threads[thread][..place].iter().enumerate() {
        match *step {
            Step::Event(epoch, _) => found.push((epoch, thread, index)),
            Step::Heard(message) => {
                let told = |step: &Step| matches!(step, Step::Told(other) if *other == message);
                for (teller, steps) in threads.iter().enumerate() {
                    if let Some(at) = steps.iter().position(told) {
                        before(threads, teller, at, found);
                    }
                }
            }
            Step::Told(_) => {}
        }
    }
}

fn check(threads: &[Vec<Step>], setting: Setting) {
    let mut order = Vec::new();
    for (thread, steps) in threads.iter().enumerate() {
        for (index, step) in steps.iter().enumerate() {
            if let Step::Event(epoch, spaces) = step {
                order.push(((*epoch, thread, index), spaces));
            }
        }
    }
    order.sort();
    // Each space changes hands in the order in which it truly did, one by one: allocations and
    // frees alternate, and no two blocks overlap.
    let mut last = [0; 2];
    for (_, spaces) in &order {
        for &(space, number) in *spaces {
            assert_eq!(number, last[space] + 1, "space {space} in wrong order");
            last[space] = number;
        }
    }
    // What happened before, stands before.
    for (thread, steps) in threads.iter().enumerate() {
        for (index, step) in steps.iter().enumerate() {
            let Step::Event(epoch, _) = *step else { continue };
            let mut earlier = Vec::new();
            if setting.exact {
                before(threads, thread, index, &mut earlier);
            } else {
                // Program order only.
                before(&threads[thread..=thread], 0, index, &mut earlier);
                earlier.iter_mut().for_each(|key| key.1 = thread);
            }
            let this = (epoch, thread, index);
            assert!(earlier.iter().all(|key| *key < this), "{this:?} stands before its cause");
        }
    }
}

fn scenario<R: Rules>(
    name: &str,
    interruptions: [usize; 2],
    setting: Setting,
    scripts: &'static [&'static [Op]],
) {
    explore(name, interruptions, move || {
        let nobody = || AtomicU64::new(word(0, WORKER));
        let shared = Arc::new(Shared {
            world: nobody(),
            regions: std::array::from_fn(|_| nobody()),
            spaces: [AtomicU64::new(0), AtomicU64::new(0)],
            messages: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        let thread = |number| Thread::<R> {
            shared: shared.clone(),
            setting,
            number,
            stamp: word(0, number as u64 + 1),
            has: [0; 2],
            steps: Vec::new(),
            rules: PhantomData,
        };
        let others = (1..scripts.len()).map(|number| {
            let thread = thread(number);
            loom::thread::spawn(move || thread.run(scripts[number]))
        });
        let others = others.collect::<Vec<_>>();
        let mut threads = vec![thread(0).run(scripts[0])];
        threads.extend(others.into_iter().map(|thread| thread.join().unwrap()));
        check(&threads, setting);
    });
}

const PASS_ON: &[&[Op]] =
    &[&[Take(X), Free(X), Take(Y), Free(Y)], &[Take(Y), Free(Y), Take(X), Free(X)]];
const OVERLAP: &[&[Op]] =
    &[&[Take(X), Free(X), Take(BIG), Free(BIG)], &[Take(BIG), Free(BIG), Take(Y), Free(Y)]];
const THREE_PASS_ON: &[&[Op]] = &[&[Take(X), Free(X)], &[Take(X), Free(X)], &[Take(X), Free(X)]];
/// The first comes to the region while the second is at it, then follows it.
const TWO_IN_ONE: &[&[Op]] = &[&[Take(X), Take(Y)], &[Take(Y), Free(Y)]];
/// The first comes between the other two.
const THREE_IN_ONE: &[&[Op]] = &[&[Take(X)], &[Take(Y), Free(Y), Take(Y)], &[Take(Y), Free(Y)]];
const THREE_OVERLAP: &[&[Op]] =
    &[&[Take(X), Free(X)], &[Take(BIG), Free(BIG)], &[Take(Y), Free(Y)]];
/// The second passes a message on without an event of its own in between.
const MESSAGES: &[&[Op]] = &[&[Own, Own, Tell(0)], &[Own, Hear(0), Tell(1)], &[Own, Hear(1), Own]];
const ANSWER: &[&[Op]] = &[&[Own, Tell(0), Own, Hear(1), Own], &[Own, Hear(0), Own, Tell(1), Own]];

#[test]
fn memory_passed_on_in_one_region() {
    scenario::<Real>("memory passed on, one region", [4, 5], ONE_REGION, PASS_ON);
}

#[test]
fn memory_passed_on_in_two_regions() {
    scenario::<Real>("memory passed on, two regions", [4, 5], TWO_REGIONS, PASS_ON);
}

#[test]
fn overlapping_blocks_in_two_regions() {
    scenario::<Real>("overlapping blocks, two regions", [4, 5], TWO_REGIONS, OVERLAP);
}

#[test]
fn memory_passed_on_among_three_threads() {
    scenario::<Real>("memory passed on, three threads", [2, 3], ONE_REGION, THREE_PASS_ON);
}

#[test]
fn two_threads_at_two_blocks() {
    scenario::<Real>("two blocks of one region", [4, 5], ONE_REGION, TWO_IN_ONE);
}

#[test]
fn three_threads_at_two_blocks() {
    scenario::<Real>("two blocks of one region, three threads", [2, 3], ONE_REGION, THREE_IN_ONE);
}

#[test]
fn overlapping_blocks_of_three_threads() {
    scenario::<Real>("overlapping blocks, three threads", [2, 3], TWO_REGIONS, THREE_OVERLAP);
}

#[test]
fn memory_passed_on_in_the_world_too() {
    scenario::<Real>("memory passed on, with the world", [3, 4], EXACT, PASS_ON);
}

#[test]
fn messages_passed_on() {
    scenario::<Real>("messages passed on, three threads", [1, 2], EXACT, MESSAGES);
}

#[test]
fn messages_answered() {
    scenario::<Real>("messages answered", [3, 4], EXACT, ANSWER);
}

#[test]
fn one_thread_with_a_lease() {
    scenario::<Real>("overlapping blocks, one lease", [3, 4], ONE_WITH_A_LEASE, OVERLAP);
}

mod planted {
    use super::*;

    #[test]
    #[should_panic(expected = "in wrong order")]
    fn a_plain_store_for_the_exchange() {
        scenario::<PlainStore>("-", [3, 3], ONE_REGION, TWO_IN_ONE);
    }

    #[test]
    #[should_panic(expected = "in wrong order")]
    fn no_step_behind_another_thread() {
        scenario::<NoStep>("-", [4, 4], ONE_REGION, PASS_ON);
    }

    #[test]
    #[should_panic(expected = "in wrong order")]
    fn only_the_first_region_stamped() {
        let setting = Setting { first_region_only: true, ..TWO_REGIONS };
        scenario::<Real>("-", [4, 4], setting, OVERLAP);
    }

    #[test]
    #[should_panic(expected = "before its cause")]
    fn no_world_for_one_who_hears() {
        let setting = Setting { in_world: [true, true, false], ..EXACT };
        scenario::<Real>("-", [3, 3], setting, MESSAGES);
    }
}
