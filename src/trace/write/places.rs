//! Where threads meet: the world and the regions of memory, as every hook finds them, and the
//! leases that spare a thread the way to the world. The rules are those of [`order`](super::order).
#![expect(unsafe_code, reason = "a thread's pointer to the word that stands for the world")]

use super::order::{self, STOP};
use super::registry::Slot;
use super::{buffer, loss, state};
use crate::platform::clock;
use crossbeam_utils::CachePadded;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// PERF: one static, so that its address is looked up once.
static PLACES: Places = Places {
    world: CachePadded::new(AtomicU64::new(0)),
    log: CachePadded::new(AtomicU64::new(0)),
    regions: [const { AtomicU64::new(0) }; 1 << 14],
};

struct Places {
    world: CachePadded<AtomicU64>,
    /// Where threads meet that log events: the one place that all such events concern. It says by
    /// itself whether they are recorded, since the hook's events may be off alone.
    log: CachePadded<AtomicU64>,
    /// Regions are told apart up to 16 GiB of each other; farther ones may share a word, which is
    /// not wrong: their threads meet where they need not. 128 KiB, of which only used pages exist.
    regions: [AtomicU64; 1 << 14],
}

/// Bytes of addresses in a region. Smaller ones keep the threads of allocators apart that mix
/// threads finely; larger ones make a new epoch cheaper, which is written to each region used.
const REGION: usize = 1 << 20;

/// Blocks that do not fit into an aligned piece of this size take the long way: large ones meet
/// in the world, and any may lie in two regions. Of small ones, one in some hundreds.
const WINDOW: usize = 64 << 10;

/// Two meetings in the world are near each other if so many nanoseconds lie between them: far more
/// than one costs, where 100 threads come at once.
const NEAR: u64 = 100_000;
/// So many near ones in a row, and the thread gets a lease. Threads that take turns a few times, as
/// in a test of a program's peak, shall be in their true order.
const HOT: u32 = 64;
/// Bytes of events in a lease: the least, for each epoch that others have gone on by since the
/// last meeting, and the most. The least is some 30 events.
const LEASE: [usize; 3] = [512, 256, 16 << 10];

/// Whether an event of this thread that concerns `size` bytes at `address` is in its place in the
/// order: nobody else was where it happens since the thread was last.
///
/// `stamp` is the thread's. Says so for small blocks only: of less than 64 KiB.
#[inline(always)]
pub(crate) fn is_here(slot: &Slot, stamp: u64, address: usize, size: usize) -> bool {
    // SAFETY: it points to a static, or into a slot, and slots are never unmapped.
    let world = unsafe { &*slot.world.load(Ordering::Relaxed) };
    world.load(Ordering::Relaxed) == stamp
        && region(address).load(Ordering::Relaxed) == stamp
        && (address & (WINDOW - 1)) + size <= WINDOW
}

/// Brings the thread, which is inside the hook, to the place where its next event happens; `false`
/// if the event is not to be recorded.
#[inline(never)]
pub(crate) fn come(slot: &Slot, address: usize, size: usize) -> bool {
    loop {
        let world = PLACES.world.load(Ordering::Relaxed);
        if world & STOP != 0 && !state::goes_on() {
            return false;
        }
        let leased = is_leased(slot);
        let before = slot.stamp.load(Ordering::Relaxed);
        let stamp = if leased && size < WINDOW {
            order::meet(regions(address, size), before)
        } else {
            order::meet(regions(address, size).chain([&*PLACES.world]), before)
        };
        slot.stamp.store(stamp, Ordering::Release);
        if slot.is_epoch_near(order::epoch(stamp)) {
            // Without the barrier, no thread may go without looking for the order to stop.
            if !leased && is_other(world, stamp) && world & STOP == 0 {
                consider_lease(slot, order::epoch(world).saturating_sub(order::epoch(before)));
            }
            return true;
        }
        // Records carry the low bits of the epoch, and the block they are in says the rest. While
        // the thread waits for a block, the worker may leave this epoch behind.
        if !buffer::make_room(slot) {
            loss::event(slot);
            return false;
        }
    }
}

/// Whether an event that the program logs is in its place in the order: nobody else has logged one
/// since this thread did. `stamp` is the thread's.
#[inline(always)]
pub(crate) fn is_here_to_log(slot: &Slot, stamp: u64) -> bool {
    // SAFETY: it points to a static, or into a slot, and slots are never unmapped.
    let world = unsafe { &*slot.world.load(Ordering::Relaxed) };
    PLACES.log.load(Ordering::Relaxed) == stamp && world.load(Ordering::Relaxed) & !STOP == stamp
}

/// Whether events that the program logs are recorded, as far as a thread inside the hook can see
/// without looking closely.
#[inline(always)]
pub(crate) fn is_logging() -> bool {
    PLACES.log.load(Ordering::Relaxed) & STOP == 0
}

/// Brings the thread, which is inside the hook, to where it logs its next event; `false` if that is
/// not to be recorded.
pub(crate) fn come_to_log(slot: &Slot) -> bool {
    loop {
        if !is_logging() && !state::goes_on_with(state::LOG) {
            return false;
        }
        let before = slot.stamp.load(Ordering::Relaxed);
        // Under a lease the world can wait, but not what other threads log.
        let stamp = if is_leased(slot) {
            order::meet([&*PLACES.log].into_iter(), before)
        } else {
            order::meet([&*PLACES.log, &*PLACES.world].into_iter(), before)
        };
        slot.stamp.store(stamp, Ordering::Release);
        if slot.is_epoch_near(order::epoch(stamp)) {
            return true;
        }
        // As in `come`.
        if !buffer::make_room(slot) {
            loss::event(slot);
            return false;
        }
    }
}

/// Whether another thread of the program was at a place last.
fn is_other(found: u64, stamp: u64) -> bool {
    ![order::WORKER, order::owner(stamp)].contains(&order::owner(found))
}

/// Another thread was in the world since this one was, and went on by so many epochs.
fn consider_lease(slot: &Slot, epochs: u64) {
    let now = clock::now();
    let near = now.saturating_sub(slot.met_at.replace(now)) < NEAR;
    slot.heat.set(if near { slot.heat.get() + 1 } else { 0 });
    if slot.heat.get() >= HOT {
        let [least, each, most] = LEASE;
        slot.heat.set(HOT);
        slot.set_soft_limit((each * epochs.min(64) as usize).clamp(least, most));
        // PERF: there it finds its own stamp; so a lease costs the hook nothing.
        slot.world.store((&raw const slot.stamp).cast_mut(), Ordering::Relaxed);
    }
}

/// Whether the thread does not look at the world at present.
pub(crate) fn is_leased(slot: &Slot) -> bool {
    !ptr::eq(slot.world.load(Ordering::Relaxed), &raw const *PLACES.world)
}

/// Has the thread look at the world from its next event on. For the worker.
pub(crate) fn revoke_lease(slot: &Slot) {
    if is_leased(slot) {
        look_at_world(slot);
    }
}

fn look_at_world(slot: &Slot) {
    slot.world.store((&raw const *PLACES.world).cast_mut(), Ordering::Relaxed);
}

/// The thread has come to the end of its lease, or of the block that it was for.
pub(crate) fn end_lease(slot: &Slot) {
    if is_leased(slot) {
        // If others are there now, it is as hot as before.
        slot.met_at.set(clock::now());
    }
    look_at_world(slot);
}

#[inline(always)]
fn region(address: usize) -> &'static AtomicU64 {
    &PLACES.regions[address / REGION % PLACES.regions.len()]
}

/// The regions that a block lies in.
fn regions(address: usize, size: usize) -> impl Iterator<Item = &'static AtomicU64> + Clone {
    let first = address / REGION;
    let last = (address + size.saturating_sub(1)) / REGION;
    let words = &PLACES.regions;
    (first..=last).take(words.len()).map(|number| &words[number % words.len()])
}

/// Has every thread look at the state of the recording before its next event.
pub(crate) fn stop() {
    PLACES.world.fetch_or(STOP, Ordering::SeqCst);
    PLACES.log.fetch_or(STOP, Ordering::SeqCst);
}

/// Takes [`stop`] back for what the program logs, and for the hook's events if told to.
pub(crate) fn go(hook: bool) {
    if hook {
        PLACES.world.fetch_and(!STOP, Ordering::SeqCst);
    } else {
        PLACES.world.fetch_or(STOP, Ordering::SeqCst);
    }
    PLACES.log.fetch_and(!STOP, Ordering::SeqCst);
}

/// Whether no thread has met in the world since the worker came to it last.
pub(crate) fn is_quiet() -> bool {
    order::owner(PLACES.world.load(Ordering::Acquire)) == order::WORKER
}

/// The worker comes to the world, in an epoch behind `latest` and every one before; returns it.
pub(crate) fn tick(latest: u64) -> u64 {
    order::tick(&PLACES.world, latest)
}
