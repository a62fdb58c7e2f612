//! The text report: a golden file, and its width under all options.

use memledger_analysis::read::{Damage, Visitor};
use memledger_analysis::{Analyzer, Report};
use memledger_export::text::{self, By, Options, Sort};
use memledger_test_support::feed::{
    Feed,
    V::{N, S},
};
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// A small run with a bit of everything.
fn feed() -> Feed {
    let mut feed = Feed::new();
    feed.emit("Diagnostics.Session2", 1, &[S("viewer"), S("")]);
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.spec(0, 101, 100, -1, "load level");
    feed.spec(0, 102, 101, -1, "decode the textures of everything that is in sight of the player");
    feed.spec(0, 103, 100, -1, "frame");
    feed.spec(0, 104, 103, -1, "日本語のとても長い名前がここにあります、列を正しく数えるために");
    feed.spec(1, 200, -1, -1, "Rendering");
    feed.spec(1, 201, 200, -1, "Textures");
    feed.spec(2, 202, 201, -1, "Mesh::texture_coordinates");
    feed.spec(3, 300, 102, 202, "");
    for (tag, entries) in [(101, 1), (102, 40), (103, 1_500), (104, 1_500)] {
        feed.entries(tag, entries, false);
    }
    feed.thread(2, 1, "main");
    feed.thread(3, 2, "wor\u{1b}[31mker with a long name");
    feed.marker(1_000_000);
    feed.alloc(2, 0x1000, 900);
    feed.enter(2, 101);
    feed.alloc(2, 0x2000, 70_000);
    feed.marker(3_500_000);
    feed.enter(3, 300);
    for texture in 0..40 {
        feed.alloc(3, 0x10_0000 + texture * 0x1000, 65_536 + texture);
    }
    feed.leave(3);
    feed.bookmark(6_000_000, 1, "warm");
    feed.marker(7_000_000);
    for texture in 2..40 {
        feed.free(2, 0x10_0000 + texture * 0x1000);
    }
    feed.enter(3, 104);
    for at in 0..1_500 {
        feed.alloc(3, 0x90_0000 + at % 7 * 64, 48);
        feed.free(3, 0x90_0000 + at % 7 * 64);
    }
    feed.alloc(3, 0x90_0000, 48);
    feed.realloc(3, 0x90_0000, 0xa0_0000, 96);
    feed.marker(9_000_000);
    feed
}

fn text(report: &Report, options: &Options) -> String {
    let mut text = Vec::new();
    text::write(report, options, &mut text).expect("memory takes everything");
    String::from_utf8(text).expect("UTF-8")
}

/// A program that has no scopes and no tags, on two threads.
fn plain(from_process_start: bool) -> Feed {
    let mut feed = Feed::with(Analyzer::new(), false);
    feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(from_process_start.into())]);
    feed.thread(2, 1, "main");
    feed.thread(3, 2, "");
    feed.alloc(2, 0x1000, 900);
    feed.alloc(3, 0x2000, 5_000);
    feed.marker(1_000_000);
    feed.free(2, 0x1000);
    feed.free(2, 0x2000);
    feed
}

/// 300 scopes in one scope, and 40 nested scopes.
fn many_scopes() -> Feed {
    let mut feed = Feed::new();
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.thread(2, 1, "main");
    for scope in 0..300_u64 {
        let tag = 1_000 + scope as i32;
        feed.spec(0, tag, 100, -1, &format!("handler {scope}"));
        feed.enter(2, tag);
        feed.alloc(2, 0x1000 + scope * 0x1000, 100 + scope * 37 % 900);
        feed.leave(2);
    }
    for level in 0..40 {
        feed.spec(0, 2_000 + level, 1_999 + level, -1, &format!("level {level}"));
    }
    feed.spec(0, 2_000, 100, -1, "level 0");
    feed.enter(2, 2_039);
    feed.alloc(2, 0x900_0000, 5_000);
    feed.leave(2);
    feed
}

/// The report with these options, and what it says of a late, a cut and an ended trace.
fn cases() -> Vec<(&'static str, String)> {
    let ended = |mut feed: Feed| {
        feed.our_report(12_345_678);
        feed.report()
    };
    let with = |report: &Report, change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        text(report, &options)
    };
    let report = ended(feed());
    let mut late = Feed::new();
    late.alloc(2, 0x10, 4_000);
    late.marker(4_000_000_000);
    late.emit("Memledger.Alive", 2, &[N(1)]);
    let mut unwatched = plain(false);
    unwatched.free(2, 0x77);
    let mut no_memory = Feed::new();
    no_memory.channel("Memory", false);
    let mut lossy = feed();
    lossy.lose(1, 7);
    let mut damage = Damage::default();
    (damage.skipped, damage.what) = (100, "strange".into());
    lossy.analyzer.damage(&damage);
    vec![
        ("as wide as a file", with(&report, |_| {})),
        ("60 columns", with(&report, |options| options.width = 60)),
        (
            "120 columns and everything",
            with(&report, |options| {
                (options.width, options.verbose) = (120, true);
            }),
        ),
        (
            "by scope, each for itself",
            with(&report, |options| {
                (options.by, options.inclusive) = (Some(By::Scope), false);
            }),
        ),
        ("neither scopes nor tags", with(&ended(plain(true)), |_| {})),
        ("many scopes", with(&ended(many_scopes()), |_| {})),
        ("began late", with(&ended(late), |_| {})),
        ("began late and does not know with what", with(&ended(unwatched), |_| {})),
        ("without memory", with(&ended(no_memory), |_| {})),
        ("killed", with(&plain(true).report(), |_| {})),
        ("damaged", with(&lossy.report(), |_| {})),
        ("nothing at all", with(&ended(Feed::new()), |_| {})),
    ]
}

/// `MEMLEDGER_BLESS=1 cargo test --test analysis_report` writes the file anew.
#[test]
fn the_report_reads_as_in_the_golden_file() {
    let cases = cases().into_iter().map(|(name, text)| format!("==== {name}\n{text}"));
    let text = cases.collect::<Vec<_>>().join("\n");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/golden.txt");
    if std::env::var_os("MEMLEDGER_BLESS").is_some() {
        std::fs::write(&golden, &text).expect("the golden file can be written");
    }
    assert_eq!(text, std::fs::read_to_string(golden).expect("the golden file"));
}

#[test]
fn no_line_is_wider_than_asked_and_no_name_is_cut() {
    let mut feed = feed();
    feed.free(2, 0x77);
    feed.lose(1, u64::MAX / 3);
    let report = feed.report();
    let letters = |text: &str| text.replace([' ', '\n'], "");
    let name = letters("decode the textures of everything that is in sight of the player");
    for by in
        [None, Some(By::Scope), Some(By::Group), Some(By::Name), Some(By::Thread), Some(By::Size)]
    {
        for sort in [Sort::AtPeak, Sort::Live, Sort::Peak, Sort::Allocated, Sort::Count] {
            for (inclusive, top) in [(false, 2), (true, 100)] {
                for width in [40, 60, 80, 100, 160, 500] {
                    let mut options = Options::default();
                    (options.by, options.sort, options.width) = (by, sort, width);
                    (options.inclusive, options.top, options.verbose) = (inclusive, top, true);
                    options.moment = Some("the end of the whole long run".to_owned());
                    let text = text(&report, &options);
                    for line in text.lines() {
                        assert!(line.width() <= width, "{} columns: {line}", line.width());
                        assert!(!line.chars().any(char::is_control), "{line:?}");
                    }
                    if matches!(by, None | Some(By::Scope)) && top == 100 {
                        assert!(letters(&text).contains(&name), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn losses_are_loud_and_their_absence_is_quiet() {
    let mut feed = feed();
    let cut = text(&feed.report(), &Options::default());
    assert!(cut.contains("INCOMPLETE\n  LOSSES       the trace has no end: "), "{cut}");
    feed.lose(1, 7);
    let mut options = Options::default();
    options.color = true;
    let lost = text(&feed.report(), &options);
    assert!(lost.contains("\u{1b}[1;31m  LOSSES"), "{lost}");
    assert!(lost.contains("INCOMPLETE, 7 EVENTS LOST"), "{lost}");
    assert!(lost.contains("7 events are missing in 1 hole"), "{lost}");
    assert!(!lost.contains("nothing lost"));
}

/// Only a program in Rust can have scopes.
#[test]
fn a_program_that_is_not_rust_is_told_of_stacks_and_not_of_scopes() {
    let mut feed = Feed::new();
    feed.heap_of = |address| address >> 16;
    feed.thread(2, 1, "main");
    feed.alloc(2, 0x1000, 900);
    feed.alloc(2, 0x1_1000, 5_000);
    let mut report = feed.report();
    for (heaps, says) in [
        (["C", "Mapped"], "all of it: `memledger run --stacks` names functions"),
        (["Rust", "C"], "all of it: MEMLEDGER_STACKS=on names functions, and"),
    ] {
        report.by_heap.iter_mut().zip(heaps).for_each(|(row, name)| row.name = name.to_owned());
        let text = text(&report, &Options::default());
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn figures_that_contradict_one_another_are_never_complete() {
    let mut feed = Feed::ours(Analyzer::new());
    feed.alloc(2, 0x10, 100);
    feed.our_report(5);
    assert!(text(&feed.report(), &Options::default()).contains("complete, nothing lost"));
    let mut feed = Feed::ours(Analyzer::new());
    feed.alloc(2, 0x10, 100);
    feed.free(2, 0x90);
    feed.free(2, 0xa0);
    feed.alloc(2, 0x10, 30);
    let cut = text(&feed.report(), &Options::default());
    assert!(cut.contains("the trace has no end") && cut.contains("  ODD  "), "{cut}");
    feed.our_report(5);
    let report = feed.report();
    assert!(report.trace.ended && !report.trace.complete);
    assert_eq!(report.losses.contradictions(), 3);
    let mut options = Options::default();
    options.width = 400;
    let odd = text(&report, &options);
    let expected = ", INCOMPLETE\n  ODD          2 frees of blocks never allocated and 1 allocation where a block \
                    was still live: the figures are wrong";
    assert!(odd.contains(expected), "{odd}");
    assert!(!odd.contains("no end") && !odd.contains("LOSSES"), "{odd}");
}

#[test]
fn the_options_choose_rows_and_their_order() {
    let report = feed().report();
    let mut options = Options::default();
    options.by = Some(By::Scope);
    options.filter = Some("FRAME".to_owned());
    let filtered = text(&report, &options);
    let rows = filtered.split_once("\n\n").expect("a table").1;
    assert!(rows.contains("frame") && !rows.contains("load level"), "{filtered}");
    options.filter = Some("no such thing".to_owned());
    let none = text(&report, &options);
    assert!(none.ends_with("\nno row has no such thing in its name\n"), "{none}");
    options.filter = None;
    (options.inclusive, options.top, options.sort) = (false, 1, Sort::Live);
    let one = text(&report, &options);
    let rows = one.split_once("\n\n").expect("a table").1;
    assert!(rows.contains("decode the") && !rows.contains("frame"), "{one}");
    assert!(one.contains("… and 1 more, with <1 % of what is live\n"), "{one}");
    options.flags = true;
    let flag = text(&report, &options);
    assert!(flag.contains("… and 1 more, with <1 % of what is live (--top 2)\n"), "{flag}");
    let mut largest = Options::default();
    assert!(!text(&report, &largest).contains("Largest live blocks"));
    largest.largest_live = Some(1);
    let blocks = text(&report, &largest);
    assert_eq!(blocks.matches(" 0x").count(), 1, "{blocks}");
    options.by = Some(By::Thread);
    options.sort = Sort::Count;
    let threads = text(&report, &options);
    assert!(threads.contains("wor") && !threads.contains("main ("), "{threads}");
}

/// Rows with the same key are sorted by their own peak, then by allocated bytes, then by name.
#[test]
fn ties_are_decided_by_the_peak_and_then_by_what_was_allocated() {
    let mut feed = Feed::new();
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.thread(2, 1, "main");
    // Each has 8 bytes live at the end; the peaks are 8, 100, 100 and 8.
    for (tag, name, sizes) in
        [(101, "d", &[][..]), (102, "b", &[92]), (103, "a", &[92, 92]), (104, "c", &[0])]
    {
        feed.spec(0, tag, 100, -1, name);
        feed.enter(2, tag);
        feed.alloc(2, tag as u64 * 0x1000, 8);
        for &size in sizes {
            feed.alloc(2, 0x10, size);
            feed.free(2, 0x10);
        }
        feed.leave(2);
    }
    let mut options = Options::default();
    (options.by, options.sort) = (Some(By::Scope), Sort::Live);
    let text = text(&feed.report(), &options);
    let names = text.lines().filter_map(|line| line.strip_prefix("    ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c", "d"], "{text}");
}
