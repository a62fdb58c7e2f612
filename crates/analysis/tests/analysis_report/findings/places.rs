//! Which blocks are of one place, and what is said of it.

use memledger_analysis::{Analyzer, BlockObserver, Finding, FindingKind, FindingsObserver, Report};
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
    let found = feed.analyzer.find(&report, scope);
    (report, found)
}

#[test]
fn with_stacks_a_place_is_a_function_with_what_all_its_blocks_have_in_common() {
    let mut feed = with_stacks(observing());
    churn_in(&mut feed, 3, &[101], 1_500, 2);
    churn_in(&mut feed, 2, &[101, 102], 1_000, 1);
    churn_in(&mut feed, 2, &[103], 3_000, 3);
    let (_, found) = found(&mut feed, None);
    let [second, first] = &found[..] else { panic!("{found:#?}") };
    let lines =
        [first, second].map(|finding| (finding.place.function.as_deref(), finding.place.line));
    assert_eq!(lines, [(Some("demo::work"), Some(10)), (Some("demo::other"), Some(20))]);
    assert_eq!([first.calls, second.calls], [2_500, 3_000]);
    // The callers of the largest stack.
    assert_eq!(first.place.callers, ["demo::two", "demo::main"]);
    assert_eq!(second.place.callers, ["demo::main"]);
    assert_eq!(
        (&*first.place.scope.join(" > "), first.place.has_inner_scopes),
        ("GlobalScope > a", true)
    );
    assert_eq!(
        (&*second.place.scope.join(" > "), second.place.has_inner_scopes),
        ("GlobalScope > b", false)
    );
    assert_eq!((&first.place.thread, &second.place.thread), (&None, &Some((1, "one".to_owned()))));
}

#[test]
fn lines_of_a_function_are_one_place_with_the_line_that_weighs_most() {
    let mut feed = with_stacks(observing());
    churn(&mut feed, 2, 3_000, 1);
    // Few blocks of the other line hold what is held.
    for block in 0..2_000_u64 {
        feed.emit("Memory.Marker", 2, &[N(block << 20)]);
        feed.alloc_at(2, 0x10_0000 + block * 0x1000, 4_000, if block < 10 { 1 } else { 4 });
    }
    let (_, found) = found(&mut feed, None);
    let of = |kind: &str| {
        let finding = found.iter().find(|finding| finding.kind_name() == kind);
        finding
            .map(|Finding { place, .. }| (place.function.as_deref(), place.line, &*place.callers))
    };
    let [one, main] = ["demo::one", "demo::main"].map(str::to_owned);
    assert_eq!(of("short_lived"), Some((Some("demo::work"), Some(10), &[one, main.clone()][..])));
    assert_eq!(of("only_grows"), Some((Some("demo::work"), Some(60), &[main][..])));
}

#[test]
fn a_function_has_a_name_if_all_its_blocks_have_it() {
    let mut feed = with_stacks(observing());
    churn_in(&mut feed, 2, &[301], 1_000, 1);
    churn_in(&mut feed, 2, &[302], 1_000, 1);
    churn_in(&mut feed, 2, &[302], 3_000, 3);
    let (_, found) = found(&mut feed, None);
    let [named, both] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(
        (named.place.name.as_deref(), &*named.place.group),
        (Some("trees"), &["World".to_owned()][..])
    );
    assert_eq!((&both.place.name, &*both.place.group), (&None, &[][..]));
}

#[test]
fn without_stacks_a_place_is_a_name_in_a_scope() {
    let mut feed = in_scopes(observing());
    churn_in(&mut feed, 2, &[301], 2_000, 0);
    churn_in(&mut feed, 2, &[302], 1_000, 0);
    let (_, all) = found(&mut feed, None);
    let names: Vec<_> = all.iter().map(|finding| finding.place.name.as_deref()).collect();
    assert_eq!(names, [Some("plants"), Some("trees")]);
    assert!(all.iter().all(|finding| finding.place.callers.is_empty()));
}

#[test]
fn a_text_selects_by_the_scope_of_the_allocation() {
    let mut feed = in_scopes(observing());
    feed.channel("Scope", true);
    feed.channel("FreeScope", true);
    churn_in(&mut feed, 2, &[101, 102], 1_000, 0);
    churn_in(&mut feed, 2, &[103], 2_000, 0);
    for (scope, calls) in
        [("A > X", &[1_000][..]), ("> B", &[2_000]), ("b > a", &[]), ("", &[2_000, 1_000])]
    {
        let (report, found) = found(&mut feed, Some(scope));
        assert_eq!(found.iter().map(|finding| finding.calls).collect::<Vec<_>>(), calls, "{scope}");
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
    for block in 1..=100_u64 {
        // One of five is left behind.
        feed.alloc_at(2, block << 16, 4_000, 3);
        if block % 5 > 0 {
            feed.free(3, block << 16);
        }
        feed.marker(block * 5_000_000);
    }
    churn(&mut feed, 2, 1_000, 1);
    churn(&mut feed, 2, 9_000, 0);
    feed.marker(1_000_000_000);
    feed.alloc(2, 1 << 40, 1 << 20);
    feed.leave(2);
    let (_, found) = found(&mut feed, None);
    let [left, short] = &found[..] else { panic!("{found:#?}") };
    assert!(
        matches!(left.kind, FindingKind::LeftBehind { blocks: 20, bytes: 80_000, freed: 80, .. }),
        "{left:?}"
    );
    // What is left is all that the sample has at the peak; the short-lived blocks are 1,000 of its 1,100.
    assert_eq!((left.weight, short.weight), (1_000_000, 909_090));
    assert_eq!((short.kind_name(), short.calls), ("short_lived", 1_000));
    assert!(found.iter().all(|finding| finding.is_of_sample));
}

#[test]
fn siblings_of_what_is_left_behind_have_its_call_stack() {
    // A line with two callers, of which one keeps a block now and then.
    let found = |keeps: [u32; 2]| {
        let mut feed = with_stacks(observing());
        for round in 0..1_000_u64 {
            let stack = keeps[usize::from(round % 20 == 0)];
            let address = (1 << 30) + round * 8_192;
            feed.alloc_at(2, address, 8_000, stack);
            if round % 20 > 0 {
                feed.free(2, address);
            }
            feed.emit("Memory.Marker", 2, &[N(round << 20)]);
        }
        let found = found(&mut feed, None).1;
        found.iter().any(|finding| finding.kind_name() == "left_behind")
    };
    assert!(found([1, 1]));
    assert!(!found([1, 2]));
}
