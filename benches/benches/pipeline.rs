//! The way of an event after the hook, a step at a time: collected and packed by the worker, kept
//! account of, unpacked and read, analyzed.

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use memledger::{Ledger, Stacks, TrackingAllocator, Worker, alloc_scope};
use memledger_analysis::Analyzer;
use memledger_analysis::read::{self, Event, Reader, Visitor};
use memledger_benches::analyze;
use memledger_benches::bursts::BURST;
use memledger_benches::clock::thread_time;
use memledger_benches::recording::{Mode, Recording, folder};
use memledger_benches::targets::{Figures, is_test};
use memledger_benches::workload::{Churn, Workload};
use memledger_format::compact::{CompactDecoder, CompactEncoder};
use memledger_format::packet::{FIRST_THREAD, LAST_THREAD, TYPES};
use std::hint::black_box;
use std::time::Duration;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

/// The worker's tick, by hand, over a burst that waits in the buffers. What each mode takes more
/// than `nothing` is its codec, with a write that goes nowhere, or its account.
fn worker(c: &mut Criterion) {
    let modes = [Mode::NOTHING, Mode::NULL, Mode::NULL_COMPACT, Mode::REPORT];
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("worker");
    group.throughput(Throughput::Elements(2 * BURST));
    let mut nothing = f64::NAN;
    for mode in Mode::available(&modes) {
        let recording = Recording::start(mode, Ledger::builder().worker(Worker::Manual));
        let ledger = &recording.ledger;
        let mut churn = Churn::new(1, BURST);
        churn.fill(&ALLOC, &|| ledger.collect());
        let mut times = Vec::new();
        group.bench_function(format!("churn/{}", mode.name.replace("/dev/", "")), |b| {
            b.iter_custom(|bursts| {
                (0..bursts).fold(Duration::ZERO, |total, _| {
                    alloc_scope!("measured", { churn.run(&ALLOC, BURST) });
                    let start = thread_time();
                    ledger.collect();
                    let time = thread_time() - start;
                    times.push(time.as_nanos() as f64 / (2 * BURST) as f64);
                    total + time
                })
            });
            // Criterion's next work allocates too, and no worker collects it.
            ledger.collect();
        });
        let calls = churn.clear(&ALLOC, &|| ledger.collect());
        recording.finish(calls);
        times.sort_by(f64::total_cmp);
        let Some(median) = times.get(times.len() / 2) else { continue };
        if mode == Mode::NOTHING {
            nothing = *median;
        }
        let columns = [*median, median - nothing].map(|time| format!("{time:.2}"));
        figures.row(mode.name, columns);
        if mode == Mode::REPORT {
            figures.note("worker/report/churn", *median);
        }
    }
    group.finish();
    figures.finish(&["worker", "ns an event", "more than nothing"], is_test());
}

/// What the account in the process takes for a live block: of a million of them, a thousand bytes
/// of names and totals are nothing.
fn live_blocks(_: &mut Criterion) {
    if !memledger_benches::targets::is_selected("worker/memory") {
        return;
    }
    const BLOCKS: usize = 1_000_000;
    let recording = Recording::start(Mode::REPORT, Ledger::builder().worker(Worker::Manual));
    let ledger = &recording.ledger;
    ledger.collect();
    let before = ledger.recent_stats();
    let mut churn = Churn::of(BLOCKS);
    churn.fill(&ALLOC, &|| ledger.collect());
    ledger.collect();
    let after = ledger.recent_stats();
    let ledger_bytes = |stats: memledger::Stats| stats.overhead_bytes - stats.buffer_bytes;
    let bytes = (ledger_bytes(after) - ledger_bytes(before)) as f64 / BLOCKS as f64;
    println!("worker/memory: {bytes:.1} bytes of ledger for each of {BLOCKS} live blocks");
    let calls = churn.clear(&ALLOC, &|| ledger.collect());
    recording.finish(calls);
    let mut figures = Figures::default();
    figures.note("ledger/bytes", bytes);
    figures.finish(&[""], is_test());
}

/// Calls `body` at the end of one of 2^`depth` call stacks, by the bits of `path`.
fn at_path(path: u64, depth: u32, body: &mut dyn FnMut()) {
    #[inline(never)]
    fn odd(path: u64, depth: u32, body: &mut dyn FnMut()) {
        at_path(path, depth, body);
        black_box(1_u8);
    }
    #[inline(never)]
    fn even(path: u64, depth: u32, body: &mut dyn FnMut()) {
        at_path(path, depth, body);
        black_box(0_u8);
    }
    match depth {
        0 => body(),
        _ if path & 1 == 0 => even(path >> 1, depth - 1, body),
        _ => odd(path >> 1, depth - 1, body),
    }
    black_box(());
}

/// A trace of two threads that churn, in and out of scopes, or each few events at another of 2048
/// call stacks.
fn a_trace(end: &str, stacks: Stacks) -> Vec<u8> {
    let path = folder().join(format!("bench-{}-read.{end}", std::process::id()));
    let builder = Ledger::builder().stacks(stacks).trace_to_file(&path);
    let ledger = builder.start().expect("a ledger starts");
    let depth = if stacks == Stacks::Off { 0 } else { 11 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut churn = Churn::new(1, 0);
                churn.fill(&ALLOC, &|| {});
                let mut path = 1_u64;
                for _ in 0..if is_test() { 100 } else { 5_000 } {
                    if depth == 0 {
                        alloc_scope!("churn", { churn.run(&ALLOC, 50) });
                        alloc_scope!("churn more", { churn.run(&ALLOC, 50) });
                        continue;
                    }
                    for _ in 0..50 {
                        path = path.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        at_path(path >> 40, depth, &mut || churn.run(&ALLOC, 2));
                    }
                }
                churn.clear(&ALLOC, &|| {});
            });
        }
    });
    let _ = ledger.finish();
    let account = analyze::in_child(&path).expect("a trace that can be read");
    assert_eq!(account.problems, [""; 0]);
    let bytes = std::fs::read(&path).expect("a trace was written");
    std::fs::remove_file(path).expect("it can be removed");
    bytes
}

struct Nothing;

impl Visitor for Nothing {
    fn event(&mut self, event: &Event<'_>) {
        black_box(event.fixed.len());
    }
}

fn reading(c: &mut Criterion) {
    let compact = Mode::available(&[Mode::COMPACT]);
    let ends = std::iter::once("utrace").chain(compact.iter().map(|_| "memledger"));
    let kinds = ends.flat_map(|end| [(end, Stacks::Off, ""), (end, Stacks::On, ", stacks")]);
    for (end, stacks, with) in kinds {
        let trace = a_trace(end, stacks);
        let summary = read::read(&trace[..], &mut Nothing).expect("a trace");
        let mut group = c.benchmark_group("reader");
        group.throughput(Throughput::Elements(summary.counts.events));
        group.bench_function(format!("{end}{with} to nothing"), |b| {
            b.iter(|| read::read(black_box(&trace[..]), &mut Nothing).expect("a trace"));
        });
        group.finish();
        let mut group = c.benchmark_group("analyzer");
        group.throughput(Throughput::Elements(summary.counts.events));
        group.bench_function(format!("{end}{with} to report"), |b| {
            b.iter_batched_ref(
                Analyzer::new,
                |analyzer| {
                    read::read(&trace[..], analyzer).expect("a trace");
                    black_box(analyzer.report())
                },
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

/// Coding and decoding the packets of threads. The yardstick of a trace with stacks is one without.
fn codec(c: &mut Criterion) {
    for (stacks, name) in [(Stacks::Off, "no stacks"), (Stacks::On, "stacks")] {
        let trace = a_trace("utrace", stacks);
        let mut reader = Reader::open(&trace[..]).expect("a trace");
        let protocol = reader.handshake().protocol;
        let mut payloads = Vec::new();
        while reader.packet_with(&mut Nothing, &mut |id, bytes| payloads.push((id, bytes.to_vec())))
        {
        }
        let events = read::read(&trace[..], &mut Nothing).expect("a trace").counts.events;
        let threads = FIRST_THREAD..=LAST_THREAD;
        let encode = || {
            let (mut encoder, mut packets) = (CompactEncoder::new(protocol), Vec::new());
            for (stream, payload) in &payloads {
                let mut packet = Vec::new();
                if *stream == TYPES {
                    encoder.learn(payload);
                } else if threads.contains(stream) && encoder.append(*stream, payload, &mut packet)
                {
                    packets.push(packet);
                }
            }
            packets
        };
        let packets = encode();
        let mut group = c.benchmark_group("codec");
        group.throughput(Throughput::Elements(events));
        group.bench_function(format!("encode, {name}"), |b| b.iter(&encode));
        group.bench_function(format!("decode, {name}"), |b| {
            let mut decoder = CompactDecoder::new();
            b.iter(|| {
                for packet in &packets {
                    black_box(decoder.decode(packet).expect("a packet"));
                }
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    // Few resamples: criterion allocates for each, and a manual worker does not collect that.
    config = Criterion::default()
        .sample_size(10)
        .nresamples(2_000)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = worker, live_blocks, codec, reading
}

fn main() {
    analyze::if_asked();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
