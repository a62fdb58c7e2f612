//! How often scopes are entered.
//!
//! A thread counts in a table of its own, one word beside each answer that it remembers, so that
//! entering a scope adds one to a word of its own and shares nothing. A word that gets another node,
//! and every word at the thread's end, is added to the node's counter in the [tree](super::context).
//!
//! ```text
//! word of a thread   u64 entries:46 | node:18        node's counter   what words have left behind
//! ```
//! The tables are in pages that are never unmapped, so the worker can read a table whatever has become
//! of its thread. One is given back where its thread ends, for the next thread.
#![expect(unsafe_code, reason = "tables are raw memory")]

use super::context;
use super::thread::CACHE;
use crate::trace::os;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Bits of a word that name the node.
const NODE_BITS: u32 = context::CAPACITY.trailing_zeros();
/// One entry, as it is added to a word. NOTE: above the node, so that a count that wraps, after 2^46
/// entries of one scope by one thread, does not get into it.
const ONE: u64 = 1 << NODE_BITS;

/// The counters of one thread.
#[repr(C, align(128))]
pub(super) struct Counters {
    words: [AtomicU64; CACHE],
    /// The next of all tables.
    next: AtomicPtr<Counters>,
    taken: AtomicBool,
}

/// What a thread has that counts nothing itself: it remembers no answer, so it finds no word here.
pub(super) static NO_COUNTERS: Counters = Counters {
    words: [const { AtomicU64::new(0) }; CACHE],
    next: AtomicPtr::new(ptr::null_mut()),
    taken: AtomicBool::new(true),
};

/// All tables; only ever added to.
static ALL: AtomicPtr<Counters> = AtomicPtr::new(ptr::null_mut());
/// How many are not taken, or a few more.
static FREE: AtomicU64 = AtomicU64::new(0);
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Bytes that are mapped at a time, and the tables in them.
const CHUNK: usize = 16 << 10;
const PER_CHUNK: usize = CHUNK / size_of::<Counters>();

/// Bytes that all tables take.
pub(super) fn bytes() -> u64 {
    MAPPED.load(Ordering::Relaxed)
}

fn all() -> impl Iterator<Item = &'static Counters> {
    // SAFETY: what is linked there are tables, which are mapped for good.
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

/// Maps more tables; returns the first, which is taken.
fn map_tables() -> Option<&'static Counters> {
    let first: NonNull<Counters> = os::map(CHUNK)?.cast();
    // SAFETY: zeroed pages are valid tables, and mapped for good; so many fit.
    let table = |number: usize| unsafe { first.add(number).as_ref() };
    for number in 1..PER_CHUNK {
        let next = ptr::from_ref(table(number)).cast_mut();
        table(number - 1).next.store(next, Ordering::Relaxed);
    }
    table(0).taken.store(true, Ordering::Relaxed);
    let last = table(PER_CHUNK - 1);
    // NOTE: before they are there. The number is never below that of the tables to be found.
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
    /// Counts an entry of the node whose word this is. For the thread itself.
    ///
    /// PERF: a load and a store, which nobody else writes between: no locked instruction.
    #[inline(always)]
    pub(super) fn count(&self, word: usize) {
        if let Some(word) = self.words.get(word) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(ONE), Ordering::Relaxed);
        }
    }

    /// From here on `word` counts for `node`, or for none. For the thread itself.
    pub(super) fn turn(&self, word: usize, node: u32) {
        let Some(word) = self.words.get(word) else { return };
        let counted = word.load(Ordering::Relaxed);
        // NOTE: in this order. A reader that finds the entries in the node's counter does not find
        // them here, too.
        word.store(node.into(), Ordering::Relaxed);
        if counted >= ONE {
            context::add_entries(node_of(counted), counted >> NODE_BITS);
        }
    }

    /// Ends with its thread.
    pub(super) fn give_back(&self) {
        (0..CACHE).for_each(|word| self.turn(word, context::NONE));
        FREE.fetch_add(1, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

fn node_of(word: u64) -> u32 {
    (word & (ONE - 1)) as u32
}

/// Calls `visit` with what threads have counted that is not in a node's counter yet.
pub(super) fn visit(mut visit: impl FnMut(u32, u64)) {
    for word in all().flat_map(|table| &table.words) {
        let word = word.load(Ordering::Relaxed);
        if word >= ONE {
            visit(node_of(word), word >> NODE_BITS);
        }
    }
}
