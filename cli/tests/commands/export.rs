//! `memledger export` as a user meets it: there and back, and what goes wrong on the way.

use memledger_test_support::command::{ran, told_bytes};
use memledger_test_support::memledger;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");

fn memledger(args: &[&str]) -> Command {
    memledger!(args)
}

/// Status, bytes of standard output, standard error.
fn run(args: &[&str]) -> (i32, Vec<u8>, String) {
    told_bytes(ran(memledger(args)))
}

/// The path of a file of this test, which is not there.
fn path(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("export-{name}"));
    let _ = fs::remove_file(&path);
    path
}

fn as_arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn export(trace: &Path, to: &str, output: &Path) -> (i32, Vec<u8>, String) {
    run(&["export", as_arg(trace), "--to", to, "-o", as_arg(output)])
}

fn report(trace: &Path) -> Vec<u8> {
    let (status, out, err) = run(&["report", as_arg(trace), "--format", "json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    out
}

#[test]
fn there_and_back_is_the_same_trace() {
    let (compact, plain) = (path("both.memledger"), path("both.utrace"));
    assert_eq!(export(Path::new(SAMPLE), "memledger", &compact), (0, vec![], String::new()));
    assert_eq!(export(&compact, "utrace", &plain), (0, vec![], String::new()));
    let sizes = [Path::new(SAMPLE), &compact].map(|path| fs::metadata(path).expect("it").len());
    assert!(sizes[1] * 2 < sizes[0], "{sizes:?}");
    let events = |trace: &Path| run(&["events", as_arg(trace)]);
    for other in [&compact, &plain] {
        assert_eq!(report(other), report(Path::new(SAMPLE)));
        assert!(events(other) == events(Path::new(SAMPLE)), "the same events in the same order");
    }
    assert_eq!(fs::read(&compact).expect("it")[10..12], [78, 6], "no reader of Unreal's takes it");
    assert_eq!(fs::read(&plain).expect("it")[10..12], [4, 6]);
    let (_, out, _) = run(&["info", as_arg(&compact)]);
    let out = String::from_utf8(out).expect("UTF-8");
    for part in [
        "format      Unreal Trace, compact (.memledger), transport 78, protocol 6\n",
        " compact, 3 sync, 0 damaged\n",
    ] {
        assert!(out.contains(part), "{part} in\n{out}");
    }
    let (_, out, _) = run(&["info", as_arg(&compact), "--format", "json"]);
    let info: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(info["header"]["transport"], 78);
    assert!(info["packets"]["compact"].as_u64() > Some(190), "{}", info["packets"]);
}

/// A packed trace is read by every command as the other ones are.
#[test]
fn a_packed_trace_is_the_same_trace() {
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/rss.memledger");
    let pack = |trace: &str, to: &str, output: &Path| {
        run(&["export", trace, "--to", to, "--packed", "-o", as_arg(output)])
    };
    for (index, trace) in [SAMPLE, whole].into_iter().enumerate() {
        let [packed, back, plain] = ["kept.memledger", "back.memledger", "back.utrace"]
            .map(|name| path(&format!("{index}{name}")));
        assert_eq!(pack(trace, "memledger", &packed), (0, vec![], String::new()));
        assert_eq!(export(&packed, "memledger", &back), (0, vec![], String::new()));
        assert_eq!(export(&packed, "utrace", &plain), (0, vec![], String::new()));
        let sizes = [&packed, &back].map(|path| fs::metadata(path).expect("it").len());
        assert!(sizes[0] < sizes[1], "{sizes:?}");
        let events = |trace: &Path| run(&["events", as_arg(trace)]);
        let query = |trace: &Path| run(&["query", as_arg(trace)]);
        for other in [&packed, &back, &plain] {
            assert_eq!(report(other), report(Path::new(trace)));
            assert!(events(other) == events(Path::new(trace)), "the same events in the same order");
            assert!(query(other) == query(Path::new(trace)));
        }
        let (_, out, _) = run(&["info", as_arg(&packed), "--format", "json"]);
        let info: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(info["header"]["transport"], 79);
        assert!(info["packets"]["packed"].as_u64() > Some(10), "{}", info["packets"]);
        let (_, out, _) = run(&["info", as_arg(&packed)]);
        let out = String::from_utf8(out).expect("UTF-8");
        assert!(out.contains("Unreal Trace, packed (.memledger), transport 79"), "{out}");
        let part = path("packed-part.memledger");
        let args = ["export", trace, "--to", "memledger", "--packed", "--channels", "-bookmark"];
        let (status, _, err) = run(&[&args[..], &["-o", as_arg(&part)]].concat());
        assert!(status == 0 || err.contains("it was not written by memledger"), "{status}: {err}");
        assert!(status != 0 || report(&part) == report(Path::new(trace)));
    }
    let none = path("packed.utrace");
    let (status, _, err) = pack(SAMPLE, "utrace", &none);
    assert!(
        status == 2 && err.contains("--packed is for memledger, not for utrace"),
        "{status}: {err}"
    );
    assert!(!none.exists());
}

/// On a trace of a real program.
#[test]
fn a_trace_with_some_channels_is_a_trace() {
    let whole = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/rss.memledger"));
    let part = |list: &str, to: &str, output: &Path| {
        let (trace, output) = (as_arg(whole), as_arg(output));
        run(&["export", trace, "--to", to, "--channels", list, "-o", output])
    };
    // Nothing is on this channel.
    let (plain, compact) = (path("part.utrace"), path("part.memledger"));
    for (to, output) in [("utrace", &plain), ("memledger", &compact)] {
        assert_eq!(part("-bookmark", to, output), (0, vec![], String::new()));
        assert_eq!(report(output), report(whole));
    }
    let json = |trace: &Path| -> serde_json::Value {
        serde_json::from_slice(&report(trace)).expect("JSON")
    };
    assert_eq!(part("memory", "memledger", &compact).0, 0);
    let (all, memory) = (json(whole), json(&compact));
    for figure in ["allocations", "frees", "reallocations", "allocated_bytes", "peak_bytes"] {
        assert_eq!(memory["totals"][figure], all["totals"][figure], "{figure}");
    }
    assert_eq!(memory["by_scope"].as_array().map(Vec::len), Some(1), "all in GlobalScope");
    assert_eq!(part("-memory", "utrace", &plain).0, 0);
    let rest = json(&plain);
    assert_eq!(
        (&rest["trace"]["memory_recorded"], &rest["trace"]["complete"]),
        (&false.into(), &true.into())
    );
    assert_eq!(rest["totals"]["allocations"], 0);
    // What is refused leaves no file.
    let none = path("none.utrace");
    for (list, to, status, says) in [
        ("gmae", "utrace", 1, "rss.memledger: the trace has no channel [\"gmae\"]; it has "),
        ("a b", "utrace", 2, "no channel can be called \"a b\""),
        ("memory", "pprof", 2, "--channels is for utrace and memledger, not for pprof"),
    ] {
        let (code, _, err) = part(list, to, &none);
        assert!(code == status && err.contains(says) && !none.exists(), "{code}: {err}");
    }
    let (status, _, err) =
        run(&["export", SAMPLE, "--to", "utrace", "--channels", "memory", "-o", as_arg(&none)]);
    assert!(status == 1 && err.contains("was not written by memledger") && !none.exists(), "{err}");
}

/// For each option a format that would ignore it, and one that takes it.
#[test]
fn an_option_of_another_format_is_refused() {
    for (option, to, taken_by) in [
        (&["--table", "blocks"][..], "folded", "csv"),
        (&["--interval", "1s"], "pprof", "perfetto"),
        (&["--column", "live"], "heaptrack", "speedscope"),
        (&["--column", "at-peak"], "csv", "folded"),
        (&["--all-frames"], "utrace", "speedscope"),
        (&["--packed"], "csv", "memledger"),
        (&["--channels", "-none"], "firefox", "utrace"),
        (&["--symbols", "."], "memledger", "dhat"),
    ] {
        let output = path("ignored");
        let with = |to: &str| {
            run(&[&["export", SAMPLE, "--to", to, "-o", as_arg(&output)], option].concat())
        };
        let (status, _, err) = with(to);
        let is_said = err.contains(&format!("{} is for ", option[0]))
            && err.contains(&format!(", not for {to}: "));
        assert!(status == 2 && is_said && !output.exists(), "{status}: {err}");
        // It is refused for nothing that it is of.
        let (status, _, err) = with(taken_by);
        assert!(status != 2 && !err.contains("is for"), "{status}: {err}");
    }
}

#[test]
fn call_stacks_are_lines_for_a_flame_graph() {
    let (status, out, err) =
        run(&["export", SAMPLE, "--to", "folded", "--column", "allocated", "-o", "-"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let out = String::from_utf8(out).expect("UTF-8");
    let numbers = out.lines().map(|line| {
        let (stack, number) = line.rsplit_once(' ').expect("a stack and a number");
        assert!(!stack.is_empty(), "{line}");
        number.parse::<u64>().expect("a number")
    });
    assert_eq!(numbers.sum::<u64>(), 41_376_002, "as the checker counted");
    assert!(out.lines().any(|line| line.matches(';').count() > 3), "{out}");

    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace");
    let (status, out, err) =
        run(&["export", ours, "--to", "folded", "--column", "allocated", "-o", "-"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let out = String::from_utf8(out).expect("UTF-8");
    assert!(out.lines().all(|line| line.starts_with("GlobalScope")), "{out}");
    let numbers = out.lines().map(|line| line.rsplit_once(' ').expect("two parts").1);
    let sum: u64 = numbers.map(|number| number.parse::<u64>().expect("a number")).sum();
    let report: serde_json::Value = serde_json::from_slice(&report(Path::new(ours))).expect("JSON");
    assert_eq!(report["totals"]["allocated_bytes"], sum);

    let (status, out, _) = run(&["report", SAMPLE, "--by", "function", "--sort", "allocated"]);
    let out = String::from_utf8(out).expect("UTF-8");
    assert!(status == 0 && out.contains("By function") && out.contains("with callees"), "{out}");
}

#[test]
fn pages_of_other_tools_have_the_totals_of_the_report() {
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace");
    for trace in [SAMPLE, ours] {
        let report: serde_json::Value =
            serde_json::from_slice(&report(Path::new(trace))).expect("JSON");
        let totals = &report["totals"];
        let exported = |format: &str| -> serde_json::Value {
            let output = path(&format!("page.{format}.json"));
            let done = export(Path::new(trace), format, &output);
            assert_eq!(done, (0, vec![], String::new()), "{format}");
            serde_json::from_slice(&fs::read(output).expect("it")).expect("JSON")
        };
        let document = exported("speedscope");
        for (profile, key) in
            (0..).zip(["peak_bytes", "live_bytes", "allocated_bytes", "allocations"])
        {
            let profile = &document["profiles"][profile];
            let weights = profile["weights"].as_array().expect("weights");
            let sum: u64 = weights.iter().map(|weight| weight.as_u64().expect("it")).sum();
            assert_eq!((&totals[key], &profile["endValue"]), (&sum.into(), &sum.into()), "{key}");
        }
        let document = exported("dhat");
        let points = document["pps"].as_array().expect("points");
        for (key, total) in [
            ("tb", "allocated_bytes"),
            ("gb", "peak_bytes"),
            ("gbk", "blocks_at_peak"),
            ("eb", "live_bytes"),
            ("ebk", "live_blocks"),
        ] {
            let sum: u64 = points.iter().map(|point| point[key].as_u64().expect("it")).sum();
            assert_eq!(totals[total], sum, "{key}");
        }
        let valid = |point: &serde_json::Value| {
            let figure = |key: &str| point[key].as_u64().expect("a number");
            figure("mb") >= figure("gb").max(figure("eb"))
        };
        assert!(points.iter().all(valid));
    }
    let (status, out, err) = run(&["export", "-", "--to", "dhat", "-o", "-"]);
    assert_eq!((status, out), (2, vec![]));
    assert!(err.contains("needs to read the trace twice"), "{err}");
}

#[test]
fn pages_of_a_damaged_trace_are_of_the_rest() {
    let bytes = fs::read(SAMPLE).expect("the sample");
    let damaged = path("damaged-page.utrace");
    fs::write(&damaged, &bytes[..bytes.len() / 2]).expect("the folder can be written");
    for format in ["speedscope", "dhat", "folded"] {
        let output = path(&format!("damaged-page.{format}"));
        let (status, out, err) = export(&damaged, format, &output);
        assert_eq!((status, out, err.lines().count()), (1, vec![], 1), "{err}");
        assert!(err.contains("is damaged") || err.contains("has no end"), "{err}");
        let written = fs::read_to_string(&output).expect("it");
        assert_eq!(written.contains("incomplete"), format != "folded", "{format}");
        let (status, _, err) = export(&damaged, format, Path::new("/no/such/folder/x"));
        assert!(status == 1 && err.contains("cannot write /no/such/folder/x"), "{err}");
    }
    let (no_trace, kept) = (path("no-page"), path("kept.dhat.json"));
    fs::write(&no_trace, "PK").expect("the folder can be written");
    fs::write(&kept, "precious").expect("the folder can be written");
    for format in ["speedscope", "dhat"] {
        assert_eq!(export(&no_trace, format, &kept).0, 1);
        assert_eq!(fs::read(&kept).expect("it"), b"precious");
    }
}

#[test]
fn pipes_on_both_ends_will_do() {
    let compact = path("piped.memledger");
    export(Path::new(SAMPLE), "memledger", &compact);
    let input = File::open(SAMPLE).expect("the sample");
    let args = ["export", "-", "--to", "memledger", "-o", "-"];
    let (status, out, err) = told_bytes(memledger(&args).stdin(input).output().expect("it runs"));
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out == fs::read(&compact).expect("it"), "the same bytes as in a file");

    // The reader of the pipe closes it.
    let mut child = memledger(&["export", SAMPLE, "--to", "utrace", "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(child.stdout.take());
    let (status, _, err) = told_bytes(child.wait_with_output().expect("it ends"));
    assert_eq!((status, err.as_str()), (0, ""));
}

#[test]
fn a_damaged_trace_gives_the_rest_and_status_1() {
    let bytes = fs::read(SAMPLE).expect("the sample");
    let (damaged, compact, plain) =
        (path("damaged.utrace"), path("damaged.memledger"), path("damaged-2.utrace"));
    let mut broken = bytes[..bytes.len() - 100].to_vec();
    broken[300_000..300_100].fill(0xff);
    fs::write(&damaged, broken).expect("the folder can be written");
    let (status, out, err) = export(&damaged, "memledger", &compact);
    assert_eq!((status, out), (1, vec![]));
    assert!(err.contains("is damaged") && err.contains("2 places could not be read"), "{err}");
    assert_eq!(err.lines().count(), 1);
    // What is written is readable, and lacks just that.
    let totals = |trace: &Path| {
        let (status, out, _) = run(&["report", as_arg(trace), "--format", "json"]);
        assert_eq!(status, 1, "events are missing");
        let report: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        (report["totals"].clone(), report["losses"]["serial_holes"].clone())
    };
    assert_eq!(totals(&compact), totals(&damaged));
    let (status, _, err) = export(&compact, "utrace", &plain);
    assert_eq!(status, 1, "{err}");
    assert!(!err.contains("could not be read") && err.contains("missing in"), "{err}");
    assert_eq!(totals(&plain), totals(&damaged));
}

#[test]
fn what_is_no_trace_costs_nothing() {
    let (input, output) = (path("no-trace"), path("kept.memledger"));
    fs::write(&input, "PK\x03\x04 a zip file").expect("the folder can be written");
    fs::write(&output, "precious").expect("the folder can be written");
    let (status, out, err) = export(&input, "memledger", &output);
    assert_eq!((status, out), (1, vec![]));
    assert!(err.contains("not a trace") && err.lines().count() == 1, "{err}");
    assert_eq!(fs::read(&output).expect("it"), b"precious");
    let (status, _, err) = export(Path::new("/no/such/file"), "memledger", &output);
    assert_eq!(status, 1);
    assert_eq!(err, "memledger: cannot open /no/such/file: there is no such file\n");
    assert_eq!(fs::read(&output).expect("it"), b"precious");
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let (status, _, err) = export(Path::new(SAMPLE), "utrace", Path::new("/no/such/folder/x"));
    assert_eq!(status, 1);
    assert!(err.starts_with("memledger: cannot write /no/such/folder/x: "), "{err}");
    if cfg!(target_os = "linux") {
        let (status, _, err) = export(Path::new(SAMPLE), "utrace", Path::new("/dev/full"));
        assert_eq!(status, 1);
        assert!(err.starts_with("memledger: cannot write /dev/full: "), "{err}");
    }
}

#[test]
fn the_input_is_never_overwritten() {
    let trace = path("own.utrace");
    fs::copy(SAMPLE, &trace).expect("the folder can be written");
    let other = path("own-link.memledger");
    fs::hard_link(&trace, &other).expect("a file system with links");
    for output in [&trace, &other] {
        let (status, _, err) = export(&trace, "memledger", output);
        assert_eq!(status, 2);
        assert!(err.contains("it is also the input") && err.lines().count() == 1, "{err}");
    }
    let input = File::open(&trace).expect("it");
    let args = ["export", "-", "--to", "memledger", "-o", as_arg(&trace)];
    assert_eq!(told_bytes(memledger(&args).stdin(input).output().expect("it runs")).0, 2);
    assert!(fs::read(&trace).expect("it") == fs::read(SAMPLE).expect("the sample"));
}

#[test]
fn wrong_usage_is_status_2() {
    for args in [
        &["export"][..],
        &["export", SAMPLE],
        &["export", SAMPLE, "--to", "utrace"],
        &["export", SAMPLE, "-o", "x"],
        &["export", SAMPLE, "--to", "zip", "-o", "x"],
        &["export", SAMPLE, "--to", "utrace", "-o", "x", "--loud"],
    ] {
        let (status, out, err) = run(args);
        assert_eq!((status, out), (2, vec![]), "{args:?}");
        assert!(err.starts_with("memledger: ") && err.lines().count() == 1, "{err}");
    }
    assert!(!Path::new("x").exists());
}
