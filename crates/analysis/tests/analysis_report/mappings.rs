//! What the program maps from the system, against a model that keeps every page.

use crate::buckets::{Sums, buckets_add_up, observed_adds_up};
use memledger_analysis::{Analyzer, Report};
use memledger_test_support::feed::Feed;
use memledger_test_support::feed::V::N;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const HEAP: u64 = 3;
/// The states, as docs/formats.md has them.
const RESERVED: u8 = 0;
const COMMITTED: u8 = 1;
const MAPPED: u8 = 2;
const FREED: u8 = 3;
const MOVED_FROM: u8 = 4;
const MOVED_TO: u8 = 5;
const PAGE: u64 = 4096;
const PAGES: usize = 48;
/// Where the pages are.
const START: u64 = 0x7f00_0000_0000;

/// An operation on pages: the first one, and their number.
#[derive(Clone, Debug)]
enum Op {
    Map(usize, usize),
    Reserve(usize, usize),
    Commit(usize, usize),
    Unmap(usize, usize),
    /// Moves pages: from, their number; to, the new number.
    Move(usize, usize, usize, usize),
    /// An event without a size: of the whole mapping at a page.
    UnmapAll(usize),
    /// From here on, the stream is in this scope.
    Enter(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    /// In the reservation with this number.
    Reserved(u32),
    /// In the block with this number, allocated in this scope.
    Block(u32, usize),
}

#[derive(Default)]
struct Model {
    pages: BTreeMap<usize, Page>,
    scope: usize,
    last: u32,
    peak: usize,
    /// Allocations, frees, reallocations.
    counts: [u64; 3],
}

impl Model {
    fn new_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn blocks(&self, pages: std::ops::Range<usize>) -> BTreeSet<u32> {
        let block = |page: &Page| match *page {
            Page::Block(number, _) => Some(number),
            Page::Reserved(_) => None,
        };
        self.pages.range(pages).filter_map(|(_, page)| block(page)).collect()
    }

    fn split(&mut self, at: usize) {
        let before = at.checked_sub(1).and_then(|page| self.pages.get(&page).copied());
        if let Some(Page::Block(number, scope)) = before {
            let new = self.new_number();
            let rest = self.pages.range_mut(at..).map(|(_, page)| page);
            rest.filter(|page| **page == Page::Block(number, scope))
                .for_each(|page| *page = Page::Block(new, scope));
        }
    }

    fn unmap(&mut self, at: usize, pages: usize) {
        self.split(at);
        self.split(at + pages);
        self.counts[1] += self.blocks(at..at + pages).len() as u64;
        self.pages.retain(|page, _| !(at..at + pages).contains(page));
    }

    fn map(&mut self, at: usize, pages: usize, page: Page) {
        self.pages.extend((at..at + pages).map(|number| (number, page)));
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Map(at, pages) => {
                self.unmap(at, pages);
                let block = Page::Block(self.new_number(), self.scope);
                self.map(at, pages, block);
                self.counts[0] += 1;
            }
            Op::Reserve(at, pages) => {
                self.unmap(at, pages);
                let reserved = Page::Reserved(self.new_number());
                self.map(at, pages, reserved);
            }
            Op::Commit(at, pages) => {
                // What is reserved of each reservation becomes a block.
                let mut before = None;
                let mut block = 0;
                for page in at..at + pages {
                    let reserved = self.pages.get(&page).copied();
                    let reserved = reserved.filter(|page| matches!(page, Page::Reserved(_)));
                    if reserved.is_some() {
                        if reserved != before {
                            block = self.new_number();
                            self.counts[0] += 1;
                        }
                        self.pages.insert(page, Page::Block(block, self.scope));
                    }
                    before = reserved;
                }
            }
            Op::Unmap(at, pages) => self.unmap(at, pages),
            Op::UnmapAll(at) => {
                let Some(&Page::Block(number, scope)) = self.pages.get(&at) else { return };
                if at.checked_sub(1).and_then(|page| self.pages.get(&page))
                    == Some(&Page::Block(number, scope))
                {
                    return; // No block begins here.
                }
                let pages = self.pages.values();
                let pages = pages.filter(|page| **page == Page::Block(number, scope)).count();
                self.unmap(at, pages);
            }
            Op::Move(from, pages, to, new_pages) => {
                self.split(from);
                self.split(from + pages);
                let all = from..from + pages;
                let blocks = self.blocks(all.clone());
                let first = self.pages.range(all.clone()).find_map(|(_, page)| match *page {
                    Page::Block(_, scope) => Some(scope),
                    Page::Reserved(_) => None,
                });
                let reserved = self.pages.range(all.clone()).next().is_some();
                self.pages.retain(|page, _| !all.contains(page));
                // The first block moves; the others are freed.
                self.counts[1] += blocks.len().saturating_sub(1) as u64;
                self.peak = self.peak.max(self.live());
                self.unmap(to, new_pages);
                if let Some(scope) = first {
                    let block = Page::Block(self.new_number(), scope);
                    self.map(to, new_pages, block);
                    self.counts[2] += 1;
                } else if reserved {
                    let reserved = Page::Reserved(self.new_number());
                    self.map(to, new_pages, reserved);
                }
            }
            Op::Enter(scope) => self.scope = scope,
        }
        self.peak = self.peak.max(self.live());
    }

    fn live(&self) -> usize {
        self.pages.values().filter(|page| matches!(page, Page::Block(..))).count()
    }
}

fn address(page: usize) -> u64 {
    START + page as u64 * PAGE
}

fn feed(ops: &[Op]) -> (Report, Sums) {
    let mut feed = Feed::ours(Analyzer::observing(Sums::default()).by_bucket());
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.spec(0, 101, 100, -1, "scope 1");
    feed.spec(0, 102, 100, -1, "scope 2");
    feed.thread(2, 1, "main");
    // A block of another heap, at an address of a mapping.
    feed.alloc(2, 0x10, 1);
    let mut scope = 0;
    for op in ops {
        let mut emit = |state: u8, at, pages: usize| {
            let size = N(pages as u64 * PAGE);
            let values = [N(address(at)), N(0), size, N(HEAP), N(state.into())];
            feed.emit("Memledger.Mapping", 2, &values);
        };
        match *op {
            Op::Map(at, pages) => emit(MAPPED, at, pages),
            Op::Reserve(at, pages) => emit(RESERVED, at, pages),
            Op::Commit(at, pages) => emit(COMMITTED, at, pages),
            Op::Unmap(at, pages) => emit(FREED, at, pages),
            Op::UnmapAll(at) => emit(FREED, at, 0),
            Op::Move(from, pages, to, new_pages) => {
                emit(MOVED_FROM, from, pages);
                emit(MOVED_TO, to, new_pages);
            }
            Op::Enter(next) => {
                if scope != 0 {
                    feed.leave(2);
                }
                if next != 0 {
                    feed.enter(2, 100 + next as i32);
                }
                scope = next;
            }
        }
    }
    let report = feed.report();
    (report, std::mem::take(feed.analyzer.observer_mut()))
}

/// The first of some pages, and their number.
fn pages() -> impl Strategy<Value = (usize, usize)> {
    (0..PAGES - 1, 1..PAGES / 3).prop_map(|(at, pages)| (at, pages.min(PAGES - at)))
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let slots = (0_usize..6).prop_map(|slot| (slot * 8, 7));
    let op = prop_oneof![
        3 => pages().prop_map(|(at, pages)| Op::Map(at, pages)),
        2 => slots.prop_map(|(at, pages)| Op::Reserve(at, pages)),
        3 => pages().prop_map(|(at, pages)| Op::Commit(at, pages)),
        3 => pages().prop_map(|(at, pages)| Op::Unmap(at, pages)),
        1 => (0..PAGES).prop_map(Op::UnmapAll),
        2 => (pages(), pages()).prop_map(|((from, pages), (to, new))| Op::Move(from, pages, to, new)),
        2 => (0_usize..3).prop_map(Op::Enter),
    ];
    vec(op, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]
    #[test]
    fn mappings_are_those_of_a_model_of_pages(ops in ops()) {
        let mut model = Model::default();
        ops.iter().for_each(|op| model.apply(op));
        let (report, observed) = feed(&ops);
        observed_adds_up(&report, &observed);
        buckets_add_up(&report);
        let bytes = |pages: usize| pages as u64 * PAGE;
        prop_assert_eq!(report.totals.live_bytes, bytes(model.live()) + 1);
        prop_assert_eq!(report.totals.peak_bytes, bytes(model.peak) + 1);
        for scope in 0..3 {
            let name = ["GlobalScope", "scope 1", "scope 2"][scope];
            let row = report.by_scope.iter().find(|row| row.path.last().is_some_and(|last| last == name));
            let own = |page: &&Page| matches!(page, Page::Block(_, owner) if *owner == scope);
            let expected = bytes(model.pages.values().filter(own).count()) + u64::from(scope == 0);
            prop_assert_eq!(row.map_or(0, |row| row.figures.live_bytes), expected, "{}", name);
        }
        let mapped = report.by_heap.iter().find(|row| u64::from(row.id) == HEAP).map(|row| row.figures);
        let mapped = mapped.unwrap_or_default();
        prop_assert_eq!(mapped.reallocations, model.counts[2]);
        let moved = ops.iter().any(|op| matches!(op, Op::Move(..)));
        if !moved {
            prop_assert_eq!([mapped.allocations, mapped.frees], [model.counts[0], model.counts[1]]);
            prop_assert_eq!(mapped.live_blocks, model.blocks(0..PAGES).len() as u64);
        }
        prop_assert_eq!(
            mapped.live_blocks + mapped.frees + mapped.moved_out.blocks,
            mapped.allocations + mapped.moved_in.blocks
        );
        prop_assert_eq!(report.losses.duplicate_allocations + report.losses.unmatched_frees, 0);
    }
}
