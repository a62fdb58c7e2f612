//! What a track event costs: Perfetto's C library and memledger in turn, in one process.
//!
//! ```sh
//! cargo run --release -p memledger-bench-perfetto --features sdk --bin cost
//! ```
//! Bursts that fit the buffers of both, with a flush after each that is not measured. A figure is the CPU
//! time of the thread that emits, over an empty loop; the least of all bursts, because the machine may have
//! other work. `others` is the CPU time of all other threads of the process for an event.
#![expect(unsafe_code, reason = "reads clocks that std does not offer")]

use memledger::perfetto::{Track, TrackEventConfig};
use memledger::perfetto::{counter, instant, slice, track_event};
use memledger::{Destination, DestinationHandle, Ledger, TrackingAllocator};
use memledger_bench_perfetto::{
    Category, Registered, Session, SessionConfig, loads, process_uuid, publish_categories,
};
use std::hint::black_box;
use std::path::Path;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

memledger::perfetto::categories! {
    ON = "bench";
    OFF = "off";
}

/// Iterations of a burst, and bursts of each load.
const BURST: u64 = 10_000;
const BURSTS: usize = 40;

/// Nanoseconds of CPU time: of this thread, or of the process.
fn cpu(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

const THREAD: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
const PROCESS: libc::clockid_t = libc::CLOCK_PROCESS_CPUTIME_ID;

/// The least time of an iteration in nanoseconds, and that of all other threads on average.
fn measure(body: &dyn Fn(u64), flush: &dyn Fn()) -> (f64, f64) {
    flush();
    let mut least = f64::INFINITY;
    let process = cpu(PROCESS);
    let thread = cpu(THREAD);
    for _ in 0..BURSTS {
        let start = cpu(THREAD);
        body(BURST);
        least = least.min((cpu(THREAD) - start) / BURST as f64);
        flush();
    }
    let others = cpu(PROCESS) - process - (cpu(THREAD) - thread);
    (least, others / (BURST * BURSTS as u64) as f64)
}

fn row(name: &str, events: f64, flush: [&dyn Fn(); 2], theirs: &dyn Fn(u64), ours: &dyn Fn(u64)) {
    let plain: &dyn Fn(u64) = &|n| (0..n).for_each(|i| _ = black_box(i));
    let (empty, _) = measure(plain, &|| {});
    let (theirs, their_others) = measure(theirs, flush[0]);
    let (ours, our_others) = measure(ours, flush[1]);
    println!(
        "| {name} | {:.1} | {:.1} | {:.1} | {:.1} |",
        (theirs - empty) / events,
        (ours - empty) / events,
        their_others / events,
        our_others / events,
    );
}

fn ours(ledger: &Ledger, path: &Path) -> Result<DestinationHandle, memledger::Error> {
    let config = TrackEventConfig::default().enable("bench");
    ledger.trace_to(Destination::track_events(path, config))
}

fn theirs() -> Session {
    Session::start(&SessionConfig {
        enabled: &["bench"],
        buffer_kib: 256 << 10,
        ..SessionConfig::default()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("memledger-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let ledger = Ledger::builder().channels(["scope"]).start()?;
    let on = Category::register(c"bench", &[]);
    let off = Category::register(c"off", &[]);
    publish_categories();
    let process = Track::process();
    let score = Track::counter("score").register()?;
    let their_score = Registered::counter("score", process_uuid());
    let their_process = process_uuid();

    let first = ours(&ledger, &folder.join("first.pftrace"))?;
    let their_first = theirs();
    let flush_theirs = || their_first.flush();
    let flush_ours = || first.flush();
    let flush: [&dyn Fn(); 2] = [&flush_theirs, &flush_ours];
    println!("| load, ns an event | C library | memledger | others: C library | memledger |");
    println!("|---|---|---|---|---|");
    row(
        "disabled",
        1.0,
        flush,
        &|n| (0..n).for_each(|i| loads::begin_1(&off, c"slice", c"a", black_box(i))),
        &|n| {
            (0..n).for_each(|i| track_event!(OFF, slice_begin("slice"), arg("a", black_box(i))));
        },
    );
    row(
        "slice, begin and end, each",
        2.0,
        flush,
        &|n| {
            (0..n).for_each(|i| {
                black_box(i);
                loads::begin(&on, c"slice");
                loads::end(&on);
            });
        },
        &|n| {
            (0..n).for_each(|i| {
                black_box(i);
                slice!(ON, "slice");
            });
        },
    );
    row(
        "begin, 1 argument",
        1.0,
        flush,
        &|n| (0..n).for_each(|i| loads::begin_1(&on, c"slice", c"a", black_box(i))),
        &|n| (0..n).for_each(|i| track_event!(ON, slice_begin("slice"), arg("a", black_box(i)))),
    );
    row(
        "begin, 4 arguments",
        1.0,
        flush,
        &|n| {
            (0..n).for_each(|i| {
                let i = black_box(i);
                loads::begin_4(&on, c"slice", [(c"a", i), (c"b", i), (c"c", i), (c"d", i)]);
            });
        },
        &|n| {
            (0..n).for_each(|i| {
                let i = black_box(i);
                track_event!(
                    ON,
                    slice_begin("slice"),
                    arg("a", i),
                    arg("b", i),
                    arg("c", i),
                    arg("d", i)
                );
            });
        },
    );
    row(
        "registered counter",
        1.0,
        flush,
        &|n| (0..n).for_each(|i| loads::count(&on, &their_score, black_box(i) as i64)),
        &|n| (0..n).for_each(|i| counter!(ON, track(score), black_box(i) as i64)),
    );
    row(
        "instant, named track",
        1.0,
        flush,
        &|n| {
            (0..n).for_each(|i| {
                loads::named_instant(&on, c"i", c"t", black_box(i) & 7, their_process);
            });
        },
        &|n| {
            (0..n).for_each(|i| {
                instant!(ON, "i", named_track("t", black_box(i) & 7, process));
            });
        },
    );
    let text = black_box(c"a text of some 24 letters");
    let our_text = text.to_str()?;
    row(
        "instant, 1 text",
        1.0,
        flush,
        &|n| {
            (0..n).for_each(|i| {
                black_box(i);
                loads::instant_text(&on, c"i", c"text", text);
            });
        },
        &|n| {
            (0..n).for_each(|i| {
                black_box(i);
                instant!(ON, "i", arg("text", our_text));
            });
        },
    );
    let second = ours(&ledger, &folder.join("second.pftrace"))?;
    let their_second = theirs();
    let both_theirs = || {
        their_first.flush();
        their_second.flush();
    };
    let both_ours = || {
        first.flush();
        second.flush();
    };
    row(
        "begin, 1 argument, two sessions",
        1.0,
        [&both_theirs, &both_ours],
        &|n| (0..n).for_each(|i| loads::begin_1(&on, c"slice", c"a", black_box(i))),
        &|n| (0..n).for_each(|i| track_event!(ON, slice_begin("slice"), arg("a", black_box(i)))),
    );
    [first, second].iter().for_each(DestinationHandle::stop);
    let [first, second] = [first, second].map(|session| session.status().lost_events);
    println!("{first} and {second} events are lost");
    drop((their_first.stop(), their_second.stop()));
    sizes(&ledger, &on, &folder)?;
    drop(ledger);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// The sizes of a million slices with an argument.
fn sizes(ledger: &Ledger, on: &Category, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    const SLICES: u64 = 1_000_000;
    let path = folder.join("million.pftrace");
    let (first, their_first) = (ours(ledger, &path)?, theirs());
    for from in (0..SLICES).step_by(BURST as usize) {
        for i in from..from + BURST {
            loads::begin_1(on, c"slice", c"a", i);
            loads::end(on);
        }
        their_first.flush();
        for i in from..from + BURST {
            slice!(ON, "slice", arg("a", i));
        }
        first.flush();
    }
    first.stop();
    let status = first.status();
    let (events, lost) = (status.events, status.lost_events);
    let (mine, other) = (std::fs::metadata(path)?.len(), their_first.stop().len() as u64);
    println!(
        "{SLICES} slices with an argument: C library {other} bytes, memledger {mine} bytes \
         ({:.3}x) with {events} events, {lost} lost",
        mine as f64 / other as f64
    );
    Ok(())
}
