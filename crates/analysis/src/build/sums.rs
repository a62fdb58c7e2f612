//! Sums buckets into rows.

use crate::accounts::{Accounts, Bucket, Counts, Moved};
use crate::attribution::{ROOT, Tree};
use memledger_document::{Figures, Moves};

/// The figures of each node alone, and with all nodes below it; `None` where nothing happened.
pub(super) type TreeFigures = Vec<Option<(Figures, Figures)>>;

/// Adds those columns of a bucket or size class that add up. `generation` is the current peak
/// generation.
pub(super) fn add_counts(figures: &mut Figures, counts: &Counts, generation: u64) {
    let mut of = counts.tally.figures();
    (of.live_blocks, of.live_bytes) = (counts.live_blocks, counts.live_bytes);
    (of.live_blocks_at_peak, of.live_bytes_at_peak) = counts.at_peak(generation);
    figures.add(&of);
}

impl Bucket {
    /// The columns that add up, at the peak `generation`.
    pub(super) fn figures(&self, generation: u64) -> Figures {
        let mut figures = Figures::default();
        add_counts(&mut figures, &self.counts, generation);
        figures
    }
}

pub(super) fn add_moves(sum: &mut Moves, moved: Moved) {
    sum.add(moved.blocks, moved.bytes);
}

/// Sums the buckets into `rows` rows; `row_of` is the row of a bucket, if it has one. A row is
/// `None` where nothing happened.
pub(super) fn by_row(
    accounts: &Accounts,
    rows: usize,
    row_of: impl Fn(&Bucket) -> Option<u32>,
) -> Vec<Option<Figures>> {
    let generation = accounts.total().generation;
    let mut sums = vec![None; rows];
    for bucket in accounts.buckets() {
        let Some(row) = row_of(&bucket) else { continue };
        let sum = sums[row as usize].get_or_insert_default();
        add_counts(sum, &bucket.counts, generation);
    }
    for (from, to, [left, entered]) in accounts.moves() {
        let (from, to) = (from.as_ref().and_then(&row_of), to.as_ref().and_then(&row_of));
        if from != to {
            if let Some(from) = from {
                add_moves(&mut sums[from as usize].get_or_insert_default().moved_out, left);
            }
            if let Some(to) = to {
                add_moves(&mut sums[to as usize].get_or_insert_default().moved_in, entered);
            }
        }
    }
    sums
}

/// The figures of each node alone and with all nodes below it; `node_of` is the node of a context.
pub(super) fn by_node(
    accounts: &Accounts,
    tree: &Tree,
    node_of: impl Fn(u32) -> u32,
) -> TreeFigures {
    let own = by_row(accounts, tree.nodes().len(), |bucket| Some(node_of(bucket.context)));
    let mut sums: TreeFigures = vec![None; own.len()];
    for (node, figures) in own.into_iter().enumerate().rev() {
        // NOTE: a parent is before its children in the list, so all children are added by now.
        if let Some(figures) = figures {
            let (alone, inclusive) = sums[node].get_or_insert_default();
            *alone = figures;
            inclusive.add(&figures);
        }
        if let Some((_, below)) = sums[node]
            && node != ROOT as usize
        {
            let parent = tree.nodes()[node].parent as usize;
            sums[parent].get_or_insert_default().1.add(&below);
        }
    }
    set_inclusive_moves(accounts, tree, &node_of, &mut sums);
    for (sum, node) in sums.iter_mut().zip(tree.nodes()) {
        if let Some((alone, inclusive)) = sum {
            alone.peak_bytes = accounts.peak(node.own);
            inclusive.peak_bytes = accounts.peak(node.inclusive);
        }
    }
    sums
}

/// Sets the moves in the inclusive figures of each node: those into and out of the subtree of the
/// node.
fn set_inclusive_moves(
    accounts: &Accounts,
    tree: &Tree,
    node_of: impl Fn(u32) -> u32,
    sums: &mut TreeFigures,
) {
    for (_, inclusive) in sums.iter_mut().flatten() {
        (inclusive.moved_in, inclusive.moved_out) = Default::default();
    }
    let path_to_root = |bucket: Option<Bucket>| {
        let mut path = Vec::new();
        if let Some(bucket) = bucket {
            let mut node = node_of(bucket.context);
            path.push(node);
            while node != ROOT {
                node = tree.nodes()[node as usize].parent;
                path.push(node);
            }
        }
        path
    };
    for (from, to, [left, entered]) in accounts.moves() {
        let (from, to) = (path_to_root(from), path_to_root(to));
        for node in from.iter().filter(|node| !to.contains(node)) {
            if let Some((_, inclusive)) = &mut sums[*node as usize] {
                add_moves(&mut inclusive.moved_out, left);
            }
        }
        for node in to.iter().filter(|node| !from.contains(node)) {
            if let Some((_, inclusive)) = &mut sums[*node as usize] {
                add_moves(&mut inclusive.moved_in, entered);
            }
        }
    }
}
