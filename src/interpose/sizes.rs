//! The sizes of large blocks of an allocator that cannot be asked for them: a linker has left the function
//! out.
//!
//! An event about a block joins the clocks of all regions that it is in, so its size has to be known also
//! when it is freed. Small blocks are in one region.

use crate::trace::write::sync::WINDOW;
use std::sync::atomic::{AtomicUsize, Ordering};

const SLOTS: usize = 1 << 14;
/// How far from its own slot a block may be.
const REACH: usize = 16;

/// The addresses and sizes; an address of 0 is a free slot.
///
/// NOTE: only the program's threads use it, and a block is used by one thread at a time. A slot that is free
/// again goes from one thread to another: a release store frees it, after the size was read, and an acquire
/// load takes it.
static BLOCKS: [[AtomicUsize; 2]; SLOTS] = [const { [const { AtomicUsize::new(0) }; 2] }; SLOTS];

fn slots(block: *mut u8) -> impl Iterator<Item = &'static [AtomicUsize; 2]> {
    // As in `own_blocks`.
    let start =
        (block.addr() >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SLOTS.ilog2());
    (start..start + REACH).map(|slot| &BLOCKS[slot % SLOTS])
}

/// *Hook.* Adds a block, if it is large. If there is no slot for it, its events are ordered as those of a
/// small one.
pub(super) fn add(block: *mut u8, size: usize) {
    if size < WINDOW {
        return;
    }
    for [address, bytes] in slots(block) {
        if address.compare_exchange(0, block.addr(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            bytes.store(size, Ordering::Relaxed);
            return;
        }
    }
}

fn find(block: *mut u8) -> Option<&'static [AtomicUsize; 2]> {
    slots(block).find(|[address, _]| address.load(Ordering::Relaxed) == block.addr())
}

/// *Hook.* The size of a large block.
pub(super) fn of(block: *mut u8) -> Option<usize> {
    find(block).map(|[_, bytes]| bytes.load(Ordering::Relaxed))
}

/// *Hook.* Removes a block that is about to be freed.
pub(super) fn remove(block: *mut u8) {
    if let Some([address, _]) = find(block) {
        address.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    #[test]
    fn sizes_are_those_of_large_blocks_until_they_are_removed() {
        let block = |number: usize| without_provenance_mut::<u8>(number << 20);
        add(block(1), WINDOW - 1);
        assert_eq!(of(block(1)), None);
        for round in 0..3 {
            (1..=1000).for_each(|number| add(block(number), WINDOW + number + round));
            assert!((1..=1000).all(|number| of(block(number)) == Some(WINDOW + number + round)));
            (1..=1000).for_each(|number| remove(block(number)));
            assert!((1..=1000).all(|number| of(block(number)).is_none()));
        }
    }
}
