//! A hash set that keeps its tag.

use super::forward::forward;
use super::iterators::iterators;
use super::own_tag::OwnTag;
use super::own_tag::TagAllocator;
use super::table::table;
use crate::scopes::Tag;
use hashbrown::hash_set as plain;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

type Plain<T, S> = hashbrown::HashSet<T, S, TagAllocator>;

/// A [`HashSet`] whose table carries a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedHashSet;
/// use memledger::{Tag, group, tag};
///
/// group! { pub PARSER = "Parser"; }
/// const SEEN: Tag = tag!(PARSER, "names seen");
///
/// let mut seen = TaggedHashSet::new(SEEN);
/// assert!(seen.insert("x"));
/// assert!(!seen.insert("x"));
/// ```
///
/// It has the methods of [`HashSet`]. A set that is created without a tag takes the tag of the
/// thread's context, as [`TaggedVec`](crate::containers::TaggedVec) does.
///
/// # Cost
/// 24 bytes more than a `HashSet`; none without feature `enable`. A growth costs about 10 ns more.
pub struct TaggedHashSet<T, S = RandomState> {
    plain: Plain<T, S>,
}

table! { HashSet TaggedHashSet [T] of T }

impl<T, S> TaggedHashSet<T, S> {
    forward! { plain of HashSet:
        fn capacity(&self) -> usize;
        fn hasher(&self) -> &S;
        fn len(&self) -> usize;
        fn is_empty(&self) -> bool;
        fn clear(&mut self);
        fn retain[F: FnMut(&T) -> bool](&mut self, keep: F);
    }

    /// As [`HashSet::iter`].
    #[inline]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.plain.iter())
    }

    /// As [`HashSet::drain`].
    #[inline]
    pub fn drain(&mut self) -> Drain<'_, T> {
        Drain(self.plain.drain())
    }
}

impl<T: Eq + Hash, S: BuildHasher> TaggedHashSet<T, S> {
    forward! { plain of HashSet:
        fn insert(&mut self, value: T) -> bool;
        fn replace(&mut self, value: T) -> Option<T>;
        fn reserve(&mut self, additional: usize);
        fn shrink_to_fit(&mut self);
        fn shrink_to(&mut self, min_capacity: usize);
    }

    /// As [`HashSet::contains`].
    #[inline]
    pub fn contains<Q: ?Sized + Eq + Hash>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.plain.contains(value)
    }

    /// As [`HashSet::get`].
    #[inline]
    pub fn get<Q: ?Sized + Eq + Hash>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.plain.get(value)
    }

    /// As [`HashSet::remove`].
    #[inline]
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.plain.remove(value)
    }

    /// As [`HashSet::take`].
    #[inline]
    pub fn take<Q: ?Sized + Eq + Hash>(&mut self, value: &Q) -> Option<T>
    where
        T: Borrow<Q>,
    {
        self.plain.take(value)
    }

    /// As [`HashSet::union`].
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const NAMES: memledger::Tag = memledger::tag!(GROUP, "names");
    /// use memledger::containers::TaggedHashSet;
    ///
    /// let (mut ours, mut theirs) = (TaggedHashSet::new(NAMES), TaggedHashSet::new(NAMES));
    /// ours.extend(["a", "b"]);
    /// theirs.extend(["b", "c"]);
    /// assert_eq!(ours.union(&theirs).count(), 3);
    /// assert!(ours.intersection(&theirs).eq(&["b"]));
    /// ```
    pub fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.plain.union(&other.plain)
    }

    /// As [`HashSet::intersection`].
    pub fn intersection<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.plain.intersection(&other.plain)
    }

    /// As [`HashSet::difference`].
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.plain.difference(&other.plain)
    }

    /// As [`HashSet::symmetric_difference`].
    pub fn symmetric_difference<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = &'a T> + Clone {
        self.plain.symmetric_difference(&other.plain)
    }

    /// As [`HashSet::is_disjoint`].
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.plain.is_disjoint(&other.plain)
    }

    /// As [`HashSet::is_subset`].
    pub fn is_subset(&self, other: &Self) -> bool {
        self.plain.is_subset(&other.plain)
    }

    /// As [`HashSet::is_superset`].
    pub fn is_superset(&self, other: &Self) -> bool {
        self.plain.is_superset(&other.plain)
    }
}

iterators! {
    /// See [`TaggedHashSet::iter`].
    #[derive(Clone, Debug)]
    Iter ['a, T] plain::Iter<'a, T> => &'a T;
    /// See [`TaggedHashSet::drain`].
    #[derive(Debug)]
    Drain ['a, T] plain::Drain<'a, T, TagAllocator> => T;
    /// The iterator over all elements of a set, by value.
    #[derive(Debug)]
    IntoIter [T] plain::IntoIter<T, TagAllocator> => T;
}

impl<T: Eq + Hash, S: BuildHasher> Extend<T> for TaggedHashSet<T, S> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        self.plain.extend(elements);
    }
}

impl<'a, T: Eq + Hash + Copy + 'a, S: BuildHasher> Extend<&'a T> for TaggedHashSet<T, S> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.plain.extend(elements);
    }
}

impl<T: Eq + Hash, S: BuildHasher + Default> FromIterator<T> for TaggedHashSet<T, S> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(elements);
        tagged
    }
}

impl<T, S> IntoIterator for TaggedHashSet<T, S> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    #[inline]
    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self.plain.into_iter())
    }
}

impl<'a, T, S> IntoIterator for &'a TaggedHashSet<T, S> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T: Eq + Hash, S: BuildHasher> PartialEq for TaggedHashSet<T, S> {
    fn eq(&self, other: &Self) -> bool {
        self.plain == other.plain
    }
}

impl<T: Eq + Hash, S: BuildHasher> Eq for TaggedHashSet<T, S> {}

impl<T: Eq + Hash, S: BuildHasher, R: BuildHasher> PartialEq<HashSet<T, R>>
    for TaggedHashSet<T, S>
{
    fn eq(&self, other: &HashSet<T, R>) -> bool {
        self.len() == other.len() && self.iter().all(|element| other.contains(element))
    }
}

impl<T: fmt::Debug, S> fmt::Debug for TaggedHashSet<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}
