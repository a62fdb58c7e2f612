//! The tree of contexts: one table for the process. Nodes are added without locks and never
//! removed.
//!
//! ```text
//! kind      parent            owner         name           example
//! Scope     enclosing stack   -             its own        GlobalScope / load level / parse
//! Scope     enclosing stack   measurement   its own        a measurement; its number is unique
//! Group     group or none     -             its own        Rendering / Textures
//! Tag       its group         -             its own        Rendering / Mesh::texture_coordinates
//! Context   scope stack       tag           the tag's      the pair of both
//! Name      -                 -             its own        a dynamic name, kept once
//! ```
//! A node's number is its index in the table. A node is found by kind, parent, owner and the text
//! of its name, so two call sites with the same name share a node. Number 0 is the root
//! (`GlobalScope`, no tag). Number 1 is `(other)`. It represents all stacks that have no node of
//! their own, because the table is full or the stack is too deep.
//!
//! ```text
//! one mapping   buckets u32 x 2^16   nodes Node x 2^18   entry counters u64 x 2^18
//!               bucket of hash(key) -> node --next--> node --next--> 0
//! ```
//! A thread writes a node, then marks it as ready, then links it into its bucket, so every node in
//! a bucket is complete. If two threads add the same node at the same time, a second copy of it can
//! remain that is ready, but in no bucket. The only harm is that the trace announces both.
//!
//! The hook does not use this table: it reads a number from [thread-local storage](super::current).
#![expect(unsafe_code, reason = "the table is raw memory")]

mod shared;
mod stack;
mod walk;

pub(crate) use shared::{share_all, take_all};
pub(crate) use stack::is_within;
pub(super) use stack::{find_or_add_scope, stack_of, without_repeats};
pub(super) use walk::{NewNode, Walk, path_of};

use super::Group;
use crate::platform::{bucket, os};
use crate::trace::write::untracked;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub(crate) type NodeNumber = u32;

/// The context of a thread that is in no scope.
pub(crate) const ROOT: u32 = 0;
/// The stack of all scopes that have no node of their own.
pub(crate) const OTHER: u32 = 1;
/// No parent, no owner, no tag.
pub(crate) const NONE: u32 = 0;

/// The maximum number of nodes. Source code contains some thousands of names; if a program has many
/// more, they come from data.
pub(super) const CAPACITY: usize = 1 << 18;
const BUCKETS: usize = 1 << 16;
const FIRST: u32 = 2;
/// The number of nodes that a program can add.
pub(crate) const PROGRAM_NODES: usize = CAPACITY - FIRST as usize;
/// From this number of nodes on, no text is interned: names that are made at run time cannot use up the place
/// of literals.
const MAX_WITH_INTERNED: usize = CAPACITY / 8 * 7;

/// The first id of nodes in the stream, above the ids that Unreal gives to its own tags.
const WIRE_BASE: u32 = 0x0100_0000;

pub(crate) const fn wire_id(node: u32) -> u32 {
    WIRE_BASE + node
}

#[cfg(feature = "perfetto")]
pub(super) const fn node_of_wire(wire: u32) -> Option<u32> {
    wire.checked_sub(WIRE_BASE)
}

/// The kind of a node. The stream has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NodeKind {
    Scope = 0,
    Group = 1,
    Tag = 2,
    Context = 3,
    /// Not in the stream.
    Name = 4,
}

/// One node of the table. All bytes are 0 until it is written.
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
    /// The number of entries of each node, except those that are still in a thread's
    /// [counters](super::entries). PERF: not in the nodes, whose cache lines all threads read.
    entries: NonNull<AtomicU64>,
}

static TABLE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// The number of node numbers that were given out, which can exceed [`CAPACITY`].
static COUNT: AtomicU32 = AtomicU32::new(FIRST);
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// How often the table was full for a text to intern, and for another node, since [`take_full`].
static FULL_FOR_TEXT: AtomicU64 = AtomicU64::new(0);
static FULL: AtomicU64 = AtomicU64::new(0);
static TEXT_BYTES: AtomicU64 = AtomicU64::new(0);

/// The number of requests for a node that were refused.
pub(crate) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

#[cold]
fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// The sentence for a table that was full since the last call.
pub(crate) fn take_full() -> Option<String> {
    let texts = FULL_FOR_TEXT.swap(0, Ordering::Relaxed);
    if FULL.swap(0, Ordering::Relaxed) > 0 {
        return Some(format!(
            "the table of names is full: all {PROGRAM_NODES} entries are used up, so new scopes, groups and tags are counted as (other)"
        ));
    }
    (texts > 0).then(|| {
        format!(
            "the table of names is full: {texts} names of Name::intern are counted as (other), and the last eighth is left to literals; a name that has the number of a request in it is a leak"
        )
    })
}

/// The number of bytes in use by the table and by the interned names.
pub(super) fn bytes() -> u64 {
    let table = if TABLE.load(Ordering::Relaxed).is_null() {
        0
    } else {
        len() * (size_of::<Node>() + size_of::<AtomicU64>()) + BUCKETS * size_of::<AtomicU32>()
    };
    table as u64 + TEXT_BYTES.load(Ordering::Relaxed)
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
        // SAFETY: the index is below `BUCKETS`; the table is never unmapped.
        unsafe { self.buckets.add(hash as usize % BUCKETS).as_ref() }
    }

    fn node(&self, number: u32) -> Option<&'static Node> {
        // SAFETY: the index is checked; zeroed pages are valid nodes and are never unmapped.
        ((number as usize) < CAPACITY).then(|| unsafe { self.nodes.add(number as usize).as_ref() })
    }

    fn entry_counter(&self, number: u32) -> Option<&'static AtomicU64> {
        let number = number as usize;
        // SAFETY: the index is checked; zeroed pages are valid counters and are never unmapped.
        (number < CAPACITY).then(|| unsafe { self.entries.add(number).as_ref() })
    }
}

impl Node {
    fn text(&self) -> &'static str {
        let size = self.name_size.load(Ordering::Relaxed) as usize;
        let Some(start) = NonNull::new(self.name.load(Ordering::Relaxed)) else { return "" };
        // SAFETY: pointer and size are those of a `&'static str`, written before the node was
        // marked as ready, and the caller has seen that mark.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(start.as_ptr(), size)) }
    }

    fn matches(&self, kind: NodeKind, parent: u32, owner: u32, name: &str) -> bool {
        self.parent.load(Ordering::Relaxed) == parent
            && self.owner.load(Ordering::Relaxed) == owner
            && self.kind.load(Ordering::Relaxed) == kind as u32
            && self.text() == name
    }
}

/// The number of one group; 0 before its first use.
///
/// NOTE: a thread that finds the number reads the node, and its events refer to it. So the number is
/// published by a release store, which comes after the node is written.
#[derive(Debug)]
pub(super) struct GroupNode(AtomicU32);

impl GroupNode {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// The number, if it is known.
    #[inline]
    fn known(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, node: u32) {
        self.0.store(node, Ordering::Release);
    }

    /// The number of `group`, whose field this is.
    #[inline]
    pub(super) fn number(&'static self, group: &'static Group) -> u32 {
        match self.known() {
            NONE => self.find(group),
            node => node,
        }
    }

    #[cold]
    fn find(&'static self, group: &'static Group) -> u32 {
        let mut path = [group; MAX_GROUP_DEPTH];
        let (mut depth, mut parent) = (1, group.parent());
        let mut node = loop {
            let Some(outer) = parent else { break NONE };
            match (outer.node.known(), path.get_mut(depth)) {
                (NONE, Some(place)) => *place = outer,
                (NONE, None) => {
                    // It is in itself, by way of others, or too deep: it is outermost.
                    depth = 1;
                    let _ = TOO_DEEP.compare_exchange(
                        ptr::null_mut(),
                        ptr::from_ref(group).cast_mut(),
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    break NONE;
                }
                (known, _) => break known,
            }
            depth += 1;
            parent = outer.parent();
        };
        for group in path.iter().take(depth).rev() {
            node = find_or_add(NodeKind::Group, node, NONE, group.name()).unwrap_or(NONE);
            group.node.set(node);
        }
        node
    }
}

/// The number of groups that can be in one another.
const MAX_GROUP_DEPTH: usize = 64;

/// The first group that is in itself, or deeper.
static TOO_DEEP: AtomicPtr<Group> = AtomicPtr::new(ptr::null_mut());

/// The name of the first group that is in itself, or too deep.
pub(crate) fn too_deep_group() -> Option<&'static str> {
    // SAFETY: it points to nothing, or to a static.
    unsafe { TOO_DEEP.load(Ordering::Relaxed).as_ref() }.map(Group::name)
}

/// The number of this node; adds the node if it is new. If the table is full, returns `None`, and
/// counts the refusal.
pub(crate) fn find_or_add(
    kind: NodeKind,
    parent: u32,
    owner: u32,
    name: &'static str,
) -> Option<u32> {
    let found = find_or_add_with(kind, parent, owner, name, || Some(name));
    if found.is_none() {
        count_refused();
    }
    found
}

/// The interned copy of UTF-16 text. An unpaired surrogate becomes `U+FFFD`.
pub(super) fn intern_utf16(units: &[u16]) -> &'static str {
    untracked(|| intern(&String::from_utf16_lossy(units)))
}

/// The interned copy of `text`. If the table is full, returns `(other)`, and counts the refusal.
pub(super) fn intern(text: &str) -> &'static str {
    let found = find_or_add_with(NodeKind::Name, NONE, NONE, text, || copy_text(text));
    match found.and_then(node) {
        Some(node) => node.text(),
        None => {
            count_refused();
            "(other)"
        }
    }
}

/// The context of a stack and a tag, which has the tag's name.
pub(super) fn find_or_add_context(stack: u32, tag: u32) -> Option<u32> {
    find_or_add(NodeKind::Context, stack, tag, node(tag).map_or("", Node::text))
}

/// As [`find_or_add`], but does not count a refusal. If it adds a node, the node gets the name that
/// `keep_name` returns.
fn find_or_add_with(
    kind: NodeKind,
    parent: u32,
    owner: u32,
    name: &str,
    keep_name: impl FnOnce() -> Option<&'static str>,
) -> Option<u32> {
    let table = Table::get()?;
    let bucket = table.bucket(hash(kind, parent, owner, name));
    let is_wanted =
        |number| table.node(number).is_some_and(|node| node.matches(kind, parent, owner, name));
    bucket::find_or_add(
        bucket,
        |number| Some(&table.node(number)?.next),
        is_wanted,
        || {
            let (most, full) = match kind {
                NodeKind::Name => (MAX_WITH_INTERNED, &FULL_FOR_TEXT),
                _ => (CAPACITY, &FULL),
            };
            if COUNT.load(Ordering::Relaxed) as usize >= most {
                full.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let name = keep_name()?;
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let node = table.node(number)?;
            node.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
            node.name_size.store(name.len() as u32, Ordering::Relaxed);
            node.kind.store(kind as u32, Ordering::Relaxed);
            node.parent.store(parent, Ordering::Relaxed);
            node.owner.store(owner, Ordering::Relaxed);
            shared::add(number, node);
            node.ready.store(1, Ordering::Release);
            Some(number)
        },
    )
}

/// A copy of `text` that is never freed; `None` if the system has no memory.
fn copy_text(text: &str) -> Option<&'static str> {
    use std::alloc::{GlobalAlloc, Layout, System};
    if text.is_empty() {
        return Some("");
    }
    let layout = Layout::for_value(text);
    // SAFETY: the size is not 0. The copy is in memory of the system's allocator that is never
    // freed, and has the size of `text`, which is valid UTF-8.
    unsafe {
        let copy = NonNull::new(System.alloc(layout))?;
        ptr::copy_nonoverlapping(text.as_ptr(), copy.as_ptr(), text.len());
        TEXT_BYTES.fetch_add(text.len() as u64, Ordering::Relaxed);
        Some(std::str::from_utf8_unchecked(std::slice::from_raw_parts(copy.as_ptr(), text.len())))
    }
}

/// FNV-1a over the key. The upper half is mixed into the lower half, which selects the bucket.
fn hash(kind: NodeKind, parent: u32, owner: u32, name: &str) -> u64 {
    let head = [u64::from(parent) << 32 | u64::from(owner), kind as u64];
    let words = head.into_iter().chain(name.bytes().map(u64::from));
    let hash = words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^ hash >> 32
}

/// The number of nodes. The last of them may not be ready yet.
pub(super) fn len() -> usize {
    (COUNT.load(Ordering::Acquire) as usize).min(CAPACITY)
}

fn node(number: u32) -> Option<&'static Node> {
    Table::get()?.node(number)
}

pub(super) fn parent_of(number: u32) -> u32 {
    node(number).map_or(NONE, |node| node.parent.load(Ordering::Relaxed))
}

/// The number of entries of a scope, except those that are still in a thread's
/// [counters](super::entries).
pub(super) fn entry_counter(number: u32) -> Option<&'static AtomicU64> {
    Table::get()?.entry_counter(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_add_the_same_nodes_get_the_same_numbers() {
        let names = (0..500).map(|i| intern(&format!("contended {i}"))).collect::<Vec<_>>();
        let threads = (0..4).map(|_| {
            let names = names.clone();
            std::thread::spawn(move || {
                names
                    .iter()
                    .map(|name| find_or_add(NodeKind::Scope, ROOT, NONE, name))
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
        let literal = find_or_add(NodeKind::Scope, ROOT, NONE, "the same text");
        assert_eq!(find_or_add(NodeKind::Scope, ROOT, NONE, one), literal);
        assert_ne!(find_or_add(NodeKind::Group, ROOT, NONE, one), literal);
        assert_eq!(intern(""), "");
    }

    #[test]
    fn a_group_in_itself_is_outermost() {
        crate::group! {
            X = "X in Y" in Y;
            Y = "Y in X" in X;
            SELF = "in itself" in SELF;
            IN_X = "in X" in X;
        }
        let parent = |group: &'static Group| parent_of(group.node());
        assert_eq!((parent(&X), parent(&SELF)), (NONE, NONE));
        assert_eq!((parent(&Y), parent(&IN_X)), (X.node(), X.node()));
        assert!(too_deep_group().is_some());
    }
}
