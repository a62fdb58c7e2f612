//! Findings against a model that keeps every block for ever and counts again from scratch.

mod corrections;
mod over_time;
mod places;
mod thresholds;

use memledger_analysis::{
    Analyzer, Finding, FindingKind, FindingsObserver, FreedIn, Position, Report,
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
    /// Another thread frees when this many wait; a slow one, in every second round only.
    Queue {
        scope: usize,
        size: u64,
        lag: usize,
        slow: bool,
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
    bytes: u64,
    born: u64,
    freed: Option<Freed>,
    growths: u64,
    moved: u64,
    copied: u64,
    replaced: u64,
    small: u64,
}

impl Block {
    /// Whether it has grown, and not by chance into another one.
    fn has_grown(&self) -> bool {
        self.growths > self.replaced || self.replaced >= if self.small > 0 { 8 } else { 3 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Freed {
    event: u64,
    at: u64,
    stream: u16,
    /// The scope that was open on the stream.
    scope: Option<usize>,
}

#[derive(Default)]
struct Model {
    free_scopes: bool,
    /// How many times as much time passes, as a power of two; work that is nothing beside that is no finding.
    shift: Option<u32>,
    feed: Option<Feed<FindingsObserver>>,
    blocks: Vec<Block>,
    addresses: BTreeMap<usize, u64>,
    unused: Vec<u64>,
    next: u64,
    now: u64,
    open: Option<usize>,
    /// The block that each stream allocated last, if it has freed none since.
    newest: BTreeMap<u16, usize>,
    queues: BTreeMap<usize, Vec<usize>>,
    /// By scope, after each event: live bytes.
    live: ByScope,
    /// By scope: all bytes that were allocated, and reallocations.
    allocated: ByScope,
    reallocations: ByScope,
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
            bytes: size,
            born,
            freed: None,
            growths: 0,
            moved: 0,
            copied: 0,
            replaced: 0,
            small: 0,
        });
        self.newest.insert(2, block);
        self.live[scope] += size;
        self.allocated[scope] += size;
        self.note();
        block
    }

    fn free(&mut self, block: usize, stream: u16) {
        let address = self.addresses.remove(&block).expect("it is live");
        self.feed().free(stream, address);
        self.unused.push(address);
        let scope = self.open.filter(|_| stream == 2);
        let (event, at) = (self.feed().events, self.now);
        self.blocks[block].freed = Some(Freed { event, at, stream, scope });
        if let Some(newest) = self.newest.remove(&stream).filter(|newest| *newest != block) {
            self.replace(block, newest);
        }
        self.live[self.blocks[block].scope] -= self.blocks[block].bytes;
        self.note();
    }

    /// A block was freed after this one had been allocated, which may be the same container.
    fn replace(&mut self, block: usize, newest: usize) {
        let old = self.blocks[block].clone();
        let new = &mut self.blocks[newest];
        let is_small = new.bytes * 100 < old.bytes * 140;
        let is_grown = if is_small { old.bytes >= 65_536 && new.bytes > old.bytes } else { true };
        if new.scope == old.scope && is_grown && new.bytes * 100 <= old.bytes * 210 {
            new.small = old.small + u64::from(is_small);
            (new.growths, new.moved) = (old.growths + 1, old.moved + 1);
            (new.copied, new.replaced) = (old.copied + old.bytes, old.replaced + 1);
            let old = &mut self.blocks[block];
            (old.growths, old.moved, old.copied) = (0, 0, 0);
            (old.replaced, old.small) = (0, 0);
        }
    }

    fn realloc(&mut self, block: usize, size: u64, in_place: bool) {
        self.newest.remove(&2);
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
        self.allocated[scope] += size;
        self.reallocations[scope] += 1;
        let of = &mut self.blocks[block];
        of.bytes = size;
        if size > before {
            of.growths += 1;
            of.moved += u64::from(!in_place);
            of.copied += if in_place { 0 } else { before };
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
            Act::Grow { scope, size, steps, in_place, kept } => {
                let block = self.alloc(scope, size);
                for step in 1..=steps {
                    self.realloc(block, size << step, in_place);
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
            Act::Queue { scope, size, lag, slow } => {
                let block = self.alloc(scope, size);
                let queue = self.queues.entry(number).or_default();
                queue.push(block);
                if queue.len() > lag && !(slow && round.is_multiple_of(2)) {
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
        Self::of(Analyzer::observing(FindingsObserver::default()).by_bucket(), free_scopes)
    }

    fn of(analyzer: Analyzer<FindingsObserver>, free_scopes: bool) -> Self {
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
        self.now += ns << self.shift.unwrap_or(16);
        let now = self.now;
        self.feed().emit("Memory.Marker", 2, &[N(now)]);
    }

    fn found(&mut self) -> (Report, Vec<Finding>) {
        let mut report = self.feed().report();
        self.feed().analyzer.find(&mut report, None);
        let freed_in = self.feed().analyzer.freed_in(&report, None);
        assert_eq!(freed_in, self.freed_in(None));
        let found = report.findings.clone().expect("they were looked for");
        found.iter().for_each(|finding| check(finding, self));
        (report, found)
    }

    fn kinds(mut self) -> Vec<&'static str> {
        self.found().1.iter().map(|finding| finding.kind.key()).collect()
    }
}

/// The blocks of one scope, as the finding has them.
fn of(model: &Model, finding: &Finding) -> (usize, Vec<Block>) {
    let name = finding.place.scope.last().expect("a scope");
    let scope = SCOPES.iter().position(|(_, of)| of == name).expect("one of these");
    let blocks = model.blocks.iter().filter(|block| block.scope == scope).cloned();
    (scope, blocks.collect())
}

fn check(finding: &Finding, model: &Model) {
    let (scope, blocks) = of(model, finding);
    let count = |test: &dyn Fn(&Block) -> bool| blocks.iter().filter(|b| test(b)).count() as u64;
    let sum = |figure: &dyn Fn(&Block) -> u64| blocks.iter().map(figure).sum::<u64>();
    let figure = |key: &str| finding.figure(key).unwrap_or_else(|| panic!("{key} in {finding:?}"));
    let live = |b: &Block| b.freed.is_none();
    let within = |b: &Block, ns: u64| b.freed.is_some_and(|freed| freed.at - b.born <= ns);
    let freed = count(&|b| b.freed.is_some());
    match finding.kind {
        FindingKind::GrowsStepwise => {
            let grown: Vec<_> =
                blocks.iter().filter(|block| block.growths > 0 && block.has_grown()).collect();
            let of_grown =
                |figure: &dyn Fn(&Block) -> u64| grown.iter().map(|b| figure(b)).sum::<u64>();
            assert_eq!(figure("blocks"), grown.len() as u64);
            assert_eq!(figure("growths"), of_grown(&|b| b.growths));
            assert_eq!(finding.figure("moved").unwrap_or(0), of_grown(&|b| b.moved));
            assert_eq!(finding.figure("copied_bytes").unwrap_or(0), of_grown(&|b| b.copied));
            assert_eq!(Some(figure("largest_bytes")), grown.iter().map(|b| b.bytes).max());
            let reserve = figure("reserve_bytes");
            let fit = |size: u64| grown.iter().filter(|b| b.bytes <= size).count() * 10;
            assert!(reserve <= figure("largest_bytes") && fit(reserve) >= grown.len() * 9);
            assert!(fit(reserve.next_power_of_two() / 2) < grown.len() * 9);
        }
        FindingKind::LeftBehind => {
            let (before_end, at_end) = (figure("freed"), finding.figure("freed_at_end"));
            // What the program has freed as it ended is left, too, if that is not said by itself.
            let mut frees: Vec<_> = blocks.iter().filter_map(|b| Some(b.freed?.event)).collect();
            frees.sort_unstable();
            let at_least = frees.len().checked_sub((freed - before_end) as usize);
            let began = frees.get(at_least.expect("as many were freed"));
            let is_of_end =
                |b: &Block| began.zip(b.freed).is_some_and(|(began, free)| free.event >= *began);
            let is_left = |b: &Block| live(b) || at_end.is_none() && is_of_end(b);
            assert_eq!(figure("blocks"), count(&is_left));
            assert_eq!(at_end.unwrap_or(0) + count(&is_left) + before_end, count(&|_| true));
            assert_eq!(figure("bytes"), sum(&|b| if is_left(b) { b.bytes } else { 0 }));
            // They are as old as when the trace ends, or when frees begin that end the program.
            let born = sum(&|b| if is_left(b) { b.born } else { 0 });
            let all = model.blocks.iter().filter_map(|block| Some(block.freed?.at));
            let mut ends =
                all.chain([model.now]).map(|at| (at * count(&is_left)).saturating_sub(born));
            let is_age = |ages: u64| ages / count(&is_left) == figure("mean_age_ns");
            assert!(ends.any(is_age), "{finding:?}");
            let young = count(&|b| within(b, figure("freed_within_ns")));
            let siblings = before_end + at_end.unwrap_or(0);
            assert!(
                young * 100 >= before_end * 95 && siblings >= count(&is_left) * 20,
                "{young} of {freed}"
            );
            let one_in = (siblings + count(&is_left)) / count(&is_left);
            assert_eq!(finding.figure("one_in"), Some(one_in));
        }
        FindingKind::Queue => {
            let by = |stream: u16| count(&|b| b.freed.is_some_and(|freed| freed.stream == stream));
            assert_eq!((figure("passed"), figure("freed")), (by(3), by(2) + by(3)));
            let (_, at_peak, bytes) = model.at_peak;
            assert_eq!((figure("blocks"), figure("bytes")), (at_peak[scope], bytes[scope]));
            assert!(count(&|b| within(b, figure("median_ns"))) * 2 >= freed);
            for row in &finding.freed_by {
                assert_eq!(row.blocks, by(if row.thread == 1 { 2 } else { 3 }));
                assert_eq!(row.is_own, row.thread == 1);
            }
        }
        FindingKind::Temporary => {
            let other = finding.beside.as_deref().expect("beside what");
            let other = SCOPES.iter().position(|(_, of)| *of == other).expect("one of these");
            let (_, at_peak, bytes) = model.at_peak;
            assert_eq!((figure("blocks"), figure("bytes")), (at_peak[scope], bytes[scope]));
            assert_eq!(
                (figure("other_blocks"), figure("other_bytes")),
                (at_peak[other], bytes[other])
            );
        }
        FindingKind::AgainAndAgain => {
            let calls = count(&|_| true) + model.reallocations[scope];
            assert_eq!(
                (figure("calls"), figure("allocated_bytes")),
                (calls, model.allocated[scope])
            );
            let most = model.history.iter().map(|(_, live)| live[scope]).max();
            assert!(Some(figure("most_live_bytes")) >= most, "{finding:?} {most:?}");
        }
        other => panic!("{other:?} is new"),
    }
    let unique: std::collections::BTreeSet<_> = finding.figures.iter().map(|it| it.key).collect();
    assert_eq!(unique.len(), finding.figures.len());
}

fn act() -> impl Strategy<Value = (Act, u64)> {
    let scope = 0..SCOPES.len();
    let size = prop_oneof![Just(24_u64), Just(4097), 1_u64..3000];
    let act = prop_oneof![
        (scope.clone(), size.clone()).prop_map(|(scope, size)| Act::Churn { scope, size }),
        (scope.clone(), size.clone(), 0..5_u32, any::<bool>(), any::<bool>()).prop_map(
            |(scope, size, steps, in_place, kept)| Act::Grow { scope, size, steps, in_place, kept }
        ),
        (scope.clone(), size.clone()).prop_map(|(scope, size)| Act::Keep { scope, size }),
        (scope.clone(), size.clone()).prop_map(|(scope, size)| Act::Handoff { scope, size }),
        (scope.clone(), size.clone(), 0..200_usize, any::<bool>())
            .prop_map(|(scope, size, lag, slow)| Act::Queue { scope, size, lag, slow }),
        (scope, size, 0..9_usize, 2..200_u64).prop_map(|(scope, size, lag, leak)| Act::Late {
            scope,
            size,
            lag,
            leak
        }),
    ];
    (act, 1..4500_u64)
}

/// As many streams are made; `TEST_FINDINGS_CASES` asks for others.
fn cases() -> ProptestConfig {
    let asked = std::env::var("TEST_FINDINGS_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(asked.unwrap_or(500)) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_finding_is_as_a_naive_model_has_it(
        acts in proptest::collection::vec(act(), 1..5),
        free_scopes: bool,
        shift in prop_oneof![Just(0), Just(16)],
    ) {
        let model = Model { shift: Some(shift), ..Model::new(free_scopes) };
        let (report, _) = model.play(&acts).found();
        let mut text = Vec::new();
        text::write(&report, &Options::default(), &mut text).expect("memory takes everything");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..cases() })]

    #[test]
    fn findings_at_a_moment_are_those_of_a_trace_that_ends_there(
        acts in proptest::collection::vec(act(), 1..4),
        more in proptest::collection::vec(act(), 1..3),
    ) {
        let found = |mut model: Model| {
            let mut feed = model.feed.take().expect("it is there");
            let mut report = feed.report();
            feed.analyzer.find(&mut report, None);
            (report.peak_by, report.findings)
        };
        let mut alone = Model::new(true).play(&acts);
        let events = alone.feed().events;
        let until = Analyzer::observing(FindingsObserver::default()).by_bucket();
        let longer = Model::of(until.until(Position::Event(events)), true).play(&acts).play(&more);
        assert_eq!(found(longer), found(alone));
    }
}

/// The only finding of this kind.
fn only(mut found: Vec<Finding>, kind: &str) -> Finding {
    found.retain(|finding| finding.kind.key() == kind);
    assert_eq!(found.len(), 1, "{kind} in {found:#?}");
    found.remove(0)
}

fn kinds(acts: &[(Act, u64)]) -> Vec<&'static str> {
    Model::new(true).play(acts).kinds()
}

/// The same in a program that does nothing else.
fn kinds_of_work(acts: &[(Act, u64)]) -> Vec<&'static str> {
    Model { shift: Some(0), ..Model::new(true) }.play(acts).kinds()
}

#[test]
fn each_defect_is_found_and_nothing_else() {
    let grow = |in_place| {
        let (scope, size, steps, kept) = (0, 16, 4, false);
        vec![
            (Act::Grow { scope, size, steps, in_place, kept }, 2_500),
            (Act::Keep { scope: 2, size: 9_000 }, 300),
        ]
    };
    // What grows and is freed is made again and again for that.
    assert_eq!(kinds_of_work(&grow(false)), ["grows_stepwise"]);
    assert_eq!(kinds_of_work(&grow(true)), ["grows_stepwise"]);
    let churn = [(Act::Churn { scope: 1, size: 100 }, 10_000)];
    assert_eq!(kinds_of_work(&churn), ["again_and_again"]);
    assert_eq!(kinds(&churn), [""; 0]);
    let queue = |slow| [(Act::Queue { scope: 1, size: 2_000, lag: 100, slow }, 2_000)];
    assert_eq!(kinds(&queue(true)), ["queue"]);
    // It is full, and stays so.
    assert_eq!(kinds(&queue(false)), [""; 0]);
    let late = |leak| (Act::Late { scope: 1, size: 8_000, lag: 3, leak }, 9_000);
    assert_eq!(kinds(&[late(100)]), ["left_behind"]);
    assert_eq!(kinds(&[late(10_000)]), [""; 0]);
    let keep = |size, count| (Act::Keep { scope: 2, size }, count);
    assert_eq!(kinds(&[keep(24, 2_000), keep(4097, 1_500), late(10_000)]), [""; 0]);
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
