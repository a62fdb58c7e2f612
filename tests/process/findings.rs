//! Programs with one defect each, which is found; and one without any.

use crate::harness::{Case, Outcome, TRACE, case};
use memledger::{alloc_scope, bookmark};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Finding, FindingKind, FindingsObserver};
use std::collections::VecDeque;
use std::fs::File;
use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    case("a few that stay while their siblings end are found", leaks, |run| {
        let found = one(&run.tracked().run(), "left_behind", "connection");
        assert_eq!(figures(&found, ["blocks", "bytes", "freed"]), [60, 60 * 2_000, 2_940]);
        assert_eq!(found.figure("one_in"), Some(50));
    }),
    case("a set that is only needed beside what stays is temporary", copies, |run| {
        let found = found(&run.tracked().run());
        let of_kind = |found: &Finding| found.kind == FindingKind::Temporary;
        let found = found.into_iter().find(of_kind).unwrap();
        assert_eq!(found.place.scope.last().unwrap(), "read");
        assert_eq!(found.beside.as_deref(), Some("clean"));
        assert!(found.figure("bytes") >= Some(60_000 * 200), "{found:?}");
    }),
    case("what malloc keeps is found between what is live", fragments, |run| {
        let found = found(&run.tracked().run());
        let first = found.first().unwrap();
        assert_eq!(first.kind, FindingKind::Fragmentation, "{found:#?}");
        assert_eq!(first.place.scope.last().unwrap(), "add", "{found:#?}");
        assert!(figures(first, ["kept_bytes"])[0] > 30 << 20, "{first:?}");
        assert!(figures(first, ["blocks"])[0] >= 10_000, "{first:?}");
    }),
    case("blocks that wait for another thread are found", hands_off, |run| {
        let found = one(&run.tracked().run(), "queue", "produce");
        let [passed, freed, waiting] = figures(&found, ["passed", "freed", "blocks"]);
        // The others are freed as the program ends.
        assert!((1_300..=1_400).contains(&passed) && passed == freed, "{found:?}");
        assert!(waiting >= 1_600, "{found:?}");
        assert_eq!(found.freed_by[0].name, "consumer");
    }),
    case("a program that does all of it well has no finding", clean, |run| {
        let found = found(&run.tracked().run());
        assert!(found.is_empty(), "{found:#?}");
    }),
];

/// Figures of a finding, all of which it has.
fn figures<const N: usize>(found: &Finding, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| found.figure(key).unwrap_or_else(|| panic!("{key} in {found:?}")))
}

fn found(outcome: &Outcome) -> Vec<Finding> {
    outcome.exited(0);
    let mut analyzer = Analyzer::observing(FindingsObserver::default()).by_bucket();
    read(File::open(outcome.path(TRACE)).unwrap(), &mut analyzer).unwrap();
    let mut report = analyzer.report();
    analyzer.find(&mut report, None);
    report.findings.unwrap()
}

/// The only finding, which is of this kind, in this scope.
fn one(outcome: &Outcome, kind: &str, scope: &str) -> Finding {
    let found = found(outcome);
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(one.kind.key(), kind);
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

fn hands_off() {
    let (sender, receiver) = mpsc::channel::<Box<[u8; 5_000]>>();
    let (go, may_take) = mpsc::sync_channel(0);
    let consumer = std::thread::Builder::new().name("consumer".to_owned());
    let consumer = consumer.spawn(move || {
        // It begins when 300 wait, and then takes one for each two that come.
        may_take.into_iter().for_each(|()| drop(receiver.recv().unwrap()));
        receiver.into_iter().for_each(drop);
    });
    for number in 0..3_000 {
        let block = alloc_scope!("produce", { Box::new([1; 5_000]) });
        sender.send(block).unwrap();
        if number % 100 == 0 {
            bookmark!("another hundred");
            std::thread::sleep(Duration::from_millis(2));
        }
        if number >= 300 && number % 2 == 0 {
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
    drop(read);
    // What the clean ones are for.
    for part in clean.chunks(1_000) {
        alloc_scope!("count", { drop(black_box(vec![1_u8; part.len() * 10])) });
        bookmark!("another thousand");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::mem::forget(clean);
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
