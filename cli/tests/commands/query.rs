//! `memledger query` as a user meets it: what it prints, where, and with which exit status.

use memledger_test_support::command::{ran, told};
use memledger_test_support::memledger;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");

fn memledger(args: &[&str]) -> Command {
    memledger!(args)
}

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    told(ran(memledger(args)))
}

fn query(args: &[&str]) -> (i32, String, String) {
    run(&[&["query", SAMPLE], args].concat())
}

fn json(args: &[&str]) -> Value {
    let (status, out, err) = query(&[args, &["--format", "json"]].concat());
    assert_eq!((status, err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&out).expect("JSON")
}

fn report(args: &[&str]) -> Value {
    let (status, out, _) = run(&[&["report", SAMPLE, "--format", "json"], args].concat());
    assert_eq!(status, 0);
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn what_is_alive_is_the_report_of_that_moment_to_the_byte() {
    for at in ["start", "1ms", "50%", "peak", "end", "end"] {
        let report = report(&["--at", at]);
        let totals = &report["totals"];
        for by in ["scope", "group", "name", "thread", "size"] {
            let answer = json(&["--rule", "alive-at-a", "--a", at, "--by", by]);
            let total = &answer["total"];
            assert_eq!(
                (&total["blocks"], &total["bytes"]),
                (&totals["live_blocks"], &totals["live_bytes"]),
                "{at}"
            );
            let rows = answer["rows"].as_array().expect("rows");
            let rows_of = |key: &'static str| {
                rows.iter().map(move |row| row[key].as_u64().expect("a number"))
            };
            assert_eq!(Some(rows_of("bytes").sum()), total["bytes"].as_u64(), "{at} {by}");
            assert_eq!(Some(rows_of("blocks").sum()), total["blocks"].as_u64(), "{at} {by}");
            let same = report[format!("by_{by}")].as_array().expect("rows");
            for row in rows {
                let keys = ["path", "group", "name", "id", "min_bytes"];
                let is_same = |other: &&Value| {
                    keys.iter().all(|key| row.get(key).is_none() || row.get(key) == other.get(key))
                };
                let of_report = same.iter().find(is_same).expect("the report has the row");
                assert_eq!(row["bytes"], of_report["live_bytes"], "{at} {row}");
            }
        }
    }
}

#[test]
fn the_rules_fit_together() {
    let total = |rule: &str, times: &[&str]| {
        let names = ["--a", "--b", "--c", "--d"];
        let times = names.iter().zip(times).flat_map(|(name, time)| [*name, *time]);
        let args: Vec<_> = ["--rule", rule].into_iter().chain(times).collect();
        let total = &json(&args)["total"];
        let of = |key: &str| total[key].as_u64().unwrap_or(0) as i64;
        [of("blocks"), of("bytes"), of("declined_blocks"), of("declined_bytes")]
    };
    let totals = &report(&[])["totals"];
    let of = |key: &str| totals[key].as_u64().expect("a number") as i64;
    let all = total("allocated-between", &["start", "end"]);
    assert_eq!(all[..2], [of("allocations") + of("reallocations"), of("allocated_bytes")]);
    assert_eq!(all, total("allocated-after", &["start"]));
    let (a, b) = ("98%", "peak");
    let (at_a, at_b) = (total("alive-at-a", &[a]), total("alive-at-a", &[b]));
    let (grown, declined) = (total("grown", &[a, b]), total("declined", &[a, b]));
    let both = total("grown-and-declined", &[a, b]);
    assert_eq!([grown[0], grown[1], declined[0], declined[1]], both);
    for figure in 0..2 {
        assert_eq!(at_b[figure] - at_a[figure], grown[figure] - declined[figure]);
        let kept = total("long-lived", &[a, b]);
        assert_eq!(kept[figure] + grown[figure], at_b[figure]);
        assert_eq!(kept[figure] + declined[figure], at_a[figure]);
        let freed = total("freed-between", &[a, b]);
        let short = total("short-lived", &[a, b]);
        assert_eq!(freed[figure], short[figure] + declined[figure]);
        let made = total("allocated-between", &[a, b]);
        assert_eq!(made[figure], short[figure] + grown[figure]);
        let leaked = total("leaked", &[a, b, "end"]);
        let limited = total("limited-lifetime", &[a, b, "end"]);
        assert_eq!(grown[figure], leaked[figure] + limited[figure]);
        let specific = total("specific-lifetime", &[a, b, b, "end"]);
        assert_eq!(limited[figure], specific[figure]);
        let old = total("declined-long-lived", &[a, b, "end"]);
        let later = total("freed-between", &[b, "end"]);
        assert!(old[figure] + limited[figure] <= later[figure]);
        let before = total("freed-before", &[a]);
        let until = total("freed-before", &[b]);
        assert_eq!(before[figure] + freed[figure], until[figure]);
    }
    assert!(grown[0] > 0 && declined[0] > 0, "the sample says something");
    assert_eq!(total("AaBf", &[a, b]), grown, "the name that Insights has");
    assert_eq!(total("growth", &[a, b]), grown, "its second name");
    assert_eq!(total("live", &[a]), at_a);
}

#[test]
fn single_blocks_are_listed_and_the_table_fits() {
    let answer = json(&["--rule", "freed-between", "--a", "start", "--blocks", "5"]);
    let blocks = answer["blocks"].as_array().expect("blocks");
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        assert!(block["freed_at_ns"].is_u64() && block["freed_by_event"].is_u64(), "{block}");
        assert!(block["address"].as_str().is_some_and(|text| text.starts_with("0x")), "{block}");
        assert!(block["path"].is_array() && block["thread"].is_string(), "{block}");
    }
    let largest = &report(&["--at", "peak", "--top", "3"])["largest_live"];
    let answer = json(&["--rule", "alive-at-a", "--a", "peak", "--blocks", "3"]);
    for (one, other) in answer["blocks"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(largest.as_array().into_iter().flatten())
    {
        for key in ["address", "bytes", "thread", "group", "name", "path", "allocated_at_ns"] {
            assert_eq!(one[key], other[key]);
        }
    }
    for width in ["80", "160"] {
        let args = ["--rule", "grown-and-declined", "--a", "98%", "--b", "peak", "--blocks", "3"];
        let (status, out, _) = query(&[&args[..], &["--width", width]].concat());
        assert_eq!(status, 0);
        let width: usize = width.parse().expect("a number");
        assert!(out.lines().all(|line| line.chars().count() <= width), "{out}");
        assert!(out.contains("declined") && out.contains("Largest blocks"), "{out}");
    }
}

#[test]
fn ages_and_filters_select() {
    let blocks = |args: &[&str]| json(args)["total"]["blocks"].as_u64().expect("a number");
    let freed = ["--rule", "freed-between", "--a", "start", "--b", "end"];
    let young = blocks(&[&freed[..], &["--shorter-than", "5ms"]].concat());
    let old = blocks(&[&freed[..], &["--longer-than", "5ms"]].concat());
    let both = blocks(&[&freed[..], &["--longer-than", "0"]].concat());
    assert_eq!(young + old, both);
    let (status, out, err) =
        query(&["--rule", "alive-at-a", "--a", "end", "--filter", "GlobalScop3"]);
    assert_eq!(status, 0);
    assert!(out.contains("found") && err.contains("no row has \"GlobalScop3\""), "{out}{err}");
    let none = json(&["--rule", "alive-at-a", "--a", "end", "--scope", "no such scope"]);
    assert_eq!(none["total"]["blocks"], 0);
}

#[test]
fn each_run_of_a_scope_says_what_it_left_behind() {
    let each = ["--in-each", "tag/0"];
    let left = json(&[&["--rule", "grown"], &each[..]].concat());
    let freed = json(&[&["--rule", "short-lived", "--a", "start"], &each[..]].concat());
    let report = report(&[]);
    let rows = report["by_scope"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["path"][1] == "tag/0").expect("the scope");
    let blocks =
        [&left, &freed].map(|answer| answer["total"]["blocks"].as_u64().expect("a number"));
    assert_eq!(Some(blocks.iter().sum()), row["inclusive"]["allocations"].as_u64());
    let runs = &left["runs"];
    assert_eq!((&runs["scope"], &runs["runs"]), (&"tag/0".into(), &1.into()));
    let largest = runs["largest"].as_array().expect("runs");
    assert_eq!(largest.len() as u64, blocks[0]);
    let largest = &freed["runs"]["largest"];
    assert_eq!(largest[0]["blocks"], freed["total"]["blocks"]);
    assert_eq!(largest[0]["bytes"], freed["total"]["bytes"]);
    let (status, out, err) = query(&["--rule", "grown", "--in-each", "tag/0"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.starts_with("grown in each run of tag/0: blocks"), "{out}");
    assert!(out.contains("  runs         1, of which"), "{out}");
}

#[test]
fn without_a_rule_it_is_what_was_live_at_the_peak() {
    assert_eq!(query(&[]), query(&["--rule", "alive-at-a", "--a", "peak", "--by", "scope"]));
    assert_eq!(
        query(&["--rule", "grown"]),
        query(&["--rule", "grown", "--a", "start", "--b", "end", "--by", "scope"])
    );
    let leaks = run(&["leaks", SAMPLE]);
    assert_eq!(leaks, query(&["--rule", "leaked", "--a", "start"]));
    assert!(leaks.1.contains("\n  found        511.5 KiB in 252 blocks\n"), "{}", leaks.1);
}

#[test]
fn what_cannot_be_asked_is_one_sentence() {
    let two = ["--rule", "grown", "--a", "50%", "--b", "10%"];
    let cases: [(&[&str], i32, &str); 15] = [
        (&["--rule", "grown", "--in-each", "GlobalScope"], 2, "it has no runs"),
        (&["--rule", "grown", "--in-each", "tag/"], 1, "is likely meant"),
        (
            &["--rule", "grown", "--in-each", "xyzzy"],
            1,
            "no scope in which something was allocated",
        ),
        (&["--rule", "leaked", "--in-each", "tag/0"], 2, "it applies to short-lived and grown"),
        (&["--rule", "grown", "--in-each", "x", "--scope", "y"], 2, "cannot be used with"),
        (&two, 1, "--b 10% is before --a 50%"),
        (&["--rule", "grown", "--a", "bookmark:x"], 1, "no bookmark \"x\""),
        (
            &["--rule", "grow", "--a", "1s"],
            2,
            "'grow' is not a value of --rule; grown is likely meant",
        ),
        (
            &["--rule", "colour"],
            2,
            "there are live, freed-before, allocated-after, allocated-between, freed-between, short-lived and 8 more",
        ),
        (&["--rule", "grown", "--a", "soon"], 2, "a time is 1.5s"),
        (&["--rule", "grown", "--a", "0", "--by", "colour"], 2, "scope"),
        (&["--rule", "live", "--a", "0", "--b", "1s"], 2, "--b does not apply to the rule"),
        (&["--rule", "leaked", "--a", "0", "--c", "1s"], 2, "--b is missing before --c"),
        (
            &["--rule", "allocated-after", "--a", "0", "--longer-than", "1s"],
            2,
            "--longer-than does not apply",
        ),
        (&["--rule", "grown", "--a", "0", "--blocks", "100000"], 2, "at most 1000"),
    ];
    for (args, expected_status, sentence) in cases {
        let (status, out, err) = query(args);
        assert_eq!((status, out.as_str()), (expected_status, ""), "{args:?}: {err}");
        assert!(err.contains(sentence) && err.lines().count() == 1, "{args:?}: {err}");
    }
    let (status, _, err) = query(&["--rule", "grown", "--a", "500h"]);
    assert_eq!(status, 2, "{err}");
    let (status, out, err) = query(&["--rule", "grown", "--a", "500min"]);
    assert_eq!(status, 0);
    assert!(out.contains("nothing") && err.contains("is after the end of the trace"), "{out}{err}");
}

#[test]
fn standard_input_does_for_what_one_pass_can_answer() {
    let from = |args: &[&str]| {
        let sample = File::open(SAMPLE).expect("the sample");
        told(memledger(args).stdin(sample).output().expect("the command runs"))
    };
    let args = ["query", "-", "--rule", "grown", "--a", "1ms", "--b", "end"];
    let (status, out, err) = from(&args);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(out, query(&args[2..]).1);
    let (status, _, err) = from(&["query", "-", "--rule", "grown", "--a", "peak"]);
    assert_eq!(status, 2);
    assert!(err.contains("peak needs to read the trace twice"), "{err}");
}

#[test]
fn a_truncated_trace_is_answered_and_status_1() {
    let whole = fs::read(SAMPLE).expect("the sample");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("query-truncated.utrace");
    fs::write(&path, &whole[..whole.len() / 2]).expect("the folder for tests can be written");
    let path = path.to_str().expect("UTF-8");
    let args = ["query", path, "--rule", "allocated-after", "--a", "start"];
    let (status, out, err) = run(&args);
    assert_eq!(status, 1);
    assert!(out.contains("LOSSES") && out.contains("found"), "{out}");
    assert!(err.contains("the result covers only"), "{err}");
    assert_eq!(run(&[&args[..], &["--allow-incomplete"]].concat()).0, 0);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("query-answer.json");
    let args = [&args[..], &["--format", "json", "-o", file.to_str().expect("UTF-8")]].concat();
    assert_eq!(run(&args).1, "", "it goes to the file");
    let answer: Value = serde_json::from_slice(&fs::read(&file).expect("the file")).expect("JSON");
    assert_eq!(answer["schema"], "memledger.query/1");
    assert_eq!(answer["trace"]["complete"], false);
}
