//! The threads that record: one slot each, in pages of our own that are never given back, so that
//! the worker can look at a slot whatever has become of its thread.
//!
//! ```text
//! FREE ──thread records its first event──► LIVE ──thread ends──► FINISHED ──worker has drained──► FREE
//! ```
//! A slot is taken from a stack of free ones, or cut fresh; how many exist is bounded by how many
//! threads were alive (or not yet drained) at once.
#![expect(unsafe_code, reason = "slots and blocks are raw memory")]

use super::{buffer, order, places};
use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::platform::clock;
use crate::platform::free_stack::FreeStack;
use crate::platform::os::{self, ThreadName};
use crate::trace::format::schema::SERIAL_BITS;
use crate::trace::write::pages::Block;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Threads that can record at once: the stream numbers them with 14 bits, some of them reserved.
pub(crate) const MAX_THREADS: usize = 16_000;

const SLOTS_PER_CHUNK: usize = 64;
const CHUNKS: usize = MAX_THREADS / SLOTS_PER_CHUNK;

/// Where a thread is, as the worker sees it.
pub(crate) struct Guard;

impl Guard {
    /// Outside the hook.
    pub(crate) const OUT: u32 = 0;
    /// Inside the hook, perhaps with an event that is not committed yet.
    pub(crate) const IN: u32 = 1;
    /// Inside the hook, waiting for room or for the inner allocator, with nothing uncommitted.
    pub(crate) const WAITING: u32 = 2;
}

/// What one recording thread and the worker share.
#[repr(C, align(128))]
pub(crate) struct Slot {
    // Written by the thread at every event.
    pub(crate) guard: AtomicU32,
    /// What the stream of this thread stands in: the context last written, 0 for none.
    pub(crate) context: Cell<u32>,
    /// End of the events that are whole: where the next one goes.
    cursor: AtomicPtr<u8>,
    /// The end of the block's room, or a lower limit when the thread's lease is over. Only the
    /// thread itself writes it.
    limit: Cell<*mut u8>,
    pub(crate) block: Cell<Option<NonNull<Block>>>,
    /// Who the thread is to others, and in which epoch. Never goes back, whoever has the slot.
    pub(crate) stamp: AtomicU64,
    /// What it takes for the world's word: under a lease, its own stamp. Null until the thread
    /// has its first block. The worker ends leases by this.
    pub(crate) world: AtomicPtr<AtomicU64>,
    /// Events this thread could not record.
    pub(crate) lost: AtomicU64,

    // Written seldom.
    /// Where the block is full.
    block_limit: Cell<*mut u8>,
    /// When the thread last met others in the world, and how often in quick succession.
    pub(crate) met_at: Cell<u64>,
    pub(crate) heat: Cell<u32>,
    /// The byte that closes the context the stream stands in, 0 for nothing.
    pub(crate) closing: AtomicU8,
    /// Scopes of the program that are open in the stream of this thread. The worker counts for
    /// itself, since it has not come as far.
    pub(crate) depth: AtomicU32,
    /// How many should be: fewer, where there was no room to close one.
    pub(crate) wanted_depth: Cell<u32>,
    pub(crate) state: AtomicU32,
    /// The first block; the worker takes it when it first drains this thread.
    pub(crate) first: AtomicPtr<Block>,
    /// Blocks that are this thread's or still hold events of it.
    pub(crate) held: AtomicU32,
    pub(crate) thread_id: AtomicU32,
    pub(crate) system_id: AtomicU32,
    name: [AtomicU64; 2],
    number: AtomicU32,
    next_free: AtomicU32,
}

// SAFETY: the cells are touched by the owning thread only, or by the worker while recording is
// paused and no thread is inside a hook; everything else is atomic.
unsafe impl Sync for Slot {}

pub(crate) const FREE: u32 = 0;
pub(crate) const LIVE: u32 = 1;
pub(crate) const FINISHED: u32 = 2;

// SAFETY: zeroed, a slot is free, and has neither block nor stamp.
unsafe impl Zeroed for Slot {}

/// All slots ever made.
static SLOTS: ChunkTable<Slot, SLOTS_PER_CHUNK, CHUNKS> = ChunkTable::new();
static FREE_SLOTS: FreeStack = FreeStack::new();
/// The id of the last thread that registered. Ids are never reused; 1 is the worker's.
static LAST_THREAD_ID: AtomicU32 = AtomicU32::new(1);

/// The cursor of a thread without a block: above every limit.
const NOWHERE: *mut u8 = ptr::without_provenance_mut(usize::MAX);

/// The slot of a thread that has none, or whose is put aside: always inside the hook, so that
/// nobody enters it. PERF: spares the fast path a test.
pub(super) static NO_SLOT: Slot = Slot {
    guard: AtomicU32::new(Guard::IN),
    context: Cell::new(0),
    cursor: AtomicPtr::new(ptr::null_mut()),
    limit: Cell::new(ptr::null_mut()),
    block: Cell::new(None),
    stamp: AtomicU64::new(0),
    world: AtomicPtr::new(ptr::null_mut()),
    lost: AtomicU64::new(0),
    block_limit: Cell::new(ptr::null_mut()),
    met_at: Cell::new(0),
    heat: Cell::new(0),
    closing: AtomicU8::new(0),
    depth: AtomicU32::new(0),
    wanted_depth: Cell::new(0),
    state: AtomicU32::new(FREE),
    first: AtomicPtr::new(ptr::null_mut()),
    held: AtomicU32::new(0),
    thread_id: AtomicU32::new(0),
    system_id: AtomicU32::new(0),
    name: [const { AtomicU64::new(0) }; 2],
    number: AtomicU32::new(0),
    next_free: AtomicU32::new(0),
};

impl Thread {
    fn slot(&self) -> Option<&'static Slot> {
        Some(self.slot.get()).filter(|slot| !ptr::eq(*slot, &raw const NO_SLOT))
    }

    /// Has the thread's next slot begin in a later epoch than this one is in.
    fn go_on_behind(&self, slot: &Slot) {
        // NOTE: one later. In the same epoch, a slot with a lower number would stand before this one.
        self.epoch.set(self.epoch.get().max(slot.epoch() + 1));
    }

    fn take_slot(&self) -> Option<&'static Slot> {
        let slot = self.slot();
        self.slot.set(&NO_SLOT);
        slot
    }
}

/// What a thread knows about itself. Without `Drop`, so it can be used at any time in its life.
pub(crate) struct Thread {
    /// Its slot, or [`NO_SLOT`].
    pub(crate) slot: Cell<&'static Slot>,
    /// How many reentrancy guards are held on this thread.
    pub(super) untracked: Cell<u32>,
    /// The thread is registering itself just now; a signal handler must not do it again.
    registering: Cell<bool>,
    /// The slot was given back at the end of the thread; later events come one by one.
    retired: Cell<bool>,
    /// The slot put aside while the tracker's own code runs.
    pub(super) aside: Cell<&'static Slot>,
    id: Cell<u32>,
    system_id: Cell<u32>,
    /// The epoch of its last slot.
    epoch: Cell<u64>,
    /// A function to run when the thread ends.
    at_end: Cell<Option<extern "C" fn()>>,
}

thread_local! {
    pub(crate) static THREAD: Thread = const { Thread {
        slot: Cell::new(&NO_SLOT),
        untracked: Cell::new(0),
        registering: Cell::new(false),
        retired: Cell::new(false),
        aside: Cell::new(&NO_SLOT),
        id: Cell::new(0),
        system_id: Cell::new(0),
        epoch: Cell::new(0),
        at_end: Cell::new(None),
    } };
}

impl Slot {
    /// Whether the largest thing a hook ever writes fits into the block.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        // NOTE: this is the only check of a thread before it knows whether anything is recorded.
        // Blocks may be taken away at the same time, so the cursor alone, as [`NOWHERE`], must say
        // so.
        // PERF: what is loaded here serves for the whole hook, since `cursor` is no atomic load.
        self.cursor.load(Ordering::Relaxed) < self.limit.get()
    }

    /// Where the next event goes. Called by the thread itself, once it knows that something is
    /// recorded.
    #[inline(always)]
    pub(crate) fn cursor(&self) -> *mut u8 {
        // PERF: not an atomic load, so that one is enough for a whole hook; so below.
        // SAFETY: while something is recorded, only the thread itself writes the cursor; its own
        // read cannot race with the reads of other threads.
        unsafe { self.cursor.as_ptr().read() }
    }

    /// Whether the thread is outside the hook. For the thread itself.
    #[inline(always)]
    pub(crate) fn is_outside(&self) -> bool {
        // NOTE: a word of its own, though the cursor has bits to spare. The guard is set before
        // the cursor is read, or a signal handler in between would lose its events.
        // SAFETY: as above.
        unsafe { self.guard.as_ptr().read() == Guard::OUT }
    }

    /// Who the thread is to others, and in which epoch.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// The epoch the thread is in.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        order::epoch(self.stamp.load(Ordering::Relaxed))
    }

    /// Publishes everything written before `end`.
    #[inline(always)]
    pub(crate) fn commit(&self, end: *mut u8) {
        self.cursor.store(end, Ordering::Release);
    }

    /// The end of what this thread has committed in `block`, and the block it went on with.
    pub(crate) fn committed(&self, block: &Block) -> (*mut u8, Option<NonNull<Block>>) {
        // NOTE: in this order. A cursor in another block was written behind the link to that.
        let cursor = self.cursor.load(Ordering::Acquire);
        let next = NonNull::new(block.next.load(Ordering::Acquire));
        if next.is_none() && block.contains(cursor) {
            return (cursor, None);
        }
        // Left for good; or just taken, and nothing is in it yet.
        (block.committed.load(Ordering::Acquire), next)
    }

    /// Goes on in `block` (or in none), with `room` bytes kept free at its end.
    pub(crate) fn set_block(&self, block: Option<NonNull<Block>>, size: usize, room: usize) {
        match block {
            Some(block) => self.go_on_in(block, size, room, Block::start(block)),
            None => self.go_on(None, NOWHERE),
        }
    }

    /// Goes on behind `cursor` in `block`, which is in no context there.
    pub(crate) fn go_on_in(
        &self,
        block: NonNull<Block>,
        size: usize,
        room: usize,
        cursor: *mut u8,
    ) {
        let limit = block.as_ptr().cast::<u8>().wrapping_add(size - room);
        self.limit.set(limit);
        self.block_limit.set(limit);
        self.go_on(Some(block), cursor);
    }

    fn go_on(&self, block: Option<NonNull<Block>>, cursor: *mut u8) {
        self.block.set(block);
        self.context.set(0);
        self.closing.store(0, Ordering::Relaxed);
        self.cursor.store(cursor, Ordering::Release);
        places::end_lease(self);
    }

    /// Bytes up to where the block is full.
    pub(crate) fn bytes_left(&self) -> usize {
        self.block_limit.get().addr().saturating_sub(self.cursor().addr())
    }

    fn forget_scopes(&self) {
        self.depth.store(0, Ordering::Relaxed);
        self.wanted_depth.set(0);
    }

    /// Has the slow way in come after `bytes` more of events, if not before.
    pub(crate) fn set_soft_limit(&self, bytes: usize) {
        self.limit.set(self.cursor().wrapping_add(bytes.min(self.bytes_left())));
    }

    /// Whether a soft limit is reached, but not the end of the block; takes the limit away.
    pub(crate) fn is_lease_over(&self) -> bool {
        let over = !self.has_room() && self.cursor() < self.block_limit.get();
        if over {
            self.limit.set(self.block_limit.get());
        }
        over
    }

    /// Whether a record's low bits are enough to tell `epoch`, in the present block.
    pub(crate) fn is_epoch_near(&self, epoch: u64) -> bool {
        // SAFETY: blocks are never unmapped.
        let block = self.block.get().map(|block| unsafe { block.as_ref() });
        let first = block.map_or(0, |block| block.epoch.load(Ordering::Relaxed));
        epoch - first < 1 << SERIAL_BITS
    }

    /// The thread's name as it was when last asked for.
    pub(crate) fn name(&self) -> ThreadName {
        let mut name = [0; 16];
        for (half, word) in name.chunks_exact_mut(8).zip(&self.name) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        name
    }

    fn store_own_name(&self) {
        let name = os::thread_name();
        for (half, word) in name.as_chunks::<8>().0.iter().zip(&self.name) {
            word.store(u64::from_ne_bytes(*half), Ordering::Relaxed);
        }
    }
}

/// All slots ever made, whatever their state.
pub(crate) fn slots() -> impl Iterator<Item = &'static Slot> {
    (0..SLOTS.len()).filter_map(|number| SLOTS.get(number))
}

/// Bytes of pages that hold slots.
pub(crate) fn mapped() -> u64 {
    SLOTS.mapped_bytes()
}

/// This thread's slot, registering the thread if it has none; with whether it is one for a single
/// event after the thread's end. `None` counts the event as lost.
pub(crate) fn current() -> Option<(&'static Slot, bool)> {
    THREAD
        .try_with(|thread| {
            if let Some(slot) = thread.slot() {
                return Some((slot, false));
            }
            if thread.registering.replace(true) {
                super::loss::event_without_slot();
                return None;
            }
            let slot = register(thread);
            thread.registering.set(false);
            if slot.is_none() {
                super::loss::event_without_slot();
            }
            Some((slot?, thread.retired.get()))
        })
        .ok()
        .flatten()
}

fn register(thread: &Thread) -> Option<&'static Slot> {
    let slot = pop_free().or_else(add_slot)?;
    if thread.id.get() == 0 {
        thread.id.set(LAST_THREAD_ID.fetch_add(1, Ordering::Relaxed) + 1);
        thread.system_id.set(os::thread_id());
    }
    slot.thread_id.store(thread.id.get(), Ordering::Relaxed);
    slot.system_id.store(thread.system_id.get(), Ordering::Relaxed);
    slot.store_own_name();
    slot.guard.store(Guard::OUT, Ordering::Relaxed);
    slot.lost.store(0, Ordering::Relaxed);
    slot.held.store(0, Ordering::Relaxed);
    slot.first.store(ptr::null_mut(), Ordering::Relaxed);
    slot.set_block(None, 0, 0);
    slot.forget_scopes();
    // NOTE: a word in which this slot was last may be of the thread that had it before, so the
    // epoch goes on from there; and from that of this thread's last slot.
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

/// Makes `at_end` run at the end of this thread, even if the thread has recorded nothing.
///
/// NOTE: `extern "C"`, which cannot unwind, because the system calls it.
pub(crate) fn at_thread_end(at_end: extern "C" fn()) {
    if THREAD.try_with(|thread| thread.at_end.set(Some(at_end))).is_ok() {
        os::on_thread_exit(&RETIRE);
    }
}

static RETIRE: extern "C" fn() = retire_current;

/// Called by the system in the last round of this thread's destructors.
extern "C" fn retire_current() {
    if let Ok(Some(at_end)) = THREAD.try_with(|thread| thread.at_end.take()) {
        at_end();
    }
    let slot = THREAD.try_with(|thread| {
        thread.retired.set(true);
        // NOTE: before the slot is gone. A signal handler that allocates behind that takes one of
        // its own, which has to go on from here.
        thread.slot().inspect(|slot| thread.go_on_behind(slot));
        thread.take_slot()
    });
    if let Ok(Some(slot)) = slot {
        slot.store_own_name();
        finish_late(slot);
    }
}

/// Ends the slot of a thread that may take others for events that come still.
pub(crate) fn finish_late(slot: &Slot) {
    let _ = THREAD.try_with(|thread| thread.go_on_behind(slot));
    finish(slot);
}

/// Marks a slot as one that nobody writes to any more; the worker drains it and frees it.
fn finish(slot: &Slot) {
    slot.state.store(FINISHED, Ordering::Release);
}

/// Marks the slots of threads that are gone without having retired: those whose first event came
/// after the system had begun their last round of destructors, or that found no key.
pub(crate) fn finish_dead() {
    for slot in slots() {
        if slot.state.load(Ordering::Acquire) == LIVE
            && !os::is_thread_alive(slot.system_id.load(Ordering::Relaxed))
        {
            // Only a slot that is still live: its thread may just have retired.
            let _ =
                slot.state.compare_exchange(LIVE, FINISHED, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// In the child of a fork, where nothing is being recorded: the other threads are gone, wherever
/// they were, and this one has another id. What they had recorded is kept.
pub(crate) fn forget_threads() {
    for slot in slots() {
        slot.guard.store(Guard::OUT, Ordering::Relaxed);
        let _ = slot.state.compare_exchange(LIVE, FINISHED, Ordering::AcqRel, Ordering::Relaxed);
    }
    let _ = THREAD.try_with(|thread| {
        thread.slot.set(&NO_SLOT);
        thread.aside.set(&NO_SLOT);
        thread.id.set(0);
    });
}

/// In the child of a fork that goes on recording: no slot belongs to anyone, and none has a block.
pub(crate) fn abandon() {
    FREE_SLOTS.clear();
    let numbered = |number| Some((number, SLOTS.get(number)?));
    for (number, slot) in (0..SLOTS.len()).filter_map(numbered) {
        slot.number.store(number, Ordering::Relaxed);
        slot.guard.store(Guard::OUT, Ordering::Relaxed);
        slot.first.store(ptr::null_mut(), Ordering::Relaxed);
        slot.held.store(0, Ordering::Relaxed);
        slot.lost.store(0, Ordering::Relaxed);
        slot.set_block(None, 0, 0);
        free(slot);
    }
    let _ = THREAD.try_with(|thread| {
        thread.slot.set(&NO_SLOT);
        thread.aside.set(&NO_SLOT);
        thread.id.set(0);
    });
}

/// Gives a finished slot back, once all its blocks are.
pub(crate) fn free(slot: &Slot) {
    slot.state.store(FREE, Ordering::Relaxed);
    FREE_SLOTS.push(slot.number.load(Ordering::Relaxed), &slot.next_free);
}

fn pop_free() -> Option<&'static Slot> {
    SLOTS.get(FREE_SLOTS.pop(|number| Some(&SLOTS.get(number)?.next_free))?)
}

fn add_slot() -> Option<&'static Slot> {
    let number = SLOTS.add()?;
    let slot = SLOTS.get(number)?;
    slot.number.store(number, Ordering::Relaxed);
    Some(slot)
}

/// Takes every slot's blocks away. Only while recording is paused and no thread is inside a hook.
pub(crate) fn forget_blocks() {
    for slot in slots() {
        // A thread may be registering in a free one.
        if slot.state.load(Ordering::Acquire) == FREE {
            continue;
        }
        let mut block = NonNull::new(slot.first.swap(ptr::null_mut(), Ordering::AcqRel));
        while let Some(current) = block {
            // SAFETY: blocks are never unmapped.
            let next = unsafe { current.as_ref() }.next.load(Ordering::Acquire);
            buffer::release(slot, current);
            block = NonNull::new(next);
        }
        slot.set_block(None, 0, 0);
        slot.forget_scopes();
        slot.lost.store(0, Ordering::Relaxed);
        if slot.state.load(Ordering::Acquire) == FINISHED {
            free(slot);
        }
    }
}
