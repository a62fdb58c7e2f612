//! Synchronises a thread with others before its event, and gives out the leases under which a
//! thread skips the global clock. The rules are those of [`order`](super::order).
#![expect(unsafe_code, reason = "a thread's pointer to the word it compares as the global clock")]

use super::order::{self, STOP};
use super::slot::ThreadSlot;
use super::{buffer_pool, clocks, hold, loss, state};
use crate::platform::clock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory is divided into windows of this many bytes, aligned to their size. An event about a block
/// takes the slow path if the block's end, which is the address after its last byte, is not in the
/// window of its start: such a block can lie in two regions, and for a block of this size or more
/// the thread joins the global clock. One small block in some hundreds ends in another window.
pub(crate) const WINDOW: usize = 64 << 10;

/// Two joins of the global clock are near each other if fewer than this many nanoseconds lie
/// between them. That is far more than a join costs while 100 threads join at once.
const NEAR_NANOS: u64 = 100_000;
/// A thread gets a lease after this many near joins in a row. Threads that take turns fewer times,
/// as in a test of a program's peak, keep their exact order.
const JOINS_BEFORE_LEASE: u32 = 64;
/// The length of a lease, in bytes of events, unless the buffer ends before: its minimum, which is
/// some 30 events; the bytes that it gets for each epoch by which other threads have advanced the
/// global clock since this thread's last join; and its maximum.
const LEASE_BYTES: [usize; 3] = [512, 256, 16 << 10];

/// Whether the thread's epoch is current for an event about `size` bytes at `address`: no other
/// thread has joined the region clock or the global clock since this thread has.
///
/// `stamp` is the thread's own. Always `false` for a block of 64 KiB or more.
#[inline(always)]
pub(crate) fn is_current(slot: &ThreadSlot, stamp: u64, address: usize, size: usize) -> bool {
    global_of(slot).load(Ordering::Relaxed) == stamp
        && clocks::region(address).load(Ordering::Relaxed) == stamp
        && (address & (WINDOW - 1)) + size < WINDOW
}

/// The word that the thread loads as the global clock: under a lease, its own stamp.
#[inline(always)]
fn global_of(slot: &ThreadSlot) -> &AtomicU64 {
    // SAFETY: it points to a static, or into a slot, and slots are never unmapped.
    unsafe { &*slot.global.load(Ordering::Relaxed) }
}

/// Brings the thread, which is inside the hook, to a current epoch for its next event; `false` if
/// the event is not to be recorded.
#[inline(never)]
pub(crate) fn synchronize(slot: &ThreadSlot, address: usize, size: usize) -> bool {
    loop {
        let global = clocks::global().load(Ordering::Relaxed);
        if global & STOP != 0 {
            if !state::is_recorded(state::RECORD) {
                loss::too_late();
                return false;
            }
            if hold::wait(slot) {
                continue;
            }
        }
        let leased = slot.is_leased();
        let before = slot.stamp.load(Ordering::Relaxed);
        let stamp = if leased && size < WINDOW {
            order::join(clocks::regions(address, size), before)
        } else {
            order::join(clocks::regions(address, size).chain([clocks::global()]), before)
        };
        slot.stamp.store(stamp, Ordering::Release);
        if slot.is_epoch_near(order::epoch(stamp)) {
            // Without the system's barrier on all threads, STOP stays set, and each thread must
            // check for it at every event, so there are no leases.
            if !leased && is_other(global, stamp) && global & STOP == 0 {
                consider_lease(slot, order::epoch(global).saturating_sub(order::epoch(before)));
            }
            return true;
        }
        // An event carries only the low bits of its epoch; the epoch in its buffer's header
        // completes them. An epoch that is too far from the header's needs another buffer. While
        // the thread waits for that buffer, the watermark may pass the thread's epoch, so the
        // thread joins again.
        if !buffer_pool::make_room(slot) {
            loss::not_written(slot);
            return false;
        }
    }
}

/// Whether the thread's epoch is current for an event that the program logs: no other thread has
/// joined the log's clock or, except under a lease, the global clock since this thread has. `stamp`
/// is the thread's own.
#[inline(always)]
pub(crate) fn is_current_to_log(slot: &ThreadSlot, stamp: u64) -> bool {
    clocks::log().load(Ordering::Relaxed) == stamp
        && global_of(slot).load(Ordering::Relaxed) & !STOP == stamp
}

/// Whether events that the program logs are recorded, according to a relaxed load inside the hook.
#[inline(always)]
pub(crate) fn is_logging() -> bool {
    clocks::log().load(Ordering::Relaxed) & STOP == 0
}

/// Brings the thread, which is inside the hook, to a current epoch for an event that the program
/// logs; `false` if the event is not to be recorded.
pub(crate) fn synchronize_to_log(slot: &ThreadSlot) -> bool {
    loop {
        // In the child of a fork, the clock and the state can have been cleared.
        if state::load() & state::LOG == 0 || !is_logging() && !state::is_recorded(state::LOG) {
            return false;
        }
        let before = slot.stamp.load(Ordering::Relaxed);
        // Under a lease the thread skips the global clock, but not the log's: logged events stay in
        // order.
        let stamp = if slot.is_leased() {
            order::join([clocks::log()].into_iter(), before)
        } else {
            order::join([clocks::log(), clocks::global()].into_iter(), before)
        };
        slot.stamp.store(stamp, Ordering::Release);
        if slot.is_epoch_near(order::epoch(stamp)) {
            return true;
        }
        // As in `synchronize`.
        if !buffer_pool::make_room(slot) {
            loss::event(slot);
            return false;
        }
    }
}

/// Whether another thread of the program was the last to join a sync word.
fn is_other(found: u64, stamp: u64) -> bool {
    ![order::WORKER, order::owner(stamp)].contains(&order::owner(found))
}

/// Called when another thread has joined the global clock since this one did, and has advanced it
/// by `epochs`. Gives this thread a lease if that happens often.
fn consider_lease(slot: &ThreadSlot, epochs: u64) {
    let now = clock::now();
    let near = now.saturating_sub(slot.joined_at.replace(now)) < NEAR_NANOS;
    slot.near_joins.set(if near { slot.near_joins.get() + 1 } else { 0 });
    if slot.near_joins.get() >= JOINS_BEFORE_LEASE {
        let [least, each, most] = LEASE_BYTES;
        slot.near_joins.set(JOINS_BEFORE_LEASE);
        slot.begin_lease((each * epochs.min(64) as usize).clamp(least, most));
    }
}

#[cfg(test)]
mod tests {
    use super::super::enter::{leave, set_guard};
    use super::super::registry;
    use super::*;

    #[test]
    fn a_block_of_64_kib_joins_the_global_clock_even_under_a_lease() {
        let thread = std::thread::spawn(|| {
            let (slot, _) = registry::current().unwrap();
            set_guard(slot);
            assert!(buffer_pool::make_room(slot));
            let address = 3 * WINDOW;
            for size in [WINDOW - 1, WINDOW, WINDOW + 1] {
                assert!(synchronize(slot, address, size));
                slot.begin_lease(LEASE_BYTES[0]);
                let epoch = clocks::begin_cycle(slot.epoch());
                let current = is_current(slot, slot.stamp(), address, size);
                assert!(current || synchronize(slot, address, size));
                assert_eq!(slot.epoch() > epoch, size >= WINDOW, "{size} bytes");
                slot.end_lease();
            }
            leave(slot);
        });
        thread.join().unwrap();
    }
}
