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
//! deadline: [`PATIENCE`] after the last progress of the worker. Past it the process drops (and
//! counts) events until the worker has collected everything there is.
#![expect(unsafe_code, reason = "blocks are raw memory")]

use super::registry::{Guard, Slot};
use super::state;
use crate::trace::{clock, os, pages};
use pages::{Block, LARGE, SMALL};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The largest thing a hook writes between two looks at the room that is left: a switch of context
/// (8), both halves of a reallocation (13 + 22), a correction of its size (18), the undoing of it
/// (10), and one byte to close the context: 72.
pub(crate) const ROOM: usize = 96;

/// How much the early buffer may hold before something has started.
pub(crate) const EARLY_LIMIT: usize = 1 << 20;
/// The bound on all blocks together unless told otherwise.
pub(crate) const DEFAULT_LIMIT: usize = 8 << 20;
/// How long all threads together wait for the worker before events are dropped.
const PATIENCE: u64 = 1_000_000_000;

static LIMIT: AtomicUsize = AtomicUsize::new(EARLY_LIMIT);
static USED: AtomicUsize = AtomicUsize::new(0);
static MAY_WAIT: AtomicBool = AtomicBool::new(false);
/// Changes whenever blocks are freed; waiting threads sleep on it.
static FREED: AtomicU32 = AtomicU32::new(0);
static WAITING: AtomicU32 = AtomicU32::new(0);
/// When the present stall ends in dropping; 0 if there is none.
static DEADLINE: AtomicU64 = AtomicU64::new(0);
static DROPPING: AtomicBool = AtomicBool::new(false);
/// Blocks were freed since waiting threads were last woken.
static PROGRESS: AtomicBool = AtomicBool::new(false);
/// Changes when the worker is to come before its time; the worker sleeps on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
static CALLED: AtomicBool = AtomicBool::new(false);

/// Sets the rules before recording starts.
pub(crate) fn configure(limit: usize) {
    LIMIT.store(limit.max(4 * LARGE), Ordering::Release);
    MAY_WAIT.store(false, Ordering::Release);
    DEADLINE.store(0, Ordering::Release);
    DROPPING.store(false, Ordering::Release);
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
    slot.set_block(Some(new), size, ROOM);
    true
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
    // SAFETY: blocks are never unmapped.
    let size = unsafe { block.as_ref() }.size.load(Ordering::Relaxed) as usize;
    pages::give_back(block);
    USED.fetch_sub(size, Ordering::AcqRel);
    slot.held.fetch_sub(1, Ordering::AcqRel);
    PROGRESS.store(true, Ordering::Release);
}

/// Everything that can be collected has been: whoever drops may try again, if there is any use in
/// it. Where there is none, every try would cost another wait.
pub(crate) fn all_collected() {
    let room = used() + SMALL <= LIMIT.load(Ordering::Acquire);
    if room || PROGRESS.load(Ordering::Acquire) {
        DROPPING.store(false, Ordering::Release);
    }
    wake_waiters();
}

/// Has waiting threads look again. Their deadline moves only if there was progress.
pub(crate) fn wake_waiters() {
    if PROGRESS.swap(false, Ordering::AcqRel) {
        DEADLINE.store(0, Ordering::Release);
    }
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
        DROPPING.store(true, Ordering::Release);
        DEADLINE.store(0, Ordering::Release);
        return false;
    }
    // A waiting thread has nothing uncommitted: the worker need not wait for it in turn.
    slot.guard.store(Guard::WAITING, Ordering::Release);
    WAITING.fetch_add(1, Ordering::AcqRel);
    os::wait(&FREED, freed, deadline - now);
    WAITING.fetch_sub(1, Ordering::AcqRel);
    slot.guard.store(Guard::IN, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    state::load() & state::RECORD != 0
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
