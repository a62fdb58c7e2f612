//! What a track event costs the thread that emits it, over an empty loop, with all events recorded and
//! drained. Each event has a time of its own. CPU time over bursts that fit the buffers.

use criterion::{Criterion, Throughput, criterion_group};
use memledger::perfetto::{Track, TrackEventConfig};
use memledger::perfetto::{counter, slice, track_event};
use memledger::{Destination, DestinationHandle, Ledger};
use memledger_benches::bursts::{BURST, Lane, Team, compare, named};
use memledger_benches::recording::{Mode, Recording};
use memledger_benches::targets::{Figures, is_test};
use std::hint::black_box;
use std::time::Duration;

memledger::perfetto::categories! {
    ON = "bench";
    OFF = "off";
}

fn events(c: &mut Criterion) {
    let recording =
        Recording::start(Mode::NOTHING, Ledger::builder().channels(["memory", "scope"]));
    let folder = tempfile();
    let session = |name: &str| {
        let config = TrackEventConfig::default().enable("bench");
        let events = Destination::track_events(folder.join(name), config);
        recording.ledger.trace_to(events).expect("a session")
    };
    let first = session("first.pftrace");
    let process = Track::process();
    let score = Track::counter("score").register().expect("a track");
    let mut figures = Figures::default();
    let mut group = c.benchmark_group("track_event");
    group.throughput(Throughput::Elements(1));
    let one = Team::new(1);
    let mut timed = |name: &str,
                     per_event: f64,
                     target: Option<&str>,
                     flush: &(dyn Fn() + Sync),
                     body: &Lane<'_>| {
        let plain: &Lane<'_> = &|_, _, n| (0..n).for_each(|i| _ = black_box(i));
        let load = format!("{name}, {}", named(1));
        let Some(measured) =
            compare(&mut group, &load, &one, (1, BURST), (&|| {}, flush), [plain, body])
        else {
            return;
        };
        let cost = (measured.ours - measured.plain) / per_event;
        figures.row(&load, [measured.plain, measured.ours, cost].map(|time| format!("{time:.2}")));
        if let Some(target) = target {
            figures.note(target, cost);
        }
    };
    let flush = || first.flush();
    timed("disabled", 1.0, Some("track/disabled"), &flush, &|_, _, n| {
        (0..n).for_each(|i| track_event!(OFF, slice_begin("slice"), arg("a", black_box(i))));
    });
    timed("slice, begin and end, each", 2.0, Some("track/slice"), &flush, &|_, _, n| {
        (0..n).for_each(|i| {
            black_box(i);
            slice!(ON, "slice");
        });
    });
    timed("begin, 1 argument", 1.0, Some("track/begin, 1 argument"), &flush, &|_, _, n| {
        (0..n).for_each(|i| track_event!(ON, slice_begin("slice"), arg("a", black_box(i))));
    });
    timed("begin, 4 arguments", 1.0, Some("track/begin, 4 arguments"), &flush, &|_, _, n| {
        (0..n).for_each(|i| {
            track_event!(
                ON,
                slice_begin("slice"),
                arg("a", black_box(i)),
                arg("b", i),
                arg("c", i),
                arg("d", i)
            );
        });
    });
    timed("counter", 1.0, Some("track/counter"), &flush, &|_, _, n| {
        (0..n).for_each(|i| counter!(ON, track(score), black_box(i)));
    });
    timed("instant, named track", 1.0, Some("track/named"), &flush, &|_, _, n| {
        (0..n).for_each(|i| {
            track_event!(ON, instant("i"), named_track("t", black_box(i) & 7, process))
        });
    });
    let text = black_box("a text of some 24 letters");
    timed("instant, 1 text", 1.0, None, &flush, &|_, _, n| {
        (0..n).for_each(|i| {
            black_box(i);
            track_event!(ON, instant("i"), arg("text", text));
        });
    });
    let second = session("second.pftrace");
    let both = || {
        first.flush();
        second.flush();
    };
    timed("begin, 1 argument, two sessions", 1.0, None, &both, &|_, _, n| {
        (0..n).for_each(|i| track_event!(ON, slice_begin("slice"), arg("a", black_box(i))));
    });
    group.finish();
    [first, second].iter().for_each(DestinationHandle::stop);
    assert_eq!((first.status().lost_events, second.status().lost_events), (0, 0));
    let _ = std::fs::remove_dir_all(folder);
    figures.finish(&["", "empty, ns", "with, ns", "an event, ns"], is_test());
}

fn tempfile() -> std::path::PathBuf {
    let folder =
        std::env::temp_dir().join(format!("memledger-track-events-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .nresamples(2_000)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(250));
    targets = events
}

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
