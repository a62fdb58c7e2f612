//! Single allocations under a tag, for plain owners.
#![expect(unsafe_code, reason = "raw blocks")]

use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::alloc::Layout;
use std::ptr::NonNull;

/// The type that a raw block is named after, if its tag has no name.
struct Block;

/// Single allocations that carry the tag and have a plain owner. Only the block itself carries the
/// tag; memory that a value or a closure allocates belongs to the thread's context.
///
/// Without feature `enable`, these are the plain calls.
impl Tag {
    /// As [`Box::new`].
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// const TREE: memledger::Tag = memledger::tag!(GROUP, "Tree");
    /// let leaf = TREE.boxed([0_u64; 8]);
    /// # drop(leaf);
    /// ```
    #[inline]
    pub fn boxed<T>(self, value: T) -> Box<T> {
        OwnTag::of::<Box<T>>(self).run(|| Box::new(value))
    }

    /// As [`Vec::with_capacity`]. The block keeps the tag when the vector grows, in place or not. A
    /// vector without capacity has no block to carry the tag: use a
    /// [`TaggedVec`](crate::containers::TaggedVec).
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// const PATH: memledger::Tag = memledger::tag!(GROUP, "Path");
    /// let mut path = PATH.vec(16); // a plain `Vec`
    /// path.extend(0..100);
    /// assert_eq!(path.len(), 100);
    /// ```
    ///
    /// # Panics
    /// As [`Vec::with_capacity`].
    #[inline]
    #[track_caller]
    pub fn vec<T>(self, capacity: usize) -> Vec<T> {
        OwnTag::of::<Vec<T>>(self).run(|| Vec::with_capacity(capacity))
    }

    /// A boxed slice of `len` elements. `make` returns the element at an index.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const TABLE: memledger::Tag = memledger::tag!(GROUP, "Table");
    /// let squares = TABLE.boxed_slice(5, |i| i * i);
    /// assert_eq!(*squares, [0, 1, 4, 9, 16]);
    /// ```
    ///
    /// # Panics
    /// As [`Vec::with_capacity`].
    #[track_caller]
    pub fn boxed_slice<T>(self, len: usize, make: impl FnMut(usize) -> T) -> Box<[T]> {
        let mut elements = self.vec(len);
        elements.extend((0..len).map(make));
        // The length is the capacity, so this does not allocate.
        elements.into_boxed_slice()
    }

    /// A block as from [`std::alloc::alloc`]; `None` if there is no memory. For a layout of size 0,
    /// returns an aligned address without a block.
    ///
    /// Free a block by [`std::alloc::dealloc`] with the same layout.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const PAGES: memledger::Tag = memledger::tag!(GROUP, "Pages");
    /// use std::alloc::{Layout, dealloc, handle_alloc_error};
    ///
    /// let page = Layout::from_size_align(8192, 4096).unwrap();
    /// let block = PAGES.block(page).unwrap_or_else(|| handle_alloc_error(page));
    /// assert_eq!(block.addr().get() % 4096, 0);
    /// // SAFETY: it was allocated with this layout.
    /// unsafe { dealloc(block.as_ptr(), page) };
    /// ```
    #[inline]
    pub fn block(self, layout: Layout) -> Option<NonNull<u8>> {
        use allocator_api2::alloc::{Allocator, Global};
        let block = OwnTag::of::<Block>(self).run(|| Global.allocate(layout)).ok()?;
        Some(block.cast())
    }

    /// As [`block`](Self::block), filled with zeros, as from [`std::alloc::alloc_zeroed`].
    /// It is freed in the same way.
    #[inline]
    pub fn zeroed_block(self, layout: Layout) -> Option<NonNull<u8>> {
        use allocator_api2::alloc::{Allocator, Global};
        let block = OwnTag::of::<Block>(self).run(|| Global.allocate_zeroed(layout)).ok()?;
        Some(block.cast())
    }

    /// Makes a block larger or smaller, as [`std::alloc::realloc`] does. From then on, the block
    /// belongs to this tag, whatever tag it had. Returns `None` if there is no memory, and leaves
    /// the block unchanged. The old and the new size may be 0. Costs one event more than a plain
    /// reallocation.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const TEXT: memledger::Tag = memledger::tag!(GROUP, "Text");
    /// use std::alloc::{Layout, dealloc, handle_alloc_error};
    ///
    /// let small = Layout::new::<[u8; 100]>();
    /// let block = TEXT.block(small).unwrap_or_else(|| handle_alloc_error(small));
    /// // SAFETY: it was allocated with this layout, and is not used any more.
    /// let block = unsafe { TEXT.realloc(block, small, 1000) };
    /// let large = Layout::new::<[u8; 1000]>();
    /// let block = block.unwrap_or_else(|| handle_alloc_error(large));
    /// // SAFETY: it has this layout now.
    /// unsafe { dealloc(block.as_ptr(), large) };
    /// ```
    ///
    /// # Safety
    /// `block` was allocated with `layout`, by a tag or by [`std::alloc::alloc`], and is not used
    /// any more unless the result is `None`. `new_size`, rounded up to the alignment, is at most
    /// [`isize::MAX`].
    pub unsafe fn realloc(
        self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        use allocator_api2::alloc::{Allocator, Global};
        let tag = OwnTag::of::<Block>(self);
        let new = Layout::from_size_align(new_size, layout.align()).ok()?;
        let moved = tag.run(|| {
            // SAFETY: the caller makes the same promise about the block; the sizes are compared, as
            // `grow` and `shrink` require.
            unsafe {
                if new.size() >= layout.size() {
                    Global.grow(block, layout, new)
                } else {
                    Global.shrink(block, layout, new)
                }
            }
        });
        let moved = moved.ok()?.cast::<u8>();
        // If the old size was 0, the block is new, and has the tag already.
        if layout.size() > 0 && new.size() > 0 {
            tag.claim(Some((moved.as_ptr(), new)));
        }
        Some(moved)
    }
}
