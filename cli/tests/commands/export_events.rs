//! `memledger export` by event, to Parquet, CSV, heaptrack and the Firefox Profiler: what is written is read
//! back, and its sums are those of `memledger report`.

use memledger_test_support::command::{ran, told_bytes};
use memledger_test_support::memledger;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// With call stacks of another writer; without stacks, but with scopes, names and reallocations.
const SAMPLES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace"),
];
/// With two root heaps.
const HEAPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/heaps.memledger");

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, Vec<u8>, String) {
    told_bytes(ran(memledger!(args)))
}

fn as_arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn export(trace: &str, to: &str, output: &Path) {
    let done = run(&["export", trace, "--to", to, "-o", as_arg(output)]);
    assert_eq!(done, (0, vec![], String::new()), "{trace} to {to}");
}

fn report(trace: &str) -> Value {
    let (_, out, _) = run(&["report", trace, "--format", "json"]);
    serde_json::from_slice(&out).expect("JSON")
}

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("it").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Rows by the names of their columns. What is missing is empty.
type Rows = Vec<BTreeMap<String, String>>;

fn csv_rows(path: &Path) -> Rows {
    let mut reader = csv::Reader::from_path(path).expect("a table");
    let names = reader.headers().expect("a header").clone();
    let row = |record: Result<csv::StringRecord, _>| {
        let record = record.expect("a row");
        names.iter().map(str::to_owned).zip(record.iter().map(str::to_owned)).collect()
    };
    reader.records().map(row).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> i64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

/// The columns of a report that the tables sum to, of the rows whose context has `key`.
fn sums(
    folder: &Path,
    ending: &str,
    key: &str,
    read: fn(&Path) -> Rows,
) -> BTreeMap<String, [i64; 7]> {
    let table = |name: &str| read(&folder.join(format!("{name}.{ending}")));
    let contexts = table("contexts");
    let key_of: BTreeMap<i64, &String> =
        contexts.iter().map(|row| (number(row, "context"), &row[key])).collect();
    let mut sums = BTreeMap::<String, [i64; 7]>::new();
    let mut of = |row: &BTreeMap<String, String>, column: usize, by: i64| {
        let key = key_of[&number(row, "context")];
        sums.entry(key.clone()).or_default()[column] += by;
    };
    for row in table("events") {
        of(&row, 0, (row["kind"] == "alloc").into());
        let failed = i64::from(row["kind"] == "realloc_failed");
        of(&row, 2, i64::from(row["kind"] == "realloc_alloc") - failed);
        of(&row, 3, number(&row, "allocated_bytes"));
        of(&row, 5, number(&row, "live_bytes"));
    }
    let mut live = 0;
    for row in table("blocks") {
        let (is_freed, is_live) = (row["state"] == "freed", row["state"] == "live");
        of(&row, 1, is_freed.into());
        of(&row, 4, is_live.into());
        of(&row, 6, number(&row, "short_lived"));
        live += if is_live { number(&row, "bytes") } else { 0 };
        assert_eq!(row["ended_at_ns"].is_empty(), is_live, "{row:?}");
        if is_freed && !row["freed_by"].is_empty() {
            assert!(key_of.contains_key(&number(&row, "freed_by")), "{row:?}");
        }
    }
    assert_eq!(live, sums.values().map(|row| row[5]).sum::<i64>(), "in blocks and in events");
    sums.retain(|_, figures| *figures != [0; 7]);
    sums
}

fn figures(row: &Value) -> [i64; 7] {
    const COLUMNS: [&str; 7] = [
        "allocations",
        "frees",
        "reallocations",
        "allocated_bytes",
        "live_blocks",
        "live_bytes",
        "short_lived",
    ];
    COLUMNS.map(|column| row[column].as_i64().expect("a number"))
}

fn path_of(names: &Value) -> String {
    let names = names.as_array().expect("names").iter();
    names.map(|name| name.as_str().expect("a name")).collect::<Vec<_>>().join(" > ")
}

fn assert_tables(folder: &Path, ending: &str, read: fn(&Path) -> Rows, report: &Value) {
    let rows = |list: &str, key: &dyn Fn(usize, &Value) -> String| {
        let rows = report[list].as_array().expect("rows").iter().enumerate();
        // A scope in which only inner scopes allocate has no context.
        let rows = rows.map(|(at, row)| (key(at, row), figures(row)));
        rows.filter(|(_, figures)| *figures != [0; 7]).collect::<BTreeMap<_, _>>()
    };
    let sums = |key| sums(folder, ending, key, read);
    assert_eq!(sums("scope"), rows("by_scope", &|_, row| path_of(&row["path"])));
    assert_eq!(sums("thread_id"), rows("by_thread", &|_, row| row["id"].to_string()));
    let mut by_name = BTreeMap::<String, [i64; 7]>::new();
    for row in report["by_name"].as_array().expect("rows") {
        let sum = by_name.entry(row["name"].as_str().expect("a name").to_owned()).or_default();
        std::iter::zip(sum, figures(row)).for_each(|(sum, figure)| *sum += figure);
    }
    by_name.retain(|_, figures| *figures != [0; 7]);
    assert_eq!(sums("name"), by_name);
    // A report of one heap has no rows of heaps.
    match report["by_heap"].is_null() {
        true => assert_eq!(sums("heap").len(), 1),
        false => {
            let name = |_, row: &Value| row["name"].as_str().expect("a name").to_owned();
            assert_eq!(sums("heap"), rows("by_heap", &name));
        }
    }
    if report["by_stack"].as_array().is_some_and(|rows| !rows.is_empty()) {
        assert_eq!(sums("stack"), rows("by_stack", &|at, _| at.to_string()));
    }
    // The largest sum of the live bytes of all events up to one.
    let mut live = 0;
    let peak = read(&folder.join(format!("events.{ending}"))).iter().fold(0, |peak, row| {
        live += number(row, "live_bytes");
        live.max(peak)
    });
    assert_eq!(peak, report["totals"]["peak_bytes"]);
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path) -> Rows {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let file = fs::File::open(path).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Long(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        Field::Str(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        row.get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect()
    });
    rows.collect()
}

#[cfg(feature = "parquet")]
#[test]
fn tables_of_parquet_sum_to_the_report_and_are_those_of_csv() {
    for trace in SAMPLES.into_iter().chain([HEAPS]) {
        let folder = folder();
        let (parquet, csv) = (folder.path().join("parquet"), folder.path().join("csv"));
        export(trace, "parquet", &parquet);
        export(trace, "csv", &csv);
        assert_tables(&parquet, "parquet", parquet_rows, &report(trace));
        assert_eq!(names(folder.path()), ["csv", "parquet"]);
        assert_eq!(
            names(&parquet),
            ["blocks", "bookmarks", "contexts", "events", "frames", "stacks"]
                .map(|name| format!("{name}.parquet"))
        );
        for name in ["blocks", "bookmarks", "contexts", "events", "frames", "stacks"] {
            let rows = parquet_rows(&parquet.join(format!("{name}.parquet")));
            assert_eq!(rows, csv_rows(&csv.join(format!("{name}.csv"))), "{name}");
        }
    }
}

#[test]
fn tables_of_csv_sum_to_the_report() {
    for trace in SAMPLES.into_iter().chain([HEAPS]) {
        let folder = folder();
        let csv = folder.path().join("out");
        export(trace, "csv", &csv);
        assert_tables(&csv, "csv", csv_rows, &report(trace));
        // A second time, over the first.
        export(trace, "csv", &csv);
        assert_eq!(names(&csv).len(), 6);
        assert_eq!(names(folder.path()), ["out"]);
        // One table, to a file and to standard output.
        let one = folder.path().join("one.csv");
        let done =
            run(&["export", trace, "--to", "csv", "--table", "contexts", "-o", as_arg(&one)]);
        assert_eq!(done, (0, vec![], String::new()));
        let whole = fs::read(csv.join("contexts.csv")).expect("a table");
        assert!(fs::read(&one).expect("a table") == whole);
        let (_, out, _) = run(&["export", trace, "--to", "csv", "--table", "contexts", "-o", "-"]);
        assert!(out == whole);
    }
}

/// Sums of a file of heaptrack: calls, the peak, the live bytes and the largest RSS, and the strings.
fn heaptrack(path: &Path) -> ([i64; 4], Vec<String>) {
    let text = fs::read_to_string(path).expect("text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("v 10400 3"));
    let (mut strings, mut pointers, mut traces, mut infos) = (vec![], 0, 0, vec![]);
    let (mut calls, mut live, mut peak, mut at, mut rss) = (0, 0, 0, 0, 0);
    for line in lines.filter(|line| !line.starts_with(['#', 'X', 'I'])) {
        let (kind, rest) = line.split_once(' ').expect("a line");
        if kind == "s" {
            let (length, text) = rest.split_once(' ').expect("a string");
            assert_eq!(usize::from_str_radix(length, 16), Ok(text.len()));
            strings.push(text.to_owned());
            continue;
        }
        let numbers: Vec<_> = (rest.split(' '))
            .map(|number| i64::from_str_radix(number, 16).unwrap_or_else(|_| panic!("{line}")))
            .collect();
        match (kind, &*numbers) {
            ("i", [_, module, functions @ ..]) => {
                assert!(*module as usize <= strings.len(), "{line}");
                assert!(!functions.is_empty() && functions.len() % 3 == 0, "{line}");
                for function in functions.chunks(3) {
                    assert!((1..=strings.len()).contains(&(function[0] as usize)), "{line}");
                }
                pointers += 1;
            }
            ("t", [pointer, parent]) => {
                assert!((1..=pointers).contains(pointer) && *parent <= traces, "{line}");
                traces += 1;
            }
            ("a", [bytes, trace]) => {
                assert!((1..=traces).contains(trace), "{line}");
                infos.push(*bytes);
            }
            ("+", [info]) => {
                (calls, live) = (calls + 1, live + infos[*info as usize]);
                peak = peak.max(live);
            }
            ("-", [info]) => live -= infos[*info as usize],
            ("c", [time]) => {
                assert!(*time >= at, "{line}");
                at = *time;
            }
            ("R", [pages]) => rss = (*pages << 12).max(rss),
            _ => panic!("{line}"),
        }
    }
    ([calls, peak, live, rss], strings)
}

#[test]
fn a_file_of_heaptrack_has_the_calls_the_peak_and_the_live_bytes_of_the_report() {
    let with_rss = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/rss.memledger");
    let names = ["0x40013f", "GlobalScope", "GlobalScope"];
    for (trace, name) in std::iter::zip(SAMPLES.into_iter().chain([with_rss]), names) {
        let folder = folder();
        let plain = folder.path().join("run.heaptrack");
        export(trace, "heaptrack", &plain);
        let (sums, strings) = heaptrack(&plain);
        let report = report(trace);
        let [allocations, _, reallocations, .., live, _] = figures(&report["totals"]);
        let peak = report["totals"]["peak_bytes"].as_i64().expect("a number");
        let rss = report["rss"]["most_bytes"].as_i64().unwrap_or(0);
        assert_eq!(rss > 0, trace == with_rss);
        assert_eq!(sums, [allocations + reallocations, peak, live, rss]);
        assert!(strings.iter().any(|text| text.contains(name)), "{strings:?}");

        let (gz, zst) = (folder.path().join("run.gz"), folder.path().join("run.zst"));
        export(trace, "heaptrack", &gz);
        export(trace, "heaptrack", &zst);
        let mut unpacked = Vec::new();
        let gz = fs::File::open(gz).expect("a file");
        std::io::copy(&mut flate2::read::GzDecoder::new(gz), &mut unpacked).expect("gzip");
        assert!(unpacked == fs::read(&plain).expect("a file"));
        let zst = fs::File::open(zst).expect("a file");
        assert!(zstd::decode_all(zst).expect("zstd") == unpacked);
    }
}

#[test]
fn weights_of_a_profile_for_firefox_sum_to_the_report() {
    for trace in SAMPLES {
        let folder = folder();
        let path = folder.path().join("profile.json");
        export(trace, "firefox", &path);
        let profile: Value = serde_json::from_slice(&fs::read(path).expect("it")).expect("JSON");
        let report = report(trace);
        let of = |value: &Value| value.as_array().expect("a column").clone();
        let mut by_thread = BTreeMap::new();
        for thread in of(&profile["threads"]) {
            let samples = &thread["nativeAllocations"];
            let weights = of(&samples["weight"]);
            for column in ["time", "stack", "memoryAddress", "threadId"] {
                assert_eq!(of(&samples[column]).len(), weights.len());
            }
            let stacks = of(&thread["stackTable"]["frame"]).len();
            let is_stack = |stack: &Value| stack.as_u64().is_some_and(|at| at < stacks as u64);
            assert!(of(&samples["stack"]).iter().all(is_stack));
            let weights: Vec<_> =
                weights.iter().map(|weight| weight.as_i64().expect("bytes")).collect();
            let allocated: i64 = weights.iter().filter(|&&weight| weight > 0).sum();
            by_thread.insert(thread["tid"].as_u64(), (allocated, weights.iter().sum::<i64>()));
        }
        let rows = of(&report["by_thread"]).into_iter().map(|row| {
            let [.., allocated, _, live, _] = figures(&row);
            (row["system_id"].as_u64().or(row["id"].as_u64()), (allocated, live))
        });
        assert_eq!(by_thread, rows.collect());
        let live = of(&profile["counters"][0]["samples"]["count"]);
        let live: i64 = live.iter().map(|change| change.as_i64().expect("bytes")).sum();
        assert_eq!(live, report["totals"]["live_bytes"]);
    }
}

#[test]
fn a_damaged_trace_gives_the_rest_and_status_1() {
    let folder = folder();
    let damaged = folder.path().join("damaged.utrace");
    let mut bytes = fs::read(SAMPLES[0]).expect("the sample");
    bytes[300_000..300_100].fill(0xff);
    fs::write(&damaged, bytes).expect("the folder can be written");
    let trace = as_arg(&damaged);
    for to in ["csv", "heaptrack", "firefox"] {
        let output: PathBuf = folder.path().join(to);
        let (status, out, err) = run(&["export", trace, "--to", to, "-o", as_arg(&output)]);
        assert_eq!((status, out), (1, vec![]), "{to}");
        assert!(err.contains("is damaged") && err.lines().count() == 1, "{err}");
    }
    let report = report(trace);
    assert_tables(&folder.path().join("csv"), "csv", csv_rows, &report);
    let ([_, peak, live, _], _) = heaptrack(&folder.path().join("heaptrack"));
    let totals = &report["totals"];
    assert_eq!(
        [peak, live],
        ["peak_bytes", "live_bytes"].map(|key| totals[key].as_i64().expect("bytes"))
    );
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = folder();
    let other = folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    fs::write(other.join("precious.txt"), "precious").expect("a file");
    let (status, _, err) = run(&["export", SAMPLES[0], "--to", "csv", "-o", as_arg(&other)]);
    assert_eq!(status, 1);
    assert!(err.contains("a folder with other files in it (precious.txt)"), "{err}");
    let text = folder.path().join("no-trace");
    fs::write(&text, "PK a zip file").expect("a file");
    for to in ["csv", "heaptrack", "firefox"] {
        let output = folder.path().join("out");
        let (status, _, err) = run(&["export", as_arg(&text), "--to", to, "-o", as_arg(&output)]);
        assert_eq!(status, 1, "{err}");
        let (status, _, err) = run(&["export", SAMPLES[0], "--to", to, "-o", "/no/such/folder/x"]);
        assert_eq!(status, 1);
        assert!(err.starts_with("memledger: cannot write /no/such/folder/x: "), "{err}");
        assert_eq!(err.lines().count(), 1);
    }
    if cfg!(target_os = "linux") {
        for args in [
            &["--to", "csv", "--table", "events"][..],
            &["--to", "heaptrack"],
            &["--to", "firefox"],
        ] {
            let args = [&["export", SAMPLES[0], "-o", "/dev/full"], args].concat();
            let (status, _, err) = run(&args);
            assert_eq!(status, 1, "{args:?}");
            assert!(err.starts_with("memledger: cannot write /dev/full: "), "{err}");
        }
    }
    assert_eq!(names(folder.path()), ["no-trace", "other"]);
    assert_eq!(names(&other), ["precious.txt"]);
    for output in ["-", "x.csv"] {
        let (status, _, err) = run(&["export", SAMPLES[0], "--to", "csv", "-o", output]);
        assert_eq!(status, 2);
        assert!(err.contains("writes a folder with 6 tables"), "{err}");
    }
}
