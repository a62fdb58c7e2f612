//! The order of events of different threads, without a counter that all threads share.
//!
//! Time is divided into numbered *epochs*. Events are ordered by the epoch of their thread, then by
//! thread, then by their position within the thread. A thread advances to a later epoch when it
//! *joins* a clock that another thread joined last. A clock is one *sync word*, which says which
//! thread joined it last, and in which epoch:
//!
//! ```text
//! bit 63   62                    49 48                                0
//!    STOP | owner: a slot plus one | epoch of the owner when it joined    |
//! ```
//! | clock | which threads join it | when |
//! |---|---|---|
//! | a *region clock*, of 1 MiB of addresses | those that allocate and free there | at every event about the region |
//! | the *global clock* | all | at every event; at some under a [lease](#leases) |
//!
//! # Why that is the true order of events on one address
//! Say thread A frees an address and thread B receives it. A joined the address's region clock
//! before it freed the block. From then on, the epoch in that clock's word only increases. B reads
//! the word after A joined the clock, since the allocator handed the address from A to B. So B
//! finds A's epoch or a later one, and advances to the epoch after it. Relaxed loads and stores are
//! enough, on processors with weak ordering, too, because no other data is published through these
//! words: each word alone has one order of changes, and a load that happens after another one, by the
//! program's own synchronisation, finds the same change of that word or a later one.
//!
//! For a block that lies in several regions, the thread joins the clocks of all of them, so no two
//! blocks overlap in this order. The same argument, applied to the global clock, orders all events
//! of threads that take turns.
//!
//! # What it costs
//! A thread that finds its own stamp in both words is in a current epoch already: two loads, no
//! store. Nearly every event finds this while each thread uses memory of its own, as with an
//! allocator that has arenas or caches for each thread.
//!
//! # Leases
//! Threads that allocate at the same time without pause would join the global clock at every event,
//! and its word would limit them as a shared counter does. So a thread that repeatedly finds
//! another thread's stamp in the global clock skips that clock for some events, and joins only
//! region clocks. This *lease* covers 512 bytes to 16 KiB of events, more if more threads are
//! active, or the rest of the buffer if that is less. Relative to the events of threads that share
//! no memory with this one, the order of events within a lease can differ from the order in which
//! they happened; for a large block, a thread always joins the global clock. In each of its cycles
//! the worker revokes all leases and joins the global clock itself. So events of different cycles
//! are in the true order, and the time of each cycle has a position in that order.
//!
//! The model in `models/ordering` runs the functions of this file in every interleaving.
//! Epochs are Lamport's idea (*Time, Clocks, and the Ordering of Events in a Distributed System*,
//! 1978), with shared words in place of messages.

use super::atomic::{AtomicU64, Ordering};

/// Bits of a sync word for the epoch: enough for 1.8 years at ten million joins a second.
const EPOCH_BITS: u32 = 49;
const EPOCHS: u64 = (1 << EPOCH_BITS) - 1;
/// A bit in the words of the global clock and of the log's clock. While it is set, a thread must
/// check the state of the recording before it records.
pub(crate) const STOP: u64 = 1 << 63;
/// The owner number of the worker, and of a clock that no thread has joined.
pub(crate) const WORKER: u64 = 0;

/// The sync word of a clock that this owner joined last, in this epoch. The stamp of a thread has
/// the same form: its owner number, and its epoch.
#[inline(always)]
pub(crate) const fn word(epoch: u64, owner: u64) -> u64 {
    owner << EPOCH_BITS | epoch
}

#[inline(always)]
pub(crate) fn epoch(word: u64) -> u64 {
    word & EPOCHS
}

/// The owner of a sync word: a slot's number plus one, or [`WORKER`].
#[inline(always)]
pub(crate) fn owner(word: u64) -> u64 {
    (word & !STOP) >> EPOCH_BITS
}

/// Joins all the clocks for the thread with this stamp; returns the thread's new stamp.
///
/// If the program's own synchronisation orders a join of one of these clocks after this call, that
/// join returns a later epoch, unless it is this thread's own.
pub(crate) fn join<'a>(clocks: impl Iterator<Item = &'a AtomicU64> + Clone, stamp: u64) -> u64 {
    let mut stamp = stamp;
    loop {
        for clock in clocks.clone() {
            stamp = after(stamp, clock.load(Ordering::Relaxed));
        }
        // Every clock must get the final epoch. If a clock kept an earlier epoch, another thread
        // that joins it could get an epoch between the two.
        if clocks.clone().all(|clock| advance(clock, stamp)) {
            return stamp;
        }
    }
}

/// The stamp, advanced where necessary: to the epoch after the one in `found`, or to the one in
/// `found` if both have the same owner.
#[inline(always)]
pub(crate) fn after(stamp: u64, found: u64) -> u64 {
    let step = u64::from(owner(found) != owner(stamp));
    word(epoch(stamp).max(epoch(found) + step), owner(stamp))
}

/// Advances the clock to the stamp; `false` if the stamp must first advance past the clock's epoch.
fn advance(clock: &AtomicU64, stamp: u64) -> bool {
    let mut found = clock.load(Ordering::Relaxed);
    loop {
        if found & !STOP == stamp {
            return true;
        }
        if after(stamp, found) != stamp {
            return false;
        }
        let new = stamp | found & STOP;
        match clock.compare_exchange_weak(found, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => found = now,
        }
    }
}

/// Joins the global clock for the worker, in an epoch after `latest`; returns that epoch.
pub(crate) fn begin_cycle(global: &AtomicU64, latest: u64) -> u64 {
    epoch(join([global].into_iter(), word(latest + 1, WORKER)))
}
