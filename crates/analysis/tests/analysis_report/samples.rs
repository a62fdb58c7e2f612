//! The samples of Unreal's own runtime: the totals an independent checker found.

use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Position, Report};
use serde_json::Value;
use std::path::Path;

fn sample(name: &str) -> (Vec<u8>, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/samples");
    let trace = std::fs::read(folder.join(format!("{name}.utrace"))).expect("the sample");
    let expected = std::fs::read(folder.join(format!("{name}.expected.json"))).expect("its values");
    (trace, serde_json::from_slice(&expected).expect("JSON"))
}

fn analyze(trace: &[u8], until: Position) -> (Report, u64) {
    let mut analyzer = Analyzer::new().until(until);
    read(trace, &mut analyzer).expect("a trace");
    assert_eq!(analyzer.problems(), [""; 0]);
    (analyzer.report(), analyzer.peak_event())
}

fn json(report: &Report) -> Value {
    let mut text = Vec::new();
    memledger_export::json::write(report, &mut text).expect("memory takes everything");
    serde_json::from_slice(&text).expect("JSON")
}

fn totals_are_those_of_the_checker(name: &str) {
    let (trace, expected) = sample(name);
    let (report, _) = analyze(&trace, Position::End);
    let expected = &expected["memory"];
    let totals = &json(&report)["totals"];
    for (ours, theirs) in [
        ("allocations", "allocs"),
        ("frees", "frees"),
        ("reallocations", "reallocs"),
        ("live_blocks", "live_blocks"),
        ("live_bytes", "live_bytes"),
        ("peak_bytes", "peak_bytes"),
        ("peak_blocks", "peak_blocks"),
        ("allocated_bytes", "allocated_bytes_total"),
    ] {
        assert_eq!(totals[ours], expected[theirs], "{name}: {ours}");
    }
    let last = expected["last_marker_seconds"].as_f64().expect("a number");
    assert_eq!(report.trace.duration_ns, (last * 1e9).round() as u64);
    assert!(report.trace.complete);
    // The checker counts an allocation at the thread that makes it, and so do our rows.
    let threads = expected["threads"].as_object().expect("threads");
    for (id, thread) in threads.iter().filter(|(_, thread)| thread["allocs"] != 0) {
        let row = report.by_thread.iter().find(|row| row.id.to_string() == *id).expect("a row");
        assert_eq!(Value::from(row.figures.allocations), thread["allocs"]);
        assert_eq!(Value::from(row.figures.allocated_bytes), thread["allocated_bytes"]);
    }
    for tag in expected["tags"].as_array().expect("tags").iter().filter(|tag| tag["allocs"] != 0) {
        let name = tag["name"].as_str().unwrap_or("GlobalScope");
        let is_it = |path: &[String]| path.last().is_some_and(|last| last == name);
        let row = report.by_scope.iter().find(|row| is_it(&row.path)).expect("a row");
        assert_eq!(Value::from(row.figures.allocations), tag["allocs"]);
        assert_eq!(Value::from(row.figures.allocated_bytes), tag["allocated_bytes"]);
        assert_eq!(Value::from(row.figures.live_bytes), tag["live_bytes"]);
    }
}

#[test]
fn a_small_trace_of_unreals() {
    totals_are_those_of_the_checker("ue511-smoke");
}

#[test]
fn a_trace_whose_threads_interleave() {
    totals_are_those_of_the_checker("mem-2t-40k");
}

#[test]
fn a_tag_stands_below_its_parent() {
    let (report, _) = analyze(&sample("ue511-smoke").0, Position::End);
    let paths: Vec<_> = report.by_scope.iter().map(|row| row.path.join("/")).collect();
    assert_eq!(paths, ["GlobalScope", "GlobalScope/tag/0/tag/5", "GlobalScope/tag/0"]);
}

#[test]
fn two_analyzers_give_the_same_bytes() {
    let (trace, _) = sample("mem-2t-40k");
    let text = || {
        let mut text = Vec::new();
        let (report, _) = analyze(&trace, Position::End);
        memledger_export::json::write(&report, &mut text).expect("memory takes everything");
        text
    };
    assert_eq!(text(), text());
}

#[test]
fn the_report_at_the_peak_is_at_its_peak() {
    let (trace, _) = sample("mem-2t-40k");
    let (end, peak) = analyze(&trace, Position::End);
    let (at_peak, _) = analyze(&trace, Position::Event(peak));
    assert_eq!(at_peak.totals.live_bytes, end.totals.peak_bytes);
    assert_eq!(at_peak.totals.live_blocks, end.totals.blocks_at_peak);
    for row in &at_peak.by_thread {
        let later = end.by_thread.iter().find(|later| later.id == row.id).expect("the same row");
        assert_eq!(row.figures.live_bytes, later.figures.live_bytes_at_peak);
        assert_eq!(row.figures.live_blocks, later.figures.live_blocks_at_peak);
    }
}

#[test]
fn the_keys_are_those_of_the_contract() {
    let report = json(&analyze(&sample("ue511-smoke").0, Position::End).0);
    let keys = |value: &Value| {
        value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ")
    };
    // NOTE: serde_json sorts the keys of a parsed object.
    assert_eq!(
        keys(&report),
        "after_report bookmarks by_crate by_function by_group by_line by_name by_scope by_size \
         by_stack by_thread findings frames largest_live losses modules peak peak_by schema stack_sampling_bytes \
         totals trace untracked"
    );
    assert_eq!(report["schema"], "memledger.report/1");
    let row = "allocated_bytes allocations frees live_blocks live_blocks_at_peak live_bytes \
               live_bytes_at_peak peak_bytes reallocations short_lived";
    assert_eq!(keys(&report["by_scope"][0]["inclusive"]), row);
    assert_eq!(
        keys(&report["trace"]),
        "complete coverage duration_ns ended events from_process_start initial_live_blocks memory_recorded \
         missed_at_start parent_pid pid program recording_since_ns scopes_off time_resolution_ns tracker_optimized"
    );
    assert_eq!(
        keys(&report["largest_live"][0]),
        "address allocated_at_ns bytes group name path stack thread"
    );
    assert_eq!(report["largest_live"].as_array().map(Vec::len), Some(100));
}
