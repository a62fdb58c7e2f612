//! Visits the nodes of the tree in the order of their numbers, so that the stream can announce
//! them.

use super::{FIRST, NONE, NodeKind, Table};
use std::sync::atomic::Ordering;

/// A node that has become ready.
pub(in crate::scopes) struct NewNode {
    pub number: u32,
    pub kind: NodeKind,
    pub parent: u32,
    pub owner: u32,
    pub name: &'static str,
}

/// Visits each node once; each call continues after the last node of the previous call.
///
/// A node that is not ready yet is visited by a later call. No event refers to a node before it is
/// ready.
pub(in crate::scopes) struct Walk {
    next: u32,
    unready: Vec<u32>,
}

impl Walk {
    pub(in crate::scopes) fn new() -> Self {
        Self { next: FIRST, unready: Vec::new() }
    }

    /// A walk that has visited all nodes below `next`.
    pub(in crate::scopes) fn after(next: u32) -> Self {
        Self { next: next.max(FIRST), unready: Vec::new() }
    }

    /// The number below which it has visited all nodes.
    pub(in crate::scopes) fn visited(&self) -> u32 {
        self.unready.iter().copied().min().unwrap_or(self.next).min(self.next)
    }

    /// Calls `visit` with every node that has become ready, parents before children.
    pub(in crate::scopes) fn visit_new(&mut self, mut visit: impl FnMut(NewNode)) {
        // NOTE: the caller reads the threads' commit cursors before this function reads the count,
        // so the events before those cursors refer only to nodes below the count.
        let count = super::len() as u32;
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
                0 => NodeKind::Scope,
                1 => NodeKind::Group,
                2 => NodeKind::Tag,
                3 => NodeKind::Context,
                _ => continue,
            };
            visit(NewNode {
                number,
                kind,
                parent: node.parent.load(Ordering::Relaxed),
                owner: node.owner.load(Ordering::Relaxed),
                name: node.text(),
            });
        }
    }
}

/// The names of a node that is ready and of its ancestors, the outermost first; none for [`NONE`].
pub(in crate::scopes) fn path_of(mut number: u32) -> Vec<&'static str> {
    let mut names = Vec::new();
    while number != NONE
        && let Some(node) = super::node(number)
        && node.ready.load(Ordering::Acquire) != 0
    {
        names.push(node.text());
        number = node.parent.load(Ordering::Relaxed);
    }
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scopes::tree::{ROOT, find_or_add, intern};
    use std::collections::HashMap;

    #[test]
    fn a_walk_meets_every_node_once_and_parents_first() {
        let mut walk = Walk::new();
        let mut seen = HashMap::new();
        let mut parent = ROOT;
        for depth in 0..100 {
            let name = intern(&format!("walked {depth}"));
            parent = find_or_add(NodeKind::Scope, parent, NONE, name).unwrap();
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
