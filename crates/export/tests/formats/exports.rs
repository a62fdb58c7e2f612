//! Formats of other tools that are made from a report: folded stacks, speedscope.

use memledger_analysis::{Analyzer, BlockObserver, Frames, Position, Report};
use memledger_export::text;
use memledger_export::tools::FORMATS;
use memledger_export::tools::dhat::Profile;
use memledger_test_support::feed::{Feed, V::N};
use memledger_test_support::feed::{Names, PROGRAM, program};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

fn written(report: &Report, format: &str, sort: text::Sort) -> String {
    let mut options = text::Options::default();
    options.sort = sort;
    let mut out = Vec::new();
    let format = FORMATS.by_name(format).expect("it");
    format.write(report, &options, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("UTF-8")
}

fn folded(report: &Report, sort: text::Sort) -> String {
    written(report, "folded", sort)
}

fn speedscope(report: &Report) -> Value {
    let document = written(report, "speedscope", text::Sort::AtPeak);
    serde_json::from_str(&document).expect("JSON")
}

/// The stacks and weights of a profile, with the names of frames.
fn samples(document: &Value, profile: usize) -> Vec<(String, u64)> {
    let frames = document["shared"]["frames"].as_array().expect("frames");
    let name = |frame: &Value| frames[frame.as_u64().expect("an index") as usize]["name"].as_str();
    let profile = &document["profiles"][profile];
    let stacks = profile["samples"].as_array().expect("samples");
    let weights = profile["weights"].as_array().expect("weights");
    assert_eq!(stacks.len(), weights.len());
    let sample = |(stack, weight): (&Value, &Value)| {
        let names = stack.as_array().expect("a stack").iter().map(|frame| name(frame).expect("it"));
        (names.collect::<Vec<_>>().join(" > "), weight.as_u64().expect("a weight"))
    };
    stacks.iter().zip(weights).map(sample).collect()
}

/// The totals of both formats are those of the report, which has the buckets and no sample of stacks.
fn totals_are_those_of(report: &Report) {
    use text::Sort::{Allocated, AtPeak, Count, Live};
    let totals = report.totals;
    let expected =
        [totals.peak_bytes, totals.live_bytes, totals.allocated_bytes, totals.allocations];
    let document = speedscope(report);
    for (profile, expected) in expected.into_iter().enumerate() {
        let sum: u64 = samples(&document, profile).iter().map(|(_, weight)| weight).sum();
        assert_eq!(sum, expected, "{}", document["profiles"][profile]["name"]);
        assert_eq!(document["profiles"][profile]["endValue"], expected);
    }
    for (sort, expected) in [AtPeak, Live, Allocated, Count].into_iter().zip(expected) {
        let lines = folded(report, sort);
        let numbers = lines.lines().map(|line| line.rsplit_once(' ').expect("two parts").1);
        let sum: u64 = numbers.map(|number| number.parse::<u64>().expect("a number")).sum();
        assert_eq!(sum, expected, "{sort:?}");
    }
}

/// Does what `steps` say, on two threads and in two scopes: allocates with a stack, with one that no event
/// announces or without, frees, reallocates, enters and leaves.
fn any_report(steps: &[(u8, u64, u64, u32, bool)]) -> Report {
    let mut feed = program(Analyzer::new().by_bucket());
    feed.thread(3, 2, "other");
    feed.stack(3, &[0x1030, 0x1030, 0x1010]);
    feed.spec(0, 100, -1, -1, "level");
    feed.spec(0, 101, 100, -1, "mesh");
    let mut depths = [0; 2];
    for &(step, block, size, stack, is_other) in steps {
        let (stream, address) = (2 + u16::from(is_other), 0x1000 + 0x100 * block);
        let depth = &mut depths[usize::from(is_other)];
        match step {
            0 => feed.alloc_at(stream, address, size, stack),
            1 => feed.free(stream, address),
            2 => feed.realloc(stream, address, 0x1000 + 0x100 * (size % 8), size),
            3 if *depth < 2 => {
                feed.enter(stream, 100 + *depth);
                *depth += 1;
            }
            _ if *depth > 0 => {
                feed.leave(stream);
                *depth -= 1;
            }
            _ => {}
        }
    }
    feed.report()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn totals_are_those_of_any_report(
        steps in vec((0_u8..5, 0_u64..8, 1_u64..5000, 0_u32..5, any::<bool>()), 0..80),
    ) {
        totals_are_those_of(&any_report(&steps));
    }
}

/// Blocks in a scope, two of them with a tag, on two threads.
fn in_scopes<O: BlockObserver>(feed: &mut Feed<O>) {
    feed.spec(0, 100, -1, -1, "load;level");
    feed.spec(1, 200, -1, -1, "World");
    feed.spec(1, 201, 200, -1, "Creatures");
    feed.spec(2, 210, 201, -1, "herds");
    feed.spec(3, 300, 100, 210, "");
    feed.thread(2, 1, "main");
    feed.thread(3, 2, "other");
    feed.alloc(2, 0x10, 1);
    for (stream, address) in [(2, 0x1000), (3, 0x2000)] {
        feed.enter(stream, 100);
        feed.alloc(stream, address, 20);
        feed.enter(stream, 300);
        feed.alloc(stream, address + 0x100, 300);
        feed.leave(stream);
        feed.leave(stream);
    }
    feed.free(3, 0x2000);
}

#[test]
fn stacks_are_merged_by_the_functions_that_are_shown() {
    let mut report = program(Analyzer::new()).report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    assert_eq!(
        folded(&report, text::Sort::Live),
        "(no stack) 4\ndemo::main 30\ndemo::main;demo::parse;demo::parse;demo::inlined 1200\n"
    );
    assert!(folded(&report, text::Sort::Count).contains("demo::inlined 2\n"));
    // Rows that are merged have no peak of their own.
    assert_eq!(folded(&report, text::Sort::Peak), folded(&report, text::Sort::AtPeak));
}

#[test]
fn blocks_without_a_stack_have_their_scopes() {
    let mut feed = program(Analyzer::new().by_bucket());
    in_scopes(&mut feed);
    let mut report = feed.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    assert_eq!(
        folded(&report, text::Sort::Live),
        "(no stack);GlobalScope 5\n\
         (no stack);GlobalScope;load,level 20\n\
         (no stack);GlobalScope;load,level;World > Creatures / herds 600\n\
         demo::main 30\ndemo::main;demo::parse;demo::parse;demo::inlined 1200\n"
    );
    totals_are_those_of(&report);
}

#[test]
fn a_trace_without_stacks_has_scopes_groups_and_names() {
    let mut feed = Feed::ours(Analyzer::new().by_bucket());
    in_scopes(&mut feed);
    let report = feed.report();
    assert_eq!(
        folded(&report, text::Sort::Allocated),
        "GlobalScope 1\nGlobalScope;load,level 40\n\
         GlobalScope;load,level;World > Creatures / herds 600\n"
    );
    totals_are_those_of(&report);
    let document = speedscope(&report);
    let scope = "GlobalScope > load;level";
    assert_eq!(
        samples(&document, 1),
        [
            ("GlobalScope".to_owned(), 1),
            (scope.to_owned(), 20),
            (format!("{scope} > World > Creatures / herds"), 600)
        ]
    );
    // Without the buckets, it is the scopes alone.
    let mut feed = Feed::new();
    in_scopes(&mut feed);
    let lines = folded(&feed.report(), text::Sort::Allocated);
    assert_eq!(lines, "GlobalScope 1\nGlobalScope;load,level 640\n");
}

#[test]
fn a_sample_of_stacks_is_estimated_and_what_it_lacks_is_not_counted_again() {
    for analyzer in [Analyzer::new(), Analyzer::new().by_bucket()] {
        let mut feed = Feed::ours(analyzer);
        feed.emit("Memledger.StackSampling", 1, &[N(1000)]);
        feed.module("/bin/program", 0x1000, 0x100);
        feed.stack(1, &[0x1040]);
        feed.stack(2, &[0x1020, 0x1030]);
        // Blocks of 1000 bytes are in the sample with a probability of 0.632.
        for block in 0..1000_u64 {
            let stack = if block % 1000 < 632 { 1 + block as u32 % 2 } else { 0 };
            feed.alloc_at(2, 0x10_000 * (block + 1), 1000, stack);
        }
        let mut report = feed.report();
        report.symbolize(&mut Names(PROGRAM, Vec::new()));
        let lines = folded(&report, text::Sort::Live);
        let lines: Vec<_> = lines.lines().map(|line| line.rsplit_once(' ').expect("two")).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let estimate: u64 = lines.iter().map(|(_, bytes)| bytes.parse::<u64>().expect("it")).sum();
        assert!(estimate.abs_diff(1_000_000) < 1000, "{lines:?}");
        let document = speedscope(&report);
        assert_eq!(document["profiles"][1]["endValue"], estimate);
        let name = document["profiles"][1]["name"].as_str().expect("a name");
        assert!(name.ends_with(", estimated from one in 1000 bytes"), "{name}");
    }
}

#[test]
fn speedscope_has_four_profiles_of_the_same_frames() {
    let mut feed = program(Analyzer::new().by_bucket());
    feed.free(2, 0x100);
    let mut report = feed.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    report.trace.program = Some("demo \"x\"\n".to_owned());
    report.trace.complete = true;
    totals_are_those_of(&report);
    let document = speedscope(&report);
    assert_eq!(document["$schema"], "https://www.speedscope.app/file-format-schema.json");
    assert_eq!(document["name"], "demo \"x\"\n (process 77)");
    let profiles = document["profiles"].as_array().expect("profiles");
    let of = |key: &str| profiles.iter().map(|profile| profile[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("type"), ["sampled"; 4]);
    assert_eq!(of("unit"), ["bytes", "bytes", "bytes", "none"]);
    assert_eq!(
        of("name"),
        ["bytes live at the peak", "bytes live at the end", "bytes allocated", "allocations"]
    );
    let frames = document["shared"]["frames"].as_array().expect("frames");
    let frame = |name: &str, file: &str, line: u32| {
        frames
            .iter()
            .any(|frame| frame["name"] == name && frame["file"] == file && frame["line"] == line)
    };
    assert!(frame("demo::parse", "src/demo.rs", 30) && frame("demo::parse", "src/demo.rs", 31));
    assert_eq!(samples(&document, 1).len(), 3);
    for (sort, active) in [
        (text::Sort::AtPeak, 0),
        (text::Sort::Peak, 0),
        (text::Sort::Live, 1),
        (text::Sort::Allocated, 2),
        (text::Sort::Count, 3),
    ] {
        let document: Value =
            serde_json::from_str(&written(&report, "speedscope", sort)).expect("JSON");
        assert_eq!(document["activeProfileIndex"], active);
    }
}

#[test]
fn nothing_was_allocated() {
    let report = Analyzer::new().by_bucket().report();
    assert_eq!(folded(&report, text::Sort::Live), "");
    let document = speedscope(&report);
    assert_eq!(document["profiles"][0]["samples"], Value::Array(vec![]));
    assert_eq!(document["name"], "an unnamed program, incomplete");
}

/// A generic function, so that the same events can go to both analyzers.
trait Events {
    fn emit<O: BlockObserver>(&self, feed: &mut Feed<O>);
}

/// The profile of events, made in two passes.
fn dhat(events: &impl Events) -> (Report, Value) {
    let mut first = Feed::ours(Analyzer::new().by_bucket());
    events.emit(&mut first);
    let mut report = first.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    let until = Position::Event(report.trace.events);
    let mut second =
        Feed::ours(Analyzer::observing(Profile::of(&report, Frames::Folded)).until(until));
    events.emit(&mut second);
    second.analyzer.flush();
    let mut document = Vec::new();
    second.analyzer.observer().write(&report, &mut document).expect("memory takes everything");
    (report, serde_json::from_slice(&document).expect("JSON"))
}

struct Lives;

impl Events for Lives {
    fn emit<O: BlockObserver>(&self, feed: &mut Feed<O>) {
        feed.module("/bin/program", 0x1000, 0x100);
        feed.stack(1, &[0x1020, 0x1030]);
        feed.stack(2, &[0x1040]);
        feed.marker(1_000_000);
        feed.alloc_at(2, 0x100, 1000, 1);
        feed.alloc_at(2, 0x200, 200, 1);
        feed.marker(3_000_000);
        feed.realloc_free(2, 0x100);
        feed.realloc_alloc_at(2, 0x100, 3000, 2);
        feed.marker(4_000_000);
        feed.free(2, 0x200);
        feed.alloc_at(2, 0x300, 50, 1);
        in_scopes(feed);
        feed.our_report(10_000_000);
    }
}

#[test]
fn dhat_has_lifetimes_and_the_most_of_each_point() {
    let (report, document) = dhat(&Lives);
    let frames = document["ftbl"].as_array().expect("frames");
    assert_eq!(frames[0], "[root]");
    let points = document["pps"].as_array().expect("points");
    let point = |innermost: &str| {
        let is_it =
            |point: &&Value| frames[point["fs"][0].as_u64().expect("it") as usize] == innermost;
        let figures = |point: &Value| {
            ["tb", "tbk", "tl", "mb", "mbk", "gb", "gbk", "eb", "ebk"]
                .map(|key| point[key].as_u64())
        };
        figures(points.iter().find(is_it).expect("a point")).map(Option::unwrap)
    };
    // Lives of 2, 3 and 6 ms; the reallocation goes on for 7 ms at another point.
    let parse = point("demo::inlined (src/demo.rs:7)");
    assert_eq!(parse, [1250, 3, 11_000, 1200, 2, 50, 1, 50, 1]);
    assert_eq!(point("demo::main (src/demo.rs:40)"), [3000, 1, 7_000, 3000, 1, 3000, 1, 3000, 1]);
    let herds = point("World > Creatures / herds");
    assert_eq!(herds, [600, 2, 12_000, 600, 2, 600, 2, 600, 2]);
    assert_eq!(point("load;level"), [40, 2, 6_000, 40, 2, 40, 2, 20, 1]);

    for (key, value) in [("te", 10_000), ("tg", 4_000), ("tuth", 2_000), ("dhatFileVersion", 2)] {
        assert_eq!(document[key], value, "{key}");
    }
    for (key, value) in [("tu", "µs"), ("Mtu", "s"), ("mode", "rust-heap"), ("verb", "Allocated")]
    {
        assert_eq!(document[key], value, "{key}");
    }
    assert_eq!((&document["bklt"], &document["bkacc"]), (&Value::Bool(true), &Value::Bool(false)));
    let sum = |key| points.iter().map(|point| point[key].as_u64().expect("it")).sum::<u64>();
    let totals = report.totals;
    assert_eq!(sum("tb"), totals.allocated_bytes);
    assert_eq!(sum("tbk"), totals.allocations + totals.reallocations);
    assert_eq!((sum("gb"), sum("gbk")), (totals.peak_bytes, totals.blocks_at_peak));
    assert_eq!((sum("eb"), sum("ebk")), (totals.live_bytes, totals.live_blocks));
}

struct Sampled;

impl Events for Sampled {
    fn emit<O: BlockObserver>(&self, feed: &mut Feed<O>) {
        feed.emit("Memledger.StackSampling", 1, &[N(1000)]);
        feed.module("/bin/program", 0x1000, 0x100);
        feed.stack(1, &[0x1040]);
        for block in 0..1000_u64 {
            feed.alloc_at(2, 0x10_000 * (block + 1), 1000, u32::from(block < 632));
        }
        feed.marker(5_000_000);
        (0..1000).for_each(|block| feed.free(2, 0x10_000 * (block + 1)));
        feed.our_report(10_000_000);
    }
}

#[test]
fn dhat_of_a_sample_is_an_estimate_of_all() {
    let (_, document) = dhat(&Sampled);
    let points = document["pps"].as_array().expect("points");
    assert_eq!(points.len(), 1);
    let within = |key: &str, expected: u64| {
        let value = points[0][key].as_u64().expect("a number");
        assert!(value.abs_diff(expected) <= expected / 1000, "{key} {value}");
    };
    for (key, expected) in
        [("tb", 1_000_000), ("tbk", 1000), ("tl", 5_000_000), ("mb", 1_000_000), ("mbk", 1000)]
    {
        within(key, expected);
    }
    let command = document["cmd"].as_str().expect("a command");
    assert!(command.ends_with("(estimated from a sample of one in 1000 bytes)"), "{command}");
}
