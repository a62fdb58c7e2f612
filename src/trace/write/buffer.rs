//! The buffers that threads write events into. Their memory is mapped by the tracker itself and
//! never comes from the program's allocator.
//!
//! ```text
//! chunk  1 MiB of mapped pages, never unmapped      (at most CHUNKS of them)
//! large  32 KiB                                     ┐ two stacks of free buffers
//! small   4 KiB, a thread's first buffer            ┘
//! ```
//! A large buffer can be split into small ones, which are never joined again. The number of a
//! buffer is its position in units of a small buffer.
//!
//! Any thread can take and give back buffers at any time, inside the hook too: there are no locks.
#![expect(unsafe_code, reason = "buffers are raw memory")]

use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::platform::free_stack::FreeStack;
use crate::platform::whole_pages::PageAligned;
use std::cell::UnsafeCell;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Bytes of a thread's first buffer: one page, since most threads of most programs record little.
pub(crate) const SMALL: usize = 4 << 10;
/// Bytes of every other buffer. Larger ones gain nothing measurable. A packet carries at most one
/// buffer, and its size must fit in 16 bits.
pub(crate) const LARGE: usize = 32 << 10;

const CHUNKS: usize = 4096;
const LARGE_PER_CHUNK: usize = (1 << 20) / LARGE;
const SMALL_PER_LARGE: u32 = (LARGE / SMALL) as u32;

/// A buffer, by the address of its header. The header can be read at any time, even after the
/// buffer's owner has ended, because buffers are never unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer(NonNull<BufferHeader>);

// SAFETY: the header consists of atomics. Only unsafe code accesses the bytes after it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// The header of a buffer.
///
/// ```text
///  0        64                        cursor                    size
///  ┌────────┬─────────────────────────┬─────────────────────────┐
///  │ header │ whole events            │ not yet written         │──next──► the thread's next buffer
///  └────────┴─────────────────────────┴─────────────────────────┘
/// ```
/// The thread that owns the buffer writes an event after its cursor, then advances the cursor with
/// a release store. The worker reads up to the cursor after an acquire load, so it never sees half
/// an event. A thread has one cursor, in its slot: the end of the events in its last buffer. In
/// each earlier buffer, `committed` is the end of the events; it is stored before `next`.
#[repr(C, align(64))]
pub(crate) struct BufferHeader {
    /// The end of the events, once the thread has continued in another buffer.
    pub(crate) committed: AtomicPtr<u8>,
    /// The buffer in which the thread has continued.
    pub(crate) next: AtomicBuffer,
    /// Bytes of the buffer, header included: [`SMALL`] or [`LARGE`].
    size: AtomicU32,
    number: AtomicU32,
    next_free: AtomicU32,
    /// The epoch of the thread when it began the buffer: no event in it has an earlier one.
    pub(crate) epoch: AtomicU64,
}

const _: () = assert!(size_of::<BufferHeader>() == 64);

impl Deref for Buffer {
    type Target = BufferHeader;

    fn deref(&self) -> &BufferHeader {
        self.header()
    }
}

impl Buffer {
    fn header(self) -> &'static BufferHeader {
        // SAFETY: only this file makes a `Buffer`, from the address of a mapped chunk. Chunks are
        // never unmapped, and any bytes are a valid header.
        unsafe { self.0.as_ref() }
    }

    /// Where the first event begins.
    pub(crate) fn start(self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().wrapping_add(size_of::<BufferHeader>())
    }

    pub(crate) fn end(self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().wrapping_add(self.size())
    }

    /// Bytes of the buffer, header included.
    pub(crate) fn size(self) -> usize {
        self.size.load(Ordering::Relaxed) as usize
    }

    /// Whether a cursor points into this buffer.
    pub(crate) fn contains(self, cursor: *mut u8) -> bool {
        (self.start().addr()..=self.end().addr()).contains(&cursor.addr())
    }
}

/// A buffer or none, which several threads read and write.
#[repr(transparent)]
pub(crate) struct AtomicBuffer(AtomicPtr<BufferHeader>);

impl AtomicBuffer {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn load(&self, order: Ordering) -> Option<Buffer> {
        NonNull::new(self.0.load(order)).map(Buffer)
    }

    pub(crate) fn store(&self, buffer: Option<Buffer>, order: Ordering) {
        self.0.store(Self::pointer(buffer), order);
    }

    pub(crate) fn swap(&self, buffer: Option<Buffer>, order: Ordering) -> Option<Buffer> {
        NonNull::new(self.0.swap(Self::pointer(buffer), order)).map(Buffer)
    }

    fn pointer(buffer: Option<Buffer>) -> *mut BufferHeader {
        buffer.map_or(ptr::null_mut(), |buffer| buffer.0.as_ptr())
    }
}

/// Memory for one large buffer, or for [`SMALL_PER_LARGE`] small ones.
#[repr(C)]
struct Memory(UnsafeCell<[u8; LARGE]>, [PageAligned; 0]);

// SAFETY: it consists of bytes, and the header of each buffer synchronises access to them.
unsafe impl Sync for Memory {}
// SAFETY: it consists of bytes, and zero is a valid byte.
unsafe impl Zeroed for Memory {}

static MEMORY: ChunkTable<Memory, LARGE_PER_CHUNK, CHUNKS> = ChunkTable::new();
static FREE_SMALL: FreeStack = FreeStack::new();
static FREE_LARGE: FreeStack = FreeStack::new();

/// The number of chunks for buffers that have `limit` bytes together, and for one small buffer of each thread
/// that can record beyond that.
fn chunks_for(limit: usize) -> usize {
    (limit.div_ceil(1 << 20) + super::registry::MAX_THREADS * SMALL / (1 << 20) + 2).min(CHUNKS)
}

/// Shares the memory of all later buffers, which have at most `limit` bytes together.
///
/// # Safety
/// See [`ChunkTable::share`].
pub(super) unsafe fn share(limit: usize) -> io::Result<()> {
    // SAFETY: the caller makes the same promise.
    unsafe { MEMORY.share(chunks_for(limit)) }
}

/// Maps pages for buffers of `bytes` together. They take memory only when they are used.
#[cfg(c_filter)]
pub(super) fn map_ahead(bytes: usize) {
    MEMORY.map_ahead(bytes.div_ceil(1 << 20) as u32 * LARGE_PER_CHUNK as u32);
}

/// Bytes of pages mapped so far for buffers.
pub(crate) fn mapped() -> u64 {
    MEMORY.mapped_bytes()
}

/// Begins with new pages in the child of a fork, where the state of the free stacks and of the
/// buffers on them is unknown.
pub(crate) fn reset_after_fork() {
    FREE_SMALL.clear();
    FREE_LARGE.clear();
    MEMORY.skip_chunk();
}

/// Begins with the first page again, in the child of a fork whose buffers are zeroed, and all its own.
pub(super) fn begin_anew() {
    FREE_SMALL.clear();
    FREE_LARGE.clear();
    MEMORY.begin_anew();
}

/// Takes a buffer of `size` bytes ([`SMALL`] or [`LARGE`]); `None` if the system has no memory.
pub(crate) fn take(size: usize) -> Option<Buffer> {
    let buffer = if size == SMALL {
        pop(&FREE_SMALL).or_else(split_large)?
    } else {
        pop(&FREE_LARGE).or_else(|| numbered(MEMORY.add()? * SMALL_PER_LARGE))?
    };
    buffer.next.store(None, Ordering::Relaxed);
    buffer.size.store(size as u32, Ordering::Relaxed);
    buffer.committed.store(buffer.start(), Ordering::Relaxed);
    Some(buffer)
}

/// Gives a buffer back. Its owner must not use it any more.
pub(crate) fn give_back(buffer: Buffer) {
    let free = if buffer.size() == SMALL { &FREE_SMALL } else { &FREE_LARGE };
    free.push(buffer.number.load(Ordering::Relaxed), &buffer.next_free);
}

fn split_large() -> Option<Buffer> {
    let large = match pop(&FREE_LARGE) {
        Some(buffer) => buffer.number.load(Ordering::Relaxed),
        None => MEMORY.add()? * SMALL_PER_LARGE,
    };
    for buffer in (large + 1..large + SMALL_PER_LARGE).filter_map(numbered) {
        buffer.size.store(SMALL as u32, Ordering::Relaxed);
        give_back(buffer);
    }
    numbered(large)
}

fn pop(free: &FreeStack) -> Option<Buffer> {
    by_number(free.pop(|number| Some(&by_number(number)?.header().next_free))?)
}

/// The buffer with this number, if its chunk is mapped.
fn by_number(number: u32) -> Option<Buffer> {
    let memory = MEMORY.pointer(number / SMALL_PER_LARGE)?.cast::<u8>();
    let offset = (number % SMALL_PER_LARGE) as usize * SMALL;
    NonNull::new(memory.as_ptr().wrapping_add(offset).cast()).map(Buffer)
}

/// The buffer with this number, which belongs to the caller. Writes the number to its header.
fn numbered(number: u32) -> Option<Buffer> {
    let buffer = by_number(number)?;
    buffer.number.store(number, Ordering::Relaxed);
    Some(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn threads_never_share_a_buffer() {
        let threads = (0..4).map(|seed: usize| {
            std::thread::spawn(move || {
                let mut held = Vec::new();
                for step in 0..20_000_usize {
                    if !(step * 7 + seed).is_multiple_of(3) {
                        let size = if (step + seed).is_multiple_of(5) { LARGE } else { SMALL };
                        let buffer = take(size).unwrap();
                        // SAFETY: the buffer belongs to this thread until it is given back.
                        unsafe { buffer.start().cast::<usize>().write(seed << 32 | step) };
                        held.push((buffer, seed << 32 | step));
                    } else if let Some((buffer, mark)) = held.pop() {
                        // SAFETY: as above.
                        assert_eq!(unsafe { buffer.start().cast::<usize>().read() }, mark);
                        give_back(buffer);
                    }
                    if held.len() > 50 {
                        for (buffer, mark) in held.drain(..) {
                            // SAFETY: as above.
                            assert_eq!(unsafe { buffer.start().cast::<usize>().read() }, mark);
                            give_back(buffer);
                        }
                    }
                }
                held.into_iter().map(|(buffer, _)| buffer.start().addr()).collect::<Vec<_>>()
            })
        });
        let held = threads.collect::<Vec<_>>().into_iter().flat_map(|t| t.join().unwrap());
        let held = held.collect::<Vec<_>>();
        assert_eq!(held.iter().collect::<HashSet<_>>().len(), held.len());
    }
}
