//! The stacks of the buckets as a tree from the outermost frame inwards.

use crate::interner::Interner;
use crate::names::InTable;
use memledger_analysis::internal::IntMap;
use memledger_document::internal::Calls;
use memledger_document::{Frames, Report, StackKind};
use std::collections::BTreeSet;

/// One frame: numbers of strings, and a line; 0 for what is not known. A call that reports show in some
/// stacks and not in others is two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InternedFrame {
    pub(super) name: u32,
    pub(super) file: u32,
    pub(super) line: u32,
    /// The crate.
    pub(super) owner: u32,
    /// Whether reports do not show the call.
    pub(super) is_folded: bool,
}

/// In place of a node: the root, which has no frame.
const ROOT: u32 = u32::MAX;

/// The tree, and what it refers to.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The first is empty.
    pub(super) strings: Interner<String>,
    pub(super) frames: Interner<InternedFrame>,
    /// Each with its parent and its frame.
    nodes: Vec<(u32, u32)>,
    /// By row of `by_stack`: its node, if a bucket has it and it is a stack.
    of_row: Vec<Option<u32>>,
}

impl Tree {
    /// The tree of the stacks that buckets have: calls of one line of a function are one frame, wherever they
    /// are.
    pub(super) fn of(report: &Report) -> Self {
        let calls = Calls::of(report, Frames::Folded);
        let mut tree = Self { of_row: vec![None; report.by_stack.len()], ..Self::default() };
        tree.strings.text("");
        // PERF: by call: its frame where it is shown, and where it is folded.
        let mut frame_of_call = vec![[None; 2]; calls.different().len()];
        let mut children = IntMap::default();
        // PERF: the frames of the last stack and their nodes, outermost first: most stacks share all outer
        // frames with the one before.
        let mut last = Vec::<(u32, u32)>::new();
        for row in report.by_bucket.iter().filter_map(|bucket| bucket.stack) {
            let is_stack = |kind| kind != StackKind::NotTaken;
            if tree.node(row).is_some() || !report.by_stack.kind(row).is_some_and(is_stack) {
                continue;
            }
            let mut at = ROOT;
            for (depth, (call, is_folded)) in calls.of_stack(row).into_iter().rev().enumerate() {
                let frame = *frame_of_call[calls.index(call)][usize::from(is_folded)]
                    .get_or_insert_with(|| tree.frame(&calls, call, is_folded));
                if let Some(&(_, node)) = last.get(depth).filter(|&&(last, _)| last == frame) {
                    at = node;
                    continue;
                }
                last.truncate(depth);
                let (parent, next) = (at, tree.nodes.len() as u32);
                at = *children.entry((parent, frame)).or_insert(next);
                if at == next {
                    tree.nodes.push((parent, frame));
                }
                last.push((frame, at));
            }
            tree.of_row[row] = Some(at).filter(|&node| node != ROOT);
        }
        tree
    }

    fn frame(&mut self, calls: &Calls<'_>, number: u32, is_folded: bool) -> u32 {
        let (call, strings) = (calls.get(number), &mut self.strings);
        let name = strings.text(call.name_of_function());
        let owner = if calls.is_text(number) { 0 } else { strings.text(call.owner()) };
        let (file, line) = call.source().map_or((0, 0), |(file, line)| (strings.text(file), line));
        self.frames.number(InternedFrame { name, file, line, owner, is_folded })
    }

    /// The strings that are names of functions and too long, with what is shown of each.
    pub(super) fn short(&self) -> Vec<(u32, String)> {
        let functions: BTreeSet<_> = self.frames.all.iter().map(|frame| frame.name).collect();
        let mut shown = InTable::default();
        let functions = functions.into_iter().filter_map(|name| {
            let whole = self.strings.all.get(name as usize)?;
            let short = shown.name(whole);
            (short != *whole).then_some((name, short))
        });
        functions.collect()
    }

    /// The parent of each node, -1 for an outermost one.
    pub(super) fn parents(&self) -> impl Iterator<Item = u64> + Clone {
        self.nodes.iter().map(|&(parent, _)| number(Some(parent)))
    }

    /// The frame of each node.
    pub(super) fn frames(&self) -> impl Iterator<Item = u64> + Clone {
        self.nodes.iter().map(|&(_, frame)| frame.into())
    }

    /// The node of a row of `by_stack`.
    pub(super) fn node(&self, row: usize) -> Option<u32> {
        self.of_row.get(row).copied().flatten()
    }
}

/// A node as a number: -1 if there is none.
pub(super) fn number(node: Option<u32>) -> u64 {
    node.filter(|&node| node != ROOT).map_or(u64::MAX, u64::from)
}
