//! The allocator of one hash table.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use super::own_tag::{Block, OwnTag};
use allocator_api2::alloc::{AllocError, Allocator, Global};
use std::alloc::Layout;
use std::ptr::NonNull;

#[cfg(tracking)]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Allocates from the global allocator under the table's tag, and remembers the address of the
/// table's block, because the table does not expose it.
///
/// A table holds one block, or two while it grows: it allocates the new block, moves the elements,
/// which calls the program's hasher, and frees the old block. If the hasher panics, the table frees
/// the new block instead. So the table's block is the younger of the last two blocks that are not
/// freed.
///
/// A table gives only a shared reference to its allocator, so the fields that change are atomics,
/// which keep the table `Sync`. Only code with exclusive access to the table writes them.
pub(super) struct TagAllocator {
    #[cfg(tracking)]
    node: AtomicU32,
    /// The addresses of the younger and the older block; 0 if there is none.
    #[cfg(tracking)]
    held: [AtomicUsize; 2],
}

#[cfg(tracking)]
impl TagAllocator {
    #[inline]
    pub(super) fn new(tag: OwnTag) -> Self {
        Self { node: AtomicU32::new(tag.node), held: [const { AtomicUsize::new(0) }; 2] }
    }

    #[inline]
    pub(super) fn tag(&self) -> OwnTag {
        OwnTag { node: self.node.load(Relaxed) }
    }

    /// Requires exclusive access to the table.
    #[inline]
    pub(super) fn set_tag(&self, tag: OwnTag) {
        self.node.store(tag.node, Relaxed);
    }

    /// The block of a table of this size, if it has one.
    pub(super) fn block(&self, size: usize) -> Option<Block> {
        // A table's block has a larger alignment, but only its address and size matter.
        let layout = Layout::from_size_align(size, 1).ok().filter(|layout| layout.size() > 0)?;
        let start = self.held[0].load(Relaxed);
        (start != 0).then(|| (std::ptr::without_provenance(start), layout))
    }

    fn add_block(&self, block: NonNull<[u8]>) {
        let [younger, older] = &self.held;
        older.store(younger.load(Relaxed), Relaxed);
        younger.store(block.addr().get(), Relaxed);
    }

    fn remove_block(&self, block: NonNull<u8>) {
        let [younger, older] = &self.held;
        if younger.load(Relaxed) == block.addr().get() {
            younger.store(older.load(Relaxed), Relaxed);
        }
        older.store(0, Relaxed);
    }
}

#[cfg(not(tracking))]
impl TagAllocator {
    #[inline]
    pub(super) fn new(tag: OwnTag) -> Self {
        let _ = tag;
        Self {}
    }

    #[inline]
    pub(super) fn tag(&self) -> OwnTag {
        OwnTag {}
    }

    #[inline]
    pub(super) fn set_tag(&self, tag: OwnTag) {
        let _ = tag;
    }

    #[inline]
    pub(super) fn block(&self, size: usize) -> Option<Block> {
        let _ = size;
        None
    }

    #[inline]
    fn add_block(&self, block: NonNull<[u8]>) {
        let _ = block;
    }

    #[inline]
    fn remove_block(&self, block: NonNull<u8>) {
        let _ = block;
    }
}

impl Clone for TagAllocator {
    /// The allocator of another table: it has the same tag, and no block yet.
    #[inline]
    fn clone(&self) -> Self {
        Self::new(self.tag())
    }
}

// SAFETY: `Global` allocates and frees every block, so a block stays valid when this value or a
// clone is moved or dropped, and any clone can free it. Remembering its address does not affect it.
unsafe impl Allocator for TagAllocator {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.tag().run(|| Global.allocate(layout))?;
        self.add_block(block);
        Ok(block)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.remove_block(block);
        // SAFETY: the caller makes the same promise.
        unsafe { Global.deallocate(block, layout) };
    }
}

#[cfg(all(test, tracking))]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_is_left_is_known_however_growing_ends() {
        let layout = Layout::new::<[u64; 8]>();
        let allocator = TagAllocator::new(OwnTag::of_thread());
        let take = || allocator.allocate(layout).expect("memory").cast::<u8>();
        let held = || allocator.block(64).map(|(start, _)| start.addr());
        // SAFETY: each block is freed once, with its layout.
        let give_back = |block| unsafe { allocator.deallocate(block, layout) };
        assert_eq!(held(), None);
        let first = take();
        assert_eq!(held(), Some(first.addr().get()));
        // The table grows, and the hasher panics.
        let second = take();
        give_back(second);
        assert_eq!(held(), Some(first.addr().get()));
        // The table grows.
        let third = take();
        give_back(first);
        assert_eq!(held(), Some(third.addr().get()));
        // A clone belongs to another table. Of three blocks that are held at once, the allocator
        // forgets the oldest; the two younger ones stay correct.
        assert_eq!(allocator.clone().block(64), None);
        let fourth = take();
        let fifth = take();
        give_back(fourth);
        assert_eq!(held(), Some(fifth.addr().get()));
        give_back(fifth);
        assert_eq!(held(), None);
        give_back(third);
        assert_eq!(allocator.block(0), None);
    }
}
