//! `memledger report` as a user meets it: what it prints, where, and with which exit status.

use memledger_export::tools::FORMATS;
use memledger_format::schema::FieldType::{U8Array, U64, WideString};
use memledger_test_support::command::{ran, told};
use memledger_test_support::{memledger, wire};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");

fn memledger(args: &[&str]) -> Command {
    memledger!(args)
}

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    told(ran(memledger(args)))
}

/// A file of this test.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("the folder for tests can be written");
    path
}

/// A trace of our own writer.
fn own(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");
    Path::new(folder).join(name).with_extension("utrace")
}

fn as_arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_report_goes_to_stdout_and_nothing_to_stderr() {
    let (status, out, err) = run(&["report", SAMPLE]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("  live at end  511.5 KiB in    252 blocks"), "{out}");
    assert!(out.contains("nothing lost"));
    assert!(!out.contains('\u{1b}'), "no colours into a pipe");
}

/// The sample comes in two parts, more than a second apart.
#[test]
fn no_progress_is_shown_where_stderr_is_no_terminal() {
    let mut child = memledger(&["report", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let sample = fs::read(SAMPLE).expect("the sample");
    let (first, second) = sample.split_at(sample.len() / 2);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(first).expect("it reads");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    stdin.write_all(second).expect("it reads");
    drop(stdin);
    let (status, out, err) = told(child.wait_with_output().expect("it ends"));
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("nothing lost"));
}

#[test]
fn json_names_its_schema_and_has_the_figures() {
    let (status, out, _) = run(&["report", SAMPLE, "--format", "json", "--top", "3"]);
    assert_eq!(status, 0);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["schema"], "memledger.report/1");
    assert_eq!(report["totals"]["peak_bytes"], 598_783);
    assert_eq!(report["largest_live"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["by_thread"].as_array().map(Vec::len), Some(3), "the rest is whole");
}

#[test]
fn what_cannot_be_opened_is_one_sentence() {
    let (status, out, err) = run(&["report", "/no/such/file.utrace"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert_eq!(err, "memledger: cannot open /no/such/file.utrace: there is no such file\n");
    let (status, _, err) = run(&["report", env!("CARGO_TARGET_TMPDIR")]);
    assert_eq!(status, 1);
    assert!(err.ends_with("it is a directory, not a trace\n"), "{err}");
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    for (name, content, says) in [
        ("empty", &b""[..], "it is empty"),
        ("foreign", b"PK\x03\x04 this is a zip file", "it is a zip file"),
        ("page.html", b"<!doctype html><title>Memory</title>", "it is an HTML page"),
    ] {
        let path = file(name, content);
        let expected = format!("memledger: {}: this is not a trace: {says}\n", path.display());
        assert_eq!(run(&["report", as_arg(&path)]), (1, String::new(), expected.clone()), "{name}");
        if !content.is_empty() {
            assert_eq!(run(&["view", as_arg(&path)]), (1, String::new(), expected), "{name}");
        }
    }
}

#[test]
fn a_truncated_trace_gives_what_is_left_and_status_1() {
    let whole = fs::read(SAMPLE).expect("the sample");
    let path = file("truncated", &whole[..whole.len() / 2]);
    let (status, out, err) = run(&["report", as_arg(&path)]);
    assert_eq!(status, 1);
    assert!(out.contains("live at end") && out.contains("LOSSES"), "{out}");
    assert!(err.contains("is damaged") && err.contains("the result covers only the rest"), "{err}");
    let (status, out, _) = run(&["report", as_arg(&path), "--format", "json"]);
    assert_eq!(status, 1);
    let report: serde_json::Value = serde_json::from_str(&out).expect("whole JSON all the same");
    assert_eq!(report["trace"]["complete"], false);
}

#[test]
fn wrong_usage_is_status_2() {
    for args in [
        &["report"][..],
        &["report", SAMPLE, "--no-such-flag"],
        &["report", SAMPLE, "--by", "colour"],
        &["report", SAMPLE, "--at", "soon"],
        &["report", SAMPLE, "--fail-if", "peak_bites > 3"],
        &["report", SAMPLE, "--fail-if", "peak_bytes{scope=x} > 3"],
        &["report", SAMPLE, "--fail-if", "complete > false"],
        &["report", SAMPLE, "--top", "-1"],
        &["no-such-command"],
    ] {
        let (status, out, err) = run(args);
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}");
        assert!(err.starts_with("memledger: ") && err.lines().count() == 1, "{err}");
    }
    let (status, out, err) = run(&[]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("Examples:"), "without a command there is help: {err}");
}

#[test]
fn what_there_is_not_names_the_nearest_or_six() {
    for (args, says) in [
        (&["reprot", SAMPLE][..], "'reprot' is not a command; report is likely meant"),
        (
            &["frob"],
            "'frob' is not a command; there are run, report, diff, query, leaks, view and 9 more",
        ),
        (
            &["report", SAMPLE, "--findigs"],
            "there is no option --findigs; --findings is likely meant",
        ),
        (
            &["report", SAMPLE, "--leaks"],
            "there is no option --leaks; memledger leaks TRACE has what was not freed",
        ),
        (&["./app"], "there is no command ./app; memledger run -- ./app records a program"),
        (
            &["attach", "12"],
            "there is no command attach; no running program can be attached to: memledger run -- PROGRAM starts one",
        ),
        (
            &["run", "--pid", "12"],
            "there is no option --pid; no running program can be attached to: memledger run -- PROGRAM starts one",
        ),
        (&["tree", "x"], "there is no command tree; it is memledger report TRACE --by stack"),
        (
            &["query", SAMPLE, "--a", "0.5"],
            "invalid value '0.5' for '--a <TIME>': a time is 1.5s, 200ms, nanoseconds without a unit, a share such as 50%, start, peak, end or bookmark:NAME",
        ),
        (
            &["report", SAMPLE, "--lines"],
            "there is no option --lines; there are --by, --sort, --bottom-up, --all-frames, --scope, --inclusive and 17 more",
        ),
        (
            &["report", SAMPLE, "--by", "scop"],
            "'scop' is not a value of --by; scope is likely meant",
        ),
        (
            &["report", SAMPLE, "--by", "colour"],
            "'colour' is not a value of --by; there are scope, group, name, thread, heap, size and 4 more",
        ),
        (
            &["report", SAMPLE, "--by"],
            "--by needs a value; there are scope, group, name, thread, heap, size and 4 more",
        ),
        (
            &["export", SAMPLE, "--to", "pprf"],
            "'pprf' is not a value of --to; pprof is likely meant",
        ),
        (
            &["report", SAMPLE, "--fail-if", "peak > 1"],
            "there is no figure 'peak'; peak_bytes is likely meant",
        ),
        (&["run", "--stack", "--", "./x"], "there is no option --stack; --stacks is likely meant"),
        (&["-x"], "unexpected argument '-x' found"),
    ] {
        let (status, out, err) = run(args);
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}: {err}");
        let sentence = err.strip_suffix(" (--help has more)\n").expect(&err);
        assert!(sentence.ends_with(says), "{args:?}: {err}");
    }
}

#[test]
fn what_users_guess_is_the_same_as_what_they_mean() {
    let json = run(&["report", SAMPLE, "--format", "json"]);
    assert_eq!(run(&["report", SAMPLE, "--json"]), json);
    let [guessed, meant] = ["guessed.htm", "meant.html"].map(|name| file(name, b""));
    run(&["report", SAMPLE, "--html", as_arg(&guessed)]);
    run(&["report", SAMPLE, "-o", as_arg(&meant)]);
    let page = fs::read(&guessed).expect("a page");
    assert!(page.starts_with(b"<!doctype html>"));
    assert_eq!(page, fs::read(&meant).expect("a page"));
    assert_eq!(run(&["report", SAMPLE, "--json", "--html", "x.html"]).0, 2);
}

#[test]
fn a_condition_that_holds_is_status_3_and_a_sentence() {
    let (status, out, err) = run(&["report", SAMPLE, "--fail-if", "peak_bytes > 500KiB"]);
    assert_eq!(status, 3);
    assert!(out.contains("peak"), "the report is printed all the same");
    assert_eq!(err, "memledger: 'peak_bytes > 500KiB' holds: peak_bytes is 598783 (584.7 KiB)\n");
    let pass = ["report", SAMPLE, "--fail-if", "peak_bytes > 1MiB", "--fail-if", "lost_events > 0"];
    assert_eq!(run(&pass).0, 0);
    let (status, _, err) = run(&["report", SAMPLE, "--fail-if", "overhead_bytes > 0"]);
    assert_eq!(status, 1, "what is not known does not pass");
    assert!(err.contains("cannot be checked"), "{err}");
}

#[test]
fn standard_input_is_a_dash() {
    let from_stdin = |args: &[&str]| {
        let input = File::open(SAMPLE).expect("the sample");
        told(memledger(args).stdin(input).output().expect("the command runs"))
    };
    assert_eq!(from_stdin(&["report", "-"]), run(&["report", SAMPLE]));
    let (status, out, err) = from_stdin(&["report", "-", "--at", "peak"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("standard input does not allow"), "{err}");
    assert_eq!(from_stdin(&["report", "-", "--at", "101ms"]).0, 0);
}

#[test]
fn a_closed_output_ends_every_command_quietly() {
    // Tables with more text than a command holds back.
    let tables = ["blocks", "events", "contexts", "bookmarks"];
    let tables = tables.map(|table| vec!["export", "--to", "csv", "--table", table, "-o", "-"]);
    let formats = [
        "utrace",
        "memledger",
        "folded",
        "speedscope",
        "dhat",
        "pprof",
        "firefox",
        "heaptrack",
        "perfetto",
    ];
    let formats = formats.map(|format| vec!["export", "--to", format, "-o", "-"]);
    let others = [
        vec!["report"],
        vec!["report", "--json"],
        vec!["diff", SAMPLE],
        vec!["query", "--format", "json"],
        vec!["info"],
        vec!["events"],
    ];
    for mut args in [tables.to_vec(), formats.to_vec(), others.to_vec()].concat() {
        args.push(SAMPLE);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let command = memledger(&args).stdout(writer).stderr(Stdio::piped()).spawn();
        let ended = command.expect("the command runs").wait_with_output();
        let (status, _, err) = told(ended.expect("it ends"));
        assert!(status == 0 && !err.contains("Broken pipe"), "{status} {args:?}: {err}");
    }
}

#[test]
fn a_moment_shows_the_report_as_it_stood_then() {
    let live = |at: &str| {
        let (status, out, err) = run(&["report", SAMPLE, "--format", "json", "--at", at]);
        assert_eq!((status, err.as_str()), (0, ""), "{at}");
        let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        (report["totals"]["live_bytes"].clone(), report["totals"]["peak_bytes"].clone())
    };
    assert_eq!(live("peak").0, 598_783);
    assert_eq!(live("end").0, 523_747);
    assert_eq!(live("100%"), live("end"));
    assert_ne!(live("99%"), live("end"));
    let (_, out, _) = run(&["report", SAMPLE, "--at", "99%"]);
    assert!(out.contains("as it was at 99%") && out.contains("live then"), "{out}");
    assert!(!out.contains("at end"), "{out}");
}

#[test]
fn a_trace_without_its_end_is_not_believed() {
    let trace = own("killed");
    let killed = as_arg(&trace);
    let (status, out, err) = run(&["report", killed]);
    assert_eq!((status, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("killed.utrace has no end: the program was killed"), "{err}");
    assert!(out.contains(", INCOMPLETE\n") && out.contains("live at end  17.5 KiB"), "{out}");
    let (status, allowed, err) = run(&["report", killed, "--allow-incomplete"]);
    assert_eq!((status, allowed), (0, out));
    assert!(err.contains("has no end"), "it is said all the same: {err}");
    let (status, out, err) = run(&["report", killed, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &report["trace"]["complete"]), (1, &false.into()));
    assert_eq!(err.lines().count(), 1, "{err}");

    let (status, _, err) = run(&["info", killed]);
    assert!(status == 1 && err.contains("has no end"), "{err}");
    assert_eq!(run(&["info", killed, "--allow-incomplete"]).0, 0);
    // They give no figures: a cut trace is a trace.
    let compact = Path::new(env!("CARGO_TARGET_TMPDIR")).join("killed.memledger");
    let _ = fs::remove_file(&compact);
    assert_eq!(run(&["export", killed, "--to", "memledger", "-o", as_arg(&compact)]).0, 0);
    assert_eq!(run(&["events", killed, "--limit", "1"]).0, 0);
}

#[test]
fn no_condition_passes_on_a_trace_that_is_not_whole() {
    let trace = own("killed");
    let check = |condition: &str, more: &[&str]| {
        let mut args = vec!["report", as_arg(&trace), "--fail-if", condition];
        args.extend(more);
        let (status, _, err) = run(&args);
        (status, err)
    };
    let (status, err) = check("live_blocks > 1000", &[]);
    assert_eq!(status, 1);
    assert!(err.contains("so 'live_blocks > 1000' cannot pass"), "{err}");
    assert_eq!(check("live_blocks > 1000", &["--allow-incomplete"]).0, 1, "never");
    let (status, err) = check("live_blocks > 0", &[]);
    assert_eq!(status, 3, "what holds on what there is holds");
    assert!(err.contains("has no end") && err.contains("holds: live_blocks is 103"), "{err}");
    let (status, err) = check("complete = false", &[]);
    assert!(status == 3 && err.contains("'complete = false' holds: complete is false"), "{err}");
    assert_eq!(check("complete = true", &["--allow-incomplete"]).0, 0, "that it is not is known");
    assert_eq!(run(&["report", SAMPLE, "--fail-if", "complete = false"]).0, 0);
}

#[test]
fn a_condition_can_be_on_a_scope() {
    let trace = own("late");
    let check = |condition: &str| {
        let (status, _, err) = run(&["report", as_arg(&trace), "--fail-if", condition]);
        (status, err)
    };
    assert_eq!(
        check(r#"peak_bytes{scope="before"} > 4KiB"#),
        (
            3,
            "memledger: 'peak_bytes{scope=\"before\"} > 4KiB' holds: peak_bytes of GlobalScope > \
             before is 17350 (16.9 KiB)\n"
                .to_owned()
        )
    );
    assert_eq!(check(r#"live_blocks{scope="GlobalScope > before"} > 0"#), (0, String::new()));
    assert_eq!(check(r#"frees{thread="main"} >= 1"#).0, 3);
    let (status, err) = check(r#"peak_bytes{scope="befor"} > 4KiB"#);
    assert_eq!(status, 1, "what is not there does not pass");
    let meant = "no scope \"befor\"; \"GlobalScope > before\" is likely meant";
    assert!(err.contains(meant), "{err}");
}

#[test]
fn a_trace_that_began_late_or_without_memory_says_so() {
    let json = |name: &str| {
        let (status, out, err) = run(&["report", as_arg(&own(name)), "--format", "json"]);
        assert_eq!((status, err.as_str()), (0, ""));
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")
    };
    let late = json("late");
    assert_eq!(late["trace"]["from_process_start"], true);
    assert_eq!(late["trace"]["recording_since_ns"], 300_953_140);
    assert_eq!(late["trace"]["initial_live_blocks"], 105);
    assert_eq!(late["trace"]["memory_recorded"], true);
    let (_, out, _) = run(&["report", as_arg(&own("late"))]);
    let since = "  since        301.0 ms; 105 blocks were live then (counted as allocated)\n";
    assert!(out.contains(since), "{out}");
    assert_eq!(json("no-memory")["trace"]["memory_recorded"], false);
    let (_, out, _) = run(&["report", as_arg(&own("no-memory"))]);
    assert!(out.contains("the channel \"memory\" is not in this recording"), "{out}");
    assert!(!out.contains("peak") && !out.contains("live at end"), "{out}");
    let foreign =
        serde_json::from_str::<serde_json::Value>(&run(&["report", SAMPLE, "--format", "json"]).1);
    let foreign = foreign.expect("JSON");
    assert!(foreign["trace"]["recording_since_ns"].is_null(), "Unreal's writer does not say");
}

#[test]
fn the_width_and_the_rest_are_shown_where_they_are_asked_for() {
    let widest = |args: &[&str]| {
        let (status, out, _) = run(&[&["report", SAMPLE][..], args].concat());
        assert_eq!(status, 0);
        out.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    };
    assert!(widest(&["--verbose"]) <= 80);
    let by_size = widest(&["--by", "size", "--width", "200"]);
    assert!(by_size > 80, "{by_size}");
    assert!(widest(&["--by", "size", "--width", "50"]) <= 50);
    let (_, short, _) = run(&["report", SAMPLE]);
    let (_, whole, _) = run(&["report", SAMPLE, "-v"]);
    for title in ["By size", "By thread", "Largest live blocks", "accurate to"] {
        assert!(!short.contains(title) && whole.contains(title), "{title}");
    }
    let (_, own, _) = run(&["report", SAMPLE, "--by", "scope", "--inclusive=false"]);
    let (_, inclusive, _) = run(&["report", SAMPLE, "--by", "scope", "--inclusive"]);
    assert!(own.contains("without inner ones") && !inclusive.contains("without inner ones"));
    assert_eq!(inclusive, run(&["report", SAMPLE, "--by", "scope"]).1);
}

#[test]
fn each_format_of_the_library_is_chosen_by_its_name_and_by_its_endings() {
    for format in FORMATS.all().iter().filter(|format| !format.is_binary()) {
        let (status, named, err) = run(&["report", SAMPLE, "--format", format.name()]);
        assert_eq!((status, err.as_str()), (0, ""), "{}", format.name());
        for ending in format.endings() {
            let path = file(&format!("by-ending.{ending}"), b"");
            let (status, out, err) = run(&["report", SAMPLE, "-o", as_arg(&path)]);
            assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
            assert_eq!(fs::read_to_string(&path).expect("the file"), named, "{ending}");
            // A name outweighs an ending, and without either the report is text.
            run(&["report", SAMPLE, "--format", "text", "-o", as_arg(&path)]);
            let text = run(&["report", SAMPLE]).1;
            assert_eq!(fs::read_to_string(path).expect("the file"), text);
        }
    }
    let path = file("by-ending.out", b"");
    run(&["report", SAMPLE, "-o", as_arg(&path)]);
    assert_eq!(fs::read_to_string(path).expect("the file"), run(&["report", SAMPLE]).1);
    let (status, _, err) = run(&["report", SAMPLE, "--format", "pdf"]);
    assert!(status == 2 && err.contains("there are text, json, html, "), "{err}");
}

/// The command that is named for it writes it.
#[test]
fn an_ending_of_another_command_is_not_a_report() {
    for ending in ["utrace", "memledger", "dhat.json", "parquet", "csv", "heaptrack.zst", "pftrace"]
    {
        let path = file(&format!("other.{ending}"), b"");
        fs::remove_file(&path).expect("a file");
        let (status, out, err) = run(&["report", SAMPLE, "-o", as_arg(&path)]);
        assert_eq!((status, out.as_str(), path.exists()), (2, "", false), "{ending}");
        let (_, named) = err.split_once("memledger export ").expect(&err);
        let named = named.strip_suffix(" writes such a file\n").expect(&err);
        let (status, _, err) = run(&[&["export"], &*named.split(' ').collect::<Vec<_>>()].concat());
        assert_eq!((status, err.as_str(), path.exists()), (0, "", true), "{named}");
        assert_eq!(run(&["report", SAMPLE, "--format", "text", "-o", as_arg(&path)]).0, 0);
        let report_to = ["run", "--preload=off", "--report", as_arg(&path), "--", "true"];
        let (status, _, err) = run(&report_to);
        assert!(status == 2 && err.contains("memledger export TRACE --to "), "{status}: {err}");
    }
}

#[test]
fn the_result_can_go_into_a_file() {
    let path = file("report.json", b"");
    let (status, out, err) = run(&["report", SAMPLE, "--format", "json", "-o", as_arg(&path)]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
    let written = fs::read_to_string(path).expect("the file");
    assert_eq!(written, run(&["report", SAMPLE, "--format", "json"]).1);
    let (status, _, err) = run(&["report", SAMPLE, "-o", "/no/such/folder/report.txt"]);
    assert_eq!(status, 1);
    assert!(err.starts_with("memledger: cannot write /no/such/folder/report.txt: "), "{err}");
}

#[test]
fn help_teaches_and_the_version_is_told() {
    let (status, out, _) = run(&["--version"]);
    assert_eq!((status, out.as_str()), (0, concat!("memledger ", env!("CARGO_PKG_VERSION"), "\n")));
    let (status, out, _) = run(&["report", "--help"]);
    assert_eq!(status, 0);
    assert!(out.contains("Examples:") && out.contains("--fail-if 'peak_bytes > 64MiB'"), "{out}");
    // What top refuses is not offered.
    for args in [&["--help"][..], &["top", "--help"]] {
        let (status, out, _) = run(args);
        assert_eq!(status, 0);
        assert!(
            out.contains("Watch a running program") && !out.contains("trace that grows"),
            "{out}"
        );
    }
}

#[test]
fn a_flag_that_fits_nothing_says_what_there_is() {
    for (args, says) in [
        (
            &["report", SAMPLE, "--at", "99s"][..],
            "--at 99s is after the end of the trace, which is ",
        ),
        (&["report", SAMPLE, "--filter", "scop1"], "no row has \"scop1\" in its name; "),
        (
            &["report", SAMPLE, "--filter", "xyzzy", "--by", "thread"],
            "\"xyzzy\" in its name; there are ",
        ),
        (&["events", SAMPLE, "--filter", "Memry.*"], "--filter Memry.*; Memory.* is likely meant"),
        (
            &["events", SAMPLE, "--filter", "Memory.AlocSystem"],
            "Memory.AllocSystem is likely meant",
        ),
        (&["events", SAMPLE, "--filter", "Qqqq*"], "--filter Qqqq*; there are $Trace."),
        (&["events", SAMPLE, "--thread", "4711"], "no event is on thread 4711; there are "),
    ] {
        let (status, out, err) = run(args);
        assert_eq!(status, 0, "{args:?}: {err}");
        assert!(!out.contains("in its name"), "{args:?} is said twice: {out}");
        assert!(err.contains(says) && err.lines().count() == 1, "{args:?}: {err}");
    }
    for args in [
        &["report", SAMPLE, "--at", "1ms"][..],
        &["report", SAMPLE, "--filter", "GLOBAL"],
        &["events", SAMPLE, "--filter", "Memory.*", "--limit", "3"],
        &["events", SAMPLE, "--filter", "Nothing", "--limit", "0"],
    ] {
        assert_eq!(run(args).2, "", "{args:?}");
    }
}

#[test]
fn nothing_that_is_asked_for_steers_the_terminal() {
    for args in [
        &["report", "/no/\u{1b}[31mfile"][..],
        &["report", SAMPLE, "--filter", "\u{1b}[31m"],
        &["report", SAMPLE, "--at", "bookmark:\u{1b}[31m"],
        &["report", SAMPLE, "-o", "/no/\u{1b}[31m"],
        &["events", SAMPLE, "--filter", "\u{1b}[31m"],
        &["traces", "--store", "\u{1b}[31m"],
        &["control", "1", "\u{1b}[31m"],
        &["\u{1b}[31m"],
    ] {
        let (_, _, err) = run(args);
        assert!(err.contains("\\u{1b}[31m") && !err.contains('\u{1b}'), "{args:?}: {err:?}");
    }
}

#[test]
fn events_show_the_text_of_a_bookmark() {
    use wire::{AUX, IMPORTANT, IMPORTANTS, NO_SYNC, TERMINAL, TYPES};
    let point = ("BookmarkPoint", U64);
    let spec = [point, ("FormatString", WideString)];
    let set = [("Cycle", U64), point, ("FormatArgs", U8Array)];
    let types = [
        wire::type_record(7, 40, "Misc.BookmarkSpec", IMPORTANT | NO_SYNC | AUX, &spec),
        wire::type_record(7, 41, "Misc.Bookmark", NO_SYNC | AUX, &set),
    ];
    let format: Vec<u8> = "level %d of %hs".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let place = 7_u64.to_le_bytes();
    // Their number, an integer of 4 bytes and a string of units of 1 byte.
    let values = [&[2, 1 << 6 | 4, 3 << 6 | 1][..], &3_i32.to_le_bytes(), b"Castle\x1b\0"].concat();
    let bookmark = |place: u64| {
        let fixed = [100_u64, place].map(u64::to_le_bytes).concat();
        wire::packet(5, &[&wire::plain(41, &fixed)[..], &wire::aux(2, &values), TERMINAL].concat())
    };
    let trace = [
        wire::handshake(7),
        wire::packet(TYPES, &types.concat()),
        wire::packet(IMPORTANTS, &wire::important(40, &place, &[(1, &format)], 0)),
        bookmark(7),
        // Of a place that was never announced.
        bookmark(8),
    ];
    let trace = file("bookmarks.utrace", &trace.concat());
    let (_, out, _) = run(&["events", as_arg(&trace), "--filter", "Misc.Bookmark"]);
    let [known, unknown] = out.lines().collect::<Vec<_>>()[..] else { panic!("{out}") };
    assert!(known.ends_with(r#" BookmarkPoint=0x7 Text="level 3 of Castle\u{1b}""#), "{known}");
    assert!(unknown.contains(" FormatArgs=[2, 68, 193, 3, "), "{unknown}");
    let (_, out, _) =
        run(&["events", as_arg(&trace), "--filter", "Misc.Bookmark", "--format", "json"]);
    let events: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(events["events"][0]["text"], "level 3 of Castle\u{1b}", "{out}");
    // One pass finds it, so standard input will do.
    let at = |name: &str| {
        let args = ["report", "-", "--at", &format!("bookmark:{name}"), "--verbose"];
        let trace = File::open(&trace).expect("the trace");
        told(memledger(&args).stdin(trace).output().expect("the command runs"))
    };
    let (status, out, err) = at("level 3 of Castle\u{1b}");
    assert!(status == 1 && out.contains("as it was at bookmark:level 3 of"), "{out}{err}");
    let (status, out, err) = at("level 4");
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains(r#"no bookmark "level 4""#) && err.contains("level 3 of Castle"), "{err}");
}

#[test]
fn stacks_of_threads_of_an_earlier_version_are_a_heap() {
    let trace = own("thread-stacks").with_extension("memledger");
    let (status, out, err) = run(&["report", as_arg(&trace), "--format", "json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let heap = &report["by_heap"][1];
    assert_eq!((&heap["id"], &heap["name"]), (&4.into(), &"Thread stacks".into()));
    let figures = ["allocations", "frees", "allocated_bytes", "peak_bytes", "live_bytes"];
    assert_eq!(figures.map(|key| heap[key].as_u64()), [2, 2, 204_800, 204_800, 0].map(Some));
}
