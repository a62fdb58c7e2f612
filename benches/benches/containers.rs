//! What a tagged container costs the thread that uses it, over the plain one, with everything
//! recorded and drained. CPU time over bursts that fit the buffers.

use criterion::{Criterion, Throughput, criterion_group};
use memledger::containers::{TaggedHashMap, TaggedVec};
use memledger::{Ledger, Tag, TrackingAllocator, group, tag};
use memledger_benches::bursts::{BURST, Lane, Team, compare};
use memledger_benches::recording::{Mode, Recording};
use memledger_benches::targets::{Figures, is_test};
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

group! { BENCH = "Bench"; }
const TAG: Tag = tag!(BENCH, "container");
const OTHER: Tag = tag!(BENCH, "renamed");

/// Elements of a container that is filled from empty.
const FILL: u64 = 1_000;

fn containers(c: &mut Criterion) {
    let recording = Recording::start(Mode::NOTHING, Ledger::builder());
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("containers");
    group.throughput(Throughput::Elements(1));
    let team = Team::new(1);
    let flush = || recording.ledger.flush();
    let mut timed = |name: &str, plain: &Lane<'_>, tagged: &Lane<'_>| {
        let measured =
            compare(&mut group, name, &team, (4, BURST), (&|| {}, &flush), [plain, tagged]);
        let Some(measured) = measured else { return };
        let columns = [measured.plain, measured.ours, measured.ours - measured.plain];
        figures.row(name, columns.map(|time| format!("{time:.2}")));
    };
    // The same code for both, so that only the type differs.
    macro_rules! pushes {
        ($vec:expr, $n:expr) => {{
            let mut vec = $vec;
            for i in 0..$n {
                vec.push(black_box(i));
            }
            black_box(&vec[..]);
        }};
    }
    timed(
        "push, there is room",
        &|_, _, n| pushes!(Vec::with_capacity(n as usize), n),
        &|_, _, n| pushes!(TaggedVec::with_capacity(TAG, n as usize), n),
    );
    timed(
        "push, from empty to 1000",
        &|_, _, n| (0..n / FILL).for_each(|_| pushes!(Vec::new(), FILL)),
        &|_, _, n| (0..n / FILL).for_each(|_| pushes!(TaggedVec::new(TAG), FILL)),
    );
    timed("a vector of one", &|_, _, n| (0..n).for_each(|_| pushes!(Vec::new(), 1)), &|_, _, n| {
        (0..n).for_each(|_| pushes!(TaggedVec::new(TAG), 1))
    });
    macro_rules! inserts {
        ($map:expr, $n:expr) => {{
            let mut map = $map;
            for i in 0..$n {
                map.insert(black_box(i), i);
            }
            black_box(map.len());
        }};
    }
    timed(
        "insert, from empty to 1000",
        &|_, _, n| (0..n / FILL).for_each(|_| inserts!(HashMap::<u64, u64>::new(), FILL)),
        &|_, _, n| (0..n / FILL).for_each(|_| inserts!(TaggedHashMap::<u64, u64>::new(TAG), FILL)),
    );
    timed("rename", &|_, _, n| (0..n).for_each(|i| _ = black_box(i)), &|_, _, n| {
        let mut vec = TaggedVec::from_slice(TAG, &[0_u8; 100]);
        (0..n).for_each(|i| vec.set_tag(black_box(if i % 2 == 0 { OTHER } else { TAG })));
    });
    group.finish();
    recording.ledger.flush();
    assert_eq!(recording.ledger.stats().lost_events, 0);
    figures.finish(&["", "plain, ns", "tagged, ns", "difference, ns"], is_test());
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .nresamples(2_000)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(250));
    targets = containers
}

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
