//! The slot of a recording thread: what the thread and the worker share.
#![expect(unsafe_code, reason = "reads its own atomics without atomic loads; prefetches")]

use super::buffer::{AtomicBuffer, Buffer};
use super::{clocks, order};
use crate::platform::chunk_table::Zeroed;
use crate::platform::clock;
use crate::platform::os::{self, ThreadName};
use memledger_format::schema::SERIAL_BITS;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The values of [`ThreadSlot::guard`].
pub(crate) struct Guard;

impl Guard {
    /// The thread is outside the hook.
    pub(crate) const OUT: u32 = 0;
    /// Inside the hook, perhaps with an event that is not committed yet.
    pub(crate) const IN: u32 = 1;
    /// Inside the hook, waiting for room or for the inner allocator, with nothing uncommitted.
    pub(crate) const WAITING: u32 = 2;
}

/// The state that one recording thread and the worker share.
#[repr(C, align(128))]
pub(crate) struct ThreadSlot {
    // Read by the thread at every event. It writes the guard and the cursor.
    pub(crate) guard: AtomicU32,
    /// The context that the thread's stream was last switched to, 0 for none.
    pub(crate) context: Cell<u32>,
    /// The commit cursor: the end of the committed events, where the next event begins.
    cursor: AtomicPtr<u8>,
    /// The cursor's limit: the end of the room in the buffer, or an earlier position at which the
    /// thread's lease ends. Only the thread itself writes it.
    limit: Cell<*mut u8>,
    pub(crate) buffer: Cell<Option<Buffer>>,
    /// The thread's owner number and epoch, as a sync word. It never decreases, even when another
    /// thread takes the slot.
    pub(crate) stamp: AtomicU64,
    /// The word that the thread loads as the global clock: under a lease, its own stamp. Null until
    /// the first thread takes the slot. The worker revokes a lease by a store to this pointer.
    pub(crate) global: AtomicPtr<AtomicU64>,
    /// Events this thread could not record.
    pub(crate) lost: AtomicU64,

    // Written seldom.
    /// The address from which the buffer counts as full.
    buffer_limit: Cell<*mut u8>,
    /// When the thread last joined the global clock after another thread, or ended its lease.
    pub(crate) joined_at: Cell<u64>,
    /// How many of these joins in a row were near each other.
    pub(crate) near_joins: Cell<u32>,
    /// The byte that closes the context of the stream, 0 if none is open.
    pub(crate) closing: AtomicU8,
    /// The number of the program's scopes that are open in this thread's stream at its cursor. The
    /// worker counts for itself those that are open at the event that it merged last.
    pub(crate) depth: AtomicU32,
    /// The number of scopes that should be open: less than `depth` while the stream lacks the end
    /// of a scope, for which there was no room.
    pub(crate) wanted_depth: Cell<u32>,
    /// What `stacks` remembers of the thread; null until the thread's first call stack.
    pub(crate) stack_memory: Cell<*mut u8>,
    pub(crate) state: AtomicU32,
    /// The first buffer with events that are not drained; the worker advances it.
    pub(crate) first: AtomicBuffer,
    /// The number of buffers that this thread owns, or that still hold its events.
    pub(crate) held: AtomicU32,
    pub(crate) thread_id: AtomicU32,
    pub(crate) system_id: AtomicU32,
    name: [AtomicU64; 2],
    pub(super) number: AtomicU32,
    pub(super) next_free: AtomicU32,
}

// SAFETY: only the owning thread accesses the cells, or the worker while recording is paused and no
// thread is inside a hook; everything else is atomic.
unsafe impl Sync for ThreadSlot {}

/// No thread has the slot.
pub(crate) const FREE: u32 = 0;
/// A thread records in the slot.
pub(crate) const LIVE: u32 = 1;
/// The thread has ended; the worker has yet to drain the slot.
pub(crate) const FINISHED: u32 = 2;

// SAFETY: zeroed, a slot is free, and has neither buffer nor stamp.
unsafe impl Zeroed for ThreadSlot {}

/// How far ahead of the cursor the lines of the buffer are prefetched, in bytes.
///
/// PERF: the worker has read a buffer that is used again, so its lines are in the other core's cache,
/// and on some processors (Intel's Sapphire Rapids) stores to them fill the store buffer before they
/// arrive: a pair of an allocation and a free took 1.74 to 1.78 times as long as without the tracker,
/// and takes 1.60 to 1.66 times as long. On AMD's EPYC (Zen 3) the hint changes nothing: 1.58 to 1.61.
const PREFETCH: usize = 768;

/// Requests the line of the cache at `address` for writing. Any address may be given.
#[inline(always)]
fn prefetch_for_write(address: *mut u8) {
    // NOTE: `core::arch` has only an intrinsic that becomes this instruction in programs that are
    // not built for all processors.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads and writes nothing, and is ignored for an invalid address.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The cursor of a thread without a buffer: above every limit.
const NOWHERE: *mut u8 = ptr::without_provenance_mut(usize::MAX);

/// The slot of a thread that has none, or whose slot is suspended. Its guard is always `IN`, so the
/// fast path never enters it. PERF: spares the fast path a test for null.
pub(super) static NO_SLOT: ThreadSlot = ThreadSlot {
    guard: AtomicU32::new(Guard::IN),
    context: Cell::new(0),
    cursor: AtomicPtr::new(ptr::null_mut()),
    limit: Cell::new(ptr::null_mut()),
    buffer: Cell::new(None),
    stamp: AtomicU64::new(0),
    global: AtomicPtr::new(ptr::null_mut()),
    lost: AtomicU64::new(0),
    buffer_limit: Cell::new(ptr::null_mut()),
    joined_at: Cell::new(0),
    near_joins: Cell::new(0),
    closing: AtomicU8::new(0),
    depth: AtomicU32::new(0),
    wanted_depth: Cell::new(0),
    stack_memory: Cell::new(ptr::null_mut()),
    state: AtomicU32::new(FREE),
    first: AtomicBuffer::none(),
    held: AtomicU32::new(0),
    thread_id: AtomicU32::new(0),
    system_id: AtomicU32::new(0),
    name: [const { AtomicU64::new(0) }; 2],
    number: AtomicU32::new(0),
    next_free: AtomicU32::new(0),
};

impl ThreadSlot {
    /// Whether the buffer has room for the most bytes that a hook writes.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        // NOTE: a thread checks only this before it knows whether anything is recorded. Its buffers
        // may be taken away at the same time, so the cursor alone must show that there is no
        // buffer: it is [`NOWHERE`] then.
        // PERF: the whole hook uses the value that is loaded here, since `cursor` is no atomic
        // load.
        self.cursor.load(Ordering::Relaxed) < self.limit.get()
    }

    /// Where the next event begins. Called by the thread itself, once it knows that something is
    /// recorded.
    #[inline(always)]
    pub(crate) fn cursor(&self) -> *mut u8 {
        // PERF: not an atomic load, so that one load is enough for a whole hook.
        // SAFETY: while something is recorded, only the thread itself writes the cursor; its own
        // read cannot race with the reads of other threads.
        unsafe { self.cursor.as_ptr().read() }
    }

    /// Whether the thread is outside the hook. For the thread itself.
    #[inline(always)]
    pub(crate) fn is_outside(&self) -> bool {
        // NOTE: the guard is a word of its own, though the cursor has unused bits. The guard must
        // be set before the cursor is read; otherwise the events of a signal handler that runs in
        // between would be lost.
        // SAFETY: only the thread itself writes its guard while it is outside the hook.
        unsafe { self.guard.as_ptr().read() == Guard::OUT }
    }

    /// The thread's owner number and epoch, as a sync word.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        order::epoch(self.stamp.load(Ordering::Relaxed))
    }

    /// Publishes everything written before `end`.
    #[inline(always)]
    pub(crate) fn commit(&self, end: *mut u8) {
        self.cursor.store(end, Ordering::Release);
        prefetch_for_write(end.wrapping_add(PREFETCH));
    }

    /// The end of what this thread has committed in `buffer`, and the buffer it has continued in.
    pub(crate) fn committed(&self, buffer: Buffer) -> (*mut u8, Option<Buffer>) {
        // NOTE: loads the cursor before the link. If the cursor is in another buffer, the link to
        // that buffer was stored before it.
        let cursor = self.cursor.load(Ordering::Acquire);
        let next = buffer.next.load(Ordering::Acquire);
        if next.is_none() && buffer.contains(cursor) {
            return (cursor, None);
        }
        // The thread has left the buffer. Or it has just taken the buffer, which is then empty.
        (buffer.committed.load(Ordering::Acquire), next)
    }

    /// Continues at the start of `buffer` (or in none), with `reserved` bytes kept free at its end.
    pub(crate) fn set_buffer(&self, buffer: Option<Buffer>, reserved: usize) {
        match buffer {
            Some(buffer) => self.continue_in(buffer, reserved, buffer.start()),
            None => self.continue_at(None, NOWHERE),
        }
    }

    /// Continues at `cursor` in `buffer`, where no context is open.
    pub(crate) fn continue_in(&self, buffer: Buffer, reserved: usize, cursor: *mut u8) {
        let limit = buffer.end().wrapping_sub(reserved);
        self.limit.set(limit);
        self.buffer_limit.set(limit);
        self.continue_at(Some(buffer), cursor);
    }

    fn continue_at(&self, buffer: Option<Buffer>, cursor: *mut u8) {
        self.buffer.set(buffer);
        self.context.set(0);
        self.closing.store(0, Ordering::Relaxed);
        self.cursor.store(cursor, Ordering::Release);
        self.end_lease();
    }

    /// Bytes from the cursor to the address from which the buffer counts as full.
    pub(crate) fn bytes_left(&self) -> usize {
        self.buffer_limit.get().addr().saturating_sub(self.cursor().addr())
    }

    pub(super) fn reset_scopes(&self) {
        self.depth.store(0, Ordering::Relaxed);
        self.wanted_depth.set(0);
    }

    /// Begins a lease for `bytes` of events, or for the rest of the buffer.
    pub(super) fn begin_lease(&self, bytes: usize) {
        self.limit.set(self.cursor().wrapping_add(bytes.min(self.bytes_left())));
        // PERF: the hook compares the thread's stamp with itself, so a lease costs it nothing.
        self.global.store((&raw const self.stamp).cast_mut(), Ordering::Relaxed);
    }

    /// Makes the next event take the slow path, as if a lease had reached its limit. For the thread itself,
    /// or the one that waits for it.
    pub(super) fn leave_fast_path(&self) {
        self.limit.set(self.cursor.load(Ordering::Relaxed).min(self.limit.get()));
    }

    /// Whether the lease has reached its limit, but the buffer is not full; removes the limit.
    pub(crate) fn is_lease_over(&self) -> bool {
        let over = !self.has_room() && self.cursor() < self.buffer_limit.get();
        if over {
            self.limit.set(self.buffer_limit.get());
        }
        over
    }

    /// Whether the thread does not check the global clock at present.
    pub(crate) fn is_leased(&self) -> bool {
        !ptr::eq(self.global.load(Ordering::Relaxed), clocks::global())
    }

    /// Revokes the lease: the thread checks the global clock again from its next event. For the
    /// worker.
    pub(crate) fn revoke_lease(&self) {
        if self.is_leased() {
            self.check_global();
        }
    }

    /// Ends the lease: at its limit, or when the thread leaves its buffer. For the thread itself,
    /// or while no thread is inside the hook.
    pub(crate) fn end_lease(&self) {
        if self.is_leased() {
            // The time under the lease does not count as time between two joins: if other threads
            // are active now, the next lease follows at once.
            self.joined_at.set(clock::now());
        }
        self.check_global();
    }

    fn check_global(&self) {
        self.global.store(ptr::from_ref(clocks::global()).cast_mut(), Ordering::Relaxed);
    }

    /// Whether an event in the present buffer can have `epoch`: the bits that the event carries,
    /// and the epoch in the buffer's header, identify it.
    pub(crate) fn is_epoch_near(&self, epoch: u64) -> bool {
        let first = self.buffer.get().map_or(0, |buffer| buffer.epoch.load(Ordering::Relaxed));
        epoch - first < 1 << SERIAL_BITS
    }

    /// The thread's name at the last [`store_own_name`](Self::store_own_name).
    pub(crate) fn name(&self) -> ThreadName {
        let mut name = [0; 16];
        for (half, word) in name.chunks_exact_mut(8).zip(&self.name) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        name
    }

    /// Stores the name of the calling thread.
    pub(super) fn store_own_name(&self) {
        let name = if os::is_kernel_closed() { [0; 16] } else { os::thread_name() };
        for (half, word) in name.as_chunks::<8>().0.iter().zip(&self.name) {
            word.store(u64::from_ne_bytes(*half), Ordering::Relaxed);
        }
    }
}
