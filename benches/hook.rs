//! What recording costs the thread that allocates, and what a scope costs: CPU time of that
//! thread over bursts that fit the buffers.

mod support;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group};
use memledger::{Ledger, TrackingAllocator, alloc_scope};
use std::alloc::{GlobalAlloc, System};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{BURST, Churn, Pair, Workload, compare, in_bursts, thread_time};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

/// Where threads wait for each other without sleeping.
#[derive(Default)]
struct Meeting(AtomicUsize);

impl Meeting {
    /// Returns once both threads have come for the `round`th time.
    fn wait(&self, round: usize) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < 2 * round {
            spin_loop();
        }
    }
}

/// As [`in_bursts`], while a second thread does the same.
fn in_bursts_of_two<A: GlobalAlloc + Sync, W: Workload + Send>(
    ledger: &Ledger,
    allocator: &A,
    pairs: u64,
    workloads: &mut [W; 2],
) -> Duration {
    let bursts = pairs.div_ceil(BURST) as usize;
    let (start, end) = (Meeting::default(), Meeting::default());
    let [mine, other] = workloads;
    let mut total = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=bursts {
                other.run(allocator, 16);
                start.wait(round);
                other.run(allocator, BURST);
                end.wait(round);
            }
        });
        for round in 1..=bursts {
            ledger.flush();
            mine.run(allocator, 16);
            start.wait(round);
            let begin = thread_time();
            mine.run(allocator, BURST);
            total += thread_time() - begin;
            end.wait(round);
        }
    });
    total.mul_f64(pairs as f64 / (bursts as u64 * BURST) as f64)
}

fn both<A: GlobalAlloc + Sync>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    ledger: &Ledger,
    name: &str,
    allocator: &A,
) {
    group.bench_function(format!("pair/1 thread/{name}"), |b| {
        b.iter_custom(|pairs| in_bursts(Some(ledger), pairs, |n| Pair.run(allocator, n)));
    });
    group.bench_function(format!("pair/2 threads/{name}"), |b| {
        b.iter_custom(|pairs| in_bursts_of_two(ledger, allocator, pairs, &mut [Pair, Pair]));
    });
    let mut churns = [Churn::default(), Churn::default()];
    churns[0].fill(allocator);
    group.bench_function(format!("churn/1 thread/{name}"), |b| {
        b.iter_custom(|pairs| in_bursts(Some(ledger), pairs, |n| churns[0].run(allocator, n)));
    });
    churns[1].fill(allocator);
    group.bench_function(format!("churn/2 threads/{name}"), |b| {
        b.iter_custom(|pairs| in_bursts_of_two(ledger, allocator, pairs, &mut churns));
    });
    churns.iter_mut().for_each(|churn| churn.clear(allocator));
}

fn start() -> Ledger {
    Ledger::builder().start().expect("a ledger starts")
}

/// Ends a recording of which no event may be lost, or the figures are of something else.
fn end(mut ledger: Ledger) {
    ledger.flush();
    assert_eq!(ledger.stats().lost_events, 0);
    ledger.finish();
}

fn hook(c: &mut Criterion) {
    let ledger = start();
    let mut group = c.benchmark_group("hook");
    group.throughput(Throughput::Elements(2));
    both(&mut group, &ledger, "System", &System);
    both(&mut group, &ledger, "memledger", &ALLOC);
    group.finish();
    end(ledger);
}

fn scopes(c: &mut Criterion) {
    let ledger = start();
    let mut group = c.benchmark_group("scopes");
    group.throughput(Throughput::Elements(1));
    let mut timed = |name: &str, body: fn()| {
        group.bench_function(name, |b| {
            b.iter_custom(|times| in_bursts(None, times, |n| (0..n).for_each(|_| body())));
        });
    };
    timed("nothing", || black_box(()));
    timed("enter and leave", || alloc_scope!("known", { black_box(()) }));
    timed("enter and leave, three deep", || {
        alloc_scope!("one", { alloc_scope!("two", { alloc_scope!("three", { black_box(()) }) }) });
    });
    group.bench_function("pair without a scope", |b| {
        b.iter_custom(|pairs| in_bursts(Some(&ledger), pairs, |n| Pair.run(&ALLOC, n)));
    });
    group.bench_function("pair in a scope of its own", |b| {
        b.iter_custom(|pairs| {
            in_bursts(Some(&ledger), pairs, |n| {
                (0..n).for_each(|_| alloc_scope!("with a pair", { Pair.run(&ALLOC, 1) }));
            })
        });
    });
    group.finish();
    end(ledger);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = hook, scopes
}

fn main() {
    benches();
    let ledger = start();
    for _ in 0..3 {
        let run = |n| Pair.run(&System, n);
        compare("hook/pair/1 thread", Some(&ledger), run, |n| Pair.run(&ALLOC, n));
    }
    let mut churns = [Churn::default(), Churn::default()];
    let [theirs, ours] = &mut churns;
    theirs.fill(&System);
    ours.fill(&ALLOC);
    let run = |n| theirs.run(&System, n);
    compare("hook/churn/1 thread", Some(&ledger), run, |n| ours.run(&ALLOC, n));
    theirs.clear(&System);
    ours.clear(&ALLOC);
    end(ledger);
    Criterion::default().configure_from_args().final_summary();
}
