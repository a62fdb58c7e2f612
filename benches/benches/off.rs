//! The tracker linked, and nothing started: what a program pays that is not being watched.
//! A process of its own, since starting cannot be undone for a measurement.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group};
use memledger::{Ledger, ReportTo, TrackingAllocator};
use memledger_benches::bursts::{BURST, Compared, THREADS, Team, compare_loads, named};
use memledger_benches::recording::use_up_early_buffer;
use memledger_benches::targets::{COMPARED, Figures, is_test};
use memledger_benches::workload::{Churn, Handover, Pair, Workload};
use std::alloc::{GlobalAlloc, System};
use std::time::Duration;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

/// A peer that is linked and idle: the same question.
static DHAT: dhat::Alloc = dhat::Alloc;
static TRACKING: tracking_allocator::Allocator<System> = tracking_allocator::Allocator::system();

fn off(c: &mut Criterion) {
    use_up_early_buffer();
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("off");
    group.throughput(Throughput::Elements(2));
    for team in THREADS.map(Team::new) {
        all_loads(&mut group, "memledger", &team, &ALLOC, &mut figures);
        all_loads(&mut group, "tracking-allocator", &team, &TRACKING, &mut figures);
        all_loads(&mut group, "dhat", &team, &DHAT, &mut figures);
    }
    group.finish();
    figures.finish(&COMPARED, is_test());
}

fn all_loads(
    group: &mut BenchmarkGroup<'_, WallTime>,
    who: &str,
    team: &Team,
    allocator: &(impl GlobalAlloc + Sync),
    figures: &mut Figures,
) {
    if let Some(pair) = load::<Pair>(group, "pair", who, team, allocator, figures)
        && (who, team.threads()) == ("memledger", 1)
    {
        figures.note("off/pair/ratio", pair.ours / pair.plain);
    }
    load::<Churn>(group, "churn", who, team, allocator, figures);
    load::<Handover>(group, "handover", who, team, allocator, figures);
}

fn load<W: Workload>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    load: &str,
    who: &str,
    team: &Team,
    allocator: &(impl GlobalAlloc + Sync),
    figures: &mut Figures,
) -> Option<Compared> {
    let name = format!("{load}/{}/{who}", named(team.threads()));
    let both = (&System, allocator);
    let (compared, _) = compare_loads::<W>(group, &name, team, BURST, &|| {}, both);
    figures.compared(load, team.threads(), who, compared);
    compared
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .nresamples(2_000)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = off
}

fn main() {
    benches();
    // What was measured was indeed off: a ledger that starts now comes too late for the beginning.
    let path = std::env::temp_dir().join("memledger-bench-off-%p.json");
    let ledger = Ledger::builder().report_on_exit(ReportTo::file(path)).start();
    let ledger = ledger.expect("a ledger starts");
    let snapshot = ledger.snapshot().expect("a report was asked for");
    assert_eq!(snapshot.report().trace.from_process_start, Some(false), "recording had not ended");
    drop((snapshot, ledger));
    let name = format!("memledger-bench-off-{}.json", std::process::id());
    std::fs::remove_file(std::env::temp_dir().join(name)).expect("a report was written");
    Criterion::default().configure_from_args().final_summary();
}
