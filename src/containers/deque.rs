//! A queue that keeps its tag.

use super::TaggedVec;
use super::block::block_of;
use super::forward::{compares, equals, forward, resizing};
use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::collections::{TryReserveError, VecDeque, vec_deque};
use std::mem;
use std::ops::{Deref, IndexMut, RangeBounds};

/// A [`VecDeque`] whose memory carries a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedVecDeque;
/// use memledger::{Tag, group, tag};
///
/// group! { pub NETWORK = "Network"; }
/// const OUTGOING: Tag = tag!(NETWORK, "Connection::outgoing");
///
/// let mut outgoing = TaggedVecDeque::new(OUTGOING);
/// outgoing.push_back("hello");
/// outgoing.push_front("first");
/// assert_eq!(outgoing.pop_front(), Some("first"));
/// ```
///
/// It dereferences to `VecDeque`, and has the methods of [`VecDeque`] that make it grow. A queue
/// that is created without a tag takes the tag of the thread's context, as [`TaggedVec`] does.
///
/// # Cost
/// 8 bytes more than a `VecDeque`; none without feature `enable`.
///
/// # Misuse
/// It does not give out a `&mut VecDeque`, through which it would grow without its tag:
/// ```compile_fail,E0596
/// # memledger::group! { GROUP = "Group"; }
/// let mut tagged = memledger::containers::TaggedVecDeque::new(memledger::tag!(GROUP, "name"));
/// std::collections::VecDeque::push_back(&mut *tagged, 1);
/// ```
pub struct TaggedVecDeque<T> {
    plain: VecDeque<T>,
    tag: OwnTag,
}

impl<T> TaggedVecDeque<T> {
    /// An empty queue; allocates nothing.
    #[inline]
    pub fn new(tag: Tag) -> Self {
        Self { plain: VecDeque::new(), tag: OwnTag::of::<Self>(tag) }
    }

    /// An empty queue with room for `capacity` elements.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const OUTGOING: memledger::Tag = memledger::tag!(GROUP, "outgoing");
    /// use memledger::containers::TaggedVecDeque;
    ///
    /// let mut outgoing = TaggedVecDeque::with_capacity(OUTGOING, 16);
    /// outgoing.extend(["hello", "world"]);
    /// assert_eq!(outgoing.split_off(1), ["world"]); // with the same tag
    /// ```
    ///
    /// # Panics
    /// As [`VecDeque::with_capacity`].
    #[track_caller]
    pub fn with_capacity(tag: Tag, capacity: usize) -> Self {
        Self::with_room(OwnTag::of::<Self>(tag), capacity)
    }

    /// Takes over a plain queue and its block, which belongs to `tag` from now on.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const OUTGOING: memledger::Tag = memledger::tag!(GROUP, "outgoing");
    /// use memledger::containers::TaggedVecDeque;
    /// use std::collections::VecDeque;
    ///
    /// let mut outgoing = TaggedVecDeque::from_deque(OUTGOING, VecDeque::from([1, 2]));
    /// outgoing.push_front(0);
    /// assert_eq!(outgoing.into_deque(), [0, 1, 2]);
    /// ```
    pub fn from_deque(tag: Tag, plain: VecDeque<T>) -> Self {
        Self::claimed(OwnTag::of::<Self>(tag), plain)
    }

    /// Returns a plain queue with the same block, which belongs to the thread's context from now
    /// on. [`from_deque`](Self::from_deque) has an example.
    pub fn into_deque(mut self) -> VecDeque<T> {
        self.with_block(OwnTag::release);
        self.plain
    }

    /// Changes its tag: the memory that it holds, and all that it allocates later, belongs to
    /// `tag`.
    ///
    /// Costs one event if it holds a block. If the elements do not begin at the start of the block,
    /// they are moved there. Memory that the elements hold themselves keeps its tag.
    pub fn set_tag(&mut self, tag: Tag) {
        if self.tag.change(OwnTag::of::<Self>(tag)) {
            self.with_block(OwnTag::claim);
        }
    }

    #[track_caller]
    fn with_room(tag: OwnTag, capacity: usize) -> Self {
        Self { plain: tag.run(|| VecDeque::with_capacity(capacity)), tag }
    }

    fn claimed(tag: OwnTag, plain: VecDeque<T>) -> Self {
        let mut tagged = Self { plain, tag };
        tagged.with_block(OwnTag::claim);
        tagged
    }

    /// Calls `record` with the block, if that would be recorded. The plain queue does not expose
    /// its block, so it is converted to a vector and back, without a new block.
    fn with_block(&mut self, record: fn(OwnTag, Option<super::block::Block>)) {
        if self.tag.is_recorded() && self.plain.capacity() > 0 {
            let plain = Vec::from(mem::take(&mut self.plain));
            record(self.tag, block_of(plain.as_ptr(), plain.capacity()));
            self.plain = plain.into();
        }
    }

    #[inline]
    fn make_room(&mut self, additional: usize) {
        #[cold]
        #[inline(never)]
        fn grow<T>(tagged: &mut TaggedVecDeque<T>, additional: usize) {
            tagged.reserve(additional);
        }
        if additional > self.plain.capacity() - self.plain.len() {
            grow(self, additional);
        }
    }

    resizing! { plain of VecDeque:
        fn reserve(&mut self, additional: usize);
        fn reserve_exact(&mut self, additional: usize);
        fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn try_reserve_exact(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn shrink_to_fit(&mut self);
        fn shrink_to(&mut self, min_capacity: usize);
    }

    forward! { plain of VecDeque:
        fn pop_front(&mut self) -> Option<T>;
        fn pop_back(&mut self) -> Option<T>;
        fn front_mut(&mut self) -> Option<&mut T>;
        fn back_mut(&mut self) -> Option<&mut T>;
        fn get_mut(&mut self, index: usize) -> Option<&mut T>;
        fn iter_mut(&mut self) -> vec_deque::IterMut<'_, T>;
        fn range_mut[R: RangeBounds<usize>](&mut self, range: R) -> vec_deque::IterMut<'_, T>;
        fn as_mut_slices(&mut self) -> (&mut [T], &mut [T]);
        fn make_contiguous(&mut self) -> &mut [T];
        fn remove(&mut self, index: usize) -> Option<T>;
        fn swap_remove_front(&mut self, index: usize) -> Option<T>;
        fn swap_remove_back(&mut self, index: usize) -> Option<T>;
        fn swap(&mut self, i: usize, j: usize);
        fn rotate_left(&mut self, n: usize);
        fn rotate_right(&mut self, n: usize);
        fn truncate(&mut self, len: usize);
        fn clear(&mut self);
        fn retain[F: FnMut(&T) -> bool](&mut self, keep: F);
        fn retain_mut[F: FnMut(&mut T) -> bool](&mut self, keep: F);
        fn drain[R: RangeBounds<usize>](&mut self, range: R) -> vec_deque::Drain<'_, T>;
    }

    /// As [`VecDeque::push_back`].
    #[inline]
    #[track_caller]
    pub fn push_back(&mut self, value: T) {
        self.make_room(1);
        self.plain.push_back(value);
    }

    /// As [`VecDeque::push_front`].
    #[inline]
    #[track_caller]
    pub fn push_front(&mut self, value: T) {
        self.make_room(1);
        self.plain.push_front(value);
    }

    /// As [`VecDeque::insert`].
    #[track_caller]
    pub fn insert(&mut self, index: usize, value: T) {
        self.make_room(1);
        self.plain.insert(index, value);
    }

    /// As [`VecDeque::append`].
    #[track_caller]
    pub fn append(&mut self, other: &mut Self) {
        self.make_room(other.len());
        self.plain.append(&mut other.plain);
    }

    /// As [`VecDeque::split_off`]; the returned part has the same tag.
    #[must_use = "the elements are gone from this queue"]
    #[track_caller]
    pub fn split_off(&mut self, at: usize) -> Self {
        let plain = &mut self.plain;
        Self { plain: self.tag.run(|| plain.split_off(at)), tag: self.tag }
    }

    /// As [`VecDeque::resize_with`].
    #[track_caller]
    pub fn resize_with(&mut self, new_len: usize, make: impl FnMut() -> T) {
        self.make_room(new_len.saturating_sub(self.len()));
        self.plain.resize_with(new_len, make);
    }
}

impl<T: Clone> TaggedVecDeque<T> {
    /// As [`VecDeque::resize`].
    #[track_caller]
    pub fn resize(&mut self, new_len: usize, value: T) {
        self.make_room(new_len.saturating_sub(self.len()));
        self.plain.resize(new_len, value);
    }
}

impl<T: Clone> Clone for TaggedVecDeque<T> {
    fn clone(&self) -> Self {
        let mut clone = Self::with_room(self.tag, self.len());
        clone.plain.extend(self.plain.iter().cloned());
        clone
    }

    /// Keeps its own tag, and its block if that is large enough.
    fn clone_from(&mut self, source: &Self) {
        self.make_room(source.len().saturating_sub(self.len()));
        self.plain.clone_from(&source.plain);
    }
}

impl<T> Default for TaggedVecDeque<T> {
    /// Empty, with the tag of the thread's context, if it has one.
    #[inline]
    fn default() -> Self {
        Self { plain: VecDeque::new(), tag: OwnTag::of_thread() }
    }
}

impl<T> Deref for TaggedVecDeque<T> {
    type Target = VecDeque<T>;

    #[inline]
    fn deref(&self) -> &VecDeque<T> {
        &self.plain
    }
}

impl<T> std::ops::Index<usize> for TaggedVecDeque<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.plain[index]
    }
}

impl<T> IndexMut<usize> for TaggedVecDeque<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.plain[index]
    }
}

impl<T> Extend<T> for TaggedVecDeque<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        let mut elements = elements.into_iter();
        self.make_room(elements.size_hint().0);
        // NOTE: the iterator is the program's code, so it runs outside the tag.
        while let Some(element) = elements.next() {
            if self.plain.len() == self.plain.capacity() {
                self.make_room(elements.size_hint().0.saturating_add(1));
            }
            self.plain.push_back(element);
        }
    }
}

impl<'a, T: Copy + 'a> Extend<&'a T> for TaggedVecDeque<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.extend(elements.into_iter().copied());
    }
}

impl<T> FromIterator<T> for TaggedVecDeque<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(elements);
        tagged
    }
}

impl<T> IntoIterator for TaggedVecDeque<T> {
    type Item = T;
    type IntoIter = vec_deque::IntoIter<T>;

    #[inline]
    fn into_iter(self) -> vec_deque::IntoIter<T> {
        self.plain.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a TaggedVecDeque<T> {
    type Item = &'a T;
    type IntoIter = vec_deque::Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> vec_deque::Iter<'a, T> {
        self.plain.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut TaggedVecDeque<T> {
    type Item = &'a mut T;
    type IntoIter = vec_deque::IterMut<'a, T>;

    #[inline]
    fn into_iter(self) -> vec_deque::IterMut<'a, T> {
        self.plain.iter_mut()
    }
}

impl<T> From<VecDeque<T>> for TaggedVecDeque<T> {
    /// As [`from_deque`](Self::from_deque), with the tag of the thread's context.
    fn from(plain: VecDeque<T>) -> Self {
        Self::claimed(OwnTag::of_thread(), plain)
    }
}

#[expect(clippy::from_over_into, reason = "no impl is for a type of another crate")]
impl<T> Into<VecDeque<T>> for TaggedVecDeque<T> {
    fn into(self) -> VecDeque<T> {
        self.into_deque()
    }
}

impl<T> From<TaggedVec<T>> for TaggedVecDeque<T> {
    /// The same block, with the same tag.
    fn from(tagged: TaggedVec<T>) -> Self {
        Self { plain: tagged.plain.into(), tag: tagged.tag }
    }
}

impl<T> From<TaggedVecDeque<T>> for TaggedVec<T> {
    /// The same block, with the same tag; moves the elements to its start.
    fn from(tagged: TaggedVecDeque<T>) -> Self {
        Self { plain: tagged.plain.into(), tag: tagged.tag }
    }
}

compares! { plain: [T] TaggedVecDeque<T> }
equals! { plain:
    [T: PartialEq] TaggedVecDeque<T> = VecDeque<T>;
    [T: PartialEq] TaggedVecDeque<T> = Vec<T>;
    [T: PartialEq] TaggedVecDeque<T> = &[T];
    [T: PartialEq, const N: usize] TaggedVecDeque<T> = [T; N];
}
