//! The number of entries of each scope.
//!
//! A thread counts in a table of its own, which has one word for each slot of the thread's cache of
//! nodes. Entering a scope adds one to such a word and shares nothing. When a word changes to
//! another node, and for every word when the thread ends, its count is added to the node's counter
//! in the [tree](super::context).
//!
//! ```text
//! word of a thread   u64 entries:46 | node:18        node's counter   entries added from words
//! ```
//! The tables are in pages that are never unmapped, so the worker can read a table even after its
//! thread has ended. A thread that ends returns its table for another thread.
#![expect(unsafe_code, reason = "tables are raw memory")]

use super::context;
use super::thread::CACHE;
use crate::platform::os;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Bits of a word that hold the node.
const NODE_BITS: u32 = context::CAPACITY.trailing_zeros();
/// One entry, as it is added to a word. NOTE: the count is above the node, so that a count that
/// wraps, after 2^46 entries of one scope by one thread, does not change the node.
const ONE: u64 = 1 << NODE_BITS;

/// The counters of one thread.
#[repr(C, align(128))]
pub(super) struct Counters {
    words: [AtomicU64; CACHE],
    /// The next of all tables.
    next: AtomicPtr<Counters>,
    taken: AtomicBool,
}

/// The table of a thread that has none: such a thread caches no nodes, so it never counts here.
pub(super) static NO_COUNTERS: Counters = Counters {
    words: [const { AtomicU64::new(0) }; CACHE],
    next: AtomicPtr::new(ptr::null_mut()),
    taken: AtomicBool::new(true),
};

/// The list of all tables; tables are never removed from it.
static ALL: AtomicPtr<Counters> = AtomicPtr::new(ptr::null_mut());
/// The number of free tables, or a few more.
static FREE: AtomicU64 = AtomicU64::new(0);
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Bytes mapped at a time, and the number of tables in them.
const CHUNK: usize = 16 << 10;
const PER_CHUNK: usize = CHUNK / size_of::<Counters>();

/// Bytes that all tables take.
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
    let is_ours = |table: &&Counters| {
        let was = table.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        was.is_ok()
    };
    if FREE.load(Ordering::Relaxed) > 0
        && let Some(table) = all().find(is_ours)
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
    // NOTE: added before the tables are linked, so `FREE` is never below the number of free tables
    // in the list.
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
            word.store(word.load(Ordering::Relaxed).wrapping_add(ONE), Ordering::Relaxed);
        }
    }

    /// Makes `word` count for `node`, or for none. Called by the owning thread only.
    pub(super) fn turn(&self, word: usize, node: u32) {
        let Some(word) = self.words.get(word) else { return };
        let counted = word.load(Ordering::Relaxed);
        // NOTE: in this order. A reader that sees these entries in the node's counter does not see
        // them in the word as well.
        word.store(node.into(), Ordering::Relaxed);
        if counted >= ONE {
            context::add_entries(node_of(counted), counted >> NODE_BITS);
        }
    }

    /// Returns the table when its thread ends.
    pub(super) fn give_back(&self) {
        (0..CACHE).for_each(|word| self.turn(word, context::NONE));
        FREE.fetch_add(1, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

fn node_of(word: u64) -> u32 {
    (word & (ONE - 1)) as u32
}

/// Calls `visit` with the counts of all threads that are not in a node's counter yet.
pub(super) fn visit(mut visit: impl FnMut(u32, u64)) {
    for word in all().flat_map(|table| &table.words) {
        let word = word.load(Ordering::Relaxed);
        if word >= ONE {
            visit(node_of(word), word >> NODE_BITS);
        }
    }
}
