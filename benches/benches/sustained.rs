//! Allocating and freeing and nothing else, for 50 million events: wall and CPU of all threads,
//! waits for the worker and the last flush included. Each mode runs between two plain runs.

use memledger::{Ledger, TrackingAllocator, alloc_scope};
use memledger_benches::analyze;
use memledger_benches::bursts::Team;
use memledger_benches::clock::process_time;
use memledger_benches::recording::{Mode, Recorded, Recording};
use memledger_benches::targets::{Figures, is_selected, is_test};
use memledger_benches::workload::{Calls, Churn, Pair, Workload};
use std::alloc::{GlobalAlloc, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

fn pairs() -> u64 {
    if is_test() { 100_000 } else { 25_000_000 }
}

/// What a run took, in nanoseconds per event.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

impl Took {
    fn since(start: (Instant, Duration), events: u64) -> Self {
        let per_event = |time: Duration| time.as_nanos() as f64 / events as f64;
        Self { wall: per_event(start.0.elapsed()), cpu: per_event(process_time() - start.1) }
    }
}

fn plain<W: Workload>() -> Took {
    let pairs = pairs();
    let mut load = W::new(1, 0);
    load.fill(&System, &|| {});
    let start = (Instant::now(), process_time());
    load.run(&System, pairs);
    let took = Took::since(start, 2 * pairs);
    load.clear(&System, &|| {});
    took
}

fn recorded<W: Workload>(mode: Mode) -> (Took, Recorded) {
    // Asking allocates: not in the scope that counts.
    let pairs = pairs();
    let recording = Recording::start(mode, Ledger::builder());
    let mut load = W::new(1, 0);
    load.fill(&ALLOC, &|| {});
    let (took, calls) = alloc_scope!("measured", {
        recording.ledger.flush();
        let start = (Instant::now(), process_time());
        load.run(&ALLOC, pairs);
        recording.ledger.flush();
        (Took::since(start, 2 * pairs), load.clear(&ALLOC, &|| {}))
    });
    (took, recording.finish(calls))
}

fn sustained<W: Workload>(name: &str, figures: &mut Figures) {
    if !is_selected(&format!("sustained/{name}")) {
        return;
    }
    let mut before = plain::<W>();
    for mode in Mode::available(&Mode::DESTINATIONS) {
        let (took, trace) = recorded::<W>(mode);
        let after = plain::<W>();
        let plain = Took {
            wall: f64::midpoint(before.wall, after.wall),
            cpu: f64::midpoint(before.cpu, after.cpu),
        };
        before = after;
        let ratio = took.wall / plain.wall;
        let (wall, cpu) = (took.wall - plain.wall, took.cpu - plain.cpu);
        let bytes = trace.bytes_per_event();
        let text = [
            format!("{:.1}", plain.wall),
            format!("{ratio:.2}"),
            format!("{wall:.1}"),
            format!("{cpu:.1}"),
            bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.2}")),
        ];
        println!("sustained/{name}/{}: wall {ratio:.2}x, {wall:+.1} ns an event", mode.name);
        figures.row(&format!("{name}, {}", mode.name), text);
        note(figures, name, mode, [ratio, wall, cpu, bytes.unwrap_or_default()]);
        if let (Some(trace), "churn", Mode::FILE | Mode::COMPACT) = (trace.file, name, mode) {
            let speed = trace.events as f64 / trace.seconds / 1e6;
            let memory = trace.peak_rss as f64 / f64::from(1 << 20);
            println!("analyzing it: {speed:.1} M events/s, {memory:.0} MiB");
            figures.note("analyze/speed", speed);
            figures.note("analyze/memory", memory);
        }
    }
}

/// The figures with a target.
fn note(figures: &mut Figures, load: &str, mode: Mode, [ratio, wall, cpu, bytes]: [f64; 4]) {
    if !matches!(mode, Mode::COMPACT | Mode::COMPACT_AND_REPORT) {
        return;
    }
    let mut note = |what: &str, value| {
        figures.note(&format!("sustained/{load}/{}/{what}", mode.name), value);
    };
    if load == "pair" {
        return note("wall", wall);
    }
    note("ratio", ratio);
    note("cpu", cpu);
    if mode == Mode::COMPACT {
        note("bytes", bytes);
    }
}

/// The most memory the tracker takes while eight threads churn and events go to a trace.
fn memory(figures: &mut Figures) {
    if !is_selected("sustained/memory") {
        return;
    }
    let recording = Recording::start(Mode::NULL, Ledger::builder());
    let (team, pairs) = (Team::new(8), pairs());
    let (running, most, allocations) = (AtomicUsize::new(8), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while running.load(Ordering::Acquire) > 0 {
                most.fetch_max(recording.ledger.recent_stats().overhead_bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        team.run(|_| {
            let calls = churn_once(&ALLOC, pairs / 20);
            allocations.fetch_add(calls.allocations, Ordering::Relaxed);
            running.fetch_sub(1, Ordering::Release);
        });
    });
    let allocations = allocations.into_inner();
    recording.finish(Calls { allocations, frees: allocations });
    let memory = most.into_inner() as f64 / f64::from(1 << 20);
    println!("sustained/memory: {memory:.1} MiB of the tracker's own at most, 8 threads");
    figures.note("memory/8", memory);
}

fn churn_once(allocator: &impl GlobalAlloc, pairs: u64) -> Calls {
    let mut churn = Churn::new(8, 0);
    churn.fill(allocator, &|| {});
    alloc_scope!("measured", { churn.run(allocator, pairs) });
    churn.clear(allocator, &|| {})
}

fn main() {
    analyze::if_asked();
    let mut figures = Figures::default();
    sustained::<Pair>("pair", &mut figures);
    sustained::<Churn>("churn", &mut figures);
    memory(&mut figures);
    let header =
        ["", "plain, ns an event", "wall ratio", "wall ns added", "CPU ns added", "bytes an event"];
    figures.finish(&header, is_test());
}
