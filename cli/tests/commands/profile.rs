//! `memledger export --to pprof`, read by another decoder than ours.

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
    let (status, out, err) = memledger(&["export", as_arg(&cut), "--to", "pprof", "-o", "-"]);
    assert_eq!(status, 1);
    assert!(err.contains("cut.utrace"), "{err}");
    let profile = Profile::decode(&out);
    assert!(profile.comments[1].starts_with("not whole: "), "{:?}", profile.comments);
    assert!(!profile.samples.is_empty());
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
    if cfg!(target_os = "linux") {
        let (status, _, err) = memledger(&["export", SCOPES, "--to", "pprof", "-o", "/dev/full"]);
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
