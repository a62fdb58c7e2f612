//! A priority queue that keeps its tag.

use super::TaggedVec;
use super::block::{Block, block_of};
use super::forward::{forward, resizing};
use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::collections::binary_heap as plain;
use std::collections::{BinaryHeap, TryReserveError};
use std::fmt;
use std::ops::Deref;

/// A [`BinaryHeap`] whose memory carries a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedBinaryHeap;
/// use memledger::{Tag, group, tag};
///
/// group! { pub SCHEDULER = "Scheduler"; }
/// const WAITING: Tag = tag!(SCHEDULER, "waiting tasks");
///
/// let mut waiting = TaggedBinaryHeap::new(WAITING);
/// waiting.extend([3, 7, 5]);
/// waiting.push(6);
/// assert_eq!(waiting.pop(), Some(7));
/// assert_eq!(waiting.into_sorted_vec(), [3, 5, 6]);
/// ```
///
/// It dereferences to `BinaryHeap`, and has the methods of [`BinaryHeap`] that make it grow. A heap
/// that is created without a tag takes the tag of the thread's context, as [`TaggedVec`] does.
///
/// # Cost
/// 8 bytes more than a `BinaryHeap`; none without feature `enable`.
///
/// # Misuse
/// It does not give out a `&mut BinaryHeap`, through which it would grow without its tag:
/// ```compile_fail,E0596
/// # memledger::group! { GROUP = "Group"; }
/// let mut tagged = memledger::containers::TaggedBinaryHeap::new(memledger::tag!(GROUP, "name"));
/// std::collections::BinaryHeap::push(&mut *tagged, 1);
/// ```
pub struct TaggedBinaryHeap<T> {
    plain: BinaryHeap<T>,
    tag: OwnTag,
}

impl<T> TaggedBinaryHeap<T> {
    /// Returns a plain heap with the same block, which belongs to the thread's context from now on.
    /// [`from_heap`](Self::from_heap) has an example.
    pub fn into_heap(self) -> BinaryHeap<T> {
        self.tag.release(self.block());
        self.plain
    }

    /// As [`BinaryHeap::into_vec`]: the same block, with the same tag.
    /// [`with_capacity`](Self::with_capacity) has an example.
    pub fn into_vec(self) -> TaggedVec<T> {
        TaggedVec { plain: self.plain.into_vec(), tag: self.tag }
    }

    /// Changes its tag: the memory that it holds, and all that it allocates later, belongs to
    /// `tag`. Costs one event if it holds a block. Memory that the elements hold themselves keeps
    /// its tag.
    pub fn set_tag(&mut self, tag: Tag) {
        if self.tag.change(OwnTag::of::<Self>(tag)) {
            self.tag.claim(self.block());
        }
    }

    fn block(&self) -> Option<Block> {
        block_of(self.plain.as_slice().as_ptr(), self.plain.capacity())
    }

    fn make_room(&mut self, additional: usize) {
        if additional > self.plain.capacity() - self.plain.len() {
            self.reserve(additional);
        }
    }

    resizing! { plain of BinaryHeap:
        fn reserve(&mut self, additional: usize);
        fn reserve_exact(&mut self, additional: usize);
        fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn try_reserve_exact(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn shrink_to_fit(&mut self);
        fn shrink_to(&mut self, min_capacity: usize);
    }

    forward! { plain of BinaryHeap:
        fn clear(&mut self);
        fn drain(&mut self) -> plain::Drain<'_, T>;
    }
}

impl<T: Ord> TaggedBinaryHeap<T> {
    /// An empty heap; allocates nothing.
    #[inline]
    pub fn new(tag: Tag) -> Self {
        Self { plain: BinaryHeap::new(), tag: OwnTag::of::<Self>(tag) }
    }

    /// An empty heap with room for `capacity` elements.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const WAITING: memledger::Tag = memledger::tag!(GROUP, "waiting tasks");
    /// use memledger::containers::TaggedBinaryHeap;
    ///
    /// let mut waiting = TaggedBinaryHeap::with_capacity(WAITING, 100);
    /// waiting.extend(0..100); // within its capacity
    /// assert_eq!(waiting.into_vec().len(), 100);
    /// ```
    ///
    /// # Panics
    /// As [`BinaryHeap::with_capacity`].
    #[track_caller]
    pub fn with_capacity(tag: Tag, capacity: usize) -> Self {
        let mut tagged = Self::new(tag);
        tagged.make_room(capacity);
        tagged
    }

    /// Takes over a plain heap and its block, which belongs to `tag` from now on.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const WAITING: memledger::Tag = memledger::tag!(GROUP, "waiting tasks");
    /// use memledger::containers::TaggedBinaryHeap;
    /// use std::collections::BinaryHeap;
    ///
    /// let mut waiting = TaggedBinaryHeap::from_heap(WAITING, BinaryHeap::from([3, 7]));
    /// waiting.push(5);
    /// assert_eq!(waiting.into_heap().peek(), Some(&7)); // the same block
    /// ```
    pub fn from_heap(tag: Tag, plain: BinaryHeap<T>) -> Self {
        Self::claimed(OwnTag::of::<Self>(tag), plain)
    }

    fn claimed(tag: OwnTag, plain: BinaryHeap<T>) -> Self {
        let tagged = Self { plain, tag };
        tag.claim(tagged.block());
        tagged
    }

    forward! { plain of BinaryHeap:
        fn pop(&mut self) -> Option<T>;
        fn peek_mut(&mut self) -> Option<plain::PeekMut<'_, T>>;
        fn retain[F: FnMut(&T) -> bool](&mut self, keep: F);
    }

    /// As [`BinaryHeap::push`].
    #[track_caller]
    pub fn push(&mut self, element: T) {
        // The comparisons are the program's code, so they run outside the tag.
        self.make_room(1);
        self.plain.push(element);
    }

    /// As [`BinaryHeap::append`], but `other` keeps its block even if that is the larger one.
    #[track_caller]
    pub fn append(&mut self, other: &mut Self) {
        self.make_room(other.len());
        self.plain.extend(other.plain.drain());
    }

    /// As [`BinaryHeap::into_sorted_vec`]: the same block, with the same tag.
    /// [`TaggedBinaryHeap`] has an example.
    pub fn into_sorted_vec(self) -> TaggedVec<T> {
        TaggedVec { plain: self.plain.into_sorted_vec(), tag: self.tag }
    }
}

impl<T: Clone + Ord> Clone for TaggedBinaryHeap<T> {
    fn clone(&self) -> Self {
        let mut clone = Self { plain: BinaryHeap::new(), tag: self.tag };
        clone.make_room(self.len());
        clone.plain.extend(self.plain.iter().cloned());
        clone
    }
}

impl<T: Ord> Default for TaggedBinaryHeap<T> {
    /// Empty, with the tag of the thread's context, if it has one.
    #[inline]
    fn default() -> Self {
        Self { plain: BinaryHeap::new(), tag: OwnTag::of_thread() }
    }
}

impl<T> Deref for TaggedBinaryHeap<T> {
    type Target = BinaryHeap<T>;

    #[inline]
    fn deref(&self) -> &BinaryHeap<T> {
        &self.plain
    }
}

impl<T: Ord> Extend<T> for TaggedBinaryHeap<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        let elements = elements.into_iter();
        self.make_room(elements.size_hint().0);
        elements.for_each(|element| self.push(element));
    }
}

impl<'a, T: Ord + Copy + 'a> Extend<&'a T> for TaggedBinaryHeap<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.extend(elements.into_iter().copied());
    }
}

impl<T: Ord> FromIterator<T> for TaggedBinaryHeap<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(elements);
        tagged
    }
}

impl<T> IntoIterator for TaggedBinaryHeap<T> {
    type Item = T;
    type IntoIter = plain::IntoIter<T>;

    fn into_iter(self) -> plain::IntoIter<T> {
        self.plain.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a TaggedBinaryHeap<T> {
    type Item = &'a T;
    type IntoIter = plain::Iter<'a, T>;

    fn into_iter(self) -> plain::Iter<'a, T> {
        self.plain.iter()
    }
}

impl<T: Ord> From<BinaryHeap<T>> for TaggedBinaryHeap<T> {
    /// As [`from_heap`](Self::from_heap), with the tag of the thread's context.
    fn from(plain: BinaryHeap<T>) -> Self {
        Self::claimed(OwnTag::of_thread(), plain)
    }
}

impl<T: Ord> From<TaggedVec<T>> for TaggedBinaryHeap<T> {
    /// The same block, with the same tag, in O(n).
    fn from(tagged: TaggedVec<T>) -> Self {
        Self { plain: tagged.plain.into(), tag: tagged.tag }
    }
}

#[expect(clippy::from_over_into, reason = "no impl is for a type of another crate")]
impl<T> Into<BinaryHeap<T>> for TaggedBinaryHeap<T> {
    fn into(self) -> BinaryHeap<T> {
        self.into_heap()
    }
}

impl<T: fmt::Debug> fmt::Debug for TaggedBinaryHeap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}
