//! `memledger view` as a browser meets it: who may ask, and that its answers are those of `query`.

mod harness;

use harness::{Copied, View, memledger};
use memledger_test_support::command::{DEADLINE, ran, told};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace");
const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");

/// Every rule, with some moments.
const QUESTIONS: [(&str, &[&str]); 18] = [
    ("alive-at-a", &["peak"]),
    ("alive-at-a", &["start"]),
    ("alive-at-a", &["98%"]),
    ("alive-at-a", &["2min"]),
    ("freed-before", &["peak"]),
    ("allocated-after", &["50%"]),
    ("allocated-between", &["start", "end"]),
    ("freed-between", &["98%", "peak"]),
    ("short-lived", &["start", "peak"]),
    ("long-lived", &["98%", "peak"]),
    ("grown", &["98%", "peak"]),
    ("declined", &["98%", "peak"]),
    ("grown-and-declined", &["98%", "peak"]),
    ("leaked", &["98%", "peak"]),
    ("leaked", &["98%", "peak", "end"]),
    ("limited-lifetime", &["98%", "peak", "end"]),
    ("declined-long-lived", &["98%", "peak", "end"]),
    ("specific-lifetime", &["start", "98%", "peak", "end"]),
];

fn assert_same_answers(copied: &Copied, view: &View) {
    for (rule, moments) in QUESTIONS {
        let (_, out, err) = copied.query(rule, moments);
        if out.is_empty() {
            // The moments are in another order in this trace.
            let error = view.query(rule, moments).error();
            assert_eq!(format!("memledger: {error}\n"), err, "{rule} {moments:?}");
            continue;
        }
        assert_eq!(view.total(rule, moments), copied.total(rule, moments), "{rule} {moments:?}");
    }
}

#[test]
fn only_who_knows_the_token_and_comes_from_here_may_ask() {
    let copied = Copied::of(SAMPLE);
    let view = View::start(&copied);
    let (host, token) = (view.host(), &view.token);
    let own = format!("Host: {host}\r\n");
    let paths = ["/", "/api/page", "/api/progress", "/api/query?rule=alive-at-a&a=peak", "/no"];
    let with = |path: &str, token: &str| {
        let and = if path.contains('?') { '&' } else { '?' };
        format!("{path}{and}token={token}")
    };
    for path in paths {
        let ours = with(path, token);
        let cases = [
            (path.to_owned(), own.clone(), "token"),
            (with(path, "0"), own.clone(), "token"),
            (with(path, &token.to_uppercase().replace('A', "B")[1..]), own.clone(), "token"),
            (ours.clone(), String::new(), "127.0.0.1"),
            (ours.clone(), "Host: evil.example\r\n".to_owned(), "127.0.0.1"),
            (ours.clone(), format!("Host: evil.example:{}\r\n", view.port), "127.0.0.1"),
            (ours.clone(), format!("Host: 127.0.0.1:{}1\r\n", view.port), "127.0.0.1"),
            (ours.clone(), format!("{own}{own}"), "127.0.0.1"),
            (ours.clone(), format!("{own}Origin: http://evil.example\r\n"), "from other sites"),
            (ours.clone(), format!("{own}Origin: null\r\n"), "from other sites"),
            (ours.clone(), format!("{own}Origin: https://{host}\r\n"), "from other sites"),
        ];
        for (path, headers, says) in cases {
            let answer = view.ask_with(&path, &headers);
            // What is no HTTP is refused before that.
            let is_refused = [400, 403].contains(&answer.status);
            assert!(is_refused, "{path} {headers} {}", answer.status);
            if answer.status == 403 {
                assert!(answer.error().contains(says), "{headers} {}", answer.body);
                assert!(!answer.body.contains(token.as_str()));
            }
        }
    }
    for name in ["127.0.0.1", "localhost", "[::1]"] {
        let host = format!("{name}:{}", view.port);
        let headers = format!("Host: {host}\r\nOrigin: http://{host}\r\n");
        let answer = view.ask_with(&with("/", token), &headers);
        assert_eq!(answer.status, 200);
        assert!(
            answer.body.contains(&format!(r#"window.memledgerServer = {{"token":"{token}"}}"#))
        );
        for header in [
            "content-security-policy: default-src 'none';",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
        ] {
            assert!(answer.head.contains(header), "{}", answer.head);
        }
    }
    assert_eq!(view.ask("/no").status, 404);
}

#[test]
fn every_rule_says_what_query_says() {
    let copied = Copied::of(SAMPLE);
    let view = View::start(&copied);
    let ready = view.wait_for(|event| event["ready"] == true);
    assert_eq!((&ready["is_growing"], &ready["notes"]), (&false.into(), &Value::Array(Vec::new())));
    let page = view.ask("/api/page").json();
    assert_eq!(page["schema"], "memledger.page/1");
    assert_same_answers(&copied, &view);
    assert_eq!(view.total("alive-at-a", &["peak"])["bytes"], page["totals"]["peak_bytes"]);
}

#[test]
fn a_bad_question_gets_the_sentence_of_query() {
    let copied = Copied::of(SAMPLE);
    let view = View::start(&copied);
    for (rule, moments) in [
        ("alive-at-a", &["soon"][..]),
        ("alive-at-a", &["101%"]),
        ("alive-at-a", &["bookmark:nowhere"]),
        ("alive-at-a", &["1s", "2s"]),
        ("grown", &["peak", "1ms"]),
        ("grown", &["2ms", "1ms"]),
        ("grwn", &["1ms"]),
        ("-", &["1ms"]),
    ] {
        let (status, _, err) = copied.query(rule, moments);
        assert_ne!(status, 0, "{rule} {moments:?}");
        let sentence = err.trim().trim_start_matches("memledger: ");
        let sentence = sentence.trim_end_matches(" (--help has more)");
        let answer = view.query(rule, moments);
        assert_eq!((answer.status, answer.error().as_str()), (400, sentence), "{rule} {moments:?}");
    }
    for (path, says) in [
        ("/api/blocks?rule=alive-at-a&a=peak&bucket=x", "bucket is \"x\", not a number"),
        ("/api/blocks?rule=alive-at-a&a=peak&bucket=99999", "bucket is 99999, but there are only"),
        (
            "/api/blocks?rule=alive-at-a&a=peak&limit=1000000",
            "limit is 1000000, but can be at most 10000",
        ),
        ("/api/block", "event is missing"),
        ("/api/block?event=1", "event 1 has changed no block"),
    ] {
        let answer = view.ask(path);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.error().starts_with(says), "{path}: {}", answer.body);
    }
}

#[test]
fn single_blocks_are_those_of_query_and_have_a_history() {
    let copied = Copied::of(SAMPLE);
    let view = View::start(&copied);
    let trace = copied.trace.to_str().expect("UTF-8");
    let args = ["query", trace, "--rule", "freed-between", "--a", "98%", "--b", "peak"];
    let args = [&args[..], &["--blocks", "20", "--format", "json"]].concat();
    let (_, out, _) = told(ran(memledger(&args, copied.folder.path())));
    let expected: Value = serde_json::from_str(&out).expect("JSON");
    let answer = view.ask("/api/blocks?rule=freed-between&a=98%25&b=peak&limit=20").json();
    let of = |document: &Value| -> Vec<Value> {
        let blocks = document["blocks"].as_array().expect("blocks").iter();
        let keys = ["address", "bytes", "allocated_at_ns", "freed_at_ns", "freed_by_event"];
        blocks.map(|block| keys.map(|key| block[key].clone()).to_vec().into()).collect()
    };
    assert_eq!(of(&answer), of(&expected));
    assert_eq!(of(&answer).len(), 20);
    let block = &answer["blocks"][0];
    for event in [&block["event"], &block["freed_by_event"]] {
        let history = view.ask(&format!("/api/block?event={event}")).json();
        let entries = history["history"].as_array().expect("entries");
        let (first, last) = (entries.first().expect("one"), entries.last().expect("one"));
        assert_eq!(last["what"], "freed", "{history}");
        assert_eq!(last["event"], block["freed_by_event"]);
        assert_eq!(last["bytes"], block["bytes"]);
        assert!(last["thread"].is_string(), "{history}");
        assert!(event != &block["event"] || first["event"] == *event, "{history}");
    }
    // Of some buckets only.
    let bucket = &block["bucket"];
    let path = format!("/api/blocks?rule=freed-between&a=98%25&b=peak&limit=5&bucket={bucket}");
    let answer = view.ask(&path).json();
    let blocks = answer["blocks"].as_array().expect("blocks");
    assert!(!blocks.is_empty() && blocks.iter().all(|block| block["bucket"] == *bucket));
}

#[test]
fn single_blocks_are_kept_beside_the_trace() {
    let copied = Copied::of(SAMPLE);
    let file = copied.folder.path().join("run.utrace.blocks");
    let blocks = "/api/blocks?rule=freed-before&a=end&limit=20";
    let without_index = View::with(&copied, &["--no-index"]);
    let passed = without_index.ask(blocks).json();
    assert_eq!(passed["took_a_pass"], true, "{passed}");
    drop(without_index);
    assert!(!file.exists());

    let kept = |view: &View| loop {
        let answer = view.ask(blocks);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let mut answer = answer.json();
        if answer["took_a_pass"] == false {
            answer["took_a_pass"] = true.into();
            return answer;
        }
    };
    let view = View::start(&copied);
    assert_eq!(kept(&view), passed);
    let event = &passed["blocks"][0]["freed_by_event"];
    let history = view.ask(&format!("/api/block?event={event}")).json();
    assert_eq!(history["took_a_pass"], false, "{history}");
    let whats: Vec<_> =
        history["history"].as_array().expect("entries").iter().map(|of| &of["what"]).collect();
    assert_eq!(whats, ["allocated", "freed"]);
    let none = view.ask("/api/block?event=1");
    assert_eq!((none.status, none.error()), (400, "event 1 has changed no block".to_owned()));
    drop(view);

    // It is used again, and made again if the trace is another one, or if it is damaged.
    let made = |path: &Path| fs::metadata(path).and_then(|of| of.modified()).expect("a file");
    let before = made(&file);
    assert_eq!(kept(&View::start(&copied)), passed);
    assert_eq!(made(&file), before);
    fs::write(&file, "memledger.blocks").expect("it is written");
    assert_eq!(kept(&View::start(&copied)), passed);
    copied.write(&fs::read(OURS).expect("a trace"));
    copied.is_old();
    let other = kept(&View::start(&copied));
    assert_ne!(other["blocks"], passed["blocks"]);
}

#[test]
fn traces_that_are_not_whole_are_answered_and_said_to_be() {
    let whole = fs::read(SAMPLE).expect("the sample");
    let cut = Copied::of(SAMPLE);
    cut.write(&whole[..whole.len() * 2 / 3 + 1]);
    cut.is_old();
    let damaged = Copied::of(SAMPLE);
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3000].fill(0xa5);
    damaged.write(&bytes);
    damaged.is_old();
    let of = |name: &str| Copied::of(&format!("{TRACES}/{name}"));
    for (copied, says) in
        [(cut, "the trace ends"), (damaged, "damaged"), (of("killed.utrace"), "has no end")]
    {
        let view = View::start(&copied);
        let ready = view.wait_for(|event| event["ready"] == true);
        assert_eq!(ready["is_growing"], false);
        let notes = ready["notes"].to_string();
        let (_, _, err) = copied.query("alive-at-a", &["end"]);
        let sentence = err.lines().last().expect("a sentence").trim_start_matches("memledger: ");
        assert!(notes.contains(&sentence.replace('"', "\\\"")), "{says}: {notes} {sentence}");
        assert_same_answers(&copied, &view);
    }
    let none = of("no-memory.utrace");
    let view = View::start(&none);
    assert_eq!(view.total("alive-at-a", &["peak"])["blocks"], 0);
}

#[test]
fn a_trace_that_grows_is_followed() {
    let whole = fs::read(OURS).expect("the sample");
    let copied = Copied::of(OURS);
    copied.write(&[]);
    let view = View::start(&copied);
    copied.append(&whole[..whole.len() * 9 / 10]);
    let ready = view.wait_for(|event| event["ready"] == true);
    assert_eq!(ready["is_growing"], true);
    assert_eq!(view.query("alive-at-a", &["end"]).json()["is_growing"], true);
    assert!(!copied.index().exists(), "it is not whole yet");
    copied.append(&whole[whole.len() * 9 / 10..]);
    view.wait_for(|event| event["is_growing"] == false);
    assert_same_answers(&copied, &view);
    let all = view.total("allocated-between", &["start", "end"]);
    assert!(all["blocks"].as_u64() > Some(0), "{all}");
}

#[test]
fn a_trace_without_an_end_mark_is_followed_until_its_file_is_old() {
    let whole = fs::read(SAMPLE).expect("the sample");
    let copied = Copied::of(SAMPLE);
    copied.write(&whole[..whole.len() / 2]);
    let view = View::start(&copied);
    let ready = view.wait_for(|event| event["ready"] == true);
    assert_eq!(ready["is_growing"], true, "Unreal's writer says nowhere that a trace has ended");
    copied.append(&whole[whole.len() / 2..]);
    copied.is_old();
    view.wait_for(|event| event["is_growing"] == false);
    assert_same_answers(&copied, &view);
}

#[test]
fn a_trace_that_grows_after_what_seemed_its_end_is_read_again() {
    let whole = fs::read(SAMPLE).expect("the sample");
    let copied = Copied::of(SAMPLE);
    copied.write(&whole[..whole.len() / 2 + 100]);
    copied.is_old();
    let view = View::start(&copied);
    view.wait_for(|event| event["ready"] == true);
    let moments = ["start", "end"];
    let half = view.total("allocated-between", &moments);
    assert_eq!(half, copied.total("allocated-between", &moments));
    copied.append(&whole[whole.len() / 2 + 100..]);
    let all = copied.total("allocated-between", &moments);
    assert!(half["blocks"].as_u64() < all["blocks"].as_u64());
    while view.total("allocated-between", &moments) != all {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_same_answers(&copied, &view);
}

/// Waits until the file is there; it appears whole.
fn wait_for_file(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_index_is_used_and_is_made_again_when_it_is_stale_or_damaged() {
    let copied = Copied::of(SAMPLE);
    drop({
        let view = View::start(&copied);
        wait_for_file(&copied.index());
        view
    });
    let index = fs::read(copied.index()).expect("the index");
    // Of the trace with other bytes in its middle, which an identity does not see: so the index is read.
    let mut bytes = fs::read(&copied.trace).expect("the trace");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3000].fill(0);
    let of_whole = copied.total("allocated-between", &["start", "end"]);
    let time = fs::metadata(&copied.trace).and_then(|of| of.modified()).expect("a time");
    let set = |bytes: &[u8], time: SystemTime| {
        copied.write(bytes);
        let file = File::options().append(true).open(&copied.trace).expect("the trace");
        file.set_modified(time).expect("a time");
    };
    set(&bytes, time);
    assert_eq!(View::start(&copied).total("allocated-between", &["start", "end"]), of_whole);
    // Another time, another length: it is stale.
    set(&bytes, time + Duration::from_secs(1));
    let of_damaged = copied.total("allocated-between", &["start", "end"]);
    assert_ne!(of_damaged, of_whole);
    assert_eq!(View::start(&copied).total("allocated-between", &["start", "end"]), of_damaged);
    // Damaged in many ways: it is not used.
    for at in (0..index.len()).step_by(index.len() / 40) {
        let mut damaged = index.clone();
        damaged[at] ^= 0x41;
        damaged.truncate(if at % 2 == 0 { index.len() } else { at + 1 });
        fs::write(copied.index(), &damaged).expect("it is written");
        let view = View::start(&copied);
        assert_eq!(view.total("allocated-between", &["start", "end"]), of_damaged, "{at}");
    }
}

#[test]
fn the_index_is_elsewhere_if_it_cannot_be_beside_the_trace() {
    let copied = Copied::of(SAMPLE);
    fs::create_dir(copied.index()).expect("a folder in its place");
    let view = View::start(&copied);
    let indexes = copied.folder.path().join("cache/memledger/indexes");
    let until = Instant::now() + DEADLINE;
    while fs::read_dir(&indexes).map_or(0, Iterator::count) == 0 {
        assert!(Instant::now() < until, "there is no index in {}", indexes.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(view.total("alive-at-a", &["peak"]), copied.total("alive-at-a", &["peak"]));
    let none = View::with(&copied, &["--no-index"]);
    assert_eq!(none.total("alive-at-a", &["peak"]), copied.total("alive-at-a", &["peak"]));
}

#[test]
fn a_trace_that_is_lost_while_it_is_viewed_is_one_sentence() {
    let name = |copied: &Copied| copied.trace.display().to_string();
    type Change = fn(&Copied);
    let cases: [(Change, &str); 3] = [
        (|copied| fs::remove_file(&copied.trace).expect("it is there"), "was removed"),
        (
            |copied| {
                let other = copied.folder.path().join("other");
                fs::copy(SAMPLE, &other).expect("a copy");
                fs::rename(&other, &copied.trace).expect("a name");
            },
            "was replaced by another file",
        ),
        (
            |copied| {
                let file = File::options().write(true).open(&copied.trace).expect("the trace");
                file.set_len(1000).expect("it is cut");
            },
            "was cut to 1000 bytes",
        ),
    ];
    for (lose, says) in cases {
        let copied = Copied::of(SAMPLE);
        let view = View::start(&copied);
        view.wait_for(|event| event["ready"] == true);
        lose(&copied);
        let event = view.wait_for(|event| event.get("error").is_some());
        let sentence = event["error"].as_str().expect("a sentence");
        assert!(sentence.starts_with(&format!("{} {says}", name(&copied))), "{sentence}");
        let answer = view.query("alive-at-a", &["peak"]);
        assert_eq!((answer.status, answer.error().as_str()), (410, sentence));
    }
}

#[test]
fn it_ends_with_the_interrupt_and_leaves_whole_files_only() {
    for _ in 0..3 {
        let copied = Copied::of(SAMPLE);
        let view = View::start(&copied);
        assert_eq!(view.interrupt(), 0);
        let names = fs::read_dir(copied.folder.path())
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        for name in names.filter(|name| name != "cache") {
            assert!(["run.utrace", "run.utrace.index"].contains(&name.as_str()), "{name}");
        }
        let view = View::start(&copied);
        assert_eq!(view.total("alive-at-a", &["peak"]), copied.total("alive-at-a", &["peak"]));
    }
}

#[test]
fn what_cannot_be_served_is_one_sentence() {
    let copied = Copied::of(SAMPLE);
    let view = View::start(&copied);
    let port = view.port.to_string();
    let trace = copied.trace.to_str().expect("UTF-8");
    let run =
        |args: &[&str]| told(ran(memledger(&[&["view"], args].concat(), copied.folder.path())));
    let (status, out, err) = run(&[trace, "--port", &port]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert_eq!(
        err,
        format!("memledger: cannot listen at 127.0.0.1:{port}: another program uses it\n")
    );
    let (status, _, err) = run(&["/no/such/trace"]);
    assert_eq!(
        (status, err.as_str()),
        (1, "memledger: cannot open /no/such/trace: there is no such file\n")
    );
    let (status, _, err) = run(&["-"]);
    assert!(status == 2 && err.contains("standard input"), "{err}");
    let no_trace = copied.folder.path().join("text");
    fs::write(&no_trace, "no trace at all, but text").expect("it is written");
    let (status, out, err) = run(&[no_trace.to_str().expect("UTF-8")]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("text: this is not a trace: it begins with "), "{err}");
    // It may be written yet, until nothing is written for a while.
    let file = File::create(&no_trace).expect("it");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
    let empty = Copied { folder: tempfile::tempdir().expect("a folder"), trace: no_trace };
    let event = View::start(&empty).wait_for(|event| event.get("error").is_some());
    assert!(event["error"].as_str().expect("a sentence").contains("it is empty"), "{event}");
}
