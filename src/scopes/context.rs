//! The tree of contexts: one table for the process, only ever added to, without locks.
//!
//! ```text
//! kind      parent            owner       name           e.g.
//! Scope     enclosing stack   -           its own        GlobalScope / load level / parse
//! Scope     enclosing stack   a number    its own        a measurement: no other has its number
//! Group     group or none     -           its own        Rendering / Textures
//! Tag       its group         -           its own        Rendering / Mesh::texture_coordinates
//! Context   stack             tag         its tag's      the two together
//! Name      -                 -           its own        a dynamic name, kept once
//! ```
//! A node's number is its place in the table. Nodes are found by kind, parent, owner and the text
//! of the name, so two call sites with the same name are one node. Number 0 is the root
//! (`GlobalScope`, no tag); number 1 is `(other)`, which stands for all stacks that found the
//! table full or went too deep.
//!
//! A node is written first, then marked ready, then linked into its bucket: whoever finds it finds
//! it whole. Two threads that add the same node at once may leave one copy that is ready and
//! never found; it only costs its line in the trace.
//!
//! The hook never comes here: it reads a number from thread-local storage.
#![expect(unsafe_code, reason = "the table is raw memory")]

use super::entries;
use crate::platform::os;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The context of a thread that is in no scope.
pub(crate) const ROOT: u32 = 0;
/// The stack that stands for all that have no node of their own.
pub(crate) const OTHER: u32 = 1;
/// No parent, no owner, no tag.
pub(crate) const NONE: u32 = 0;

/// Nodes at most: what a program names by hand is some thousands; beyond this, names are data.
pub(super) const CAPACITY: usize = 1 << 18;
const BUCKETS: usize = 1 << 16;
const FIRST: u32 = 2;
/// Of these, the program's.
pub(crate) const PLACES: usize = CAPACITY - FIRST as usize;

/// Scopes within each other that have nodes of their own; what is deeper is `(other)`.
const MAX_DEPTH: usize = 255;

/// Ids on the wire begin above those Unreal gives its own tags.
const WIRE_BASE: u32 = 0x0100_0000;

/// The id that stands for a node in events.
pub(crate) const fn wire_id(node: u32) -> u32 {
    WIRE_BASE + node
}

/// What a node is; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Scope = 0,
    Group = 1,
    Tag = 2,
    Context = 3,
    /// Not on the wire.
    Name = 4,
}

/// One node as it lies in the table; all zero until it is made.
struct Node {
    name: AtomicPtr<u8>,
    name_size: AtomicU32,
    kind: AtomicU32,
    parent: AtomicU32,
    owner: AtomicU32,
    /// The next node of the same bucket.
    next: AtomicU32,
    ready: AtomicU32,
}

struct Table {
    buckets: NonNull<AtomicU32>,
    nodes: NonNull<Node>,
    /// The number of entries of each node, without those that threads have counted but not added yet.
    /// PERF: apart from the nodes, whose lines all threads read.
    entries: NonNull<AtomicU64>,
}

static TABLE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// How many numbers have been given out, beyond [`CAPACITY`] too.
static COUNT: AtomicU32 = AtomicU32::new(FIRST);
static REFUSED: AtomicU64 = AtomicU64::new(0);
static TEXT_BYTES: AtomicU64 = AtomicU64::new(0);

/// How often a stack or tag found no place.
pub(crate) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// One more stack or tag without a node of its own.
#[cold]
pub(crate) fn refuse() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Bytes that the table, its texts and the counters of threads take at present.
pub(crate) fn bytes() -> u64 {
    let nodes = (COUNT.load(Ordering::Relaxed) as usize).min(CAPACITY);
    let table = if TABLE.load(Ordering::Relaxed).is_null() {
        0
    } else {
        nodes * (size_of::<Node>() + size_of::<AtomicU64>()) + BUCKETS * size_of::<AtomicU32>()
    };
    table as u64 + TEXT_BYTES.load(Ordering::Relaxed) + entries::bytes()
}

impl Table {
    fn get() -> Option<Self> {
        const BUCKET_BYTES: usize = BUCKETS * size_of::<AtomicU32>();
        const NODE_BYTES: usize = CAPACITY * size_of::<Node>();
        const BYTES: usize = BUCKET_BYTES + NODE_BYTES + CAPACITY * size_of::<AtomicU64>();
        let mut start = TABLE.load(Ordering::Acquire);
        if start.is_null() {
            let pages = os::map(BYTES)?;
            start = match TABLE.compare_exchange(
                ptr::null_mut(),
                pages.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => pages.as_ptr(),
                Err(existing) => {
                    os::unmap(pages, BYTES);
                    existing
                }
            };
        }
        Some(Self {
            buckets: NonNull::new(start)?.cast(),
            nodes: NonNull::new(start.wrapping_add(BUCKET_BYTES))?.cast(),
            entries: NonNull::new(start.wrapping_add(BUCKET_BYTES + NODE_BYTES))?.cast(),
        })
    }

    fn bucket(&self, hash: u64) -> &'static AtomicU32 {
        // SAFETY: the index is below `BUCKETS`; the table is mapped for good.
        unsafe { self.buckets.add(hash as usize % BUCKETS).as_ref() }
    }

    fn node(&self, number: u32) -> Option<&'static Node> {
        // SAFETY: the index is checked; zeroed pages are valid nodes, mapped for good.
        ((number as usize) < CAPACITY).then(|| unsafe { self.nodes.add(number as usize).as_ref() })
    }

    fn entries(&self, number: u32) -> Option<&'static AtomicU64> {
        let number = number as usize;
        // SAFETY: the index is checked; zeroed pages are valid counters, mapped for good.
        (number < CAPACITY).then(|| unsafe { self.entries.add(number).as_ref() })
    }
}

impl Node {
    fn text(&self) -> &'static str {
        let size = self.name_size.load(Ordering::Relaxed) as usize;
        let Some(start) = NonNull::new(self.name.load(Ordering::Relaxed)) else { return "" };
        // SAFETY: pointer and size are those of a `&'static str`, written before the node was
        // made ready, and the caller has seen it ready.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(start.as_ptr(), size)) }
    }

    fn is(&self, kind: Kind, parent: u32, owner: u32, name: &str) -> bool {
        self.parent.load(Ordering::Relaxed) == parent
            && self.owner.load(Ordering::Relaxed) == owner
            && self.kind.load(Ordering::Relaxed) == kind as u32
            && self.text() == name
    }
}

/// The number of the node, which is added if it is new; `None` (counted) if there is no place.
pub(crate) fn find_or_add(kind: Kind, parent: u32, owner: u32, name: &'static str) -> Option<u32> {
    let found = find_or_add_with(kind, parent, owner, name, || Some(name));
    if found.is_none() {
        refuse();
    }
    found
}

/// The one copy of `text` that is kept for good.
pub(crate) fn intern(text: &str) -> &'static str {
    let node = find_or_add_with(Kind::Name, NONE, NONE, text, || keep_text(text));
    let node = node.and_then(|number| Table::get()?.node(number));
    match node {
        Some(node) => node.text(),
        None => {
            refuse();
            "(other)"
        }
    }
}

/// The number of the stack that has `name` inside `stack`.
///
/// # Errors
/// What replaces it if there is no place (counted): the measurement around it, which what is measured
/// must not leave, or [`OTHER`] without one.
pub(crate) fn stack_under(stack: u32, name: &'static str) -> Result<u32, u32> {
    let found = if stack == OTHER || enclosing(stack).count() >= MAX_DEPTH {
        refuse();
        None
    } else {
        find_or_add(Kind::Scope, stack, NONE, name)
    };
    found.ok_or_else(|| enclosing(stack).find(|&stack| is_measurement(stack)).unwrap_or(OTHER))
}

fn is_measurement(stack: u32) -> bool {
    let node = Table::get().and_then(|table| table.node(stack));
    node.is_some_and(|node| node.owner.load(Ordering::Relaxed) != NONE)
}

/// A stack and all that it is in, from the inside out, without the root.
fn enclosing(stack: u32) -> impl Iterator<Item = u32> {
    let table = Table::get();
    let own = |stack: u32| (stack != ROOT).then_some(stack);
    std::iter::successors(own(stack), move |&stack| {
        own(table.as_ref()?.node(stack)?.parent.load(Ordering::Relaxed))
    })
}

/// Whether `stack` is `outer` or inside it. What is in [`OTHER`] may be in anything.
pub(crate) fn is_within(stack: u32, outer: u32) -> bool {
    stack == OTHER || outer == ROOT || enclosing(stack).any(|stack| stack == outer)
}

/// Removes repetitions from the end of `stack`, if `stack` has the maximal depth: the scopes that a
/// loop enters again and again and never leaves. Returns the remaining stack and the number of removed
/// scopes. Removes all scopes if the repetitions are less than half of them, because each then had a
/// name of its own. Removes none if the stack is less deep: then the table is full, and the scopes to
/// remove have no nodes.
pub(crate) fn before_repeats(stack: u32) -> (u32, u32) {
    /// The largest number of scopes that a loop enters in one round.
    const ROUND: usize = 16;
    let mut path = [ROOT; MAX_DEPTH];
    let depth = path.iter_mut().zip(enclosing(stack)).map(|(at, stack)| *at = stack).count();
    if depth < MAX_DEPTH {
        return (stack, 0);
    }
    let table = Table::get();
    let name = |stack: &u32| table.as_ref().and_then(|table| table.node(*stack)).map(Node::text);
    let repeats = |round: usize| {
        let pairs = path.iter().zip(path.iter().skip(round));
        round + pairs.take_while(|(inner, outer)| name(inner) == name(outer)).count()
    };
    let longest = (1..=ROUND).map(repeats).max().unwrap_or(0);
    let closed = if longest > ROUND && 2 * longest >= depth { longest } else { depth };
    (path.get(closed).copied().unwrap_or(ROOT), closed as u32)
}

/// The stack of a context.
pub(crate) fn stack_of(context: u32) -> u32 {
    let node = Table::get().and_then(|table| table.node(context));
    let is_pair = |node: &&Node| node.kind.load(Ordering::Relaxed) == Kind::Context as u32;
    node.filter(is_pair).map_or(context, |node| node.parent.load(Ordering::Relaxed))
}

/// The number of the context of a stack and a tag, under the tag's name.
pub(crate) fn find_or_add_context(stack: u32, tag: u32) -> Option<u32> {
    let name = Table::get().and_then(|table| table.node(tag)).map_or("", Node::text);
    find_or_add(Kind::Context, stack, tag, name)
}

fn find_or_add_with(
    kind: Kind,
    parent: u32,
    owner: u32,
    name: &str,
    keep: impl FnOnce() -> Option<&'static str>,
) -> Option<u32> {
    let table = Table::get()?;
    let bucket = table.bucket(hash(kind, parent, owner, name));
    let find = |mut number: u32, end: u32| {
        while number != end {
            let node = table.node(number)?;
            if node.is(kind, parent, owner, name) {
                return Some(number);
            }
            number = node.next.load(Ordering::Relaxed);
        }
        None
    };
    let mut head = bucket.load(Ordering::Acquire);
    if let Some(found) = find(head, 0) {
        return Some(found);
    }
    if COUNT.load(Ordering::Relaxed) as usize >= CAPACITY {
        return None;
    }
    let name = keep()?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let node = table.node(number)?;
    node.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
    node.name_size.store(name.len() as u32, Ordering::Relaxed);
    node.kind.store(kind as u32, Ordering::Relaxed);
    node.parent.store(parent, Ordering::Relaxed);
    node.owner.store(owner, Ordering::Relaxed);
    node.ready.store(1, Ordering::Release);
    loop {
        node.next.store(head, Ordering::Relaxed);
        match bucket.compare_exchange(head, number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(number),
            Err(newer) => {
                // Only what was added since needs a look.
                if let Some(found) = find(newer, head) {
                    return Some(found);
                }
                head = newer;
            }
        }
    }
}

fn keep_text(text: &str) -> Option<&'static str> {
    use std::alloc::{GlobalAlloc, Layout, System};
    if text.is_empty() {
        return Some("");
    }
    let layout = Layout::for_value(text);
    // SAFETY: the size is not 0. The block is the tracker's own, from the system itself, and is
    // never freed; it holds a copy of `text`.
    unsafe {
        let copy = NonNull::new(System.alloc(layout))?;
        ptr::copy_nonoverlapping(text.as_ptr(), copy.as_ptr(), text.len());
        TEXT_BYTES.fetch_add(text.len() as u64, Ordering::Relaxed);
        Some(std::str::from_utf8_unchecked(std::slice::from_raw_parts(copy.as_ptr(), text.len())))
    }
}

/// FNV-1a over the key, then mixed, since the bucket is its low bits.
fn hash(kind: Kind, parent: u32, owner: u32, name: &str) -> u64 {
    let head = [u64::from(parent) << 32 | u64::from(owner), kind as u64];
    let words = head.into_iter().chain(name.bytes().map(u64::from));
    let hash = words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^ hash >> 32
}

/// The parent of a node. The number comes from a node that is ready.
pub(crate) fn parent_of(number: u32) -> u32 {
    let node = Table::get().and_then(|table| table.node(number));
    node.map_or(NONE, |node| node.parent.load(Ordering::Relaxed))
}

/// The names of a node and of all above it, the outermost first; none for [`NONE`]. The number
/// comes from a node that is ready.
pub(crate) fn names_up_from(mut number: u32) -> Vec<&'static str> {
    let mut names = Vec::new();
    while number != NONE
        && let Some(node) = Table::get().and_then(|table| table.node(number))
        && node.ready.load(Ordering::Acquire) != 0
    {
        names.push(node.text());
        number = node.parent.load(Ordering::Relaxed);
    }
    names.reverse();
    names
}

/// Adds `entries` to the scope `node`, for threads that have no counters of their own.
pub(crate) fn add_entries(node: u32, entries: u64) {
    if let Some(counter) = Table::get().and_then(|table| table.entries(node)) {
        // Release: a reader that sees this sum sees what the thread did before.
        counter.fetch_add(entries, Ordering::Release);
    }
}

/// Raises each of `entries`, which are indexed by node, to the node's number of entries.
///
/// Exact for entries that happened before the call, on any thread. Entries during the call may be
/// missing; none is counted twice.
pub(super) fn read_entries(entries: &mut Vec<u64>) {
    /// While a thread moves its entries to a node's counter, they are in neither place for an
    /// instant.
    const LOOKS: usize = 8;
    let Some(table) = Table::get() else { return };
    let count = (COUNT.load(Ordering::Acquire) as usize).min(CAPACITY);
    let added = || {
        let counters = (0..count as u32).filter_map(|number| table.entries(number));
        counters.map(|counter| counter.load(Ordering::Acquire)).collect::<Vec<_>>()
    };
    entries.resize(count.max(entries.len()), 0);
    let mut before = added();
    for _ in 0..LOOKS {
        let mut sums = before.clone();
        // NOTE: read after the nodes' counters. An entry moved there meanwhile is missed, not
        // counted twice.
        entries::visit(|node, more| {
            if let Some(sum) = sums.get_mut(node as usize) {
                *sum = sum.wrapping_add(more);
            }
        });
        entries.iter_mut().zip(sums).for_each(|(most, sum)| *most = sum.max(*most));
        let after = added();
        if after == before {
            return;
        }
        before = after;
    }
}

/// A node as the stream announces it.
pub(crate) struct Announced {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) parent: u32,
    pub(crate) owner: u32,
    pub(crate) name: &'static str,
}

/// Walks the table from where it stopped the last time, each node once.
///
/// A node that is being written when the walk passes it is waited for: it comes in a later call,
/// and nothing can refer to it before it is ready.
pub(crate) struct Walk {
    next: u32,
    unready: Vec<u32>,
}

impl Walk {
    pub(crate) fn new() -> Self {
        Self { next: FIRST, unready: Vec::new() }
    }

    /// Calls `visit` with every node that has become ready, parents before children.
    pub(crate) fn visit_new(&mut self, mut visit: impl FnMut(Announced)) {
        // NOTE: the count first. A node numbered later cannot be used in what was read before.
        let count = (COUNT.load(Ordering::Acquire) as usize).min(CAPACITY) as u32;
        if count == self.next && self.unready.is_empty() {
            return;
        }
        let Some(table) = Table::get() else { return };
        let mut numbers = std::mem::take(&mut self.unready);
        numbers.extend(self.next..count);
        self.next = count;
        for number in numbers {
            let Some(node) = table.node(number) else { continue };
            if node.ready.load(Ordering::Acquire) == 0 {
                self.unready.push(number);
                continue;
            }
            let kind = match node.kind.load(Ordering::Relaxed) {
                0 => Kind::Scope,
                1 => Kind::Group,
                2 => Kind::Tag,
                3 => Kind::Context,
                _ => continue,
            };
            visit(Announced {
                number,
                kind,
                parent: node.parent.load(Ordering::Relaxed),
                owner: node.owner.load(Ordering::Relaxed),
                name: node.text(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn threads_that_add_the_same_nodes_get_the_same_numbers() {
        let names = (0..500).map(|i| intern(&format!("contended {i}"))).collect::<Vec<_>>();
        let threads = (0..4).map(|_| {
            let names = names.clone();
            std::thread::spawn(move || {
                names
                    .iter()
                    .map(|name| find_or_add(Kind::Scope, ROOT, NONE, name))
                    .collect::<Vec<_>>()
            })
        });
        let mut found = threads.collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap());
        let first = found.next().unwrap();
        assert!(first.iter().all(Option::is_some));
        found.for_each(|other| assert_eq!(other, first));
    }

    #[test]
    fn names_are_equal_by_text_and_kept_once() {
        let one = intern("the same text");
        let two = intern(&String::from("the same text"));
        assert_eq!(one.as_ptr(), two.as_ptr());
        let literal = find_or_add(Kind::Scope, ROOT, NONE, "the same text");
        assert_eq!(find_or_add(Kind::Scope, ROOT, NONE, one), literal);
        assert_ne!(find_or_add(Kind::Group, ROOT, NONE, one), literal);
        assert_eq!(intern(""), "");
    }

    #[test]
    fn a_walk_meets_every_node_once_and_parents_first() {
        let mut walk = Walk::new();
        let mut seen = HashMap::new();
        let mut parent = ROOT;
        for depth in 0..100 {
            parent =
                find_or_add(Kind::Scope, parent, NONE, intern(&format!("walked {depth}"))).unwrap();
            if depth % 7 == 0 {
                walk.visit_new(|node| {
                    assert_eq!(seen.insert(node.number, (node.parent, node.kind)), None)
                });
            }
        }
        walk.visit_new(|node| assert_eq!(seen.insert(node.number, (node.parent, node.kind)), None));
        assert!(walk.unready.is_empty() || walk.unready.len() < 8, "other tests may be adding");
        while parent != ROOT {
            parent = seen[&parent].0;
        }
    }
}
