//! In which order events of different threads stand, without a counter that all threads share.
//!
//! Time is cut into numbered *epochs*, and an event's place in the order is its thread's epoch,
//! then its thread, then its place within the thread. A thread goes to a later epoch when it
//! *meets* another one: when an event concerns a *place* where another thread was last. A place
//! is one word, which says who was there last and in which epoch:
//!
//! ```text
//! bit 63   62                    49 48                                0
//!    STOP | who: a slot plus one   | epoch of whoever was here last     |
//! ```
//! | place | who meets there | when |
//! |---|---|---|
//! | a *region*: 1 MiB of addresses | the threads that allocate and free there | at every event that concerns the region |
//! | the *world* | all threads | at every event; under a [lease](#leases) at some |
//!
//! # Why that is the true order of events on one address
//! Say a thread A frees an address and another thread B receives it. A was at the address's region
//! before it freed; what the region's word says changes to later epochs only (for another thread)
//! or to the same thread's; and B looks at the word after A was there, since the allocator handed
//! the address from A to B. So B finds A's epoch or a later one there, and goes behind it. Nothing
//! here synchronises by itself, which is why relaxed loads and stores are enough: each word alone
//! has one order of changes, and what must come later does, by the program's own synchronisation.
//!
//! A block that lies in several regions meets in all of them, so in this order no two blocks ever
//! overlap. The same argument, with the world as the place, gives the order of all events
//! whatever between threads that take turns.
//!
//! # What it costs
//! A thread that finds its own stamp at both places, as almost always, is there in the right epoch
//! already: two loads, no store. That is all as long as threads keep to their own memory, as
//! allocators with arenas or caches per thread see to.
//!
//! # Leases
//! Threads that allocate at the same time all the time would meet in the world at every event, and
//! the world's word would be the counter that limits them. So a thread that keeps finding others
//! there does not look for some events (its *lease*: 512 bytes to 16 KiB of events, the more
//! threads, the longer), only at regions. Between threads that share no memory, events within a lease may stand
//! in another order than they happened in; large blocks always meet in the world. The worker ends
//! leases in each of its ticks, and comes to the world itself, so that the order is right between
//! ticks as well, and a time can be put to it.
//!
//! The model in `scripts/model_check.sh` runs the functions of this file in every interleaving.
//! The idea of epochs is Lamport's (*Time, Clocks, and the Ordering of Events in a Distributed
//! System*, 1978), with places in the stead of messages.

use super::atomic::{AtomicU64, Ordering};

/// Bits of a word that say when: years, at ten million meetings a second.
const EPOCH_BITS: u32 = 49;
const EPOCHS: u64 = (1 << EPOCH_BITS) - 1;
/// In the world's word: whoever comes must look at the state of the recording first.
pub(crate) const STOP: u64 = 1 << 63;
/// The owner of a word that is no thread of the program.
pub(crate) const WORKER: u64 = 0;

/// Who was at a place last, and when; the stamp of a thread is who it is, and its epoch.
#[inline(always)]
pub(crate) const fn word(epoch: u64, owner: u64) -> u64 {
    owner << EPOCH_BITS | epoch
}

#[inline(always)]
pub(crate) fn epoch(word: u64) -> u64 {
    word & EPOCHS
}

#[inline(always)]
pub(crate) fn owner(word: u64) -> u64 {
    (word & !STOP) >> EPOCH_BITS
}

/// The thread with this stamp meets at all the places; returns its stamp from now on.
///
/// Whoever meets there later, in the sense of the program's own synchronisation, gets a later
/// epoch than the one returned here, or is this thread.
pub(crate) fn meet<'a>(places: impl Iterator<Item = &'a AtomicU64> + Clone, stamp: u64) -> u64 {
    let mut stamp = stamp;
    loop {
        for place in places.clone() {
            stamp = behind(stamp, place.load(Ordering::Relaxed));
        }
        // Every place must say the final epoch: at one that says an earlier one, somebody could go
        // between.
        if places.clone().all(|place| leave_stamp(place, stamp)) {
            return stamp;
        }
    }
}

/// The stamp, in an epoch behind the one that was found at a place.
#[inline(always)]
pub(crate) fn behind(stamp: u64, found: u64) -> u64 {
    let step = u64::from(owner(found) != owner(stamp));
    word(epoch(stamp).max(epoch(found) + step), owner(stamp))
}

/// Writes the stamp to the place, unless something was there last that is not before it.
fn leave_stamp(place: &AtomicU64, stamp: u64) -> bool {
    let mut found = place.load(Ordering::Relaxed);
    loop {
        if found & !STOP == stamp {
            return true;
        }
        if behind(stamp, found) != stamp {
            return false;
        }
        let new = stamp | found & STOP;
        match place.compare_exchange_weak(found, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => found = now,
        }
    }
}

/// The worker comes to the world, later than everything it knows of; returns its epoch.
pub(crate) fn tick(world: &AtomicU64, latest: u64) -> u64 {
    epoch(meet([world].into_iter(), word(latest + 1, WORKER)))
}
