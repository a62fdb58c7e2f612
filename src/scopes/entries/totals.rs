//! The number of entries of each scope by all threads.

use super::visit;
use crate::scopes::tree;
use std::sync::atomic::Ordering;

/// Raises each number in `entries`, which is indexed by node, to the number of entries of that
/// node.
///
/// Counts all entries that happened before the call, on any thread. May miss entries that happen
/// during the call, but counts none twice.
pub(in crate::scopes) fn read(entries: &mut Vec<u64>) {
    /// The maximum number of reads. While a thread moves entries from a word to the node's counter,
    /// the entries are in neither. So a read is repeated if a counter has changed during it.
    const ATTEMPTS: usize = 8;
    let count = tree::len();
    let moved = || {
        let counters = (0..count as u32).filter_map(tree::entry_counter);
        counters.map(|counter| counter.load(Ordering::Acquire)).collect::<Vec<_>>()
    };
    entries.resize(count.max(entries.len()), 0);
    let mut before = moved();
    for _ in 0..ATTEMPTS {
        let mut sums = before.clone();
        // NOTE: the words are read after the nodes' counters. An entry that moves in between is
        // missed, not counted twice.
        visit(|node, more| {
            if let Some(sum) = sums.get_mut(node as usize) {
                *sum = sum.wrapping_add(more);
            }
        });
        entries.iter_mut().zip(sums).for_each(|(most, sum)| *most = sum.max(*most));
        let after = moved();
        if after == before {
            return;
        }
        before = after;
    }
}
