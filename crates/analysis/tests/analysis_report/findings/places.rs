//! Which blocks are of one place, and what is said of it.

use super::only;
use memledger_analysis::{
    Analyzer, BlockObserver, Finding, FindingsObserver, Place, Report, Trend,
};
use memledger_test_support::feed::Names;
use memledger_test_support::feed::{Feed, V::N};

/// `work` has two lines that allocate, and is called by `one` and by `two`; `other` has one.
pub(super) const PROGRAM: &[(u64, &[(&str, u32)])] = &[
    (0x0f, &[("demo::work", 10)]),
    (0x1f, &[("demo::other", 20)]),
    (0x2f, &[("demo::one", 30)]),
    (0x3f, &[("demo::two", 40)]),
    (0x4f, &[("demo::main", 50)]),
    (0x5f, &[("demo::work", 60)]),
];

/// Stacks 1 and 2 are of the first line of `work`, 4 is of the second one, and 3 is of `other`.
pub(super) fn with_stacks<O: BlockObserver>(analyzer: Analyzer<O>) -> Feed<O> {
    let mut feed = in_scopes(analyzer);
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1030, 0x1050]);
    feed.stack(2, &[0x1010, 0x1040, 0x1050]);
    feed.stack(3, &[0x1020, 0x1050]);
    feed.stack(4, &[0x1060, 0x1050]);
    feed
}

/// Scopes `a` with `x` in it, and `b`; names `plants` and `trees`, of one group, in `a`.
pub(super) fn in_scopes<O: BlockObserver>(analyzer: Analyzer<O>) -> Feed<O> {
    let mut feed = Feed::ours(analyzer);
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.spec(0, 101, 100, -1, "a");
    feed.spec(0, 102, 101, -1, "x");
    feed.spec(0, 103, 100, -1, "b");
    feed.spec(1, 200, -1, -1, "World");
    feed.spec(2, 201, 200, -1, "plants");
    feed.spec(2, 202, 200, -1, "trees");
    feed.spec(3, 301, 101, 201, "");
    feed.spec(3, 302, 101, 202, "");
    feed.thread(2, 1, "one");
    feed.thread(3, 2, "two");
    feed
}

pub(super) fn observing() -> Analyzer<FindingsObserver> {
    Analyzer::observing(FindingsObserver::default()).by_bucket()
}

/// Makes this many short-lived blocks of 100 bytes with this stack.
pub(super) fn churn<O: BlockObserver>(feed: &mut Feed<O>, stream: u16, count: u64, stack: u32) {
    for _ in 0..count {
        feed.alloc_at(stream, 0x8000, 100, stack);
        feed.free(stream, 0x8000);
    }
}

/// The same with these scopes and tags open.
fn churn_in(feed: &mut Feed<FindingsObserver>, stream: u16, open: &[i32], count: u64, stack: u32) {
    open.iter().for_each(|&tag| feed.enter(stream, tag));
    churn(feed, stream, count, stack);
    open.iter().for_each(|_| feed.leave(stream));
}

pub(super) fn found(
    feed: &mut Feed<FindingsObserver>,
    scope: Option<&str>,
) -> (Report, Vec<Finding>) {
    let mut report = feed.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    feed.analyzer.find(&mut report, scope);
    let found = report.findings.clone().expect("they were looked for");
    (report, found)
}

/// The functions that call a place, each with its lines.
fn callers(place: &Place) -> Vec<(&str, &[u32])> {
    place.callers.iter().map(|caller| (&*caller.function, &*caller.source.lines)).collect()
}

#[test]
fn a_place_is_a_function_with_what_all_its_blocks_have_in_common() {
    let mut feed = with_stacks(observing());
    churn_in(&mut feed, 3, &[101], 15_000, 1);
    churn_in(&mut feed, 2, &[101, 102], 10_000, 1);
    churn_in(&mut feed, 2, &[103], 30_000, 3);
    let (_, found) = found(&mut feed, None);
    let [first, second] = &found[..] else { panic!("{found:#?}") };
    let place = |of: &Finding| (of.place.function.clone(), of.place.source.lines.clone());
    assert_eq!(place(first), (Some("demo::other".to_owned()), vec![20]));
    assert_eq!(place(second), (Some("demo::work".to_owned()), vec![10]));
    assert_eq!([first, second].map(|of| of.figure("calls")), [Some(30_000), Some(25_000)]);
    assert_eq!(callers(&first.place), [("demo::main", &[50][..])]);
    assert_eq!(callers(&second.place), [("demo::one", &[30][..])]);
    let scope = |of: &Finding| (of.place.scope.join(" > "), of.place.has_inner_scopes);
    assert_eq!(scope(second), ("GlobalScope > a".to_owned(), true));
    assert_eq!(scope(first), ("GlobalScope > b".to_owned(), false));
    assert_eq!((&second.place.thread, &first.place.thread), (&None, &Some((1, "one".to_owned()))));
}

#[test]
fn callers_have_nearly_all_of_the_set() {
    let mut feed = with_stacks(observing());
    churn(&mut feed, 2, 19_000, 1);
    churn(&mut feed, 2, 1_000, 2);
    let (_, found) = found(&mut feed, None);
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(callers(&one.place), [("demo::one", &[30][..])]);
}

#[test]
fn what_is_said_of_a_set_is_of_its_blocks_only() {
    // A helper with two callers, of which one frees its blocks and the other keeps them.
    let mut feed = with_stacks(observing());
    churn(&mut feed, 2, 30_000, 1);
    for block in 0..2_000_u64 {
        feed.alloc_at(2, (1 << 30) + (block << 16), 4_000, 2);
        feed.marker(block * 10_000);
    }
    let (report, found) = found(&mut feed, None);
    let [again] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((again.kind.key(), again.figure("calls")), ("again_and_again", Some(30_000)));
    assert_eq!(callers(&again.place), [("demo::one", &[30][..])]);
    let peak = report.peak_by.expect("a fact");
    assert_eq!((peak.blocks, peak.bytes), (2_000, 8_000_000));
    assert_eq!(callers(&peak.place), [("demo::two", &[40][..])]);
    let course = peak.course.expect("each block was looked at");
    assert_eq!((course.size, course.freed), (Some(4_000), 0));
    assert!(
        matches!(course.trend, Trend::Rising { bytes_per_s: 390_000_000..=410_000_000, .. }),
        "{course:?}"
    );
}

#[test]
fn what_was_freed_until_a_moment_is_no_longer_freed() {
    let found = |freed_until: u64, others: u32| {
        let mut feed = with_stacks(observing());
        for block in 0..4_000_u64 {
            let address = |block: u64| (1 << 30) + (block << 16);
            feed.alloc_at(2, address(block), 8_000, if block < 2_000 { 1 } else { others });
            if (100..freed_until).contains(&block) {
                feed.free(2, address(block - 100));
            }
            feed.marker(block * 1_000_000);
        }
        found(&mut feed, None).1
    };
    let found_at = |freed_until| only(found(freed_until, 1), "no_longer_freed");
    let one = found_at(2_000);
    assert_eq!((one.figure("freed"), one.figure("at_ns")), (Some(1_900), Some(1_998_000_000)));
    assert_eq!((one.figure("blocks"), one.figure("bytes")), (Some(2_000), Some(2_000 * 8_000)));
    // The last tenth of the run is not ten times as long as blocks lived.
    assert_eq!(found(3_600, 1), []);
    // To the end; and those that came later are others.
    assert_eq!(found(4_000, 1), []);
    assert_eq!(found(2_000, 2), []);
}

#[test]
fn what_was_freed_at_once_is_no_longer_freed_if_that_is_longer_than_times_tell() {
    let found = |since: u64| {
        let mut feed = with_stacks(observing());
        for block in 0..4_000_u64 {
            let address = (1 << 30) + (block << 16);
            feed.alloc_at(2, address, 8_000, 1);
            if block < since {
                feed.free(2, address);
            }
            feed.marker(block * 1_000_000);
        }
        found(&mut feed, None).1
    };
    let one = only(found(2_000), "no_longer_freed");
    assert_eq!((one.figure("freed_within_ns"), one.figure("blocks")), (Some(0), Some(2_000)));
    // Less than a tenth of a second.
    assert_eq!(found(3_920), []);
}

#[test]
fn one_caller_that_leaves_blocks_behind_is_one_finding() {
    // Both lines of `work`, and `other`, below `one`.
    let mut feed = in_scopes(observing());
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1030, 0x1050]);
    feed.stack(2, &[0x1060, 0x1030, 0x1050]);
    feed.stack(3, &[0x1020, 0x1030, 0x1050]);
    for round in 0..3_000_u64 {
        for stack in 1..=3 {
            let address = (1 << 30) + ((round * 3 + u64::from(stack)) << 16);
            feed.alloc_at(2, address, 4_000, stack);
            if round % 12 > 0 {
                feed.free(2, address);
            }
        }
        feed.marker(round * 1_000_000);
    }
    let (_, found) = found(&mut feed, None);
    let left = only(found, "left_behind");
    assert_eq!(left.place.function.as_deref(), Some("demo::one"));
    assert_eq!((left.figure("one_in"), left.figure("sites")), (Some(12), Some(3)));
    assert_eq!((left.figure("blocks"), left.figure("freed")), (Some(750), Some(8_250)));
}

#[test]
fn a_function_has_a_name_if_all_its_blocks_have_it() {
    let mut feed = with_stacks(observing());
    churn_in(&mut feed, 2, &[301], 10_000, 1);
    churn_in(&mut feed, 2, &[302], 10_000, 1);
    churn_in(&mut feed, 2, &[302], 30_000, 3);
    let (_, found) = found(&mut feed, None);
    let [named, both] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(
        (named.place.name.as_deref(), &*named.place.group),
        (Some("trees"), &["World".to_owned()][..])
    );
    assert_eq!((&both.place.name, &*both.place.group), (&None, &[][..]));
}

#[test]
fn without_stacks_a_place_is_a_scope() {
    let mut feed = in_scopes(observing());
    churn_in(&mut feed, 2, &[301], 20_000, 0);
    churn_in(&mut feed, 2, &[302], 10_000, 0);
    let (_, all) = found(&mut feed, None);
    let [one] = &all[..] else { panic!("{all:#?}") };
    assert_eq!(
        (one.place.scope.last().map(|name| &**name), one.figure("calls")),
        (Some("a"), Some(30_000))
    );
    assert!(one.place.callers.is_empty() && one.place.name.is_none());
}

#[test]
fn a_text_selects_by_the_scope_of_the_allocation() {
    let mut feed = in_scopes(observing());
    feed.channel("Scope", true);
    feed.channel("FreeScope", true);
    churn_in(&mut feed, 2, &[101, 102], 10_000, 0);
    churn_in(&mut feed, 2, &[103], 20_000, 0);
    for (scope, calls) in
        [("A > X", &[10_000][..]), ("> B", &[20_000]), ("b > a", &[]), ("", &[20_000, 10_000])]
    {
        let (report, found) = found(&mut feed, Some(scope));
        let of = |found: &Finding| found.figure("calls").expect("calls");
        // The peak is that of all scopes, of which not each block was looked at.
        assert!(report.peak_by.as_ref().is_some_and(|set| set.course.is_none()), "{scope}");
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), calls, "{scope}");
        let freed_in = feed.analyzer.freed_in(&report, Some(scope));
        assert_eq!(freed_in.iter().map(|row| row.blocks).collect::<Vec<_>>(), calls, "{scope}");
    }
}

/// Blocks of a sample only: all else counts neither for a finding nor as the whole.
#[test]
fn in_a_sample_the_whole_is_the_sample() {
    let mut feed = with_stacks(observing());
    feed.emit("Memledger.StackSampling", 1, &[N(64 << 10)]);
    feed.enter(2, 103);
    for block in 1..=500_u64 {
        // One of five is left behind.
        feed.alloc_at(2, block << 16, 4_000, 3);
        if block % 5 > 0 {
            feed.free(3, block << 16);
        }
        feed.marker(block * 1_000_000);
    }
    churn(&mut feed, 2, 700_000, 1);
    churn(&mut feed, 2, 90_000, 0);
    feed.marker(600_000_000);
    feed.alloc(2, 1 << 40, 1 << 20);
    feed.leave(2);
    let (_, found) = found(&mut feed, None);
    let [again, left] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(
        (left.kind.key(), left.figure("blocks"), left.figure("freed")),
        ("left_behind", Some(100), Some(400))
    );
    // What is left is all that the sample has at the peak; the others are 700,000 of its 700,500.
    assert_eq!((left.weight, again.weight), (1_000_000, 999_286));
    assert_eq!((again.kind.key(), again.figure("calls")), ("again_and_again", Some(700_000)));
    assert!(found.iter().all(|finding| finding.is_of_sample));
}

#[test]
fn siblings_of_what_is_left_behind_have_its_call_stack() {
    // A line with two callers, of which one keeps a block now and then.
    let found = |keeps: [u32; 2]| {
        let mut feed = with_stacks(observing());
        for round in 0..2_000_u64 {
            let stack = keeps[usize::from(round % 20 == 0)];
            let address = (1 << 30) + round * 8_192;
            feed.alloc_at(2, address, 8_000, stack);
            if round % 20 > 0 {
                feed.free(2, address);
            }
            feed.emit("Memory.Marker", 2, &[N(round << 20)]);
        }
        let found = found(&mut feed, None).1;
        found.iter().any(|finding| finding.kind.key() == "left_behind")
    };
    assert!(found([1, 1]));
    assert!(!found([1, 2]));
}
