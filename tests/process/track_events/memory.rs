//! Memory in a session: counters, heap profiles and scopes, compared with the report of the same run.

use super::{CAT1, FILE};
use crate::harness::{REPORT, Run, leave};
use memledger::perfetto::TrackEventConfig;
use memledger::perfetto::instant;
use memledger::{Destination, Ledger, Tag, alloc_scope, group, tag, tagged};
use memledger_test_support::packets::{Dump, Field, Trace, TrackEvent};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

group! {
    RENDERING = "Rendering";
}

const MESHES: Tag = tag!(RENDERING, "meshes");

/// The environment has started the session. What the thread of the session does is not waited for, so the
/// number of dumps is unknown.
pub(super) fn whole() {
    let kept = alloc_scope!("load", {
        instant!(CAT1, "loading");
        let mut kept = vec![black_box(vec![1_u8; 1_000_003])];
        for _ in 0..200 {
            alloc_scope!("parse", { drop(black_box(vec![2_u8; 1000])) });
            kept.push(tagged(MESHES, || black_box(vec![3_u8; 500])));
        }
        kept
    });
    let thread = std::thread::Builder::new().name("loader".to_owned());
    let loader = || alloc_scope!("stream", { leave(2_000_003) });
    thread.spawn(loader).unwrap().join().unwrap();
    alloc_scope!("peak", { drop(black_box(vec![4_u8; 8 << 20])) });
    std::mem::forget(kept);
}

fn sum(dump: &Dump) -> [u64; 4] {
    dump.1.values().fold([0; 4], |sum, of| std::array::from_fn(|at| sum[at] + of[at]))
}

fn of_scope(dump: &Dump, scope: &str) -> [u64; 4] {
    let stacks = dump.1.iter().filter(|(frames, _)| frames.iter().any(|frame| frame == scope));
    sum(&(0, stacks.map(|(frames, sums)| (frames.clone(), *sums)).collect::<BTreeMap<_, _>>()))
}

/// The argument of this name.
fn argument(event: &TrackEvent, name: &str) -> u64 {
    let found = event.arguments.iter().find(|(argument, ..)| argument == name);
    match found {
        Some((_, Field::Number(value), _)) => *value,
        other => panic!("{name} is {other:?}"),
    }
}

pub(super) fn whole_test(run: Run) {
    let run = run.env("MEMLEDGER_PERFETTO", FILE).env("MEMLEDGER_PERFETTO_CONFIG", "memory=10ms");
    let outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
    outcome.exited(0).quiet();
    let report: serde_json::Value = serde_json::from_str(&outcome.report(REPORT)).unwrap();
    let total = |name: &str| report["totals"][name].as_u64().unwrap();
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());

    // The heap profile, to the byte.
    let heap = trace.heaps["System memory"].last().unwrap();
    let [allocated, freed, allocations, frees] = sum(heap);
    assert_eq!(allocated, total("allocated_bytes"));
    assert_eq!(allocations, total("allocations") + total("reallocations"));
    assert_eq!(
        (allocated - freed, allocations - frees),
        (total("live_bytes"), total("live_blocks"))
    );
    let parsed = of_scope(heap, "parse");
    assert_eq!(parsed, [200_000, 200_000, 200, 200]);
    let tagged = of_scope(heap, "Rendering / meshes");
    assert_eq!((tagged[0], tagged[2]), (100_000, 200));
    let [(peak_at, peak)] = trace.heaps["System memory at the peak"].as_slice() else { panic!() };
    assert_eq!(sum(&(0, peak.clone()))[..2], [total("peak_bytes"), 0]);
    assert!(*peak_at <= heap.0);

    // Counters.
    let live = trace.counter("live bytes");
    assert_eq!(live.last().unwrap().1, total("live_bytes"));
    assert_eq!(live.iter().map(|point| point.1).max(), Some(total("peak_bytes")));
    assert_eq!(trace.counter("allocated bytes").last().unwrap().1, total("allocated_bytes"));
    assert_eq!(trace.counter("Rendering").last().unwrap().1, 100_000);
    let scopes = trace.counter("GlobalScope > stream");
    assert_eq!(scopes.last().unwrap().1, 2_000_003);

    // Scopes, on a track of their own for each thread: what was allocated in each sums to the total.
    let ends = trace.events.iter().filter(|event| event.kind == 2);
    let own: u64 = ends.map(|event| argument(event, "allocated_bytes")).sum();
    assert_eq!(own, total("allocated_bytes"));
    let named = |name: &str| {
        let mut events = trace.events.iter();
        events.find(|event| event.name.as_deref() == Some(name)).unwrap()
    };
    let (load, stream) = (named("load"), named("stream"));
    assert_eq!((load.kind, load.categories.concat()), (1, "memledger.scope".to_owned()));
    let track = |event: &TrackEvent| trace.tracks[&event.track].clone();
    assert_eq!(track(load).text(2).as_deref(), Some("memory scopes"));
    let thread = &trace.tracks[&track(stream).number(5).unwrap()];
    assert_eq!(thread.message(4).unwrap().text(5).as_deref(), Some("loader"));
    assert_ne!(load.track, stream.track);

    // The totals, as arguments.
    let totals = named("totals");
    for name in ["live_bytes", "allocated_bytes", "allocations", "peak_bytes", "peak_bytes_at_ns"] {
        assert_eq!(argument(totals, name), total(name), "{name}");
    }
    assert_eq!(named("loading").categories, ["cat1"]);
}

/// Sessions that begin late, one with a ring that loses packets.
pub(super) fn late() {
    let refused = Ledger::builder().start().unwrap();
    let of = |file| {
        Destination::track_events(file, TrackEventConfig::all()).memory(Duration::from_millis(10))
    };
    let session = || of(FILE);
    let sentence = refused.trace_to(session()).unwrap_err().to_string();
    assert!(sentence.starts_with("a session with memory needs the reports"), "{sentence}");
    drop(refused);
    let ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    alloc_scope!("before", { leave(3_000_003) });
    ledger.flush();
    let file = ledger.trace_to(session()).unwrap();
    let ring = ledger.trace_to(of("ring.pftrace").ring(64 << 10)).unwrap();
    for round in 0..200 {
        for n in 0..100_u32 {
            instant!(CAT1, "event", arg("n", n));
            alloc_scope!("during", { drop(black_box(vec![5_u8; 1000])) });
        }
        if round % 20 == 0 {
            ring.flush();
        }
    }
    ring.stop();
    file.stop();
}

pub(super) fn late_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let trace = |file: &str| Trace::decode(&std::fs::read(outcome.path(file)).unwrap());
    let whole = trace(FILE);
    let dumps = &whole.heaps["System memory"];
    // The heap that existed, from the first dump on, and what the session saw.
    assert_eq!(of_scope(&dumps[0], "before"), [3_000_003, 0, 1, 0]);
    assert_eq!(of_scope(dumps.last().unwrap(), "during"), [20_000_000, 20_000_000, 20_000, 20_000]);
    let slices = whole.events.iter().filter(|event| event.kind == 2);
    assert!(slices.map(|event| argument(event, "allocated_bytes")).sum::<u64>() >= 20_000_000);
    // All that a ring keeps can be read, and its last dump has everything.
    let ring = trace("ring.pftrace");
    assert!(ring.starts > 10 && ring.events.len() < 20_000, "{} events", ring.events.len());
    let last = ring.heaps["System memory"].last().unwrap();
    assert_eq!(of_scope(last, "before"), [3_000_003, 0, 1, 0]);
    assert_eq!(of_scope(last, "during"), [20_000_000, 20_000_000, 20_000, 20_000]);
}
