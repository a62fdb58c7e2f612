//! Which thread gets which buffer.
//!
//! A limit bounds the memory of all buffers together (8 MiB by default). A thread that holds no
//! buffer, or only the one that it has filled, gets a small buffer even beyond the limit, so that
//! idle threads cannot starve it:
//!
//! | bytes of buffers in use | a thread gets |
//! |---|---|
//! | any, for the thread's first buffer | a small buffer |
//! | less than half the limit | a large buffer |
//! | less than the limit | a small buffer |
//! | the limit or more | a small buffer if it holds none, or only its full one; otherwise it [waits or drops](backpressure) |
#![expect(unsafe_code, reason = "buffers are raw memory")]

use super::backpressure::{self, wake_worker};
use super::buffer::{self, Buffer, BufferHeader, LARGE, SMALL};
use super::slot::ThreadSlot;
use super::{state, watch};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that must be free in the buffer before a hook writes. The most that it writes until
/// the next check is 78 bytes: a switch of context (8), both halves of a reallocation (18 + 23), a
/// correction of its size (18), the undoing of the reallocation (10), and one byte to close the
/// context. A short event of the program may use more
/// ([`MAX_SHORT_BYTES`](super::program::MAX_SHORT_BYTES)).
pub(crate) const MAX_HOOK_BYTES: usize = 96;

/// The bytes of [`MAX_HOOK_BYTES`] that the program's events leave free: one to close the context,
/// and those that the 8-byte store of a short event can overwrite.
pub(crate) const RESERVED: usize = 16;
/// The bytes that a long event can waste where it continues in the next buffer: the head of a piece
/// of an array, and an element that does not fit.
const SPLIT_WASTE: usize = 16;

/// The limit for buffers before a recording has started, in bytes.
pub(crate) const EARLY_LIMIT: usize = 1 << 20;
/// The default limit for all buffers together, in bytes.
pub(crate) const DEFAULT_LIMIT: usize = 8 << 20;

static LIMIT: AtomicUsize = AtomicUsize::new(EARLY_LIMIT);
static USED: AtomicUsize = AtomicUsize::new(0);

/// Sets the limit in bytes before recording starts; threads do not wait for buffers until
/// `backpressure::allow_waiting` allows it.
pub(crate) fn configure(limit: usize) {
    set_limit(limit);
    backpressure::reset();
}

/// Sets the limit in bytes. Buffers beyond a lower limit stay in use until they are drained.
pub(crate) fn set_limit(limit: usize) {
    LIMIT.store(watch::clamp_to_shared(limit.max(4 * LARGE)), Ordering::Release);
}

/// Resets the pool in the child of a fork, where no buffer is in use, and no thread waits.
pub(crate) fn reset_after_fork() {
    buffer::reset_after_fork();
    USED.store(0, Ordering::Relaxed);
    backpressure::reset_after_fork();
}

/// Maps what threads need that must not ask the kernel later: all buffers, and slots for more threads.
#[cfg(c_filter)]
pub(crate) fn map_ahead() {
    /// At most this many bytes of buffers, whatever the limit is.
    const MOST: usize = 64 << 20;
    buffer::map_ahead(LIMIT.load(Ordering::Acquire).min(MOST));
    super::registry::map_ahead();
}

/// Bytes of all buffers in use.
pub(crate) fn used() -> usize {
    USED.load(Ordering::Relaxed)
}

/// The worker calls this when it has collected everything that can be collected.
pub(crate) fn all_collected() {
    // NOTE: a watcher gives back buffers that it has not taken.
    let used = used().saturating_add(SMALL);
    backpressure::all_collected(used <= LIMIT.load(Ordering::Acquire));
}

/// Moves the thread on to a buffer with room; `false` if the event must be dropped.
pub(crate) fn make_room(slot: &ThreadSlot) -> bool {
    let Some(new) = acquire(slot) else { return false };
    // NOTE: stored before any link leads to the buffer, because the worker reads this epoch only
    // once.
    new.epoch.store(slot.epoch(), Ordering::Relaxed);
    link(slot, new);
    slot.set_buffer(Some(new), MAX_HOOK_BYTES);
    true
}

/// Ends the slot's buffer and makes `new` its successor.
fn link(slot: &ThreadSlot, new: Buffer) {
    match slot.buffer.get() {
        None => slot.first.store(Some(new), Ordering::Release),
        Some(old) => {
            // A buffer begins and ends outside any context, so that it can be read alone.
            let closing = slot.closing.load(Ordering::Relaxed);
            if closing != 0 {
                let end = slot.cursor();
                // SAFETY: the last byte of `MAX_HOOK_BYTES` is reserved for this.
                unsafe { end.write(closing) };
                slot.commit(end.wrapping_add(1));
            }
            // If the worker sees the link, but not yet the new cursor, it reads up to here.
            old.committed.store(slot.cursor(), Ordering::Release);
            old.next.store(Some(new), Ordering::Release);
        }
    }
}

/// Buffers for one event that is too long for the rest of the thread's buffer. The worker does not
/// see them before [`publish`], so it gets such an event whole, in one cycle, or not at all.
pub(crate) struct BufferChain {
    pub(crate) first: Buffer,
    last: Buffer,
}

/// Takes buffers into which `bytes` fit, with [`RESERVED`] bytes free at the end of each and up to
/// [`SPLIT_WASTE`] wasted at each border; `None` if the event must be dropped.
pub(crate) fn take_chain(slot: &ThreadSlot, bytes: usize) -> Option<BufferChain> {
    // One event must not starve all other threads, nor wait for buffers that cannot exist.
    if bytes > LIMIT.load(Ordering::Acquire) / 2 {
        return None;
    }
    loop {
        let freed = backpressure::freed();
        if !backpressure::is_dropping() {
            match try_take_chain(slot, bytes) {
                Ok(chain) => return Some(chain),
                Err(Acquired::NoMemory) => return None,
                Err(_) => {}
            }
        }
        if !wait(slot, freed) {
            return None;
        }
    }
}

fn try_take_chain(slot: &ThreadSlot, bytes: usize) -> Result<BufferChain, Acquired> {
    let mut chain: Option<BufferChain> = None;
    let mut room = 0;
    while room < bytes {
        let new = match try_acquire(slot) {
            Acquired::Buffer(new) => new,
            none => {
                // NOTE: a thread that waits holds no part of a chain. Otherwise two threads could
                // wait for each other's buffers.
                chain.into_iter().for_each(|chain| release_chain(slot, chain.first));
                return Err(none);
            }
        };
        room += new.size() - size_of::<BufferHeader>() - RESERVED - SPLIT_WASTE;
        if let Some(chain) = &mut chain {
            chain.last.next.store(Some(new), Ordering::Relaxed);
            chain.last = new;
        } else {
            chain = Some(BufferChain { first: new, last: new });
        }
    }
    chain.ok_or(Acquired::Full)
}

/// Gives back buffers that were not published, from `first` on.
pub(crate) fn release_chain(slot: &ThreadSlot, first: Buffer) {
    let mut buffer = Some(first);
    while let Some(current) = buffer {
        buffer = current.next.load(Ordering::Relaxed);
        give_back(slot, current);
    }
}

/// Publishes what the thread has written into `chain`, up to `end` in `last`; the thread continues
/// there.
pub(crate) fn publish(slot: &ThreadSlot, chain: &BufferChain, last: Buffer, end: *mut u8) {
    // The event rarely wastes all the bytes that were counted for each border between two buffers,
    // so a buffer can be left over.
    if let Some(rest) = last.next.swap(None, Ordering::Relaxed) {
        release_chain(slot, rest);
    }
    link(slot, chain.first);
    slot.continue_in(last, MAX_HOOK_BYTES, end);
}

fn acquire(slot: &ThreadSlot) -> Option<Buffer> {
    loop {
        let freed = backpressure::freed();
        // A thread that holds no buffer, or only its full one, always tries, so that other threads
        // cannot starve it.
        if !backpressure::is_dropping() || slot.held.load(Ordering::Acquire) <= 1 {
            match try_acquire(slot) {
                Acquired::Buffer(buffer) => return Some(buffer),
                Acquired::Full => {}
                // The worker cannot free memory of the system.
                Acquired::NoMemory => return None,
            }
        }
        if !wait(slot, freed) {
            return None;
        }
    }
}

/// Waits until buffers are freed; `false` if the event is to be dropped. Before a recording has
/// started there is no worker to wait for, so the early recording is discarded instead.
fn wait(slot: &ThreadSlot, freed: u32) -> bool {
    if state::is_early() {
        state::discard_early();
        return false;
    }
    wake_worker();
    backpressure::wait(slot, freed)
}

enum Acquired {
    Buffer(Buffer),
    Full,
    NoMemory,
}

fn try_acquire(slot: &ThreadSlot) -> Acquired {
    let limit = LIMIT.load(Ordering::Acquire);
    let held = slot.held.load(Ordering::Acquire);
    let used = USED.load(Ordering::Relaxed);
    let size = if slot.buffer.get().is_some() && used + LARGE <= limit / 2 { LARGE } else { SMALL };
    // NOTE: adds first and checks afterwards, so that concurrent threads cannot exceed the limit
    // together.
    let before = USED.fetch_add(size, Ordering::AcqRel);
    if before + size > limit && (held > 1 || state::is_early()) {
        USED.fetch_sub(size, Ordering::AcqRel);
        return Acquired::Full;
    }
    let Some(buffer) = buffer::take(size) else {
        USED.fetch_sub(size, Ordering::AcqRel);
        return Acquired::NoMemory;
    };
    slot.held.fetch_add(1, Ordering::AcqRel);
    if before + size >= limit / 2 && state::is_running() {
        wake_worker();
    }
    Acquired::Buffer(buffer)
}

/// Gives back a buffer that the worker has drained.
pub(crate) fn release(slot: &ThreadSlot, buffer: Buffer) {
    write_to_each_line(buffer);
    give_back(slot, buffer);
    backpressure::note_release();
}

/// Writes to each used cache line of a buffer that no longer has an owner.
///
/// PERF: a line that the worker has only read is in two processors' caches, and the next thread
/// that writes to it waits 24 ns for the other to give it up. A line that the worker has written to
/// is prefetched. The worker writes serials only to synchronised events, such as memory events;
/// without this function, a `NoSync` event of the program took 8 ns instead of 2.
fn write_to_each_line(buffer: Buffer) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    let start = buffer.start();
    let end = buffer.committed.load(Ordering::Acquire);
    for offset in (0..end.addr().saturating_sub(start.addr())).step_by(LINE) {
        // SAFETY: events up to `end` were written here, and the buffer has no owner until it is
        // given back.
        unsafe { start.add(offset).write_volatile(0) };
    }
}

fn give_back(slot: &ThreadSlot, buffer: Buffer) {
    let size = buffer.size();
    buffer::give_back(buffer);
    USED.fetch_sub(size, Ordering::AcqRel);
    slot.held.fetch_sub(1, Ordering::AcqRel);
}
