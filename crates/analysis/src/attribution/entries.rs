//! How often scopes were entered.

use crate::hash::IntMap;
use std::collections::HashMap;

/// The numbers of entries of a scope: all, and those before the trace began.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    all: u64,
    before: u64,
}

/// How often each scope was entered, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(IntMap<i32, Counted>);

impl Entries {
    /// Sets the total number of entries of the scope `id` so far. If `before`, all of them were
    /// before the trace began.
    pub(super) fn set(&mut self, id: i32, entries: u64, before: bool) {
        let counted = self.0.entry(id).or_default();
        if before {
            counted.before = entries;
        }
        counted.all = entries;
    }

    /// The number of entries by scope node; ids without a node are left out.
    pub(super) fn by_node(&self, node_of: impl Fn(i32) -> Option<u32>) -> HashMap<u32, u64> {
        let mut sums = HashMap::<u32, u64>::new();
        for (&id, &Counted { all, before }) in &self.0 {
            if let Some(node) = node_of(id) {
                let sum = sums.entry(node).or_default();
                *sum = sum.saturating_add(all.saturating_sub(before));
            }
        }
        sums
    }
}
