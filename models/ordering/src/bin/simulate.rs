//! What the order of events costs at many cores: a simulation of the hook's accesses to shared
//! cache lines, one core a thread.
//!
//!     cargo run --release --bin simulate
//!
//! A core that has a line in the right state continues after [`HIT`]. Otherwise the line is
//! transferred from another core. Each line has one transfer at a time: other requests for it
//! queue. The simulation has no out-of-order execution, which hides part of a transfer, and no
//! lines of the allocator's own, which have the same contention.

use order::{owner, word};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// The module that `order.rs` imports its atomics from. The simulation has one thread, so it uses
/// the real atomics.
mod atomic {
    pub use std::sync::atomic::{AtomicU64, Ordering};
}
#[allow(dead_code, reason = "not all of it is simulated")]
#[path = "../../../../src/trace/write/order.rs"]
mod order;

/// In tenths of a nanosecond.
const HIT: u64 = 10;
/// Cores that share a cache.
const COMPLEX: usize = 8;
/// Events of each core before the measurement, and in it.
const WARM_UP: u64 = 2_000;
const MEASURED: u64 = 2_000;

/// In tenths of a nanosecond.
#[derive(Clone, Copy)]
struct Costs {
    /// The program and the rest of the hook, per event.
    private: u64,
    /// A line from another core of the same complex, and of another.
    near: u64,
    far: u64,
}

/// A server of many cores.
const SERVER: Costs = Costs { private: 60, near: 200, far: 900 };
/// The machine that the tracker is measured on, whose two cores share their first cache.
const SIBLINGS: Costs = Costs { private: 42, near: 85, far: 85 };

/// The leases, as in `sync.rs`, but in events.
#[derive(Clone, Copy)]
struct Leases {
    /// Tenths of nanoseconds.
    near: u64,
    hot: u32,
    /// The least, those for each epoch, and the most.
    events: [u64; 3],
}

/// Bytes of an event, on average with the context around it.
const EVENT: u64 = 18;

/// The value of a constant of `sync.rs`, so that the simulation uses the tracker's own values.
fn constant(name: &str) -> &'static str {
    let source = include_str!("../../../../src/trace/write/sync.rs");
    let line = source.lines().find(|line| line.starts_with(&format!("const {name}:")));
    let value = line.and_then(|line| line.split_once(" = ")).expect("sync.rs has the constant").1;
    value.trim_end_matches(';')
}

fn number(text: &str) -> u64 {
    let text = text.trim().replace('_', "");
    match text.split_once("<<") {
        Some((factor, shift)) => number(factor) << number(shift),
        None => text.parse().expect("a plain number"),
    }
}

impl Leases {
    fn as_they_are() -> Self {
        let bytes = constant("LEASE_BYTES").trim_matches(['[', ']']).split(',').map(number);
        let bytes = bytes.collect::<Vec<_>>();
        Self {
            near: number(constant("NEAR_NANOS")) * 10,
            hot: number(constant("JOINS_BEFORE_LEASE")) as u32,
            events: [0, 1, 2].map(|index: usize| bytes[index] / EVENT),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Nothing,
    OneCounter,
    CounterPerRegion,
    Ours,
    OursWithoutLeases,
}

#[derive(Clone, Copy)]
enum Workload {
    /// Each thread uses its own arena.
    Private,
    /// This percentage of the events concerns the partner's arena.
    Pairs(u64),
    /// All threads use one arena.
    Shared,
    /// The two threads of a pair record one event each in turn, each in its own arena.
    Turns,
    /// Each thread uses its own arena, with 2 µs of other work between events.
    Seldom,
}

/// A cache line: which cores may read it, and when it is free for the next transfer.
#[derive(Default, Clone)]
struct Line {
    holders: HashSet<usize>,
    exclusive: bool,
    last: usize,
    free_at: u64,
}

impl Line {
    /// The time at which an access of `core` that begins at `now` is done.
    fn access(&mut self, core: usize, now: u64, writes: bool, costs: Costs) -> u64 {
        let has = self.holders.contains(&core);
        if has && (!writes || self.exclusive) {
            return now + HIT;
        }
        let from = self.last;
        let cost = if from / COMPLEX == core / COMPLEX { costs.near } else { costs.far };
        let start = now.max(self.free_at);
        self.free_at = start + cost;
        if writes {
            self.holders.clear();
            self.exclusive = true;
        } else {
            self.exclusive = false;
        }
        self.holders.insert(core);
        self.last = core;
        start + cost
    }
}

struct Core {
    stamp: u64,
    /// Events left in the lease.
    lease: u64,
    heat: u32,
    met_at: u64,
    random: u64,
    /// The rest of the event, one access at a time: accesses of other cores happen in between.
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    Begin,
    /// Joins the region clock, then the global clock if it must.
    Region(usize),
    JoinRegion(usize, u64),
    JoinGlobal(usize, u64),
}

struct Simulation {
    costs: Costs,
    scheme: Scheme,
    leases: Leases,
    workload: Workload,
    cores: Vec<Core>,
    /// The global clock (or the one counter), then a region clock for each core.
    lines: Vec<Line>,
    words: Vec<AtomicU64>,
    events: u64,
    /// For each pair, which of its two cores has its turn.
    turns: Vec<usize>,
}

const GLOBAL: usize = 0;

impl Simulation {
    fn run(costs: Costs, scheme: Scheme, leases: Leases, workload: Workload, count: usize) -> f64 {
        let core = |number: usize| Core {
            stamp: word(0, number as u64 + 1),
            lease: 0,
            heat: 0,
            met_at: 0,
            random: number as u64 * 0x9e37_79b9_7f4a_7c15 + 1,
            phase: Phase::Begin,
        };
        let mut simulation = Self {
            costs,
            scheme,
            leases,
            workload,
            cores: (0..count).map(core).collect(),
            lines: vec![Line::default(); count + 1],
            words: (0..=count).map(|_| AtomicU64::new(0)).collect(),
            events: 0,
            turns: vec![0; count.div_ceil(2)],
        };
        let mut queue =
            (0..count).map(|core| Reverse((core as u64, core))).collect::<BinaryHeap<_>>();
        let mut from = None;
        let count = count as u64;
        while let Some(Reverse((now, core))) = queue.pop() {
            queue.push(Reverse((simulation.step(core, now), core)));
            if from.is_none() && simulation.events >= WARM_UP * count {
                from = Some(now);
            }
            if simulation.events >= (WARM_UP + MEASURED) * count {
                return (now - from.unwrap_or(0)) as f64 / 10.0 / MEASURED as f64;
            }
        }
        unreachable!("cores never rest");
    }

    fn region(&mut self, core: usize) -> usize {
        let count = self.cores.len();
        let random = &mut self.cores[core].random;
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let partner = if core ^ 1 < count { core ^ 1 } else { core };
        1 + match self.workload {
            Workload::Pairs(percent) if *random % 100 < percent => partner,
            Workload::Shared => 0,
            _ => core,
        }
    }

    /// One access of the core; returns when it is done.
    fn step(&mut self, core: usize, now: u64) -> u64 {
        match self.cores[core].phase {
            Phase::Begin => {
                let paired = core ^ 1 < self.cores.len();
                if matches!(self.workload, Workload::Turns)
                    && paired
                    && self.turns[core / 2] != core & 1
                {
                    // The core checks again after 5 ns.
                    return now + 50;
                }
                let region = self.region(core);
                // The work is up to a tenth longer or shorter, so that cores do not run in step.
                let jitter = self.cores[core].random >> 40;
                let work = if matches!(self.workload, Workload::Seldom) {
                    20_000
                } else {
                    self.costs.private
                };
                self.cores[core].phase = Phase::Region(region);
                now + work * 9 / 10 + jitter % (work / 5)
            }
            Phase::Region(region) => self.look(core, region, now),
            Phase::JoinRegion(region, global) => {
                let leased = self.cores[core].lease > 0;
                let done = self.stamp(core, &[region], leased, now);
                if leased {
                    self.end(core, now);
                } else {
                    self.cores[core].phase = Phase::JoinGlobal(region, global);
                }
                done
            }
            Phase::JoinGlobal(region, global) => {
                let before = self.cores[core].stamp;
                let done = self.stamp(core, &[region, GLOBAL], true, now);
                self.consider_lease(core, global, before, done);
                self.end(core, now);
                done
            }
        }
    }

    /// The fast path.
    fn look(&mut self, core: usize, region: usize, now: u64) -> u64 {
        match self.scheme {
            Scheme::Nothing => {
                self.end(core, now);
                now
            }
            Scheme::OneCounter | Scheme::CounterPerRegion => {
                let line = if self.scheme == Scheme::OneCounter { GLOBAL } else { region };
                self.end(core, now);
                self.lines[line].access(core, now, true, self.costs)
            }
            Scheme::Ours | Scheme::OursWithoutLeases => {
                let done = self.lines[region].access(core, now, false, self.costs);
                let leased = self.cores[core].lease > 0;
                // Both words are loaded at once; under a lease, the core loads its own stamp
                // instead of the global clock.
                let global_done = if leased {
                    now + HIT
                } else {
                    self.lines[GLOBAL].access(core, now, false, self.costs)
                };
                let done = done.max(global_done);
                let stamp = self.cores[core].stamp;
                let global = self.words[GLOBAL].load(Ordering::Relaxed);
                let here = self.words[region].load(Ordering::Relaxed) == stamp
                    && (leased || global == stamp);
                if here {
                    self.end(core, now);
                } else {
                    self.cores[core].phase = Phase::JoinRegion(region, global);
                }
                done
            }
        }
    }

    /// `order::join` of these clocks. If `joins` is false, this is only the first of two steps: the
    /// access to the line of the first clock.
    fn stamp(&mut self, core: usize, clocks: &[usize], joins: bool, now: u64) -> u64 {
        let mut done = now;
        if !joins {
            return self.lines[clocks[0]].access(core, done, true, self.costs);
        }
        for &clock in clocks {
            done = self.lines[clock].access(core, done, true, self.costs);
        }
        let words = clocks.iter().map(|&clock| &self.words[clock]);
        self.cores[core].stamp = order::join(words, self.cores[core].stamp);
        done
    }

    /// As in `sync.rs`.
    fn consider_lease(&mut self, core: usize, global: u64, before: u64, now: u64) {
        let leases = self.leases;
        let me = &mut self.cores[core];
        if self.scheme != Scheme::Ours || [order::WORKER, owner(before)].contains(&owner(global)) {
            return;
        }
        me.heat = if now.saturating_sub(me.met_at) < leases.near { me.heat + 1 } else { 0 };
        me.met_at = now;
        if me.heat >= leases.hot {
            let epochs = order::epoch(global).saturating_sub(order::epoch(before));
            let [least, each, most] = leases.events;
            me.heat = leases.hot;
            me.lease = (each * epochs.min(64)).clamp(least, most) + 1;
        }
    }

    fn end(&mut self, core: usize, now: u64) {
        self.turns[core / 2] = !core & 1;
        let me = &mut self.cores[core];
        self.events += 1;
        me.phase = Phase::Begin;
        if me.lease > 0 {
            me.lease -= 1;
            if me.lease == 0 {
                // As in `end_lease`: the time to the next join counts from here.
                me.met_at = now;
            }
        }
    }
}

fn main() {
    let now = Leases::as_they_are();
    let workloads = [
        ("own arenas", Workload::Private),
        ("10 % of the partner's", Workload::Pairs(10)),
        ("one arena", Workload::Shared),
        ("taking turns in pairs", Workload::Turns),
        ("own arenas, 2 µs of work", Workload::Seldom),
    ];
    let schemes = [
        ("one counter", Scheme::OneCounter),
        ("counter per region", Scheme::CounterPerRegion),
        ("epochs, no leases", Scheme::OursWithoutLeases),
        ("epochs and leases", Scheme::Ours),
    ];
    println!("Two cores that share their first cache, own arenas: ns per event beside nothing\n");
    let of = |scheme| Simulation::run(SIBLINGS, scheme, now, Workload::Private, 2);
    let nothing = of(Scheme::Nothing);
    for (name, scheme) in &schemes {
        println!("| {name} | {:.1} |", of(*scheme) - nothing);
    }
    println!("\nns per event and core\n");
    print!("| workload | scheme |");
    let counts = [1, 2, 8, 16, 64, 128];
    counts.iter().for_each(|count| print!(" {count} |"));
    println!("\n|---|---|{}", "---|".repeat(counts.len()));
    for (workload_name, workload) in workloads {
        for (scheme_name, scheme) in schemes {
            print!("| {workload_name} | {scheme_name} |");
            for count in counts {
                let each = Simulation::run(SERVER, scheme, now, workload, count);
                print!(" {each:.1} |");
            }
            println!();
        }
    }
}
