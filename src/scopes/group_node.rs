//! The number of a group in the tree of contexts.

use super::Group;
use super::tree::{self, NodeKind};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of one group; 0 before its first use.
#[derive(Debug)]
pub(super) struct GroupNode(AtomicU32);

impl GroupNode {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(tree::NONE))
    }

    /// The number of `group`, whose field this is.
    #[inline]
    pub(super) fn number(&'static self, group: &'static Group) -> u32 {
        match self.0.load(Ordering::Relaxed) {
            tree::NONE => self.find(group),
            node => node,
        }
    }

    #[cold]
    fn find(&'static self, group: &'static Group) -> u32 {
        let parent = group.parent().map_or(tree::NONE, Group::node);
        let node = tree::find_or_add(NodeKind::Group, parent, tree::NONE, group.name());
        let node = node.unwrap_or(tree::NONE);
        self.0.store(node, Ordering::Relaxed);
        node
    }
}
