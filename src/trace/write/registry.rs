//! The threads that record: one slot each, in pages that are never unmapped, so that the worker can
//! read a slot even after its thread has ended.
//!
//! ```text
//! FREE ──thread records its first event──► LIVE ──thread ends──► FINISHED ──worker has drained──► FREE
//! ```
//! A slot is taken from a stack of free ones, or added to the table. The number of slots is bounded
//! by the number of threads that were alive, or not yet drained, at once.
#![expect(unsafe_code, reason = "shares the table with a watcher")]

use super::slot::{FINISHED, FREE, Guard, LIVE, NO_SLOT, ThreadSlot};
use super::{buffer_pool, loss, order, state};
use crate::platform::chunk_table::ChunkTable;
use crate::platform::clock;
use crate::platform::free_stack::FreeStack;
use crate::platform::os;
use crate::platform::own_thread::{self, ValueOffset};
use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads that can record at once: the stream numbers them with 14 bits, some of them reserved.
pub(crate) const MAX_THREADS: usize = 16_000;

const SLOTS_PER_CHUNK: usize = 64;
const CHUNKS: usize = MAX_THREADS / SLOTS_PER_CHUNK;

/// All slots that were ever added.
static SLOTS: ChunkTable<ThreadSlot, SLOTS_PER_CHUNK, CHUNKS> = ChunkTable::new();
static FREE_SLOTS: FreeStack = FreeStack::new();
/// The id of the last thread that registered. Ids are never reused; 1 is the worker's.
static LAST_THREAD_ID: AtomicU32 = AtomicU32::new(1);

/// The state that a thread keeps about itself. It has no `Drop`, so the thread can use it at any
/// time in its life.
pub(crate) struct ThreadState {
    /// Its slot, or [`NO_SLOT`].
    pub(super) slot: Cell<&'static ThreadSlot>,
    /// How many reentrancy guards are held on this thread.
    pub(super) untracked: Cell<u32>,
    /// The thread is registering itself at present; a signal handler must not do so again.
    registering: Cell<bool>,
    /// The slot was given back at the end of the thread; each later event takes a slot of its own.
    retired: Cell<bool>,
    /// The slot of the thread while the tracker's own code runs.
    pub(super) suspended: Cell<&'static ThreadSlot>,
    id: Cell<u32>,
    system_id: Cell<u32>,
    /// The earliest epoch in which its next slot may begin.
    epoch: Cell<u64>,
    /// The number of the end at which a call of this thread came too late.
    pub(super) late_in: Cell<u32>,
    /// Functions to run when the thread ends.
    at_end: [Cell<Option<extern "C" fn()>>; 2],
}

own_thread::own_values! {
    static THREAD: ThreadState = const { ThreadState {
        slot: Cell::new(&NO_SLOT),
        untracked: Cell::new(0),
        registering: Cell::new(false),
        retired: Cell::new(false),
        suspended: Cell::new(&NO_SLOT),
        id: Cell::new(0),
        system_id: Cell::new(0),
        epoch: Cell::new(0),
        late_in: Cell::new(0),
        at_end: [const { Cell::new(None) }; 2],
    } };
}

static PLACE: ValueOffset = ValueOffset::new();

#[inline(always)]
pub(super) fn own() -> Option<&'static ThreadState> {
    own_thread::get(&THREAD, &PLACE)
}

impl ThreadState {
    fn slot(&self) -> Option<&'static ThreadSlot> {
        Some(self.slot.get()).filter(|slot| !ptr::eq(*slot, &raw const NO_SLOT))
    }

    /// Makes the thread's next slot begin in an epoch after the present one of `slot`.
    fn continue_after(&self, slot: &ThreadSlot) {
        // NOTE: in the next epoch, not in the same one: within one epoch, a slot with a lower
        // number precedes this one.
        self.epoch.set(self.epoch.get().max(slot.epoch() + 1));
    }

    fn take_slot(&self) -> Option<&'static ThreadSlot> {
        let slot = self.slot();
        self.slot.set(&NO_SLOT);
        slot
    }
}

/// All slots that were ever added, in any state.
pub(crate) fn slots() -> impl Iterator<Item = &'static ThreadSlot> {
    (0..SLOTS.len()).filter_map(|number| SLOTS.get(number))
}

/// From now on, all slots are shared.
///
/// # Safety
/// See [`ChunkTable::share`].
pub(super) unsafe fn share() -> io::Result<()> {
    // SAFETY: the caller makes the same promise.
    unsafe { SLOTS.share(CHUNKS) }
}

/// In a watcher: takes the slots of the process that has ended.
pub(crate) fn take_all() {
    SLOTS.take_all();
}

/// The slot with this number, and the number of a slot.
pub(crate) fn numbered(number: u32) -> Option<&'static ThreadSlot> {
    SLOTS.get(number)
}

/// Maps slots for as many further threads.
#[cfg(c_filter)]
pub(super) fn map_ahead() {
    SLOTS.map_ahead(SLOTS.len() + 1024);
}

/// Bytes of pages that hold slots.
pub(crate) fn mapped() -> u64 {
    SLOTS.mapped_bytes()
}

/// Whether the thread of this slot has not ended.
pub(super) fn is_live(slot: &ThreadSlot) -> bool {
    slot.state.load(Ordering::Acquire) == LIVE
}

/// This thread's slot, and whether it is for a single event after the thread's end. Registers the
/// thread if it has no slot. If it returns `None`, it has counted the event as lost.
pub(super) fn current() -> Option<(&'static ThreadSlot, bool)> {
    let thread = own()?;
    if let Some(slot) = thread.slot() {
        return Some((slot, false));
    }
    if thread.registering.replace(true) {
        loss::event_without_slot();
        return None;
    }
    let slot = register(thread);
    thread.registering.set(false);
    if slot.is_none() {
        loss::event_without_slot();
    }
    Some((slot?, thread.retired.get()))
}

fn register(thread: &ThreadState) -> Option<&'static ThreadSlot> {
    let slot = pop_free().or_else(add_slot)?;
    if thread.id.get() == 0 {
        thread.id.set(LAST_THREAD_ID.fetch_add(1, Ordering::Relaxed) + 1);
        // NOTE: without an id, the thread counts as alive until it retires its slot.
        thread.system_id.set(if os::is_kernel_closed() { 0 } else { os::thread_id() });
    }
    slot.thread_id.store(thread.id.get(), Ordering::Relaxed);
    slot.system_id.store(thread.system_id.get(), Ordering::Relaxed);
    slot.store_own_name();
    slot.guard.store(Guard::OUT, Ordering::Relaxed);
    slot.lost.store(0, Ordering::Relaxed);
    slot.held.store(0, Ordering::Relaxed);
    slot.first.store(None, Ordering::Relaxed);
    slot.set_buffer(None, 0);
    slot.reset_scopes();
    slot.near_joins.set(0);
    // NOTE: a sync word with this owner may be from the slot's previous thread. So the epoch
    // continues from the slot's last epoch, or from that of this thread's last slot if that is
    // later.
    let epoch = slot.epoch().max(thread.epoch.get());
    let owner = u64::from(slot.number.load(Ordering::Relaxed)) + 1;
    slot.stamp.store(order::word(epoch, owner), Ordering::Relaxed);
    slot.state.store(LIVE, Ordering::Release);
    // A process's clock starts with its first event.
    clock::process_start();
    if !thread.retired.get() {
        thread.slot.set(slot);
        os::on_thread_exit(&RETIRE);
    }
    Some(slot)
}

/// Makes `at_end` run at the end of this thread, even if the thread has recorded nothing. Returns whether it
/// will: the system may have no thread key left.
///
/// NOTE: `extern "C"`, which cannot unwind, because the system calls it.
pub(crate) fn at_thread_end(at_end: extern "C" fn()) -> bool {
    let free =
        |thread: &'static ThreadState| thread.at_end.iter().find(|place| place.get().is_none());
    own().and_then(free).is_some_and(|place| {
        place.set(Some(at_end));
        os::on_thread_exit(&RETIRE)
    })
}

static RETIRE: extern "C" fn() = retire_current;

/// Called by the system in the last round of this thread's destructors.
extern "C" fn retire_current() {
    if state::is_unaware_child() {
        // The slot is that of a thread of the parent.
        return;
    }
    let at_end = own().into_iter().flat_map(|thread| &thread.at_end);
    at_end.filter_map(Cell::take).for_each(|at_end| at_end());
    let Some(thread) = own() else { return };
    thread.retired.set(true);
    // NOTE: sets the epoch before the thread gives up its slot. A signal handler that allocates
    // after that takes another slot, which must begin in a later epoch than this one.
    thread.slot().inspect(|slot| thread.continue_after(slot));
    if let Some(slot) = thread.take_slot() {
        slot.store_own_name();
        retire(slot);
    }
}

/// Retires a thread's slot, which the worker then drains and frees. Events after this take a fresh
/// slot.
pub(super) fn retire(slot: &ThreadSlot) {
    if let Some(thread) = own() {
        thread.continue_after(slot);
    }
    slot.state.store(FINISHED, Ordering::Release);
}

/// Marks the slots of threads that have ended without retiring: those whose first event followed
/// the start of their last round of destructors, and all threads if the system had no key left for
/// such a destructor.
pub(crate) fn finish_dead() {
    for slot in slots() {
        if slot.state.load(Ordering::Acquire) == LIVE
            && !os::is_thread_alive(slot.system_id.load(Ordering::Relaxed))
        {
            // Changes only a slot that is still live: its thread may have retired since the check.
            let _ =
                slot.state.compare_exchange(LIVE, FINISHED, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Resets all threads in the child of a fork, where nothing is being recorded: the other threads do
/// not exist, even those that were inside a hook, and this thread has another id. Keeps the events
/// that they had recorded.
pub(crate) fn reset_threads() {
    for slot in slots() {
        slot.guard.store(Guard::OUT, Ordering::Relaxed);
        let _ = slot.state.compare_exchange(LIVE, FINISHED, Ordering::AcqRel, Ordering::Relaxed);
    }
    reset_own_thread();
}

/// Takes the buffers of all slots away and frees the slots, in the child of a fork that continues
/// to record.
pub(crate) fn reset_after_fork() {
    FREE_SLOTS.clear();
    let numbered = |number| Some((number, SLOTS.get(number)?));
    for (number, slot) in (0..SLOTS.len()).filter_map(numbered) {
        slot.number.store(number, Ordering::Relaxed);
        slot.guard.store(Guard::OUT, Ordering::Relaxed);
        slot.first.store(None, Ordering::Relaxed);
        slot.held.store(0, Ordering::Relaxed);
        slot.lost.store(0, Ordering::Relaxed);
        slot.set_buffer(None, 0);
        free(slot);
    }
    reset_own_thread();
}

fn reset_own_thread() {
    if let Some(thread) = own() {
        thread.slot.set(&NO_SLOT);
        thread.suspended.set(&NO_SLOT);
        thread.id.set(0);
    }
}

/// Gives a finished slot back, once all its buffers have been given back.
pub(crate) fn free(slot: &ThreadSlot) {
    slot.state.store(FREE, Ordering::Relaxed);
    FREE_SLOTS.push(slot.number.load(Ordering::Relaxed), &slot.next_free);
}

fn pop_free() -> Option<&'static ThreadSlot> {
    SLOTS.get(FREE_SLOTS.pop(|number| Some(&SLOTS.get(number)?.next_free))?)
}

fn add_slot() -> Option<&'static ThreadSlot> {
    let number = SLOTS.add()?;
    let slot = SLOTS.get(number)?;
    slot.number.store(number, Ordering::Relaxed);
    Some(slot)
}

/// Takes every slot's buffers away. Requires that recording is paused and no thread is inside a
/// hook.
pub(crate) fn discard_buffers() {
    for slot in slots() {
        // A thread may be registering in a free slot.
        if slot.state.load(Ordering::Acquire) == FREE {
            continue;
        }
        let mut buffer = slot.first.swap(None, Ordering::AcqRel);
        while let Some(current) = buffer {
            buffer = current.next.load(Ordering::Acquire);
            buffer_pool::release(slot, current);
        }
        slot.set_buffer(None, 0);
        slot.reset_scopes();
        slot.lost.store(0, Ordering::Relaxed);
        if slot.state.load(Ordering::Acquire) == FINISHED {
            free(slot);
        }
    }
}

/// Events lost since [`loss::reset`], reported or not. Exact only while the worker does not
/// collect.
pub(crate) fn losses() -> u64 {
    let unreported = slots().map(|slot| slot.lost.load(Ordering::Relaxed));
    loss::total() + loss::without_slot() + unreported.sum::<u64>()
}
