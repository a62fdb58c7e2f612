//! A vector that keeps its tag.

use super::TaggedBox;
use super::block::{Block, block_of};
use super::forward::{borrows, compares, equals, forward, resizing};
use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::collections::TryReserveError;
use std::io;
use std::mem;
use std::ops::{Bound, Deref, DerefMut, Index, IndexMut, RangeBounds};
use std::slice::SliceIndex;
use std::vec;

/// A [`Vec`] whose memory carries a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedVec;
/// use memledger::{Tag, group, tag};
///
/// group! { pub RENDERING = "Rendering"; }
/// const VERTICES: Tag = tag!(RENDERING, "Mesh::vertices");
/// const SHADOWS: Tag = tag!(RENDERING, "Mesh::shadow_vertices");
///
/// let mut vertices = TaggedVec::new(VERTICES);
/// vertices.extend([1.0, 2.0, 3.0]);
/// vertices.push(4.0);
/// assert_eq!(vertices, [1.0, 2.0, 3.0, 4.0]);
///
/// // From now on its memory has the other tag, in the report too.
/// vertices.set_tag(SHADOWS);
/// ```
///
/// It dereferences to a slice, and has the methods of [`Vec`] that make it grow. Only its own block
/// carries the tag; memory that an iterator, a closure or a `clone` allocates does not.
///
/// A vector that is created without a tag (`default`, `collect`, `From`, deserialising) takes the
/// tag of the thread's context, as the block of a plain vector does. If the context has no tag, it
/// behaves as a plain vector until [`set_tag`](Self::set_tag). A clone has the tag of the original.
///
/// # Cost
/// 8 bytes more than a `Vec`; none without feature `enable`. A push within the capacity costs as
/// much as in a `Vec`. A push that grows the vector costs about 10 ns on top of the allocation.
///
/// # Misuse
/// It does not give out a `&mut Vec`, through which it would grow without its tag:
/// ```compile_fail,E0308
/// # memledger::group! { GROUP = "Group"; }
/// let mut tagged = memledger::containers::TaggedVec::new(memledger::tag!(GROUP, "name"));
/// let plain: &mut Vec<u8> = &mut tagged;
/// ```
/// [`into_vec`](Self::into_vec) and [`from_vec`](Self::from_vec) convert it to a plain vector and
/// back, without copying the elements. `new` requires a tag:
/// ```compile_fail,E0061
/// let tagged = memledger::containers::TaggedVec::<u8>::new();
/// ```
pub struct TaggedVec<T> {
    pub(super) plain: Vec<T>,
    pub(super) tag: OwnTag,
}

impl<T> TaggedVec<T> {
    /// An empty vector; allocates nothing.
    #[inline]
    pub fn new(tag: Tag) -> Self {
        Self::empty(OwnTag::of::<Self>(tag))
    }

    /// An empty vector with room for `capacity` elements.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const SAMPLES: memledger::Tag = memledger::tag!(GROUP, "samples");
    /// use memledger::containers::TaggedVec;
    ///
    /// let mut samples = TaggedVec::with_capacity(SAMPLES, 1000);
    /// samples.extend(0..1000); // within its capacity
    /// assert_eq!(samples.into_boxed_slice().len(), 1000);
    /// ```
    ///
    /// # Panics
    /// As [`Vec::with_capacity`].
    #[track_caller]
    pub fn with_capacity(tag: Tag, capacity: usize) -> Self {
        Self::with_room(OwnTag::of::<Self>(tag), capacity)
    }

    /// Takes over a plain vector and its block, which belongs to `tag` from now on.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const SAMPLES: memledger::Tag = memledger::tag!(GROUP, "samples");
    /// use memledger::containers::TaggedVec;
    ///
    /// let plain = vec![1, 2, 3];
    /// let block = plain.as_ptr();
    /// let tagged = TaggedVec::from_vec(SAMPLES, plain);
    /// assert_eq!(tagged.into_vec().as_ptr(), block); // the same block, and no copy
    /// ```
    pub fn from_vec(tag: Tag, plain: Vec<T>) -> Self {
        Self::claimed(OwnTag::of::<Self>(tag), plain)
    }

    /// Returns a plain vector with the same block, which belongs to the thread's context from now
    /// on. [`from_vec`](Self::from_vec) has an example.
    pub fn into_vec(self) -> Vec<T> {
        self.tag.release(self.block());
        self.plain
    }

    /// Returns the elements as a box with the same tag, after
    /// [`shrink_to_fit`](Self::shrink_to_fit). [`with_capacity`](Self::with_capacity) has an example.
    pub fn into_boxed_slice(self) -> TaggedBox<[T]> {
        let (tag, plain) = (self.tag, self.plain);
        TaggedBox { tag, plain: tag.run(|| plain.into_boxed_slice()) }
    }

    /// Changes its tag: the memory that it holds, and all that it allocates later, belongs to
    /// `tag`.
    ///
    /// Costs one event if it holds a block. Memory that the elements hold themselves keeps its tag.
    pub fn set_tag(&mut self, tag: Tag) {
        if self.tag.change(OwnTag::of::<Self>(tag)) {
            self.tag.claim(self.block());
        }
    }

    #[inline]
    pub(super) fn empty(tag: OwnTag) -> Self {
        Self { plain: Vec::new(), tag }
    }

    #[track_caller]
    pub(super) fn with_room(tag: OwnTag, capacity: usize) -> Self {
        Self { plain: tag.run(|| Vec::with_capacity(capacity)), tag }
    }

    pub(super) fn claimed(tag: OwnTag, plain: Vec<T>) -> Self {
        let tagged = Self { plain, tag };
        tag.claim(tagged.block());
        tagged
    }

    fn block(&self) -> Option<Block> {
        block_of(self.plain.as_ptr(), self.plain.capacity())
    }

    /// PERF: this is the capacity check of `push`; the compiler then removes the check of the plain
    /// `push`.
    #[inline]
    #[track_caller]
    fn make_room(&mut self, additional: usize) {
        #[cold]
        #[inline(never)]
        #[track_caller]
        fn grow<T>(tagged: &mut TaggedVec<T>, additional: usize) {
            tagged.reserve(additional);
        }
        if additional > self.plain.capacity() - self.plain.len() {
            grow(self, additional);
        }
    }

    resizing! { plain of Vec:
        fn reserve(&mut self, additional: usize);
        fn reserve_exact(&mut self, additional: usize);
        fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn try_reserve_exact(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn shrink_to_fit(&mut self);
        fn shrink_to(&mut self, min_capacity: usize);
    }

    forward! { plain of Vec:
        fn capacity(&self) -> usize;
        fn as_slice(&self) -> &[T];
        fn as_mut_slice(&mut self) -> &mut [T];
        fn pop(&mut self) -> Option<T>;
        fn pop_if(&mut self, predicate: impl FnOnce(&mut T) -> bool) -> Option<T>;
        fn remove(&mut self, index: usize) -> T;
        fn swap_remove(&mut self, index: usize) -> T;
        fn truncate(&mut self, len: usize);
        fn clear(&mut self);
        fn retain[F: FnMut(&T) -> bool](&mut self, keep: F);
        fn retain_mut[F: FnMut(&mut T) -> bool](&mut self, keep: F);
        fn dedup_by[F: FnMut(&mut T, &mut T) -> bool](&mut self, same: F);
        fn dedup_by_key[F: FnMut(&mut T) -> K, K: PartialEq](&mut self, key: F);
        fn drain[R: RangeBounds<usize>](&mut self, range: R) -> vec::Drain<'_, T>;
        fn spare_capacity_mut(&mut self) -> &mut [mem::MaybeUninit<T>];
    }

    /// As [`Vec::push`].
    #[inline]
    #[track_caller]
    pub fn push(&mut self, value: T) {
        self.make_room(1);
        self.plain.push(value);
    }

    /// As [`Vec::insert`].
    #[track_caller]
    pub fn insert(&mut self, index: usize, element: T) {
        self.make_room(1);
        self.plain.insert(index, element);
    }

    /// As [`Vec::append`].
    #[track_caller]
    pub fn append(&mut self, other: &mut Self) {
        self.make_room(other.len());
        self.plain.append(&mut other.plain);
    }

    /// As [`Vec::split_off`]; the returned part has the same tag.
    #[must_use = "the elements are gone from this vector"]
    #[track_caller]
    pub fn split_off(&mut self, at: usize) -> Self {
        let plain = &mut self.plain;
        Self { plain: self.tag.run(|| plain.split_off(at)), tag: self.tag }
    }

    /// As [`Vec::resize_with`].
    #[track_caller]
    pub fn resize_with(&mut self, new_len: usize, make: impl FnMut() -> T) {
        self.make_room(new_len.saturating_sub(self.len()));
        self.plain.resize_with(new_len, make);
    }

    /// As [`Vec::leak`]; the block keeps the tag.
    #[inline]
    pub fn leak<'a>(self) -> &'a mut [T] {
        self.plain.leak()
    }
}

impl<T: Clone> TaggedVec<T> {
    /// A vector with a copy of these elements.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const SAMPLES: memledger::Tag = memledger::tag!(GROUP, "samples");
    /// use memledger::containers::TaggedVec;
    ///
    /// let mut samples = TaggedVec::from_slice(SAMPLES, &[1, 2, 3]);
    /// samples.extend_from_within(1..);
    /// assert_eq!(samples, [1, 2, 3, 2, 3]);
    /// ```
    #[track_caller]
    pub fn from_slice(tag: Tag, elements: &[T]) -> Self {
        let mut tagged = Self::with_capacity(tag, elements.len());
        tagged.plain.extend_from_slice(elements);
        tagged
    }

    /// As [`Vec::resize`].
    #[track_caller]
    pub fn resize(&mut self, new_len: usize, value: T) {
        self.make_room(new_len.saturating_sub(self.len()));
        self.plain.resize(new_len, value);
    }

    /// As [`Vec::extend_from_slice`].
    #[track_caller]
    pub fn extend_from_slice(&mut self, elements: &[T]) {
        self.make_room(elements.len());
        self.plain.extend_from_slice(elements);
    }

    /// As [`Vec::extend_from_within`].
    #[track_caller]
    pub fn extend_from_within(&mut self, range: impl RangeBounds<usize>) {
        let range: (Bound<usize>, Bound<usize>) =
            (range.start_bound().cloned(), range.end_bound().cloned());
        self.make_room(self.plain[range].len());
        self.plain.extend_from_within(range);
    }
}

impl<T: PartialEq> TaggedVec<T> {
    forward! { plain of Vec:
        fn dedup(&mut self);
    }
}

impl<T: Clone> Clone for TaggedVec<T> {
    fn clone(&self) -> Self {
        let mut clone = Self::with_room(self.tag, self.len());
        clone.plain.extend_from_slice(&self.plain);
        clone
    }

    /// Keeps its own tag, and its block if that is large enough.
    fn clone_from(&mut self, source: &Self) {
        self.make_room(source.len().saturating_sub(self.len()));
        self.plain.clone_from(&source.plain);
    }
}

impl<T> Default for TaggedVec<T> {
    /// Empty, with the tag of the thread's context, if it has one.
    #[inline]
    fn default() -> Self {
        Self::empty(OwnTag::of_thread())
    }
}

impl<T> Deref for TaggedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.plain
    }
}

impl<T> DerefMut for TaggedVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.plain
    }
}

impl<T, I: SliceIndex<[T]>> Index<I> for TaggedVec<T> {
    type Output = I::Output;

    #[inline]
    fn index(&self, index: I) -> &I::Output {
        &self.plain[index]
    }
}

impl<T, I: SliceIndex<[T]>> IndexMut<I> for TaggedVec<T> {
    #[inline]
    fn index_mut(&mut self, index: I) -> &mut I::Output {
        &mut self.plain[index]
    }
}

impl<T> Extend<T> for TaggedVec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        // NOTE: the iterator is the program's code, so it runs outside the tag, and capacity is
        // reserved before.
        let mut elements = elements.into_iter();
        let (least, most) = elements.size_hint();
        self.make_room(least);
        if most == Some(least) && least > 0 {
            // PERF: the plain `extend` is specialised for iterators of known length. If an iterator
            // returns more elements than it reported, the block is reallocated, and keeps its tag.
            return self.plain.extend(elements);
        }
        while let Some(element) = elements.next() {
            if self.plain.len() == self.plain.capacity() {
                self.make_room(elements.size_hint().0.saturating_add(1));
            }
            self.plain.push(element);
        }
    }
}

impl<'a, T: Copy + 'a> Extend<&'a T> for TaggedVec<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.extend(elements.into_iter().copied());
    }
}

impl<T> FromIterator<T> for TaggedVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(elements);
        tagged
    }
}

impl<T> IntoIterator for TaggedVec<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    #[inline]
    fn into_iter(self) -> vec::IntoIter<T> {
        self.plain.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a TaggedVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.plain.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut TaggedVec<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    #[inline]
    fn into_iter(self) -> std::slice::IterMut<'a, T> {
        self.plain.iter_mut()
    }
}

impl<T> From<Vec<T>> for TaggedVec<T> {
    /// As [`from_vec`](Self::from_vec), with the tag of the thread's context.
    fn from(plain: Vec<T>) -> Self {
        Self::claimed(OwnTag::of_thread(), plain)
    }
}

#[expect(clippy::from_over_into, reason = "no impl is for a type of another crate")]
impl<T> Into<Vec<T>> for TaggedVec<T> {
    fn into(self) -> Vec<T> {
        self.into_vec()
    }
}

impl io::Write for TaggedVec<u8> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

borrows! { [T] TaggedVec<T> as [T] }
compares! { plain: [T] TaggedVec<T> }
equals! { plain:
    [T: PartialEq] TaggedVec<T> = Vec<T>;
    [T: PartialEq] TaggedVec<T> = [T];
    [T: PartialEq] TaggedVec<T> = &[T];
    [T: PartialEq] TaggedVec<T> = &mut [T];
    [T: PartialEq, const N: usize] TaggedVec<T> = [T; N];
    [T: PartialEq, const N: usize] TaggedVec<T> = &[T; N];
}
