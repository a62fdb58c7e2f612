//! The allocator of one hash table.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use super::own_tag::TagAllocator;
use allocator_api2::alloc::{AllocError, Allocator, Global};
use std::alloc::Layout;
use std::ptr::NonNull;

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
    use super::super::own_tag::OwnTag;
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
