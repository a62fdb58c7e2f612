//! What a log site costs the thread that logs, over an empty loop, with all events recorded and
//! drained. CPU time over bursts that fit the buffers.

use criterion::{Criterion, Throughput, criterion_group};
use memledger::Ledger;
use memledger::events::{channel, event, log, log_scope};
use memledger_benches::bursts::{BURST, Lane, Team, compare, named};
use memledger_benches::recording::{Mode, Recording};
use memledger_benches::targets::{Figures, is_test};
use std::hint::black_box;
use std::time::Duration;

channel! {
    ON = "BenchOn";
    OFF = "BenchOff";
}

event! {
    Unordered = "Bench"."Unordered" [NoSync] { A: u64, B: u64 }
    Ordered = "Bench"."Ordered" { A: u64, B: u64 }
    Text = "Bench"."Text" [NoSync] { A: u64, Name: AnsiString }
    Wide = "Bench"."Wide" [NoSync] { A: u64, Name: WideString }
    Frame = "Bench"."Frame" [NoSync] { A: u64 }
}

fn sites(c: &mut Criterion) {
    let builder = Ledger::builder().channels(["memory", "scope", "BenchOn"]);
    let recording = Recording::start(Mode::NULL, builder);
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("log");
    group.throughput(Throughput::Elements(1));
    let one = Team::new(1);
    let two = Team::new(2);
    let flush = || recording.ledger.flush();
    let mut timed = |name: &str, target: Option<&str>, team: &Team, body: &Lane<'_>| {
        let plain: &Lane<'_> = &|_, _, n| (0..n).for_each(|i| _ = black_box(i));
        let load = format!("{name}, {}", named(team.threads()));
        let measured =
            compare(&mut group, &load, team, (1, BURST), (&|| {}, &flush), [plain, body]);
        let Some(measured) = measured else { return };
        let cost = measured.ours - measured.plain;
        figures.row(&load, [measured.plain, measured.ours, cost].map(|time| format!("{time:.2}")));
        if let Some(target) = target {
            figures.note(target, cost);
        }
    };
    timed("disabled", Some("log/disabled"), &one, &|_, _, n| {
        (0..n).for_each(|i| log!(OFF, Ordered { A: black_box(i), B: i }));
    });
    let unordered: &Lane<'_> =
        &|_, _, n| (0..n).for_each(|i| log!(ON, Unordered { A: black_box(i), B: i }));
    timed("two u64, NoSync", Some("log/unordered"), &one, unordered);
    timed("two u64, NoSync", None, &two, unordered);
    let ordered: &Lane<'_> =
        &|_, _, n| (0..n).for_each(|i| log!(ON, Ordered { A: black_box(i), B: i }));
    timed("two u64", Some("log/ordered"), &one, ordered);
    timed("two u64", None, &two, ordered);
    let name = black_box("a name of some 24 letters");
    timed("u64 and AnsiString", None, &one, &|_, _, n| {
        (0..n).for_each(|i| log!(ON, Text { A: black_box(i), Name: name }));
    });
    timed("u64 and WideString", None, &one, &|_, _, n| {
        (0..n).for_each(|i| log!(ON, Wide { A: black_box(i), Name: name }));
    });
    timed("scope", None, &one, &|_, _, n| {
        (0..n).for_each(|i| log_scope!(ON, Frame { A: black_box(i) }, { black_box(()) }));
    });
    timed("scope with times", None, &one, &|_, _, n| {
        (0..n).for_each(|i| log_scope!(timed: ON, Frame { A: black_box(i) }, { black_box(()) }));
    });
    group.finish();
    recording.ledger.flush();
    assert_eq!(recording.ledger.stats().lost_events, 0);
    figures.finish(&["", "empty, ns", "with, ns", "difference, ns"], is_test());
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .nresamples(2_000)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(250));
    targets = sites
}

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
