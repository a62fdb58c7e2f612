//! A tree of names, each node with the series of its own row and of everything below it.

use super::rows::Book;
use std::collections::HashMap;

/// The node everything hangs under.
pub(super) const ROOT: u32 = 0;

/// No series: the row's figures are those of the total.
pub(super) const NO_SERIES: u32 = u32::MAX;

/// Levels below which nodes are folded into one.
const DEEPEST: u16 = 255;

/// What the folded node is called.
const FOLDED: &str = "(other)";

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) name: Box<str>,
    depth: u16,
    /// Series of the node alone.
    pub(super) own: u32,
    /// Series of the node and all below it: the same until the first child appears.
    pub(super) inclusive: u32,
    has_children: bool,
    /// The contexts that stand at this very node.
    pub(super) contexts: Vec<u32>,
}

/// Nodes in order of creation, so that a parent always stands before its children.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    index: HashMap<(u32, Box<str>), u32>,
}

impl Tree {
    /// A tree whose root is called `name` and has the series `own` for itself; all below it is
    /// the total.
    pub(super) fn new(name: &str, own: u32) -> Self {
        let root = Node {
            parent: ROOT,
            name: name.into(),
            depth: 0,
            own,
            inclusive: NO_SERIES,
            has_children: true,
            contexts: Vec::new(),
        };
        Self { nodes: vec![root], index: HashMap::new() }
    }

    /// The child of `parent` called `name`, made if there is none. The second value is whether
    /// the parent got its inclusive series now, so that the lists of its contexts lack it.
    pub(super) fn child(&mut self, parent: u32, name: &str, book: &mut Book) -> (u32, bool) {
        let depth = self.nodes[parent as usize].depth + 1;
        let name = if depth < DEEPEST {
            name
        } else if depth == DEEPEST {
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
            above.inclusive = book.copy_series(above.own);
        }
        let own = book.new_series();
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

    /// The child of `parent` called `name`, if there is one.
    pub(super) fn find(&self, parent: u32, name: &str) -> Option<u32> {
        self.index.get(&(parent, Box::from(name))).copied()
    }

    /// Adds the series that a block of `node` counts in to `list`.
    pub(super) fn list_series(&self, node: u32, list: &mut Vec<u32>) {
        let mut at = node;
        let own = self.nodes[at as usize].own;
        if own != NO_SERIES {
            list.push(own);
        }
        loop {
            let step = &self.nodes[at as usize];
            if step.inclusive != NO_SERIES && step.inclusive != own {
                list.push(step.inclusive);
            }
            if at == ROOT {
                break;
            }
            at = step.parent;
        }
    }

    /// The names from the root (left out if it has none) to `node`.
    pub(super) fn path(&self, node: u32) -> Vec<String> {
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
