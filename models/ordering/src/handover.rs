//! Threads that hand memory and messages to each other.
//!
//! Memory is two *spaces*, in one region or in two. A block takes one space or both. The allocator
//! is one word for each space: the number of times that the space has changed hands, which is odd
//! while a thread owns it. The order of events is checked against that number.

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
    /// Allocates the block, if its spaces are free.
    Take(Block),
    /// Frees the block, if this thread has it.
    Free(Block),
    /// An event about memory of the thread's own, in a region of its own.
    Own,
    /// Sends the message with this number.
    Send(usize),
    /// Receives the message if it was sent.
    Receive(usize),
}
use Op::{Free, Own, Receive, Send, Take};

/// How the threads of a scenario synchronise.
#[derive(Clone, Copy)]
struct Setting {
    /// The region of each space.
    region: [usize; 2],
    /// The threads that join the global clock too.
    joins_global: [bool; 3],
    /// The order must be the one in which events happened, also between a message's sender and its
    /// receiver.
    exact: bool,
    /// A planted fault: of several regions, the thread joins only the first.
    first_region_only: bool,
}

const ONE_REGION: Setting =
    Setting { region: [0, 0], joins_global: [false; 3], exact: false, first_region_only: false };
const TWO_REGIONS: Setting = Setting { region: [0, 1], ..ONE_REGION };
const EXACT: Setting = Setting { joins_global: [true; 3], exact: true, ..TWO_REGIONS };
const ONE_WITH_A_LEASE: Setting = Setting { joins_global: [true, false, true], ..TWO_REGIONS };

struct Shared {
    global: AtomicU64,
    /// The region clocks. The last three are those of the threads' own memory.
    regions: [AtomicU64; 5],
    spaces: [AtomicU64; 2],
    messages: [AtomicU64; 2],
}

/// One action of a thread; a list of them is in program order.
enum Step {
    /// The epoch, and the spaces concerned, each with the number it got.
    Event(u64, Vec<(usize, u64)>),
    Sent(usize),
    Received(usize),
}

struct Thread<R> {
    shared: Arc<Shared>,
    setting: Setting,
    number: usize,
    stamp: u64,
    /// For each space, the number of its word if this thread owns it, otherwise 0.
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
                Send(message) => {
                    self.shared.messages[message].store(1, Release);
                    self.steps.push(Step::Sent(message));
                }
                Receive(message) => {
                    if self.shared.messages[message].load(Acquire) == 1 {
                        self.steps.push(Step::Received(message));
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
                // Give back the spaces that were taken, with the numbers they had.
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

    /// `sync::is_current`, else `sync::synchronize`.
    fn event(&mut self, regions: &[usize], spaces: Vec<(usize, u64)>) {
        let shared = self.shared.clone();
        let mut clocks = regions.iter().map(|&region| &shared.regions[region]).collect::<Vec<_>>();
        if self.setting.joins_global[self.number] {
            clocks.push(&shared.global);
        }
        // Only a block in a single region can take the fast path.
        let is_current = regions.len() == 1
            && clocks.iter().rev().all(|clock| clock.load(Relaxed) == self.stamp);
        if !is_current {
            self.stamp = R::join(&clocks, self.stamp);
        }
        self.steps.push(Step::Event(epoch(self.stamp), spaces));
    }
}

/// The position of an event in the merged order: epoch, thread, position within the thread.
type Key = (u64, usize, usize);

/// All events that happened before this position in this thread, by messages too.
fn before(threads: &[Vec<Step>], thread: usize, place: usize, found: &mut Vec<Key>) {
    for (index, step) in threads[thread][..place].iter().enumerate() {
        match *step {
            Step::Event(epoch, _) => found.push((epoch, thread, index)),
            Step::Received(message) => {
                let sent = |step: &Step| matches!(step, Step::Sent(other) if *other == message);
                for (sender, steps) in threads.iter().enumerate() {
                    if let Some(at) = steps.iter().position(sent) {
                        before(threads, sender, at, found);
                    }
                }
            }
            Step::Sent(_) => {}
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
    // In the order, the changes of owner of each space are as they happened: allocations and frees
    // alternate, and no two blocks overlap.
    let mut last = [0; 2];
    for (_, spaces) in &order {
        for &(space, number) in *spaces {
            assert_eq!(number, last[space] + 1, "space {space} in wrong order");
            last[space] = number;
        }
    }
    // An event that happened before another is before it in the order.
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
            assert!(earlier.iter().all(|key| *key < this), "{this:?} precedes its cause");
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
        let unowned = || AtomicU64::new(word(0, WORKER));
        let shared = Arc::new(Shared {
            global: unowned(),
            regions: std::array::from_fn(|_| unowned()),
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
/// The first thread joins the region while the second thread joins it, and again after that.
const TWO_IN_ONE: &[&[Op]] = &[&[Take(X), Take(Y)], &[Take(Y), Free(Y)]];
/// The first thread joins between the other two.
const THREE_IN_ONE: &[&[Op]] = &[&[Take(X)], &[Take(Y), Free(Y), Take(Y)], &[Take(Y), Free(Y)]];
const THREE_OVERLAP: &[&[Op]] =
    &[&[Take(X), Free(X)], &[Take(BIG), Free(BIG)], &[Take(Y), Free(Y)]];
/// The second thread passes on a message without an event of its own in between.
const MESSAGES: &[&[Op]] =
    &[&[Own, Own, Send(0)], &[Own, Receive(0), Send(1)], &[Own, Receive(1), Own]];
const ANSWER: &[&[Op]] =
    &[&[Own, Send(0), Own, Receive(1), Own], &[Own, Receive(0), Own, Send(1), Own]];

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
fn memory_passed_on_with_the_global_clock() {
    scenario::<Real>("memory passed on, with the global clock", [3, 4], EXACT, PASS_ON);
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
    fn no_step_after_another_thread() {
        scenario::<NoStep>("-", [4, 4], ONE_REGION, PASS_ON);
    }

    #[test]
    #[should_panic(expected = "in wrong order")]
    fn only_the_first_region_joined() {
        let setting = Setting { first_region_only: true, ..TWO_REGIONS };
        scenario::<Real>("-", [4, 4], setting, OVERLAP);
    }

    #[test]
    #[should_panic(expected = "precedes its cause")]
    fn a_receiver_without_the_global_clock() {
        let setting = Setting { joins_global: [true, true, false], ..EXACT };
        scenario::<Real>("-", [3, 3], setting, MESSAGES);
    }
}
