//! The worker's cycle, and stopping, against threads in the hook: a copy of `watermark.rs`,
//! `sync.rs`, `slot.rs`, `quiesce.rs` and the order of steps in `enter.rs`.
//!
//! # The barrier
//! The worker makes the system run a barrier on every thread (`membarrier`); the hook has none of
//! its own. The model has both forms of it:
//! - *Points*, as `membarrier` works: it interrupts each thread at some point of the thread's
//!   program, after the worker has called it and before the call returns. The worker then sees what
//!   the thread did before the point; after the point, the thread sees what the worker did before
//!   the call; nothing else is ordered. So at one point of its program the thread waits for the
//!   worker's call (acquire) and confirms it (release); the worker waits for the confirmation.
//!   Every point between two accesses is tried.
//! - *Fences* on both sides, sequentially consistent, which run where the system has no
//!   `membarrier`. If the thread's fence is first in the order of fences, the worker sees its
//!   guard, as with a point after the store of the guard. If the worker's fence is first, the
//!   thread sees the global clock, as with a point before that store. But a fence also orders a
//!   thread's earlier stores before its later ones, which a point does not.

use crate::explore;
use crate::rules::{AtomicU64, Real, Rules, WORKER, epoch, order, owner, word};
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicUsize, fence};

const OUT: usize = 0;
const IN: usize = 1;
const WAITING: usize = 2;

/// The targets of a slot's pointer: the global clock, or the thread's own stamp.
const GLOBAL: usize = 0;
const OWN: usize = 1;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The guards are read before the barrier.
    GuardBeforeBarrier,
    /// Leases are not revoked, and threads with a lease are treated like others.
    LeasesContinue,
    /// Leases are revoked, but a thread that has taken one since is not noticed.
    LeaseSinceNotSeen,
    /// When recording stops, such a lease is revoked, but without another barrier.
    NoSecondBarrier,
}

#[derive(Clone, Copy)]
enum Op {
    /// An event in this region.
    Event(usize),
    /// An event in this region. If the thread joins the global clock for it, it gets a lease.
    Lease(usize),
    /// A reallocation: an event for each half. The thread stays inside the hook, and waits between
    /// the two halves.
    Realloc(usize),
}
use Op::{Event, Lease, Realloc};

struct Slot {
    guard: AtomicUsize,
    stamp: AtomicU64,
    global: AtomicUsize,
    /// How many events are committed.
    cursor: AtomicUsize,
    /// How many barriers have interrupted the thread.
    passed: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Barrier {
    Fences,
    /// For each thread, the number of points before the one where the barrier interrupts it. It
    /// models one barrier only; fences also model later ones.
    Points([usize; 2]),
}

/// A thread of the program, between its steps.
struct Hook<'a> {
    shared: &'a Shared,
    slot: &'a Slot,
    /// Points until the barrier's; `None` after that.
    until: Option<usize>,
    /// Barriers that have interrupted the thread.
    passed: usize,
    events: Vec<u64>,
}

impl Hook<'_> {
    /// A point between two accesses, at which the barrier may interrupt the thread.
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
    global: AtomicU64,
    /// `STATE`: 1 while events are recorded. It is read only if the worker stops.
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
    // The barrier interrupts the thread at its end at the latest.
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
        // `sync::is_current`
        let leased = slot.global.load(Relaxed) == OWN;
        self.point();
        let found = if leased { slot.stamp.load(Relaxed) } else { shared.global.load(Relaxed) };
        self.point();
        if found != stamp || region.load(Relaxed) != stamp {
            // `sync::synchronize`
            self.point();
            if shared.stops {
                let stop = shared.global.load(Relaxed) & order::STOP != 0;
                self.point();
                // `state::is_recorded`. Not here: `hold::wait`, where a thread waits until a fork is over.
                if stop && shared.state.load(Acquire) == 0 {
                    return;
                }
            }
            let leased = slot.global.load(Relaxed) == OWN;
            self.point();
            let clocks = [region, &shared.global];
            stamp = Real::join(if leased { &clocks[..1] } else { &clocks }, stamp);
            self.point();
            slot.stamp.store(stamp, Release);
            self.point();
            if !leased && wants_lease {
                slot.global.store(OWN, Relaxed);
                self.point();
            }
        }
        self.events.push(epoch(stamp));
        // `ThreadSlot::commit`
        slot.cursor.store(self.events.len(), Release);
        self.point();
    }
}

/// `ThreadSlot::revoke_lease`
fn revoke_lease(slot: &Slot) {
    if slot.global.load(Relaxed) == OWN {
        slot.global.store(GLOBAL, Relaxed);
    }
}

/// `quiesce::barrier`: the worker's barrier with this number, counted from 1.
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

struct Cycle {
    epoch: u64,
    watermark: u64,
    /// The number of committed events of each thread, read after the worker has advanced the
    /// watermark.
    cursors: [usize; 2],
}

/// `Watermark::advance` with one look at every thread, then `Threads::read_cursors`.
fn cycle(shared: &Shared, fault: Fault) -> Cycle {
    let stamps = || shared.slots.iter().map(|slot| epoch(slot.stamp.load(Relaxed)));
    let now = order::begin_cycle(&shared.global, stamps().max().unwrap_or(0));
    if fault != Fault::LeasesContinue {
        shared.slots.iter().for_each(revoke_lease);
    }
    let look = |slot: &Slot| {
        let outside = slot.guard.load(Acquire) != IN;
        let ignores = matches!(fault, Fault::LeasesContinue | Fault::LeaseSinceNotSeen);
        if outside && (ignores || slot.global.load(Relaxed) == GLOBAL) {
            return now;
        }
        epoch(slot.stamp.load(Acquire)).saturating_sub(1).min(now)
    };
    let watermark;
    if fault == Fault::GuardBeforeBarrier {
        watermark = shared.slots.iter().map(look).min().unwrap_or(now);
        barrier(shared, 1);
    } else {
        barrier(shared, 1);
        watermark = shared.slots.iter().map(look).min().unwrap_or(now);
    }
    let cursors = [0, 1].map(|slot: usize| shared.slots[slot].cursor.load(Acquire));
    Cycle { epoch: now, watermark, cursors }
}

/// `quiesce::pause`: `false` if a thread is inside the hook for too long. With points, executions
/// that need a second barrier end here, unchecked.
fn pause(shared: &Shared, fault: Fault) -> bool {
    shared.state.store(0, SeqCst);
    shared.global.fetch_or(order::STOP, SeqCst);
    shared.slots.iter().for_each(revoke_lease);
    barrier(shared, 1);
    let mut barriers = 1;
    shared.slots.iter().all(|slot| {
        for _ in 0..3 {
            if slot.guard.load(Acquire) == OUT {
                let leased = slot.global.load(Relaxed) == OWN;
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
    /// The first epochs of the threads, if they begin with leases. Both have then joined region 0.
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
            global: AtomicUsize::new(if self.leased_at.is_some() { OWN } else { GLOBAL }),
            cursor: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        });
        Shared {
            barrier: self.barrier,
            called: AtomicUsize::new(0),
            global: AtomicU64::new(0),
            state: AtomicUsize::new(1),
            stops,
            regions: [AtomicU64::new(last), AtomicU64::new(0)],
            slots,
        }
    }

    /// The worker stops; after that no event is committed.
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
        check: fn(&Shared, &[Cycle], &[Vec<u64>]),
        cycles: usize,
    ) {
        explore(name, interruptions, move || {
            let shared = Arc::new(self.begin(false));
            let thread = |number: usize| {
                let shared = shared.clone();
                loom::thread::spawn(move || program(&shared, number, self.scripts[number]))
            };
            let threads = [thread(0), thread(1)];
            let cycles = (0..cycles).map(|_| cycle(&shared, self.fault)).collect::<Vec<_>>();
            let events = threads.map(|thread| thread.join().unwrap());
            check(&shared, &cycles, &events);
        });
    }
}

/// Checks that no event with an epoch up to the watermark is committed after the worker has read
/// the cursors.
fn nothing_comes_late(_: &Shared, cycles: &[Cycle], events: &[Vec<u64>]) {
    for cycle in cycles {
        for (events, &seen) in events.iter().zip(&cycle.cursors) {
            let due = events.iter().filter(|epoch| **epoch <= cycle.watermark).count();
            assert!(due <= seen, "late: {due} events up to the watermark, {seen} seen");
        }
    }
}

/// Checks that all committed events are within the watermark if the worker takes the fast path in
/// its next cycle. The fast path checks whether a thread has joined the global clock, and whether a
/// thread is in an epoch after the worker's.
fn quiet_means_done(shared: &Shared, cycles: &[Cycle], events: &[Vec<u64>]) {
    let epochs = shared.slots.iter().map(|slot| epoch(slot.stamp.load(Relaxed)));
    if epochs.max() <= cycles.last().map(|cycle| cycle.epoch) {
        quiet_by_global_clock_means_done(shared, cycles, events);
    }
}

/// The same check, as if the fast path checked only whether a thread has joined the global clock.
fn quiet_by_global_clock_means_done(shared: &Shared, cycles: &[Cycle], events: &[Vec<u64>]) {
    let last = cycles.last().unwrap();
    if last.watermark == last.epoch && owner(shared.global.load(Acquire)) == WORKER {
        let all = events.iter().flatten().all(|epoch| *epoch <= last.watermark);
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

/// The barrier interrupts the threads at every point of their programs.
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
    EXACT.explore("cycle, no leases", [2, 2], nothing_comes_late, 1);
}

#[test]
fn two_cycles() {
    EXACT.explore("two cycles, no leases", [1, 1], nothing_comes_late, 2);
}

#[test]
fn a_thread_inside_a_reallocation() {
    REALLOC.explore("cycle, reallocation", [1, 2], nothing_comes_late, 1);
}

#[test]
fn threads_with_leases() {
    LEASES.explore("cycle, leases", [1, 2], nothing_comes_late, 1);
}

#[test]
fn threads_that_take_leases_meanwhile() {
    NEW_LEASES.explore("cycle, new leases", [2, 2], nothing_comes_late, 1);
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
    // The points from 6 on take twice as long each as all before.
    for point in 0..=if crate::is_full() { 24 } else { 5 } {
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
    fn leases_that_continue() {
        Scenario { fault: Fault::LeasesContinue, ..LEASES }.explore(
            "-",
            [2, 2],
            nothing_comes_late,
            1,
        );
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
    fn quiet_without_checking_epochs() {
        LEASES.explore("-", [2, 2], quiet_by_global_clock_means_done, 1);
    }

    #[test]
    #[should_panic(expected = "late")]
    fn stopping_without_a_check_for_new_leases() {
        Scenario { fault: Fault::LeaseSinceNotSeen, ..STOP }.explore_stop("-", [3, 3]);
    }

    #[test]
    #[should_panic(expected = "late")]
    fn stopping_without_a_second_barrier() {
        Scenario { fault: Fault::NoSecondBarrier, ..STOP }.explore_stop("-", [3, 3]);
    }
}
