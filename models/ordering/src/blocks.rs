//! How a thread goes on from one block of events to the next while the worker reads: `make_room`
//! (`buffer.rs`), `Slot::set_block` and `Slot::committed` (`registry.rs`), `read_cursors`, `feed` and
//! `leave` (`feeds.rs`). And how it goes on in another slot.

use crate::rules::{AtomicU64, Real, Rules, epoch, word};
use crate::{ALL, explore};
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

/// Of the epochs that events carry, this model keeps so many bits; the real one 24.
const LOW: u64 = 0xff;
/// Recycled blocks say what they were in before.
const STALE: u64 = 40;
const NO_BLOCK: usize = usize::MAX;
/// Events in a block.
const ROOM: usize = 2;

struct Block {
    events: [AtomicU64; ROOM],
    committed: AtomicUsize,
    next: AtomicUsize,
    epoch: AtomicU64,
}

struct Slot {
    first: AtomicUsize,
    /// The block, and the place in it.
    cursor: AtomicUsize,
    blocks: [Block; 3],
}

const fn at(block: usize, place: usize) -> usize {
    block << 8 | place
}

/// The thread: every event in an epoch of its own, from 1 on.
fn write(slot: &Slot, events: u64, way: Way) {
    let (mut block, mut place) = (NO_BLOCK, 0);
    for epoch in 1..=events {
        if block == NO_BLOCK || place == ROOM {
            let new = if block == NO_BLOCK { 0 } else { block + 1 };
            let begin = || slot.blocks[new].epoch.store(epoch, Relaxed);
            if way.epoch_first {
                begin();
            }
            if block == NO_BLOCK {
                slot.first.store(new, Release);
            } else {
                slot.blocks[block].committed.store(place, way.committed);
                slot.blocks[block].next.store(new, Release);
            }
            if !way.epoch_first {
                begin();
            }
            (block, place) = (new, 0);
            slot.cursor.store(at(block, place), Release);
        }
        slot.blocks[block].events[place].store(epoch & LOW, Relaxed);
        place += 1;
        slot.cursor.store(at(block, place), Release);
    }
}

/// `Slot::committed`.
fn committed(slot: &Slot, block: usize) -> (usize, usize) {
    let cursor = slot.cursor.load(Acquire);
    let next = slot.blocks[block].next.load(Acquire);
    if next == NO_BLOCK && cursor != NO_BLOCK && cursor >> 8 == block {
        return (cursor & 0xff, NO_BLOCK);
    }
    (slot.blocks[block].committed.load(Acquire), next)
}

/// How far the worker is: in which block, where, and in which epoch; as `Occupant::drained`.
type Drained = Option<(usize, usize, u64)>;

/// One tick of the worker: reads what is committed into `found`.
fn drain(slot: &Slot, drained: Drained, found: &mut Vec<u64>) -> Drained {
    let first = slot.first.load(Acquire);
    if first == NO_BLOCK {
        return drained;
    }
    let mut last = drained.map_or(first, |(block, ..)| block);
    let end = loop {
        match committed(slot, last) {
            (end, NO_BLOCK) => break end,
            (_, next) => last = next,
        }
    };
    let of_block = |block: usize| (block, 0, slot.blocks[block].epoch.load(Acquire));
    let (mut block, mut place, mut epoch) = drained.unwrap_or_else(|| of_block(first));
    loop {
        let end = if block == last { end } else { slot.blocks[block].committed.load(Acquire) };
        while place < end {
            let low = slot.blocks[block].events[place].load(Relaxed);
            epoch += low.wrapping_sub(epoch) & LOW;
            found.push(epoch);
            place += 1;
        }
        if block == last {
            return Some((block, place, epoch));
        }
        (block, place, epoch) = of_block(slot.blocks[block].next.load(Acquire));
    }
}

#[derive(Clone, Copy)]
struct Way {
    /// The new block's epoch is in its header before the old one is linked to it.
    epoch_first: bool,
    /// How the end of the old block is stored.
    committed: Ordering,
}

const RIGHT: Way = Way { epoch_first: true, committed: Release };

fn scenario(name: &str, events: u64, way: Way) {
    explore(name, [4, ALL], move || {
        let blocks = std::array::from_fn(|_| Block {
            events: std::array::from_fn(|_| AtomicU64::new(LOW)),
            committed: AtomicUsize::new(0),
            next: AtomicUsize::new(NO_BLOCK),
            epoch: AtomicU64::new(STALE),
        });
        let slot = Arc::new(Slot {
            first: AtomicUsize::new(NO_BLOCK),
            cursor: AtomicUsize::new(NO_BLOCK),
            blocks,
        });
        let thread = {
            let slot = slot.clone();
            loom::thread::spawn(move || write(&slot, events, way))
        };
        let mut found = Vec::new();
        let drained = drain(&slot, None, &mut found);
        thread.join().unwrap();
        drain(&slot, drained, &mut found);
        assert_eq!(found, (1..=events).collect::<Vec<_>>(), "read wrongly");
    });
}

#[test]
fn from_block_to_block() {
    scenario("blocks", 3, RIGHT);
}

#[test]
fn over_three_blocks() {
    scenario("three blocks", 5, RIGHT);
}

/// A thread at its end has its slot taken from it, and others for what comes still. It stands
/// behind itself, wherever those are in the order of slots: its epoch goes on by `step`.
fn goes_on_in_another_slot(step: u64) {
    loom::model(move || {
        // It had a lease in slot 5, while others stayed behind in the world.
        let before = word(7, 6);
        let world = AtomicU64::new(word(2, 9));
        let region = AtomicU64::new(0);
        // `registry::register`, in slot 3; then an event in a region it has not been to.
        let after = Real::meet(&[&world, &region], word(epoch(before) + step, 4));
        assert!((epoch(before), 5) < (epoch(after), 3), "stands before itself");
    });
}

#[test]
fn a_slot_later_by_an_epoch() {
    goes_on_in_another_slot(1);
}

mod planted {
    use super::*;

    /// The worker finds a block linked whose header has the epoch of its last owner still.
    #[test]
    #[should_panic(expected = "read wrongly")]
    fn a_link_before_the_epoch() {
        scenario("-", 3, Way { epoch_first: false, ..RIGHT });
    }

    /// The worker finds a block linked, but not the cursor, and takes the end from the block
    /// without having synchronised with the events before.
    #[test]
    #[should_panic(expected = "read wrongly")]
    fn a_relaxed_end() {
        scenario("-", 3, Way { committed: Relaxed, ..RIGHT });
    }

    #[test]
    #[should_panic(expected = "stands before itself")]
    fn another_slot_in_the_same_epoch() {
        goes_on_in_another_slot(0);
    }
}
