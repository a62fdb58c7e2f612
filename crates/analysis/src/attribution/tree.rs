//! A tree of names. Each node has a peak tracker for itself alone, and one that includes everything
//! below it.

use crate::accounts::Accounts;
use std::collections::HashMap;

/// The node at the top of the tree.
pub(crate) const ROOT: u32 = 0;

/// No peak tracker: the row's peak is that of the total.
pub(super) const NO_PEAK: u32 = u32::MAX;

/// The level at which all children of a node are folded into one; no node is deeper.
pub(super) const MAX_DEPTH: u16 = 255;

/// The name of the folded node.
const FOLDED: &str = "(other)";

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    name: Box<str>,
    depth: u16,
    /// The peak tracker of the node alone.
    pub(crate) own: u32,
    /// The peak tracker of the node and all below it: the same until the first child appears.
    pub(crate) inclusive: u32,
    has_children: bool,
    /// The contexts of this very node.
    contexts: Vec<u32>,
}

impl Node {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Nodes in order of creation, so that a parent is always before its children.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    index: HashMap<(u32, Box<str>), u32>,
}

impl Tree {
    /// A tree whose root is called `name` and has the peak tracker `own` for itself. The root's
    /// inclusive peak is that of the total.
    pub(super) fn new(name: &str, own: u32) -> Self {
        let root = Node {
            parent: ROOT,
            name: name.into(),
            depth: 0,
            own,
            inclusive: NO_PEAK,
            has_children: true,
            contexts: Vec::new(),
        };
        Self { nodes: vec![root], index: HashMap::new() }
    }

    /// The child of `parent` called `name`, made if there is none. The second value says whether
    /// the parent got its inclusive peak tracker in this call: then the lists of the parent's
    /// contexts do not have that tracker yet.
    pub(super) fn child(
        &mut self,
        parent: u32,
        name: &str,
        accounts: &mut Accounts,
    ) -> (u32, bool) {
        let depth = self.nodes[parent as usize].depth + 1;
        let name = if depth < MAX_DEPTH {
            name
        } else if depth == MAX_DEPTH {
            FOLDED
        } else {
            return (parent, false);
        };
        if let Some(&node) = self.index.get(&(parent, Box::from(name))) {
            return (node, false);
        }
        let above = &mut self.nodes[parent as usize];
        let first = !above.has_children;
        if first {
            above.has_children = true;
            above.inclusive = accounts.copy_peak(above.own);
        }
        let own = accounts.add_peak();
        let node = self.nodes.len() as u32;
        let name = Box::<str>::from(name);
        self.index.insert((parent, name.clone()), node);
        self.nodes.push(Node {
            parent,
            name,
            depth,
            own,
            inclusive: own,
            has_children: false,
            contexts: Vec::new(),
        });
        (node, first)
    }

    /// All nodes, by their numbers.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn add_context(&mut self, node: u32, context: u32) {
        self.nodes[node as usize].contexts.push(context);
    }

    pub(super) fn contexts(&self, node: u32) -> &[u32] {
        &self.nodes[node as usize].contexts
    }

    /// The child of `parent` called `name`, if there is one.
    pub(super) fn find(&self, parent: u32, name: &str) -> Option<u32> {
        self.index.get(&(parent, Box::from(name))).copied()
    }

    /// Adds the peak trackers that a block of `node` counts in to `list`.
    pub(super) fn list_peaks(&self, node: u32, list: &mut Vec<u32>) {
        let mut at = node;
        let own = self.nodes[at as usize].own;
        if own != NO_PEAK {
            list.push(own);
        }
        loop {
            let node = &self.nodes[at as usize];
            if node.inclusive != NO_PEAK && node.inclusive != own {
                list.push(node.inclusive);
            }
            if at == ROOT {
                break;
            }
            at = node.parent;
        }
    }

    /// The names from the root (left out if it has none) to `node`.
    pub(crate) fn path(&self, node: u32) -> Vec<String> {
        let mut path = Vec::new();
        let mut at = node;
        while at != ROOT {
            path.push(self.nodes[at as usize].name.to_string());
            at = self.nodes[at as usize].parent;
        }
        let root = &self.nodes[ROOT as usize].name;
        if !root.is_empty() {
            path.push(root.to_string());
        }
        path.reverse();
        path
    }
}
