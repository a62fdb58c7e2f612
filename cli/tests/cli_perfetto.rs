//! `memledger export --to perfetto`, read back by `info` and `events`: sums are those of `memledger report`.
//! `scripts/viewers/perfetto.sh` reads the same files with Perfetto's own protos.

use memledger_test_support::command::{ran, told_bytes};
use memledger_test_support::memledger;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// With call stacks; with scopes and names, without stacks; of a program that was killed; one that joined late; with
/// resident memory.
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

fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.sum()
}

#[test]
fn sums_are_those_of_the_report() {
    for trace in TRACES {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let path = export(&folder, trace, &[]);
        let report = json(&["report", trace, "--format", "json"]);
        let totals = &report["totals"];
        let info = json(&["info", as_arg(&path), "--format", "json"]);
        assert_eq!(info["format"], "perfetto");
        assert_eq!((&info["complete"], &info["unfinished_dumps"]), (&true.into(), &0.into()));
        assert_eq!(info["losses"], serde_json::json!({}), "{trace}");
        assert_eq!(info["unknown_fields"], serde_json::json!([]), "{trace}");
        let heaps = info["heaps"].as_array().expect("heaps");
        let of = |key: &str| sum(heaps.iter().map(|heap| heap[key].as_u64().expect(key)));
        let total = |key: &str| totals[key].as_u64().expect("a number");
        assert_eq!(of("allocated_bytes") - of("freed_bytes"), total("live_bytes"), "{trace}");
        assert_eq!(of("allocations") - of("frees"), total("live_blocks"), "{trace}");
        let events = json(&["events", as_arg(&path), "--format", "json"]);
        assert_eq!(events["damaged"], false);
        let events = events["events"].as_array().expect("events");
        let with_type =
            |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
        let ends = with_type("SLICE_END");
        let allocated =
            ends.map(|event| event["arguments"]["allocated_bytes"].as_i64().expect("it"));
        assert_eq!(allocated.sum::<i64>(), total("allocated_bytes") as i64, "{trace}");
        assert_eq!(with_type("SLICE_BEGIN").count(), with_type("SLICE_END").count());
        assert!(with_type("SLICE_BEGIN").all(|event| event["categories"][0] == "memledger.scope"));
        let values = |name: &'static str| {
            let points = with_type("COUNTER").filter(move |event| event["track"]["name"] == name);
            points.map(|event| event["value"].as_u64().expect("a number")).collect::<Vec<_>>()
        };
        assert_eq!(values("live bytes").last(), Some(&total("live_bytes")), "{trace}");
        assert_eq!(values("live bytes").iter().max(), Some(&total("peak_bytes")), "{trace}");
        assert_eq!(values("allocated bytes").last(), Some(&total("allocated_bytes")));
        let most = values("RSS").into_iter().max();
        assert_eq!(most.is_some(), report["rss"].is_object(), "{trace}");
        assert!(most.is_none_or(|most| most <= report["rss"]["most_bytes"].as_u64().expect("it")));
        let instant = with_type("INSTANT").find(|event| event["name"] == "totals").expect("totals");
        for key in ["allocations", "frees", "reallocations", "peak_bytes", "live_blocks"] {
            assert_eq!(instant["arguments"][key], totals[key], "{trace}: {key}");
        }
        assert_eq!(instant["arguments"]["complete"], report["trace"]["complete"], "{trace}");
        let notes = with_type("INSTANT").filter(|event| event["track"]["name"] == "memory totals");
        let is_said = notes.count() > 1;
        assert_eq!(is_said, report["trace"]["complete"] == false, "{trace}");
    }
}

#[test]
fn dumps_are_at_intervals_at_the_peak_and_at_the_end() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let dumps = |more: &[&str]| {
        let path = export(&folder, TRACES[0], more);
        json(&["info", as_arg(&path), "--format", "json"])["heaps"][0]["dumps"]
            .as_u64()
            .expect("it")
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
fn lines_have_names_and_damage_is_one_sentence() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = export(&folder, TRACES[1], &[]);
    let lines = |args: &[&str]| {
        let (status, out, err) = run(&[&["events", as_arg(&path)], args].concat());
        assert_eq!((status, err.as_str()), (0, ""));
        String::from_utf8(out).expect("UTF-8")
    };
    let begins = lines(&["--filter", "SLICE_BEGIN"]);
    assert!(
        begins.contains(" track_event SLICE_BEGIN \"GlobalScope\" [memledger.scope] track="),
        "{begins}"
    );
    assert_eq!(lines(&["--filter", "clock_snapshot", "--limit", "1"]).lines().count(), 1);
    assert!(lines(&["--filter", "profile_packet"]).contains("heap_name=\"Rust\""));
    assert!(
        lines(&["--filter", "totals"])
            .contains(" INSTANT \"totals\" track=\"memory totals\" allocations=")
    );
    assert_eq!(lines(&["--thread", "4000000000"]), "");

    let whole = fs::read(&path).expect("it is there");
    fs::write(&path, &whole[..whole.len() - 3]).expect("it can be written");
    for command in ["events", "info"] {
        let (status, out, err) = run(&[command, as_arg(&path)]);
        assert_eq!(
            (status, err.lines().filter(|line| line.contains(" is damaged: ")).count()),
            (1, 1),
            "{err}"
        );
        assert!(!out.is_empty());
    }
    let (status, ..) = run(&["info", as_arg(&path), "--allow-incomplete"]);
    assert_eq!(status, 0);
}
