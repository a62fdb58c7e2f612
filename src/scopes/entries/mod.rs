//! The number of entries of each scope.
//!
//! A thread counts in a table of its own, which has one word for each slot of the thread's [node
//! cache](super::current). Entering a scope adds one to a word, without a locked instruction. When
//! the slot of a word gets another node, or the thread ends, the count in the word is added to the
//! node's counter in the [tree](super::tree).
//!
//! ```text
//! word of a thread   u64 entries:46 | node:18  --moves to-->  counter of a node   u64 entries
//! ```
//! The tables are never unmapped, so the worker can read a table after its thread has ended. A
//! thread that ends returns its table for another thread.
#![expect(unsafe_code, reason = "tables are raw memory")]

mod totals;

pub(super) use totals::read;

use super::tree;
use crate::platform::os;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The number of words of a table, and of slots of a thread's node cache. It is a power of two, and
/// so small that the node cache stays in the processor's first-level data cache beside the
/// program's data.
pub(super) const SLOTS: usize = 64;

const NODE_BITS: u32 = tree::CAPACITY.trailing_zeros();
/// One entry in a word. NOTE: the count is in the upper bits, so that it does not change the node
/// when it wraps after 2^46 entries.
const ONE_ENTRY: u64 = 1 << NODE_BITS;

#[repr(C, align(128))]
pub(super) struct Counters {
    words: [AtomicU64; SLOTS],
    /// The next table of the list of all tables.
    next: AtomicPtr<Counters>,
    taken: AtomicBool,
}

/// The placeholder for a thread that has no table. Such a thread caches no nodes, so it never
/// counts in this table.
pub(super) static NO_COUNTERS: Counters = Counters {
    words: [const { AtomicU64::new(0) }; SLOTS],
    next: AtomicPtr::new(ptr::null_mut()),
    taken: AtomicBool::new(true),
};

/// The list of all tables; tables are never removed from it.
static ALL: AtomicPtr<Counters> = AtomicPtr::new(ptr::null_mut());
/// The number of free tables. It can be too high for an instant, but is never too low.
static FREE: AtomicU64 = AtomicU64::new(0);
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Bytes mapped at a time, and the number of tables in them.
const CHUNK: usize = 16 << 10;
const PER_CHUNK: usize = CHUNK / size_of::<Counters>();

pub(super) fn bytes() -> u64 {
    MAPPED.load(Ordering::Relaxed)
}

fn all() -> impl Iterator<Item = &'static Counters> {
    // SAFETY: the list links only tables, which stay mapped until the process ends.
    let get = |table: &AtomicPtr<Counters>| unsafe { table.load(Ordering::Acquire).as_ref() };
    std::iter::successors(get(&ALL), move |table: &&'static Counters| get(&table.next))
}

/// A table for this thread, or `None` if the system has no memory.
pub(super) fn take() -> Option<&'static Counters> {
    let try_take = |table: &&Counters| {
        let was = table.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        was.is_ok()
    };
    if FREE.load(Ordering::Relaxed) > 0
        && let Some(table) = all().find(try_take)
    {
        FREE.fetch_sub(1, Ordering::Relaxed);
        return Some(table);
    }
    map_tables()
}

/// Maps more tables; returns the first, which is marked as taken.
fn map_tables() -> Option<&'static Counters> {
    let first: NonNull<Counters> = os::map(CHUNK)?.cast();
    // SAFETY: zeroed pages are valid tables and stay mapped; the chunk has room for `PER_CHUNK` of
    // them.
    let table = |number: usize| unsafe { first.add(number).as_ref() };
    for number in 1..PER_CHUNK {
        let next = ptr::from_ref(table(number)).cast_mut();
        table(number - 1).next.store(next, Ordering::Relaxed);
    }
    table(0).taken.store(true, Ordering::Relaxed);
    let last = table(PER_CHUNK - 1);
    // NOTE: `FREE` changes before the tables are linked, so that it is never too low.
    FREE.fetch_add(PER_CHUNK as u64 - 1, Ordering::Relaxed);
    MAPPED.fetch_add(CHUNK as u64, Ordering::Relaxed);
    let mut head = ALL.load(Ordering::Relaxed);
    loop {
        last.next.store(head, Ordering::Relaxed);
        let swap =
            ALL.compare_exchange_weak(head, first.as_ptr(), Ordering::Release, Ordering::Relaxed);
        match swap {
            Ok(_) => return Some(table(0)),
            Err(now) => head = now,
        }
    }
}

impl Counters {
    /// Counts an entry of the node of this word. Called by the owning thread only.
    ///
    /// PERF: a load and a store; the owning thread is the only writer, so no locked instruction is
    /// needed.
    #[inline(always)]
    pub(super) fn count(&self, word: usize) {
        if let Some(word) = self.words.get(word) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(ONE_ENTRY), Ordering::Relaxed);
        }
    }

    /// Makes `word` count for `node`, or for no node. Called by the owning thread only.
    pub(super) fn assign(&self, word: usize, node: u32) {
        let Some(word) = self.words.get(word) else { return };
        let counted = word.load(Ordering::Relaxed);
        // NOTE: the word is cleared before its count is added to the node's counter, so that a
        // reader does not count an entry twice.
        word.store(node.into(), Ordering::Relaxed);
        if counted >= ONE_ENTRY {
            add(node_of(counted), counted >> NODE_BITS);
        }
    }

    /// Returns the table when its thread ends.
    pub(super) fn give_back(&self) {
        (0..SLOTS).for_each(|word| self.assign(word, tree::NONE));
        FREE.fetch_add(1, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

/// Adds `entries` to the node's counter.
pub(super) fn add(node: u32, entries: u64) {
    if let Some(counter) = tree::entry_counter(node) {
        // Release: a reader that sees the new count also sees this thread's earlier stores, such as
        // the one that cleared the word of these entries.
        counter.fetch_add(entries, Ordering::Release);
    }
}

fn node_of(word: u64) -> u32 {
    (word & (ONE_ENTRY - 1)) as u32
}

/// Calls `visit` with the node and the count of every word.
fn visit(mut visit: impl FnMut(u32, u64)) {
    for word in all().flat_map(|table| &table.words) {
        let word = word.load(Ordering::Relaxed);
        if word >= ONE_ENTRY {
            visit(node_of(word), word >> NODE_BITS);
        }
    }
}
