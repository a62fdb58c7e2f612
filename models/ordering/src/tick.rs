//! The worker's tick, and stopping, against threads in the hook: `world.rs`, `places.rs`, `state.rs`
//! and the order of steps in `write/mod.rs`, written down again.
//!
//! # The barrier
//! The worker has the system run a barrier on every thread (`membarrier`), and the hook has none
//! of its own. Both ways of it are modelled:
//! - *Points*, as `membarrier` works: it hits each thread somewhere in its program, at a point
//!   behind the worker's call and before its return. What the thread did before is seen by the
//!   worker after; what the worker did before is seen by the thread after; nothing else is ordered.
//!   So at one point of its program the thread waits for the worker's call (acquire), and says that
//!   it was there (release), which the worker waits for. Every point between two accesses is tried.
//! - *Fences* on both sides, sequentially consistent: what runs where the system has no
//!   `membarrier`. If the thread's fence comes first in the order of fences, the worker sees its
//!   guard, and if the worker's does, the thread sees its world: as with a point behind the store
//!   of the guard, or before it. But in passing, a fence orders more than a point: a thread's
//!   earlier stores before its later ones. That is why there are points.

use crate::explore;
use crate::rules::{AtomicU64, Real, Rules, WORKER, epoch, order, owner, word};
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicUsize, fence};

const OUT: usize = 0;
const IN: usize = 1;
const WAITING: usize = 2;

/// What a slot's pointer points to: the world's word, or the thread's own stamp.
const WORLD: usize = 0;
const OWN: usize = 1;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The guards are read before the barrier.
    GuardBeforeBarrier,
    /// Leases are not ended, and threads that have one not told apart.
    LeasesGoOn,
    /// Leases are ended, but a thread that has given itself one since is not noticed.
    LeaseSinceNotSeen,
    /// In stopping, such a lease is ended, but without another barrier.
    NoSecondBarrier,
}

#[derive(Clone, Copy)]
enum Op {
    /// An event in this region.
    Event(usize),
    /// The same; if the thread meets others in the world for it, it gets a lease.
    Lease(usize),
    /// The second half of a reallocation: the thread was inside all the time, waiting in between.
    Realloc(usize),
}
use Op::{Event, Lease, Realloc};

struct Slot {
    guard: AtomicUsize,
    stamp: AtomicU64,
    world: AtomicUsize,
    /// How many events are committed.
    cursor: AtomicUsize,
    /// At how many of its points the thread has been.
    passed: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Barrier {
    Fences,
    /// Of each thread, how many points come before the one where the barrier hits it. One
    /// barrier only; more are modelled by fences.
    Points([usize; 2]),
}

/// A thread of the program, between its steps.
struct Hook<'a> {
    shared: &'a Shared,
    slot: &'a Slot,
    /// Points until the next barrier's; `None` if that is past.
    until: Option<usize>,
    /// Barriers that have hit the thread.
    passed: usize,
    events: Vec<u64>,
}

impl Hook<'_> {
    /// Between two accesses.
    fn point(&mut self) {
        match self.until {
            Some(0) => {
                self.passed += 1;
                while self.shared.called.load(Acquire) < self.passed {
                    loom::thread::yield_now();
                }
                self.slot.passed.store(self.passed, Release);
                self.until = None;
            }
            Some(left) => self.until = Some(left - 1),
            None => {}
        }
    }

    fn set_guard(&mut self) {
        self.point();
        self.slot.guard.store(IN, Relaxed);
        match self.shared.barrier {
            Barrier::Fences => fence(SeqCst),
            Barrier::Points(_) => self.point(),
        }
    }
}

struct Shared {
    barrier: Barrier,
    /// How often the worker has called the barrier.
    called: AtomicUsize,
    world: AtomicU64,
    /// `STATE`: 1 while events are recorded. Looked at where the worker stops only.
    state: AtomicUsize,
    stops: bool,
    regions: [AtomicU64; 2],
    slots: [Slot; 2],
}

/// Runs in a thread of the program; returns the epochs of its events.
fn program(shared: &Shared, number: usize, script: &[Op]) -> Vec<u64> {
    let until = match shared.barrier {
        Barrier::Points(points) => Some(points[number]),
        Barrier::Fences => None,
    };
    let mut hook =
        Hook { shared, slot: &shared.slots[number], until, passed: 0, events: Vec::new() };
    for op in script {
        // `write::enter`
        hook.set_guard();
        match *op {
            Event(region) => hook.event(region, false),
            Lease(region) => hook.event(region, true),
            Realloc(region) => {
                hook.event(region, false);
                hook.slot.guard.store(WAITING, Release);
                hook.set_guard();
                hook.event(region, false);
            }
        }
        // `write::leave`
        hook.slot.guard.store(OUT, Release);
    }
    // At the latest when it is done.
    while hook.until.is_some() {
        hook.until = Some(0);
        hook.point();
    }
    hook.events
}

impl Hook<'_> {
    fn event(&mut self, region: usize, wants_lease: bool) {
        let (shared, slot) = (self.shared, self.slot);
        let region = &shared.regions[region];
        let mut stamp = slot.stamp.load(Relaxed);
        // `places::is_here`
        let leased = slot.world.load(Relaxed) == OWN;
        self.point();
        let found = if leased { slot.stamp.load(Relaxed) } else { shared.world.load(Relaxed) };
        self.point();
        if found != stamp || region.load(Relaxed) != stamp {
            // `places::come`
            self.point();
            if shared.stops {
                let stop = shared.world.load(Relaxed) & order::STOP != 0;
                self.point();
                // `state::goes_on`
                if stop && shared.state.load(Acquire) == 0 {
                    return;
                }
            }
            let leased = slot.world.load(Relaxed) == OWN;
            self.point();
            let places = [region, &shared.world];
            stamp = Real::meet(if leased { &places[..1] } else { &places }, stamp);
            self.point();
            slot.stamp.store(stamp, Release);
            self.point();
            if !leased && wants_lease {
                slot.world.store(OWN, Relaxed);
                self.point();
            }
        }
        self.events.push(epoch(stamp));
        // `Slot::commit`
        slot.cursor.store(self.events.len(), Release);
        self.point();
    }
}

/// `places::revoke_lease`
fn revoke_lease(slot: &Slot) {
    if slot.world.load(Relaxed) == OWN {
        slot.world.store(WORLD, Relaxed);
    }
}

/// `state::barrier`, the worker's so many-th.
fn barrier(shared: &Shared, number: usize) {
    match shared.barrier {
        Barrier::Fences => fence(SeqCst),
        Barrier::Points(_) => {
            shared.called.store(number, Release);
            for slot in &shared.slots {
                while slot.passed.load(Acquire) < number {
                    loom::thread::yield_now();
                }
            }
        }
    }
}

struct Tick {
    epoch: u64,
    bound: u64,
    /// What the worker found committed after it had the bound.
    cursors: [usize; 2],
}

/// `World::tick`, with one look at everything, then `Session::read_cursors`.
fn tick(shared: &Shared, fault: Fault) -> Tick {
    let stamps = || shared.slots.iter().map(|slot| epoch(slot.stamp.load(Relaxed)));
    let now = order::tick(&shared.world, stamps().max().unwrap_or(0));
    if fault != Fault::LeasesGoOn {
        shared.slots.iter().for_each(revoke_lease);
    }
    let look = |slot: &Slot| {
        let outside = slot.guard.load(Acquire) != IN;
        let tells = matches!(fault, Fault::LeasesGoOn | Fault::LeaseSinceNotSeen);
        if outside && (tells || slot.world.load(Relaxed) == WORLD) {
            return now;
        }
        epoch(slot.stamp.load(Acquire)).saturating_sub(1).min(now)
    };
    let bound;
    if fault == Fault::GuardBeforeBarrier {
        bound = shared.slots.iter().map(look).min().unwrap_or(now);
        barrier(shared, 1);
    } else {
        barrier(shared, 1);
        bound = shared.slots.iter().map(look).min().unwrap_or(now);
    }
    let cursors = [0, 1].map(|slot: usize| shared.slots[slot].cursor.load(Acquire));
    Tick { epoch: now, bound, cursors }
}

/// `state::pause`: `false` if a thread is inside the hook for too long. With points,
/// executions that need a second barrier end here, unchecked.
fn pause(shared: &Shared, fault: Fault) -> bool {
    shared.state.store(0, SeqCst);
    shared.world.fetch_or(order::STOP, SeqCst);
    shared.slots.iter().for_each(revoke_lease);
    barrier(shared, 1);
    let mut barriers = 1;
    shared.slots.iter().all(|slot| {
        for _ in 0..3 {
            if slot.guard.load(Acquire) == OUT {
                let leased = slot.world.load(Relaxed) == OWN;
                if !leased || fault == Fault::LeaseSinceNotSeen {
                    return true;
                }
                revoke_lease(slot);
                if fault != Fault::NoSecondBarrier {
                    barriers += 1;
                    if matches!(shared.barrier, Barrier::Points(_)) && barriers > 1 {
                        return false;
                    }
                    barrier(shared, barriers);
                }
            }
            loom::thread::yield_now();
        }
        false
    })
}

#[derive(Clone, Copy)]
struct Scenario {
    scripts: [&'static [Op]; 2],
    /// The epochs in which the threads begin, with leases and both at region 0.
    leased_at: Option<[u64; 2]>,
    fault: Fault,
    barrier: Barrier,
}

impl Scenario {
    fn begin(self, stops: bool) -> Shared {
        let start = self.leased_at.unwrap_or([0; 2]);
        let last = if self.leased_at.is_some() { word(start[1], 2) } else { 0 };
        let slots = [0, 1].map(|number| Slot {
            guard: AtomicUsize::new(OUT),
            stamp: AtomicU64::new(word(start[number], number as u64 + 1)),
            world: AtomicUsize::new(if self.leased_at.is_some() { OWN } else { WORLD }),
            cursor: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        });
        Shared {
            barrier: self.barrier,
            called: AtomicUsize::new(0),
            world: AtomicU64::new(0),
            state: AtomicUsize::new(1),
            stops,
            regions: [AtomicU64::new(last), AtomicU64::new(0)],
            slots,
        }
    }

    /// The worker stops; then nothing is committed any more.
    fn explore_stop(self, name: &str, interruptions: [usize; 2]) {
        explore(name, interruptions, move || {
            let shared = Arc::new(self.begin(true));
            let thread = |number: usize| {
                let shared = shared.clone();
                loom::thread::spawn(move || program(&shared, number, self.scripts[number]))
            };
            let threads = [thread(0), thread(1)];
            let quiet = pause(&shared, self.fault);
            let seen = [0, 1].map(|slot: usize| shared.slots[slot].cursor.load(Acquire));
            let events = threads.map(|thread| thread.join().unwrap().len());
            assert!(!quiet || events == seen, "late: {events:?} events, {seen:?} at the stop");
        });
    }

    fn explore(
        self,
        name: &str,
        interruptions: [usize; 2],
        check: fn(&Shared, &[Tick], &[Vec<u64>]),
        ticks: usize,
    ) {
        explore(name, interruptions, move || {
            let shared = Arc::new(self.begin(false));
            let thread = |number: usize| {
                let shared = shared.clone();
                loom::thread::spawn(move || program(&shared, number, self.scripts[number]))
            };
            let threads = [thread(0), thread(1)];
            let ticks = (0..ticks).map(|_| tick(&shared, self.fault)).collect::<Vec<_>>();
            let events = threads.map(|thread| thread.join().unwrap());
            check(&shared, &ticks, &events);
        });
    }
}

/// Up to its bound, the worker has seen every event that will ever be.
fn nothing_comes_late(_: &Shared, ticks: &[Tick], events: &[Vec<u64>]) {
    for tick in ticks {
        for (events, &seen) in events.iter().zip(&tick.cursors) {
            let due = events.iter().filter(|epoch| **epoch <= tick.bound).count();
            assert!(due <= seen, "late: {due} events up to the bound, {seen} seen");
        }
    }
}

/// If the worker, in its next tick, takes the quick way, it leaves nothing behind: all that is
/// committed is within the bound. The quick way asks whether anyone came to the world, and whether
/// a thread is in an epoch behind the worker's.
fn quiet_means_done(shared: &Shared, ticks: &[Tick], events: &[Vec<u64>]) {
    let epochs = shared.slots.iter().map(|slot| epoch(slot.stamp.load(Relaxed)));
    if epochs.max() <= ticks.last().map(|tick| tick.epoch) {
        quiet_by_world_means_done(shared, ticks, events);
    }
}

/// The same, as if it asked only whether anyone came to the world.
fn quiet_by_world_means_done(shared: &Shared, ticks: &[Tick], events: &[Vec<u64>]) {
    let last = ticks.last().unwrap();
    if last.bound == last.epoch && owner(shared.world.load(Acquire)) == WORKER {
        let all = events.iter().flatten().all(|epoch| *epoch <= last.bound);
        assert!(all, "left behind while quiet");
    }
}

const EXACT: Scenario = Scenario {
    scripts: [&[Event(0), Event(0)], &[Event(0), Event(1)]],
    leased_at: None,
    fault: Fault::None,
    barrier: Barrier::Fences,
};
const REALLOC: Scenario = Scenario { scripts: [&[Realloc(0)], &[Event(0)]], ..EXACT };
const LEASES: Scenario =
    Scenario { scripts: [&[Event(0), Event(0)], &[Event(0)]], leased_at: Some([1, 2]), ..EXACT };
const NEW_LEASES: Scenario =
    Scenario { scripts: [&[Lease(0), Event(0)], &[Lease(0), Event(0)]], ..EXACT };
const STOP: Scenario = Scenario { scripts: [&[Lease(0), Event(0), Event(0)], &[]], ..EXACT };
const STOP_TWO: Scenario =
    Scenario { scripts: [&[Lease(0), Event(0)], &[Lease(0), Event(0)]], ..EXACT };
const STOP_LEASED: Scenario =
    Scenario { scripts: [&[Event(0), Event(0)], &[Event(0)]], leased_at: Some([1, 2]), ..EXACT };
const ONE_NEW_LEASE: Scenario = Scenario { scripts: [&[Lease(0), Event(0)], &[]], ..EXACT };

/// The barrier hits the threads at every point of their programs.
fn at_every_point(name: &str, scenario: Scenario, interruptions: [usize; 2], points: [usize; 2]) {
    for first in 0..=points[0] {
        for second in 0..=points[1] {
            let points = [first, second];
            Scenario { barrier: Barrier::Points(points), ..scenario }.explore(
                &format!("{name}, barrier at {first}, {second}"),
                interruptions,
                nothing_comes_late,
                1,
            );
        }
    }
}

#[test]
fn one_thread_and_the_barrier_at_every_point() {
    let last = if crate::is_full() { 20 } else { 9 };
    at_every_point("new lease", ONE_NEW_LEASE, [1, 1], [last, 0]);
}

#[test]
fn two_threads_and_the_barrier_at_every_point_of_one() {
    if crate::is_full() {
        const SCRIPTS: [&[Op]; 2] = [&[Event(0)], &[Event(0)]];
        at_every_point("leases", Scenario { scripts: SCRIPTS, ..LEASES }, [1, 1], [9, 0]);
    }
}

#[test]
fn threads_without_leases() {
    EXACT.explore("tick, no leases", [2, 2], nothing_comes_late, 1);
}

#[test]
fn two_ticks() {
    EXACT.explore("two ticks, no leases", [1, 1], nothing_comes_late, 2);
}

#[test]
fn a_thread_inside_a_reallocation() {
    REALLOC.explore("tick, reallocation", [1, 2], nothing_comes_late, 1);
}

#[test]
fn threads_with_leases() {
    LEASES.explore("tick, leases", [1, 2], nothing_comes_late, 1);
}

#[test]
fn threads_that_get_leases_meanwhile() {
    NEW_LEASES.explore("tick, new leases", [2, 2], nothing_comes_late, 1);
}

#[test]
fn quiet() {
    LEASES.explore("quiet", [1, 2], quiet_means_done, 1);
}

#[test]
fn stopping_one_that_gets_a_lease() {
    STOP.explore_stop("stop, new lease", [2, 3]);
}

#[test]
fn stopping_two_that_get_leases() {
    STOP_TWO.explore_stop("stop, two new leases", [1, 2]);
}

#[test]
fn stopping_two_that_have_leases() {
    STOP_LEASED.explore_stop("stop, leases", [1, 2]);
}

#[test]
fn stopping_one_and_the_barrier_at_every_point() {
    for point in 0..=if crate::is_full() { 24 } else { 12 } {
        Scenario { barrier: Barrier::Points([point, 0]), ..STOP }
            .explore_stop(&format!("stop, barrier at {point}"), [1, 1]);
    }
}

mod planted {
    use super::*;

    #[test]
    #[should_panic(expected = "late")]
    fn guards_before_the_barrier() {
        Scenario { fault: Fault::GuardBeforeBarrier, ..EXACT }.explore(
            "-",
            [2, 2],
            nothing_comes_late,
            1,
        );
    }

    #[test]
    #[should_panic(expected = "late")]
    fn leases_that_go_on() {
        Scenario { fault: Fault::LeasesGoOn, ..LEASES }.explore("-", [2, 2], nothing_comes_late, 1);
    }

    #[test]
    #[should_panic(expected = "late")]
    fn leases_taken_since_not_seen() {
        Scenario { fault: Fault::LeaseSinceNotSeen, ..ONE_NEW_LEASE }.explore(
            "-",
            [3, 3],
            nothing_comes_late,
            1,
        );
    }

    #[test]
    #[should_panic(expected = "left behind while quiet")]
    fn quiet_without_asking_for_epochs() {
        LEASES.explore("-", [2, 2], quiet_by_world_means_done, 1);
    }

    #[test]
    #[should_panic(expected = "late")]
    fn stopping_without_a_look_for_new_leases() {
        Scenario { fault: Fault::LeaseSinceNotSeen, ..STOP }.explore_stop("-", [3, 3]);
    }

    #[test]
    #[should_panic(expected = "late")]
    fn stopping_without_a_second_barrier() {
        Scenario { fault: Fault::NoSecondBarrier, ..STOP }.explore_stop("-", [3, 3]);
    }
}
