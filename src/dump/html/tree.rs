//! The stacks of the buckets as a tree from the outermost frame inwards.

use crate::analysis::{CallKind, Calls, IntMap, Report, StackKind};
use crate::dump::text::InTable;
use std::collections::{BTreeSet, HashMap};

/// One frame: numbers of strings, and a line; 0 for what is not known. A call that reports show in some
/// stacks and not in others is two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
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
    pub(super) strings: Vec<String>,
    pub(super) frames: Vec<Frame>,
    /// Each with its parent and its frame.
    nodes: Vec<(u32, u32)>,
    /// By row of `by_stack`: its node, if a bucket has it and it is a stack.
    of_row: Vec<Option<u32>>,
}

impl Tree {
    /// The tree of the stacks that buckets have.
    pub(super) fn of(report: &Report) -> Self {
        let calls = Calls::of(report, false);
        let mut builder = Builder {
            frame_of_call: vec![[None; 2]; calls.different().len()],
            calls,
            tree: Self { of_row: vec![None; report.by_stack.len()], ..Self::default() },
            numbers: HashMap::new(),
            frames: HashMap::new(),
            children: IntMap::default(),
            last: Vec::new(),
            all: Vec::new(),
            shown: Vec::new(),
        };
        builder.string("");
        let mut is_done = vec![false; report.by_stack.len()];
        for row in report.by_bucket.iter().filter_map(|bucket| bucket.stack) {
            if let Some(is_done) = is_done.get_mut(row)
                && !std::mem::replace(is_done, true)
            {
                builder.tree.of_row[row] = builder.node_of(report, row);
            }
        }
        builder.tree
    }

    /// The strings that are names of functions and too long, with what is shown of each.
    pub(super) fn short(&self) -> Vec<(u32, String)> {
        let functions: BTreeSet<_> = self.frames.iter().map(|frame| frame.name).collect();
        let mut shown = InTable::default();
        let functions = functions.into_iter().filter_map(|name| {
            let whole = self.strings.get(name as usize)?;
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

/// A position in a stack.
struct Path {
    node: u32,
    /// Frames above it, and its own.
    depth: usize,
}

struct Builder<'a> {
    calls: Calls<'a>,
    tree: Tree,
    /// By string: its number.
    numbers: HashMap<String, u32>,
    frames: HashMap<Frame, u32>,
    children: IntMap<(u32, u32), u32>,
    /// PERF: by call: its frame where it is shown, and where it is folded.
    frame_of_call: Vec<[Option<u32>; 2]>,
    /// PERF: the frames of the last stack and their nodes, outermost first: most stacks share all outer
    /// frames with the one before.
    last: Vec<(u32, u32)>,
    /// The calls of a stack, innermost first: all, and those that reports show.
    all: Vec<u32>,
    shown: Vec<u32>,
}

impl Builder<'_> {
    /// The node of a row of `by_stack`; `None` if its blocks have no stack.
    fn node_of(&mut self, report: &Report, row: usize) -> Option<u32> {
        let row = &report.by_stack[row];
        if row.kind == StackKind::NotTaken {
            return None;
        }
        let label = row.label(report).or(row.missing()).map(|label| self.named(label));
        let (mut all, mut shown) = (std::mem::take(&mut self.all), std::mem::take(&mut self.shown));
        self.calls.all(row, &mut all);
        shown.clone_from(&all);
        self.calls.fold(&mut shown);
        let mut path = Path { node: ROOT, depth: 0 };
        label.into_iter().for_each(|frame| self.step(&mut path, frame));
        for &call in all.iter().rev() {
            // NOTE: those that are shown are in the same order.
            let is_shown = shown.last() == Some(&call);
            if is_shown {
                shown.pop();
            }
            let frame = self.of_call(call, !is_shown);
            self.step(&mut path, frame);
        }
        self.last.truncate(path.depth);
        (self.all, self.shown) = (all, shown);
        Some(path.node).filter(|&node| node != ROOT)
    }

    /// Makes this frame the present one.
    fn step(&mut self, path: &mut Path, frame: u32) {
        path.node = match self.last.get(path.depth) {
            Some(&(last, known)) if last == frame => known,
            _ => {
                self.last.truncate(path.depth);
                let node = self.child(path.node, frame);
                self.last.push((frame, node));
                node
            }
        };
        path.depth += 1;
    }

    fn child(&mut self, parent: u32, frame: u32) -> u32 {
        let next = self.tree.nodes.len() as u32;
        *self.children.entry((parent, frame)).or_insert_with(|| {
            self.tree.nodes.push((parent, frame));
            next
        })
    }

    fn of_call(&mut self, call: u32, is_folded: bool) -> u32 {
        let known = self.frame_of_call[self.calls.index(call)][usize::from(is_folded)];
        if let Some(frame) = known {
            return frame;
        }
        let found = self.calls.get(call).clone();
        let name = self.string(&found.name(CallKind::Function));
        let owner = self.string(&found.name(CallKind::Crate));
        let (file, line) = found.source().map_or((0, 0), |(file, line)| (self.string(file), line));
        let frame = self.frame(Frame { name, file, line, owner, is_folded });
        self.frame_of_call[self.calls.index(call)][usize::from(is_folded)] = Some(frame);
        frame
    }

    fn named(&mut self, name: &str) -> u32 {
        let name = self.string(name);
        self.frame(Frame { name, file: 0, line: 0, owner: 0, is_folded: false })
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        let frames = &mut self.tree.frames;
        *self.frames.entry(frame).or_insert_with(|| {
            frames.push(frame);
            frames.len() as u32 - 1
        })
    }

    fn string(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.tree.strings.len() as u32;
        self.tree.strings.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}
