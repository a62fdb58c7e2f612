//! Makes the rows of stacks, and the frames that they consist of.
//!
//! First each stack gets a row, and each row its place: only what rows are sorted by is kept of them. Then
//! the figures of each row are summed up once more, in the order of the rows.

use super::Sources;
use super::sums::add_moves;
use crate::accounts::{Accounts, Bucket};
use crate::callstacks::{Location, NO_FILE, NO_STACK};
use crate::hash::IntMap;
use memledger_document::internal::{StackTree, TakenStacks, Weights};
use memledger_document::{
    Figures, Frame, Module, Moves, Report, SourceFrame, StackEnd, StackKind, StackRow, StackRows,
    made,
};
use std::cmp::Reverse;
use std::sync::Arc;

/// In place of a row, a bucket, a stack or a frame.
const NONE: u32 = u32::MAX;

/// The rows of stacks, with what they refer to. All are empty in a trace without stacks.
#[derive(Default)]
pub(super) struct StackTable {
    pub(super) stacks: StackRows,
    pub(super) frames: Vec<Frame>,
    pub(super) modules: Vec<Module>,
    row_of: Vec<u32>,
}

impl StackTable {
    /// Without rows if `with_rows` is false. The stacks `more` have rows, too, without figures.
    pub(super) fn of(sources: &Sources<'_>, with_rows: bool, more: &[u32]) -> Self {
        if !sources.model.accounts().has_stacks() && more.is_empty() {
            return Self::default();
        }
        let is_in_scope = sources.scope.map(|scope| {
            let all = sources.model.contexts().scopes();
            let shows = |node| all.path(node).join(" > ").to_lowercase().contains(scope);
            (0..all.nodes().len() as u32).map(shows).collect()
        });
        let mut builder = Builder::new(sources, is_in_scope);
        let taken = builder.taken();
        if !with_rows {
            let stacks = StackRows::of_tree(Arc::default(), Vec::new(), 0, taken);
            return Self { stacks, ..Self::default() };
        }
        builder.sum_moves();
        builder.table(taken, more)
    }

    /// The row of a stack, if it has one.
    pub(super) fn row(&self, stack: u32) -> Option<usize> {
        let row = self.row_of.get(stack as usize)?;
        (*row != NONE).then_some(*row as usize)
    }
}

impl Sources<'_> {
    /// A report of these stacks only, in their order and without figures.
    pub(crate) fn stacks(&self, stacks: &[u32]) -> Report {
        let callstacks = self.model.callstacks();
        let mut numbers = FrameNumbers::default();
        let row = |&stack: &u32| {
            let (node, kind, end) = key(self, stack, |node| callstacks.tree().end(node));
            let locations = callstacks.locations(node);
            let frames = locations.map(|location| numbers.frame(self, location)).collect();
            made!(StackRow { kind, frames, end })
        };
        let by_stack = stacks.iter().map(row).collect();
        let FrameNumbers { frames, modules, .. } = numbers;
        let accounts = self.model.accounts();
        let stack_sampling_bytes = Some(accounts.sampling()).filter(|&mean| mean > 0);
        made!(Report { by_stack, frames, modules, stack_sampling_bytes })
    }
}

/// The node of a stack, what is known of it and how it ends. A stack without frames says why it has none.
fn key(
    sources: &Sources<'_>,
    stack: u32,
    end_of: impl Fn(u32) -> StackEnd,
) -> (u32, StackKind, StackEnd) {
    let callstacks = sources.model.callstacks();
    let Some(node) = callstacks.node(stack) else {
        let kind = if stack == NO_STACK { StackKind::NotTaken } else { StackKind::Unknown };
        return (StackEnd::Complete as u32, kind, StackEnd::Complete);
    };
    match StackTree::root(node) {
        Some(StackEnd::Complete) => (node, StackKind::Other, StackEnd::Complete),
        Some(end) => (node, StackKind::Known, end),
        None => (node, StackKind::Known, end_of(node)),
    }
}

/// In place of the inner frames of a stack that were not kept.
const FRAMES_NOT_KEPT: &str = "(frames not kept)";

/// The frames and modules that have a number in the report.
#[derive(Default)]
struct FrameNumbers {
    frames: Vec<Frame>,
    modules: Vec<Module>,
    by_location: IntMap<u32, u32>,
    by_place: IntMap<(u32, u64, bool), u32>,
    by_file: IntMap<u32, usize>,
}

impl FrameNumbers {
    /// The frame of a location, new if need be.
    fn frame(&mut self, sources: &Sources<'_>, location: u32) -> u32 {
        let (frames, modules) = (&mut self.frames, &mut self.modules);
        *self.by_location.entry(location).or_insert_with(|| {
            let callstacks = sources.model.callstacks();
            let location = callstacks.location(location);
            let Location { file, offset, is_guess } = location;
            *self.by_place.entry((file, offset, is_guess)).or_insert_with(|| {
                let module = (file != NO_FILE).then(|| {
                    *self.by_file.entry(file).or_insert_with(|| {
                        modules.push(callstacks.files()[file as usize].clone());
                        modules.len() - 1
                    })
                });
                let not_kept =
                    location.is_not_kept().then(|| SourceFrame::new(FRAMES_NOT_KEPT, None, None));
                let functions = not_kept.into_iter().collect();
                frames.push(made!(Frame { module, offset, is_guess, functions }));
                frames.len() as u32 - 1
            })
        })
    }

    /// By location: its frame.
    fn of_locations(&self) -> Vec<u32> {
        let locations = self.by_location.keys().max().map_or(0, |&last| last as usize + 1);
        let mut frame_of = vec![NONE; locations];
        self.by_location.iter().for_each(|(&at, &frame)| frame_of[at as usize] = frame);
        frame_of
    }
}

/// What the rows are sorted by, the largest first; then the stack that was seen first.
type SortKey = (Reverse<(u64, u64)>, u32);

/// What is summed up of the stacks.
struct Builder<'a> {
    sources: &'a Sources<'a>,
    accounts: &'a Accounts,
    /// By node: how its stacks end.
    ends: Vec<StackEnd>,
    /// By node: whether its stack has frames that are a guess; empty if none has.
    guesses: Vec<bool>,
    /// By scope, if stacks are only those of some.
    is_in_scope: Option<Vec<bool>>,
    /// By stack: the first of its buckets; by bucket: the next one of its stack.
    first: Vec<u32>,
    next: Vec<u32>,
    /// By stack: blocks that came from other stacks, and that went to others.
    moves: IntMap<u32, [Moves; 2]>,
    /// By stack: the next one in its row.
    joined: IntMap<u32, u32>,
}

impl<'a> Builder<'a> {
    fn new(sources: &'a Sources<'a>, is_in_scope: Option<Vec<bool>>) -> Self {
        let accounts = sources.model.accounts();
        let (first, next) = Default::default();
        let (moves, joined) = Default::default();
        let callstacks = sources.model.callstacks();
        let (ends, guesses) = (callstacks.tree().ends(), callstacks.guesses());
        Self { sources, accounts, ends, guesses, is_in_scope, first, next, moves, joined }
    }

    fn key(&self, stack: u32) -> (u32, StackKind, StackEnd) {
        key(self.sources, stack, |node| self.ends[node as usize])
    }

    /// The stack that a bucket counts in.
    fn stack_of(&self, bucket: &Bucket) -> Option<u32> {
        let scope = self.sources.model.contexts().get(bucket.context).scope as usize;
        self.is_in_scope.as_ref().is_none_or(|is_in| is_in[scope]).then_some(bucket.stack)
    }

    fn bucket_figures(&self, bucket: &Bucket) -> Figures {
        bucket.figures(self.accounts.total().generation)
    }

    /// How many stacks were taken.
    fn taken(&self) -> TakenStacks {
        let mut taken = TakenStacks::default();
        for bucket in self.accounts.buckets() {
            let figures = self.bucket_figures(&bucket);
            if figures != Figures::default()
                && let Some(stack) = self.stack_of(&bucket)
            {
                let (node, kind, end) = self.key(stack);
                taken.add(kind, end, &figures);
                if self.sources.model.callstacks().is_cut(node) {
                    taken.add_cut(&figures);
                }
                if self.guesses.get(node as usize) == Some(&true) {
                    taken.add_guess(&figures);
                }
            }
        }
        taken
    }

    fn sum_moves(&mut self) {
        for (from, to, [left, entered]) in self.accounts.moves() {
            let of = |bucket: Option<Bucket>| self.stack_of(&bucket?);
            let (from, to) = (of(from), of(to));
            if from != to {
                let mut add = |stack: Option<u32>, side: usize, moved| {
                    if let Some(stack) = stack {
                        add_moves(&mut self.moves.entry(stack).or_default()[side], moved);
                    }
                };
                add(from, 1, left);
                add(to, 0, entered);
            }
        }
    }

    /// Lists the buckets of each stack in their order.
    fn list_buckets(&mut self) {
        let buckets = self.accounts.buckets();
        self.first = vec![NONE; self.sources.model.callstacks().len()];
        self.next = vec![NONE; buckets.len()];
        for bucket in buckets.rev() {
            if let Some(stack) = self.stack_of(&bucket) {
                self.next[bucket.number as usize] =
                    std::mem::replace(&mut self.first[stack as usize], bucket.number);
            }
        }
    }

    fn buckets(&self, stack: u32) -> impl Iterator<Item = u32> {
        let is_one = |bucket: &u32| *bucket != NONE;
        std::iter::successors(Some(self.first[stack as usize]).filter(is_one), move |&bucket| {
            Some(self.next[bucket as usize]).filter(is_one)
        })
    }

    /// The figures of a stack; `None` if nothing happened.
    fn figures(&self, stack: u32) -> Option<Figures> {
        let mut figures = Figures::default();
        for bucket in self.buckets(stack) {
            figures.add(&self.bucket_figures(&self.accounts.bucket(bucket)));
        }
        if let Some(moves) = self.moves.get(&stack) {
            [figures.moved_in, figures.moved_out] = *moves;
        }
        if figures == Figures::default() {
            return None;
        }
        // NOTE: the peaks of a stack's part in some scopes are not kept.
        if self.is_in_scope.is_none() {
            figures.peak_bytes = self.accounts.stack_peak(stack);
        }
        Some(figures)
    }

    fn weights(&self, stack: u32) -> Option<Weights> {
        if self.accounts.sampling() == 0 || stack == NO_STACK {
            return None;
        }
        let mut sum = None;
        for bucket in self.buckets(stack) {
            let sum: &mut Weights = sum.get_or_insert_default();
            match self.accounts.weights(bucket) {
                Some(sampled) => sum.add(&sampled),
                None => sum.add_exact(&self.bucket_figures(&self.accounts.bucket(bucket))),
            }
        }
        sum
    }

    /// The stacks of a row, from the first one on.
    fn row(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), |stack| self.joined.get(stack).copied())
    }

    /// The figures of all stacks of a row.
    fn row_figures(&self, first: u32) -> (Figures, Option<Weights>) {
        let mut figures = self.figures(first).unwrap_or_default();
        let mut weights = self.weights(first);
        for stack in self.row(first).skip(1) {
            let more = self.figures(stack).unwrap_or_default();
            figures.add(&more);
            figures.add_moves(&more);
            // NOTE: not more than it was; the accounts have the two peaks apart.
            let Figures { live_bytes, live_bytes_at_peak, peak_bytes, .. } = figures;
            let least = live_bytes.max(live_bytes_at_peak);
            figures.peak_bytes = peak_bytes.max(more.peak_bytes).max(least);
            if let (Some(sum), Some(more)) = (&mut weights, self.weights(stack)) {
                sum.add(&more);
            }
        }
        (figures, weights)
    }

    /// The rows: for each its place, with its first stack. Stacks that have the same frames share one: their
    /// ids were used before their specs were read, or their modules were announced later.
    fn places(&mut self, numbers: &mut FrameNumbers, more: &[u32]) -> Vec<SortKey> {
        let callstacks = self.sources.model.callstacks();
        let has_row = |&stack: &u32| self.figures(stack).is_some() || more.contains(&stack);
        let with_figures: Vec<u32> = (0..callstacks.len() as u32).filter(has_row).collect();
        self.number_frames(&with_figures, numbers);
        let same = same_nodes(callstacks.tree(), numbers);
        // By node: the last stack of its row so far. Stacks that are not known have no node.
        let mut last = vec![NONE; callstacks.tree().len()];
        let mut last_unknown = NONE;
        let mut firsts = Vec::with_capacity(with_figures.len());
        for stack in with_figures {
            let last = match self.key(stack) {
                (_, StackKind::Unknown, _) => &mut last_unknown,
                (_, StackKind::NotTaken, _) => &mut { NONE },
                (node, ..) => {
                    &mut last[same.as_ref().map_or(node, |same| same[node as usize]) as usize]
                }
            };
            match std::mem::replace(last, stack) {
                NONE => firsts.push(stack),
                before => _ = self.joined.insert(before, stack),
            }
        }
        let place = |first| {
            let (figures, _) = self.row_figures(first);
            (Reverse((figures.live_bytes, figures.allocated_bytes)), first)
        };
        let mut places: Vec<_> = firsts.into_iter().map(place).collect();
        places.sort_unstable();
        places
    }

    /// Numbers the frames of these stacks, each stack from its innermost frame on.
    ///
    /// PERF: looks at each node once: frames further out than a known node are numbered already.
    fn number_frames(&self, stacks: &[u32], numbers: &mut FrameNumbers) {
        let tree = self.sources.model.callstacks().tree();
        let mut is_numbered = vec![false; tree.len()];
        for &stack in stacks {
            let (node, ..) = self.key(stack);
            for node in tree.path(node) {
                if std::mem::replace(&mut is_numbered[node as usize], true) {
                    break;
                }
                numbers.frame(self.sources, tree.location(node));
            }
        }
    }

    fn table(mut self, taken: TakenStacks, more: &[u32]) -> StackTable {
        self.list_buckets();
        let mut numbers = FrameNumbers::default();
        let places = self.places(&mut numbers, more);
        let callstacks = self.sources.model.callstacks();
        let tree = Arc::clone(callstacks.tree());
        let mut stacks = StackRows::of_tree(tree, numbers.of_locations(), places.len(), taken);
        let mut row_of = vec![NONE; callstacks.len()];
        for (number, (_, first)) in places.into_iter().enumerate() {
            self.row(first).for_each(|stack| row_of[stack as usize] = number as u32);
            let (node, kind, end) = self.key(first);
            let (figures, weights) = self.row_figures(first);
            stacks.push_node(node, (kind, end), &figures, weights);
        }
        stacks.shrink();
        let FrameNumbers { frames, modules, .. } = numbers;
        StackTable { stacks, frames, modules, row_of }
    }
}

/// By node: the first one with the same frames; `None` if there are no others.
fn same_nodes(tree: &StackTree, numbers: &FrameNumbers) -> Option<Vec<u32>> {
    if numbers.by_location.len() == numbers.by_place.len() {
        return None;
    }
    let roots = StackTree::ROOTS as u32;
    let mut same: Vec<u32> = (0..roots).collect();
    let mut known = IntMap::default();
    for node in roots..tree.len() as u32 {
        let (parent, location) = (same[tree.parent(node) as usize], tree.location(node));
        // No row has a location without a frame.
        let frame = numbers.by_location.get(&location);
        same.push(frame.map_or(node, |&frame| *known.entry((parent, frame)).or_insert(node)));
    }
    Some(same)
}
