//! Boxes whose block has more alignment than their values need.
#![expect(unsafe_code, reason = "a block of its own alignment")]

use super::own_tag::OwnTag;
use crate::scopes::Tag;
use allocator_api2::alloc::{Allocator, Global};
use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// A box whose block has a chosen alignment: for vector instructions, for pages, or to prevent
/// false sharing. [`Tag::aligned_box`] and [`Tag::aligned_slice`] make one.
///
/// ```
/// # memledger::group! { GROUP = "Group"; }
/// const SAMPLES: memledger::Tag = memledger::tag!(GROUP, "Samples");
/// let mut samples = SAMPLES.aligned_slice(64, 1000, |_| 0.0_f32);
/// samples[7] = 1.0;
/// assert_eq!(samples.as_ptr().addr() % 64, 0);
/// ```
///
/// It cannot be converted to a plain `Box`, which would free the block with the alignment of the
/// type.
pub struct AlignedBox<T: ?Sized> {
    value: NonNull<T>,
    align: usize,
    _owns: PhantomData<T>,
}

// SAFETY: it owns its value, as a `Box` does.
unsafe impl<T: ?Sized + Send> Send for AlignedBox<T> {}
// SAFETY: it gives `&T` for `&self` only, as a `Box` does.
unsafe impl<T: ?Sized + Sync> Sync for AlignedBox<T> {}

impl Tag {
    /// Boxes a value at an address that is a multiple of `align`.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// const COUNTER: memledger::Tag = memledger::tag!(GROUP, "Counter");
    /// let counter = COUNTER.aligned_box(128, 7_u64); // alone in its cache lines
    /// assert_eq!((&raw const *counter).addr() % 128, 0);
    /// assert_eq!(counter.into_inner(), 7);
    /// ```
    ///
    /// # Panics
    /// If `align` is not a power of two.
    #[track_caller]
    pub fn aligned_box<T>(self, align: usize, value: T) -> AlignedBox<T> {
        let layout = aligned(Layout::new::<T>(), align);
        let block = allocate(OwnTag::of::<AlignedBox<T>>(self), layout).cast::<T>();
        // SAFETY: the block is new, and large and aligned enough for a `T`.
        unsafe { block.write(value) };
        AlignedBox { value: block, align, _owns: PhantomData }
    }

    /// Boxes a slice of `len` elements at an address that is a multiple of `align`. `make` returns
    /// the element at an index. [`AlignedBox`] has an example.
    ///
    /// # Panics
    /// If `align` is not a power of two, or the slice is larger than [`isize::MAX`] bytes.
    #[track_caller]
    pub fn aligned_slice<T>(
        self,
        align: usize,
        len: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> AlignedBox<[T]> {
        /// Drops the elements that are made already, and frees the block, if `make` panics.
        struct Filling<T> {
            start: NonNull<T>,
            filled: usize,
            layout: Layout,
        }
        impl<T> Drop for Filling<T> {
            fn drop(&mut self) {
                // SAFETY: `filled` elements were written; the block was allocated with this layout.
                unsafe {
                    ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.filled).drop_in_place();
                    Global.deallocate(self.start.cast(), self.layout);
                }
            }
        }
        let Ok(layout) = Layout::array::<T>(len) else {
            panic!("a slice of {len} elements of {} bytes is too large", size_of::<T>())
        };
        let layout = aligned(layout, align);
        let start = allocate(OwnTag::of::<AlignedBox<[T]>>(self), layout).cast::<T>();
        let mut filling = Filling { start, filled: 0, layout };
        for index in 0..len {
            let element = make(index);
            // SAFETY: the block has room for `len` elements, and this one is not written yet.
            unsafe { start.add(index).write(element) };
            filling.filled += 1;
        }
        std::mem::forget(filling);
        AlignedBox { value: NonNull::slice_from_raw_parts(start, len), align, _owns: PhantomData }
    }
}

#[track_caller]
fn aligned(layout: Layout, align: usize) -> Layout {
    let Ok(layout) = layout.align_to(align) else {
        panic!("{align} is no alignment of a block of {} bytes", layout.size())
    };
    layout
}

fn allocate(tag: OwnTag, layout: Layout) -> NonNull<u8> {
    match tag.run(|| Global.allocate(layout)) {
        Ok(block) => block.cast(),
        Err(_) => handle_alloc_error(layout),
    }
}

impl<T> AlignedBox<T> {
    /// Takes the value out, and frees the block. [`Tag::aligned_box`] has an example.
    pub fn into_inner(self) -> T {
        let layout = self.layout();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the value is read once and not dropped here; its block was allocated with
        // `layout`.
        unsafe {
            let value = this.value.read();
            Global.deallocate(this.value.cast(), layout);
            value
        }
    }
}

impl<T: ?Sized> AlignedBox<T> {
    fn layout(&self) -> Layout {
        aligned(Layout::for_value(&**self), self.align)
    }
}

impl<T: ?Sized> Deref for AlignedBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as this box.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for AlignedBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value lives as long as this box, which is borrowed mutably.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for AlignedBox<T> {
    fn drop(&mut self) {
        let layout = self.layout();
        // SAFETY: the value is dropped once; the block was allocated with this layout.
        unsafe {
            self.value.drop_in_place();
            Global.deallocate(self.value.cast(), layout);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for AlignedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
