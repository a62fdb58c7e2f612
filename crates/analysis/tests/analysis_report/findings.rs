//! Findings against a model that keeps every block for ever and counts again from scratch.

mod brief;
mod corrections;
mod over_time;
mod places;
mod thresholds;

use memledger_analysis::{
    Analyzer, Finding, FindingKind, FindingsObserver, FreedIn, GrowsUntil, PeakPart, Report,
    WeightOf,
};
use memledger_export::text::{self, Options};
use memledger_test_support::feed::{Feed, V::N, V::S};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a piece of a program does, again and again.
#[derive(Clone, Debug)]
enum Act {
    /// Allocates and frees.
    Churn {
        scope: usize,
        size: u64,
    },
    /// Grows a block, then gives back a part of it, and frees it unless it is kept.
    Grow {
        scope: usize,
        size: u64,
        steps: u32,
        in_place: bool,
        /// In percent of its size.
        gives_back: u64,
        kept: bool,
    },
    Keep {
        scope: usize,
        size: u64,
    },
    /// Another thread frees.
    Handoff {
        scope: usize,
        size: u64,
    },
    /// Another thread frees when this many wait.
    Queue {
        scope: usize,
        size: u64,
        lag: usize,
    },
    /// Frees after some other blocks; one in so many is never freed.
    Late {
        scope: usize,
        size: u64,
        lag: usize,
        leak: u64,
    },
}

const SCOPES: [(i32, &str); 4] = [(101, "a"), (102, "b"), (103, "c"), (104, "d")];
type ByScope = [u64; SCOPES.len()];

#[derive(Clone, Debug)]
struct Block {
    scope: usize,
    first: u64,
    bytes: u64,
    born: u64,
    freed: Option<Freed>,
    growths: u64,
    moved: u64,
    copied: u64,
    given_back: u64,
}

#[derive(Clone, Copy, Debug)]
struct Freed {
    at: u64,
    stream: u16,
    /// The scope that was open on the stream.
    scope: Option<usize>,
    short: bool,
}

#[derive(Default)]
struct Model {
    free_scopes: bool,
    feed: Option<Feed<FindingsObserver>>,
    blocks: Vec<Block>,
    addresses: BTreeMap<usize, u64>,
    unused: Vec<u64>,
    next: u64,
    now: u64,
    open: Option<usize>,
    /// The last block that each stream allocated.
    newest: BTreeMap<u16, usize>,
    queues: BTreeMap<usize, Vec<usize>>,
    /// By scope, after each event: live bytes.
    live: ByScope,
    history: Vec<(u64, ByScope)>,
    /// The peak; by scope: blocks and bytes.
    at_peak: (u64, ByScope, ByScope),
}

impl Model {
    fn feed(&mut self) -> &mut Feed<FindingsObserver> {
        self.feed.as_mut().expect("it is there")
    }

    fn address(&mut self) -> u64 {
        self.unused.pop().unwrap_or_else(|| {
            self.next += 1 << 16;
            self.next
        })
    }

    fn enter(&mut self, scope: usize) {
        if self.open != Some(scope) {
            if self.open.is_some() {
                self.feed().leave(2);
            }
            self.feed().enter(2, SCOPES[scope].0);
            self.open = Some(scope);
        }
    }

    fn note(&mut self) {
        let (events, live) = (self.feed().events, self.live);
        self.history.push((events, live));
        let total: u64 = live.iter().sum();
        if total > self.at_peak.0 {
            let mut blocks = ByScope::default();
            for block in self.blocks.iter().filter(|block| block.freed.is_none()) {
                blocks[block.scope] += 1;
            }
            self.at_peak = (total, blocks, live);
        }
    }

    fn alloc(&mut self, scope: usize, size: u64) -> usize {
        self.enter(scope);
        let address = self.address();
        self.feed().alloc(2, address, size);
        let block = self.blocks.len();
        self.addresses.insert(block, address);
        let born = self.now;
        self.blocks.push(Block {
            scope,
            first: size,
            bytes: size,
            born,
            freed: None,
            growths: 0,
            moved: 0,
            copied: 0,
            given_back: 0,
        });
        self.newest.insert(2, block);
        self.live[scope] += size;
        self.note();
        block
    }

    fn free(&mut self, block: usize, stream: u16) {
        let address = self.addresses.remove(&block).expect("it is live");
        self.feed().free(stream, address);
        self.unused.push(address);
        let short = stream == 2 && self.newest.get(&2) == Some(&block);
        let scope = self.open.filter(|_| stream == 2);
        self.blocks[block].freed = Some(Freed { at: self.now, stream, scope, short });
        self.live[self.blocks[block].scope] -= self.blocks[block].bytes;
        self.note();
    }

    fn realloc(&mut self, block: usize, size: u64, in_place: bool) {
        let from = self.addresses[&block];
        let to = if in_place { from } else { self.address() };
        let (scope, before) = (self.blocks[block].scope, self.blocks[block].bytes);
        self.feed().realloc_free(2, from);
        self.live[scope] -= before;
        // The halves are two events; the peak is taken after the second.
        let (events, live) = (self.feed().events, self.live);
        self.history.push((events, live));
        self.feed().realloc_alloc(2, to, size);
        if !in_place {
            self.unused.push(from);
        }
        self.addresses.insert(block, to);
        let of = &mut self.blocks[block];
        of.bytes = size;
        if size > before {
            of.growths += 1;
            of.moved += u64::from(!in_place);
            of.copied += if in_place { 0 } else { before };
        }
        if size != before {
            of.given_back = before.saturating_sub(size);
        }
        self.live[scope] += size;
        self.note();
    }

    fn step(&mut self, number: usize, act: &Act, round: u64) {
        match *act {
            Act::Churn { scope, size } => {
                let block = self.alloc(scope, size);
                self.free(block, 2);
            }
            Act::Grow { scope, size, steps, in_place, gives_back, kept } => {
                let block = self.alloc(scope, size);
                for step in 1..=steps {
                    self.realloc(block, size << step, in_place);
                }
                if gives_back > 0 {
                    let size = size << steps;
                    self.realloc(block, size - size * gives_back / 100, true);
                }
                if !kept {
                    self.free(block, 2);
                }
            }
            Act::Keep { scope, size } => _ = self.alloc(scope, size),
            Act::Handoff { scope, size } => {
                let block = self.alloc(scope, size);
                self.free(block, 3);
            }
            Act::Queue { scope, size, lag } => {
                let block = self.alloc(scope, size);
                let queue = self.queues.entry(number).or_default();
                queue.push(block);
                if queue.len() > lag {
                    let block = queue.remove(0);
                    self.free(block, 3);
                }
            }
            Act::Late { scope, size, lag, leak } => {
                let block = self.alloc(scope, size);
                let queue = self.queues.entry(number).or_default();
                if !round.is_multiple_of(leak) {
                    queue.push(block);
                }
                if queue.len() > lag {
                    let block = queue.remove(0);
                    self.free(block, 2);
                }
            }
        }
    }
}

impl Model {
    /// What was freed of the blocks of one scope, or of all.
    fn freed_in(&self, of: Option<usize>) -> Vec<FreedIn> {
        let path = |scope: Option<usize>| {
            let name = scope.map(|scope| SCOPES[scope].1.to_owned());
            ["GlobalScope".to_owned()].into_iter().chain(name).collect::<Vec<_>>()
        };
        let mut rows = BTreeMap::<_, (u64, u64)>::new();
        for block in self.blocks.iter().filter(|block| of.is_none_or(|of| of == block.scope)) {
            if let Some(freed) = block.freed.filter(|_| self.free_scopes) {
                let row = rows.entry((path(Some(block.scope)), path(freed.scope))).or_default();
                *row = (row.0 + 1, row.1 + block.bytes);
            }
        }
        let rows = rows.into_iter().map(|((allocated_in, freed_in), (blocks, bytes))| {
            let mut row = FreedIn::default();
            (row.allocated_in, row.freed_in) = (allocated_in, freed_in);
            (row.blocks, row.bytes) = (blocks, bytes);
            row
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| Reverse((row.blocks, row.bytes)));
        rows
    }
}

impl Model {
    /// A trace with nothing in it yet; `free_scopes` says whether its frees are in their scopes.
    fn new(free_scopes: bool) -> Self {
        let analyzer = Analyzer::observing(FindingsObserver::default()).by_bucket();
        let mut feed = Feed::ours(analyzer);
        for (id, is_on, name) in [(1, true, "Scope"), (2, free_scopes, "FreeScope")] {
            feed.emit("Trace.ChannelAnnounce", 1, &[N(id), N(is_on.into()), N(0), S(name)]);
        }
        feed.spec(0, 100, -1, -1, "GlobalScope");
        for (tag, name) in SCOPES {
            feed.spec(0, tag, 100, -1, name);
        }
        feed.thread(2, 1, "one");
        feed.thread(3, 2, "two");
        Self { feed: Some(feed), next: 1 << 20, free_scopes, ..Self::default() }
    }

    /// Does all acts in turn, each as often as it says.
    fn play(mut self, acts: &[(Act, u64)]) -> Self {
        let rounds = acts.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0);
        for round in 0..rounds {
            for (number, (act, _)) in acts.iter().enumerate().filter(|(_, (_, of))| round < *of) {
                self.step(number, act, round);
            }
            if round % 5 == 0 {
                self.pass(1_000);
            }
        }
        self
    }

    /// Time passes: 65,536 times as much, so that a thousand steps are a run of some seconds.
    fn pass(&mut self, ns: u64) {
        self.now += ns << 16;
        let now = self.now;
        self.feed().emit("Memory.Marker", 2, &[N(now)]);
    }

    fn found(&mut self) -> (Report, Vec<Finding>) {
        let report = self.feed().report();
        let found = self.feed().analyzer.find(&report, None);
        let freed_in = self.feed().analyzer.freed_in(&report, None);
        assert_eq!(freed_in, self.freed_in(None));
        found.iter().for_each(|finding| check(&report, finding, self));
        let is_held = |finding: &Finding| finding.weight_of == WeightOf::Peak;
        assert!(found.is_sorted_by_key(|finding| Reverse((is_held(finding), finding.weight))));
        (report, found)
    }

    fn kinds(mut self) -> Vec<&'static str> {
        self.found().1.iter().map(Finding::kind_name).collect()
    }
}

/// The blocks of one scope, as the finding has them.
fn of(model: &Model, finding: &Finding) -> (usize, Vec<Block>) {
    let name = finding.place.scope.last().expect("a scope");
    let scope = SCOPES.iter().position(|(_, of)| of == name).expect("one of these");
    let blocks = model.blocks.iter().filter(|block| block.scope == scope).cloned();
    (scope, blocks.collect())
}

fn check(report: &Report, finding: &Finding, model: &Model) {
    let (scope, blocks) = of(model, finding);
    let count = |test: &dyn Fn(&Block) -> bool| blocks.iter().filter(|b| test(b)).count() as u64;
    let sum = |figure: &dyn Fn(&Block) -> u64| blocks.iter().map(figure).sum::<u64>();
    let of_all = blocks.len() as u64;
    match &finding.kind {
        FindingKind::Grows {
            blocks: b,
            growths,
            moved,
            copied_bytes,
            largest_bytes,
            reserve_bytes,
            peak_millionths,
        } => {
            let name = finding.place.scope.last();
            let row = report.by_scope.iter().find(|row| row.path.last() == name).expect("a scope");
            let of_peak = row.figures.live_bytes_at_peak * 1_000_000 / report.totals.peak_bytes;
            assert_eq!(*peak_millionths, of_peak);
            let grown: Vec<_> = blocks.iter().filter(|block| block.growths > 0).collect();
            assert_eq!(*b, grown.len() as u64);
            assert_eq!((*growths, *moved), (sum(&|b| b.growths), sum(&|b| b.moved)));
            assert_eq!(*copied_bytes, sum(&|b| b.copied));
            assert_eq!(Some(*largest_bytes), grown.iter().map(|b| b.bytes).max());
            assert!(reserve_bytes <= largest_bytes);
            let within = |size: u64| grown.iter().filter(|b| b.bytes <= size).count() as u64;
            assert!(within(*reserve_bytes) * 10 >= *b * 9, "{reserve_bytes}");
            assert!(within(reserve_bytes.next_power_of_two() / 2) * 10 < *b * 9);
            // What is saved is of the blocks that the size is enough for.
            let saved = |figure: &dyn Fn(&Block) -> u64| {
                grown.iter().filter(|b| b.bytes <= *reserve_bytes).map(|b| figure(b)).sum::<u64>()
            };
            assert_eq!(
                (finding.calls, finding.bytes),
                (saved(&|b| b.growths), saved(&|b| b.copied))
            );
        }
        FindingKind::ShortLived { blocks: b, of, bytes } => {
            let short = |block: &Block| block.freed.is_some_and(|freed| freed.short);
            assert_eq!((*b, *of), (count(&short), count(&|b| b.freed.is_some())));
            assert_eq!(*bytes, Some(sum(&|b| if short(b) { b.bytes } else { 0 })));
        }
        FindingKind::Shrinks { blocks: b, bytes_before, bytes_after } => {
            assert_eq!(*b, count(&|b| b.given_back > 0));
            let after = sum(&|b| if b.given_back > 0 { b.bytes } else { 0 });
            assert_eq!((*bytes_after, *bytes_before), (after, after + sum(&|b| b.given_back)));
        }
        FindingKind::LeftBehind { blocks: b, bytes, freed, mean_age_ns, freed_within_ns } => {
            let live: Vec<_> = blocks.iter().filter(|b| b.freed.is_none()).collect();
            assert_eq!((*b, *freed), (live.len() as u64, of_all - live.len() as u64));
            assert_eq!(*bytes, live.iter().map(|b| b.bytes).sum::<u64>());
            let ages = live.iter().map(|b| report.trace.duration_ns - b.born).sum::<u64>();
            assert_eq!(*mean_age_ns, ages / *b);
            let young =
                count(&|b| b.freed.is_some_and(|freed| freed.at - b.born < *freed_within_ns));
            assert!(young * 100 >= *freed * 95, "{young} of {freed}");
            assert!(*freed >= *b * 20);
        }
        FindingKind::OnlyGrows { moments, blocks: b, until } => {
            let (end, rest) = moments.split_last().expect("some");
            match until {
                GrowsUntil::End { youngest_ns, median_ns } => {
                    let live = blocks.iter().filter(|block| block.freed.is_none());
                    let mut ages: Vec<_> = live.map(|block| model.now - block.born).collect();
                    ages.sort_unstable();
                    assert_eq!((*b, end.live_bytes), (ages.len() as u64, model.live[scope]));
                    assert_eq!((*youngest_ns, *median_ns), (ages[0], ages[ages.len() / 2]));
                }
                GrowsUntil::Peak => {
                    let (_, at_peak, bytes) = model.at_peak;
                    assert_eq!((*b, end.live_bytes), (at_peak[scope], bytes[scope]));
                }
            }
            for moment in rest {
                let before = model.history.iter().rev().find(|(event, _)| *event < moment.event);
                assert_eq!(moment.live_bytes, before.map_or(0, |(_, live)| live[scope]));
            }
            assert!(moments.windows(2).all(|pair| pair[0].live_bytes < pair[1].live_bytes));
        }
        FindingKind::HoldsPeak { first, second } => {
            let is_right = |part: &PeakPart| {
                let scope =
                    SCOPES.iter().position(|(_, of)| *of == part.name).expect("one of these");
                (part.blocks, part.bytes) == (model.at_peak.1[scope], model.at_peak.2[scope])
            };
            assert!(is_right(first) && is_right(second), "{finding:?}");
            assert!((first.bytes + second.bytes) * 2 >= model.at_peak.0, "{finding:?}");
        }
        FindingKind::StaysAfterPeak { bytes, live_bytes, peak_bytes, .. } => {
            assert_eq!(*peak_bytes, model.at_peak.0);
            assert!(*bytes >= model.live[scope] && *live_bytes >= *bytes, "{finding:?}");
        }
        FindingKind::OneSize { size, blocks: b, of, at_peak, overhead_bytes } => {
            assert_eq!((*b, *of), (count(&|b| b.first == *size), of_all));
            assert_eq!(*at_peak, model.at_peak.1[scope]);
            // A chunk of glibc has at least two units of 16 bytes, and 8 bytes of it are glibc's own.
            let units = (size + 8).div_ceil(16).max(2);
            assert_eq!(*overhead_bytes, at_peak * (units * 16 - size));
            assert_eq!((finding.calls, finding.bytes), (*b, *overhead_bytes));
        }
        FindingKind::RoundsUp { size, class_below, class, blocks: b, of, at_peak } => {
            assert_eq!((*b, *of), (count(&|b| b.first == *size), of_all));
            assert_eq!(*at_peak, model.at_peak.1[scope]);
            let classes = (9..40).flat_map(|bits| (4..8).map(move |of| of << (bits - 2)));
            let (below, above): (Vec<u64>, Vec<u64>) = classes.partition(|class| class < size);
            assert_eq!((Some(class_below), Some(class)), (below.iter().max(), above.iter().min()));
            assert_eq!(finding.bytes, at_peak * (class - size));
        }
        FindingKind::FreedElsewhere {
            blocks: b,
            of,
            waiting,
            waiting_bytes,
            median_ns,
            freed_by,
            freed_in,
        } => {
            assert_eq!(*freed_in, model.freed_in(Some(scope)));
            let by = |stream: u16| count(&|b| b.freed.is_some_and(|freed| freed.stream == stream));
            assert_eq!((*b, *of), (by(3), by(2) + by(3)));
            let (_, at_peak, bytes) = model.at_peak;
            assert_eq!((*waiting, *waiting_bytes), (at_peak[scope], bytes[scope]));
            let long = |b: &Block| b.freed.is_some_and(|freed| freed.at - b.born >= *median_ns);
            assert!(count(&long) * 2 >= *of);
            for row in freed_by {
                assert_eq!(row.blocks, by(if row.thread == 1 { 2 } else { 3 }));
                assert_eq!(row.is_own, row.thread == 1);
            }
        }
        other => panic!("{other:?} is new"),
    }
    assert!(finding.weight >= 10_000);
}

fn act() -> impl Strategy<Value = (Act, u64)> {
    let scope = 0..SCOPES.len();
    let size = prop_oneof![Just(24_u64), Just(4097), Just(100), 1_u64..3000];
    let gives_back = prop_oneof![Just(0), 1..100_u64];
    let act = prop_oneof![
        (scope.clone(), size.clone()).prop_map(|(scope, size)| Act::Churn { scope, size }),
        (scope.clone(), size.clone(), 0..5_u32, any::<bool>(), gives_back, any::<bool>()).prop_map(
            |(scope, size, steps, in_place, gives_back, kept)| {
                Act::Grow { scope, size, steps, in_place, gives_back, kept }
            }
        ),
        (scope.clone(), size.clone()).prop_map(|(scope, size)| Act::Keep { scope, size }),
        (scope.clone(), size.clone()).prop_map(|(scope, size)| Act::Handoff { scope, size }),
        (scope.clone(), size.clone(), 0..200_usize).prop_map(|(scope, size, lag)| Act::Queue {
            scope,
            size,
            lag
        }),
        (scope, size, 0..9_usize, 2..200_u64).prop_map(|(scope, size, lag, leak)| Act::Late {
            scope,
            size,
            lag,
            leak
        }),
    ];
    (act, 1..2500_u64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn every_finding_is_as_a_naive_model_has_it(
        acts in proptest::collection::vec(act(), 1..5),
        free_scopes: bool,
    ) {
        let (mut report, found) = Model::new(free_scopes).play(&acts).found();
        report.findings = Some(found);
        let mut text = Vec::new();
        text::write(&report, &Options::default(), &mut text).expect("memory takes everything");
    }
}

/// The only finding of this kind.
fn only(mut found: Vec<Finding>, kind: &str) -> Finding {
    found.retain(|finding| finding.kind_name() == kind);
    assert_eq!(found.len(), 1, "{kind} in {found:#?}");
    found.remove(0)
}

fn kinds(acts: &[(Act, u64)]) -> Vec<&'static str> {
    Model::new(true).play(acts).kinds()
}

#[test]
fn each_defect_is_found_and_nothing_else() {
    let grow = |in_place| {
        let (scope, size, steps, gives_back, kept) = (0, 16, 4, 0, false);
        vec![(Act::Grow { scope, size, steps, in_place, gives_back, kept }, 1_000)]
    };
    // A block that grows and is freed is short-lived as well.
    assert_eq!(kinds(&grow(false)), ["grows", "short_lived"]);
    assert_eq!(kinds(&grow(true)), ["grows", "short_lived"]);
    assert_eq!(kinds(&[(Act::Churn { scope: 1, size: 100 }, 2_000)]), ["short_lived"]);
    let queue = Act::Queue { scope: 1, size: 1_000, lag: 100 };
    assert_eq!(kinds(&[(queue, 2_000)]), ["freed_elsewhere"]);
    let late = |leak| (Act::Late { scope: 1, size: 8_000, lag: 3, leak }, 2_000);
    assert_eq!(kinds(&[late(100)]), ["left_behind"]);
    assert_eq!(kinds(&[late(10_000)]), [""; 0]);
    let keep = |size, count| (Act::Keep { scope: 2, size }, count);
    assert_eq!(kinds(&[keep(24, 2_000), late(10_000)]), ["one_size"]);
    assert_eq!(kinds(&[keep(4097, 1_500), late(10_000)]), ["only_grows", "rounds_up"]);
    assert_eq!(kinds(&[keep(4096, 100), late(10_000)]), [""; 0]);
    let (scope, size, steps, in_place, gives_back, kept) = (0, 3000, 1, true, 75, true);
    let shrink = Act::Grow { scope, size, steps, in_place, gives_back, kept };
    assert!(kinds(&[(shrink, 200), late(10_000)]).contains(&"shrinks"));
}

#[test]
fn what_is_freed_later_by_other_code_is_no_finding() {
    assert_eq!(kinds(&[]), [""; 0]);
    let acts = [
        (Act::Late { scope: 0, size: 700, lag: 8, leak: 10_000 }, 900),
        (Act::Late { scope: 1, size: 70, lag: 5, leak: 10_000 }, 2_000),
        (Act::Keep { scope: 2, size: 512 }, 90),
    ];
    assert_eq!(kinds(&acts), [""; 0]);
}
