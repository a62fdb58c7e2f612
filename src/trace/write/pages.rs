//! Memory for event blocks, in pages of our own: nothing here comes from the program's allocator.
//!
//! ```text
//! chunk  1 MiB of mapped pages, never unmapped      (at most CHUNKS of them)
//! large  32 KiB, the usual block                    ┐ two free lists, each a stack with a
//! small   4 KiB, a thread's first block             ┘ counter against the ABA problem
//! ```
//! A large block may be split into small ones; they are never joined again. Blocks are named by
//! number (in units of a small block, plus one), so that a free list fits in one atomic word.
//!
//! Any thread may take and give back blocks at any time, in the hook too: no locks.
#![expect(unsafe_code, reason = "blocks are raw memory")]

use crate::platform::os;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Bytes of a thread's first block: one page, since most threads of most programs do little.
pub(crate) const SMALL: usize = 4 << 10;
/// Bytes of every other block. Larger ones gain nothing measurable; a packet carries one block at
/// most, and its size must fit in 16 bits.
pub(crate) const LARGE: usize = 32 << 10;

const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 4096;
const LARGE_PER_CHUNK: u32 = (CHUNK / LARGE) as u32;
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

static CHUNK_TABLE: [AtomicPtr<u8>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
/// How many large blocks have ever been cut from chunks.
static CUT: AtomicU32 = AtomicU32::new(0);
static FREE_SMALL: FreeList = FreeList::new();
static FREE_LARGE: FreeList = FreeList::new();

/// Bytes of pages mapped so far for blocks.
pub(crate) fn mapped() -> u64 {
    u64::from(CUT.load(Ordering::Relaxed).div_ceil(LARGE_PER_CHUNK)) * CHUNK as u64
}

/// In the child of a fork: begins with new pages. What other threads were doing to these lists, and
/// to the blocks in them, cannot be known.
pub(crate) fn abandon() {
    FREE_SMALL.0.store(0, Ordering::Relaxed);
    FREE_LARGE.0.store(0, Ordering::Relaxed);
    let cut = CUT.load(Ordering::Relaxed);
    CUT.store(cut.next_multiple_of(LARGE_PER_CHUNK), Ordering::Relaxed);
}

/// Takes a block of `size` bytes ([`SMALL`] or [`LARGE`]), or `None` if the system has no memory.
pub(crate) fn take(size: usize) -> Option<NonNull<Block>> {
    let block = if size == SMALL {
        FREE_SMALL.pop().or_else(split_large)?
    } else {
        FREE_LARGE.pop().or_else(|| cut_large().and_then(block_at))?
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
    let size = unsafe { block.as_ref() }.size.load(Ordering::Relaxed);
    if size as usize == SMALL { &FREE_SMALL } else { &FREE_LARGE }.push(block);
}

fn split_large() -> Option<NonNull<Block>> {
    let large = match FREE_LARGE.pop() {
        // SAFETY: blocks are never unmapped.
        Some(block) => unsafe { block.as_ref() }.number.load(Ordering::Relaxed),
        None => cut_large()?,
    };
    for number in large + 1..large + SMALL_PER_LARGE {
        if let Some(block) = block_at(number) {
            // SAFETY: the block is part of the large one, which is ours.
            unsafe { block.as_ref() }.size.store(SMALL as u32, Ordering::Relaxed);
            FREE_SMALL.push(block);
        }
    }
    block_at(large)
}

/// Cuts a large block from the chunks and returns its number.
fn cut_large() -> Option<u32> {
    let mut cut = CUT.load(Ordering::Relaxed);
    loop {
        let entry = CHUNK_TABLE.get((cut / LARGE_PER_CHUNK) as usize)?;
        if entry.load(Ordering::Acquire).is_null() {
            let pages = os::map(CHUNK)?;
            let ours = entry.compare_exchange(
                ptr::null_mut(),
                pages.as_ptr(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if ours.is_err() {
                os::unmap(pages, CHUNK);
            }
        }
        // NOTE: counted up only when the chunk is there, so that a failed map loses no number.
        match CUT.compare_exchange_weak(cut, cut + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(cut * SMALL_PER_LARGE + 1),
            Err(now) => cut = now,
        }
    }
}

/// Where the block with this number lies, if it has been cut.
fn address(number: u32) -> Option<NonNull<Block>> {
    let small = number.checked_sub(1)? as usize;
    let chunk = NonNull::new(CHUNK_TABLE.get(small / (CHUNK / SMALL))?.load(Ordering::Acquire))?;
    NonNull::new(chunk.as_ptr().wrapping_add(small % (CHUNK / SMALL) * SMALL).cast())
}

/// The block with a number from [`cut_large`] (or inside such a block), its number written in.
fn block_at(number: u32) -> Option<NonNull<Block>> {
    let block = address(number)?;
    // SAFETY: the address lies in a mapped chunk; zeroed pages are a valid header.
    unsafe { block.as_ref() }.number.store(number, Ordering::Relaxed);
    Some(block)
}

/// A stack of free blocks: the number of the top one, and a count of changes above it.
struct FreeList(AtomicU64);

impl FreeList {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn push(&self, block: NonNull<Block>) {
        // SAFETY: blocks are never unmapped.
        let header = unsafe { block.as_ref() };
        let number = header.number.load(Ordering::Relaxed);
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            header.next_free.store(head as u32, Ordering::Relaxed);
            let new = next_version(head) | u64::from(number);
            match self.0.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn pop(&self) -> Option<NonNull<Block>> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let block = address(head as u32)?;
            // SAFETY: mapped for good. If another thread took the block meanwhile, the value read
            // is stale, and the version in `head` makes the exchange fail.
            let below = unsafe { block.as_ref() }.next_free.load(Ordering::Relaxed);
            let new = next_version(head) | u64::from(below);
            match self.0.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(block),
                Err(now) => head = now,
            }
        }
    }
}

fn next_version(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
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
