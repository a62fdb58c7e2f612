//! Times, bookmarks, and the figures of scopes that are not about their blocks.

use crate::figures::{scope, with_scopes};
use memledger_analysis::{Analyzer, Position, Report};
use memledger_test_support::feed::{
    Feed,
    V::{N, S},
};

#[test]
fn blocks_and_the_peak_are_before_or_after_a_bookmark_by_the_order_of_events() {
    let mut feed = Feed::new();
    feed.marker(10);
    feed.alloc(2, 0x10, 10);
    feed.bookmark(14, 1, "cold");
    feed.alloc(2, 0x20, 20);
    feed.alloc(2, 0x30, 30); // the peak
    feed.free(2, 0x30);
    let (after, before) = (Some("cold".to_owned()), Some("warm".to_owned()));
    let peak = feed.report().peak;
    assert_eq!((peak.from_ns, peak.to_ns), (14, None), "no time was told after it");
    assert_eq!((&peak.after_bookmark, &peak.before_bookmark), (&after, &None));
    feed.bookmark(17, 2, "warm");
    feed.alloc(2, 0x40, 1);
    feed.marker(20);
    let report = feed.report();
    let peak = &report.peak;
    assert_eq!((peak.from_ns, peak.to_ns), (14, Some(17)), "a marker alone says 10 to 20");
    assert_eq!(report.totals.peak_bytes_at_ns, 14);
    assert_eq!((&peak.after_bookmark, &peak.before_bookmark), (&after, &before));
    let mut times: Vec<_> =
        report.largest_live.iter().map(|block| (block.address, block.allocated_at_ns)).collect();
    times.sort_unstable();
    let at = |address: u64, time: u64| (format!("{address:#x}"), time);
    let times: Vec<_> = times.iter().map(|&(address, time)| at(address, time)).collect();
    assert_eq!(times, [at(0x10, 10), at(0x20, 14), at(0x40, 17)]);
    assert_eq!(report.trace.time_resolution_ns, 4);
}

#[test]
fn a_bookmark_is_never_earlier_than_what_it_follows() {
    let mut feed = Feed::new();
    feed.marker(20);
    feed.alloc(2, 0x10, 10);
    feed.bookmark(14, 1, "held up"); // its thread had no processor meanwhile
    feed.alloc(2, 0x20, 10);
    let report = feed.report();
    assert_eq!(report.bookmarks[0].at_ns, 20);
    assert!(report.largest_live.iter().all(|block| block.allocated_at_ns == 20));
    assert_eq!(Feed::new().report().peak, Default::default(), "no peak without blocks");
}

#[test]
fn a_report_as_of_a_time_ends_before_a_bookmark_that_is_later() {
    let mut feed = Feed::with(Analyzer::new().until(Position::Time(12)), false);
    feed.marker(10);
    feed.alloc(2, 0x10, 10);
    feed.bookmark(14, 1, "later");
    feed.alloc(2, 0x20, 20);
    feed.marker(20);
    let report = feed.report();
    assert_eq!((report.totals.live_bytes, report.bookmarks.len()), (10, 0));
    let peak = feed.report().peak;
    assert_eq!((peak.from_ns, peak.to_ns), (10, Some(12)), "before the time that was asked for");
}

#[test]
fn the_times_when_scopes_were_off_are_told() {
    const SCOPE: u64 = 7;
    let times = |report: &Report| {
        let times = report.trace.scopes_off.iter().map(|span| (span.from_ns, span.to_ns));
        times.collect::<Vec<_>>()
    };
    let announce = |feed: &mut Feed, id: u64, on: u64, name: &str| {
        feed.emit("Trace.ChannelAnnounce", 1, &[N(id), N(on), N(1), S(name)]);
    };
    let toggle = |feed: &mut Feed, id: u64, on: u64| {
        feed.emit("Trace.ChannelToggle", 1, &[N(id), N(on)]);
    };
    let mut feed = Feed::new();
    announce(&mut feed, SCOPE, 1, "Scope");
    announce(&mut feed, 8, 0, "Other");
    feed.marker(10);
    toggle(&mut feed, SCOPE, 0);
    toggle(&mut feed, SCOPE, 0);
    assert_eq!(times(&feed.report()), [], "for no time yet");
    feed.marker(20);
    toggle(&mut feed, 8, 1);
    assert_eq!(times(&feed.report()), [(10, 20)], "up to now");
    toggle(&mut feed, SCOPE, 1);
    feed.marker(30);
    toggle(&mut feed, SCOPE, 0);
    feed.marker(40);
    feed.our_report(45);
    toggle(&mut feed, SCOPE, 1);
    assert_eq!(times(&feed.report()), [(10, 20), (30, 45)]);
    // A stream that never recorded scopes.
    let mut feed = Feed::new();
    announce(&mut feed, SCOPE, 0, "Scope");
    feed.our_report(45);
    assert_eq!(times(&feed.report()), [(0, 45)]);
    // A late stream starts with the state of the channel before it.
    let mut feed = Feed::new();
    announce(&mut feed, SCOPE, 1, "Scope");
    toggle(&mut feed, SCOPE, 0);
    feed.marker(30);
    feed.emit("Memledger.Alive", 4, &[N(0)]);
    feed.our_report(45);
    assert_eq!(times(&feed.report()), [(30, 45)]);
    // More spans than the list keeps.
    let mut feed = Feed::new();
    announce(&mut feed, SCOPE, 1, "Scope");
    for time in 1..5000 {
        feed.marker(time * 10);
        toggle(&mut feed, SCOPE, time % 2);
    }
    feed.our_report(60_000);
    assert_eq!(times(&feed.report()).len(), 1000);
    assert_eq!(times(&feed.report()).last().map(|last| last.1), Some(49_990));
    let mut unreal = Feed::unreal();
    announce(&mut unreal, SCOPE, 0, "Scope");
    unreal.marker(10);
    assert_eq!(times(&unreal.report()), []);
}

#[test]
fn entries_are_those_of_all_ids_of_a_scope_since_the_stream_began() {
    let mut feed = with_scopes();
    feed.spec(0, 104, 100, -1, "a"); // the same text under another id
    feed.spec(0, 105, 104, -1, "b");
    feed.spec(0, 106, 106, -1, "circle");
    feed.enter(2, 102);
    feed.alloc(2, 0x10, 8);
    feed.leave(2);
    feed.entries(101, 2, true);
    let entries = |feed: &mut Feed, path: &[&str]| scope(&feed.report(), path).entries;
    assert_eq!(entries(&mut feed, &["GlobalScope", "a"]), Some(0), "nothing since it began");
    assert_eq!(entries(&mut feed, &["GlobalScope", "a", "b"]), None, "not told yet");
    feed.entries(101, 5, false);
    feed.entries(104, 10, false);
    feed.entries(105, 20, false);
    feed.entries(106, 1, false);
    feed.entries(4242, 1, false);
    assert_eq!(entries(&mut feed, &["GlobalScope", "a"]), Some(3 + 10));
    assert_eq!(entries(&mut feed, &["GlobalScope", "a", "b"]), Some(20));
    assert_eq!(entries(&mut feed, &["GlobalScope"]), None);
    feed.entries(101, 6, false); // a total, not a difference
    assert_eq!(entries(&mut feed, &["GlobalScope", "a"]), Some(4 + 10));
    let mut feed = with_scopes();
    feed.enter(2, 102);
    feed.alloc(2, 0x10, 8);
    feed.our_report(9);
    assert_eq!(entries(&mut feed, &["GlobalScope", "a", "b"]), Some(0), "at the end all are told");
}
