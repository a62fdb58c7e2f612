//! The report as a page: its document has the figures of the report.

use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Frames, Module, Report, SourceFrame, Symbolizer};
use memledger_export::text;
use memledger_export::tools::FORMATS;
use memledger_test_support::feed::{Feed, V::N};
use memledger_test_support::feed::{Names, PROGRAM, program};
use memledger_test_support::page::Page;

fn html(report: &Report) -> Vec<u8> {
    let mut out = Vec::new();
    let format = FORMATS.by_name("html").expect("it");
    format.write(report, &text::Options::default(), &mut out).expect("memory takes everything");
    out
}

/// The stacks of a report as lines: outermost function first.
fn folded(report: &Report, frames: Frames) -> Vec<(Option<String>, u64)> {
    let mut options = text::Options::default();
    (options.sort, options.frames) = (text::Sort::Allocated, frames);
    let mut out = Vec::new();
    let format = FORMATS.by_name("folded").expect("it");
    format.write(report, &options, &mut out).expect("memory takes everything");
    let lines = String::from_utf8(out).expect("UTF-8");
    let mut stacks: Vec<_> = lines
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a number"))
        .filter(|(stack, _)| !stack.starts_with("(no stack)"))
        // Without its scope, which the page has elsewhere.
        .map(|(stack, number)| (stack.trim_end_matches(";GlobalScope"), number))
        .map(|(stack, number)| (Some(stack.to_owned()), number.parse().expect("a number")))
        .collect();
    stacks.sort();
    stacks
}

#[test]
fn stacks_are_those_of_the_report_with_and_without_folded_calls() {
    let mut feed = program(Analyzer::new().by_bucket());
    feed.stack(7, &[0x1010]); // all of its calls are folded
    feed.alloc_at(2, 0x700, 70, 7);
    feed.stack(8, &[0x1040, 0x1010]);
    feed.emit("Memledger.CallstackEnd", 1, &[N(8), N(1)]);
    feed.alloc_at(2, 0x800, 80, 8);
    feed.alloc_at(2, 0x900, 90, 99); // no event says what stack that is
    let mut report = feed.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    let page = Page::of_report(&report);
    for frames in [Frames::Folded, Frames::All] {
        let mut stacks = page.stacks("allocated_bytes", frames == Frames::All);
        assert_eq!(stacks.remove(&None), Some(4), "without a stack");
        let mut expected = folded(&report, frames);
        // In a page, the generics of a function have one name.
        let names = expected.iter_mut().filter_map(|(stack, _)| stack.as_mut());
        names.for_each(|stack| *stack = stack.replace("Vec<T,A>", "Vec<…>"));
        assert_eq!(stacks.into_iter().collect::<Vec<_>>(), expected);
    }
    // The inlined function is a frame of its own, with its line.
    let document = &page.0;
    let strings = document["strings"].as_array().expect("strings");
    let at = strings.iter().position(|text| text == "demo::inlined").expect("it") as u64;
    let names = page.numbers(&document["frames"]["name"]);
    let frame = names.iter().position(|&name| name == at).expect("a frame");
    let of = |part: &str| page.numbers(&document["frames"][part])[frame] as usize;
    assert_eq!((of("line"), of("folded")), (7, 0));
    assert_eq!(
        (&strings[of("file")], &strings[of("crate")]),
        (&"src/demo.rs".into(), &"demo".into())
    );
    // The stack of a block is a node of the page.
    let largest = &document["largest_live"][0];
    let node = largest["stack"].as_u64().expect("a node") as usize;
    assert_eq!(largest["bytes"], 1000);
    let frame = page.numbers(&document["stacks"]["frame"])[node] as usize;
    assert_eq!(strings[names[frame] as usize], "alloc::raw_vec::finish_grow");
}

#[test]
fn the_pages_of_the_samples_have_the_figures_of_their_reports() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/samples");
    let mut pages = 0;
    for entry in std::fs::read_dir(folder).expect("the samples") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|ending| ending != "utrace") {
            continue;
        }
        let trace = std::fs::read(&path).expect("the sample");
        // Whole, and cut anywhere.
        let cuts = (0..6_usize).map(|cut| trace.len() * (7 - cut) / 7 + cut);
        for length in [trace.len()].into_iter().chain(cuts) {
            let mut analyzer = Analyzer::new().by_bucket();
            if read(trace.get(..length).unwrap_or(&trace), &mut analyzer).is_ok() {
                let page = Page::of_report(&analyzer.report());
                let is_whole = page.0["trace"]["complete"] == true;
                assert_eq!(page.notes("not whole"), !is_whole, "{}", path.display());
                pages += 1;
            }
        }
    }
    assert!(pages > 10, "{pages} pages");
}

#[test]
fn names_are_data() {
    let names = [
        "</script><script>alert(1)</script>",
        "<!-- memledger-data -->",
        "\"'&\\",
        "\u{202e}\u{0}\u{7}",
    ];
    let mut feed = Feed::ours(Analyzer::new().by_bucket());
    for (at, name) in (0..).zip(names) {
        feed.spec(0, 100 + at, -1, -1, name);
        feed.thread(2 + at as u16, 1 + at as u32, name);
        feed.enter(2 + at as u16, 100 + at);
        feed.alloc(2 + at as u16, 0x100 * (1 + at as u64), 10);
    }
    let mut report = feed.report();
    report.trace.program = Some(names[0].to_owned());
    let html = html(&report);
    let page = Page::of_report(&report);
    let rows = page.0["by_thread"].as_array().expect("threads");
    for name in names {
        assert!(rows.iter().any(|row| row["name"] == name), "{name:?}");
    }
    let html = String::from_utf8(html).expect("UTF-8");
    assert!(!html.contains("alert(1)</script>") && !html.contains("<!-- memledger-data -->"));
    assert!(html.contains(
        "<title>memledger: &lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>"
    ));
}

#[test]
fn the_page_says_what_its_figures_lack() {
    let notes = |feed: &mut Feed| Page::of_report(&feed.report());
    let new = || Analyzer::new().by_bucket();

    let empty = notes(&mut Feed::ours(new()));
    assert!(empty.notes("nothing was allocated"), "{}", empty.0["notes"]);
    let live = empty.numbers(&empty.0["timeline"]["live_bytes"]);
    assert!(!live.is_empty() && live.iter().all(|&live| live == 0), "{live:?}");

    let mut feed = Feed::ours(new());
    feed.alloc(2, 0x10, 8);
    assert!(notes(&mut feed).notes("without call stacks"));
    feed.our_report(5);
    assert!(!notes(&mut feed).notes("not whole"));
    feed.emit("Memledger.Lost", 1, &[N(1), N(3)]);
    assert!(notes(&mut feed).notes("3 events are missing"));

    let mut feed = Feed::ours(new());
    feed.free(2, 0x10);
    feed.our_report(5);
    assert!(notes(&mut feed).notes("not whole: 1 free of a block never allocated"));

    let mut feed = Feed::with(new(), false);
    feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(0)]);
    feed.alloc(2, 0x10, 8);
    assert!(notes(&mut feed).notes("earlier blocks are missing"));

    let mut feed = Feed::ours(new());
    feed.marker(2_000);
    feed.emit("Memledger.Alive", 1, &[N(1)]);
    feed.alloc(2, 0x10, 8);
    let late = notes(&mut feed);
    assert!(late.notes("with 1 block live then"), "{}", late.0["notes"]);

    let mut feed = Feed::ours(new());
    feed.channel("Memory", false);
    assert!(notes(&mut feed).notes("the channel memory is off"));

    let mut feed = Feed::ours(new());
    feed.emit("Memledger.StackSampling", 1, &[N(4096)]);
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(2, &[0x1040]);
    feed.alloc_at(2, 0x100, 1000, 2);
    feed.alloc(2, 0x200, 1000);
    let sampled = notes(&mut feed);
    assert!(sampled.notes("sampled: the figures are estimates"));
    let stacks = sampled.stacks("live_bytes", false);
    assert_eq!(stacks.get(&None), Some(&0), "the sample represents them");
    let estimate = stacks.values().sum::<u64>();
    assert!((4_000..5_000).contains(&estimate), "{estimate}: one sample in 4096 bytes");
}

/// Functions with the names that real programs have, by offset.
struct Many;

impl Symbolizer for Many {
    fn frames(&mut self, _: &Module, offset: u64) -> Vec<SourceFrame> {
        let krate = ["server", "serde_json::de", "tokio::runtime::task", "hyper::proto::h1"];
        let krate = krate[offset as usize % 4];
        let function =
            format!("{krate}::part_{}::function_{offset}<alloc::vec::Vec<u8>>", offset / 64);
        let file = Some(format!("src/{}/part_{}.rs", krate.replace("::", "/"), offset / 64));
        vec![SourceFrame::new(function, file, Some(1 + (offset * 7 % 900) as u32))]
    }
}

#[test]
fn the_page_of_20_000_stacks_is_small() {
    let mut feed = Feed::ours(Analyzer::new().by_bucket());
    feed.module("/bin/program", 0x1000, 0x100_0000);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    // Each stack leaves the one before at some depth, as calls of a program do.
    let mut stack: Vec<u64> = Vec::new();
    for id in 1..=20_000_u32 {
        stack.truncate((next(24) as usize + 4).min(stack.len().saturating_sub(1)));
        let depth = (12 + next(12) as usize).max(stack.len() + 1);
        stack.resize_with(depth, || 0x1001 + next(4_000));
        let innermost_first: Vec<_> = stack.iter().rev().copied().collect();
        feed.stack(id, &innermost_first);
        for block in 0..4 {
            let address = 0x1_0000 * u64::from(id) + 0x1000 * block;
            let size = 1 << next(14);
            feed.alloc_at(2, address, size + next(size), id);
            if next(3) > 0 {
                feed.free(2, address);
            }
        }
        feed.marker(u64::from(id) * 1_000_000);
    }
    let mut report = feed.report();
    report.symbolize(&mut Many);
    assert!(report.by_stack.len() > 19_000);
    let html = html(&report);
    assert!(html.len() < 3 << 20, "{} bytes", html.len());
    let page = Page::of_report(&report);
    assert!(page.0["timeline"]["at_ns"].as_str().expect("a column").len() > 1_000);
}
