//! Sums buckets into rows.

use super::figures::{Figures, Moves};
use crate::analysis::accounts::{Accounts, Bucket, Counts, Moved};
use crate::analysis::attribution::{ROOT, Tree};

/// The figures of each node alone, and with all nodes below it; `None` where nothing happened.
pub(super) type TreeFigures = Vec<Option<(Figures, Figures)>>;

/// Adds the columns that add up of a bucket or size class, at the peak `generation`.
pub(super) fn add_counts(figures: &mut Figures, counts: &Counts, generation: u64) {
    let (blocks, bytes) = counts.at_peak(generation);
    let tally = &counts.tally;
    figures.allocations += tally.allocations;
    figures.frees += tally.frees;
    figures.reallocations += tally.reallocations;
    figures.allocated_bytes = figures.allocated_bytes.wrapping_add(tally.allocated_bytes);
    figures.live_blocks += counts.live_blocks;
    figures.live_bytes = figures.live_bytes.wrapping_add(counts.live_bytes);
    figures.live_blocks_at_peak += blocks;
    figures.live_bytes_at_peak = figures.live_bytes_at_peak.wrapping_add(bytes);
    figures.short_lived += tally.short_lived;
}

pub(super) fn add_moves(sum: &mut Moves, moved: Moved) {
    sum.blocks = sum.blocks.wrapping_add(moved.blocks);
    sum.bytes = sum.bytes.wrapping_add(moved.bytes);
}

/// Sums the buckets into `rows` rows; `row_of` is the row of a bucket. A row is `None` where nothing
/// happened.
pub(super) fn by_row(
    accounts: &Accounts,
    rows: usize,
    row_of: impl Fn(&Bucket) -> u32,
) -> Vec<Option<Figures>> {
    let generation = accounts.total().generation;
    let mut sums = vec![None; rows];
    for bucket in accounts.buckets() {
        let sum = sums[row_of(bucket) as usize].get_or_insert_default();
        add_counts(sum, &bucket.counts, generation);
    }
    for (from, to, moved) in accounts.moves() {
        let (from, to) = (from.map(&row_of), to.map(&row_of));
        if from != to {
            if let Some(from) = from {
                add_moves(&mut sums[from as usize].get_or_insert_default().moved_out, moved);
            }
            if let Some(to) = to {
                add_moves(&mut sums[to as usize].get_or_insert_default().moved_in, moved);
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
    let own = by_row(accounts, tree.nodes().len(), |bucket| node_of(bucket.context));
    let mut sums = vec![None; own.len()];
    for (node, figures) in own.into_iter().enumerate().rev() {
        // NOTE: parents are before their children, so all children are in by now.
        if let Some(figures) = figures {
            let (alone, inclusive) = sums[node].get_or_insert_default();
            *alone = figures;
            add_figures(inclusive, &figures);
        }
        if let Some((_, below)) = sums[node]
            && node != ROOT as usize
        {
            let parent = tree.nodes()[node].parent as usize;
            add_figures(&mut sums[parent].get_or_insert_default().1, &below);
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

/// Sets the moves of each node with all nodes below it: those that cross its border.
fn set_inclusive_moves(
    accounts: &Accounts,
    tree: &Tree,
    node_of: impl Fn(u32) -> u32,
    sums: &mut TreeFigures,
) {
    for (_, inclusive) in sums.iter_mut().flatten() {
        (inclusive.moved_in, inclusive.moved_out) = Default::default();
    }
    let path_to_root = |bucket: Option<&Bucket>| {
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
    for (from, to, moved) in accounts.moves() {
        let (from, to) = (path_to_root(from), path_to_root(to));
        for node in from.iter().filter(|node| !to.contains(node)) {
            if let Some((_, inclusive)) = &mut sums[*node as usize] {
                add_moves(&mut inclusive.moved_out, moved);
            }
        }
        for node in to.iter().filter(|node| !from.contains(node)) {
            if let Some((_, inclusive)) = &mut sums[*node as usize] {
                add_moves(&mut inclusive.moved_in, moved);
            }
        }
    }
}

/// Adds the columns that add up, moves left out.
fn add_figures(sum: &mut Figures, other: &Figures) {
    sum.allocations += other.allocations;
    sum.frees += other.frees;
    sum.reallocations += other.reallocations;
    sum.allocated_bytes = sum.allocated_bytes.wrapping_add(other.allocated_bytes);
    sum.live_blocks += other.live_blocks;
    sum.live_bytes = sum.live_bytes.wrapping_add(other.live_bytes);
    sum.live_bytes_at_peak = sum.live_bytes_at_peak.wrapping_add(other.live_bytes_at_peak);
    sum.live_blocks_at_peak += other.live_blocks_at_peak;
    sum.short_lived += other.short_lived;
}
