//! The blocks that C functions allocate for the tracker's own code, such as the thread-local memory of
//! its threads.
//!
//! They have no event. But another thread may free one: glibc keeps the memory of threads that have
//! ended for the next thread, or for the next that ends. So their addresses are in a table, a few dozen
//! at a time, and a free looks there first.

use std::sync::atomic::{AtomicUsize, Ordering};

const SLOTS: usize = 1024;
/// How far from its own slot an address may be.
const REACH: usize = 16;

static ADDRESSES: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(FREE) }; SLOTS];
/// A slot that had no address since the slots before it were full.
const FREE: usize = 0;
/// A slot whose address was removed: what is behind it may have passed it.
const REMOVED: usize = 1;

#[inline(always)]
fn slots(address: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    // The bits above those that are equal in all blocks, spread by Fibonacci hashing.
    let start = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SLOTS.ilog2());
    (start..start + REACH).map(|slot| &ADDRESSES[slot % SLOTS])
}

/// Adds a block. If there is no slot for it, a free of another thread is one of an unknown block.
pub(crate) fn add(block: *mut u8) {
    for slot in slots(block.addr()) {
        for empty in [FREE, REMOVED] {
            let taken =
                slot.compare_exchange(empty, block.addr(), Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }
}

/// Removes a block that is about to be freed; whether it was there.
#[inline(always)]
pub(crate) fn remove(block: *mut u8) -> bool {
    for slot in slots(block.addr()) {
        let found = slot.load(Ordering::Relaxed);
        if found == FREE {
            return false;
        }
        if found == block.addr() {
            slot.store(REMOVED, Ordering::Relaxed);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    #[test]
    fn blocks_are_found_until_they_are_removed() {
        let blocks: Vec<*mut u8> =
            (1..=200).map(|number| without_provenance_mut((number * 48) << 4)).collect();
        for round in 0..20 {
            blocks.iter().for_each(|block| add(*block));
            assert!(!remove(without_provenance_mut(7 << 4)), "{round}");
            assert!(blocks.iter().all(|block| remove(*block)), "{round}");
            assert!(!blocks.iter().any(|block| remove(*block)), "{round}");
        }
        // More than there is room for is refused, and nothing is found that was not added.
        let many = (1..=2 * SLOTS).map(|number| without_provenance_mut::<u8>(number << 20));
        many.clone().for_each(add);
        assert!(many.filter(|block| remove(*block)).count() <= SLOTS);
    }
}
