//! Which thread gets which block, and what happens when there is none.
//!
//! The memory of all blocks together is bounded by a limit (8 MiB unless told), plus one small
//! block for each thread that holds no other but its full one, so that idle threads cannot starve
//! it:
//!
//! | blocks in use | a thread gets |
//! |---|---|
//! | its first | a small block |
//! | less than half the limit | a large block |
//! | less than the limit | a small block |
//! | the limit or more | a small block if it holds at most its full one; otherwise it waits or drops |
//!
//! A thread waits only where a worker is there to end it, and all waiting threads share one
//! deadline: [`PATIENCE`] after the last progress of the worker. Progress is an event passed on,
//! not a block freed: if 2,000 threads have begun a block each, the worker frees none before it has
//! passed on nearly all of them. After the deadline the process drops (and
//! counts) events until the worker has collected everything there is. A process that was stopped
//! meanwhile, as by a debugger, gets as much again, once.
#![expect(unsafe_code, reason = "blocks are raw memory")]

use super::pages;
use super::registry::{Guard, Slot};
use super::state;
use crate::platform::{clock, os};
use pages::{Block, LARGE, SMALL};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The largest thing a hook writes between two looks at the room that is left: a switch of context
/// (8), both halves of a reallocation (13 + 22), a correction of its size (18), the undoing of it
/// (10), and one byte to close the context: 72.
pub(crate) const ROOM: usize = 96;

/// Of these, the bytes that events of the program leave alone, behind which nothing else is
/// written: one byte to close the context, and the bytes that the 8-byte store of a short event
/// reaches.
pub(crate) const KEPT: usize = 16;
/// What a long event may lose where it goes from one block to the next: the head of a piece of an
/// array, and an element that does not fit any more.
pub(crate) const SPLIT: usize = 16;

/// How much the early buffer may hold before something has started.
pub(crate) const EARLY_LIMIT: usize = 1 << 20;
/// The bound on all blocks together unless told otherwise.
pub(crate) const DEFAULT_LIMIT: usize = 8 << 20;
/// How long all threads together wait for the worker before events are dropped.
const PATIENCE: u64 = 1_000_000_000;
/// Whoever waits for a deadline sees to it when it is over. If nobody has for so long, nobody ran,
/// the worker no more than the others.
const OVERSLEPT: u64 = 10_000_000;

static LIMIT: AtomicUsize = AtomicUsize::new(EARLY_LIMIT);
static USED: AtomicUsize = AtomicUsize::new(0);
static MAY_WAIT: AtomicBool = AtomicBool::new(false);
/// Changes whenever blocks are freed; waiting threads sleep on it.
static FREED: AtomicU32 = AtomicU32::new(0);
static WAITING: AtomicU32 = AtomicU32::new(0);
/// When the present stall ends in dropping; 0 if there is none.
static DEADLINE: AtomicU64 = AtomicU64::new(0);
/// The present stall was given more time once already.
static EXTENDED: AtomicBool = AtomicBool::new(false);
static DROPPING: AtomicBool = AtomicBool::new(false);
/// Whether blocks were freed since everything was last collected.
static RELEASED: AtomicBool = AtomicBool::new(false);
/// Changes when the worker is to come before its time; the worker sleeps on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
static CALLED: AtomicBool = AtomicBool::new(false);

/// Sets the rules before recording starts.
pub(crate) fn configure(limit: usize) {
    LIMIT.store(limit.max(4 * LARGE), Ordering::Release);
    MAY_WAIT.store(false, Ordering::Release);
    DEADLINE.store(0, Ordering::Release);
    DROPPING.store(false, Ordering::Release);
    EXTENDED.store(false, Ordering::Release);
}

/// In the child of a fork: there are no blocks, and nobody waits.
pub(crate) fn abandon() {
    pages::abandon();
    USED.store(0, Ordering::Relaxed);
    WAITING.store(0, Ordering::Relaxed);
    CALLED.store(false, Ordering::Relaxed);
}

/// Whether a thread may wait for the worker: not before there is one.
pub(crate) fn allow_waiting(may_wait: bool) {
    MAY_WAIT.store(may_wait, Ordering::Release);
}

/// Bytes of all blocks in use.
pub(crate) fn used() -> usize {
    USED.load(Ordering::Relaxed)
}

/// Moves the thread on to a block with room; `false` if the event must be dropped.
pub(crate) fn make_room(slot: &Slot) -> bool {
    let Some(new) = acquire(slot) else { return false };
    // SAFETY: blocks are never unmapped.
    let header = unsafe { new.as_ref() };
    let size = header.size.load(Ordering::Relaxed) as usize;
    // NOTE: before anything leads to the block: the worker reads it once.
    header.epoch.store(slot.epoch(), Ordering::Relaxed);
    link(slot, new);
    slot.set_block(Some(new), size, ROOM);
    true
}

/// Ends the slot's block, and has `new` follow it.
fn link(slot: &Slot, new: NonNull<Block>) {
    match slot.block.get() {
        None => slot.first.store(new.as_ptr(), Ordering::Release),
        Some(old) => {
            // A block says by itself what it stands in, so it ends as it began: in nothing.
            let closing = slot.closing.load(Ordering::Relaxed);
            if closing != 0 {
                let end = slot.cursor();
                // SAFETY: the last byte of `ROOM` is kept for this.
                unsafe { end.write(closing) };
                slot.commit(end.wrapping_add(1));
            }
            // SAFETY: blocks are never unmapped.
            let old = unsafe { old.as_ref() };
            // A worker that finds the link, but not the cursor yet, reads up to here.
            old.committed.store(slot.cursor(), Ordering::Release);
            old.next.store(new.as_ptr(), Ordering::Release);
        }
    }
}

/// Blocks for one event that is too long for what is left of the thread's block. Nobody sees them
/// before [`publish`], so that the worker gets such an event whole, in one tick, or not at all.
pub(crate) struct Chain {
    pub(crate) first: NonNull<Block>,
    last: NonNull<Block>,
}

/// Takes blocks into which `bytes` fit, with [`KEPT`] bytes free at the end of each and up to
/// [`SPLIT`] lost at each border; `None` if the event must be dropped.
pub(crate) fn take_chain(slot: &Slot, bytes: usize) -> Option<Chain> {
    // So that one event does not starve all other threads, and can be had at all.
    if bytes > LIMIT.load(Ordering::Acquire) / 2 {
        return None;
    }
    loop {
        let freed = FREED.load(Ordering::Acquire);
        if !DROPPING.load(Ordering::Acquire) {
            match try_take_chain(slot, bytes) {
                Ok(chain) => return Some(chain),
                Err(Acquired::NoMemory) => return None,
                Err(_) => {}
            }
        }
        if state::is_early() {
            state::discard_early();
            return None;
        }
        call_worker();
        if !wait(slot, freed) {
            return None;
        }
    }
}

fn try_take_chain(slot: &Slot, bytes: usize) -> Result<Chain, Acquired> {
    let mut chain: Option<Chain> = None;
    let mut room = 0;
    while room < bytes {
        let new = match try_acquire(slot) {
            Acquired::Block(new) => new,
            none => {
                // NOTE: while this thread waits, it holds none of them: two that wait for each
                // other's would wait in vain.
                chain.into_iter().for_each(|chain| release_chain(slot, chain.first));
                return Err(none);
            }
        };
        // SAFETY: blocks are never unmapped.
        room += unsafe { new.as_ref() }.size.load(Ordering::Relaxed) as usize
            - size_of::<Block>()
            - KEPT
            - SPLIT;
        if let Some(chain) = &mut chain {
            // SAFETY: as above.
            unsafe { chain.last.as_ref() }.next.store(new.as_ptr(), Ordering::Relaxed);
            chain.last = new;
        } else {
            chain = Some(Chain { first: new, last: new });
        }
    }
    chain.ok_or(Acquired::Full)
}

/// Gives back what was taken in vain, from `first` on.
pub(crate) fn release_chain(slot: &Slot, first: NonNull<Block>) {
    let mut block = Some(first);
    while let Some(current) = block {
        // SAFETY: blocks are never unmapped, and nobody else knows of these.
        block = NonNull::new(unsafe { current.as_ref() }.next.load(Ordering::Relaxed));
        give_back(slot, current);
    }
}

/// The thread goes on behind what it has written into `chain`, up to `end` in `last`.
pub(crate) fn publish(slot: &Slot, chain: &Chain, last: NonNull<Block>, end: *mut u8) {
    // SAFETY: blocks are never unmapped, and nobody else knows of these.
    let header = unsafe { last.as_ref() };
    // What may be lost at a border seldom is, so a block can be left over.
    if let Some(rest) = NonNull::new(header.next.swap(std::ptr::null_mut(), Ordering::Relaxed)) {
        release_chain(slot, rest);
    }
    let size = header.size.load(Ordering::Relaxed) as usize;
    link(slot, chain.first);
    slot.go_on_in(last, size, ROOM, end);
}

fn acquire(slot: &Slot) -> Option<NonNull<Block>> {
    loop {
        let freed = FREED.load(Ordering::Acquire);
        // A thread that holds its full block only is never starved by others.
        if !DROPPING.load(Ordering::Acquire) || slot.held.load(Ordering::Acquire) <= 1 {
            match try_acquire(slot) {
                Acquired::Block(block) => return Some(block),
                Acquired::Full => {}
                // Nothing the worker does brings memory.
                Acquired::NoMemory => return None,
            }
        }
        if state::is_early() {
            state::discard_early();
            return None;
        }
        call_worker();
        if !wait(slot, freed) {
            return None;
        }
    }
}

enum Acquired {
    Block(NonNull<Block>),
    Full,
    NoMemory,
}

fn try_acquire(slot: &Slot) -> Acquired {
    let limit = LIMIT.load(Ordering::Acquire);
    let held = slot.held.load(Ordering::Acquire);
    let used = USED.load(Ordering::Relaxed);
    let size = if slot.block.get().is_some() && used + LARGE <= limit / 2 { LARGE } else { SMALL };
    // NOTE: add first, look after, so that threads that come together cannot pass the limit.
    let before = USED.fetch_add(size, Ordering::AcqRel);
    if before + size > limit && (held > 1 || state::is_early()) {
        USED.fetch_sub(size, Ordering::AcqRel);
        return Acquired::Full;
    }
    let Some(block) = pages::take(size) else {
        USED.fetch_sub(size, Ordering::AcqRel);
        return Acquired::NoMemory;
    };
    slot.held.fetch_add(1, Ordering::AcqRel);
    if before + size >= limit / 2 && state::is_running() {
        call_worker();
    }
    Acquired::Block(block)
}

/// Gives a block back that the worker has drained.
pub(crate) fn release(slot: &Slot, block: NonNull<Block>) {
    dirty(block);
    give_back(slot, block);
    RELEASED.store(true, Ordering::Release);
}

/// Writes to each cache line of a block that was used, and is nobody's any more.
///
/// PERF: a line that was only read is in two processors' caches, and who writes to it next waits for
/// the other to let go of it, 24 ns a line; one that was written to is fetched ahead. Memory events have
/// been, where their serials stand. A `NoSync` event of the program took 8 ns instead of 2.
fn dirty(block: NonNull<Block>) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    let start = Block::start(block);
    // SAFETY: blocks are never unmapped.
    let end = unsafe { block.as_ref() }.committed.load(Ordering::Acquire);
    for at in (0..end.addr().saturating_sub(start.addr())).step_by(LINE) {
        // SAFETY: events up to `end` were written here, and nobody has the block until it is given back.
        unsafe { start.add(at).write_volatile(0) };
    }
}

fn give_back(slot: &Slot, block: NonNull<Block>) {
    // SAFETY: blocks are never unmapped.
    let size = unsafe { block.as_ref() }.size.load(Ordering::Relaxed) as usize;
    pages::give_back(block);
    USED.fetch_sub(size, Ordering::AcqRel);
    slot.held.fetch_sub(1, Ordering::AcqRel);
}

/// Everything that can be collected has been: whoever drops may try again, if there is any use in
/// it. Where there is none, every try would cost another wait.
pub(crate) fn all_collected() {
    let room = used() + SMALL <= LIMIT.load(Ordering::Acquire);
    if RELEASED.swap(false, Ordering::AcqRel) {
        DROPPING.store(false, Ordering::Release);
        note_progress();
    } else if room {
        DROPPING.store(false, Ordering::Release);
    }
    wake_waiters();
}

/// The worker makes progress: waiting threads get the full time again.
pub(crate) fn note_progress() {
    // PERF: runs at every piece of the merge, and there is nearly never a waiting thread.
    if DEADLINE.load(Ordering::Relaxed) != 0 {
        DEADLINE.store(0, Ordering::Release);
        EXTENDED.store(false, Ordering::Release);
    }
}

/// Wakes waiting threads, which check again for free blocks.
pub(crate) fn wake_waiters() {
    FREED.fetch_add(1, Ordering::AcqRel);
    if WAITING.load(Ordering::Acquire) > 0 {
        os::wake_all(&FREED);
    }
}

/// Waits until blocks are freed; `false` if the event is to be dropped instead.
fn wait(slot: &Slot, freed: u32) -> bool {
    if !MAY_WAIT.load(Ordering::Acquire)
        || !state::is_running()
        || DROPPING.load(Ordering::Acquire)
        || std::thread::panicking()
    {
        return false;
    }
    let now = clock::now();
    let deadline =
        match DEADLINE.compare_exchange(0, now + PATIENCE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => now + PATIENCE,
            Err(running) => running,
        };
    if now >= deadline {
        let nobody_ran = now > deadline + OVERSLEPT && !EXTENDED.load(Ordering::Acquire);
        let next = if nobody_ran { now + PATIENCE } else { 0 };
        // Otherwise another thread has seen to it, or the worker has made progress.
        if DEADLINE.compare_exchange(deadline, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            (if nobody_ran { &EXTENDED } else { &DROPPING }).store(true, Ordering::Release);
        }
        return !DROPPING.load(Ordering::Acquire);
    }
    // A waiting thread has nothing uncommitted: the worker need not wait for it in turn.
    slot.guard.store(Guard::WAITING, Ordering::Release);
    WAITING.fetch_add(1, Ordering::AcqRel);
    os::wait(&FREED, freed, deadline - now);
    WAITING.fetch_sub(1, Ordering::AcqRel);
    slot.guard.store(Guard::IN, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    state::load() & state::ON != 0
}

/// Asks the worker to come now; a system call only if it has not been asked yet.
pub(crate) fn call_worker() {
    if !CALLED.swap(true, Ordering::AcqRel) {
        CALLS.fetch_add(1, Ordering::AcqRel);
        os::wake_all(&CALLS);
    }
}

/// The worker sleeps until it is called, at most `nanos`.
pub(crate) fn sleep_until_called(nanos: u64) {
    let calls = CALLS.load(Ordering::Acquire);
    if !CALLED.load(Ordering::Acquire) {
        os::wait(&CALLS, calls, nanos);
    }
}

/// The worker is awake: from here on it must be called again.
pub(crate) fn answer_call() {
    CALLED.store(false, Ordering::Release);
}
