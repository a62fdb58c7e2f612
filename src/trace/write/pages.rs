//! Memory for event blocks, in pages of our own: nothing here comes from the program's allocator.
//!
//! ```text
//! chunk  1 MiB of mapped pages, never unmapped      (at most CHUNKS of them)
//! large  32 KiB, the usual block                    ┐ two stacks of free ones
//! small   4 KiB, a thread's first block             ┘
//! ```
//! A large block may be split into small ones; they are never joined again. The number of a block
//! is its place in units of a small block.
//!
//! Any thread may take and give back blocks at any time, in the hook too: no locks.
#![expect(unsafe_code, reason = "blocks are raw memory")]

use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::platform::free_stack::FreeStack;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Bytes of a thread's first block: one page, since most threads of most programs do little.
pub(crate) const SMALL: usize = 4 << 10;
/// Bytes of every other block. Larger ones gain nothing measurable; a packet carries one block at
/// most, and its size must fit in 16 bits.
pub(crate) const LARGE: usize = 32 << 10;

const CHUNKS: usize = 4096;
const LARGE_PER_CHUNK: usize = (1 << 20) / LARGE;
const SMALL_PER_LARGE: u32 = (LARGE / SMALL) as u32;

/// The head of every block.
///
/// ```text
///  0        64                        cursor                    size
///  ┌────────┬─────────────────────────┬─────────────────────────┐
///  │ header │ events, whole ones only │ not yet written         │──next──► the thread's next block
///  └────────┴─────────────────────────┴─────────────────────────┘
/// ```
/// The thread that owns the block writes events behind its cursor, then moves it with a release
/// store; the worker reads up to it after an acquire load, so it never sees half an event. The
/// cursor is the thread's: it says how far the last of its blocks is committed. Of the others,
/// `committed` does, which is set before `next`.
#[repr(C, align(64))]
pub(crate) struct Block {
    /// End of the events, once the thread has gone on with another block.
    pub(crate) committed: AtomicPtr<u8>,
    /// The block the thread went on with.
    pub(crate) next: AtomicPtr<Block>,
    /// Bytes of the block, header included: [`SMALL`] or [`LARGE`].
    pub(crate) size: AtomicU32,
    number: AtomicU32,
    next_free: AtomicU32,
    /// The epoch of its thread when it was begun: no event in it has an earlier one.
    pub(crate) epoch: AtomicU64,
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Whether a cursor points into this block.
    pub(crate) fn contains(&self, cursor: *mut u8) -> bool {
        let start = std::ptr::from_ref(self).addr();
        (start..=start + self.size.load(Ordering::Relaxed) as usize).contains(&cursor.addr())
            && cursor.addr() > start
    }

    /// Where the first event of the block goes.
    pub(crate) fn start(block: NonNull<Block>) -> *mut u8 {
        block.as_ptr().cast::<u8>().wrapping_add(size_of::<Block>())
    }
}

/// A place for one large block, or for [`SMALL_PER_LARGE`] small ones.
#[repr(C, align(4096))]
struct Room(UnsafeCell<[u8; LARGE]>);

// SAFETY: bytes. What lies in them is synchronised by the header of each block.
unsafe impl Sync for Room {}
// SAFETY: bytes.
unsafe impl Zeroed for Room {}

static ROOMS: ChunkTable<Room, LARGE_PER_CHUNK, CHUNKS> = ChunkTable::new();
static FREE_SMALL: FreeStack = FreeStack::new();
static FREE_LARGE: FreeStack = FreeStack::new();

/// Bytes of pages mapped so far for blocks.
pub(crate) fn mapped() -> u64 {
    ROOMS.mapped_bytes()
}

/// In the child of a fork: begins with new pages. What other threads were doing to these lists, and
/// to the blocks in them, cannot be known.
pub(crate) fn abandon() {
    FREE_SMALL.clear();
    FREE_LARGE.clear();
    ROOMS.skip_chunk();
}

/// Takes a block of `size` bytes ([`SMALL`] or [`LARGE`]), or `None` if the system has no memory.
pub(crate) fn take(size: usize) -> Option<NonNull<Block>> {
    let block = if size == SMALL {
        pop(&FREE_SMALL).or_else(split_large)?
    } else {
        pop(&FREE_LARGE).or_else(|| numbered(ROOMS.add()? * SMALL_PER_LARGE))?
    };
    // SAFETY: a block taken from a list or fresh from a chunk is mapped, and ours alone.
    let header = unsafe { block.as_ref() };
    header.next.store(ptr::null_mut(), Ordering::Relaxed);
    header.size.store(size as u32, Ordering::Relaxed);
    header.committed.store(Block::start(block), Ordering::Relaxed);
    Some(block)
}

/// Gives a block back. Nobody may use it any more.
pub(crate) fn give_back(block: NonNull<Block>) {
    // SAFETY: blocks are never unmapped.
    let header = unsafe { block.as_ref() };
    let is_small = header.size.load(Ordering::Relaxed) as usize == SMALL;
    let free = if is_small { &FREE_SMALL } else { &FREE_LARGE };
    free.push(header.number.load(Ordering::Relaxed), &header.next_free);
}

fn split_large() -> Option<NonNull<Block>> {
    let large = match pop(&FREE_LARGE) {
        // SAFETY: blocks are never unmapped.
        Some(block) => unsafe { block.as_ref() }.number.load(Ordering::Relaxed),
        None => ROOMS.add()? * SMALL_PER_LARGE,
    };
    for block in (large + 1..large + SMALL_PER_LARGE).filter_map(numbered) {
        // SAFETY: the block is part of the large one, which is ours.
        unsafe { block.as_ref() }.size.store(SMALL as u32, Ordering::Relaxed);
        give_back(block);
    }
    numbered(large)
}

fn pop(free: &FreeStack) -> Option<NonNull<Block>> {
    // SAFETY: blocks are never unmapped.
    address(free.pop(|number| Some(unsafe { &address(number)?.as_ref().next_free }))?)
}

/// Where the block with this number lies, if its chunk is mapped.
fn address(number: u32) -> Option<NonNull<Block>> {
    let room = ROOMS.pointer(number / SMALL_PER_LARGE)?.cast::<u8>();
    NonNull::new(room.as_ptr().wrapping_add((number % SMALL_PER_LARGE) as usize * SMALL).cast())
}

/// The block with this number, which is ours, its number written in.
fn numbered(number: u32) -> Option<NonNull<Block>> {
    let block = address(number)?;
    // SAFETY: the address lies in a mapped chunk; zeroed pages are a valid header.
    unsafe { block.as_ref() }.number.store(number, Ordering::Relaxed);
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn threads_never_share_a_block() {
        let threads = (0..4).map(|seed: usize| {
            std::thread::spawn(move || {
                let mut held = Vec::new();
                for step in 0..20_000_usize {
                    if !(step * 7 + seed).is_multiple_of(3) {
                        let size = if (step + seed).is_multiple_of(5) { LARGE } else { SMALL };
                        let block = take(size).unwrap();
                        let mark = Block::start(block).cast::<usize>();
                        // SAFETY: the block is ours until given back.
                        unsafe { mark.write(seed << 32 | step) };
                        held.push((block, seed << 32 | step));
                    } else if let Some((block, mark)) = held.pop() {
                        // SAFETY: as above.
                        assert_eq!(unsafe { Block::start(block).cast::<usize>().read() }, mark);
                        give_back(block);
                    }
                    if held.len() > 50 {
                        for (block, mark) in held.drain(..) {
                            // SAFETY: as above.
                            assert_eq!(unsafe { Block::start(block).cast::<usize>().read() }, mark);
                            give_back(block);
                        }
                    }
                }
                held.into_iter().map(|(block, _)| block.as_ptr().addr()).collect::<Vec<_>>()
            })
        });
        let held = threads.collect::<Vec<_>>().into_iter().flat_map(|t| t.join().unwrap());
        let held = held.collect::<Vec<_>>();
        assert_eq!(held.iter().collect::<HashSet<_>>().len(), held.len());
    }
}
