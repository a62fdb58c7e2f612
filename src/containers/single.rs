//! Single allocations under a tag, for plain owners.

use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::alloc::Layout;
use std::ptr::NonNull;

/// A single allocation that carries the tag, in the hands of a plain owner. Only the block itself
/// does: what a value or a closure allocates on the way belongs to the thread's context.
///
/// Without feature `enable` these are the plain calls.
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
        OwnTag::of(self).run(|| Box::new(value))
    }

    /// As [`Vec::with_capacity`]: while it grows in place or moves, its block keeps the tag. One that
    /// begins empty has no block to carry a tag: take a [`TaggedVec`](crate::TaggedVec).
    ///
    /// # Panics
    /// As [`Vec::with_capacity`].
    #[inline]
    #[track_caller]
    pub fn vec<T>(self, capacity: usize) -> Vec<T> {
        OwnTag::of(self).run(|| Vec::with_capacity(capacity))
    }

    /// A slice of `len` elements, each made by `make` of its place.
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
        // As long as its room: nothing is allocated.
        elements.into_boxed_slice()
    }

    /// An aligned block, as [`std::alloc::alloc`] gives it; `None` if there is no memory. For an
    /// empty layout it is aligned, and no block.
    ///
    /// A block is freed by [`std::alloc::dealloc`] with the same layout.
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
        let block = OwnTag::of(self).run(|| Global.allocate(layout)).ok()?;
        Some(block.cast())
    }

    /// The same, filled with zeros, as [`std::alloc::alloc_zeroed`] gives it.
    #[inline]
    pub fn zeroed_block(self, layout: Layout) -> Option<NonNull<u8>> {
        use allocator_api2::alloc::{Allocator, Global};
        let block = OwnTag::of(self).run(|| Global.allocate_zeroed(layout)).ok()?;
        Some(block.cast())
    }
}
