//! Programs with one defect each, which is found; and one without any.

use crate::harness::{Case, Outcome, TRACE, case};
use memledger::{alloc_scope, bookmark};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Finding, FindingKind, FindingsObserver, GrowsUntil};
use memledger_export::findings::{evidence, suggestion};
use std::collections::VecDeque;
use std::fs::File;
use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    case("a vector that grows is to reserve what nine in ten need", grows, |run| {
        let found = one(&run.tracked().run(), "grows", "grow");
        let FindingKind::Grows { blocks, growths, reserve_bytes, largest_bytes, .. } = found.kind
        else {
            panic!("{found:?}")
        };
        // 4, 8, 16, 32, 64, 128 of 8 bytes.
        assert_eq!((blocks, growths), (2_000, 10_000));
        assert_eq!((reserve_bytes, largest_bytes), (1024, 1024));
        assert!(suggestion(&found).contains(": 1.0 KiB is enough"), "{}", suggestion(&found));
    }),
    case("a buffer that is made anew in a loop is to be used again", churns, |run| {
        let found = one(&run.tracked().run(), "short_lived", "render");
        let FindingKind::ShortLived { blocks, of, bytes } = found.kind else { panic!("{found:?}") };
        assert_eq!((blocks, of, bytes), (5_000, 5_000, Some(500_000)));
    }),
    case("capacity that is given back is found", shrinks, |run| {
        let found = one(&run.tracked().run(), "shrinks", "collect");
        let expected =
            FindingKind::Shrinks { blocks: 2_000, bytes_before: 16_000_000, bytes_after: 160_000 };
        assert_eq!(found.kind, expected);
    }),
    case("a few that stay while their siblings end are found", leaks, |run| {
        let found = one(&run.tracked().run(), "left_behind", "connection");
        let FindingKind::LeftBehind { blocks, bytes, freed, .. } = found.kind else {
            panic!("{found:?}")
        };
        assert_eq!((blocks, bytes, freed), (60, 60 * 2_000, 2_940));
    }),
    case("a cache that only grows is found", only_grows, |run| {
        let found = one(&run.tracked().run(), "only_grows", "cache");
        let FindingKind::OnlyGrows { moments, until, .. } = &found.kind else {
            panic!("{found:?}")
        };
        assert_eq!(moments.len(), 8);
        assert!(matches!(until, GrowsUntil::End { .. }), "{found:?}");
    }),
    case("a cache that the end of the program frees has grown", gives_all_back, |run| {
        let found = one(&run.tracked().run(), "only_grows", "cache");
        let FindingKind::OnlyGrows { until, .. } = &found.kind else { panic!("{found:?}") };
        assert_eq!(*until, GrowsUntil::Peak);
        let text = evidence(&found);
        assert!(text.ends_with("not freed before the program ended"), "{text}");
    }),
    case("a copy of all there is makes the peak", copies, |run| {
        let found = found(&run.tracked().run());
        let one = &found.first().unwrap().kind;
        let FindingKind::HoldsPeak { first, second } = one else { panic!("{found:#?}") };
        assert_eq!([&*first.name, &*second.name], ["read", "clean"]);
    }),
    case("what malloc keeps is found between what is live", fragments, |run| {
        let found = found(&run.tracked().run());
        let first = found.first().unwrap();
        assert_eq!(first.place.scope.last().unwrap(), "add", "{found:#?}");
        let FindingKind::KeptByMalloc { kept_bytes, blocks, returnable_bytes, .. } = first.kind
        else {
            panic!("{found:#?}")
        };
        assert!(kept_bytes > 30 << 20 && returnable_bytes < kept_bytes / 2, "{first:?}");
        assert!(blocks >= 10_000, "{first:?}");
    }),
    case("many small boxes of one size are found", boxes, |run| {
        let found = one(&run.tracked().run(), "one_size", "tree");
        let FindingKind::OneSize { size, blocks, at_peak, overhead_bytes, .. } = found.kind else {
            panic!("{found:?}")
        };
        assert_eq!((size, blocks, at_peak, overhead_bytes), (24, 5_000, 5_000, 40_000));
    }),
    case("a size just above a class is found", rounds_up, |run| {
        let found = one(&run.tracked().run(), "rounds_up", "pages");
        let FindingKind::RoundsUp { size, class_below, class, .. } = found.kind else {
            panic!("{found:?}")
        };
        assert_eq!((size, class_below, class), (4097, 4096, 5120));
    }),
    case("blocks that wait for another thread are found", hands_off, |run| {
        let found = one(&run.tracked().run(), "freed_elsewhere", "produce");
        let FindingKind::FreedElsewhere { blocks, of, freed_by, waiting, .. } = &found.kind else {
            panic!("{found:?}")
        };
        // The last ones are freed as the program ends.
        assert!((2_600..=3_000).contains(blocks) && blocks == of, "{found:?}");
        assert!(*waiting >= 200, "{found:?}");
        assert_eq!(freed_by[0].name, "consumer");
    }),
    case("a program that does all of it well has no finding", clean, |run| {
        let found = found(&run.tracked().run());
        assert!(found.is_empty(), "{found:#?}");
    }),
];

fn found(outcome: &Outcome) -> Vec<Finding> {
    outcome.exited(0);
    let mut analyzer = Analyzer::observing(FindingsObserver::default()).by_bucket();
    read(File::open(outcome.path(TRACE)).unwrap(), &mut analyzer).unwrap();
    analyzer.find(&analyzer.report(), None)
}

/// The only finding, which is of this kind, in this scope.
fn one(outcome: &Outcome, kind: &str, scope: &str) -> Finding {
    let found = found(outcome);
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(one.kind_name(), kind);
    assert_eq!(one.place.scope.last().unwrap(), scope);
    one.clone()
}

/// The last eight, so that a block outlives the next one.
struct Ring<T>(VecDeque<T>);

impl<T> Ring<T> {
    fn new() -> Self {
        Self(VecDeque::with_capacity(9))
    }

    fn keep(&mut self, item: T) {
        self.0.push_back(black_box(item));
        if self.0.len() > 8 {
            drop(self.0.pop_front());
        }
    }
}

fn grows() {
    let mut ring = Ring::new();
    for _ in 0..2_000 {
        alloc_scope!("grow");
        let mut numbers = Vec::new();
        for number in 0..100_u64 {
            numbers.push(black_box(number));
        }
        ring.keep(numbers);
    }
}

fn churns() {
    for _ in 0..5_000 {
        alloc_scope!("render");
        drop(black_box(vec![1_u8; 100]));
    }
}

fn shrinks() {
    let mut ring = Ring::new();
    for _ in 0..2_000 {
        alloc_scope!("collect");
        let mut numbers = Vec::with_capacity(1_000);
        numbers.extend(black_box([1_u64; 10]));
        numbers.shrink_to_fit();
        ring.keep(numbers);
    }
}

fn leaks() {
    let mut ring = Ring::new();
    for round in 0..3_000 {
        // Fewer than 5 in 100 blocks that are freed live as long as this.
        if round % 200 == 0 {
            bookmark!("another two hundred");
            std::thread::sleep(Duration::from_millis(30));
        }
        alloc_scope!("connection");
        let connection = Box::new([0_u8; 2_000]);
        if round % 50 == 0 {
            std::mem::forget(connection);
        } else {
            ring.keep(connection);
        }
    }
    drop(ring);
    // What is left behind has an age.
    std::thread::sleep(Duration::from_millis(300));
    bookmark!("the end");
}

fn only_grows() {
    std::mem::forget(cache_that_grows());
    bookmark!("the end");
}

fn gives_all_back() {
    let cache = cache_that_grows();
    bookmark!("the last one");
    drop(cache);
    bookmark!("the end");
}

/// Grows for more than a second.
fn cache_that_grows() -> Vec<Vec<u8>> {
    let mut cache = Vec::with_capacity(1 << 20);
    let mut ring = Ring::new();
    let (start, mut grown) = (Instant::now(), Vec::with_capacity(1 << 16));
    // NOTE: what grows only in the first half of the time is no finding. So it grows until it has grown
    // in the second half, however long the system did not run it.
    while start.elapsed() < Duration::from_millis(1_200) || !grew_late(&grown) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
        bookmark!("a hundred more");
        for round in 0..100 {
            ring.keep(vec![1_u8; 100 + round % 13]);
            alloc_scope!("cache");
            cache.push(vec![1_u8; 100 + round % 97 * 8]);
        }
        grown.push((start.elapsed(), cache.len()));
    }
    cache
}

/// Whether half of it came in the second half of the time.
fn grew_late(grown: &[(Duration, usize)]) -> bool {
    let Some(&(end, all)) = grown.last() else { return false };
    let first = grown.iter().take_while(|(at, _)| *at <= end / 2).last();
    first.is_none_or(|(_, count)| count * 2 <= all)
}

fn boxes() {
    let mut nodes = Vec::with_capacity(5_000);
    alloc_scope!("tree");
    for node in 0..5_000 {
        nodes.push(Box::new([node as u64; 3]));
    }
    black_box(nodes);
}

fn rounds_up() {
    alloc_scope!("pages");
    let mut pages = Vec::with_capacity(1_200);
    for _ in 0..1_200 {
        pages.push(vec![1_u8; 4097].into_boxed_slice());
    }
    black_box(pages);
}

fn hands_off() {
    let (sender, receiver) = mpsc::channel::<Box<[u8; 500]>>();
    let (go, may_take) = mpsc::sync_channel(0);
    let consumer = std::thread::Builder::new().name("consumer".to_owned());
    let consumer = consumer.spawn(move || {
        // It begins when 300 wait, and then takes one for each that comes.
        may_take.into_iter().for_each(|()| drop(receiver.recv().unwrap()));
        receiver.into_iter().for_each(drop);
    });
    for number in 0..3_000 {
        let block = alloc_scope!("produce", { Box::new([1; 500]) });
        sender.send(block).unwrap();
        if number % 100 == 0 {
            bookmark!("another hundred");
            std::thread::sleep(Duration::from_millis(2));
        }
        if number >= 300 {
            go.send(()).unwrap();
        }
    }
    drop((sender, go));
    consumer.unwrap().join().unwrap();
    bookmark!("the end");
}

fn copies() {
    let text = |number: usize| format!("entry {number:>200}");
    let read = alloc_scope!("read", { (0..60_000).map(text).collect::<Vec<_>>() });
    let clean =
        alloc_scope!("clean", { read.iter().map(|text| text.to_uppercase()).collect::<Vec<_>>() });
    std::mem::forget((read, clean));
}

fn fragments() {
    let mut orders = Vec::with_capacity(10_000);
    let mut offers = Vec::with_capacity(30_000);
    for number in 0..30_000_usize {
        alloc_scope!("offer", { offers.push(vec![1_u8; 1_500 + number % 300]) });
        if number % 3 == 0 {
            alloc_scope!("add", { orders.push(Box::new(number)) });
        }
    }
    drop(offers);
    // What is freed in the second half of the run is no finding: so it stays a while.
    std::thread::sleep(Duration::from_millis(1_500));
    std::mem::forget(orders);
}

fn clean() {
    let mut ring = Ring::new();
    let mut line = String::with_capacity(200);
    let table: Vec<_> = (0..200_usize).map(|size| vec![1_u8; 300 + size]).collect();
    for round in 0..3_000_usize {
        alloc_scope!("parse");
        line.clear();
        line.push_str("a line that is read into the same buffer");
        let mut fields = Vec::with_capacity(16 + round % 7);
        fields.extend(line.split(' ').map(str::len));
        ring.keep(fields);
    }
    black_box(table);
}
