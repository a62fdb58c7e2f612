//! `memledger export --to pprof` and `--to callgrind`, read by another decoder than ours.

use memledger_test_support::command::{ran, told_bytes};
use memledger_test_support::memledger;
use memledger_test_support::pprof::{Profile, Sample};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// With call stacks, without symbols; by Unreal's writer.
const STACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");
/// With scopes, groups and names, without call stacks.
const SCOPES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace");
const HEAPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/heaps.memledger");

/// Status, standard output, standard error.
fn memledger(args: &[&str]) -> (i32, Vec<u8>, String) {
    told_bytes(ran(memledger!(args)))
}

fn export(trace: &str, to: &str) -> Vec<u8> {
    let (status, out, err) = memledger(&["export", trace, "--to", to, "-o", "-"]);
    assert_eq!((status, err.as_str()), (0, ""));
    out
}

fn report(trace: &str) -> Value {
    let (status, out, _) = memledger(&["report", trace, "--format", "json"]);
    assert_eq!(status, 0);
    serde_json::from_slice(&out).expect("JSON")
}

/// The figures of a row, in the order of the types of a profile.
fn figures(row: &Value) -> [u64; 6] {
    let of = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row}"));
    let at_peak = |key: &str, total: &str| of(if row.get(key).is_some() { key } else { total });
    [
        of("allocations") + of("reallocations"),
        of("allocated_bytes"),
        of("live_blocks"),
        of("live_bytes"),
        at_peak("live_blocks_at_peak", "blocks_at_peak"),
        at_peak("live_bytes_at_peak", "peak_bytes"),
    ]
}

fn joined(names: &Value) -> String {
    let names = names.as_array().expect("names").iter();
    names.map(|name| name.as_str().expect("a name")).collect::<Vec<_>>().join(" > ")
}

/// The sums of a column by the rows of a list of the report.
fn rows(
    report: &Value,
    list: &str,
    kind: usize,
    key: impl Fn(&Value) -> String,
) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in report[list].as_array().expect("rows") {
        *sums.entry(key(row)).or_default() += figures(row)[kind];
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

/// Each of the profile's figures is in the report.
fn assert_is_of(profile: &Profile, report: &Value) {
    let types = [
        "alloc_objects",
        "alloc_space",
        "inuse_objects",
        "inuse_space",
        "peak_objects",
        "peak_space",
    ];
    assert_eq!(
        profile.types.iter().map(|[name, _]| name).collect::<Vec<_>>(),
        types.iter().collect::<Vec<_>>()
    );
    assert_eq!(profile.default_type, "inuse_space");
    let totals = figures(&report["totals"]);
    for (kind, [name, unit]) in profile.types.iter().enumerate() {
        assert_eq!(unit, if name.ends_with("objects") { "count" } else { "bytes" });
        let sum: u64 = profile.samples.iter().map(|sample| sample.values[kind]).sum();
        assert_eq!(sum, totals[kind], "{name}");
        let label = |key: &'static str| move |sample: &Sample| sample.labels[key].clone();
        let by = |list: &str, key: &dyn Fn(&Value) -> String| rows(report, list, kind, key);
        assert_eq!(profile.sums(kind, label("scope")), by("by_scope", &|row| joined(&row["path"])));
        assert_eq!(
            profile.sums(kind, label("group")),
            by("by_group", &|row| joined(&row["group"]))
        );
        let name =
            |sample: &Sample| format!("{} / {}", sample.labels["group"], sample.labels["name"]);
        let name_of = |row: &Value| {
            format!("{} / {}", joined(&row["group"]), row["name"].as_str().expect("text"))
        };
        assert_eq!(profile.sums(kind, name), by("by_name", &name_of));
        let thread = |row: &Value| match row["name"].as_str().expect("text") {
            "" => format!("thread {}", row["id"]),
            name => name.to_owned(),
        };
        assert_eq!(profile.sums(kind, label("thread")), by("by_thread", &thread));
        // A report of one heap has no rows of heaps.
        if report["by_heap"].is_null() {
            assert!(profile.samples.iter().all(|sample| !sample.labels.contains_key("heap")));
        } else {
            let name = |row: &Value| row["name"].as_str().expect("text").to_owned();
            assert_eq!(profile.sums(kind, label("heap")), by("by_heap", &name));
        }
    }
    assert!(profile.samples.iter().all(|sample| sample.values.iter().any(|value| *value > 0)));
}

#[test]
fn a_profile_has_the_stacks_and_figures_of_the_report() {
    let (profile, report) = (Profile::decode(&export(STACKS, "pprof")), report(STACKS));
    assert_is_of(&profile, &report);
    // The trace has no modules, so functions are addresses.
    assert!(profile.mappings.is_empty());
    for row in report["by_function"].as_array().expect("rows") {
        let name = row["function"].as_str().expect("a name");
        let own = |kind: usize| profile.sums(kind, |sample| sample.functions[0] == name);
        let own = [0, 1, 2, 3, 4, 5].map(|kind| own(kind).get(&true).copied().unwrap_or(0));
        assert_eq!(own, figures(row), "{name}");
    }
    assert_eq!(profile.nanoseconds, [0, report["trace"]["duration_ns"].as_u64().expect("a time")]);
    assert_eq!((profile.period, profile.comments.len()), (1, 1), "{:?}", profile.comments);
}

#[test]
fn without_stacks_scopes_are_frames() {
    let profile = Profile::decode(&export(SCOPES, "pprof"));
    assert_is_of(&profile, &report(SCOPES));
    assert_is_of(&Profile::decode(&export(HEAPS, "pprof")), &report(HEAPS));
    for sample in &profile.samples {
        let mut frames: Vec<_> = sample.labels["scope"].split(" > ").collect();
        let name = format!("{} / {}", sample.labels["group"], sample.labels["name"]);
        if name != "Unknown / Unnamed" {
            frames.push(&name);
        }
        frames.reverse();
        assert_eq!(sample.functions, frames);
    }
    assert!(profile.mappings.is_empty());
}

/// By function: its own costs, and those with all that it called.
type Costs = BTreeMap<String, [Vec<u64>; 2]>;

/// The costs of the entries of a file of callgrind: their own, and with all that they called, which
/// is what their callers' calls cost. Then the summary and the totals.
fn callgrind(text: &str) -> (Costs, Vec<u64>, Vec<u64>) {
    let mut names = BTreeMap::<(char, String), String>::new();
    let mut name = |kind: char, text: &str| {
        let (id, rest) = text.split_once(')').expect("a number");
        match rest.trim_start() {
            "" => names[&(kind, id.to_owned())].clone(),
            new => {
                assert!(names.insert((kind, id.to_owned()), new.to_owned()).is_none(), "{text}");
                new.to_owned()
            }
        }
    };
    let numbers = |text: &str| -> Vec<u64> {
        text.split_whitespace().map(|number| number.parse().expect(text)).collect()
    };
    let mut entries = BTreeMap::<String, [Vec<u64>; 2]>::new();
    let (mut summary, mut totals) = (Vec::new(), Vec::new());
    let (mut current, mut called) = (String::new(), None::<String>);
    for line in text.lines().skip_while(|line| !line.starts_with("events: ")).skip(1) {
        let (key, value) = line.split_once(['=', ':']).unwrap_or(("", line));
        match key {
            "ob" | "cob" => drop(name('o', value)),
            "fl" | "cfi" => drop(name('f', value)),
            "fn" => current = name('n', value),
            "cfn" => called = Some(name('n', value)),
            "calls" => assert!(numbers(value)[0] > 0, "{line}"),
            "summary" => summary = numbers(value),
            "totals" => totals = numbers(value),
            "" if value.is_empty() => {}
            "" => {
                let costs = &numbers(value)[1..];
                let is_call = called.is_some();
                let entry = called.take().unwrap_or_else(|| current.clone());
                let sums = &mut entries.entry(entry).or_insert_with(|| [vec![0; 6], vec![0; 6]])
                    [usize::from(is_call)];
                sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            }
            _ => panic!("{line}"),
        }
    }
    (entries, summary, totals)
}

/// The figures of a row in the order of callgrind's events.
fn costs(row: &Value) -> Vec<u64> {
    let [objects, space, live_blocks, live, blocks_at_peak, at_peak] = figures(row);
    vec![at_peak, blocks_at_peak, live, live_blocks, space, objects]
}

#[test]
fn costs_of_functions_and_calls_are_those_of_the_report() {
    for trace in [STACKS, SCOPES] {
        let text = String::from_utf8(export(trace, "callgrind")).expect("UTF-8");
        assert!(text.contains(
            "events: PeakBytes PeakBlocks LiveBytes LiveBlocks AllocatedBytes AllocatedBlocks\n"
        ));
        let (entries, summary, totals) = callgrind(&text);
        let report = report(trace);
        assert_eq!(summary, costs(&report["totals"]));
        assert_eq!(totals, summary);
        let mut own = vec![0; 6];
        entries
            .values()
            .for_each(|[costs, _]| own.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost));
        assert_eq!(own, totals, "each block counts in one place");
        // Both have the same functions, each with all that it called.
        for row in report["by_function"].as_array().into_iter().flatten() {
            let name = row["function"].as_str().expect("a name");
            if name != "(no stack)" && costs(row) != [0; 6] {
                let within =
                    entries.get(&format!("{name}'2")).map_or(vec![0; 6], |[own, _]| own.clone());
                let own: Vec<_> =
                    entries[name][0].iter().zip(&within).map(|(a, b)| a + b).collect();
                assert_eq!(own, costs(row), "{name}");
                assert_eq!(entries[name][1], costs(&row["inclusive"]), "{name}");
            }
        }
        if report["by_function"].as_array().is_none_or(Vec::is_empty) {
            for row in report["by_name"].as_array().expect("rows") {
                let name =
                    format!("{} / {}", joined(&row["group"]), row["name"].as_str().expect("text"));
                // Without a tag, the scope itself has the costs.
                if name != "Unknown / Unnamed" {
                    assert_eq!(entries[&name][0], costs(row), "{name}");
                }
            }
        }
    }
}

/// A folder of a test.
fn folder() -> (TempDir, impl Fn(&str) -> PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().to_owned();
    (folder, move |name: &str| path.join(name))
}

fn as_arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn of_an_incomplete_trace_there_is_the_rest_which_says_so() {
    let (_folder, path) = folder();
    let bytes = fs::read(STACKS).expect("the sample");
    fs::write(path("cut.utrace"), &bytes[..bytes.len() / 2]).expect("it is written");
    let cut = path("cut.utrace");
    for (to, says) in [("pprof", ""), ("callgrind", "desc: Note: not whole: ")] {
        let (status, out, err) = memledger(&["export", as_arg(&cut), "--to", to, "-o", "-"]);
        assert_eq!(status, 1);
        assert!(err.contains("cut.utrace"), "{err}");
        if to == "pprof" {
            let profile = Profile::decode(&out);
            assert!(profile.comments[1].starts_with("not whole: "), "{:?}", profile.comments);
            assert!(!profile.samples.is_empty());
        } else {
            assert!(String::from_utf8(out).expect("UTF-8").contains(says));
        }
    }
}

#[test]
fn an_output_is_whole_or_as_it_was() {
    let (folder, path) = folder();
    fs::write(path("heap.pb.gz"), "before").expect("it is written");
    let output = path("heap.pb.gz");
    let (status, _, err) =
        memledger(&["export", "Cargo.toml", "--to", "pprof", "-o", as_arg(&output)]);
    assert_eq!((status, err.lines().count()), (1, 1), "{err}");
    assert_eq!(fs::read(&output).expect("the file"), b"before");
    let missing = path("no/heap.pb.gz");
    let (status, _, err) = memledger(&["export", SCOPES, "--to", "pprof", "-o", as_arg(&missing)]);
    assert_eq!(status, 1);
    assert!(err.contains(&format!("cannot write {}: ", missing.display())), "{err}");
    #[cfg(target_os = "linux")]
    for to in ["pprof", "callgrind"] {
        let (status, _, err) = memledger(&["export", SCOPES, "--to", to, "-o", "/dev/full"]);
        assert_eq!(status, 1);
        assert!(err.contains("cannot write /dev/full: No space left on device"), "{err}");
    }
    let (status, _, err) = memledger(&["export", SCOPES, "--to", "pprof", "-o", as_arg(&output)]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_is_of(&Profile::decode(&fs::read(&output).expect("the file")), &report(SCOPES));
    let names = fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(names.count(), 1, "nothing else is left");

    let (status, _, err) = memledger(&["export", SCOPES, "--to", "jfr", "-o", "x"]);
    assert_eq!(status, 2);
    assert!(err.contains("'jfr'") && err.contains("pprof"), "{err}");
}

#[test]
fn a_report_can_be_a_profile() {
    let (_folder, path) = folder();
    let output = path("report.pb.gz");
    let (status, _, err) = memledger(&["report", SCOPES, "-o", as_arg(&output)]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_is_of(&Profile::decode(&fs::read(&output).expect("the file")), &report(SCOPES));
}
