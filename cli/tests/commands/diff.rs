//! `memledger diff` as a user meets it. What differs between two runs of a program with stacks is in
//! `tests/run`.

use memledger_test_support::command::{ran, told};
use memledger_test_support::memledger;
use serde_json::Value;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");
const LATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/late.utrace");
const KILLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/killed.utrace");

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    told(ran(memledger!(args)))
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let (_, out, err) = run(&[args, &["--format", "json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"))
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let (status, out, err) = run(&["diff", SAMPLE, SAMPLE]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("  peak") && out.contains(" the same"), "{out}");
    assert!(!out.contains('+'), "{out}");
    let document = json(&["diff", SAMPLE, SAMPLE, "--by", "thread"]);
    assert_eq!(document["tables"][0]["rows"].as_array().map(Vec::len), Some(0));
    for condition in ["peak_bytes grew >= 0", "peak_bytes shrank > 0%", "live_blocks grew > 0"] {
        assert_eq!(run(&["diff", SAMPLE, SAMPLE, "--fail-if", condition]).0, 0, "{condition}");
    }
}

#[test]
fn a_report_from_a_time_to_a_time_is_what_has_changed_between_them() {
    for options in [&["--by", "thread", "--top", "3"][..], &["--width", "60"]] {
        let asked = run(&[&["report", SAMPLE, "--from", "25%", "--to", "75%"], options].concat());
        assert_eq!(
            asked,
            run(&[&["diff", SAMPLE, "--at", "25%", "--at", "75%"], options].concat())
        );
        assert_eq!(asked.0, 0, "{}", asked.2);
    }
    let to_the_end = run(&["report", SAMPLE, "--from", "50%"]);
    assert_eq!(to_the_end, run(&["diff", SAMPLE, "--at", "50%", "--at", "end"]));
    let (status, _, err) = run(&["report", SAMPLE, "--from", "50%", "--at", "60%"]);
    assert_eq!(status, 2, "{err}");
}

#[test]
fn the_totals_are_those_of_the_reports_and_the_rows_add_up_to_them() {
    let document = json(&["diff", LATE, SAMPLE, "--by", "scope", "--sort", "allocated"]);
    let [old, new] = [LATE, SAMPLE].map(|trace| json(&["report", trace]));
    for (side, report) in [("old", &old), ("new", &new)] {
        for part in ["totals", "trace", "losses"] {
            assert_eq!(document[side][part], report[part], "{side} {part}");
        }
    }
    let rows = document["tables"][0]["rows"].as_array().expect("rows");
    let changes: i64 = rows.iter().filter_map(|row| row["change"].as_i64()).sum();
    let total = |report: &Value| report["totals"]["allocated_bytes"].as_i64().expect("bytes");
    assert_eq!(changes, total(&new) - total(&old));
}

#[test]
fn two_times_are_the_reports_of_these_times() {
    let pairs = [["25%", "75%"], ["75%", "25%"], ["peak", "end"], ["50%", "peak"], ["0", "0"]];
    for [old, new] in pairs.iter().chain([&["end", "start"], &["peak", "peak"]]) {
        let document = json(&["diff", SAMPLE, "--at", old, "--at", new, "--by", "thread"]);
        for (side, at) in [("old", old), ("new", new)] {
            let report = json(&["report", SAMPLE, "--at", at]);
            for part in ["totals", "trace", "losses"] {
                assert_eq!(document[side][part], report[part], "{side} {part} of {old}, {new}");
            }
        }
    }
    let document = json(&["diff", SAMPLE, LATE, "--at", "50%"]);
    assert_eq!(document["new"]["totals"], json(&["report", LATE, "--at", "50%"])["totals"]);
}

#[test]
fn conditions_are_about_the_change_or_the_new_trace() {
    let [old, new] = [LATE, SAMPLE].map(|trace| json(&["report", trace]));
    let peak = |report: &Value| report["totals"]["peak_bytes"].as_u64().expect("bytes");
    let (old, new) = (peak(&old), peak(&new));
    assert!(new > old, "the sample is the larger one");
    let more = new - old;
    for (condition, status) in [
        (format!("peak_bytes grew > {more}"), 0),
        (format!("peak_bytes grew >= {more}"), 3),
        ("peak_bytes grew > 1%".to_owned(), 3),
        ("peak_bytes grew > 1000000000%".to_owned(), 0),
        ("peak_bytes shrank > 0".to_owned(), 0),
        (format!("peak_bytes = {new}"), 3),
        ("peak_bytes grew > 1KiB".to_owned(), 3),
    ] {
        let (found, _, err) = run(&["diff", LATE, SAMPLE, "--fail-if", &condition]);
        assert_eq!(found, status, "{condition}: {err}");
    }
    let (_, _, err) = run(&["diff", LATE, SAMPLE, "--fail-if", "peak_bytes grew > 1%"]);
    assert!(err.contains(&format!("peak_bytes was {old} (")), "{err}");
    let (status, _, err) = run(&["report", SAMPLE, "--fail-if", "peak_bytes grew > 5%"]);
    assert_eq!(status, 2);
    assert!(err.contains("compares two traces; use it with memledger diff"), "{err}");
}

#[test]
fn a_trace_that_is_not_whole_is_status_1_and_passes_no_condition() {
    let (status, out, err) = run(&["diff", SAMPLE, KILLED]);
    assert_eq!(status, 1);
    assert!(out.contains("not whole") && err.contains("has no end"), "{out}{err}");
    assert_eq!(run(&["diff", KILLED, SAMPLE, "--allow-incomplete"]).0, 0);
    let condition = ["--allow-incomplete", "--fail-if", "peak_bytes grew > 1GB"];
    let (status, _, err) = run(&[&["diff", KILLED, SAMPLE][..], &condition].concat());
    assert_eq!(status, 1);
    assert!(err.contains("cannot pass"), "{err}");
}

#[test]
fn markdown_has_whole_tables() {
    let (status, out, _) = run(&["diff", LATE, SAMPLE, "--format", "markdown"]);
    assert_eq!(status, 0);
    assert!(out.starts_with("### Memory of <code>"), "{out}");
    assert_eq!(out.matches("<details>").count(), out.matches("</details>").count());
    for line in out.lines().filter(|line| line.starts_with('|')) {
        assert_eq!(line.matches('|').count(), 6, "{line}");
    }
    for (at, line) in out.lines().enumerate().filter(|(_, line)| line.starts_with("|---")) {
        let header = out.lines().nth(at - 1).expect("a header");
        assert!(header.starts_with('|') && out.lines().nth(at - 2) == Some(""), "{line}");
    }
}

#[test]
fn lines_are_no_wider_than_asked() {
    for width in [80, 160] {
        let width_arg = width.to_string();
        let (_, out, _) = run(&["diff", LATE, SAMPLE, "--width", &width_arg]);
        let widest = out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{out}");
    }
}

#[test]
fn what_cannot_be_compared_is_one_sentence() {
    for args in [
        &["diff", SAMPLE][..],
        &["diff", SAMPLE, "--at", "50%"],
        &["diff", SAMPLE, LATE, "--at", "1", "--at", "2", "--at", "3"],
        &["diff", "-", "-"],
        &["diff", SAMPLE, LATE, "--by", "size"],
        &["diff", SAMPLE, LATE, "--fail-if", "peak_bytes grew = 5%"],
        &["diff", SAMPLE, LATE, "--fail-if", "complete grew > 1"],
        &["diff", SAMPLE, LATE, "--fail-if", "allocations grew > 1MiB"],
    ] {
        let (status, out, err) = run(args);
        assert_eq!((status, out.as_str()), (2, ""), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (status, _, err) = run(&["diff", SAMPLE, "/no/such.utrace"]);
    assert_eq!(status, 1);
    assert_eq!(err, "memledger: cannot open /no/such.utrace: there is no such file\n");
}
