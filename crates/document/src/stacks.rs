//! The rows of stacks, kept in few bytes: each is made when it is asked for.

use crate::estimate::Weights;
use crate::figures::Figures;
use crate::packed::PackedFigures;
use crate::rows::{StackKind, StackRow};
use crate::tree::{StackEnd, StackTree};
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// The rows of all stacks, in their order.
///
/// A stack takes about 20 bytes here, whatever its number of frames: these are in a tree, which the report
/// shares with the analyzer that it is of.
#[derive(Default)]
pub struct StackRows {
    tree: Arc<StackTree>,
    /// By location of the tree: its frame, an index of [`Report::frames`](crate::Report::frames).
    frame_of: Vec<u32>,
    rows: Vec<Row>,
    figures: PackedFigures,
    /// Empty unless stacks are sampled.
    weights: Vec<Option<Weights>>,
    taken: TakenStacks,
}

#[derive(Clone, Copy)]
struct Row {
    node: u32,
    kind: StackKind,
    end: StackEnd,
}

/// How many stacks were taken, by what is known of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakenStacks {
    /// Whether any block counts in a stack, if only that of blocks without one.
    pub any: bool,
    known: u64,
    /// That of stacks for which there was no memory.
    pub other: u64,
    /// Those without their inner frames, and the bytes that they have allocated.
    pub cut: (u64, u64),
    /// Those with frames that are a guess.
    pub guessed: u64,
    /// By end.
    pub by_end: [u64; StackEnd::ALL.len()],
}

impl TakenStacks {
    /// Adds the blocks of a stack.
    pub fn add(&mut self, kind: StackKind, end: StackEnd, figures: &Figures) {
        let taken = figures.allocations.wrapping_add(figures.reallocations);
        self.any = true;
        match kind {
            StackKind::Known => self.known = self.known.wrapping_add(taken),
            StackKind::Other => self.other = self.other.wrapping_add(taken),
            StackKind::NotTaken | StackKind::Unknown => {}
        }
        if kind != StackKind::Other {
            let sum = &mut self.by_end[end as usize];
            *sum = sum.wrapping_add(taken);
        }
    }

    /// Adds the blocks of a stack with frames that are a guess.
    pub fn add_guess(&mut self, figures: &Figures) {
        let taken = figures.allocations.wrapping_add(figures.reallocations);
        self.guessed = self.guessed.wrapping_add(taken);
    }

    /// Adds the blocks of a stack that lacks its inner frames.
    pub fn add_cut(&mut self, figures: &Figures) {
        let (stacks, bytes) = &mut self.cut;
        *stacks = stacks.wrapping_add(figures.allocations.wrapping_add(figures.reallocations));
        *bytes = bytes.wrapping_add(figures.allocated_bytes);
    }
}

/// NOTE: a copy shares nothing, because it can be the program's, which drops it with its own allocator.
impl Clone for StackRows {
    fn clone(&self) -> Self {
        Self {
            tree: Arc::new(StackTree::clone(&self.tree)),
            frame_of: self.frame_of.clone(),
            rows: self.rows.clone(),
            figures: self.figures.clone(),
            weights: self.weights.clone(),
            taken: self.taken,
        }
    }
}

/// For reports that are made of parts, as a test or a reader of JSON does.
impl StackRows {
    /// Adds a row. It does not share frames with other rows, so it takes 12 bytes for each of them.
    pub fn push(&mut self, row: StackRow) {
        let StackRow { kind, frames, end, figures, weights } = row;
        let tree = Arc::make_mut(&mut self.tree);
        let node = frames.iter().rev().fold(end as u32, |node, &frame| {
            self.frame_of.push(frame);
            tree.add(node, self.frame_of.len() as u32 - 1)
        });
        self.taken.add(kind, end, &figures);
        self.push_node(node, (kind, end), &figures, weights.map(|weights| *weights));
    }
}

impl FromIterator<StackRow> for StackRows {
    fn from_iter<T: IntoIterator<Item = StackRow>>(rows: T) -> Self {
        let mut stacks = Self::default();
        rows.into_iter().for_each(|row| stacks.push(row));
        stacks
    }
}

impl StackRows {
    /// No rows yet, of stacks that are nodes of this tree.
    #[doc(hidden)]
    pub fn of_tree(
        tree: Arc<StackTree>,
        frame_of: Vec<u32>,
        rows: usize,
        taken: TakenStacks,
    ) -> Self {
        Self { tree, frame_of, rows: Vec::with_capacity(rows), taken, ..Self::default() }
    }

    /// Adds the row of a node.
    #[doc(hidden)]
    pub fn push_node(
        &mut self,
        node: u32,
        (kind, end): (StackKind, StackEnd),
        figures: &Figures,
        weights: Option<Weights>,
    ) {
        if weights.is_some() || !self.weights.is_empty() {
            self.weights.resize(self.rows.len(), None);
            self.weights.push(weights);
        }
        self.rows.push(Row { node, kind, end });
        self.figures.push(figures);
    }

    /// Gives back what was reserved for further rows.
    #[doc(hidden)]
    pub fn shrink(&mut self) {
        self.figures.shrink();
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows: in a trace without stacks, or if the analyzer was asked for none
    /// (`Analyzer::without_stacks`).
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row with this number.
    pub fn get(&self, row: usize) -> Option<StackRow> {
        let &Row { kind, end, .. } = self.rows.get(row)?;
        Some(StackRow {
            kind,
            frames: self.frames(row).collect(),
            end,
            figures: self.figures.get(row),
            weights: self.weights(row).copied().map(Box::new),
        })
    }

    /// All rows. Each is made when the iterator comes to it.
    pub fn iter(&self) -> impl Iterator<Item = StackRow> + Clone {
        (0..self.len()).zip(self.figures.iter()).map(|(row, figures)| {
            let Row { kind, end, .. } = self.rows[row];
            let weights = self.weights(row).copied().map(Box::new);
            StackRow { kind, frames: self.frames(row).collect(), end, figures, weights }
        })
    }

    /// What is known of the stack with this number, whether it has no frames, and how it ends.
    #[doc(hidden)]
    pub fn key(&self, row: usize) -> Option<(StackKind, bool, StackEnd)> {
        let &Row { node, kind, end } = self.rows.get(row)?;
        Some((kind, StackTree::root(node).is_some(), end))
    }

    /// How many stacks were taken.
    #[doc(hidden)]
    pub fn taken(&self) -> &TakenStacks {
        &self.taken
    }

    /// What is known of the stack with this number, at less cost than the [row](Self::get).
    pub fn kind(&self, row: usize) -> Option<StackKind> {
        Some(self.rows.get(row)?.kind)
    }

    /// The frames of a stack, innermost first.
    #[doc(hidden)]
    pub fn frames(&self, row: usize) -> impl Iterator<Item = u32> + Clone {
        let node = self.rows.get(row).map(|row| row.node);
        node.into_iter().flat_map(|node| self.tree.path(node)).map(|node| self.frame(node))
    }

    /// The frame of a node that is no root.
    #[doc(hidden)]
    pub fn frame(&self, node: u32) -> u32 {
        self.frame_of[self.tree.location(node) as usize]
    }

    /// The node of each row. Only rows of roots share one.
    #[doc(hidden)]
    pub fn nodes(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().map(|row| row.node)
    }

    #[doc(hidden)]
    pub fn tree(&self) -> &StackTree {
        &self.tree
    }

    /// The figures of a row; of one that is not there, none but 0.
    #[doc(hidden)]
    pub fn figures(&self, row: usize) -> Figures {
        self.figures.get(row)
    }

    /// The figures of all rows.
    #[doc(hidden)]
    pub fn all_figures(&self) -> impl Iterator<Item = Figures> + Clone {
        self.figures.iter()
    }

    /// The estimates of what a row would be without sampling.
    #[doc(hidden)]
    pub fn weights(&self, row: usize) -> Option<&Weights> {
        self.weights.get(row)?.as_ref()
    }

    /// Gives all rows other figures, in their order, and other estimates: of each row, or none at all.
    #[doc(hidden)]
    pub fn set_figures(
        &mut self,
        figures: impl Iterator<Item = Figures>,
        weights: Vec<Option<Weights>>,
    ) {
        (self.figures, self.weights) = (Default::default(), weights);
        figures.take(self.rows.len()).for_each(|figures| self.figures.push(&figures));
    }

    /// Whether blocks count in stacks: also if no rows were asked for.
    #[doc(hidden)]
    pub fn any_taken(&self) -> bool {
        self.taken.any
    }

    /// How often a stack was taken that is known, if only in part.
    #[doc(hidden)]
    pub fn known(&self) -> u64 {
        self.taken.known
    }
}

/// The rows are compared, not how they are kept.
impl PartialEq for StackRows {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for StackRows {}

impl Debug for StackRows {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
