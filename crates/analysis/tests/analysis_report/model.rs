//! The analyzer against a model that keeps every block for ever and recomputes every row from
//! scratch after every step.

mod report_rows;

use crate::buckets::{Sums, buckets_add_up, observed_adds_up};
use crate::ops::{Op, ops};
use memledger_analysis::{Analyzer, BlockObserver, Figures, Moves, Report};
use memledger_test_support::feed::{Feed, V::N};
use proptest::prelude::*;
use report_rows::{columns_add_up, rows};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Path = Vec<&'static str>;

/// The subject of a row of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Scope(Path),
    ScopeAndBelow(Path),
    Group(Path),
    GroupAndBelow(Path),
    Name(Path, &'static str),
    Thread(u32),
    Heap(u64),
    Size(u64),
    /// The frames of a stack; none without one.
    Stack(Vec<u64>),
}

/// What a block counts under.
#[derive(Clone, Debug, PartialEq)]
struct Owner {
    scope: Path,
    group: Path,
    name: &'static str,
    thread: u32,
    heap: u64,
    class: u64,
    stack: u32,
}

/// Stacks by id: their frames, innermost first. Two ids have the same.
pub const STACKS: &[&[u64]] =
    &[&[], &[0x1010, 0x1020], &[0x1011, 0x1020], &[0x1010, 0x1020], &[0x1020]];

impl Owner {
    fn keys(&self) -> BTreeSet<Key> {
        let mut keys = BTreeSet::from([
            Key::Scope(self.scope.clone()),
            Key::Group(self.group.clone()),
            Key::Name(self.group.clone(), self.name),
            Key::Thread(self.thread),
            Key::Heap(self.heap),
            Key::Size(self.class),
            Key::Stack(STACKS[self.stack as usize].to_vec()),
        ]);
        keys.extend((1..=self.scope.len()).map(|n| Key::ScopeAndBelow(self.scope[..n].to_vec())));
        keys.extend((1..=self.group.len()).map(|n| Key::GroupAndBelow(self.group[..n].to_vec())));
        keys
    }
}

#[derive(Clone, Debug)]
struct Block {
    address: u64,
    size: u64,
    owner: Owner,
    live: bool,
    at: u64,
    /// How many allocations its thread had made with it.
    stamp: u64,
}

/// One entry of history, under the owner of then.
enum Entry {
    Allocated(u64),
    Freed { short: bool },
    Reallocated(u64),
    NotReallocated(u64),
    Grown(u64),
}

#[derive(Default)]
struct Stream {
    thread: u32,
    scopes: Vec<i32>,
    pending: Vec<Option<usize>>,
}

/// Contexts by id: scope, group, name.
pub const CONTEXTS: &[(i32, &[&str], &[&str], &str)] = &[
    (0, &["GlobalScope"], &["Unknown"], "Unnamed"),
    (101, &["GlobalScope", "a"], &["Unknown"], "Unnamed"),
    (102, &["GlobalScope", "a", "b"], &["Unknown"], "Unnamed"),
    (103, &["GlobalScope", "b"], &["Unknown"], "Unnamed"),
    (104, &["GlobalScope", "a"], &["Unknown"], "Unnamed"), // the same text under another id
    (300, &["GlobalScope", "a", "b"], &["G", "H"], "X"),
    (301, &["GlobalScope", "a"], &["G"], "X"),
    (302, &["GlobalScope"], &["G", "H"], "Y"),
    (303, &["GlobalScope", "b"], &["G"], "Unnamed"),
];

pub fn announce<O: BlockObserver>(feed: &mut Feed<O>) {
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.spec(0, 101, 100, -1, "a");
    feed.spec(0, 102, 104, -1, "b");
    feed.spec(0, 103, 100, -1, "b");
    feed.spec(0, 104, 100, -1, "a");
    feed.spec(1, 200, -1, -1, "G");
    feed.spec(1, 201, 200, -1, "H");
    feed.spec(2, 210, 201, -1, "X");
    feed.spec(2, 211, 200, -1, "X");
    feed.spec(2, 212, 201, -1, "Y");
    feed.spec(2, 213, 200, -1, "Unnamed");
    feed.spec(3, 300, 102, 210, "");
    feed.spec(3, 301, 101, 211, "");
    feed.spec(3, 302, 100, 212, "");
    feed.spec(3, 303, 103, 213, "");
}

/// The root heap of an address. A block that is reallocated stays in its heap.
pub fn heap_of(address: u64) -> u64 {
    [0, 2, 15][(address / 16 % 3) as usize]
}

/// The owner of a block, and its size at that time.
type Held = (Owner, u64);

#[derive(Default)]
struct Model {
    blocks: Vec<Block>,
    streams: HashMap<u16, Stream>,
    allocations: HashMap<u32, u64>,
    history: Vec<(Owner, Entry)>,
    /// Before and after; `None` for a block that left the ledger.
    moves: Vec<(Held, Option<Held>)>,
    peaks: BTreeMap<Key, u64>,
    total_peak: u64,
    peak_blocks: u64,
    peak_at: u64,
    at_peak: BTreeMap<Key, (u64, u64)>,
    blocks_at_peak: u64,
    now: u64,
    unmatched: u64,
    duplicates: u64,
    reported: bool,
    after: (u64, u64, u64),
}

impl Model {
    /// Looks at all blocks after a step.
    fn step(&mut self) {
        if self.reported {
            return;
        }
        let mut rows = BTreeMap::<Key, (u64, u64)>::new();
        let (mut blocks, mut bytes) = (0, 0);
        for block in self.blocks.iter().filter(|block| block.live) {
            (blocks, bytes) = (blocks + 1, bytes + block.size);
            for key in block.owner.keys() {
                let row = rows.entry(key).or_default();
                *row = (row.0 + 1, row.1 + block.size);
            }
        }
        for (key, &(_, bytes)) in &rows {
            let peak = self.peaks.entry(key.clone()).or_default();
            *peak = (*peak).max(bytes);
        }
        self.peak_blocks = self.peak_blocks.max(blocks);
        if bytes > self.total_peak {
            (self.total_peak, self.peak_at, self.blocks_at_peak) = (bytes, self.now, blocks);
            self.at_peak = rows;
        }
    }

    fn note(&mut self, owner: Owner, entry: Entry) {
        if !self.reported {
            self.history.push((owner, entry));
        }
    }

    fn live_at(&self, address: u64) -> Option<usize> {
        self.blocks.iter().position(|block| block.live && block.address == address)
    }

    fn context(&self, stream: u16) -> (Path, Path, &'static str) {
        let id = self.streams[&stream].scopes.last().copied().unwrap_or(0);
        let &(_, scope, group, name) = CONTEXTS.iter().find(|c| c.0 == id).expect("announced");
        (scope.to_vec(), group.to_vec(), name)
    }

    fn replace(&mut self, address: u64) {
        if let Some(old) = self.live_at(address) {
            self.blocks[old].live = false;
            let (owner, size) = (self.blocks[old].owner.clone(), self.blocks[old].size);
            if !self.reported {
                self.duplicates += 1;
                self.moves.push(((owner, size), None));
            }
        }
    }

    fn alloc(&mut self, stream: u16, address: u64, size: u64, stack: u32) {
        self.replace(address);
        let (scope, group, name) = self.context(stream);
        let thread = self.streams[&stream].thread;
        let class = class_of(size);
        let heap = heap_of(address);
        let owner = Owner { scope, group, name, thread, heap, class, stack };
        let stamp = self.allocations.entry(thread).or_default();
        *stamp += 1;
        let stamp = *stamp;
        let block = Block { address, size, owner: owner.clone(), live: true, at: self.now, stamp };
        self.blocks.push(block);
        self.note(owner, Entry::Allocated(size));
        if self.reported {
            self.after.0 += 1;
            self.after.2 += size;
        }
        self.step();
    }

    fn free(&mut self, stream: u16, address: u64) {
        let thread = self.streams[&stream].thread;
        let Some(block) = self.live_at(address) else {
            self.unmatched += u64::from(!self.reported);
            return;
        };
        self.blocks[block].live = false;
        let block = self.blocks[block].clone();
        let short =
            block.owner.thread == thread && self.allocations.get(&thread) == Some(&block.stamp);
        self.note(block.owner, Entry::Freed { short });
        self.after.1 += u64::from(self.reported);
        self.step();
    }

    fn realloc_free(&mut self, stream: u16, address: u64) {
        let block = self.live_at(address);
        if let Some(block) = block {
            self.blocks[block].live = false;
        } else {
            self.unmatched += u64::from(!self.reported);
        }
        self.streams.get_mut(&stream).expect("a stream").pending.push(block);
        self.step();
    }

    /// The second half; whether it went on with a known block.
    fn realloc_alloc(&mut self, stream: u16, address: u64, size: u64, stack: u32) -> Option<usize> {
        let pending = self.streams.get_mut(&stream).expect("a stream").pending.pop().flatten();
        let Some(block) = pending else {
            self.alloc(stream, address, size, stack);
            return None;
        };
        self.replace(address);
        let old = self.blocks[block].clone();
        let stack = if stack == 0 { old.owner.stack } else { stack };
        let owner = Owner { class: class_of(size), stack, ..old.owner.clone() };
        if old.owner != owner && !self.reported {
            self.moves.push(((old.owner.clone(), old.size), Some((owner.clone(), size))));
        }
        self.blocks[block] = Block { address, size, live: true, owner, ..old };
        self.note(self.blocks[block].owner.clone(), Entry::Reallocated(size));
        self.after.2 += if self.reported { size } else { 0 };
        self.step();
        Some(block)
    }

    fn grow(&mut self, address: u64, size: u64) {
        let block = self.live_at(address).expect("just allocated");
        let more = size - self.blocks[block].size;
        self.blocks[block].size = size;
        self.note(self.blocks[block].owner.clone(), Entry::Grown(more));
        self.after.2 += if self.reported { more } else { 0 };
        self.step();
    }

    fn retag(&mut self, stream: u16, address: u64) {
        let Some(block) = self.live_at(address) else { return };
        let (_, group, name) = self.context(stream);
        let old = self.blocks[block].owner.clone();
        let new = Owner { group, name, ..old.clone() };
        self.blocks[block].owner = new.clone();
        if old != new && !self.reported {
            let size = self.blocks[block].size;
            self.moves.push(((old, size), Some((new, size))));
        }
        self.step();
    }

    /// Every row, and the totals.
    fn rows(&self) -> Rows {
        let mut rows = BTreeMap::<Key, Figures>::new();
        let mut totals = Figures::default();
        for (owner, entry) in &self.history {
            for key in owner.keys() {
                count(rows.entry(key).or_default(), entry);
            }
            count(&mut totals, entry);
        }
        let add = |moves: &mut Moves, bytes| {
            moves.blocks += 1;
            moves.bytes += bytes;
        };
        for ((from, bytes), to) in &self.moves {
            let from = from.keys();
            let to_keys = to.as_ref().map(|(to, _)| to.keys()).unwrap_or_default();
            for key in from.difference(&to_keys) {
                add(&mut rows.entry(key.clone()).or_default().moved_out, *bytes);
            }
            for (key, bytes) in to
                .iter()
                .flat_map(|(_, bytes)| to_keys.difference(&from).map(move |key| (key, *bytes)))
            {
                add(&mut rows.entry(key.clone()).or_default().moved_in, bytes);
            }
            if to.is_none() {
                add(&mut totals.moved_out, *bytes);
            }
        }
        for block in self.blocks.iter().filter(|block| block.live) {
            for key in block.owner.keys() {
                let row = rows.entry(key).or_default();
                row.live_blocks += 1;
                row.live_bytes += block.size;
            }
            totals.live_blocks += 1;
            totals.live_bytes += block.size;
        }
        // The first half of a reallocation whose second half has not come counts as a free.
        for pending in self.streams.values().flat_map(|s| s.pending.iter().flatten()) {
            for key in self.blocks[*pending].owner.keys() {
                rows.entry(key).or_default().frees += 1;
            }
            totals.frees += 1;
        }
        for (key, row) in &mut rows {
            row.peak_bytes = self.peaks.get(key).copied().unwrap_or(0);
            (row.live_blocks_at_peak, row.live_bytes_at_peak) =
                self.at_peak.get(key).copied().unwrap_or_default();
        }
        (rows, totals)
    }
}

/// The largest size in the class of a block of `size` bytes; the last class has all above 1 GiB.
fn class_of(size: u64) -> u64 {
    size.max(16).next_power_of_two().min(LAST_CLASS)
}

const LAST_CLASS: u64 = 1 << 31;

fn count(row: &mut Figures, entry: &Entry) {
    match *entry {
        Entry::Allocated(size) => {
            row.allocations += 1;
            row.allocated_bytes += size;
        }
        Entry::Freed { short } => {
            row.frees += 1;
            row.short_lived += u64::from(short);
        }
        Entry::Reallocated(size) => {
            row.reallocations += 1;
            row.allocated_bytes += size;
        }
        Entry::NotReallocated(size) => {
            row.reallocations -= 1;
            row.allocated_bytes -= size;
        }
        Entry::Grown(size) => row.allocated_bytes += size,
    }
}

/// All rows, and the totals.
type Rows = (BTreeMap<Key, Figures>, Figures);

/// Runs the operations through both; the rows of the model as they were at the report.
fn run(ops: &[Op]) -> (Report, Model, Option<Rows>, Sums) {
    let mut feed = Feed::ours(Analyzer::observing(Sums::default()).by_bucket());
    announce(&mut feed);
    feed.heap_of = heap_of;
    feed.module("program", 0x1000, 0x100);
    for (id, frames) in (0..).zip(STACKS).skip(1) {
        feed.stack(id, frames);
    }
    let mut model = Model::default();
    for stream in 2..5 {
        feed.thread(stream, 1, "one");
        model.streams.insert(stream, Stream { thread: 1, ..Stream::default() });
    }
    let mut at_report = None;
    for op in ops {
        let live: Vec<u64> =
            model.blocks.iter().filter(|block| block.live).map(|block| block.address).collect();
        let pick = |which: usize| live.get(which % live.len().max(1)).copied().unwrap_or(16 * 99);
        match *op {
            Op::Alloc { stream, address, size, stack } => {
                feed.alloc_at(stream, address, size, stack);
                model.alloc(stream, address, size, stack);
            }
            Op::Huge { stream, address } => {
                let saturated = (1 << 35) - 1;
                feed.alloc(stream, address, saturated);
                feed.emit("Memledger.LargeSize", stream, &[N(address), N(1 << 36)]);
                model.alloc(stream, address, saturated, 0);
                model.grow(address, 1 << 36);
            }
            Op::Free { stream, address } => {
                feed.free(stream, address);
                model.free(stream, address);
            }
            Op::FreeLive { stream, which } => {
                feed.free(stream, pick(which));
                model.free(stream, pick(which));
            }
            Op::ReallocFree { stream, which } => {
                feed.realloc_free(stream, pick(which));
                model.realloc_free(stream, pick(which));
            }
            Op::ReallocAlloc { stream, address, size, stack, fails } => {
                let had_first_half = !model.streams[&stream].pending.is_empty();
                feed.realloc_alloc_at(stream, address, size, stack);
                let known = model.realloc_alloc(stream, address, size, stack);
                if fails && had_first_half {
                    feed.emit("Memledger.ReallocFailed", stream, &[N(address)]);
                    if let Some(block) = known {
                        model.after.2 -= if model.reported { size } else { 0 };
                        model.note(model.blocks[block].owner.clone(), Entry::NotReallocated(size));
                    } else if !model.reported {
                        model.unmatched -= 1;
                    }
                }
            }
            Op::Enter { stream, context } => {
                feed.enter(stream, CONTEXTS[context].0);
                model.streams.get_mut(&stream).expect("it").scopes.push(CONTEXTS[context].0);
            }
            Op::Leave { stream } => {
                feed.leave(stream);
                model.streams.get_mut(&stream).expect("it").scopes.pop();
            }
            Op::Retag { stream, which } => {
                let address = pick(which);
                feed.emit("Memory.UpdateAlloc", stream, &[N(address), N(heap_of(address))]);
                model.retag(stream, pick(which));
            }
            Op::Marker { after } => {
                model.now += after;
                feed.marker(model.now);
            }
            Op::Thread { stream, id } => {
                feed.thread(stream, id, "t");
                if model.streams[&stream].thread != id {
                    let pending =
                        std::mem::take(&mut model.streams.get_mut(&stream).expect("it").pending);
                    // Their second halves never come: they were frees.
                    for block in pending.into_iter().flatten() {
                        model
                            .note(model.blocks[block].owner.clone(), Entry::Freed { short: false });
                    }
                    model.streams.insert(stream, Stream { thread: id, ..Stream::default() });
                }
            }
            Op::Report => {
                at_report = Some(model.rows());
                model.reported = true;
                feed.our_report(model.now);
            }
        }
    }
    let report = feed.report();
    let observed = std::mem::take(feed.analyzer.observer_mut());
    (report, model, at_report, observed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_row_is_as_a_naive_model_has_it(
        ops in prop_oneof![ops(0), ops(STACKS.len() as u32 - 1)],
    ) {
        let (report, model, at_report, observed) = run(&ops);
        let (expected, totals) = at_report.unwrap_or_else(|| model.rows());
        let has_stacks = !report.by_stack.is_empty();
        let counts = |key: &Key, figures: &Figures| {
            *figures != Figures::default() && (has_stacks || !matches!(key, Key::Stack(_)))
        };
        let expected: BTreeMap<_, _> =
            expected.into_iter().filter(|(key, figures)| counts(key, figures)).collect();
        prop_assert_eq!(rows(&report), expected);
        columns_add_up(&report);
        buckets_add_up(&report);
        observed_adds_up(&report, &observed);
        memledger_test_support::page::Page::of_report(&report);
        let got = report.totals;
        prop_assert_eq!(
            (got.allocations, got.frees, got.reallocations, got.allocated_bytes, got.short_lived),
            (totals.allocations, totals.frees, totals.reallocations, totals.allocated_bytes,
             totals.short_lived)
        );
        prop_assert_eq!((got.live_blocks, got.live_bytes), (totals.live_blocks, totals.live_bytes));
        prop_assert_eq!((got.moved_in, got.moved_out), (totals.moved_in, totals.moved_out));
        prop_assert_eq!(
            (got.peak_bytes, got.peak_bytes_at_ns, got.blocks_at_peak, got.peak_blocks),
            (model.total_peak, model.peak_at, model.blocks_at_peak, model.peak_blocks)
        );
        let losses = report.losses;
        prop_assert_eq!(
            (losses.unmatched_frees, losses.duplicate_allocations),
            (model.unmatched, model.duplicates)
        );
        let after = report.after_report;
        prop_assert_eq!((after.allocations, after.frees, after.allocated_bytes), model.after);
        if !model.reported {
            let mut largest: Vec<_> = model.blocks.iter().filter(|block| block.live).collect();
            largest.sort_by_key(|block| (u64::MAX - block.size, block.at, block.address));
            let largest: Vec<_> =
                largest.iter().map(|b| (b.address, b.size, b.at, b.owner.name)).collect();
            let got: Vec<_> = report.largest_live.iter()
                .map(|b| (b.address, b.bytes, b.allocated_at_ns, b.name.as_str())).collect();
            prop_assert_eq!(got, largest);
        }
    }
}
