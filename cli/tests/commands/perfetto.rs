//! `memledger export --to perfetto`, read back: sums are those of `memledger report`.
//! `scripts/viewers/perfetto.sh` reads the same files with Perfetto's own protos.

use memledger_test_support::command::{ran, told_bytes};
use memledger_test_support::memledger;
use memledger_test_support::packets::{Field, Trace, TrackEvent};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// With call stacks; with scopes and names, without stacks; of a program that was killed; one that joined
/// late; with resident memory.
const TRACES: [&str; 5] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/killed.utrace"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/late.utrace"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/rss.memledger"),
];

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, Vec<u8>, String) {
    told_bytes(ran(memledger!(args)))
}

fn json(args: &[&str]) -> Value {
    let (_, out, err) = run(args);
    serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {err}"))
}

fn as_arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The file of a trace. Its name says nothing of its format.
fn export(folder: &TempDir, trace: &str, more: &[&str]) -> PathBuf {
    let path = folder.path().join("exported");
    let args = [&["export", trace, "--to", "perfetto", "-o", as_arg(&path)], more].concat();
    let (status, out, err) = run(&args);
    let (expected, ..) = run(&["report", trace]);
    assert_eq!((status, out), (expected, vec![]), "{err}");
    path
}

fn read(path: &Path) -> Trace {
    Trace::decode(&fs::read(path).expect("it is there"))
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// The value of an argument that is a number.
fn argument(event: &TrackEvent, name: &str) -> Option<u64> {
    let (_, value, _) = event.arguments.iter().find(|(other, ..)| other == name)?;
    match value {
        Field::Number(value) => Some(*value),
        _ => None,
    }
}

#[test]
fn sums_are_those_of_the_report() {
    for trace in TRACES {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let file = read(&export(&folder, trace, &[]));
        let report = json(&["report", trace, "--format", "json"]);
        let total = |key: &str| report["totals"][key].as_u64().expect("a number");
        assert_eq!((file.dropped, file.lost), (0, 0), "{trace}");
        let heaps = file.heaps.values().filter_map(|dumps| dumps.last());
        let [allocated, freed, allocations, frees] =
            heaps.flat_map(|(_, stacks)| stacks.values()).fold([0; 4], |mut sums, more| {
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                sums
            });
        assert_eq!(allocated - freed, total("live_bytes"), "{trace}");
        assert_eq!(allocations - frees, total("live_blocks"), "{trace}");
        let of_kind = |kind| file.events.iter().filter(move |event| event.kind == kind);
        let ends = of_kind(SLICE_END);
        let allocated: u64 = ends.map(|end| argument(end, "allocated_bytes").expect("it")).sum();
        assert_eq!(allocated, total("allocated_bytes"), "{trace}");
        assert_eq!(of_kind(SLICE_BEGIN).count(), of_kind(SLICE_END).count());
        assert!(of_kind(SLICE_BEGIN).all(|event| event.categories == ["memledger.scope"]));
        let values = |name| file.counter(name).into_iter().map(|(_, value)| value);
        assert_eq!(values("live bytes").next_back(), Some(total("live_bytes")), "{trace}");
        assert_eq!(values("live bytes").max(), Some(total("peak_bytes")), "{trace}");
        assert_eq!(values("allocated bytes").next_back(), Some(total("allocated_bytes")));
        let has_rss = file.tracks.values().any(|track| track.text(2).as_deref() == Some("RSS"));
        assert_eq!(has_rss, report["rss"].is_object(), "{trace}");
        if has_rss {
            assert!(values("RSS").max() <= report["rss"]["most_bytes"].as_u64());
        }
        let on_totals = file.track("memory totals").number(1).expect("a uuid");
        let notes: Vec<_> = of_kind(INSTANT).filter(|event| event.track == on_totals).collect();
        let totals = notes.iter().find(|event| event.name.as_deref() == Some("totals"));
        let totals = totals.expect("totals");
        for key in ["allocations", "frees", "reallocations", "peak_bytes", "live_blocks"] {
            assert_eq!(argument(totals, key), Some(total(key)), "{trace}: {key}");
        }
        let is_complete = report["trace"]["complete"].as_bool().expect("a flag");
        assert_eq!(argument(totals, "complete"), Some(is_complete.into()), "{trace}");
        assert_eq!(notes.len() > 1, !is_complete, "{trace}");
    }
}

#[test]
fn dumps_are_at_intervals_at_the_peak_and_at_the_end() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let dumps = |more: &[&str]| {
        let file = read(&export(&folder, TRACES[0], more));
        file.heaps.into_values().next().expect("a heap").len()
    };
    // Of a trace of 12 ms with a time each 4 ms: some at intervals, the peak, the end.
    let (usual, one) = (dumps(&[]), dumps(&["--interval", "10s"]));
    assert!(one == 2 && usual > one && usual <= 102, "{one} and {usual}");
    for wrong in ["0", "soon", "-1s"] {
        let interval = format!("--interval={wrong}");
        let (status, _, err) =
            run(&["export", TRACES[0], "--to", "perfetto", "-o", "-", &interval]);
        assert_eq!(status, 2);
        assert!(err.contains("a time is 1.5s, 200ms or nanoseconds"), "{err}");
    }
}

#[test]
fn a_trace_that_can_be_read_once_is_refused() {
    let (status, out, err) = run(&["export", "-", "--to", "perfetto", "-o", "/dev/null"]);
    assert_eq!((status, out), (2, vec![]));
    assert!(err.contains("perfetto needs to read the trace twice"), "{err}");
}

#[test]
fn a_file_of_perfetto_is_named_with_what_reads_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = export(&folder, TRACES[1], &[]);
    for command in ["report", "info", "events"] {
        let (status, out, err) = run(&[command, as_arg(&path)]);
        assert_eq!((status, out), (1, vec![]), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.contains("ui.perfetto.dev and trace_processor_shell read"), "{err}");
    }
}
