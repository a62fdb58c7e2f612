//! Two things in turn, every few bursts: what disturbs one disturbs the other. A burst's events fit
//! the tracker's buffers, which are emptied before it, untimed; what is taken is the CPU time of
//! the threads that run it. This is what `decisions.md` calls the hook cost.

use crate::clock::thread_time;
use crate::workload::{Calls, Workload};
use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use memledger::alloc_scope;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::alloc::GlobalAlloc;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::yield_now;
use std::time::Duration;

/// Iterations in a burst: the events of eight threads together fit the buffers, 8 MiB.
pub const BURST: u64 = 10_000;

/// Iterations before the clock is read: the first events after a pause go the slow way in.
pub const START: u64 = 16;

/// The scope of all allocations of a load, which separates them from the harness's in a report.
pub const SCOPE: &str = "measured";

/// How many threads the loads run on. More than the machine has cores is allowed, since CPU time is
/// taken: waiting is not in it.
pub const THREADS: [usize; 4] = [1, 2, 4, 8];

/// A burst of one thread: its number, the number of the lane's burst, and how many iterations.
pub type Lane<'a> = dyn Fn(usize, usize, u64) + Sync + 'a;

/// Threads that run bursts together. They are kept: a peer never gives the number of a thread away
/// again, and has only 512.
pub struct Team {
    threads: usize,
    /// None for one thread: that is the caller's.
    pool: Option<ThreadPool>,
    /// A thread that does what is not measured: on a measuring thread it would throw the load out
    /// of that core's caches, as the worker, which is a thread too, does not.
    aside: ThreadPool,
}

impl Team {
    /// Starts the threads.
    pub fn new(threads: usize) -> Self {
        let start = |threads| {
            ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started")
        };
        Self { threads, pool: (threads > 1).then(|| start(threads)), aside: start(1) }
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `job` on every thread, which is given its number.
    pub fn run(&self, job: impl Fn(usize) + Sync) {
        match &self.pool {
            None => job(0),
            Some(pool) => drop(pool.broadcast(|thread| job(thread.index()))),
        }
    }
}

/// Where threads wait for each other without sleeping, so that they go on at the same time.
#[derive(Default)]
struct Meeting(AtomicUsize);

impl Meeting {
    fn wait(&self, threads: usize) {
        let place = self.0.fetch_add(1, Ordering::AcqRel);
        let all = (place / threads + 1) * threads;
        let mut spins = 0;
        while self.0.load(Ordering::Acquire) < all {
            spins += 1;
            // With more threads than cores, those that are missing may need this very core.
            if spins < 2_000 { spin_loop() } else { yield_now() }
        }
    }
}

/// What a burst took, per iteration: of each round the mean over the threads.
#[derive(Default)]
pub struct Times {
    rounds: Vec<f64>,
}

impl Times {
    /// The median round, in nanoseconds.
    pub fn median(&mut self) -> f64 {
        self.rounds.sort_by(f64::total_cmp);
        self.rounds.get(self.rounds.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// A number of threads, as figures name it.
pub fn named(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// How often and how long.
#[derive(Clone, Copy)]
pub struct Plan {
    /// How often each lane has its turn.
    pub rounds: usize,
    /// Bursts in a turn. The first half is not timed: it brings the lane's memory into the caches.
    pub in_a_row: usize,
    /// Iterations in a burst.
    pub burst: u64,
}

impl Plan {
    /// Iterations that are timed in a round.
    fn timed(self) -> u64 {
        (self.in_a_row - self.in_a_row / 2) as u64 * self.burst
    }
}

/// Runs both lanes in turn, with `between` before each burst. Returns the time of the second: the
/// mean over the threads, all rounds together.
pub fn alternate(
    team: &Team,
    plan: Plan,
    between: &(dyn Fn() + Sync),
    lanes: [&Lane<'_>; 2],
    times: &mut [Times; 2],
) -> Duration {
    let threads = team.threads();
    let meeting = Meeting::default();
    let taken = Mutex::new(vec![[Duration::ZERO; 2]; plan.rounds]);
    let burst = |thread, run: &Lane<'_>, number| {
        meeting.wait(threads);
        if thread == 0 {
            team.aside.install(between);
        }
        meeting.wait(threads);
        alloc_scope!("measured", {
            run(thread, number, START);
            meeting.wait(threads);
            let start = thread_time();
            run(thread, number, plan.burst);
            thread_time() - start
        })
    };
    team.run(|thread| {
        for round in 0..plan.rounds {
            for (lane, run) in lanes.iter().enumerate() {
                let numbers = round * plan.in_a_row..(round + 1) * plan.in_a_row;
                let time = numbers
                    .map(|number| burst(thread, run, number))
                    .skip(plan.in_a_row / 2)
                    .sum::<Duration>();
                // No thread panics while it holds the lock, and locking is not timed.
                let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
                taken[round][lane] += time;
            }
        }
    });
    let mut total = Duration::ZERO;
    for taken in taken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        for (times, time) in times.iter_mut().zip(taken) {
            times.rounds.push(time.as_nanos() as f64 / (threads as u64 * plan.timed()) as f64);
        }
        total += taken[1] / threads as u32;
    }
    total
}

/// Two medians, in nanoseconds per iteration.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Of the yardstick.
    pub plain: f64,
    /// Of what is measured.
    pub ours: f64,
}

/// Measures the second lane with criterion, and the first along with it, `prepare` before them.
/// `None` if criterion was not asked for this one.
pub fn compare(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    team: &Team,
    (in_a_row, burst): (usize, u64),
    (prepare, between): (&dyn Fn(), &(dyn Fn() + Sync)),
    lanes: [&Lane<'_>; 2],
) -> Option<Compared> {
    let mut times = [Times::default(), Times::default()];
    group.bench_function(name, |b| {
        b.iter_custom(|iterations| {
            prepare();
            let mut plan = Plan { rounds: 1, in_a_row, burst };
            plan.rounds = iterations.div_ceil(plan.timed()) as usize;
            let time = alternate(team, plan, between, lanes, &mut times);
            time.mul_f64(iterations as f64 / (plan.rounds as u64 * plan.timed()) as f64)
        });
    });
    let [plain, ours] = times.map(|mut times| times.median());
    (!ours.is_nan()).then_some(Compared { plain, ours })
}

/// A load of each thread of a team, on one allocator.
pub struct Loads<'a, A, W> {
    allocator: &'a A,
    loads: Vec<Mutex<W>>,
}

impl<'a, A: GlobalAlloc + Sync, W: Workload> Loads<'a, A, W> {
    /// Made, but nothing allocated yet: criterion may not ask for it.
    pub fn new(allocator: &'a A, team: &Team, burst: u64) -> Self {
        let load = || Mutex::new(W::new(team.threads(), burst));
        Self { allocator, loads: std::iter::repeat_with(load).take(team.threads()).collect() }
    }

    /// One thread after the other, since `between` empties the buffers of all.
    pub fn fill(&self, between: &dyn Fn()) {
        for load in &self.loads {
            let mut load = load.lock().unwrap_or_else(PoisonError::into_inner);
            load.fill(self.allocator, between);
            between();
        }
    }

    /// A burst of one thread.
    pub fn run(&self, thread: usize, round: usize, pairs: u64) {
        let own = if W::PASSED_ON { (thread + round) % self.loads.len() } else { thread };
        let mut load = self.loads[own].lock().unwrap_or_else(PoisonError::into_inner);
        load.run(self.allocator, pairs);
    }

    /// Frees everything; says how often the allocator was called.
    pub fn clear(&self, between: &dyn Fn()) -> Calls {
        let mut calls = Calls::default();
        for load in &self.loads {
            let mut load = load.lock().unwrap_or_else(PoisonError::into_inner);
            calls += load.clear(self.allocator, between);
            between();
        }
        calls
    }
}

/// Measures a load on an allocator, with the same load on `plain` as the yardstick. Returns the
/// medians if criterion was asked for this one, and how often `ours` was called.
pub fn compare_loads<W: Workload>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    team: &Team,
    burst: u64,
    between: &(dyn Fn() + Sync),
    (plain, ours): (&(impl GlobalAlloc + Sync), &(impl GlobalAlloc + Sync)),
) -> (Option<Compared>, Calls) {
    let plain = Loads::<_, W>::new(plain, team, burst);
    let ours = Loads::<_, W>::new(ours, team, burst);
    // Once: criterion comes back for each sample.
    let filled = std::sync::Once::new();
    let fill = || {
        filled.call_once(|| {
            plain.fill(between);
            ours.fill(between);
        });
    };
    let compared = compare(
        group,
        name,
        team,
        (W::IN_A_ROW, burst),
        (&fill, between),
        [&|thread, round, n| plain.run(thread, round, n), &|thread, round, n| {
            ours.run(thread, round, n);
        }],
    );
    plain.clear(between);
    (compared, ours.clear(between))
}
