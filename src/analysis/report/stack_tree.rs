//! The stacks of a report as a tree of calls, from the outermost ones inwards.
//!
//! ```text
//! (above the frame limit)      a text, where outer calls are not known
//! └─ main                      a call: its function, line and crate
//!    ├─ parse
//!    │  └─ reserve (folded)    not shown, unless all frames are wanted
//!    └─ reserve                the same call, which a stack shows in which all would be folded
//! ```

use super::calls::Calls;
use super::types::Report;
use crate::analysis::hash::IntMap;

/// A call in its caller. One that some stacks show and others fold is two nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The node of its caller; [`ROOT`] for an outermost call.
    pub(crate) parent: u32,
    /// The number of the call, or of a text in its place.
    pub(crate) call: u32,
    pub(crate) is_folded: bool,
}

/// In place of a node: what is around the outermost calls.
pub(crate) const ROOT: u32 = u32::MAX;

/// The calls of stacks, as a tree. All formats are made from it: those by call from its nodes, and those by stack from the
/// way from a row's node to the root.
pub(crate) struct StackTree<'a> {
    pub(crate) calls: Calls<'a>,
    /// Parents before their children, and in the order in which rows first have them.
    nodes: Vec<Node>,
    /// By row of `by_stack`: its innermost node.
    of_row: Vec<u32>,
}

impl<'a> StackTree<'a> {
    /// The tree of all rows of `by_stack`. Folded calls are shown if `all_frames` are wanted.
    pub(crate) fn of(report: &'a Report, all_frames: bool) -> Self {
        Self::of_rows(Calls::of(report, all_frames), 0..report.by_stack.len())
    }

    /// The tree of these rows only, each of which may come several times.
    pub(crate) fn of_rows(calls: Calls<'a>, rows: impl Iterator<Item = usize>) -> Self {
        let report = calls.report;
        let of_row = vec![ROOT; report.by_stack.len()];
        let mut tree = Self { calls, nodes: Vec::new(), of_row };
        let (mut children, mut stack) = (IntMap::default(), Vec::new());
        for row in rows {
            // Those that are in the tree already are left out.
            let Some(of) = report.by_stack.get(row).filter(|_| tree.node(row) == ROOT) else {
                continue;
            };
            tree.calls.of_stack(of, &mut stack);
            let text = of.label(report).or(of.missing());
            stack.extend(text.map(|text| (tree.calls.text(text), false)));
            let mut at = ROOT;
            for &(call, is_folded) in stack.iter().rev() {
                let (parent, next) = (at, tree.nodes.len() as u32);
                at = *children.entry((parent, call << 1 | u32::from(is_folded))).or_insert(next);
                if at == next {
                    tree.nodes.push(Node { parent, call, is_folded });
                }
            }
            tree.of_row[row] = at;
        }
        tree
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The innermost node of a row, [`ROOT`] if it has none.
    pub(crate) fn node(&self, row: usize) -> u32 {
        self.of_row.get(row).copied().unwrap_or(ROOT)
    }

    /// The calls of a row that are shown, innermost first, then the text in place of those that are not known.
    pub(crate) fn outwards(&self, row: usize) -> impl Iterator<Item = u32> + Clone {
        let node = |at: u32| self.nodes.get(at as usize);
        let nodes = std::iter::successors(node(self.node(row)), move |of| node(of.parent));
        nodes.filter(|node| !node.is_folded).map(|node| node.call)
    }

    /// The same, outermost first.
    pub(crate) fn inwards(&self, row: usize) -> Vec<u32> {
        let mut calls: Vec<_> = self.outwards(row).collect();
        calls.reverse();
        calls
    }

    /// [`outwards`](Self::outwards) from the innermost call of the program's own code on, if there is one: a library
    /// allocates for who calls it. All of them if all frames are wanted.
    pub(crate) fn outwards_from_own(&self, row: usize) -> impl Iterator<Item = u32> + Clone {
        self.outwards(row).skip(self.before_own(row))
    }

    /// How many calls are shown before these.
    pub(super) fn before_own(&self, row: usize) -> usize {
        let own = self.outwards(row).position(|call| self.calls.is_own(call));
        own.filter(|_| !self.calls.all_frames).unwrap_or(0)
    }

    /// The function of a call, or the text in its place.
    pub(crate) fn function(&self, call: u32) -> &str {
        self.calls.get(call).name_of_function()
    }
}
