//! The text report: a golden file, and its width under all options.

use crate::feed::{
    Feed,
    V::{N, S},
};
use memledger::analysis::Report;
use memledger::dump::text::{self, By, Options, Sort};
use memledger::trace::read::{Hole, Visitor};
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

/// `MEMLEDGER_BLESS=1 cargo test --test analysis_report` writes the file anew.
#[test]
fn the_report_reads_as_in_the_golden_file() {
    let mut feed = feed();
    feed.our_report(12_345_678);
    let text = text(&feed.report(), &Options::default());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis_report/golden.txt");
    if std::env::var_os("MEMLEDGER_BLESS").is_some() {
        std::fs::write(&golden, &text).expect("the golden file can be written");
    }
    assert_eq!(text, std::fs::read_to_string(golden).expect("the golden file"));
}

#[test]
fn no_line_is_wider_than_80_columns() {
    let mut feed = feed();
    feed.free(2, 0x77);
    feed.analyzer.hole(Hole { first: 1, count: u64::MAX / 3 });
    let report = feed.report();
    for by in
        [None, Some(By::Scope), Some(By::Group), Some(By::Name), Some(By::Thread), Some(By::Size)]
    {
        for sort in [Sort::Live, Sort::Peak, Sort::Allocated, Sort::Count] {
            for (inclusive, top) in [(false, 2), (true, 100)] {
                let mut options = Options::default();
                (options.by, options.sort) = (by, sort);
                (options.inclusive, options.top) = (inclusive, top);
                options.moment = Some("the end of the whole long run".to_owned());
                for line in text(&report, &options).lines() {
                    assert!(line.width() <= 80, "{} columns: {line}", line.width());
                    assert!(!line.chars().any(char::is_control), "{line:?}");
                }
            }
        }
    }
}

#[test]
fn losses_are_loud_and_their_absence_is_quiet() {
    let mut feed = feed();
    let cut = text(&feed.report(), &Options::default());
    assert!(cut.contains("LOSSES") && cut.contains("the trace ends before the writer's report"));
    feed.analyzer.hole(Hole { first: 1, count: 7 });
    let mut options = Options::default();
    options.color = true;
    let lost = text(&feed.report(), &options);
    assert!(lost.contains("\u{1b}[1;31m  LOSSES"), "{lost}");
    assert!(lost.contains("7 EVENTS LOST (1 hole)"));
    assert!(!lost.contains("nothing lost"));
}

#[test]
fn a_late_start_is_explained() {
    let mut feed = feed();
    feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(0)]);
    let text = text(&feed.report(), &Options::default());
    assert!(text.contains("blocks from before tracking began are missing"), "{text}");
}

#[test]
fn the_options_choose_rows_and_their_order() {
    let report = feed().report();
    let mut options = Options::default();
    options.by = Some(By::Scope);
    options.filter = Some("FRAME".to_owned());
    let filtered = text(&report, &options);
    assert!(filtered.contains("frame") && !filtered.contains("load level"), "{filtered}");
    options.filter = None;
    options.top = 1;
    let one = text(&report, &options);
    assert!(one.contains("decode the") && !one.contains("frame"), "{one}");
    assert!(one.contains("… and 3 more (--top 4)"), "{one}");
    options.by = Some(By::Thread);
    options.sort = Sort::Count;
    let threads = text(&report, &options);
    assert!(threads.contains("wor") && !threads.contains("main ("), "{threads}");
}
