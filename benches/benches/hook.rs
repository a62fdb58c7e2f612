//! What recording costs the thread that allocates, wherever the events go, and what a scope costs;
//! what the peers cost. CPU time of that thread over bursts that fit the buffers.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group};
use memledger::{
    AllocScope, Ledger, ScopeContext, ScopeLayer, Stacks, TrackingAllocator, alloc_scope,
};
use memledger_benches::analyze;
use memledger_benches::bursts::{BURST, Lane, THREADS, Team, compare, compare_loads, named};
use memledger_benches::peers::compare_peers;
use memledger_benches::recording::{Mode, Recording, use_up_early_buffer};
use memledger_benches::targets::{COMPARED, Figures, is_test};
use memledger_benches::workload::{Calls, Churn, Handover, Nested, Pair, Random, Workload};
use std::alloc::{GlobalAlloc, System};
use std::hint::black_box;
use std::pin::pin;
use std::task::{self, Waker};
use std::time::Duration;
use tracing::Dispatch;
use tracing::dispatcher::with_default;
use tracing_subscriber::layer::SubscriberExt;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

/// Before any recording: what the peers themselves allocate comes to a tracker that is off.
fn peers(c: &mut Criterion) {
    use_up_early_buffer();
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("peers");
    group.throughput(Throughput::Elements(2));
    for team in THREADS.map(Team::new) {
        compare_peers::<Pair>(&mut group, "pair", &team, &mut figures);
        compare_peers::<Churn>(&mut group, "churn", &team, &mut figures);
        compare_peers::<Handover>(&mut group, "handover", &team, &mut figures);
    }
    group.finish();
    figures.finish(&COMPARED, is_test());
}

fn hook(c: &mut Criterion) {
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("hook");
    group.throughput(Throughput::Elements(2));
    let teams = THREADS.map(Team::new);
    for mode in Mode::available(&Mode::DESTINATIONS) {
        let recording = Recording::start(mode, Ledger::builder());
        let mut calls = Calls::default();
        for team in &teams {
            let figures = &mut figures;
            calls += load::<Pair>(&mut group, "pair", team, mode, &recording.ledger, figures);
            calls += load::<Churn>(&mut group, "churn", team, mode, &recording.ledger, figures);
            calls +=
                load::<Handover>(&mut group, "handover", team, mode, &recording.ledger, figures);
        }
        recording.finish(calls);
    }
    group.finish();
    figures.finish(&COMPARED, is_test());
}

/// What a call stack of 20 frames adds to a pair.
fn stacks(c: &mut Criterion) {
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("stacks");
    group.throughput(Throughput::Elements(2));
    let sampled = Stacks::Sampled { mean_bytes: 512 << 10 };
    for (name, taken) in [("off", Stacks::Off), ("on", Stacks::On), ("sampled", sampled)] {
        // The frames of this program further out are no part of the stacks.
        let builder = Ledger::builder().stacks(taken).stack_frames(20);
        let recording = Recording::start(Mode::NULL, builder);
        let flush = || recording.ledger.flush();
        let mut calls = Calls::default();
        let (ours, group, figures) = ((&flush as _, &ALLOC), &mut group, &mut figures);
        calls += nested::<Nested<2>>(group, name, "2 of 20 frames change", ours, figures);
        calls += nested::<Nested<19>>(group, name, "19 of 20 frames change", ours, figures);
        calls += nested::<Random>(group, name, "20 random frames", ours, figures);
        recording.finish(calls);
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let framehop = memledger_benches::framehop::Framehop { frames: 20 };
        let nothing = || {};
        let (peer, group, figures) = ((&nothing as _, &framehop), &mut group, &mut figures);
        nested::<Nested<2>>(group, "framehop", "2 of 20 frames change", peer, figures);
        nested::<Nested<19>>(group, "framehop", "19 of 20 frames change", peer, figures);
        nested::<Random>(group, "framehop", "20 random frames", peer, figures);
        // All code must have frame pointers, which no code can ask for.
        if std::env::var_os("FRAME_POINTERS").is_some() {
            let chased = memledger_benches::frame_pointers::FramePointers { frames: 20 };
            let peer = (&nothing as _, &chased);
            nested::<Nested<2>>(group, "frame pointers", "2 of 20 frames change", peer, figures);
            nested::<Nested<19>>(group, "frame pointers", "19 of 20 frames change", peer, figures);
            nested::<Random>(group, "frame pointers", "20 random frames", peer, figures);
        }
    }
    group.finish();
    figures.finish(&COMPARED, is_test());
}

fn nested<W: Workload>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stacks: &str,
    load: &str,
    (flush, allocator): (&(dyn Fn() + Sync), &(impl GlobalAlloc + Sync)),
    figures: &mut Figures,
) -> Calls {
    let name = format!("{stacks}/{load}");
    let team = Team::new(1);
    let (compared, calls) =
        compare_loads::<W>(group, &name, &team, BURST, flush, (&System, allocator));
    figures.compared(&format!("stacks {stacks}"), 1, load, compared);
    calls
}

fn load<W: Workload>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    load: &str,
    team: &Team,
    mode: Mode,
    ledger: &Ledger,
    figures: &mut Figures,
) -> Calls {
    let threads = team.threads();
    // A name with a slash is a level more for criterion.
    let name = format!("{load}/{}/{}", named(threads), mode.name.replace("/dev/", ""));
    let flush = || ledger.flush();
    let (compared, calls) =
        compare_loads::<W>(group, &name, team, BURST, &flush, (&System, &ALLOC));
    figures.compared(load, threads, mode.name, compared);
    if let (Some(compared), Mode::NULL, "pair" | "churn", 1 | 2) = (compared, mode, load, threads) {
        let per_event = (compared.ours - compared.plain) / 2.0;
        figures.note(&format!("hook/{load}/{threads}"), per_event);
    }
    calls
}

fn scopes(c: &mut Criterion) {
    let recording = Recording::start(Mode::NOTHING, Ledger::builder());
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("scopes");
    group.throughput(Throughput::Elements(1));
    let team = Team::new(1);
    let flush = || recording.ledger.flush();
    let mut timed = |name: &str, plain: &Lane<'_>, body: &Lane<'_>| {
        let compared =
            compare(&mut group, name, &team, (1, BURST), (&|| {}, &flush), [plain, body]);
        let Some(compared) = compared else { return };
        let columns = [compared.plain, compared.ours, compared.ours - compared.plain];
        figures.row(name, columns.map(|time| format!("{time:.2}")));
    };
    let nothing = |_, _, n| (0..n).for_each(|_| black_box(()));
    timed("enter and leave", &nothing, &|_, _, n| {
        (0..n).for_each(|_| alloc_scope!("known", { black_box(()) }));
    });
    timed("enter and leave, three deep", &nothing, &|_, _, n| {
        (0..n).for_each(|_| {
            alloc_scope!("one", {
                alloc_scope!("two", { alloc_scope!("three", { black_box(()) }) })
            });
        });
    });
    let context = alloc_scope!("from elsewhere", { ScopeContext::current() });
    timed("enter and leave a context", &nothing, &|_, _, n| {
        (0..n).for_each(|_| context.run(|| black_box(())));
    });
    timed("poll of a future", &nothing, &|_, _, n| {
        let mut waker = task::Context::from_waker(Waker::noop());
        let mut future = pin!(std::future::pending::<()>().alloc_scope("future"));
        (0..n).for_each(|_| _ = black_box(future.as_mut().poll(&mut waker)));
    });
    let [spans, spans_and_scopes] = [
        Dispatch::new(tracing_subscriber::registry()),
        Dispatch::new(tracing_subscriber::registry().with(ScopeLayer::new())),
    ];
    let span_in = |layers: &Dispatch, n| {
        with_default(layers, || {
            let span = tracing::info_span!("span");
            (0..n).for_each(|_| span.in_scope(|| black_box(())));
        });
    };
    timed("enter and leave a span", &|_, _, n| span_in(&spans, n), &|_, _, n| {
        span_in(&spans_and_scopes, n);
    });
    let pairs = |n| Pair::new(1, n).run(&ALLOC, n);
    timed("pair in a scope of its own", &|_, _, n| pairs(n), &|_, _, n| {
        (0..n).for_each(|_| alloc_scope!("with a pair", { pairs(1) }));
    });
    group.finish();
    // Its pairs are in scopes of their own: that none is lost is what can be checked here.
    recording.ledger.flush();
    assert_eq!(recording.ledger.stats().lost_events, 0);
    figures.finish(&["", "without, ns", "with, ns", "difference, ns"], is_test());
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .nresamples(2_000)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(250));
    targets = peers, hook, stacks, scopes
}

fn main() {
    analyze::if_asked();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
