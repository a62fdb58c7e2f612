//! A cache of the nodes of the [tree](crate::scopes::tree) that this thread has used recently.
//!
//! ```text
//! slot of hash(kind, parent, address of the name):  packed key | address of the name | node
//! packed key   u64 size:29 | kind:3 | parent:32
//! ```
//! A cache hit costs a multiplication, two comparisons and, for a scope, an increment of the slot's
//! word in the thread's [counters](crate::scopes::entries).

use crate::scopes::entries::{self, Counters, NO_COUNTERS, SLOTS};
use crate::scopes::tree::{self, NONE, NodeKind, OTHER};
use crate::trace::write::registry;
use std::cell::Cell;
use std::ptr;

/// A name, by its address and its size in bytes. For a context, the number of the tag replaces the
/// address, and the size is 0.
type NameKey = (usize, usize);

#[derive(Clone, Copy)]
struct Slot {
    packed: u64,
    address: usize,
    node: u32,
}

const EMPTY: Slot = Slot { packed: u64::MAX, address: 0, node: 0 };

pub(super) struct NodeCache {
    slots: [Cell<Slot>; SLOTS],
    /// The thread's counters, one word for each slot. A node is cached only while the thread has
    /// counters of its own.
    counters: Cell<&'static Counters>,
    /// Whether the thread is ending, so that its counters were returned.
    ending: Cell<bool>,
}

impl NodeCache {
    pub(super) const fn new() -> Self {
        Self {
            slots: [const { Cell::new(EMPTY) }; SLOTS],
            counters: Cell::new(&NO_COUNTERS),
            ending: Cell::new(false),
        }
    }

    /// The stack of the scope `name` inside `stack`. Counts one entry.
    #[inline(always)]
    pub(super) fn scope(&self, stack: u32, name: &'static str) -> u32 {
        self.find(NodeKind::Scope, stack, (name.as_ptr().addr(), name.len()), move || {
            tree::find_or_add_scope(stack, name)
        })
    }

    /// As [`scope`](Self::scope) if the stack is cached; otherwise returns `None`, and counts no
    /// entry. PERF: a cached scope has a node, so the fast path needs no other check.
    #[inline(always)]
    pub(super) fn cached_scope(&self, stack: u32, name: &'static str) -> Option<u32> {
        self.lookup(NodeKind::Scope, stack, (name.as_ptr().addr(), name.len())).ok()
    }

    /// The node of a tag; [`NONE`] if the tree is full, which leaves allocations untagged.
    #[inline(always)]
    pub(super) fn tag(&self, group: u32, name: &'static str) -> u32 {
        self.find(NodeKind::Tag, group, (name.as_ptr().addr(), name.len()), move || {
            tree::find_or_add(NodeKind::Tag, group, NONE, name).ok_or(NONE)
        })
    }

    /// The context of a stack and a tag; the stack if the tree is full.
    #[inline(always)]
    pub(super) fn context(&self, stack: u32, tag: u32) -> u32 {
        self.find(NodeKind::Context, stack, (tag as usize, 0), move || {
            tree::find_or_add_context(stack, tag).ok_or(stack)
        })
    }

    /// The cached node, or otherwise the result of `search`. An `Ok` is cached; an `Err` is the
    /// node to use without caching it. Counts one entry if the node is a scope.
    #[inline(always)]
    fn find(
        &self,
        kind: NodeKind,
        parent: u32,
        key: NameKey,
        search: impl FnOnce() -> Result<u32, u32>,
    ) -> u32 {
        match self.lookup(kind, parent, key) {
            Ok(node) => node,
            Err((index, packed)) => self.fill(index, kind, packed, key.0, search),
        }
    }

    /// The cached node. Counts one entry if the node is a scope.
    ///
    /// # Errors
    /// The index of the slot for the node, and its packed key.
    #[inline(always)]
    fn lookup(&self, kind: NodeKind, parent: u32, key: NameKey) -> Result<u32, (usize, u64)> {
        let (index, packed) = Self::index(kind, parent, key);
        let slot = self.slots[index].get();
        if slot.address != key.0 || slot.packed != packed {
            return Err((index, packed));
        }
        if kind == NodeKind::Scope {
            self.counters.get().count(index);
        }
        Ok(slot.node)
    }

    /// The index of the slot for a key, and the packed key.
    #[inline(always)]
    fn index(kind: NodeKind, parent: u32, (address, size): NameKey) -> (usize, u64) {
        // The size has 29 bits: no name has 512 MiB.
        let packed = u64::from(parent) | ((size as u64) << 3 | kind as u64) << 32;
        let mixed = address as u64 ^ u64::from(parent) << 20 ^ (kind as u64) << 3;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The index is the upper bits, so it is always below `SLOTS`.
        ((mixed >> (u64::BITS - SLOTS.trailing_zeros())) as usize, packed)
    }

    #[cold]
    #[inline(never)]
    fn fill(
        &self,
        index: usize,
        kind: NodeKind,
        packed: u64,
        address: usize,
        search: impl FnOnce() -> Result<u32, u32>,
    ) -> u32 {
        let found = search();
        let (Ok(node) | Err(node)) = found;
        // If a measurement replaces the scope, this is no entry of the measurement.
        let is_entry = kind == NodeKind::Scope && (found.is_ok() || node == OTHER);
        match self.own_counters().filter(|_| found.is_ok()) {
            Some(counters) => {
                // NOTE: the slot is empty while its word changes, because a signal handler may
                // enter a scope during the change.
                self.slots[index].set(EMPTY);
                counters.assign(index, if is_entry { node } else { NONE });
                self.slots[index].set(Slot { packed, address, node });
                if is_entry {
                    counters.count(index);
                }
            }
            None if is_entry => entries::add(node, 1),
            None => {}
        }
        node
    }

    /// The counters of this thread, which are taken at first use; `None` if the thread is ending or
    /// the system has no memory.
    fn own_counters(&self) -> Option<&'static Counters> {
        if ptr::eq(self.counters.get(), &raw const NO_COUNTERS) {
            if self.ending.get() {
                return None;
            }
            self.counters.set(entries::take()?);
            registry::at_thread_end(super::end_thread);
        }
        Some(self.counters.get())
    }

    /// The thread ends: moves its entries to the nodes. Later entries are added to the nodes
    /// directly.
    pub(super) fn end_thread(&self) {
        self.ending.set(true);
        self.slots.iter().for_each(|slot| slot.set(EMPTY));
        self.counters.replace(&NO_COUNTERS).give_back();
    }
}
