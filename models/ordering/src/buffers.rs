//! How a thread continues from one buffer to the next while the worker reads: `make_room`
//! (`buffer_pool.rs`), `ThreadSlot::set_buffer` and `ThreadSlot::committed` (`slot.rs`), and the
//! worker's cursors (`threads.rs`, `merge.rs`). This file also models how a thread continues in
//! another slot.

use crate::rules::{AtomicU64, Real, Rules, epoch, word};
use crate::{ALL, explore};
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

/// The bits of an epoch that an event carries in this model; the real number is 24.
const LOW: u64 = 0xff;
/// The epoch in the header of a recycled buffer.
const STALE: u64 = 40;
const NO_BUFFER: usize = usize::MAX;
/// Events in a buffer.
const CAPACITY: usize = 2;

struct Buffer {
    events: [AtomicU64; CAPACITY],
    committed: AtomicUsize,
    next: AtomicUsize,
    epoch: AtomicU64,
}

struct Slot {
    first: AtomicUsize,
    /// The buffer, and the index of the next event in it.
    cursor: AtomicUsize,
    buffers: [Buffer; 3],
}

const fn at(buffer: usize, place: usize) -> usize {
    buffer << 8 | place
}

/// The thread: every event has an epoch of its own, from 1 on.
fn write(slot: &Slot, events: u64, way: Way) {
    let (mut buffer, mut place) = (NO_BUFFER, 0);
    for epoch in 1..=events {
        if buffer == NO_BUFFER || place == CAPACITY {
            let new = if buffer == NO_BUFFER { 0 } else { buffer + 1 };
            let begin = || slot.buffers[new].epoch.store(epoch, Relaxed);
            if way.epoch_first {
                begin();
            }
            if buffer == NO_BUFFER {
                slot.first.store(new, Release);
            } else {
                slot.buffers[buffer].committed.store(place, way.committed);
                slot.buffers[buffer].next.store(new, Release);
            }
            if !way.epoch_first {
                begin();
            }
            (buffer, place) = (new, 0);
            slot.cursor.store(at(buffer, place), Release);
        }
        slot.buffers[buffer].events[place].store(epoch & LOW, Relaxed);
        place += 1;
        slot.cursor.store(at(buffer, place), Release);
    }
}

/// `ThreadSlot::committed`.
fn committed(slot: &Slot, buffer: usize) -> (usize, usize) {
    let cursor = slot.cursor.load(Acquire);
    let next = slot.buffers[buffer].next.load(Acquire);
    if next == NO_BUFFER && cursor != NO_BUFFER && cursor >> 8 == buffer {
        return (cursor & 0xff, NO_BUFFER);
    }
    (slot.buffers[buffer].committed.load(Acquire), next)
}

/// How far the worker has drained: buffer, index and epoch, like `ResumePoint`.
type Drained = Option<(usize, usize, u64)>;

/// One cycle of the worker: reads the committed events into `found`.
fn drain(slot: &Slot, drained: Drained, found: &mut Vec<u64>) -> Drained {
    let first = slot.first.load(Acquire);
    if first == NO_BUFFER {
        return drained;
    }
    let mut last = drained.map_or(first, |(buffer, ..)| buffer);
    let end = loop {
        match committed(slot, last) {
            (end, NO_BUFFER) => break end,
            (_, next) => last = next,
        }
    };
    let of_buffer = |buffer: usize| (buffer, 0, slot.buffers[buffer].epoch.load(Acquire));
    let (mut buffer, mut place, mut epoch) = drained.unwrap_or_else(|| of_buffer(first));
    loop {
        let end = if buffer == last { end } else { slot.buffers[buffer].committed.load(Acquire) };
        while place < end {
            let low = slot.buffers[buffer].events[place].load(Relaxed);
            epoch += low.wrapping_sub(epoch) & LOW;
            found.push(epoch);
            place += 1;
        }
        if buffer == last {
            return Some((buffer, place, epoch));
        }
        (buffer, place, epoch) = of_buffer(slot.buffers[buffer].next.load(Acquire));
    }
}

#[derive(Clone, Copy)]
struct Way {
    /// The new buffer's epoch is in its header before the old buffer is linked to it.
    epoch_first: bool,
    /// How the end of the old buffer is stored.
    committed: Ordering,
}

const RIGHT: Way = Way { epoch_first: true, committed: Release };

fn scenario(name: &str, events: u64, way: Way) {
    explore(name, [4, ALL], move || {
        let buffers = std::array::from_fn(|_| Buffer {
            events: std::array::from_fn(|_| AtomicU64::new(LOW)),
            committed: AtomicUsize::new(0),
            next: AtomicUsize::new(NO_BUFFER),
            epoch: AtomicU64::new(STALE),
        });
        let slot = Arc::new(Slot {
            first: AtomicUsize::new(NO_BUFFER),
            cursor: AtomicUsize::new(NO_BUFFER),
            buffers,
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
fn from_buffer_to_buffer() {
    scenario("buffers", 3, RIGHT);
}

#[test]
fn over_three_buffers() {
    scenario("three buffers", 5, RIGHT);
}

/// A thread loses its slot when it ends, and takes other slots for later events. These events must
/// follow its earlier ones, whatever the numbers of the slots, so the epoch of the thread advances
/// by `step`.
fn continues_in_another_slot(step: u64) {
    loom::model(move || {
        // The thread had a lease in slot 5, while the global clock stayed at an earlier epoch.
        let before = word(7, 6);
        let global = AtomicU64::new(word(2, 9));
        let region = AtomicU64::new(0);
        // `registry::register`, in slot 3; then an event in a region that it has not joined.
        let after = Real::join(&[&global, &region], word(epoch(before) + step, 4));
        assert!((epoch(before), 5) < (epoch(after), 3), "precedes itself");
    });
}

#[test]
fn a_slot_later_by_an_epoch() {
    continues_in_another_slot(1);
}

mod planted {
    use super::*;

    /// The worker finds a linked buffer whose header still has the epoch of its last owner.
    #[test]
    #[should_panic(expected = "read wrongly")]
    fn a_link_before_the_epoch() {
        scenario("-", 3, Way { epoch_first: false, ..RIGHT });
    }

    /// The worker finds a linked buffer, but not the cursor, and takes the end from the old buffer
    /// without having synchronised with the events before it.
    #[test]
    #[should_panic(expected = "read wrongly")]
    fn a_relaxed_end() {
        scenario("-", 3, Way { committed: Relaxed, ..RIGHT });
    }

    #[test]
    #[should_panic(expected = "precedes itself")]
    fn another_slot_in_the_same_epoch() {
        continues_in_another_slot(0);
    }
}
